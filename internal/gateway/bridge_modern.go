package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// maxRounds bounds how often one call may ask its client (protocol.md section 5.3).
const maxRounds = 8

// maxKept bounds an answer that came while its call was parked: up to maxParked of them are kept for stateTTL.
const maxKept = 1 << 20

// maxParked bounds the calls of one server that wait for a client's retry.
const maxParked = 256

// bridged is cell M-L: one modern request on a legacy backend. A question of the backend answers the POST with
// input_required and parks the call; the retry brings the answer and attaches to the same call.
type bridged struct {
	srv    *Server
	m      *modernCall
	caps   clientCaps
	level  int    // rank of the log level that the request asked for, -1 none
	key    string // of the parked call, inside the sealed state
	digest string

	mu      sync.Mutex        // guards the fields below
	stream  *Stream           // of the present POST, nil while parked
	id      []byte            // of the present POST
	token   []byte            // progress token of the present POST
	asks    []question        // open questions, oldest first
	asked   int               // questions so far
	keys    map[string]string // what the client knows questions by that an earlier daemon asked, by the server's id
	rounds  int
	kept    *answer // the call's end, when it came while parked
	expires time.Time
	over    bool
}

type question struct {
	key string // r1, r2, ...
	ask *ask
}

// bridgeModern serves a modern request on a legacy backend.
func (s *Server) bridgeModern(st *Stream, r ModernRequest) {
	method := r.method()
	if text, ok := era.RequestState(r.Body, r.Msg); ok && !s.retryParked(st, r, text) {
		return
	}
	s.g.goes.Go(func() {
		sl, err := s.bridgeSlot(r)
		if err != nil {
			st.finish(startTrouble(err).body(r.id(), s.name(), method), 200)
			return
		}
		ctx, stop := context.WithTimeout(s.g.ctx, s.limits().Start+maxSlotWait)
		defer stop()
		l, err := sl.get(ctx)
		if err != nil {
			s.bridgeFailed(st, r, err)
			return
		}
		s.modern.CompareAndSwap(uint32(unknown), uint32(refuses))
		switch method {
		case "server/discover":
			st.finish(rpc.ResultResponse(r.id(), era.DiscoverFromInitialize(l.result, era.Supported)), 200)
		case "subscriptions/listen":
			s.bridgeListen(st, l, r)
		default:
			s.bridgeCall(st, l, r)
		}
	})
}

// bridgeFailed tells the client that no lane could be opened.
func (s *Server) bridgeFailed(st *Stream, r ModernRequest, err error) {
	if refused, ok := errors.AsType[*refusedInit](err); ok {
		st.finish(withID(refused.body, refused.msg, r.id()), 200)
		return
	}
	st.finish(startTrouble(err).body(r.id(), s.name(), r.method()), 200)
}

// bridgePrefix begins the keys of lanes that only modern clients use.
const bridgePrefix = "b:"

// bridgeSlot finds the lane for a modern request: the shared one of the sharing mode, or one for each set of client
// capabilities, initialised with exactly those, for each person or mcpx connect.
func (s *Server) bridgeSlot(r ModernRequest) (*slot, error) {
	if laneKey := s.laneKey(r.Caller); laneKey != "" {
		return s.slotFor("l:"+laneKey, s.startShared([]byte(allCapabilities), r.Caller))
	}
	caps := era.LegacyCapabilities(r.Body, r.Msg)
	sum := sha256.Sum256(caps)
	return s.slotFor(bridgePrefix+soloKey(r.Caller)+":"+hex.EncodeToString(sum[:6]), s.startShared(caps, r.Caller))
}

// bridgeCall sends a modern request to a legacy lane. The backend knows nothing of headers that mirror parameters, so
// the gateway verifies them whatever its transport.
func (s *Server) bridgeCall(st *Stream, l *lane, r ModernRequest) {
	if r.method() == "tools/call" && r.Header != nil {
		rules := l.schemas()
		rules.load(l)
		if bad := rules.check(r); bad != nil {
			st.finish(bad.Body(r.id()), bad.Status)
			return
		}
	}
	m := &modernCall{srv: s, req: r, lane: l}
	b := &bridged{srv: s, m: m, stream: st, id: r.id(), token: r.Msg.ProgressToken.Of(r.Body), level: -1, key: s.g.random(12), digest: paramsDigest(r)}
	b.caps = capsOf(era.ClientCapabilities(r.Body, r.Msg))
	m.bridge = b
	c := s.modernCall(st, l, m, idBridge)
	c.answer = b.answered
	c.out.Body = era.ModernToLegacy(c.out.Body, mustScan(c.out.Body))
	if level, ok := era.LogLevel(r.Body, r.Msg); ok {
		b.level = slices.Index(levels, level)
		l.lowerLevel(b.level)
	}
	c.out.Tag = bridgeTag(b, c)
	st.onGone(func() { b.left(st) })
	l.dispatch(c)
}

