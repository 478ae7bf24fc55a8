package process

import "testing"

func TestTerminalName(t *testing.T) {
	for number, want := range map[int]string{0: "", 34816: "/dev/pts/0", 34819: "/dev/pts/3", 1025: "/dev/tty1", 1088: "/dev/ttyS0", 1083400: "/dev/pts/264"} {
		if got := terminalName(number); got != want {
			t.Errorf("device %d is %q, want %q", number, got, want)
		}
	}
}
