//go:build !unix

package process

import (
	"errors"
	"os"
	"syscall"
)

// Successor is a process that was started to take the place of ours.
type Successor struct {
	Pid     int
	Orders  *os.File
	Reports *os.File
}

// StartSuccessor refuses: there is no daemon on this platform.
func StartSuccessor(Succession) (*Successor, error) {
	return nil, errors.New("process: no daemon on this platform")
}

// End has nothing to end.
func (*Successor) End() {}

// Release has nothing to close.
func (*Successor) Release() {}

// Duplicate refuses: there is no daemon on this platform.
func Duplicate(syscall.Conn) (*os.File, error) {
	return nil, errors.New("process: no daemon on this platform")
}

// Inherited is what a successor finds when it starts.
type Inherited struct {
	Orders, Reports *os.File
	Files           []*os.File
}

// Inherit refuses: there is no daemon on this platform.
func Inherit(int) (Inherited, error) {
	return Inherited{}, errors.New("process: no daemon on this platform")
}
