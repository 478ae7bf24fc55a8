//go:build unix

package text

import (
	"syscall"
	"testing"
	"time"
)

// cpuTime is the processor time of this process: unlike the clock it does not grow with what else the machine does.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
