package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"mcpx/internal/era"
	"mcpx/internal/fault"
	"mcpx/internal/rpc"
)

// ModernRequest is one POST of a 2026-07-28 client. The edge has checked envelope and headers (era.CheckModern).
type ModernRequest struct {
	Body    []byte
	Msg     rpc.Message
	Caller  Caller
	Header  era.Headers       // Mcp-Param-* of the request
	Forward map[string]string // Mcp-Param-* as they came, for an HTTP backend that knows more of them than we do
	Limit   time.Duration     // how long the call may take, in place of the limits of the server; 0: those
}

// modernCall is the owner of one modern request. It is a request's own world: nothing is shared between two of them.
type modernCall struct {
	srv  *Server
	req  ModernRequest
	c    *call // as it was first sent; the bridge sends no other
	st   *Stream
	lane *lane

	reopened atomic.Bool // its listen was sent again after the lane was lost
	relisted atomic.Bool // header rules were read again after -32020
	reissued atomic.Bool // it was sent once more after its answer was lost

	bridge *bridged // cell M-L only
}

var _ notifiable = (*modernCall)(nil)

// modernPrefix begins the keys of lanes that speak 2026-07-28.
const modernPrefix = "m:"

// Modern takes one request of a modern client. The answer, and everything that belongs to it, comes on the stream;
// closing the stream early is the cancellation.
func (s *Server) Modern(r ModernRequest) *Stream {
	s.requests.Add(1)
	st := newStream("", false)
	st.moved = s.moved
	if s.withheld(r.method(), r.Body, r.Msg) {
		s.refuseWithheld(st, r.id())
		return st
	}
	if r.method() == "subscriptions/listen" {
		st.moved = s.handed
	}
	if s.adopting.Load() == 0 {
		s.serveModern(st, r)
		return st
	}
	// The children of the earlier daemon know which era the server speaks, and which of its calls are parked.
	s.g.goes.Go(func() {
		ctx, stop := context.WithTimeout(s.g.ctx, adoptWithin+maxAdoptWait)
		defer stop()
		s.decided(ctx)
		s.serveModern(st, r)
	})
	return st
}

func (s *Server) serveModern(st *Stream, r ModernRequest) {
	if verdict(s.modern.Load()) == refuses {
		s.bridgeModern(st, r)
		return
	}
	laneKey := s.laneKey(r.Caller)
	if laneKey == "" {
		laneKey = soloKey(r.Caller)
	}
	sl, err := s.slotFor(modernPrefix+laneKey, s.startModern(r.Caller))
	if err != nil {
		st.finish(startTrouble(err).body(r.id(), s.name(), r.method()), 200)
		return
	}
	if l := sl.usable(); l != nil {
		s.native(st, l, r)
		return
	}
	s.g.goes.Go(func() {
		ctx, stop := context.WithTimeout(s.g.ctx, s.limits().Start+maxSlotWait)
		defer stop()
		l, err := sl.get(ctx)
		switch {
		case errors.Is(err, errNotModern):
			s.dropSlot(sl, "legacy server")
			s.bridgeModern(st, r)
		case err != nil:
			st.finish(startTrouble(err).body(r.id(), s.name(), r.method()), 200)
		default:
			s.native(st, l, r)
		}
	})
}

func (r ModernRequest) id() []byte     { return r.Msg.ID.Of(r.Body) }
func (r ModernRequest) method() string { return r.Msg.MethodOf(r.Body) }

// native is cell M-M: the message passes, with id, progress token and headers of its own.
func (s *Server) native(st *Stream, l *lane, r ModernRequest) {
	if r.method() != "tools/call" {
		s.nativeSend(st, l, r, nil)
		return
	}
	rules := l.schemas()
	if rules.known() {
		s.nativeCall(st, l, r, rules)
		return
	}
	s.g.goes.Go(func() {
		rules.load(l)
		s.nativeCall(st, l, r, rules)
	})
}

// nativeCall applies the header rules of a tool. In front of a stdio backend the gateway is the server that reads the
// body, so it verifies Mcp-Param-* itself; towards an HTTP backend the headers are computed anew.
func (s *Server) nativeCall(st *Stream, l *lane, r ModernRequest, rules *toolSchemas) {
	if bad := rules.check(r); bad != nil {
		st.finish(bad.Body(r.id()), bad.Status)
		return
	}
	s.nativeSend(st, l, r, rules.of(r))
}

