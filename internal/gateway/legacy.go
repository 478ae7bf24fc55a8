package gateway

import (
	"slices"
	"strconv"

	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// levels are the log levels of MCP, lowest first; a rank is an index.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// Asking says how a request came.
type Asking struct {
	Plain bool // its client takes nothing but the response: questions of the server do not come on its stream
	// Late: another process passed the request on after a hand-over. Its client may have given that up, asked here for the
	// outcome, and been told that the request was never sent: then it does not run. Otherwise whoever asks from now on finds
	// its stream, also when that process is gone before the answer is there.
	Late bool
}

// Request takes one request of a legacy client. The answer, and everything that belongs to it, comes on the stream.
func (x *Session) Request(body []byte, m rpc.Message) *Stream {
	st, _ := x.Ask(body, m, Asking{}) // it is not late
	return st
}

// Ask is Request for requests of any kind. False: the request is late and does not run; its stream says that it was not
// sent.
func (x *Session) Ask(body []byte, m rpc.Message, how Asking) (*Stream, bool) {
	st := newStream("", !how.Plain && x.Version >= era.V20250326) // kept from its first message: it may become resumable
	st.plain = how.Plain
	if how.Late && !x.enter(st, m.ID.Of(body)) {
		t := trouble{class: NotSent, text: "the request came late from the daemon before", stops: true}
		st.finish(t.body(m.ID.Of(body), x.srv.name(), m.MethodOf(body)), 200)
		return st, false
	}
	return x.request(st, body, m), true
}

func (x *Session) request(st *Stream, body []byte, m rpc.Message) *Stream {
	x.srv.requests.Add(1)
	st.moved = x.srv.moved
	method := m.MethodOf(body)
	id := m.ID.Of(body)
	if t := x.news.Load(); t != nil && x.news.CompareAndSwap(t, nil) {
		st.finish(t.body(id, x.srv.name(), method), 200)
		return st
	}
	x.noted(id)
	if x.srv.withheld(method, body, m) {
		x.srv.refuseWithheld(st, id)
		return st
	}
	if x.bridged {
		x.requestBridged(st, method, body, m)
		return st
	}
	l := x.slot.usable()
	shared := !x.own
	if shared && x.local(st, method, body, m) {
		return st
	}
	c := x.newCall(st, method, body, m)
	if c == nil {
		st.finish(rpc.ErrorResponse(id, era.CodeInvalidRequest, "a request with this id is still in flight", nil), 200)
		return st
	}
	c.answer = func(a answer) { x.answered(c, a) }
	if !shared {
		x.note(method, body, m)
	}
	if l != nil {
		l.dispatch(c)
	} else {
		x.slot.submit(c)
	}
	return st
}

// TooLate reports whether a late request would not run.
func (x *Session) TooLate(id []byte) bool {
	idKey, _ := rpc.IDKey(id)
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.past != nil && x.past.toldUnsent(idKey)
}

// enter notes a late request together with its stream: who asks for it finds one or the other, and never neither. False: it
// must not run.
func (x *Session) enter(st *Stream, id []byte) bool {
	idKey, _ := rpc.IDKey(id)
	name := era.StreamName(id)
	x.mu.Lock()
	if x.past != nil && x.past.toldUnsent(idKey) {
		x.mu.Unlock()
		return false
	}
	x.noteLocked(id)
	var former *Stream
	if x.calls[idKey] == nil { // else its client uses the id twice, and is told so
		former = x.streams[name]
		st.resumable(name)
		x.streams[name] = st
	}
	x.mu.Unlock()
	if former != nil {
		former.drop() // the client uses the id again
	}
	return true
}

// noted has whoever asks from now on for the outcome of a request of this id told that it may have run.
func (x *Session) noted(id []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.noteLocked(id)
}

// noteLocked is noted. What was said of an earlier request under the id is over: whoever asks from now on asks for this one.
func (x *Session) noteLocked(id []byte) {
	if x.past == nil {
		return // no call of an earlier daemon is known here
	}
	idKey, _ := rpc.IDKey(id)
	x.past.made(idKey, x.srv.g.now())
	name := era.StreamName(id)
	delete(x.past.ends, name)
	if st := x.streams[name]; st != nil && st.verdict {
		delete(x.streams, name)
	}
}

// newCall makes the call of a request and enters it under the client's id; nil when that id is in flight already.
func (x *Session) newCall(st *Stream, method string, body []byte, m rpc.Message) *call {
	id := m.ID.Of(body)
	limit, most := x.srv.deadline(method)
	c := &call{srv: x.srv, method: method, id: id, owner: x, stream: st, limit: limit, max: most}
	c.upID, c.token = id, m.ProgressToken.Of(body)
	tok := c.token
	c.upRaw = tok
	var edits []rpc.Edit
	if !x.own || !keepsOwnID(id) {
		c.upID = x.wireID(id)
		edits = append(edits, rpc.Edit{At: m.ID, With: c.upID})
	}
	if tok != nil && (!x.own || !keepsOwnID(tok)) {
		tok = x.wireID(tok)
		c.upRaw = tok
		edits = append(edits, rpc.Edit{At: m.ProgressToken, With: tok})
	}
	if tok != nil {
		c.upTok, _ = rpc.IDKey(tok)
	}
	if len(edits) > 0 {
		body = rpc.Splice(body, edits...)
	}
	c.out = Outbound{Body: body, Kind: rpc.Request, Method: method, Version: x.upVersion(), Tag: x.tagOf(c)}
	c.idKey, _ = rpc.IDKey(id)
	if len(edits) == 0 {
		c.upKey = c.idKey
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.calls[c.idKey] != nil {
		return nil
	}
	x.calls[c.idKey] = c
	return c
}

// upVersion is the revision that the backend's session negotiated.
func (x *Session) upVersion() string {
	if l := x.slot.usable(); l != nil {
		return l.version()
	}
	return x.Version
}

func (x *Session) wireID(orig []byte) []byte {
	w := wireID{Epoch: x.srv.g.cfg.Epoch, Kind: idLegacy, Session: x.short, Orig: origOf(orig)}
	if x.bridged {
		w.Kind = idBridge
	}
	if x.srv.def.Load().IDStyle == "int" {
		return strconv.AppendUint(nil, (x.srv.g.cfg.Epoch&0xfffff)<<32|x.srv.g.posts.Add(1)&0xffffffff, 10)
	}
	return w.encode()
}

// answered passes the end of a call to the client.
func (x *Session) answered(c *call, a answer) {
	x.done(c)
	if a.own != nil {
		c.stream.finish(a.own.body(c.id, x.srv.name(), c.method), 200)
		return
	}
	body := a.body
	if string(a.msg.ID.Of(body)) != string(c.id) {
		body = withID(body, a.msg, c.id)
	}
	if l := c.where(); !x.own && l != nil && x.Version < l.version() && a.msg.Kind == rpc.Result {
		body = era.Downgrade(c.method, x.Version, body)
	}
	c.stream.finishOwing(a.debt, rpc.OneLine(body), 200)
}

// withID gives an answer the client's id; an error without any id gets one.
func withID(body []byte, m rpc.Message, id []byte) []byte {
	if m.ID.Ok() {
		return rpc.Splice(body, rpc.Edit{At: m.ID, With: id})
	}
	return rpc.Splice(body, rpc.EditObject(body, rpc.Span{To: len(body)}, nil, rpc.Pair{Key: "id", Value: id})...)
}

func (x *Session) done(c *call) {
	x.mu.Lock()
	if x.calls[c.idKey] == c {
		delete(x.calls, c.idKey)
	}
	x.used = x.srv.g.now()
	x.mu.Unlock()
}

// local answers what a shared lane does not pass: ping, and set-up that is merged over the sessions of the lane.
func (x *Session) local(st *Stream, method string, body []byte, m rpc.Message) bool {
	switch method {
	case "ping":
	case "logging/setLevel":
		if !x.note(method, body, m) {
			st.finish(rpc.ErrorResponse(m.ID.Of(body), era.CodeInvalidParams, "unknown log level", nil), 200)
			return true
		}
		if l := x.slot.usable(); l != nil {
			l.mergeLevel()
		}
	case "resources/subscribe", "resources/unsubscribe":
		had := x.subscribed(body, m)
		x.note(method, body, m)
		if l := x.slot.usable(); l == nil || l.countSub(had, method, body, m) {
			return false
		}
	default:
		return false
	}
	st.finish(rpc.ResultResponse(m.ID.Of(body), []byte("{}")), 200)
	return true
}

// note remembers set-up requests, so that a new process can be set up alike.
func (x *Session) note(method string, body []byte, m rpc.Message) bool {
	switch method {
	case "logging/setLevel":
		level, _ := rpc.Unquote(rpc.Find(body, m.Params, "level").Of(body))
		rank := slices.Index(levels, level)
		if rank < 0 {
			return false
		}
		x.mu.Lock()
		changed := x.level != rank
		x.level = rank
		x.mu.Unlock()
		if changed {
			x.changed()
		}
	case "resources/subscribe", "resources/unsubscribe":
		uri, ok := rpc.Unquote(m.URI.Of(body))
		if !ok {
			return false
		}
		x.mu.Lock()
		before := len(x.subs)
		if method == "resources/subscribe" && len(x.subs) < maxSubscriptions {
			x.subs[uri] = true
		} else {
			delete(x.subs, uri)
		}
		changed := before != len(x.subs)
		x.mu.Unlock()
		if changed {
			x.changed()
		}
	}
	return true
}

// maxSubscriptions bounds the resource subscriptions that one session can have restored.
const maxSubscriptions = 4096

// Notify takes one notification of a legacy client.
func (x *Session) Notify(body []byte, m rpc.Message) {
	x.settled()
	method := m.MethodOf(body)
	if method == "notifications/cancelled" {
		x.cancelled(body, m)
		return
	}
	if x.bridged {
		x.notifyBridged(method)
		return
	}
	l := x.slot.usable()
	if l == nil || !x.own && method == "notifications/initialized" {
		return // a new process is told by the replay; a shared lane was initialised once
	}
	if method == "notifications/roots/list_changed" {
		l.hintRoots(x)
	}
	_ = l.link.Send(Outbound{Body: body, Kind: rpc.Notification, Method: method, Version: l.httpVersion()}) // a lost link is reported to the calls
}

// cancelled maps a client's cancellation to exactly its own call. The stream of the call ends at once, whatever the
// backend does.
func (x *Session) cancelled(body []byte, m rpc.Message) {
	idKey, ok := rpc.IDKey(m.RequestID.Of(body))
	if !ok {
		return
	}
	x.mu.Lock()
	c := x.calls[idKey]
	x.mu.Unlock()
	if c == nil || c.method == "initialize" {
		return
	}
	x.done(c)
	c.stopQuiet(func(l *lane) []byte {
		if string(c.upID) == string(c.id) && l.era == era.Legacy {
			return body
		}
		return rpc.Splice(body, rpc.Edit{At: m.RequestID, With: c.upID})
	})
	c.stream.end()
	x.withdrawAsks(c.stream)
}

// withdrawAsks ends the questions that were shown on the stream of a call that its client cancelled.
func (x *Session) withdrawAsks(st *Stream) {
	x.mu.Lock()
	var asks []*ask
	for _, a := range x.asks {
		if a.stream == st {
			asks = append(asks, a)
		}
	}
	x.mu.Unlock()
	for _, a := range asks {
		a.giveUp()
	}
}
