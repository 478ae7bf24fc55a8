package gateway

import (
	"context"

	"mcpx/internal/catalog"
	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// upstreamJoin is the session of an HTTP backend that an earlier daemon had, for the first start of its lane: it is gone on
// with, without a handshake. A backend that does not know it any more says so at the first request, which then goes to a
// new session.
type upstreamJoin struct {
	upstreamState
	caller Caller
	shared bool
	result []byte // of initialize, as the backend gave it
}

// joins sets what the first start of the slot goes on with.
func (s *slot) joins(j *upstreamJoin) {
	s.mu.Lock()
	s.join = j
	s.mu.Unlock()
}

func (s *slot) takeJoin() *upstreamJoin {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.join
	s.join = nil
	return j
}

// begin gives the lane of a start.
func (s *slot) begin(ctx context.Context) (*lane, error) {
	if j := s.takeJoin(); j != nil {
		if l, err := s.srv.joinUpstream(ctx, s, j); err == nil {
			return l, nil
		}
	}
	return s.starter()(ctx)
}

func (s *Server) joinUpstream(ctx context.Context, sl *slot, j *upstreamJoin) (*lane, error) {
	l := newLane(sl, j.shared, era.Legacy)
	l.negotiated.Store(j.Version)
	l.result, l.upstream = j.result, j.upstreamState
	s.mu.Lock()
	sessions := s.sessionsOfLocked(sl.key)
	s.mu.Unlock()
	l.mu.Lock()
	for _, x := range sessions {
		l.enlistLocked(x)
	}
	l.mu.Unlock()
	if err := s.open(ctx, l, j.caller, false, catalog.TransportStreamable); err != nil {
		return nil, err
	}
	s.legacy.Store(uint32(speaks))
	return l, nil
}

// upstreamOf is what a start of the lane of a stored session may go on with, nil for nothing.
func (x *Session) upstreamOf(c Caller) *upstreamJoin {
	if x.srv.def.Load().HTTP == nil || x.bridged || x.upstream.Session == "" {
		return nil
	}
	m := mustScan(x.first)
	if !m.Result.Ok() {
		return nil
	}
	result := withVersion(m.Result.Of(x.first), x.upstream.Version)
	if _, ok := rpc.Unquote(rpc.Find(result, rpc.Span{To: len(result)}, "protocolVersion").Of(result)); !ok {
		return nil
	}
	return &upstreamJoin{upstreamState: x.upstream, caller: c, shared: !x.own, result: result}
}

// restarted has the sessions of an HTTP lane stored again: the backend gave the lane another session.
func (s *Server) restarted(sl *slot) {
	if s.def.Load().HTTP == nil {
		return
	}
	s.mu.Lock()
	sessions := s.sessionsOfLocked(sl.key)
	s.mu.Unlock()
	for _, x := range sessions {
		x.changed()
	}
}
