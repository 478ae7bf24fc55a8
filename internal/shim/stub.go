//go:build unix

package shim

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"syscall"

	"mcpx/internal/crash"
)

// The descriptors of a stub.
const (
	gateFD   = 3
	reportFD = 4
)

// released is what a stub reports right before its exec: whatever happens to it earlier, the command has not run.
const released = 'x'

// maxReport bounds what a stub may say.
const maxReport = 4 << 10

// A stub executes on the thread that it began on: the kernel tells of the death of a parent to that one, and of all threads only
// the one that executes stays (prctl(2), PR_SET_PDEATHSIG). Nothing later than init is sure to run on it.
func init() {
	if len(os.Args) == 4 && os.Args[1] == Subcommand && os.Args[3] == stubArg {
		runtime.LockOSThread()
	}
}

// stub waits at the gate of a job and becomes its command. When the gate ends without opening, the supervisor is gone, and
// the command is not run.
func stub(b bundle) int {
	syscall.CloseOnExec(gateFD)
	syscall.CloseOnExec(reportFD)
	gate, report := os.NewFile(gateFD, "gate"), os.NewFile(reportFD, "report")
	var sp jobSpec
	specErr := readJSON(b.spec(), &sp)
	if n, err := gate.Read(make([]byte, 1)); n != 1 || err != nil {
		return 1
	}
	crash.Point("job.stub.released")
	if _, err := report.Write([]byte{released}); err != nil {
		return 1
	}
	err := specErr
	if err == nil {
		own := crash.Environ()
		env := slices.DeleteFunc(os.Environ(), func(v string) bool { return slices.Contains(own, v) })
		err = syscall.Exec(sp.File, sp.Argv, env)
	}
	if errors.Is(err, syscall.ENOENT) {
		err = errors.New(sp.File + " does not exist, or its interpreter does not")
	}
	_, _ = report.WriteString(err.Error()) // nobody reads it: then the supervisor is gone
	return 127
}
