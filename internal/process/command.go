package process

import (
	"os"
	"time"
)

// Command says what to start. File is the program (see Resolve), Argv the arguments including the name, Dir absolute.
type Command struct {
	File string
	Argv []string
	Dir  string
	Env  []string // the whole environment
	// Blocking gives the parent pipe ends in blocking mode, outside the runtime's poller: a read costs one system call
	// and one thread, and cannot be interrupted. For a process that lives for this child alone.
	Blocking bool
	// Extra are descriptors that the child gets as 3 and up. They stay the caller's to close.
	Extra []*os.File
}

// Ladder holds the waits of an orderly end: stdin is closed, then Stdin passes, SIGTERM goes to the group, Term
// passes, SIGKILL goes to the group and to descendants, Kill passes.
type Ladder struct {
	Stdin time.Duration `json:"stdin"`
	Term  time.Duration `json:"term"`
	Kill  time.Duration `json:"kill"`
}

// DefaultLadder holds the steps of supervisor.md section 8.
var DefaultLadder = Ladder{Stdin: 2 * time.Second, Term: 3 * time.Second, Kill: 2 * time.Second}

// OrDefault fills each step that is zero from DefaultLadder. A negative step means no wait at all.
func (l Ladder) OrDefault() Ladder {
	if l.Stdin == 0 {
		l.Stdin = DefaultLadder.Stdin
	}
	if l.Term == 0 {
		l.Term = DefaultLadder.Term
	}
	if l.Kill == 0 {
		l.Kill = DefaultLadder.Kill
	}
	return l
}

// Total is how long the ladder takes at most.
func (l Ladder) Total() time.Duration {
	return max(l.Stdin, 0) + max(l.Term, 0) + max(l.Kill, 0)
}
