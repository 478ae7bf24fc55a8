//go:build unix

package shim

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/process"
)

const (
	// windowMessages is how many messages may be on the way to the supervisor beyond the last WRITTEN. The rest waits
	// here, where a cancellation can still take its request back.
	windowMessages = 8
	// windowBytes lets more of them go while they are short: as much as the pipe of a direct child swallows, too.
	// With 32 clients calling at once it saves a third of the time (BenchmarkHop), because bursts stay together.
	windowBytes = 64 << 10
	// linkBuffer is the size of the read buffer of a link; longer frames get memory of their own.
	linkBuffer = 32 << 10
	// controlWait bounds a stop over a control connection.
	controlWait = 2 * time.Second
	// overtime is how long a supervisor may take beyond its ladder before it is ended itself.
	overtime = 10 * time.Second
	// lostWait is how long the lock of a supervisor whose connection ended is looked at.
	lostWait = time.Second
	// lostPoll is how often. The kernel frees the lock some milliseconds after it closed the socket.
	lostPoll = 5 * time.Millisecond
	// orphanWait is how long the child of a lost supervisor gets to follow SIGTERM and EOF.
	orphanWait = 2 * time.Second
)

const sigTerm = syscall.SIGTERM

// link is the daemon's end of an attachment.
type link struct {
	backend *Backend
	dir     bundle
	program process.Executable // before the start
	super   ready
	welcome welcome
	conn    *net.UnixConn
	raw     syscall.RawConn
	sink    gateway.Sink
	box     outbox
	skipped atomic.Uint64
	taken   uint64 // bytes that the socket took, of all frames together; whoever writes owns it

	closing   sync.Once
	detaching atomic.Bool
	done      chan struct{} // closed when nothing more is called on sink

	mu      sync.Mutex        // guards the fields below
	flight  []sent            // messages beyond the last WRITTEN
	settled uint64            // seq of the last WRITTEN
	entries map[uint64]uint64 // by ref: number of the journal entry of a request that is not done with
}

// What entries holds of requests that are queued here and have no number yet. Numbers begin with a generation, which is
// never zero.
const (
	queued     = 0
	queuedDone = 1 // done with already: its answer is not to be kept
)

var _ gateway.KeptLink = (*link)(nil)

// sent is a message on its way.
type sent struct {
	ref  uint64 // 0 for what is no request
	size int
	end  uint64 // value of link.taken when the socket has all of it
}

// newLink makes the link of a connection that was greeted. Its sink is to be set before it reads.
func newLink(b *Backend, dir bundle, super ready, g greeted, conn *net.UnixConn) *link {
	l := &link{
		backend: b, dir: dir, super: super, welcome: g.welcome, conn: conn, done: make(chan struct{}), entries: map[uint64]uint64{},
	}
	l.raw, _ = conn.SyscallConn() // fails only on a closed connection
	l.skipped.Store(g.welcome.Counters.Skipped)
	l.box.port, l.box.window = l, window{messages: windowMessages, bytes: windowBytes}
	if first := number(b.cfg.Epoch, 1); g.journal.Next > first { // this daemon was attached before
		l.box.seq = g.journal.Next - first
		l.settled = l.box.seq
	}
	return l
}

// Send hands over one message. See gateway.Link.
func (l *link) Send(m gateway.Outbound) error {
	if len(m.Body) > maxToChild || len(m.Tag) > maxTag {
		return tooLarge(m)
	}
	if m.Ref == 0 || !l.journals() {
		return l.box.send(m)
	}
	l.mu.Lock()
	l.entries[m.Ref] = queued
	l.mu.Unlock()
	err := l.box.send(m)
	if err != nil {
		l.forget(m.Ref)
	}
	return err
}

// Abort drops a request that is still queued here.
func (l *link) Abort(ref uint64) bool {
	if !l.box.abort(ref) {
		return false
	}
	l.forget(ref)
	return true
}

func (l *link) forget(ref uint64) {
	l.mu.Lock()
	delete(l.entries, ref)
	l.mu.Unlock()
}

// journals says whether the supervisor keeps journal and blob.
func (l *link) journals() bool { return l.welcome.Protocol >= protoJournal }

// Save stores the state of the lane. A supervisor of an older version has no place for it. See gateway.KeptLink.
func (l *link) Save(blob []byte) error {
	if len(blob) > maxBlob {
		return fault.New(fault.Invalid, "message-too-large").
			Saying("the state of the connection has %d bytes, a supervisor keeps at most %d", len(blob), maxBlob)
	}
	if !l.journals() {
		return nil
	}
	h := header{length: uint32(len(blob)), kind: kindBlob, generation: uint32(l.backend.cfg.Epoch)}
	return l.box.put(append(h.append(nil), blob...))
}

// Done lets the supervisor forget requests. See gateway.KeptLink.
func (l *link) Done(refs ...uint64) {
	if !l.journals() {
		return
	}
	numbers := make([]uint64, 0, len(refs))
	l.mu.Lock()
	for _, ref := range refs {
		switch n, ok := l.entries[ref]; {
		case !ok: // unknown, or told before
		case n == queued:
			l.entries[ref] = queuedDone
		case n != queuedDone:
			numbers = append(numbers, n)
			delete(l.entries, ref)
		}
	}
	l.mu.Unlock()
	l.box.finish(numbers)
}

// Info is what status output shows.
func (l *link) Info() gateway.LinkInfo {
	i := gateway.LinkInfo{
		Supervisor: l.super.Self.Pid, Started: l.welcome.Started, Version: l.welcome.Version, Skipped: l.skipped.Load(),
	}
	if l.welcome.Child != nil {
		i.Pid = l.welcome.Child.Pid
	}
	return i
}

