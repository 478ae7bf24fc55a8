//go:build unix

package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Successor is a process that was started to take the place of ours, seen from the old one.
type Successor struct {
	Pid     int
	Orders  *os.File // what we write, it reads
	Reports *os.File // what it writes, we read; EOF when it has ended

	cmd  *exec.Cmd
	done chan struct{}
}

// StartSuccessor starts the process in a new session with the files and a pipe each way. It is reaped when it ends; it
// goes on when we end.
func StartSuccessor(s Succession) (*Successor, error) {
	ordersR, ordersW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ordersR.Close()
	reportsR, reportsW, err := os.Pipe()
	if err != nil {
		_ = ordersW.Close()
		return nil, err
	}
	defer reportsW.Close() // its copy must be the only one, or its end would not show
	x := exec.Command(s.Exe, s.Args...)
	x.Env = s.Env
	if s.Log != nil {
		x.Stdout, x.Stderr = s.Log, s.Log
	}
	x.ExtraFiles = append([]*os.File{ordersR, reportsW}, s.Files...)
	x.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := startOwn(x); err != nil {
		_, _ = ordersW.Close(), reportsR.Close() // nothing was written
		return nil, explain(s.Exe, err)
	}
	next := &Successor{Pid: x.Process.Pid, Orders: ordersW, Reports: reportsR, cmd: x, done: make(chan struct{})}
	go func() {
		_ = waitOwn(x) // how it ended is told by its reports and its log
		close(next.done)
	}()
	return next, nil
}

// End kills the process when it still runs, waits until it is gone and closes the pipes.
func (s *Successor) End() {
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.done
	s.Release()
}

// Release closes the pipes; the process goes on.
func (s *Successor) Release() {
	_, _ = s.Orders.Close(), s.Reports.Close() // whatever was said on them was said
}

// Duplicate gives a copy of the descriptor of a socket for Succession.Files. Unlike the File method of package net it
// leaves the socket in non-blocking mode, for both processes: the mode belongs to what they share, and an accept that
// blocks cannot be ended.
func Duplicate(socket syscall.Conn) (*os.File, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var dupErr error
	if err := raw.Control(func(of uintptr) { fd, dupErr = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, dupErr
	}
	return os.NewFile(uintptr(fd), "socket"), nil
}

// Inherited is what a successor finds when it starts.
type Inherited struct {
	Orders  *os.File // what the old process writes; EOF when it has ended
	Reports *os.File
	Files   []*os.File // as in Succession.Files
}

// Inherit takes the descriptors that StartSuccessor gave. They are closed in every process that this one starts.
func Inherit(files int) (Inherited, error) {
	fds := make([]*os.File, filesFD-ordersFD+files)
	for i := range fds { // before any of them is touched: in a process that was started by hand they are the runtime's
		fd := ordersFD + i
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || fd < filesFD && st.Mode&unix.S_IFMT != unix.S_IFIFO {
			return Inherited{}, errors.Join(fmt.Errorf("descriptor %d was not inherited", fd), err)
		}
	}
	for i := range fds {
		fd := ordersFD + i
		syscall.CloseOnExec(fd)
		fds[i] = os.NewFile(uintptr(fd), fmt.Sprintf("inherited %d", fd))
	}
	return Inherited{Orders: fds[0], Reports: fds[1], Files: fds[2:]}, nil
}
