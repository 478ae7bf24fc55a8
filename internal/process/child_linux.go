package process

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// HearParent lets the calling thread hear of the death of the parent, as the main thread of what Start started does. The kernel
// keeps that for each thread, and of all threads only the one that executes stays (prctl(2), PR_SET_PDEATHSIG): a process that
// becomes another program locks its thread and asks again. Who died before is not told of.
func HearParent() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0))
}

// blockingPipe makes a pipe that the runtime's poller never sees: os.NewFile registers only non-blocking descriptors.
func blockingPipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// BecomeSubreaper makes orphaned descendants children of this process, so that they are found when a child is ended.
func BecomeSubreaper() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// ReapOrphans takes the exit status of ended children of this process, except the one with the given pid, which has a
// waiter of its own.
func ReapOrphans(except int) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		pid := int(siginfoPid(&info))
		if err != nil || pid == 0 || pid == except {
			return // the waiter takes it in a moment; what ended behind it is found at the next call
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // nobody asks how an orphan ended
	}
}

// siginfoPid reads si_pid, which follows signo, errno, code and, on 64 bits, four bytes of padding (sigaction(2)).
func siginfoPid(info *unix.Siginfo) int32 {
	return *(*int32)(unsafe.Add(unsafe.Pointer(info), 3*4+(unsafe.Sizeof(uintptr(0))-4)))
}
