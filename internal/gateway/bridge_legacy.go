package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// Cell L-M: a legacy session on a backend that speaks only 2026-07-28. The session has no process of its own; its
// requests travel on the modern lane with an envelope made from its initialize.

// connectBridged answers an initialize from the backend's server/discover.
func (s *Server) connectBridged(ctx context.Context, x *Session) ([]byte, error) {
	laneKey := s.laneKey(x.caller)
	if laneKey == "" {
		laneKey, x.alone = sessionPrefix+x.short, true
	}
	sl, err := s.slotFor(modernPrefix+laneKey, s.startModern(x.caller))
	if err != nil {
		return nil, err
	}
	l, err := sl.get(ctx)
	if err != nil {
		if x.alone {
			s.dropSlot(sl, "the session did not start")
		}
		return nil, err
	}
	s.legacy.CompareAndSwap(uint32(unknown), uint32(refuses))
	x.slot, x.own, x.bridged = sl, false, true
	x.Version = x.negotiate(era.LegacyNewest) // before the lane's notifications reach the session
	l.join(x)
	_, id := x.initID()
	return rpc.ResultResponse(id, era.InitializeFromDiscover(l.result, x.Version)), nil
}

// requestBridged serves one request of a bridged session.
func (x *Session) requestBridged(st *Stream, method string, body []byte, m rpc.Message) {
	id := m.ID.Of(body)
	switch method {
	case "ping":
		st.finish(rpc.ResultResponse(id, []byte("{}")), 200)
		return
	case "logging/setLevel":
		if !x.note(method, body, m) {
			st.finish(rpc.ErrorResponse(id, era.CodeInvalidParams, "unknown log level", nil), 200)
			return
		}
		st.finish(rpc.ResultResponse(id, []byte("{}")), 200)
		return
	case "resources/subscribe", "resources/unsubscribe":
		if !x.note(method, body, m) {
			st.finish(rpc.ErrorResponse(id, era.CodeInvalidParams, "params.uri is missing", nil), 200)
			return
		}
		x.relistenBridged()
		st.finish(rpc.ResultResponse(id, []byte("{}")), 200)
		return
	}
	x.mu.Lock()
	deaf := x.deaf
	env := era.Envelope{Params: x.params}
	if x.level >= 0 {
		env.LogLevel = levels[x.level]
	}
	x.mu.Unlock()
	if deaf {
		x.relistenBridged()
	}
	modern := era.LegacyToModern(body, m, env)
	scanned, err := rpc.Scan(modern)
	if err != nil { // one more level than the client's own message can be one too many
		st.finish(rpc.ErrorResponse(id, era.CodeInvalidParams, "the request cannot be passed on: "+err.Error(), nil), 200)
		return
	}
	c := x.newCall(st, method, modern, scanned)
	if c == nil {
		st.finish(rpc.ErrorResponse(id, era.CodeInvalidRequest, "a request with this id is still in flight", nil), 200)
		return
	}
	t := &turns{x: x, st: st, id: id, method: method, request: modern, uri: m.URI.Of(body)}
	t.submit(c)
}

// turns is one call of a bridged session over its rounds of questions.
type turns struct {
	x       *Session
	st      *Stream
	id      []byte
	method  string
	request []byte // the modern request with the client's id, as it was first sent; nil when an earlier daemon sent it
	uri     []byte // params.uri, for the error of a missing resource
	rounds  int
}

// submit sends one round.
func (t *turns) submit(c *call) {
	c.logs = true
	if t.x.srv.def.Load().HTTP != nil {
		c.out.Headers = era.HeadersFor(c.out.Body, mustScan(c.out.Body), nil)
		if t.method == "tools/call" {
			t.x.srv.g.goes.Go(func() { t.submitTool(c) })
			return
		}
	}
	c.answer = func(a answer) { t.answered(c, a) }
	t.x.slot.submit(c)
}

// submitTool adds the headers that mirror parameters of a tool, which needs the tool list.
func (t *turns) submitTool(c *call) {
	c.answer = func(a answer) { t.answered(c, a) }
	if l := t.x.slot.usable(); l != nil {
		rules := l.schemas()
		rules.load(l)
		m := mustScan(c.out.Body)
		name, _ := rpc.Unquote(m.Name.Of(c.out.Body))
		c.out.Headers = era.HeadersFor(c.out.Body, m, rules.params[name])
	}
	t.x.slot.submit(c)
}

