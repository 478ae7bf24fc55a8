package gateway

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"mcpx/internal/era"
	"mcpx/internal/key"
	"mcpx/internal/rpc"
)

// take makes the lane of an adopted child from what its supervisor kept: no handshake, no set-up, no request is sent.
// It runs before anything is delivered.
func (a *adoption) take(ad Adopted) (Sink, error) {
	if ad.Blob == nil || json.Unmarshal(ad.Blob, &a.state) != nil || a.state.Era != era.Legacy && a.state.Era != era.Modern {
		return nil, errUnfinished
	}
	st := a.state
	s := a.slot.srv
	l := newLane(a.slot, st.Shared, st.Era)
	l.negotiated.Store(st.Version)
	l.result, l.caps, l.level, l.epoch, l.serial, l.adopted = st.Result, st.Caps, st.Level, st.Epoch, st.Serial, true
	if !ad.Started.IsZero() {
		l.started = anchored(ad.Started, s.g.now())
	}
	l.setLink(ad.Link)
	s.learned(st)
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		if s.moving.Load() || s.g.ctx.Err() != nil {
			return nil, errMoving
		}
		return nil, errUnwanted
	}
	s.lanes[l] = struct{}{}
	sessions := s.sessionsOfLocked(a.slot.key)
	delete(s.wedged, a.slot.key)
	s.mu.Unlock()
	a.lane = l
	a.recall(ad)
	now := s.g.now()
	heirs := a.rejoin(l, sessions, ad, now)
	a.calls(l, ad, heirs, now)
	if l.programChanged(ad.Executable) {
		a.drain = true
		text := textReplaced
		a.flight.adopts.why.Store(&text)
		a.flight.adopts.drains.Store(true)
	}
	for _, h := range heirs {
		h.x.mu.Lock()
		h.past.mine = h.x.past.mine // what came while this was not decided
		h.x.past = h.past
		h.x.mu.Unlock()
	}
	a.after = append(a.after, a.graceOver)
	if l.shared && l.era == era.Legacy {
		a.after = append(a.after, l.mergeLevel) // of sessions that were quicker than this
	}
	if ad.Dropped > 0 {
		a.after = append(a.after, func() { l.missed(ad, sessions) })
	}
	l.ready.Store(true)
	close(l.linked)
	a.slot.mu.Lock()
	a.slot.starts++
	closed := a.slot.closed
	if !closed && !a.drain {
		a.slot.cur.Store(l)
	}
	a.slot.mu.Unlock()
	if closed {
		a.after = append(a.after, func() { l.close("server changed while starting") })
	}
	return laneSink{l}, nil
}

// recall puts what the child said before into the log of its server. When it said it is not known, so that is marked. It
// is one piece, since lanes of a server are adopted side by side.
func (a *adoption) recall(ad Adopted) {
	switch {
	case len(ad.Said) == 0:
	case a.known:
		text := fmt.Appendf(nil, "mcpx: process %d said this before, to an earlier daemon; times unknown\n", ad.Child)
		a.slot.srv.logged(fmt.Appendf(append(text, ad.Said...), "mcpx: process %d goes on\n", ad.Child))
	default:
		a.slot.srv.logged(fmt.Appendf(nil, "mcpx: what process %d said to an earlier daemon is only in state/bundles/%s/stderr.log: "+
			"not all of its credentials are known, so they could not be hidden here\n", ad.Child, ad.ID))
	}
}

// learned takes over what the earlier daemon had found out about the server.
func (s *Server) learned(st laneState) {
	s.legacy.CompareAndSwap(uint32(unknown), uint32(st.Legacy))
	s.modern.CompareAndSwap(uint32(unknown), uint32(st.Modern))
	if st.Asks {
		s.asks.Store(true)
	}
}

// heir is a session with its calls of earlier daemons.
type heir struct {
	x    *Session
	past *past
}

// rejoin makes the sessions part of the lane again.
func (a *adoption) rejoin(l *lane, sessions []*Session, ad Adopted, now time.Time) map[string]heir {
	heirs := make(map[string]heir, len(sessions))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range sessions {
		same := x.home.Epoch == l.epoch && x.home.Serial == l.serial
		heirs[x.short] = heir{x, l.srv.witness(ad.Complete && same, nil, now)}
		l.enlistLocked(x)
		if x.bridged {
			a.after = append(a.after, x.relistenBridged)
		}
	}
	return heirs
}

// calls puts the requests that the child has, or has answered, back into the tables.
func (a *adoption) calls(l *lane, ad Adopted, heirs map[string]heir, now time.Time) {
	for _, k := range ad.Finished {
		t, ok := readTag(k.Tag, k.ID)
		if !ok {
			continue
		}
		if k.State != CallAnswered && k.State != CallLost && t.kind == tagSession {
			// It was given up, perhaps unanswered: the child may still answer it.
			if idKey, ok := rpc.IDKey(k.ID); ok {
				l.mu.Lock()
				l.ghostKeyLocked(idKey)
				l.mu.Unlock()
			}
		}
		if h, ok := heirs[t.short]; ok {
			h.past.add(t.id, k.Method, trouble{class: AnsweredLost, text: "the call ended before the daemon restarted; its answer is not kept any more"})
		}
	}
	for _, k := range ad.Calls {
		l.refs.Store(max(l.refs.Load(), k.Ref))
		if !a.call(l, heirs, k, now) {
			a.owed = append(a.owed, k.Ref)
		}
	}
}