func (s *Server) nativeSend(st *Stream, l *lane, r ModernRequest, params []era.ParamHeader) {
	m := &modernCall{srv: s, req: r, lane: l}
	c := s.modernCall(st, l, m, idModern)
	c.isListen = c.method == "subscriptions/listen"
	if c.isListen {
		c.limit, c.max = 0, 0
	}
	c.logs = r.Msg.Meta.Ok() && rpc.Find(r.Body, r.Msg.Meta, era.MetaLogLevel).Ok()
	if s.def.Load().HTTP != nil {
		c.out.Headers = map[string]string{}
		maps.Copy(c.out.Headers, r.Forward)
		maps.Copy(c.out.Headers, era.HeadersFor(r.Body, r.Msg, params))
	}
	c.answer = func(a answer) { m.answered(c, a) }
	st.onGone(c.abandoned)
	l.dispatch(c)
}

// modernCall makes the upstream call of a modern request: a new id, a new progress token, every other byte untouched.
func (s *Server) modernCall(st *Stream, l *lane, m *modernCall, kind idKind) *call {
	r := m.req
	limit, most := s.deadline(r.method())
	if r.Limit > 0 {
		limit, most = r.Limit, r.Limit
	}
	c := &call{srv: s, method: r.method(), id: r.id(), owner: m, stream: st, limit: limit, max: most}
	post := l.nextStream()
	c.upID = l.makeID(wireID{Epoch: s.g.cfg.Epoch, Kind: kind, Stream: post, Orig: origOf(c.id)})
	edits := append(make([]rpc.Edit, 0, 2), rpc.Edit{At: r.Msg.ID, With: c.upID})
	if tok := r.Msg.ProgressToken; tok.Ok() {
		c.token = tok.Of(r.Body)
		up := l.makeID(wireID{Epoch: s.g.cfg.Epoch, Kind: kind, Stream: post, Orig: origOf(c.token)})
		c.upTok, _ = rpc.IDKey(up)
		c.upRaw = up
		edits = append(edits, rpc.Edit{At: tok, With: up})
	}
	c.out = Outbound{Body: rpc.Splice(r.Body, edits...), Kind: rpc.Request, Method: c.method, Version: l.httpVersion(), Tag: modernTag(c)}
	if m.c == nil {
		m.c, m.st = c, st
	}
	st.onWire(c.upID)
	return c
}

// answered passes the end of a native call to the client.
func (m *modernCall) answered(c *call, a answer) {
	if a.own != nil {
		if a.own.class == SentUnknown && onlyReads(c.method) && m.reissued.CompareAndSwap(false, true) && m.reissue(c) {
			return
		}
		c.stream.finish(a.own.body(c.id, m.srv.name(), c.method), 200)
		return
	}
	body := a.body
	code := 0
	if a.msg.Kind == rpc.Error {
		code, _ = strconv.Atoi(string(a.msg.Code.Of(body)))
	}
	if code == era.CodeHeaderMismatch && m.srv.def.Load().HTTP != nil && c.method == "tools/call" && m.relisted.CompareAndSwap(false, true) {
		a.debt.drop()
		m.relist()
		return
	}
	if a.msg.Subscription.Ok() && c.isListen {
		body = rpc.Splice(body, rpc.Edit{At: a.msg.Subscription, With: c.id})
		body = withID(body, mustScan(body), c.id)
	} else {
		body = withID(body, a.msg, c.id)
	}
	switch {
	case c.method == "server/discover" || code == era.CodeUnsupportedVersion:
		body = era.CutVersions(body, mustScan(body))
	case c.method == "tools/list" && m.srv.def.Load().HTTP != nil && a.msg.Kind == rpc.Result:
		body = m.srv.withoutInvalidTools(body)
	}
	c.stream.finishOwing(a.debt, rpc.OneLine(body), era.ModernStatus(code))
}