// Close begins the ladder. See gateway.Link.
func (l *link) Close(reason string) {
	l.closing.Do(func() {
		l.box.refuse(errClosing())
		l.backend.join.Go(func() { l.terminate(reason) })
	})
}

func tooLarge(m gateway.Outbound) error {
	return fault.New(fault.Invalid, "message-too-large").
		Saying("the message has %d bytes, a server takes at most %d", len(m.Body), maxToChild)
}

func errGone() error {
	return fault.New(fault.Unavailable, "server-gone").Saying("the server has ended").Retrying(fault.AfterWait)
}

func errClosing() error {
	return fault.New(fault.Unavailable, "server-stopping").Saying("the server is being stopped").Retrying(fault.AfterWait)
}

// Detach leaves the child alone. See gateway.Link.
func (l *link) Detach(ctx context.Context) error {
	l.detaching.Store(true)
	// What is queued goes first: the supervisor's journal has it then, and the next daemon its answers.
	l.box.leave(header{kind: kindDetach, generation: uint32(l.backend.cfg.Epoch)}.append(nil), errClosing())
	stop := context.AfterFunc(ctx, func() { _ = l.conn.Close() }) // the end of a connection is a detach, too
	defer stop()
	<-l.done
	return nil
}

// read is the reader of the link; it ends with Closed.
func (l *link) read(r *frameReader) {
	exit := l.frames(r)
	_ = l.conn.Close() // all that was there is read
	l.box.stop(errGone())
	if exit.Reason == gateway.SupervisorLost {
		l.maybeRun()
	}
	l.sink.Closed(exit)
	close(l.done)
}

// frames delivers until the connection or the child ends.
func (l *link) frames(r *frameReader) gateway.Exit {
	for {
		f, err := r.next()
		if err != nil {
			return l.lost()
		}
		switch f.kind {
		case kindMsg:
			body := f.body
			if !f.owned {
				body = bytes.Clone(body)
			}
			l.sink.Deliver(gateway.Inbound{Body: body})
		case kindWritten:
			l.written(f.seq)
		case kindStderr:
			l.sink.Stderr(bytes.Clone(f.body))
		case kindOverlong:
			var o overlong
			if json.Unmarshal(f.body, &o) == nil {
				l.sink.Overlong(o.ID, o.Size)
			}
		case kindPing:
			var c counters
			if !l.journals() && json.Unmarshal(f.body, &c) == nil { // the very first ones sent none
				l.skipped.Store(c.Skipped)
			}
			l.box.push(header{kind: kindPong, generation: uint32(l.backend.cfg.Epoch)}.append(nil))
		case kindLost:
			var c counters
			if json.Unmarshal(f.body, &c) == nil {
				l.skipped.Add(c.Skipped)
			}
		case kindExit:
			var i exitInfo
			if json.Unmarshal(f.body, &i) != nil {
				return l.lost()
			}
			// Best effort: without it the supervisor leaves an exit file that the next start sweeps.
			_, _ = l.conn.Write(header{kind: kindDetach, generation: uint32(l.backend.cfg.Epoch)}.append(nil))
			return exitOf(i)
		case kindDetached, kindSuperseded:
			return gateway.Exit{Reason: gateway.Detached}
		}
	}
}

// written settles messages up to seq.
func (l *link) written(seq uint64) {
	l.mu.Lock()
	n := 0
	if seq > l.settled {
		n = int(min(seq-l.settled, uint64(len(l.flight))))
	}
	settled := l.flight[:n]
	l.flight = l.flight[n:]
	l.settled += uint64(n)
	l.mu.Unlock()
	done := load{messages: n}
	for _, m := range settled {
		done.bytes += m.size
		if m.ref != 0 {
			l.sink.Written(m.ref)
		}
	}
	if n > 0 {
		l.box.settle(done)
	}
}

// tryWrite, write, encode and handed make the link the port of its outbox.

func (l *link) tryWrite(b []byte) (int, error) {
	n, err := tryWrite(l.raw, b)
	l.taken += uint64(max(n, 0))
	return n, err
}

func (l *link) write(b []byte) error {
	n, err := l.conn.Write(b)
	l.taken += uint64(n)
	return err
}

func (l *link) encode(b []byte, m gateway.Outbound, seq uint64) []byte {
	end := l.taken + uint64(len(b)+headerLen+len(m.Tag)+len(m.Body)) // what was encoded before b is written
	l.mu.Lock()
	l.flight = append(l.flight, sent{m.Ref, len(m.Body), end})
	if was, ok := l.entries[m.Ref]; ok {
		n := number(l.backend.cfg.Epoch, seq)
		l.entries[m.Ref] = n
		if was == queuedDone {
			delete(l.entries, m.Ref)
			l.box.done = append(l.box.done, n) // the caller holds box.mu, and sends it behind this message
		}
	}
	l.mu.Unlock()
	h := header{
		length: uint32(len(m.Tag) + len(m.Body)), kind: kindMsg, tag: uint16(len(m.Tag)),
		generation: uint32(l.backend.cfg.Epoch), seq: seq,
	}
	return append(append(h.append(b), m.Tag...), m.Body...)
}

// handed: the supervisor's WRITTEN counts while it lives; see maybeRun.
func (l *link) handed([]uint64) {}

func (l *link) encodeDone(b []byte, numbers []uint64) []byte {
	h := header{length: uint32(8 * len(numbers)), kind: kindDone, generation: uint32(l.backend.cfg.Epoch)}
	b = h.append(b)
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}