// answered takes the end of one round.
func (t *turns) answered(c *call, a answer) {
	if a.own != nil {
		t.x.done(c)
		t.st.finish(a.own.body(t.id, t.x.srv.name(), t.method), 200)
		return
	}
	body := withID(a.body, a.msg, t.id)
	m := mustScan(body)
	if m.Kind == rpc.Error {
		t.x.done(c)
		t.st.finishOwing(a.debt, rpc.OneLine(era.ModernErrorToLegacy(t.method, body, m)), 200)
		return
	}
	switch kind, _ := rpc.Unquote(m.ResultType.Of(body)); kind {
	case "input_required":
		a.debt.drop() // what follows is another call
		t.asks(c, body, m)
		return
	case "task":
		a.debt.drop()
		t.x.done(c)
		t.st.finish(trouble{class: AnsweredLost, text: "the server made a task that this client cannot follow"}.body(t.id, t.x.srv.name(), t.method), 200)
		return
	}
	t.x.done(c)
	t.st.finishOwing(a.debt, rpc.OneLine(era.ModernResultToLegacy(t.method, t.x.Version, body, m)), 200)
}

// askable are the requests that an input_required result may hold (2026-07-28).
var askable = []string{"elicitation/create", "sampling/createMessage", "roots/list"}

// asks turns each entry of input_required into a question to the client, and sends the next round when all are
// answered.
func (t *turns) asks(c *call, body []byte, m rpc.Message) {
	if t.request == nil {
		t.x.done(c)
		t.st.finish(trouble{class: AnsweredLost, text: "the server answered with a question, and the daemon restarted since: the call cannot go on"}.body(t.id, t.x.srv.name(), t.method), 200)
		return
	}
	t.rounds++
	entries, state := era.InputRequests(body, m)
	if t.rounds > maxRounds {
		t.x.done(c)
		t.st.finish(rpc.ErrorResponse(t.id, era.CodeInternal, "the server asked too often", nil), 200)
		return
	}
	g := &gathering{t: t, c: c, state: slices.Clone(state), left: len(entries), values: map[string][]byte{}}
	if len(entries) == 0 {
		g.next()
		return
	}
	asks := make([]*ask, 0, len(entries))
	for _, e := range entries {
		req := rpc.RequestMessage([]byte("0"), e.Method, era.DowngradeAsk(e.Method, t.x.Version, e.Params))
		msg, err := rpc.Scan(req)
		if !slices.Contains(askable, e.Method) {
			err = errors.New(e.Method + " is no question to a client")
		}
		if err != nil { // what is valid inside a result need not be a valid request
			t.x.done(c)
			t.st.finish(rpc.ErrorResponse(t.id, era.CodeInternal, "the server's question cannot be passed on: "+err.Error(), nil), 200)
			return
		}
		a := &ask{lane: c.where(), method: e.Method, body: req, msg: msg, owner: t.x, stream: t.st}
		a.reply = func(answer []byte, r rpc.Message) { g.got(e, answer, r) }
		asks = append(asks, a)
	}
	for _, a := range asks {
		t.x.ask(a, c)
	}
}

// gathering collects the answers of one round.
type gathering struct {
	t     *turns
	c     *call
	state []byte

	mu     sync.Mutex // guards the fields below
	left   int
	values map[string][]byte
	order  []string
	failed bool
}

// got takes the client's answer to one question. An error ends the call: the server cannot go on without the answer.
func (g *gathering) got(e era.InputRequest, body []byte, m rpc.Message) {
	g.mu.Lock()
	if g.failed {
		g.mu.Unlock()
		return
	}
	if m.Kind == rpc.Error {
		g.failed = true
		g.mu.Unlock()
		g.t.x.done(g.c)
		g.t.st.finish(rpc.ErrorResponse(g.t.id, era.CodeInternal, "the client did not answer "+e.Method+": "+errorText(body, m), nil), 200)
		return
	}
	g.values[e.Key] = slices.Clone(m.Result.Of(body))
	g.order = append(g.order, e.Key)
	g.left--
	ready := g.left == 0
	g.mu.Unlock()
	if ready {
		g.next()
	}
}

func errorText(body []byte, m rpc.Message) string {
	text, _ := rpc.Unquote(rpc.Find(body, m.Error, "message").Of(body))
	return text
}

// next sends the next round with the answers and the exact state of the server.
func (g *gathering) next() {
	g.mu.Lock()
	answers := make([]era.InputAnswer, 0, len(g.order))
	for _, k := range g.order {
		answers = append(answers, era.InputAnswer{Key: k, Value: g.values[k]})
	}
	g.mu.Unlock()
	x := g.t.x
	if !x.holds(g.c) {
		return // the client cancelled meanwhile
	}
	x.done(g.c)
	body := era.Retry(g.t.request, mustScan(g.t.request), answers, g.state)
	m, err := rpc.Scan(body)
	if err != nil {
		g.t.st.finish(rpc.ErrorResponse(g.t.id, era.CodeInvalidParams, "the answers cannot be passed on: "+err.Error(), nil), 200)
		return
	}
	c := x.newCall(g.t.st, g.t.method, body, m)
	if c == nil {
		return // the id was taken by a new request: the old one has nobody any more
	}
	g.t.submit(c)
}

