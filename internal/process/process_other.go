//go:build !unix

package process

import (
	"context"
	"errors"
	"net"
	"os"
	"time"
)

// There is no daemon on this platform; the command line client needs only a detached start, and names what is missing.

// ReadyFD is the descriptor on which a detached process finds its ready pipe.
const ReadyFD = 3

// Detached says how to start a process of our own that outlives us.
type Detached struct {
	Exe   string
	Args  []string
	Env   []string
	Stdin []byte
	Log   *os.File
}

// Child is a started process.
type Child struct {
	ID                    Identity
	Stdin, Stdout, Stderr *os.File
}

// Start is not supported here.
func Start(Command) (*Child, error) { return nil, errors.ErrUnsupported }

// Done is nil: there is no child.
func (*Child) Done() <-chan struct{} { return nil }

// Status is zero: there is no child.
func (*Child) Status() Status { return Status{} }

// End has nothing to end.
func (*Child) End(Ladder, func()) []int { return nil }

// EndGroup has nothing to end.
func (*Child) EndGroup(time.Duration) []int { return nil }

// Signal has nobody to signal.
func (*Child) Signal(os.Signal) {}

// Foreground is not supported here.
func Foreground(context.Context, Command, *os.File, *os.File) (Status, error) {
	return Status{}, errors.ErrUnsupported
}

// Identify is not supported here.
func Identify(int) (Identity, error) { return Identity{}, ErrUnknown }

// KillOrphans is not supported here.
func KillOrphans(Identity) bool { return false }

// Kill is not supported here.
func Kill(Identity) bool { return false }

// Notify is not supported here.
func Notify(Identity, os.Signal) bool { return false }

// PeerOf is not supported here.
func PeerOf(*net.UnixConn) (Peer, error) { return Peer{}, ErrUnknown }

// StartDetached is not supported here.
func StartDetached(context.Context, Detached) ([]byte, error) { return nil, errors.ErrUnsupported }

// HandOver is not supported here.
func HandOver(string, []string) error { return errors.ErrUnsupported }

// IsInit is false: there is no daemon here.
func IsInit() bool { return false }

// ReapAsInit has nothing to do: there is no daemon here.
func ReapAsInit() (stop func()) { return func() {} }

// BecomeSubreaper is not supported here.
func BecomeSubreaper() error { return errors.ErrUnsupported }

// IsClosedPipe reports whether err says that the reader of a pipe is gone.
func IsClosedPipe(err error) bool { return errors.Is(err, os.ErrClosed) }
