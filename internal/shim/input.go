//go:build unix

package shim

import (
	"encoding/binary"
	"errors"
	"io"

	"mcpx/internal/crash"
	"mcpx/internal/process"
	"mcpx/internal/rpc"
)

// batchRequests bounds the requests of one write: so few places may stay empty in a journal that is full.
const batchRequests = 64

// toChild is one message on its way to the child.
type toChild struct {
	seq        uint64
	from, to   int // where it lies in the lines of its batch, without the newline
	tag        []byte
	id, method rpc.Span // in the message; absent also when they cannot be told
	plain      bool     // they can be told
}

// request says whether an answer is expected.
func (m *toChild) request() bool { return m.id.Ok() && m.method.Ok() }

// batch is what is written to the child in one go.
type batch struct {
	lines    []byte
	messages []toChild
	tags     []byte // memory of their tags
	requests int
}

// add takes one message whose bytes are at the end of lines already.
func (b *batch) add(f frame, from int) {
	m := toChild{seq: f.seq, from: from, to: len(b.lines)}
	m.id, m.method, m.plain = rpc.Ends(b.lines[from:])
	if m.request() {
		b.requests++
		at := len(b.tags)
		b.tags = append(b.tags, f.tag...)
		m.tag = b.tags[at:len(b.tags):len(b.tags)]
	}
	b.messages = append(b.messages, m)
	b.lines = append(b.lines, '\n')
}

func (b *batch) reset(lines []byte) {
	*b = batch{lines: lines, messages: b.messages[:0], tags: b.tags[:0]}
}

// pumpInput carries messages of one holder to the child until the holder leaves.
func (s *supervisor) pumpInput(a *attachment) {
	defer s.leave(a)
	r := newFrameReader(eagerly(a.conn, a.lateAck), readBuffer)
	out := make([]byte, 0, readBuffer)
	b := batch{lines: out}
	for {
		f, err := r.next()
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				s.count.partialIn.Add(1)
			}
			return
		}
		if f.generation != uint32(a.generation) {
			return
		}
		if f.kind != kindMsg {
			if !s.command(a, f) {
				return
			}
			continue
		}
		if len(f.body) > maxToChild {
			return
		}
		a.pong.Store(int64(s.now()))
		if f.owned {
			b.reset(f.body)
			b.add(f, 0)
			if !s.write(a, &b) {
				s.countSuperseded(&b, r)
				return
			}
			if len(f.body) >= bigMessage {
				s.trimLater()
			}
			b.reset(out)
			continue
		}
		from := len(b.lines)
		b.lines = append(b.lines, f.body...)
		b.add(f, from)
		if r.buffered() && r.peekKind() == kindMsg && len(b.lines) < readBuffer && b.requests < batchRequests {
			continue // one write for all that came together
		}
		if !s.write(a, &b) {
			s.countSuperseded(&b, r)
			return
		}
		out = b.lines[:0]
		b.reset(out)
	}
}

// countSuperseded counts what was read of a holder after it had lost its place.
func (s *supervisor) countSuperseded(b *batch, r *frameReader) {
	n := uint64(len(b.messages))
	for r.buffered() {
		if f, err := r.next(); err == nil && f.kind == kindMsg {
			n++
		}
	}
	s.count.superseded.Add(n)
}

// write gives whole lines to the child and acknowledges them. False: the holder was superseded.
func (s *supervisor) write(a *attachment, b *batch) bool {
	s.toChild.Lock()
	defer s.toChild.Unlock()
	l, ok := s.register(a, b)
	if l == nil {
		return ok
	}
	crash.Point("supervisor.journalled")
	n, err := l.child.Stdin.Write(b.lines)
	crash.Point("supervisor.written")
	written := len(b.messages)
	if err != nil {
		for written > 0 && b.messages[written-1].to >= n {
			written--
		}
		if process.IsClosedPipe(err) {
			go l.stdinClosed()
		}
	}
	if written < len(b.messages) || b.requests < len(b.messages) {
		s.settle(a, b, written)
	}
	if written > 0 {
		a.wrote(b.messages[written-1].seq, n)
	}
	return true
}

// register enters the requests of b in the journal: from now on they may be written. Without a life nothing may be
// written; ok is false when the holder was superseded.
func (s *supervisor) register(a *attachment, b *batch) (l *life, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.holder.Load() == a && s.exit == nil && b.requests > 0 && !s.journal.room(b.requests) {
		s.room.Wait()
	}
	// The holder is compared in the lock under which a successor takes the journal: what is written is in it.
	if s.holder.Load() != a {
		return nil, false
	}
	if s.life == nil || s.life.ending() {
		return nil, true // not acknowledged: the message never reached the child, and EXIT says so
	}
	now := s.now()
	for i := range b.messages {
		m := &b.messages[i]
		line := b.lines[m.from:m.to]
		switch {
		case m.request():
			s.lastNumber = number(a.generation, m.seq)
			s.journal.ask(now, s.lastNumber, m.id.Of(line), m.method.Of(line), m.tag, line)
		case !m.plain:
			s.journal.unseen(now)
		}
	}
	return s.life, true
}

// settle follows up a write: requests that the child has not got whole are forgotten, answers that it has got are
// noted.
func (s *supervisor) settle(a *attachment, b *batch, written int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range b.messages {
		m := &b.messages[i]
		line := b.lines[m.from:m.to]
		switch {
		case m.request() && i >= written:
			s.journal.unask(number(a.generation, m.seq))
		case m.plain && !m.request() && i < written:
			s.journal.told(m.id.Of(line), m.method.Of(line))
		}
	}
}

// stdinClosed ends a child that lives on although nobody can ask it anything any more.
func (l *life) stdinClosed() {
	if !within(l.child.Done(), stdinWait) {
		l.end(reasonTerminated, "it closed stdin", process.Ladder{})
	}
}

// command handles what is no message. False: the connection is over.
func (s *supervisor) command(a *attachment, f frame) bool {
	a.pong.Store(int64(s.now()))
	switch f.kind {
	case kindPing:
		return a.control(kindPong, nil) == nil
	case kindDone:
		s.done(f.body)
	case kindBlob:
		if len(f.body) <= maxBlob {
			s.mu.Lock()
			s.blob = append(s.blob[:0:0], f.body...)
			s.mu.Unlock()
		}
	case kindTerminate:
		s.terminate(f.body)
	case kindDetach:
		s.detach(a)
		return false
	}
	return true // PONG was noted above; kinds of newer daemons are ignored
}

// done takes the numbers of entries that nobody needs any more.
func (s *supervisor) done(numbers []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for ; len(numbers) >= 8; numbers = numbers[8:] {
		s.journal.done(now, binary.BigEndian.Uint64(numbers))
	}
	s.room.Broadcast()
}

// detach lets a holder go that said so.
func (s *supervisor) detach(a *attachment) {
	// The place is free before the answer is sent: the next daemon may follow at once. TestAttachRules reads `busy`
	// with the two lines swapped.
	s.vacate(a)
	_ = a.control(kindDetached, nil) // the daemon takes the end of the connection for an answer, too
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exit != nil && !s.told() {
		close(s.delivered)
	}
}