// onlyReads reports whether a request of this method changes nothing, so that it may be sent once more when its answer
// was lost (protocol.md section 5.2).
func onlyReads(method string) bool {
	return method == "server/discover" || method == "resources/read" || strings.HasSuffix(method, "/list")
}

// reissue sends the request once more, with a new id.
func (m *modernCall) reissue(old *call) bool {
	sl := m.lane.slot
	if sl.isClosed() {
		return false
	}
	c := m.srv.modernCall(m.st, m.lane, m, idModern)
	c.logs, c.out.Headers = old.logs, old.out.Headers
	c.answer = func(a answer) { m.answered(c, a) }
	m.st.onGone(c.abandoned)
	sl.submit(c)
	return true
}

// relist reads the header rules again and repeats a call that the backend refused for its headers; a refused call did
// not run.
func (m *modernCall) relist() {
	m.srv.g.goes.Go(func() {
		m.lane.forgetSchemas()
		rules := m.lane.schemas()
		rules.load(m.lane)
		c := m.srv.modernCall(m.st, m.lane, m, idModern)
		c.out.Headers = map[string]string{}
		maps.Copy(c.out.Headers, m.req.Forward)
		maps.Copy(c.out.Headers, era.HeadersFor(m.req.Body, m.req.Msg, rules.of(m.req)))
		c.answer = func(a answer) { m.answered(c, a) }
		m.st.onGone(c.abandoned)
		m.lane.dispatch(c)
	})
}

// withoutInvalidTools removes tools whose header annotations are invalid from the list of an HTTP backend: a client's
// duty that the gateway takes over (protocol.md section 3.3).
func (s *Server) withoutInvalidTools(body []byte) []byte {
	m := mustScan(body)
	list := rpc.Find(body, m.Result, "tools")
	if !list.Ok() || body[list.From] != '[' {
		return body
	}
	bad := false
	keep := []byte{'['}
	for tool := range rpc.Elements(body, list) {
		if _, err := era.ParamHeaders(tool.Of(body)); err != nil {
			bad = true
			continue
		}
		if len(keep) > 1 {
			keep = append(keep, ',')
		}
		keep = append(keep, tool.Of(body)...)
	}
	if !bad {
		return body
	}
	body = rpc.Splice(body, rpc.Edit{At: list, With: append(keep, ']')})
	m = mustScan(body)
	if at := rpc.Find(body, m.Result, "cacheScope"); at.Ok() {
		body = rpc.Splice(body, rpc.Edit{At: at, With: []byte(`"private"`)})
	}
	return body
}

// ask answers a server's question for a modern request. A native backend asks by input_required, never by a request.
func (m *modernCall) ask(a *ask, _ *call) {
	if m.bridge == nil {
		a.refuse(era.CodeMethodNotFound, "servers of this revision ask by input_required")
		return
	}
	m.bridge.ask(a)
}

// tell passes one notification to the client of this request.
func (m *modernCall) tell(via *call, method string, body []byte, msg rpc.Message) {
	if m.bridge != nil {
		m.bridge.tell(via, method, body, msg)
		return
	}
	if msg.Subscription.Ok() {
		if method == "notifications/subscriptions/acknowledged" && m.reopened.Load() {
			m.changedMeanwhile(body, msg)
			return // the client has its acknowledgement already
		}
		body = rpc.Splice(body, rpc.Edit{At: msg.Subscription, With: m.req.id()})
	}
	m.st.push(rpc.OneLine(body))
}

// changedMeanwhile tells a listen that was opened again what it may have missed.
func (m *modernCall) changedMeanwhile(ack []byte, msg rpc.Message) {
	granted := rpc.Find(ack, msg.Params, "notifications")
	for member, method := range map[string]string{"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"} {
		if granted.Ok() && string(rpc.Find(ack, granted, member).Of(ack)) == "true" {
			params := append(append(append([]byte(`{"_meta":{`), rpc.Quote(era.MetaSubscriptionID)...), ':'), m.req.id()...)
			m.st.push(rpc.NotificationMessage("notifications/"+method+"/list_changed", append(params, "}}"...)))
		}
	}
}

// Request is one request of the gateway's own client.
type Request struct {
	As     Caller
	Server string // name in the catalog
	Method string
	Params []byte        // a JSON object; nil is an empty one
	Limit  time.Duration // how long it may take once it is sent; 0: what the entry of the server says
}

