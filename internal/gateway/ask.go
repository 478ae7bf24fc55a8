package gateway

import (
	"log/slog"
	"sync"
	"time"

	"mcpx/internal/era"
	"mcpx/internal/key"
	"mcpx/internal/rpc"
)

// Times of questions from a server to a client (protocol.md section 6.1).
const (
	askNobody = 30 * time.Second // no stream of the client is open, or nobody can be blamed for the question
	askPerson = 10 * time.Minute // a person is being asked
	askAgain  = time.Minute      // the question of an earlier daemon, and its client has not come back yet
)

// ask is one request of a server to a client: sampling, elicitation, roots. It always gets an answer, even when the
// client has vanished: a server that waits for ever is a hung server.
type ask struct {
	lane   *lane
	upID   []byte // the server's raw id
	method string
	body   []byte // the request as the server sent it
	msg    rpc.Message
	reply  func(body []byte, m rpc.Message) // takes the client's response; called once

	owner  owner // under lane.mu until offered
	via    *call
	stream *Stream // where the client reads it; nil: the session decides

	mu     sync.Mutex // guards the fields below; taken before the lock of a call
	done   bool
	timer  *time.Timer
	paused []*call
	gone   func() // called once when the server does not want the answer any more
	ended  func() // called once when the question is over, however it ended
}

// asked takes a request of the backend.
func (l *lane) asked(in Inbound, m rpc.Message) {
	id := m.ID.Of(in.Body)
	a := &ask{lane: l, upID: id, method: m.MethodOf(in.Body), body: in.Body, msg: m}
	a.reply = func(body []byte, r rpc.Message) {
		out := body
		if r.ID.Ok() {
			out = rpc.Splice(body, rpc.Edit{At: r.ID, With: a.upID})
		}
		a.send(out, r.Kind)
	}
	switch {
	case a.method == "ping":
		if l.shared || l.era == era.Modern {
			a.send(rpc.ResultResponse(id, []byte("{}")), rpc.Result)
			return
		}
	case l.era == era.Modern:
		a.refuse(era.CodeMethodNotFound, "servers of this revision ask by input_required")
		return
	}
	idKey, ok := rpc.IDKey(id)
	if !ok {
		l.srv.malformed.Add(1)
		return
	}
	l.mu.Lock()
	if len(l.asks) >= maxAsks {
		l.mu.Unlock()
		a.refuse(era.CodeInternal, "too many open questions")
		return
	}
	l.asks[idKey] = a
	a.via = l.byRef[in.Via]
	a.owner = l.blameLocked(a)
	if a.owner == nil {
		// Several owners have calls in flight and stdio does not say whose question this is. Hold it until the calls
		// of all but one owner have ended; from now on calls of this server's shared lanes do not overlap.
		l.held = append(l.held, a)
	}
	held := a.owner == nil
	l.mu.Unlock()
	if held {
		if l.srv.asks.CompareAndSwap(false, true) {
			l.remember()
			l.srv.g.log.LogAttrs(ctxNone, slog.LevelInfo, "server asks its clients: calls of different clients now run one at a time", slog.String(key.Server, l.srv.name()))
		}
		a.rearm(askNobody, a.giveUp)
		return
	}
	a.offer(a.via)
}

// maxAsks bounds the open questions of one lane. A server with more of them does not wait for answers.
const maxAsks = 256

// rearm sets the time after which f is called. False when the question is over.
func (a *ask) rearm(d time.Duration, f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return false
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	a.timer = time.AfterFunc(d, f)
	return true
}

// shown sets what follows when the question is about to be shown. False when it is over already; ended was called.
func (a *ask) shown(d time.Duration, late, gone, ended func()) bool {
	a.mu.Lock()
	done := a.done
	a.gone, a.ended = gone, ended
	a.mu.Unlock()
	if done || !a.rearm(d, late) {
		ended()
		return false
	}
	return true
}

// stopClocks pauses the calls that wait for a person. False when the question is over.
func (a *ask) stopClocks(calls []*call) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return false
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	for _, c := range calls {
		c.pause()
	}
	a.paused = append(a.paused, calls...)
	return true
}