// paramsDigest binds a retry to the request it repeats: everything but envelope and answers.
func paramsDigest(r ModernRequest) string {
	params := r.Msg.Params.Of(r.Body)
	bare := rpc.Splice(params, rpc.EditObject(params, rpc.Span{To: len(params)}, []string{"_meta", "inputResponses", "requestState"})...)
	sum := sha256.Sum256(bare)
	return hex.EncodeToString(sum[:16])
}

// lowerLevel makes the backend send log messages of at least this rank.
func (l *lane) lowerLevel(rank int) {
	if rank < 0 || !l.declares("logging") {
		return
	}
	l.mu.Lock()
	change := l.level < 0 || rank < l.level
	if change {
		l.level = rank
	}
	l.mu.Unlock()
	if change {
		l.remember()
		l.fire("logging/setLevel", append(append([]byte(`{"level":`), rpc.Quote(levels[rank])...), '}'))
	}
}

// ask takes a question of the backend for this call.
func (b *bridged) ask(a *ask) {
	switch b.m.c.method {
	case "tools/call", "prompts/get", "resources/read":
	default:
		a.giveUp() // this method cannot be answered with input_required
		return
	}
	if why := b.caps.refuses(a); why != "" {
		a.refuse(era.CodeMethodNotFound, why)
		return
	}
	b.mu.Lock()
	if b.over {
		b.mu.Unlock()
		a.giveUp()
		return
	}
	askKey, _ := rpc.IDKey(a.upID)
	name := b.keys[askKey]
	if name == "" {
		b.asked++
		name = "r" + strconv.Itoa(b.asked)
	}
	delete(b.keys, askKey)
	b.asks = append(b.asks, question{key: name, ask: a})
	b.mu.Unlock()
	if a.shown(stateTTL, a.giveUp, nil, func() { b.drop(a) }) {
		b.offer()
	}
}

// drop forgets a question that is over.
func (b *bridged) drop(a *ask) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asks = slices.DeleteFunc(b.asks, func(q question) bool { return q.ask == a })
}

// offer answers the present POST with the open questions and parks the call.
func (b *bridged) offer() {
	b.mu.Lock()
	if b.stream == nil || len(b.asks) == 0 {
		b.mu.Unlock()
		return
	}
	b.rounds++
	if b.rounds > maxRounds {
		b.mu.Unlock()
		b.m.c.cancel("too many rounds of questions")
		b.m.c.fail(trouble{code: era.CodeInternal, text: "the server asked more than " + strconv.Itoa(maxRounds) + " times"})
		return
	}
	st, id := b.stream, b.id
	b.stream = nil
	b.expires = b.srv.g.now().Add(stateTTL)
	requests := make([]era.InputRequest, 0, len(b.asks))
	for _, q := range b.asks {
		requests = append(requests, era.InputRequest{Key: q.key, Method: q.ask.method, Params: q.ask.msg.Params.Of(q.ask.body)})
	}
	b.mu.Unlock()
	sealed, err := b.srv.g.seal.seal(b.state(b.key))
	if err != nil || !b.srv.park(b) {
		b.m.c.cancel("cannot be parked")
		st.finish(trouble{class: Busy, text: "too many calls wait for answers of their clients", wait: time.Second}.body(id, b.srv.name(), b.m.c.method), 200)
		b.abandon()
		return
	}
	b.m.c.parked.Store(true) // before the answer: the retry may come at once
	b.m.lane.remember()
	st.finish(rpc.ResultResponse(id, era.InputRequired(requests, rpc.Quote(sealed))), 200)
	b.m.lane.settle()
}

