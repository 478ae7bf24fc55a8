//go:build unix

package shim

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"syscall"

	"mcpx/internal/crash"
	"mcpx/internal/process"
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
	runtime.LockOSThread()
	if err := process.HearParent(); err != nil {
		return 1
	}
	if _, err := report.Write([]byte{released}); err != nil {
		return 1 // it died before we listened
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
