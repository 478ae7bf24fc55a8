package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"mcpx/internal/rpc"
)

// A modern client cannot resume a stream: when it breaks, its request is cancelled. After a crash that is what becomes of
// such requests. At a planned restart the old daemon still has the streams, and joins each request at the new one by the
// id that its server knows it by.

// waiter is a request of a modern client that an earlier daemon sent, until somebody joins it or its time is over.
type waiter struct {
	c  *call
	st *Stream
}

// Rejoin gives the stream of a modern client's request that an earlier daemon sent, by the raw id that the server sees.
// While it is being found out which servers outlived that daemon, it waits. False: there is no such request.
func (s *Server) Rejoin(ctx context.Context, wire []byte) (*Stream, bool) {
	upKey, ok := rpc.IDKey(wire)
	if !ok {
		return nil, false
	}
	s.decided(ctx)
	s.mu.Lock()
	w, ok := s.waiters[upKey]
	delete(s.waiters, upKey)
	s.mu.Unlock()
	if !ok {
		return nil, false
	}
	w.joined()
	return w.st, true
}

// joined makes the request depend on its client again.
func (w waiter) joined() {
	if m, ok := w.c.owner.(*modernCall); ok && m.bridge != nil {
		w.st.onGone(func() { m.bridge.left(w.st) })
		return
	}
	w.st.onGone(w.c.abandoned)
}

// decided waits until no adoption of this server is under way.
func (s *Server) decided(ctx context.Context) {
	if s.adopting.Load() == 0 {
		return
	}
	s.mu.Lock()
	slots := make([]*slot, 0, len(s.slots))
	for _, sl := range s.slots {
		slots = append(slots, sl)
	}
	s.mu.Unlock()
	for _, sl := range slots {
		sl.decided(ctx)
	}
}

// keep has a request of a modern client wait for its client.
func (s *Server) keep(c *call) {
	s.mu.Lock()
	if s.waiters == nil {
		s.waiters = map[string]waiter{}
	}
	s.waiters[c.upKey] = waiter{c, c.stream}
	s.mu.Unlock()
}

// giveUp ends the wait: the clients that have not come have left.
func (s *Server) giveUp(upKeys []string) {
	for _, upKey := range upKeys {
		s.mu.Lock()
		w, ok := s.waiters[upKey]
		delete(s.waiters, upKey)
		s.mu.Unlock()
		if ok {
			w.joined()
			w.st.Gone()
		}
	}
}

// modern makes a request of a modern client one of this daemon's. False: nobody can want it any more.
func (a *adoption) modern(c *call, k KeptCall, t keptTag) bool {
	m := &modernCall{srv: c.srv, lane: c.lane, c: c}
	m.reissued.Store(true) // the request itself is gone
	m.relisted.Store(true)
	c.owner, c.stream = m, newStream("", false)
	c.stream.inherited(c)
	m.st = c.stream
	c.answer = func(an answer) { m.answered(c, an) }
	var p parkedTag
	if t.kind == tagBridge && json.Unmarshal(t.parked, &p) != nil {
		return false
	}
	m.req = requestOf(c, p)
	_, parked := a.state.Parked[p.Key]
	if t.kind == tagBridge {
		a.bridged(m, p, parked)
	}
	rejoins := c.srv.g.cfg.Rejoin > 0 && !c.isListen
	switch {
	case parked:
		return k.State != CallLost && c.srv.park(m.bridge)
	case !rejoins:
		return false
	}
	if k.State == CallLost {
		c.fail(trouble{class: AnsweredLost, text: "the call was answered, and the answer was too large to keep"})
	}
	c.srv.keep(c)
	a.waiting = append(a.waiting, c.upKey)
	return k.State != CallLost
}

// requestOf is as much of the client's request as its answer needs.
func requestOf(c *call, p parkedTag) ModernRequest {
	params := []byte("{}")
	if p.URI != nil {
		params = append(append([]byte(`{"uri":`), p.URI...), '}')
	}
	body := rpc.RequestMessage(c.id, c.method, params)
	return ModernRequest{Body: body, Msg: mustScan(body), Caller: Caller{Principal: p.Principal}}
}

// bridged makes the call one of cell M-L again, parked or with its stream.
func (a *adoption) bridged(m *modernCall, p parkedTag, parked bool) {
	c := m.c
	b := &bridged{srv: c.srv, m: m, caps: capsOf(p.Caps), level: p.Level, key: p.Key, digest: p.Digest}
	m.bridge = b
	c.answer = b.answered
	if !parked {
		b.stream, b.id, b.token = c.stream, c.id, c.token
		return
	}
	was := a.state.Parked[p.Key]
	b.asked, b.keys, b.expires = was.Asked, was.Keys, c.srv.g.now().Add(stateTTL)
	c.parked.Store(true)
	for askKey := range was.Keys {
		if a.lane.askers == nil {
			a.lane.askers = map[string]owner{}
		}
		a.lane.askers[askKey] = m
	}
}

// graceOver cancels what nobody joined in time.
func (a *adoption) graceOver() {
	s := a.slot.srv
	waiting := slices.Clone(a.waiting)
	if len(waiting) > 0 {
		time.AfterFunc(s.g.cfg.Rejoin, func() { s.giveUp(waiting) })
	}
}