// answered takes the end of the call.
func (b *bridged) answered(a answer) {
	b.mu.Lock()
	if b.stream == nil && !b.over {
		if len(a.body) > maxKept {
			a.debt.drop()
			a = answer{own: &trouble{class: AnsweredLost, text: "the answer came while the call waited for its client, and was too large to keep"}}
		}
		b.kept = &a
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	b.deliver(a)
}

// deliver gives the end of the call to the client.
func (b *bridged) deliver(a answer) {
	b.mu.Lock()
	st, id := b.stream, b.id
	b.over = true
	b.mu.Unlock()
	b.srv.unpark(b)
	if st == nil {
		a.debt.drop()
		return
	}
	method := b.m.c.method
	if a.own != nil {
		st.finish(a.own.body(id, b.srv.name(), method), 200)
		return
	}
	body := withID(a.body, a.msg, id)
	m := mustScan(body)
	if urls := era.URLElicitations(body, m); len(urls) > 0 && era.AsksForInput(method) {
		a.debt.drop()
		b.askURLs(st, id, urls)
		return
	}
	if m.Kind == rpc.Error {
		body, status := era.LegacyErrorToModern(method, body, m, b.m.req.Msg.URI.Of(b.m.req.Body))
		st.finishOwing(a.debt, rpc.OneLine(body), status)
		return
	}
	info := rpc.Find(b.m.lane.result, rpc.Span{To: len(b.m.lane.result)}, "serverInfo").Of(b.m.lane.result)
	st.finishOwing(a.debt, rpc.OneLine(era.LegacyResultToModern(method, body, m, info)), 200)
}

// askURLs turns an error -32042 (URL elicitation required, 2025-11-25) into a question. Nothing is parked: the retry
// repeats the call, as a legacy client would.
func (b *bridged) askURLs(st *Stream, id []byte, urls []era.InputRequest) {
	sealed, err := b.srv.g.seal.seal(b.state(""))
	if err != nil {
		st.finish(rpc.ErrorResponse(id, era.CodeInternal, "the question could not be sealed", nil), 200)
		return
	}
	st.finish(rpc.ResultResponse(id, era.InputRequired(urls, rpc.Quote(sealed))), 200)
}

// state is what a retry must agree with; an empty key repeats the call instead of going on with a parked one.
func (b *bridged) state(key string) state {
	return state{Call: key, Principal: b.m.req.Caller.Principal, Method: b.m.c.method, Digest: b.digest, Expires: b.srv.g.now().Add(stateTTL).Unix()}
}

// left takes the end of a POST by its client. Only the POST that waits for the call is its cancellation: one that was
// answered with questions has left the call parked.
func (b *bridged) left(st *Stream) {
	b.mu.Lock()
	present := b.stream == st
	b.mu.Unlock()
	if present {
		b.abandon()
	}
}

// abandon gives up a call whose client will not come back. A retry that came in the same moment gets its end here.
func (b *bridged) abandon() {
	b.mu.Lock()
	asks, st, id, kept := b.asks, b.stream, b.id, b.kept
	b.asks, b.kept, b.over = nil, nil, true
	b.mu.Unlock()
	if kept != nil {
		kept.debt.drop()
	}
	b.srv.unpark(b)
	if st != nil {
		st.finish(parkedGone().body(id, b.srv.name(), b.m.c.method), 200)
	}
	for _, q := range asks {
		q.ask.giveUp()
	}
	b.m.c.stopQuiet(func(*lane) []byte {
		return rpc.NotificationMessage("notifications/cancelled", append(append([]byte(`{"requestId":`), b.m.c.upID...), `,"reason":"the client did not come back"}`...))
	})
}

// tell passes what belongs to the call.
func (b *bridged) tell(_ *call, method string, body []byte, m rpc.Message) {
	b.mu.Lock()
	st, token := b.stream, b.token
	b.mu.Unlock()
	if st == nil {
		return
	}
	switch method {
	case "notifications/progress":
		if token == nil {
			return
		}
		body = rpc.Splice(body, rpc.Edit{At: m.ProgressToken, With: token})
	case "notifications/message":
		level, _ := rpc.Unquote(rpc.Find(body, m.Params, "level").Of(body))
		if b.level < 0 || slices.Index(levels, level) < b.level {
			return
		}
	case "notifications/elicitation/complete", "notifications/tools/list_changed", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/updated":
		return // not on the stream of a call in this revision
	}
	st.push(rpc.OneLine(body))
}