// holds reports whether the call is still the one that the client waits for.
func (x *Session) holds(c *call) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.calls[c.idKey] == c
}

// notifyBridged takes a notification of a bridged client. Only initialized means something: the upstream listen that
// stands for unsolicited notifications begins.
func (x *Session) notifyBridged(method string) {
	if method == "notifications/initialized" {
		x.relistenBridged()
	}
}

// relistenBridged opens one upstream listen for the session, with the URIs that it subscribed to. A changed set opens
// a new listen before the old one ends.
func (x *Session) relistenBridged() {
	x.srv.g.goes.Go(func() {
		x.relist.Lock()
		defer x.relist.Unlock()
		l, err := x.slot.get(x.srv.g.ctx)
		if err != nil {
			x.mu.Lock()
			x.deaf = !x.ended
			x.mu.Unlock()
			return // the next request of the session reports it, or finds a server to listen to
		}
		x.mu.Lock()
		x.deaf = false
		uris := make([]string, 0, len(x.subs))
		for uri := range x.subs {
			uris = append(uris, uri)
		}
		over := x.ended
		x.mu.Unlock()
		if over {
			return
		}
		slices.Sort(uris)
		filter := listenFilter{Tools: true, Prompts: true, Resources: true, URIs: uris}
		c := x.newListen(l, l.granted(filter))
		x.mu.Lock()
		unacknowledged := x.former
		x.former, x.listen = x.listen, c
		over = x.ended
		x.mu.Unlock()
		if unacknowledged != nil {
			unacknowledged.stopListen()
		}
		if !over {
			l.dispatch(c)
		}
	})
}

// listenAcknowledged ends the listen that the acknowledged one replaces.
func (x *Session) listenAcknowledged(c *call) {
	x.mu.Lock()
	var old *call
	if x.listen == c {
		old, x.former, x.breaks = x.former, nil, 0
	}
	x.mu.Unlock()
	if old != nil {
		old.stopListen()
	}
}

// listenPause is the first pause before a listen that ended by itself is opened again; it doubles up to a minute.
const listenPause = time.Second

// listenEnded opens the listen again when the upstream stream broke or the server ended it. A server that refuses to
// listen at all is not asked again.
func (x *Session) listenEnded(c *call, a answer) {
	a.debt.drop()
	x.mu.Lock()
	again := x.listen == c && !x.ended && (a.own != nil || a.msg.Kind == rpc.Result)
	pause := min(listenPause<<min(x.breaks, 6), time.Minute)
	if again {
		x.breaks++
		x.listen = nil
	}
	x.mu.Unlock()
	if again {
		time.AfterFunc(pause, x.relistenBridged)
	}
}

// stopListen ends an upstream listen that nobody needs any more.
func (c *call) stopListen() {
	c.stopQuiet(func(*lane) []byte {
		return rpc.NotificationMessage("notifications/cancelled", append(append([]byte(`{"requestId":`), c.upID...), '}'))
	})
}

// newListen makes the listen of a session.
func (x *Session) newListen(l *lane, filter listenFilter) *call {
	raw, err := json.Marshal(filter)
	if err != nil {
		panic("gateway: listen filter does not encode: " + err.Error())
	}
	upID := l.makeID(wireID{Epoch: x.srv.g.cfg.Epoch, Kind: idBridge, Session: x.short, Stream: l.nextStream(), Orig: []byte(`"listen"`)})
	base := l.envelope(nil)
	params := rpc.Splice(base, rpc.EditObject(base, rpc.Span{To: len(base)}, nil, rpc.Pair{Key: "notifications", Value: raw})...)
	c := &call{srv: x.srv, method: "subscriptions/listen", id: []byte(`"listen"`), upID: upID, owner: x, isListen: true}
	c.out = Outbound{Body: rpc.RequestMessage(upID, "subscriptions/listen", params), Kind: rpc.Request, Method: "subscriptions/listen", Version: l.httpVersion(), Headers: map[string]string{"Mcp-Method": "subscriptions/listen"}}
	c.answer = func(a answer) { x.listenEnded(c, a) }
	return c
}

// tellBridged passes a notification of a modern backend to a legacy client, in that client's shape.
func (x *Session) tellBridged(via *call, method string, body []byte, m rpc.Message) {
	switch method {
	case "notifications/subscriptions/acknowledged":
		x.listenAcknowledged(via)
		return
	case "notifications/cancelled":
		return
	case "notifications/message":
		if !x.wants(body, m) {
			return
		}
	case "notifications/resources/updated":
		if !x.subscribed(body, m) {
			return
		}
	}
	if m.Subscription.Ok() {
		body = rpc.Splice(body, rpc.EditObject(body, m.Meta, []string{era.MetaSubscriptionID})...)
	}
	if via != nil && via.isListen {
		via = nil
	}
	x.streamForNote(via, method).push(rpc.OneLine(era.DowngradeNotification(method, x.Version, body)))
}
