package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// probeSilence is how long a stdio server may ignore server/discover before initialize is sent beside it
// (protocol.md section 7.1).
const probeSilence = 2 * time.Second

// errNotModern is the verdict of a probe: the backend speaks the legacy revisions only.
var errNotModern = errors.New("the server does not speak " + era.V20260728)

// refusedInit is an initialize that the backend answered with an error.
type refusedInit struct {
	body []byte
	msg  rpc.Message
}

func (e *refusedInit) Error() string {
	return "the server refused initialize: " + string(e.msg.Error.Of(e.body))
}

// roundTrip sends one request of the gateway's own and waits for its answer.
func (l *lane) roundTrip(ctx context.Context, method string, body []byte, o owner, headers map[string]string, limit time.Duration) (answer, error) {
	m, err := rpc.Scan(body)
	if err != nil {
		return answer{}, fmt.Errorf("gateway: own request: %w", err)
	}
	got := make(chan answer, 1)
	c := &call{
		srv: l.srv, method: method, upID: m.ID.Of(body), owner: o, limit: limit, max: limit,
		out:    Outbound{Body: body, Kind: rpc.Request, Method: method, Version: l.httpVersion(), Headers: headers},
		answer: func(a answer) { got <- a },
	}
	c.hold = method == "initialize" || method == "server/discover"
	c.retried.Store(true) // a handshake is repeated by a new start, never by itself
	if p := m.ProgressToken; p.Ok() {
		c.upTok, _ = rpc.IDKey(p.Of(body))
		c.token = p.Of(body)
	}
	l.dispatch(c)
	select {
	case a := <-got:
		return a, nil
	case <-ctx.Done():
		c.cancel("the caller left")
		c.fail(trouble{class: TimedOut, text: "no answer in time"})
		return answer{}, ctx.Err()
	}
}

// ownID makes the id of a request that the gateway itself sends.
func (l *lane) ownID() []byte {
	n := []byte(fmt.Sprint(l.refs.Add(1)))
	return l.makeID(wireID{Epoch: l.srv.g.cfg.Epoch, Kind: idOwn, Orig: n})
}

// intIDBase keeps integer ids of this daemon apart from those of others: 20 bits of the epoch above a counter.
func (l *lane) makeID(w wireID) []byte {
	if l.srv.def.Load().IDStyle == "int" {
		return fmt.Appendf(nil, "%d", (l.srv.g.cfg.Epoch&0xfffff)<<32|l.refs.Add(1)&0xffffffff)
	}
	return w.encode()
}

// openLegacy opens a lane and sends initialize. It returns the lane with the result stored, or *refusedInit.
func (s *Server) openLegacy(ctx context.Context, sl *slot, c Caller, shared bool, body func(l *lane) []byte, o owner) (*lane, answer, error) {
	transports := []catalog.Transport{catalog.TransportStreamable}
	if h := s.def.Load().HTTP; h != nil {
		switch h.Transport {
		case catalog.TransportSSE:
			transports = []catalog.Transport{catalog.TransportSSE}
		case catalog.TransportAuto, "":
			transports = []catalog.Transport{catalog.TransportStreamable, catalog.TransportSSE}
			if s.sse.Load() {
				slices.Reverse(transports)
			}
		case catalog.TransportStreamable:
		}
	}
	var first error
	for i, t := range transports {
		l := newLane(sl, shared, era.Legacy)
		if x, ok := o.(*Session); ok {
			l.sessions[x] = struct{}{}
		}
		if err := s.open(ctx, l, c, false, t); err != nil {
			if first == nil {
				first = err
			}
			return nil, answer{}, first
		}
		a, err := l.roundTrip(ctx, "initialize", body(l), o, nil, 0)
		switch {
		case err != nil:
			l.close("no answer to initialize")
			return nil, answer{}, s.silent("initialize", err)
		case a.own == nil && a.msg.Kind == rpc.Result:
			s.legacy.Store(uint32(speaks))
			s.sse.Store(t == catalog.TransportSSE)
			l.result = a.msg.Result.Of(a.body)
			version, _ := rpc.Unquote(rpc.Find(a.body, a.msg.Result, "protocolVersion").Of(a.body))
			l.negotiated.Store(version)
			return l, a, nil
		case a.own == nil:
			l.close("initialize refused")
			return nil, a, &refusedInit{body: a.body, msg: a.msg}
		}
		l.close("initialize failed")
		err = s.handshakeLost(l, a)
		if first == nil {
			first = err
		}
		if i+1 < len(transports) && (a.status == 400 || a.status == 404 || a.status == 405 || a.status == 406) {
			continue
		}
		return nil, answer{}, first
	}
	return nil, answer{}, first
}

// silent is the error of a handshake that got no answer.
func (s *Server) silent(method string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &startError{text: fmt.Sprintf("no answer to %s within %s (`mcpx server logs %s` shows its output)", method, s.limits().Start, s.name()), wait: time.Second}
	}
	return err
}

// handshakeLost is the error of a handshake whose process or connection ended. The exit arrives beside the answer, so
// it is waited for shortly.
func (s *Server) handshakeLost(l *lane, a answer) error {
	if a.own.exit != nil {
		return &startError{text: a.own.exit.String() + " before it answered initialize", exit: a.own.exit, wait: time.Second}
	}
	if a.own.fix {
		return &startError{text: a.own.text, fix: true}
	}
	return &startError{text: a.own.text, wait: max(a.own.wait, time.Second)}
}

