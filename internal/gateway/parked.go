package gateway

import (
	"slices"
	"time"

	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// Calls of modern clients that wait for answers of those clients (cell M-L).

// park enters the call into the server's table of parked calls.
func (s *Server) park(b *bridged) bool {
	s.parkMu.Lock()
	defer s.parkMu.Unlock()
	if s.parked[b.key] == nil && len(s.parked) >= maxParked {
		return false
	}
	s.parked[b.key] = b
	return true
}

func (s *Server) unpark(b *bridged) {
	s.parkMu.Lock()
	delete(s.parked, b.key)
	s.parkMu.Unlock()
}

// retryParked attaches a retry to its parked call and delivers the answers it brings. It reports true when there is no
// such call because the retry has to repeat it.
func (s *Server) retryParked(st *Stream, r ModernRequest, text string) (repeat bool) {
	refuse := func(why string) bool {
		st.finish(rpc.ErrorResponse(r.id(), era.CodeInvalidParams, why, nil), 200)
		return false
	}
	open, ok := s.g.seal.open(text, s.g.now())
	if !ok {
		return refuse("requestState is not valid or too old; repeat the call without it")
	}
	if open.Principal != r.Caller.Principal || open.Method != r.method() || open.Digest != paramsDigest(r) {
		return refuse("requestState belongs to another request")
	}
	if open.Call == "" {
		return true
	}
	s.parkMu.Lock()
	b := s.parked[open.Call]
	s.parkMu.Unlock()
	if b == nil {
		st.finish(parkedGone().body(r.id(), s.name(), r.method()), 200)
		return false
	}
	b.resume(st, r)
	return false
}

func parkedGone() trouble {
	return trouble{class: SentUnknown, text: "the parked call is gone: its server ended, or it was answered already"}
}

// resume delivers a retry's answers and goes on with the call.
func (b *bridged) resume(st *Stream, r ModernRequest) {
	b.mu.Lock()
	switch {
	case b.over:
		b.mu.Unlock()
		st.finish(parkedGone().body(r.id(), b.srv.name(), r.method()), 200)
		return
	case b.stream != nil:
		b.mu.Unlock()
		st.finish(rpc.ErrorResponse(r.id(), era.CodeInvalidParams, "another retry of this call is running", nil), 200)
		return
	}
	b.stream, b.id, b.token = st, r.id(), r.Msg.ProgressToken.Of(r.Body)
	b.m.c.parked.Store(false)
	var ready []func()
	b.asks = slices.DeleteFunc(b.asks, func(q question) bool {
		value := era.InputResponse(r.Body, r.Msg, q.key)
		if value == nil {
			return false
		}
		body := rpc.ResultResponse(q.ask.replyID(), value)
		msg, err := rpc.Scan(body)
		if err != nil {
			return false // no valid result: it counts as missing, and the question is asked again
		}
		ready = append(ready, func() { q.ask.answered(body, msg) })
		return true
	})
	kept, missing := b.kept, len(b.asks) > 0
	b.mu.Unlock()
	st.onGone(func() { b.left(st) })
	b.m.lane.remember()
	for _, f := range ready {
		f()
	}
	switch {
	case kept != nil:
		b.deliver(*kept)
	case missing:
		b.offer()
	}
}

// sweepParked gives up parked calls whose time is over.
func (s *Server) sweepParked(now time.Time) {
	s.parkMu.Lock()
	var late []*bridged
	for _, b := range s.parked {
		b.mu.Lock()
		if b.stream == nil && now.After(b.expires) {
			late = append(late, b)
		}
		b.mu.Unlock()
	}
	s.parkMu.Unlock()
	for _, b := range late {
		b.abandon()
	}
}

// parkedState is what a parked call leaves with the lane.
type parkedState struct {
	Asked int               `json:"asked"`
	Keys  map[string]string `json:"keys,omitempty"` // of its open questions: r-key by the key of the server's id
}

// parkedOn gives the parked calls of a lane.
func (s *Server) parkedOn(l *lane) map[string]parkedState {
	s.parkMu.Lock()
	defer s.parkMu.Unlock()
	var all map[string]parkedState
	for key, b := range s.parked {
		b.mu.Lock()
		if b.m != nil && b.m.lane == l && b.stream == nil {
			st := parkedState{Asked: b.asked, Keys: map[string]string{}}
			for _, q := range b.asks {
				askKey, _ := rpc.IDKey(q.ask.upID)
				st.Keys[askKey] = q.key
			}
			if all == nil {
				all = map[string]parkedState{}
			}
			all[key] = st
		}
		b.mu.Unlock()
	}
	return all
}
