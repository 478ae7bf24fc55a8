//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
)

// ReadyFD is the descriptor on which a detached process finds its ready pipe.
const ReadyFD = 3

// maxReady bounds what a detached process may say about its start: one line or an error text.
const maxReady = 64 << 10

// Detached says how to start a process of our own that outlives us.
type Detached struct {
	Exe   string
	Args  []string // without the name
	Env   []string // the whole environment
	Stdin []byte   // given on its stdin, then EOF; a place for secrets, which must be on no command line
	Log   *os.File // its stdout and stderr; nil is the null device
	Via   []string // a command that becomes the process, put before it (ScopeCommand); nil for none
}

// StartDetached starts the process in a new session with a ready pipe, waits until the pipe is closed and returns what
// was written to it. An empty answer is an error: the process ended before it was ready. When ctx is done first the
// process is killed. It is reaped when it ends; a process that it started itself is not our child.
func StartDetached(ctx context.Context, d Detached) (ready []byte, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	argv := slices.Concat(d.Via, []string{d.Exe}, d.Args)
	x := exec.Command(argv[0], argv[1:]...)
	x.Env = d.Env
	x.Stdin = bytes.NewReader(d.Stdin)
	if d.Log != nil {
		x.Stdout, x.Stderr = d.Log, d.Log
	}
	x.ExtraFiles = []*os.File{w}
	x.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = startOwn(x)
	_ = w.Close() // the child has its own copy; ours would keep the pipe from ending
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- waitOwn(x) }()

	stop := context.AfterFunc(ctx, func() { _ = r.Close() })
	defer stop()
	ready, err = io.ReadAll(io.LimitReader(r, maxReady))
	if ctx.Err() != nil {
		_ = x.Process.Kill() // what is late is not wanted any more, and would surprise the next attempt
		return nil, fmt.Errorf("%s was not ready in time: %w", d.Exe, context.Cause(ctx))
	}
	if err != nil {
		return nil, err
	}
	if len(ready) > 0 {
		return ready, nil
	}
	select {
	case err := <-ended:
		return nil, errors.Join(fmt.Errorf("%s ended before it was ready", d.Exe), err)
	case <-ctx.Done():
		return nil, fmt.Errorf("%s closed its ready pipe without a word: %w", d.Exe, context.Cause(ctx))
	}
}

// HandOver starts the file again in a new session with our own stdin and ready pipe, and does not wait: the caller
// exits next, so that the new process has no parent but init.
func HandOver(exe string, args []string) error {
	x := exec.Command(exe, args...)
	x.Env = os.Environ()
	x.Stdin, x.Stdout, x.Stderr = os.Stdin, os.Stdout, os.Stderr
	x.ExtraFiles = []*os.File{os.NewFile(ReadyFD, "ready")}
	x.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := x.Start(); err != nil {
		return fmt.Errorf("start %s: %w", exe, err)
	}
	return x.Process.Release()
}