// ownInitialize is the initialize request of the gateway with the given raw client capabilities.
func (s *Server) ownInitialize(caps []byte) func(l *lane) []byte {
	return func(l *lane) []byte {
		params := fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":%s,"clientInfo":%s}`, era.LegacyNewest, caps, s.g.clientInfo())
		return rpc.RequestMessage(l.ownID(), "initialize", params)
	}
}

// allCapabilities is what the gateway declares on a lane that several clients share: a question that one client
// cannot answer is refused for that client alone (docs/decisions/0001).
const allCapabilities = `{"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}}}`

// startShared starts a legacy lane that the gateway initialises itself.
func (s *Server) startShared(caps []byte, c Caller) func(*slot) func(context.Context) (*lane, error) {
	return func(sl *slot) func(context.Context) (*lane, error) {
		return func(ctx context.Context) (*lane, error) {
			l, _, err := s.openLegacy(ctx, sl, c, true, s.ownInitialize(caps), nobody{})
			if err != nil {
				return nil, err
			}
			l.caps = caps
			l.note("notifications/initialized", nil)
			l.remember()
			l.restoreShared()
			return l, nil
		}
	}
}

// startModern probes and opens a lane of 2026-07-28.
func (s *Server) startModern(c Caller) func(*slot) func(context.Context) (*lane, error) {
	return func(sl *slot) func(context.Context) (*lane, error) {
		return func(ctx context.Context) (*lane, error) {
			if verdict(s.modern.Load()) == refuses {
				return nil, errNotModern
			}
			l := newLane(sl, true, era.Modern)
			l.negotiated.Store(era.V20260728)
			if err := s.open(ctx, l, c, true, catalog.TransportStreamable); err != nil {
				return nil, err
			}
			a, err := s.probe(ctx, l)
			if err != nil {
				l.close("probe failed")
				return nil, err
			}
			l.result = a.msg.Result.Of(a.body)
			l.remember()
			return l, nil
		}
	}
}

// probe sends server/discover and decides the era of the backend (protocol.md sections 7.1 and 7.2).
func (s *Server) probe(ctx context.Context, l *lane) (answer, error) {
	type result struct {
		a   answer
		err error
		old bool // the answer to initialize
	}
	results := make(chan result, 2)
	ask := func(method string, body []byte, old bool) {
		s.g.goes.Go(func() {
			a, err := l.roundTrip(ctx, method, body, nobody{}, map[string]string{"Mcp-Method": method}, 0)
			results <- result{a, err, old}
		})
	}
	discover := func() {
		ask("server/discover", rpc.RequestMessage(l.ownID(), "server/discover", l.envelope(nil)), false)
	}
	discover()
	again := true // the version may be offered once more
	silence := time.NewTimer(probeSilence)
	defer silence.Stop()
	certain := verdict(s.modern.Load()) == speaks // known from configuration or an earlier answer: no second handshake
	for {
		select {
		case <-silence.C:
			if s.def.Load().Stdio != nil && !certain {
				ask("initialize", s.ownInitialize([]byte("{}"))(l), true)
			}
			continue
		case r := <-results:
			switch {
			case r.err != nil:
				return answer{}, s.silent("server/discover", r.err)
			case r.old && r.a.own == nil && r.a.msg.Kind == rpc.Result:
				// Silent to discover, answered initialize: legacy. This process saw both handshakes and is not kept.
				s.modern.Store(uint32(refuses))
				return answer{}, errNotModern
			case r.old:
				continue // an error to initialize decides nothing while discover may still be answered
			case again && offers(r.a):
				again = false
				discover()
				continue
			}
			return s.judge(l, r.a, certain)
		}
	}
}

// offers says whether an answer refuses the version and yet names it among those that the server speaks; a client then
// takes it from there (SEP-2575).
func offers(a answer) bool {
	if a.own != nil || a.msg.Kind != rpc.Error || era.CodeOf(a.body, a.msg) != era.CodeUnsupportedVersion {
		return false
	}
	for v := range rpc.Elements(a.body, rpc.Find(a.body, rpc.Find(a.body, a.msg.Error, "data"), "supported")) {
		if name, _ := rpc.Unquote(v.Of(a.body)); name == era.V20260728 {
			return true
		}
	}
	return false
}

// judge reads the answer to server/discover.
func (s *Server) judge(l *lane, a answer, certain bool) (answer, error) {
	if a.own == nil && a.msg.Kind == rpc.Result {
		s.modern.Store(uint32(speaks))
		return a, nil
	}
	if a.own == nil {
		switch code := string(a.msg.Code.Of(a.body)); code {
		case "-32020", "-32021", "-32022":
			s.modern.Store(uint32(speaks))
			return answer{}, &startError{text: "the server refused server/discover: " + string(a.msg.Error.Of(a.body)), wait: time.Minute}
		}
		if certain {
			return answer{}, &startError{text: "the server refused server/discover: " + string(a.msg.Error.Of(a.body)), wait: time.Second}
		}
		s.modern.Store(uint32(refuses))
		return answer{}, errNotModern
	}
	switch {
	case certain || a.status == 401 || a.status == 403 || a.status == 429 || a.status >= 500 || s.def.Load().HTTP != nil && a.status == 0:
		return answer{}, s.handshakeLost(l, a)
	case a.own.exit != nil && a.own.exit.Reason == SpawnFailed:
		return answer{}, s.handshakeLost(l, a)
	}
	// The process ended, or an HTTP server answered 4xx without a JSON-RPC body: legacy only, in a new process. That is
	// not stored before the legacy handshake has succeeded: a server that crashes for another reason proves nothing.
	return answer{}, errNotModern
}
