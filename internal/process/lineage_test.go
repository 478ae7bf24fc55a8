package process

import (
	"os"
	"runtime"
	"slices"
	"testing"
)

func TestLineage(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("skip: this system does not show its processes")
	}
	line := Lineage(os.Getpid())
	if len(line) < 2 || line[0] != os.Getpid() || line[1] != os.Getppid() {
		t.Errorf("the lineage of %d, child of %d, is %v", os.Getpid(), os.Getppid(), line)
	}
	if slices.Contains(line, 0) {
		t.Errorf("%v names the kernel", line)
	}
	if got := Lineage(1 << 30); !slices.Equal(got, []int{1 << 30}) {
		t.Errorf("the lineage of nobody is %v", got)
	}
	if _, err := TerminalOf(1 << 30); err == nil {
		t.Error("nobody has a terminal")
	}
}
