package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	"mcpx/internal/rpc"
)

// answer is the end of one call: the backend's message, or the gateway's own trouble.
type answer struct {
	body   []byte
	msg    rpc.Message
	status int // HTTP status of the backend's answer, 0 elsewhere
	own    *trouble
	debt   debt // what the supervisor keeps until the answer is delivered or dropped
}

// call is one request on its way to a backend. It ends exactly once, through finish.
type call struct {
	srv    *Server
	method string
	id     []byte // the client's raw id; nil for the gateway's own requests
	token  []byte // the client's raw progress token, nil for none
	upRaw  []byte // the raw progress token that the backend sees
	upID   []byte // the raw id that the backend sees
	idKey  string // comparison key of id, set for calls of legacy sessions
	upKey  string // comparison key of upID, set when the call is registered
	upTok  string // comparison key of the progress token that the backend sees, "" for none
	owner  owner  // whose call it is, for attribution; never nil
	stream *Stream
	out    Outbound
	answer func(answer) // called once, without a lock

	limit, max time.Duration // silence allowed, and the hard maximum; 0: no deadline
	logs       bool          // a modern request that asked for log messages
	isListen   bool
	arrives    bool // adopted with an answer, which is delivered next; the lock of its lane guards it
	hold       bool // the handshake: its answer is Done when what came of it is saved

	ended   atomic.Bool
	retried atomic.Bool // it was sent once more after a proof that it had not been sent
	written atomic.Bool // handed to the backend completely
	parked  atomic.Bool // its client was asked and is away (cell M-L): it holds up nobody else

	// hand says how far its message is on the way to the link; who finds it begun leaves the rest to the other.
	hand         atomic.Uint32
	cancellation func() []byte // set by who revokes it, before hand is

	mu       sync.Mutex // guards the clock fields
	lane     *lane      // where it is registered, nil before dispatch
	ref      uint64
	timer    *time.Timer
	started  time.Time
	paused   int // pending questions to a person stop the clock
	pausedAt time.Time
}

// The states of call.hand.
const (
	handNot     uint32 = iota // registered
	handBegun                 // Send runs
	handOver                  // the link has it
	handRevoked               // cancelled before Send had ended
)

// owner is who a call belongs to: a legacy session, or one modern request.
type owner interface {
	// ask shows a server's request to the client behind the owner. It must answer through the ask in every case.
	ask(a *ask, via *call)
}

// finish ends the call. Only the first end counts.
func (c *call) finish(a answer) bool {
	if !c.ended.CompareAndSwap(false, true) {
		return false
	}
	c.mu.Lock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.answer(c.screened(a))
	return true
}

// fail ends the call with the gateway's own error.
func (c *call) fail(t trouble) bool { return c.finish(answer{own: &t}) }

// arm starts the deadline clock.
func (c *call) arm(now time.Time) {
	if c.limit <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop() // it waited, or was sent to another process before
	}
	c.started = now
	c.timer = time.AfterFunc(c.limit, c.expired)
}

// rearm starts the clock of a call that runs for some time already: of the hard maximum only the rest is left.
func (c *call) rearm(now time.Time, age time.Duration) {
	if c.limit <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = now.Add(-age)
	c.timer = time.AfterFunc(max(min(c.limit, c.max-age), 0), c.expired)
}

// progressed extends the deadline: the backend is alive.
func (c *call) progressed(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil || c.paused > 0 {
		return
	}
	left := c.max - now.Sub(c.started)
	c.timer.Reset(max(min(c.limit, left), 0))
}

// pause stops the clock while a person is asked; resume starts it again.
func (c *call) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused++; c.paused > 1 {
		return
	}
	c.pausedAt = c.srv.g.now()
	if c.timer != nil {
		c.timer.Stop()
	}
}

func (c *call) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused--; c.paused > 0 || c.timer == nil || c.ended.Load() {
		return
	}
	now := c.srv.g.now()
	c.started = c.started.Add(now.Sub(c.pausedAt)) // the hard maximum does not count the time of people
	c.timer.Reset(max(min(c.limit, c.max-now.Sub(c.started)), 0))
}

// expired ends a call that was silent for too long. The backend is told, so that it can stop working.
func (c *call) expired() {
	if l := c.where(); l != nil && l.unqueue(c) {
		c.fail(trouble{class: Busy, text: "calls of other clients did not end within " + c.limit.String() + "; the call was not sent", wait: time.Second})
		return
	}
	if c.fail(trouble{class: TimedOut, text: "no answer within " + c.limit.String() + "; the call was cancelled, it may have run"}) {
		c.cancel("gateway deadline")
	}
}

// abandoned ends a call whose modern client closed its stream.
func (c *call) abandoned() {
	c.stopQuiet(func(*lane) []byte {
		return rpc.NotificationMessage("notifications/cancelled", append(append([]byte(`{"requestId":`), c.upID...), `,"reason":"the client closed its stream"}`...))
	})
}

// number is the call's number on its lane, 0 before it has one.
func (c *call) number() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ref
}

// cancel tells the backend that nobody waits for this call any more. A cancellation overtakes queued messages: a
// request that was not sent yet is dropped instead.
func (c *call) cancel(reason string) {
	if l := c.where(); l != nil {
		l.cancel(c, reason)
	}
}

// stopQuiet ends a call that its client cancelled: no answer is made, and the backend is told with the given message.
func (c *call) stopQuiet(cancellation func(*lane) []byte) {
	if !c.ended.CompareAndSwap(false, true) {
		return
	}
	c.mu.Lock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	if l := c.where(); l != nil {
		l.withdraw(c, func() []byte { return cancellation(l) })
	}
}

// where gives the lane that the call is registered at, nil before dispatch.
func (c *call) where() *lane {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lane
}
