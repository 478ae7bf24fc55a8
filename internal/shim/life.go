//go:build unix

package shim

import (
	"sync"
	"syscall"
	"time"

	"mcpx/internal/process"
)

const (
	// drainWait is how long output is read on after the child has ended, when a grandchild keeps a pipe open, and how
	// long a child may live on after it closed stdout.
	drainWait = 3 * time.Second
	// groupWait is how long the rest of a group gets to vanish after SIGKILL.
	groupWait = time.Second
)

// Reasons of an exit; gateway.ExitReason has the same texts.
const (
	reasonExited       = "exited"
	reasonSpawnFailed  = "spawn_failed"
	reasonTerminated   = "terminated"
	reasonStdoutClosed = "stdout_closed"
)

// life is the course of one child from its start to the last byte of its output. It is the same code in the
// supervisor and in the daemon.
type life struct {
	child      *process.Child
	out, errs  chan struct{} // closed when stdout and stderr are read to their ends
	closeStdin func()        // must not block
	tail       *tail
	steps      process.Ladder // used where end is given none

	once    sync.Once     // guards the fields below until begun is closed
	begun   chan struct{} // closed when the ladder begins
	through chan struct{} // closed when it is through
	reason  string        // why we end it
	text    string        // what else is known about why
	left    []int         // pids that outlived the ladder; valid after through
}

func newLife(c *process.Child, steps process.Ladder, t *tail, closeStdin func()) *life {
	return &life{
		child: c, steps: steps.OrDefault(), tail: t, closeStdin: closeStdin,
		out: make(chan struct{}), errs: make(chan struct{}),
		begun: make(chan struct{}), through: make(chan struct{}),
	}
}

// end begins the ladder, once; later calls change nothing. A step that is zero is taken from the child's own ladder.
// It returns at once.
func (l *life) end(reason, text string, steps process.Ladder) {
	l.once.Do(func() {
		if steps == (process.Ladder{}) {
			steps = l.steps
		}
		l.reason, l.text = reason, text
		close(l.begun)
		go func() {
			defer close(l.through)
			l.left = l.child.End(steps.OrDefault(), l.closeStdin)
		}()
	})
}

// ending reports whether the ladder has begun.
func (l *life) ending() bool {
	select {
	case <-l.begun:
		return true
	default:
		return false
	}
}

// wait returns how it ended, when the child is gone and its output is read. busy says that a pump waits for its
// reader and not for the child: then draining goes on.
func (l *life) wait(busy func() bool) exitInfo {
	select {
	case <-l.child.Done():
	case <-l.begun:
	case <-l.out:
		// A child that closed stdout can answer nothing any more.
		if !within(l.child.Done(), drainWait) {
			l.end(reasonStdoutClosed, "", process.Ladder{})
		}
	}
	if l.ending() {
		<-l.through // by now the child is gone, or it survived SIGKILL
	}
	info := exitInfo{Reason: reasonExited}
	select {
	case <-l.child.Done():
		info.Status = l.child.Status()
		if info.Signal != 0 {
			// A wrapper was killed: what it started is without a parent now, and would keep the pipes open.
			l.child.Signal(syscall.SIGTERM)
		}
	default:
		info.Status = process.Status{Code: -1, Name: "it survived SIGKILL"}
	}
	l.drain(busy)
	info.Survivors = l.child.EndGroup(groupWait)
	if l.ending() {
		<-l.through
		info.Reason, info.Text = l.reason, l.text
		info.Survivors = append(info.Survivors, l.left...)
	}
	info.Tail = l.tail.last(tailShown)
	return info
}

// drain reads output on until its end, but not longer than drainWait while nothing but a grandchild could write.
func (l *life) drain(busy func() bool) {
	for _, end := range []<-chan struct{}{l.out, l.errs} {
		for !within(end, drainWait) {
			if !busy() {
				return
			}
		}
	}
}

func within(done <-chan struct{}, d time.Duration) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	select {
	case <-done:
		return true
	case <-limit.C:
		return false
	}
}
