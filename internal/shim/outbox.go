package shim

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/gateway"
)

const (
	// maxQueued and maxQueuedBytes bound what waits for a child that does not read.
	maxQueued      = 1024
	maxQueuedBytes = 64 << 20
	// helpRounds is how many further writes a sender does for others before it hands the queue to a goroutine: nobody's
	// call may pay for everybody else's.
	helpRounds = 4
	// doneBatch is how many finished requests are told at once, and doneWait how long one waits for a message to ride with.
	doneBatch = 256
	doneWait  = 20 * time.Millisecond
	// crowd is so many messages on the way that others are likely to send at this moment, too: whoever writes steps aside
	// once and takes along what they queue. With 32 callers that is a third of the supervisor's CPU for each call.
	crowd = 4
)

// port is where an outbox writes to.
type port interface {
	// tryWrite writes what can be written without waiting, possibly nothing. It may keep b until it returns only.
	tryWrite(b []byte) (int, error)
	// write writes all of b and may wait.
	write(b []byte) error
	// encode adds one message in the port's framing to b. seq counts the messages of this outbox from 1.
	encode(b []byte, m gateway.Outbound, seq uint64) []byte
	// handed is called in order when the port has all bytes of the messages.
	handed(refs []uint64)
	// encodeDone adds the word that the requests with these numbers are done with. The port of a direct child never gets
	// any.
	encodeDone(b []byte, numbers []uint64) []byte
}

// load is an amount of messages.
type load struct{ messages, bytes int }

// window bounds what may be on the way, beyond recall. The zero window is always open.
type window struct {
	messages int // so many always may
	bytes    int // and more of them while they are not longer than this together
}

func (w window) open(l load, next int) bool {
	return w == window{} || l.messages < w.messages || l.bytes+next <= w.bytes
}

// outbox passes messages on in order without ever making its caller wait for the peer. When nothing is queued, the
// caller's own goroutine writes: a message then costs one system call and no hand-over. Otherwise whoever writes at
// that moment takes everything that was queued meanwhile along in one write.
type outbox struct {
	port   port
	window window

	mu      sync.Mutex // guards the fields below; not held while writing
	queue   []gateway.Outbound
	bytes   int
	urgent  []byte // frames that go before the queue
	note    []byte // a frame that goes before the message at noteAt, nil for none; of several the last one counts
	noteAt  int
	done    []uint64 // numbers of requests that are done with: they go behind what is written anyway
	doneDue bool     // they have waited long enough
	waiting bool     // doneTimer runs
	last    []byte   // the frame that goes when everything else has gone; nil: none
	writing bool     // somebody writes; he looks at the queue again before he stops
	seq     uint64
	flight  load          // encoded and not yet settled
	dead    bool          // a write failed
	refused error         // set when nothing can be sent any more
	idle    chan struct{} // closed when writing ends; nil while nobody waits for that

	buf  []byte   // of the one who writes
	refs []uint64 // likewise
}

// send queues m, and writes it if nobody else does.
func (o *outbox) send(m gateway.Outbound) error {
	o.mu.Lock()
	if o.refused != nil {
		defer o.mu.Unlock()
		return o.refused
	}
	if len(o.queue) >= maxQueued || len(o.queue) > 0 && o.bytes+len(m.Body) > maxQueuedBytes {
		defer o.mu.Unlock()
		return fault.New(fault.Busy, "server-busy").
			Saying("the server does not read: %d messages wait for it", len(o.queue)).
			Hinting("wait, or restart it with `mcpx server restart`").
			Retrying(fault.AfterWait)
	}
	o.queue = append(o.queue, m)
	o.bytes += len(m.Body)
	o.kick()
	return nil
}

// push sends frames of the port's own before everything that is queued.
func (o *outbox) push(frames []byte) {
	o.mu.Lock()
	if o.dead {
		o.mu.Unlock()
		return
	}
	o.urgent = append(o.urgent, frames...)
	o.kick()
}

// settle makes room in the window and goes on with the queue.
func (o *outbox) settle(done load) {
	o.mu.Lock()
	o.flight.messages -= done.messages
	o.flight.bytes -= done.bytes
	if len(o.queue) == 0 || o.refused != nil {
		o.mu.Unlock()
		return
	}
	o.kick()
}

// abort drops a request that is still queued.
func (o *outbox) abort(ref uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, m := range o.queue {
		if m.Ref == ref && ref != 0 {
			o.bytes -= len(m.Body)
			o.queue = slices.Delete(o.queue, i, i+1)
			if i < o.noteAt {
				o.noteAt--
			}
			return true
		}
	}
	return false
}

// refuse ends sending: queued messages are dropped and later ones get err. Frames of push still go out.
func (o *outbox) refuse(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refused == nil {
		o.refused = err
		o.queue, o.bytes, o.note = nil, 0, nil
	}
}

// leave ends sending, but not before everything that is queued, and frame behind it, has gone out. The window does not
// count any more: who leaves takes nothing back.
func (o *outbox) leave(frame []byte, err error) {
	o.mu.Lock()
	if o.dead {
		o.mu.Unlock()
		return
	}
	if o.refused == nil {
		o.refused = err
	}
	o.window, o.last = window{}, frame
	o.kick()
}