// blameLocked finds whose question it is: the stream it came on, the task it belongs to, the only owner with a call
// in flight, the only session of the lane. Nil is ambiguous.
func (l *lane) blameLocked(a *ask) owner {
	if a.via != nil {
		return a.via.owner
	}
	if len(l.askers) > 0 {
		askKey, _ := rpc.IDKey(a.upID)
		if o := l.askers[askKey]; o != nil {
			delete(l.askers, askKey)
			return o
		}
	}
	if o := l.taskOwnerLocked(a.body, a.msg); o != nil {
		return o
	}
	if !l.shared {
		for x := range l.sessions {
			return x
		}
	}
	if o := l.soleOwnerLocked(); o != nil {
		return o
	}
	idle := true // no client has a call in flight
	for _, c := range l.calls {
		idle = idle && (c.isListen || isNobody(c.owner))
	}
	if a.method == "roots/list" && idle && l.roots != nil && l.srv.g.now().Sub(l.rootsAt) < rootsHintFor {
		return l.roots
	}
	if idle && len(l.sessions) == 1 {
		for x := range l.sessions {
			return x
		}
	}
	if idle && len(l.sessions) == 0 {
		return nobody{}
	}
	return nil
}

// offer shows the question to its owner.
func (a *ask) offer(via *call) {
	if via == nil {
		via = a.via
	}
	if a.stopClocks(a.lane.callsOf(a.owner, via)) {
		a.owner.ask(a, via)
	}
}

// callsOf gives the calls whose clock a question stops: the one it came on, else all of its owner.
func (l *lane) callsOf(o owner, via *call) []*call {
	if via != nil {
		return []*call{via}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var calls []*call
	for _, c := range l.calls {
		if c.owner == o && !c.isListen {
			calls = append(calls, c)
		}
	}
	return calls
}

// settle ends the question once and starts the clocks again. It reports whether this was the end.
func (a *ask) settle() bool {
	a.mu.Lock()
	if a.done {
		a.mu.Unlock()
		return false
	}
	a.done = true
	if a.timer != nil {
		a.timer.Stop()
	}
	paused, ended := a.paused, a.ended
	a.mu.Unlock()
	for _, c := range paused {
		c.resume()
	}
	if ended != nil {
		ended()
	}
	if a.upID != nil {
		idKey, _ := rpc.IDKey(a.upID)
		a.lane.mu.Lock()
		if a.lane.asks[idKey] == a { // a server may have used the id again meanwhile
			delete(a.lane.asks, idKey)
		}
		for i, h := range a.lane.held {
			if h == a {
				a.lane.held = append(a.lane.held[:i], a.lane.held[i+1:]...)
				break
			}
		}
		a.lane.mu.Unlock()
	}
	return true
}

// answered passes the client's response on.
func (a *ask) answered(body []byte, m rpc.Message) bool {
	if !a.settle() {
		return false
	}
	a.reply(body, m)
	return true
}

// refuse answers for a client that cannot be asked.
func (a *ask) refuse(code int, text string) {
	if !a.settle() {
		return
	}
	body := rpc.ErrorResponse(a.replyID(), code, text, nil)
	a.reply(body, mustScan(body))
}

// giveUp answers for a client that is gone: cancel for an elicitation, an error for everything else.
func (a *ask) giveUp() {
	if a.method != "elicitation/create" {
		a.refuse(era.CodeInternal, "no client is there to answer "+a.method)
		return
	}
	if !a.settle() {
		return
	}
	body := rpc.ResultResponse(a.replyID(), []byte(`{"action":"cancel"}`))
	a.reply(body, mustScan(body))
}

// lost tells the client that the server which asked is gone.
func (a *ask) lost() {
	if !a.settle() {
		return
	}
	a.mu.Lock()
	gone := a.gone
	a.mu.Unlock()
	if gone != nil {
		gone()
	}
}

func (a *ask) replyID() []byte {
	if a.upID != nil {
		return a.upID
	}
	return []byte("0") // questions of a modern result have no id of their own; reply ignores it
}

// send gives the server its answer. Best effort: a link that is gone ends the server's wait by itself.
func (a *ask) send(body []byte, kind rpc.Kind) {
	out := Outbound{Body: body, Kind: kind, Version: a.lane.httpVersion()}
	if a.via != nil {
		out.Answers = a.via.number()
	}
	_ = a.lane.link.Send(out)
}

// nobody owns what no client can be asked about: the gateway's own calls.
type nobody struct{}

func (nobody) ask(a *ask, _ *call) {
	if a.method == "roots/list" {
		a.refuse(era.CodeMethodNotFound, "this client has no roots")
		return
	}
	a.refuse(era.CodeMethodNotFound, "no client is connected that could answer "+a.method)
}

func isNobody(o owner) bool {
	_, is := o.(nobody)
	return is
}

// mustScan reads a message that the gateway built itself.
func mustScan(b []byte) rpc.Message {
	m, err := rpc.Scan(b)
	if err != nil {
		panic("gateway: built an invalid message: " + err.Error())
	}
	return m
}
