package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func parentOf(pid int) (int, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return 0, ErrGone
	}
	return int(k.Eproc.Ppid), nil
}

// TerminalOf is the name of the device of a process's controlling terminal, "" when it has none. ErrGone, ErrUnknown.
func TerminalOf(pid int) (string, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return "", ErrGone
	}
	if k.Eproc.Tdev == -1 { // NODEV
		return "", nil
	}
	return fmt.Sprintf("/dev/ttys%03d", k.Eproc.Tdev&0xffffff), nil
}
