package process

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttr: there is no parent-death signal here. A child reads EOF on stdin when its parent dies, and the next
// daemon clears one that ignores that.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// HearParent does nothing here: see childAttr.
func HearParent() error { return nil }

// blockingPipe makes a pipe that the runtime's poller never sees: os.NewFile registers only non-blocking descriptors.
func blockingPipe() (r, w *os.File, err error) {
	var fds [2]int
	// Without pipe2 a fork of another thread may copy the descriptors before the flag is set.
	syscall.ForkLock.RLock()
	err = unix.Pipe(fds[:])
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("pipe", err)
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// BecomeSubreaper does nothing here: the system has no subreaper, so orphans that leave the group are not found.
func BecomeSubreaper() error { return nil }

// ReapOrphans has nothing to do: without a subreaper no orphan becomes our child.
func ReapOrphans(int) {}
