package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"mcpx/internal/crash"
	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// Initialize opens a session. The answer is the body for the client; the session is nil when the backend refused.
// An initialize always opens a new session, whatever session header it carries.
func (s *Server) Initialize(ctx context.Context, body []byte, m rpc.Message, c Caller) (*Session, []byte) {
	s.requests.Add(1)
	id := m.ID.Of(body)
	if s.opening.Add(1); s.opening.Load() > maxSessions {
		s.opening.Add(-1)
		return nil, trouble{class: Busy, text: "too many sessions are starting", wait: time.Second}.body(id, s.name(), "initialize")
	}
	defer s.opening.Add(-1)
	x := s.newSession(body, m, c)
	answer, err := s.connect(ctx, x)
	if err != nil {
		if r, ok := errors.AsType[*refusedInit](err); ok {
			return nil, rpc.Splice(r.body, rpc.Edit{At: r.msg.ID, With: id})
		}
		return nil, startTrouble(err).body(id, s.name(), "initialize")
	}
	if x.own {
		x.Version, _ = rpc.Unquote(rpc.Find(answer, mustScan(answer).Result, "protocolVersion").Of(answer))
	}
	if !x.own {
		x.first = answer
	}
	x.home = homeOf(x.slot)
	if !s.adopt(x) {
		return nil, trouble{class: Unavailable, text: "the server was removed, disabled or changed", wait: time.Second}.body(id, s.name(), "initialize")
	}
	keep, stop := context.WithTimeout(context.WithoutCancel(ctx), saveWithin)
	defer stop()
	crash.Point("gateway.session-made")
	s.g.shelf.saveNow(keep, x) // before its client learns its id
	crash.Point("gateway.session-saved")
	return x, answer
}

func (s *Server) newSession(body []byte, m rpc.Message, c Caller) *Session {
	x := s.sessionOf(s.g.random(sessionIDLen), body, m, c)
	x.created = x.used
	return x
}

// sessionOf makes a session that is not in the server's table yet.
func (s *Server) sessionOf(secret string, body []byte, m rpc.Message, c Caller) *Session {
	short := shortKey(secret)
	x := &Session{
		ID: secret, srv: s, caller: c, short: short, tag: []byte(string(tagSession) + short), tagSame: []byte(string(tagSession) + short + string(tagSame)), body: body, params: m.Params.Of(body), level: -1, used: s.g.now(),
		get: newStream(standaloneID, true), calls: map[string]*call{}, asks: map[string]*ask{}, streams: map[string]*Stream{}, subs: map[string]bool{},
	}
	x.caps = capsOf(rpc.Find(body, m.Params, "capabilities").Of(body))
	return x
}

// connect gives the session its lane and the answer to its initialize.
func (s *Server) connect(ctx context.Context, x *Session) ([]byte, error) {
	var refused error
	if verdict(s.legacy.Load()) != refuses {
		answer, err := s.connectLegacy(ctx, x)
		if err == nil {
			return answer, nil
		}
		if _, ok := errors.AsType[*refusedInit](err); !ok {
			return nil, err
		}
		refused = err
		if verdict(s.modern.Load()) == refuses {
			return nil, err
		}
	}
	answer, err := s.connectBridged(ctx, x)
	if err != nil && refused != nil && errors.Is(err, errNotModern) {
		return nil, refused
	}
	return answer, err
}

// connectLegacy is cell L-L: the client's own initialize on an exclusive lane, the lane's stored result on a shared
// one.
func (s *Server) connectLegacy(ctx context.Context, x *Session) ([]byte, error) {
	laneKey := s.laneKey(x.caller)
	if laneKey == "" {
		x.own, x.alone = true, true
		sl, err := s.slotFor(sessionPrefix+x.short, x.startExclusive)
		if err != nil {
			return nil, err
		}
		x.slot = sl
		if _, err := sl.get(ctx); err != nil {
			s.dropSlot(sl, "the session did not start")
			return nil, err
		}
		return x.first, nil
	}
	sl, err := s.slotFor("l:"+laneKey, s.startShared([]byte(allCapabilities), x.caller))
	if err != nil {
		return nil, err
	}
	x.slot = sl
	l, err := sl.get(ctx)
	if err != nil {
		return nil, err
	}
	x.Version = x.negotiate(l.version()) // before the lane's notifications reach the session
	l.join(x)
	_, id := x.initID()
	return rpc.ResultResponse(id, withVersion(l.result, x.Version)), nil
}

