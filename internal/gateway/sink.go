package gateway

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"mcpx/internal/crash"
	"mcpx/internal/key"
	"mcpx/internal/rpc"
)

// laneSink receives from the link. It is a type of its own so that the lane's other methods stay out of the port.
type laneSink struct{ *lane }

var _ Sink = laneSink{}

// Deliver routes one message of the backend.
func (s laneSink) Deliver(in Inbound) {
	l := s.lane
	<-l.linked
	if rpc.IsBatch(in.Body) {
		parts, err := rpc.Batch(in.Body)
		if err != nil {
			l.srv.unmatched.Add(1)
			return
		}
		for _, p := range parts {
			s.Deliver(Inbound{Body: bytes.Clone(p.Of(in.Body)), Via: in.Via, Status: in.Status})
		}
		return
	}
	m, err := rpc.Scan(in.Body)
	if err != nil {
		l.srv.malformed.Add(1)
		l.srv.g.log.LogAttrs(ctxNone, slog.LevelWarn, "backend message refused", slog.String(key.Server, l.srv.name()), slog.String(key.Cause, err.Error()))
		l.failVia(in, err)
		return
	}
	switch m.Kind {
	case rpc.Result, rpc.Error:
		l.settleAnswer(in, m)
	case rpc.Notification:
		l.notified(in, m)
	case rpc.Request:
		l.asked(in, m)
	}
}

// failVia ends the call whose answer could not be read. Only a transport that knows which call it was can tell.
func (l *lane) failVia(in Inbound, err error) {
	if in.Via == 0 {
		return
	}
	if c := l.takeEnded(in.Via); c != nil {
		c.fail(trouble{class: AnsweredLost, text: "the backend's answer is not a JSON-RPC message: " + err.Error()})
	}
}

// settleAnswer gives an answer to its call.
func (l *lane) settleAnswer(in Inbound, m rpc.Message) {
	var c *call
	l.mu.Lock()
	if m.ID.Ok() {
		if k, ok := rpc.IDKey(m.ID.Of(in.Body)); ok {
			c = l.calls[k]
		}
	}
	if c == nil && in.Via != 0 && (!m.ID.Ok() || m.Kind == rpc.Error) {
		c = l.byRef[in.Via] // an HTTP error body without a usable id still belongs to its POST
	}
	if c == nil {
		if m.ID.Ok() && len(l.ghosts) > 0 {
			k, _ := rpc.IDKey(m.ID.Of(in.Body))
			delete(l.ghosts, k)
		}
		l.mu.Unlock()
		l.late(in, m)
		return
	}
	l.removeLocked(c)
	l.trackTaskLocked(c, in.Body, m)
	next, questions := l.settleLocked()
	owed, due := l.finishedLocked(c, len(in.Body))
	l.mu.Unlock()
	crash.Point("gateway.answer-taken")
	if !c.finish(answer{body: in.Body, msg: m, status: in.Status, debt: owed}) {
		owed.drop() // cancelled in the same moment
	}
	if len(due) > 0 {
		l.done(due...)
	}
	l.proceed(next, questions)
}

// late counts an answer that nobody waits for.
func (l *lane) late(in Inbound, m rpc.Message) {
	if m.ID.Ok() {
		if _, ours := decodeID(m.ID.Of(in.Body)); ours {
			l.srv.late.Add(1)
			return
		}
	}
	l.srv.unmatched.Add(1)
}

// take removes a call by its number.
func (l *lane) take(ref uint64) *call {
	l.mu.Lock()
	c := l.byRef[ref]
	if c == nil {
		l.mu.Unlock()
		return nil
	}
	l.removeLocked(c)
	next, questions := l.settleLocked()
	l.mu.Unlock()
	l.proceed(next, questions)
	return c
}

// takeEnded removes a call that its backend has ended without an answer that could be passed on.
func (l *lane) takeEnded(ref uint64) *call {
	c := l.take(ref)
	if c != nil {
		l.done(ref)
	}
	return c
}

// Written notes that the backend has the whole request.
func (s laneSink) Written(ref uint64) {
	s.mu.Lock()
	c := s.byRef[ref]
	s.mu.Unlock()
	if c != nil {
		c.written.Store(true)
	}
}

// Failed ends one call whose answer will not come.
func (s laneSink) Failed(ref uint64, f Failure) {
	if f.Gone {
		s.mu.Lock()
		c := s.byRef[ref]
		s.mu.Unlock()
		if c != nil {
			c.written.Store(false) // refused, so it did not run: Closed sends it once more, to a new session
		}
		return
	}
	c := s.takeEnded(ref)
	if c == nil {
		return
	}
	t := trouble{class: f.Class, text: f.Text, wait: f.Wait, fix: f.Fix}
	c.finish(answer{own: &t, status: f.Status})
}

// Overlong ends the call whose answer passed the line limit; the server and its other calls live on.
func (s laneSink) Overlong(id []byte, size int64) {
	<-s.linked
	idKey, ok := rpc.IDKey(id)
	if !ok {
		s.srv.unmatched.Add(1)
		return
	}
	s.mu.Lock()
	c := s.calls[idKey]
	s.mu.Unlock()
	if c == nil || s.takeEnded(c.number()) == nil {
		s.srv.late.Add(1)
		return
	}
	c.fail(trouble{class: AnsweredLost, text: fmt.Sprintf("the answer of %d bytes is over the limit of one line", size)})
}

// Stderr is output for the server's log.
func (s laneSink) Stderr(chunk []byte) { s.srv.logged(chunk) }

// Closed ends the lane: every call gets its class at once, never at its deadline.
func (s laneSink) Closed(e Exit) {
	l := s.lane
	<-l.linked
	if e.Reason == Detached && l.srv.leaving() {
		return // handOver says it again when nobody can be told any more that a call failed
	}
	if redact := l.srv.g.cfg.Redact; redact != nil {
		e.Tail = redact(l.srv.name(), e.Tail)
	}
	l.mu.Lock()
	if l.isEndedLocked() {
		l.mu.Unlock()
		return
	}
	l.down.Store(true)
	l.exit = e
	calls := make([]*call, 0, len(l.byRef)+len(l.waiting))
	for _, c := range l.byRef {
		calls = append(calls, c)
	}
	calls = append(calls, l.waiting...)
	asks := make([]*ask, 0, len(l.asks))
	for _, a := range l.asks {
		asks = append(asks, a)
	}
	clear(l.calls)
	clear(l.byRef)
	clear(l.answered)
	clear(l.tokens)
	clear(l.asks)
	listens := slices.Collect(maps.Keys(l.listens))
	l.listens = nil
	l.waiting, l.held = nil, nil
	close(l.ended)
	l.mu.Unlock()

	l.slot.lost(l, e)
	for _, b := range listens {
		l.srv.g.goes.Go(func() { b.moved(l.slot) })
	}
	for _, a := range asks {
		a.lost()
	}
	for _, c := range calls {
		switch {
		case c.isListen:
			l.slot.relisten(c, e)
		case c.written.Load() || c.method == "initialize" || c.method == "server/discover" && c.id == nil:
			c.fail(trouble{class: SentUnknown, text: e.Why() + "; the call was sent and may have run", exit: &e})
		default:
			l.slot.resubmit(c, e)
		}
	}
}