// call puts one request back. False: nobody needs it.
func (a *adoption) call(l *lane, heirs map[string]heir, k KeptCall, now time.Time) bool {
	t, ok := readTag(k.Tag, k.ID)
	upKey, fine := rpc.IDKey(k.ID)
	if !ok || !fine || t.kind == 0 {
		return false
	}
	c := &call{srv: l.srv, method: k.Method, id: t.id, token: t.token, upID: k.ID, upRaw: t.upToken, upKey: upKey, lane: l, ref: k.Ref, isListen: k.Method == "subscriptions/listen"}
	c.limit, c.max = l.srv.deadline(k.Method)
	c.written.Store(true)
	c.hand.Store(handOver)
	c.retried.Store(true) // it was sent
	if t.upToken != nil {
		c.upTok, _ = rpc.IDKey(t.upToken)
	}
	wanted := false
	switch h, known := heirs[t.short]; {
	case t.kind == tagSession && known:
		wanted = h.x.inherits(c, k, h.past)
	case t.kind == tagModern || t.kind == tagBridge:
		wanted = a.modern(c, k, t)
	}
	if !wanted && k.State != CallRunning {
		return false
	}
	if !wanted {
		// Nobody waits for it. It stays in the tables until the server is told.
		c.owner, c.stream, c.answer = nobody{}, nil, func(answer) {}
		a.after = append(a.after, func() {
			c.stopQuiet(func(*lane) []byte {
				return rpc.NotificationMessage("notifications/cancelled", append(append([]byte(`{"requestId":`), c.upID...), `,"reason":"its client is gone"}`...))
			})
		})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if twin := l.calls[upKey]; twin != nil {
		// Two entries with one id cannot be told apart: neither may get the answer of the other.
		l.removeLocked(twin)
		l.ghostKeyLocked(upKey)
		a.owed = append(a.owed, twin.ref)
		a.after = append(a.after, func() {
			for _, c := range []*call{twin, c} {
				c.fail(trouble{class: SentUnknown, text: "the daemon restarted while two requests with this id were in flight"})
			}
		})
		return false
	}
	l.calls[upKey], l.byRef[k.Ref] = c, c
	if k.State == CallAnswered {
		c.arrives = true
		l.arriving++
	}
	if c.upTok != "" {
		l.tokens[c.upTok] = c
	}
	if k.State == CallRunning && !c.isListen {
		c.rearm(now, k.Age)
	}
	if c.ended.Load() { // its session ended just now
		l.removeLocked(c)
		return false
	}
	return true
}

// inherits makes a call of an earlier daemon one of this session's, with a stream that its client can resume. False: it
// is over, or there is nothing to wait for.
func (x *Session) inherits(c *call, k KeptCall, p *past) bool {
	if c.isListen {
		return false // of the session itself: it opens another
	}
	if k.State == CallLost {
		p.add(c.id, k.Method, trouble{class: AnsweredLost, text: "the call was answered while no daemon was there, and the answer was too large to keep"})
		return false
	}
	p.add(c.id, k.Method, trouble{class: AnsweredLost, text: "the call ended, and its answer is not kept any more"}) // once its stream is gone
	c.owner, c.stream = x, newStream("", true)
	c.stream.inherited(c)
	c.idKey, _ = rpc.IDKey(c.id)
	c.answer = func(a answer) { x.answered(c, a) }
	if x.bridged {
		t := &turns{x: x, st: c.stream, id: c.id, method: c.method}
		c.answer = func(a answer) { t.answered(c, a) }
	}
	x.mu.Lock()
	x.calls[c.idKey] = c
	x.mu.Unlock()
	x.Promote(c.stream, c.id)
	return true
}

// missed tells the sessions of the lane that they may have missed something.
func (l *lane) missed(ad Adopted, sessions []*Session) {
	l.forgetSchemas()
	l.srv.g.log.LogAttrs(ctxNone, slog.LevelWarn, "notifications were lost while no daemon was there", slog.String(key.Server, l.srv.name()), slog.String(key.Lane, l.key), slog.Uint64(key.Count, ad.Dropped), slog.Uint64(key.Bytes, ad.DropBytes))
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if !l.declares(kind) {
			continue
		}
		for _, x := range sessions {
			x.get.push(rpc.NotificationMessage("notifications/"+kind+"/list_changed", nil))
		}
	}
}

// anchored gives a time that was read from a file the clock of now, so that setting the wall clock changes no distance to
// it.
func anchored(t, now time.Time) time.Time { return now.Add(-max(now.Sub(t), 0)) }