// initID scans the stored initialize for its id.
func (x *Session) initID() (rpc.Message, []byte) {
	m := mustScan(x.body)
	return m, m.ID.Of(x.body)
}

// negotiate picks the revision for a client on a lane that was initialised without it: what the client asked for
// when we know it and the lane's is newer, else the lane's.
func (x *Session) negotiate(lane string) string {
	asked, _ := rpc.Unquote(rpc.Find(x.body, mustScan(x.body).Params, "protocolVersion").Of(x.body))
	if era.IsLegacy(asked) && asked < lane {
		return asked
	}
	return lane
}

// withVersion replaces protocolVersion in a raw initialize result.
func withVersion(result []byte, version string) []byte {
	at := rpc.Find(result, rpc.Span{To: len(result)}, "protocolVersion")
	if !at.Ok() {
		return result
	}
	return rpc.Splice(result, rpc.Edit{At: at, With: rpc.Quote(version)})
}

// startExclusive opens the session's own lane. The first start forwards the client's initialize; a later one replays
// it, then what the session had set up, so that a client notices nothing but its lists being announced as changed.
func (x *Session) startExclusive(sl *slot) func(context.Context) (*lane, error) {
	return func(ctx context.Context) (*lane, error) {
		l, a, err := x.srv.openLegacy(ctx, sl, x.who(), false, func(*lane) []byte { return x.body }, x)
		if err != nil {
			return nil, err
		}
		x.mu.Lock()
		again := x.ready
		x.mu.Unlock()
		if !again {
			x.first = a.body
			l.remember()
			return l, nil
		}
		if l.version() != x.Version || x.srv.def.Load().Stateful || !keepsPromises(x.first, l.result) {
			l.close("the session cannot be restored")
			text := "the server came back different or is stateful; the session ended, initialize again"
			if x.srv.def.Load().Direct && x.isRevived() {
				text = unsupervised + "; " + text
			}
			x.mu.Lock()
			x.reason = text
			x.mu.Unlock()
			x.srv.g.goes.Go(x.Close)
			return nil, &startError{text: text, wait: time.Second}
		}
		x.restore(l)
		return l, nil
	}
}

// keepsPromises reports whether the result of a new handshake has every capability that the first answer promised.
func keepsPromises(first, result []byte) bool {
	m := mustScan(first)
	promised := rpc.Find(first, m.Result, "capabilities")
	now := rpc.Find(result, rpc.Span{To: len(result)}, "capabilities")
	if !promised.Ok() || first[promised.From] != '{' {
		return true
	}
	for member := range rpc.Members(first, promised) {
		name, _ := rpc.Unquote(member.Key.Of(first))
		if !now.Ok() || result[now.From] != '{' || !rpc.Find(result, now, name).Ok() {
			return false
		}
	}
	return true
}

// restore repeats the set-up of the session on a new process.
func (x *Session) restore(l *lane) {
	x.mu.Lock()
	level, subs := x.level, make([]string, 0, len(x.subs))
	for uri := range x.subs {
		subs = append(subs, uri)
	}
	x.mu.Unlock()
	slices.Sort(subs)
	l.note("notifications/initialized", nil)
	l.remember()
	if level >= 0 {
		l.fire("logging/setLevel", append(append([]byte(`{"level":`), rpc.Quote(levels[level])...), '}'))
	}
	for _, uri := range subs {
		l.fire("resources/subscribe", append(append([]byte(`{"uri":`), rpc.Quote(uri)...), '}'))
	}
	for _, kind := range []string{"tools", "prompts", "resources"} {
		capability := rpc.Find(l.result, rpc.Span{To: len(l.result)}, "capabilities")
		if !capability.Ok() || !rpc.Find(l.result, capability, kind).Ok() {
			continue
		}
		x.get.push(rpc.NotificationMessage("notifications/"+kind+"/list_changed", nil))
	}
}

// fire sends a request of the gateway's own whose answer decides nothing: the session goes on without it. It keeps its
// place before whatever is sent next.
func (l *lane) fire(method string, params []byte) {
	id := l.ownID()
	c := &call{srv: l.srv, method: method, upID: id, owner: nobody{}, limit: fireLimit, max: fireLimit, answer: func(answer) {}}
	c.out = Outbound{Body: rpc.RequestMessage(id, method, params), Kind: rpc.Request, Method: method, Version: l.httpVersion()}
	c.retried.Store(true)
	l.dispatch(c)
}
