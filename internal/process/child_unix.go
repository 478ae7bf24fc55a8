//go:build unix

package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Child is a started process that leads its own process group.
type Child struct {
	ID     Identity
	Stdin  *os.File // write end
	Stdout *os.File // read end
	Stderr *os.File // read end

	done   chan struct{}
	status Status
	usage  Usage
}

// Start runs the command with three plain pipes in a new process group. On Linux the child gets SIGTERM when the
// calling process dies. The error is a *fault.Error that names the cause. The child is reaped as soon as it ends,
// whether Wait is called or not.
func Start(c Command) (*Child, error) {
	pipes, err := openPipes(c.Blocking)
	if err != nil {
		return nil, fmt.Errorf("pipes for %s: %w", c.File, err)
	}
	child := &Child{Stdin: pipes.stdin.w, Stdout: pipes.stdout.r, Stderr: pipes.stderr.r, done: make(chan struct{})}
	started := make(chan error)
	go child.run(c, pipes, started)
	if err := <-started; err != nil {
		pipes.close()
		return nil, explain(c.File, err)
	}
	pipes.closeChildEnds()
	return child, nil
}

// run starts the process and waits for its end on one locked thread: the kernel sends the parent-death signal when
// the thread that forked ends, not the process, so that thread must live as long as the child.
func (c *Child) run(cmd Command, p pipes, started chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	x := &exec.Cmd{
		Path: cmd.File, Args: cmd.Argv, Dir: cmd.Dir, Env: cmd.Env,
		Stdin: p.stdin.r, Stdout: p.stdout.w, Stderr: p.stderr.w, ExtraFiles: cmd.Extra,
		SysProcAttr: childAttr(),
	}
	if err := startOwn(x); err != nil {
		started <- err
		return
	}
	// The child cannot be reaped before Wait, so its pid still names it, even if it has ended already.
	c.ID = identifyChild(x.Process.Pid)
	started <- nil
	err := waitOwn(x)
	c.status, c.usage = statusOf(x.ProcessState, err), usageOf(x.ProcessState)
	close(c.done)
}

// Done is closed when the process has ended and Status is known.
func (c *Child) Done() <-chan struct{} { return c.done }

// Status is how the process ended; valid after Done.
func (c *Child) Status() Status { return c.status }

// Usage is what the process used up; valid after Done.
func (c *Child) Usage() Usage { return c.usage }

func usageOf(state *os.ProcessState) Usage {
	if state == nil {
		return Usage{}
	}
	return Usage{User: state.UserTime(), System: state.SystemTime()}
}

func statusOf(state *os.ProcessState, err error) Status {
	if state == nil {
		return Status{Code: -1, Name: fmt.Sprint(err)} // wait itself failed: the kernel has no status for us
	}
	ws, _ := state.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return Status{Code: -1, Signal: int(ws.Signal()), Name: unix.SignalName(ws.Signal()), Core: ws.CoreDump()}
	}
	return Status{Code: ws.ExitStatus()}
}

// pipe is one pipe; the parent's end is close-on-exec, the child's end is handed over by exec.
type pipe struct{ r, w *os.File }

type pipes struct{ stdin, stdout, stderr pipe }

func openPipes(blocking bool) (p pipes, err error) {
	for _, at := range []*pipe{&p.stdin, &p.stdout, &p.stderr} {
		if blocking {
			at.r, at.w, err = blockingPipe()
		} else {
			at.r, at.w, err = os.Pipe()
		}
		if err != nil {
			p.close()
			return p, err
		}
	}
	return p, nil
}

func (p pipes) all() []*os.File {
	return []*os.File{p.stdin.r, p.stdin.w, p.stdout.r, p.stdout.w, p.stderr.r, p.stderr.w}
}

func (p pipes) close() {
	for _, f := range p.all() {
		if f != nil {
			_ = f.Close() // nothing was written yet, so nothing can be lost
		}
	}
}

// closeChildEnds closes what only the child may hold: with our copy of the write end open, its end would never show
// as EOF.
func (p pipes) closeChildEnds() {
	for _, f := range []*os.File{p.stdin.r, p.stdout.w, p.stderr.w} {
		_ = f.Close() // the child has its own copy
	}
}

// IsClosedPipe reports whether err says that the reader of a pipe is gone.
func IsClosedPipe(err error) bool {
	return errors.Is(err, unix.EPIPE) || errors.Is(err, os.ErrClosed)
}
