package secret

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"mcpx/internal/fault"
)

// keyringTime bounds one look into the keyring. One that answers needs milliseconds; one without a person at the screen
// may wait for ever.
const keyringTime = 2 * time.Second

// What a Ring may fail with, beside errors of its own. Such an error says nothing about the value.
var (
	errNoItem = errors.New("the keyring has no such item")
	errLocked = errors.New("the keyring is locked")
	errDenied = errors.New("the keyring refused")
	errNoRing = errors.New("there is no keyring")
)

// ring is the keyring of the system. No method asks a person: what is locked is errLocked.
type ring interface {
	get(ctx context.Context, service, account string) (string, error)
	set(ctx context.Context, service, account, value string) error
}

// Ring is the keyring of this session, called with a deadline and never twice at the same time: one that hangs costs one
// goroutine and one wait, and after that every caller is told at once.
type Ring struct {
	ring ring
	busy chan struct{} // holds a token while a call runs; its buffer is 1
	hung atomic.Bool   // the call that runs has been given up
	wait time.Duration
}

// OpenRing finds the keyring in the variables of the environment. It connects to nothing.
func OpenRing(getenv func(string) string) *Ring { return newRing(systemRing(getenv), keyringTime) }

func newRing(r ring, wait time.Duration) *Ring {
	return &Ring{ring: r, busy: make(chan struct{}, 1), wait: wait}
}

// get reads one item. Its errors are *fault.Error.
func (r *Ring) get(ctx context.Context, service, account string) (string, error) {
	value, err := r.call(ctx, func(ctx context.Context) (string, error) { return r.ring.get(ctx, service, account) })
	if errors.Is(err, errNoItem) {
		return "", missing("the keyring has no item for service %q and account %q", service, account).
			Hinting("store it with the keyring's own program, or correct the reference")
	}
	return value, ringFault(err)
}

// set writes one item.
func (r *Ring) set(ctx context.Context, service, account, value string) error {
	_, err := r.call(ctx, func(ctx context.Context) (string, error) { return "", r.ring.set(ctx, service, account, value) })
	return ringFault(err)
}

// usable says why the keyring cannot be used now, or nil. An item that is not there is an answer.
func (r *Ring) usable(ctx context.Context) error {
	_, err := r.call(ctx, func(ctx context.Context) (string, error) { return r.ring.get(ctx, ringService, "probe") })
	if errors.Is(err, errNoItem) {
		return nil
	}
	return ringFault(err)
}

var errSlow = errors.New("it does not answer")

// call runs fn beside the caller, who waits at most r.wait.
func (r *Ring) call(ctx context.Context, fn func(context.Context) (string, error)) (string, error) {
	if r.hung.Load() {
		return "", errSlow
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.wait, errSlow)
	defer cancel()
	select {
	case r.busy <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	type answer struct {
		value string
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		defer func() { // only now may the next one try: a keyring that hangs is not asked again
			r.hung.Store(false)
			<-r.busy
		}()
		value, err := fn(ctx)
		answered <- answer{value, err}
	}()
	select {
	case a := <-answered:
		if a.err != nil && ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return a.value, a.err
	case <-ctx.Done():
		r.hung.Store(len(answered) == 0)
		return "", context.Cause(ctx)
	}
}

// ringFault is an error of the keyring for people.
func ringFault(err error) error {
	e := fault.New(fault.Unavailable, "keyring-unavailable").Retrying(fault.AfterFix).Because(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errLocked):
		return fault.New(fault.Unavailable, "credential-locked").Saying("the keyring is locked, and mcpx asks nobody for its password").
			Hinting("unlock it, for example by logging in to the desktop").Retrying(fault.AfterFix)
	case errors.Is(err, errDenied):
		return fault.New(fault.Denied, "credential-denied").Saying("the keyring refused to give the item").
			Hinting("allow mcpx to read it in the keyring's own program").Retrying(fault.AfterFix)
	case errors.Is(err, errSlow):
		return e.Saying("the keyring did not answer within %s", keyringTime).
			Hinting("without a desktop session use `mcpx credential set`, which keeps values in an encrypted file")
	case errors.Is(err, errNoRing):
		return e.Saying("the daemon has no keyring: it was started outside of a desktop session").
			Hinting("run `mcpx daemon restart --env` inside of one, or use `mcpx credential set`, which keeps values in an encrypted file")
	case errors.Is(err, context.Canceled):
		return fault.New(fault.Canceled, "canceled").Saying("canceled before the keyring had answered").Because(err)
	}
	return e.Saying("the keyring does not work").Hinting("try it with its own program, or use `mcpx credential set`, which keeps values in an encrypted file")
}