// Call is the gateway's own client: one request in the modern form, whatever the backend speaks. It can answer no
// question of the server. What a server or the gateway answers with a JSON-RPC error is an *RPCError.
func (g *Gateway) Call(ctx context.Context, r Request) ([]byte, error) {
	s, ok := g.Route(r.Server)
	if !ok {
		return nil, unrouted(r.Server)
	}
	body := ownRequest(g, r.Method, r.Params)
	m, err := rpc.Scan(body)
	if err != nil {
		return nil, &RPCError{Code: era.CodeInvalidParams, Message: err.Error()}
	}
	st := s.Modern(ModernRequest{Body: body, Msg: m, Caller: r.As, Limit: r.Limit})
	answer := st.Follow()
	defer answer.Stop()
	for {
		e, state := answer.Next()
		switch state {
		case ReadWait:
			select {
			case <-answer.Wake():
			case <-answer.Moved():
			case <-ctx.Done():
				st.Gone()
				return nil, ctx.Err()
			}
		case ReadMoved:
			return g.callNext(ctx, s, st, body)
		case ReadEvent:
			if e.Final {
				answer.Delivered()
				return ownResult(e.Data)
			}
		case ReadEnd, ReadMissed:
			return nil, &RPCError{Code: era.CodeInternal, Message: "the stream ended without an answer"}
		}
	}
}

// Client makes requests of servers; *Gateway is one.
type Client interface {
	Call(ctx context.Context, r Request) ([]byte, error)
}

var _ Client = (*Gateway)(nil)

// maxToolPages bounds one tool list: a server whose pages never end must not keep the caller for ever.
const maxToolPages = 100

// ListTools asks a server for its tools, all pages, each as the server describes it.
func ListTools(ctx context.Context, c Client, as Caller, server string) ([]json.RawMessage, error) {
	tools := []json.RawMessage{}
	r := Request{As: as, Server: server, Method: "tools/list"}
	for range maxToolPages {
		result, err := c.Call(ctx, r)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools      []json.RawMessage `json:"tools"`
			NextCursor *string           `json:"nextCursor"`
		}
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, fault.New(fault.Unavailable, "answer-invalid").Saying("the answer of %s to %s is not what MCP asks for", server, r.Method).
				Hinting("see `mcpx server logs %s`", server).Because(err)
		}
		tools = append(tools, page.Tools...)
		if page.NextCursor == nil {
			return tools, nil
		}
		r.Params = append(append([]byte(`{"cursor":`), rpc.Quote(*page.NextCursor)...), '}')
	}
	return nil, fault.New(fault.Unavailable, "tools-endless").
		Saying("%s did not end its list of tools within %d pages", server, maxToolPages)
}

// ownRequest adds the envelope of 2026-07-28 to the params of a request of our own.
func ownRequest(g *Gateway, method string, params []byte) []byte {
	if len(params) == 0 {
		params = []byte("{}")
	}
	meta, err := json.Marshal(map[string]any{era.MetaProtocolVersion: era.V20260728, era.MetaClientInfo: g.clientInfo(), era.MetaClientCapabilities: struct{}{}})
	if err != nil {
		panic("gateway: own envelope does not encode: " + err.Error())
	}
	edits := rpc.EditObject(params, rpc.Span{To: len(params)}, nil, rpc.Pair{Key: "_meta", Value: meta})
	return rpc.RequestMessage([]byte(strconv.FormatUint(g.posts.Add(1), 10)), method, rpc.Splice(params, edits...))
}

func ownResult(body []byte) ([]byte, error) {
	m := mustScan(body)
	if m.Kind == rpc.Result {
		if string(m.ResultType.Of(body)) == `"input_required"` {
			return nil, &RPCError{Code: era.CodeInternal, Message: "the tool asks a question; call it from a client that can answer"}
		}
		return m.Result.Of(body), nil
	}
	e := &RPCError{}
	if err := json.Unmarshal(m.Error.Of(body), e); err != nil {
		return nil, &RPCError{Code: era.CodeInternal, Message: "unreadable error of the backend"}
	}
	return nil, e
}