// put queues one frame of the port's own behind the messages so far. It replaces one that is still queued.
func (o *outbox) put(frame []byte) error {
	o.mu.Lock()
	if o.refused != nil {
		defer o.mu.Unlock()
		return o.refused
	}
	o.note, o.noteAt = frame, len(o.queue)
	o.kick()
	return nil
}

// finish queues the word that requests are done with. It rides with the next write, or goes after doneWait.
func (o *outbox) finish(numbers []uint64) {
	o.mu.Lock()
	if o.dead || len(numbers) == 0 {
		o.mu.Unlock()
		return
	}
	o.done = append(o.done, numbers...)
	if len(o.done) >= doneBatch {
		o.doneDue = true
		o.kick()
		return
	}
	if !o.waiting {
		o.waiting = true
		time.AfterFunc(doneWait, o.doneTimer)
	}
	o.mu.Unlock()
}

func (o *outbox) doneTimer() {
	o.mu.Lock()
	o.waiting = false
	if o.dead || len(o.done) == 0 {
		o.mu.Unlock()
		return
	}
	o.doneDue = true
	o.kick()
}

// stop refuses and waits until nobody writes. The port must be closed, so that a write that waits returns.
func (o *outbox) stop(err error) {
	o.refuse(err)
	for {
		o.mu.Lock()
		if !o.writing {
			o.mu.Unlock()
			return
		}
		if o.idle == nil {
			o.idle = make(chan struct{})
		}
		idle := o.idle
		o.mu.Unlock()
		<-idle
	}
}

// doneLocked ends the turn of the one who writes.
func (o *outbox) doneLocked() {
	o.writing = false
	if o.idle != nil {
		close(o.idle)
		o.idle = nil
	}
}

// kick is called with mu held and releases it. It writes what may be written, unless somebody does already.
func (o *outbox) kick() {
	if o.writing {
		o.mu.Unlock()
		return
	}
	o.writing = true
	if o.flight.messages >= crowd {
		o.mu.Unlock()
		runtime.Gosched()
		o.mu.Lock()
	}
	for range helpRounds {
		if !o.fillLocked() {
			o.doneLocked()
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		n, err := o.port.tryWrite(o.buf)
		if err != nil {
			o.broken(err)
			return
		}
		if n < len(o.buf) {
			go o.drain(n)
			return
		}
		o.port.handed(o.refs)
		o.mu.Lock()
	}
	o.buf = o.buf[:0]
	o.refs = o.refs[:0]
	o.mu.Unlock()
	go o.drain(0)
}

// drain goes on with the writing from offset n of buf, and may wait.
func (o *outbox) drain(n int) {
	for {
		if err := o.port.write(o.buf[n:]); err != nil {
			o.broken(err)
			return
		}
		o.port.handed(o.refs)
		n = 0
		o.mu.Lock()
		if !o.fillLocked() {
			o.doneLocked()
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
	}
}

// fillLocked encodes what may be sent next into buf. False: there is nothing.
func (o *outbox) fillLocked() bool {
	if cap(o.buf) > bufKept {
		o.buf = nil // of a big message; the next one is small
	}
	o.buf, o.refs = append(o.buf[:0], o.urgent...), o.refs[:0]
	o.urgent = nil
	n := 0
	for {
		o.noteLocked(n)
		if n == len(o.queue) || !o.window.open(o.flight, len(o.queue[n].Body)) || n > 0 && len(o.buf) >= batchBytes {
			break
		}
		m := o.queue[n]
		n++
		o.seq++
		o.flight.messages++
		o.flight.bytes += len(m.Body)
		o.bytes -= len(m.Body)
		o.buf = o.port.encode(o.buf, m, o.seq)
		o.refs = append(o.refs, m.Ref)
	}
	rest := copy(o.queue, o.queue[n:])
	clear(o.queue[rest:]) // the bodies are on their way
	o.queue = o.queue[:rest]
	o.noteAt -= n
	o.trailLocked()
	return len(o.buf) > 0
}

// noteLocked encodes the note when its turn has come.
func (o *outbox) noteLocked(at int) {
	if o.note != nil && o.noteAt == at {
		o.buf = append(o.buf, o.note...)
		o.note = nil
	}
}

// trailLocked encodes what goes behind the messages. What is done with must not overtake a note: who reads that a
// handshake is done with expects that its outcome was noted.
func (o *outbox) trailLocked() {
	if o.note != nil {
		return
	}
	leaving := o.last != nil && len(o.queue) == 0
	if len(o.done) > 0 && (o.doneDue || leaving || len(o.buf) > 0) {
		o.buf = o.port.encodeDone(o.buf, o.done)
		o.done, o.doneDue = o.done[:0], false
	}
	if leaving {
		o.buf = append(o.buf, o.last...)
		o.last = nil
	}
}

// bufKept bounds the write buffer that is kept for the next message.
const bufKept = 256 << 10

// broken ends sending; that the link is over is reported by its reader.
func (o *outbox) broken(err error) {
	f := fault.New(fault.Unavailable, "link-lost").Saying("the connection to the server broke").Because(err)
	o.refuse(f)
	o.mu.Lock()
	o.dead, o.urgent, o.done = true, nil, nil
	o.doneLocked()
	o.mu.Unlock()
}
