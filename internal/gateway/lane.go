package gateway

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mcpx/internal/crash"
	"mcpx/internal/era"
	"mcpx/internal/fault"
	"mcpx/internal/rpc"
)

// maxInFlight bounds the calls of one lane. A backend with more unanswered calls than this does not work any more;
// the next caller is told so at once instead of waiting for a deadline.
const maxInFlight = 1024

// lane is one upstream connection of one era: a process, or an HTTP session. It owns the table of calls in flight.
// Nothing in it is shared with another server.
type lane struct {
	srv        *Server
	slot       *slot
	key        string
	shared     bool // ids and progress tokens are rewritten
	era        era.Era
	negotiated atomic.Value // string, the revision; written by the start, read by whatever arrives meanwhile
	result     []byte       // raw result of initialize or server/discover
	link       Link
	kept       KeptLink      // link, when its child outlives the daemon; else nil
	epoch      uint64        // of the daemon that started it
	serial     uint64        // tells the processes of one epoch apart
	upstream   upstreamState // HTTP: the session of an earlier daemon that it goes on with
	adopted    bool          // by this daemon, from an earlier one
	caps       []byte        // raw client capabilities of its initialize, of lanes that several clients share
	started    time.Time

	nextLook time.Time // when its program is looked at again
	warned   bool      // that its program is not what it was

	tasksOnce sync.Once
	tasksSeen bool // see hasTasks

	refs  atomic.Uint64
	ready atomic.Bool // handshake done
	down  atomic.Bool // closed or closing: no new call

	mu       sync.Mutex // guards the tables below; never held while the link or a client is called
	calls    map[string]*call
	byRef    map[uint64]*call
	arriving int // calls whose answer is there and delivered next: they are no work of the backend
	tokens   map[string]*call
	tasks    map[string]liveTask // by id, with the owner whose call created them
	asks     map[string]*ask     // open questions of the server, by its own id
	askers   map[string]owner    // who was asked a question by an earlier daemon, by the server's id
	sessions map[*Session]struct{}
	waiting  []*call // admission queue of a server that asks, oldest first
	held     []*ask  // questions that nobody can be blamed for yet
	lastUsed time.Time
	schema   *toolSchemas
	level    int            // lowest log level that was asked for, as rank; -1 none
	subs     map[string]int // sessions and listens by subscribed resource
	listens  map[*bridgedListen]struct{}
	changes  map[string]bool // list changes that wait to be told
	roots    *Session        // whose roots changed last
	rootsAt  time.Time
	ended    chan struct{} // closed with the lane
	exit     Exit
	linked   chan struct{} // closed when link is set: a fast child may speak before Open has returned to us

	// Of lanes with a kept link, see debt.go.
	answered  map[string]uint64 // answers that are not Done: ref by the id that the server saw
	delivered []debt            // answers that were delivered, in that order
	paidBytes int               // sum of them
	paying    bool              // a timer runs for them
	handshake []uint64          // answers of the handshake, Done when what came of it is saved

	ghosts   map[string]struct{} // ids of calls that ended without their answer
	distinct bool                // too many of them: no id is used as it is any more
}

func newLane(s *slot, shared bool, e era.Era) *lane {
	return &lane{
		srv: s.srv, slot: s, key: s.key, shared: shared, era: e, started: s.srv.g.now(), lastUsed: s.srv.g.now(),
		calls: map[string]*call{}, byRef: map[uint64]*call{}, tokens: map[string]*call{}, asks: map[string]*ask{},
		sessions: map[*Session]struct{}{}, subs: map[string]int{}, level: -1, ended: make(chan struct{}), linked: make(chan struct{}),
		epoch: s.srv.g.cfg.Epoch, serial: s.srv.g.posts.Add(1),
	}
}

// dispatch registers the call and hands it to the link.
func (l *lane) dispatch(c *call) {
	l.mu.Lock()
	if l.down.Load() {
		exit := l.exit
		l.mu.Unlock()
		l.slot.resubmit(c, exit)
		return
	}
	if len(l.calls)-l.arriving+len(l.waiting) >= maxInFlight {
		l.mu.Unlock()
		c.fail(trouble{class: Busy, text: "too many calls in flight", wait: time.Second})
		return
	}
	if l.mustWaitLocked(c) {
		c.mu.Lock()
		c.lane, c.ref = l, 0
		c.mu.Unlock()
		l.waiting = append(l.waiting, c)
		c.arm(l.srv.g.now())
		l.mu.Unlock()
		if c.ended.Load() { // cancelled on its way here
			l.forget(c)
		}
		return
	}
	p := l.registerLocked(c)
	l.mu.Unlock()
	l.send(p)
}

// posting is a call with its message for one lane. The call itself may be on the next lane before the message of this
// one was refused.
type posting struct {
	c      *call
	out    Outbound
	former uint64 // an earlier entry with the same id, which is given up first
}

// registerLocked puts the call into the tables.
func (l *lane) registerLocked(c *call) posting {
	now := l.srv.g.now()
	l.lastUsed = now
	c.mu.Lock()
	ref := l.refs.Add(1)
	c.lane, c.ref = l, ref
	c.hand.Store(handNot)
	c.mu.Unlock()
	if c.upKey == "" {
		c.upKey, _ = rpc.IDKey(c.upID)
	}
	former := l.distinguishLocked(c)
	l.calls[c.upKey] = c
	l.byRef[ref] = c
	if c.upTok != "" {
		l.tokens[c.upTok] = c
	}
	if c.stream != nil {
		c.stream.onLink()
	}
	c.arm(now)
	out := c.out
	out.Ref = ref
	return posting{c, out, former}
}

// send hands a registered call to the link. Who takes a call out of the table is the one who decides about it: a call
// that is not there any more was taken by the end of the lane, or has ended.
func (l *lane) send(p posting) {
	c := p.c
	if p.former != 0 {
		l.done(p.former) // before the server sees the id again: two entries must not have the same
	}
	if c.ended.Load() || !c.hand.CompareAndSwap(handNot, handBegun) { // cancelled while it waited
		l.forget(c)
		return
	}
	crash.Point("gateway.call-noted")
	err := l.link.Send(p.out)
	crash.Point("gateway.call-sent")
	if err == nil {
		if !c.hand.CompareAndSwap(handBegun, handOver) { // cancelled in the same moment
			l.revoke(c, p.out.Ref)
		}
		return
	}
	if l.take(p.out.Ref) == nil {
		return
	}
	if fault.KindOf(err) == fault.Busy {
		c.fail(trouble{class: Busy, text: err.Error(), wait: time.Second})
		return
	}
	l.slot.resubmit(c, Exit{Reason: LinkLost, Text: err.Error()})
}

// forget removes the call from the tables and admits who waited for it.
func (l *lane) forget(c *call) {
	l.mu.Lock()
	l.removeLocked(c)
	next, questions := l.settleLocked()
	l.mu.Unlock()
	l.proceed(next, questions)
}

// unqueue takes a call out of the admission queue. False when it is not there: it was sent, or ended.
func (l *lane) unqueue(c *call) bool {
	l.mu.Lock()
	at := slices.Index(l.waiting, c)
	if at < 0 {
		l.mu.Unlock()
		return false
	}
	l.waiting = slices.Delete(l.waiting, at, at+1)
	next, questions := l.settleLocked()
	l.mu.Unlock()
	l.proceed(next, questions)
	return true
}

func (l *lane) removeLocked(c *call) {
	if c.arrives {
		c.arrives = false
		l.arriving--
	}
	if l.calls[c.upKey] == c {
		delete(l.calls, c.upKey)
	}
	if ref := c.number(); l.byRef[ref] == c {
		delete(l.byRef, ref)
	}
	if c.upTok != "" && l.tokens[c.upTok] == c {
		delete(l.tokens, c.upTok)
	}
	if at := slices.Index(l.waiting, c); at >= 0 {
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
	l.lastUsed = l.srv.g.now()
}

// settleLocked says what can go on after the set of calls in flight changed: waiting calls that may start, and held
// questions that now have one possible owner.
func (l *lane) settleLocked() (next []posting, questions []*ask) {
	if len(l.held) > 0 {
		if o := l.soleOwnerLocked(); o != nil {
			questions, l.held = l.held, nil
			for _, a := range questions {
				a.owner = o
			}
		}
	}
	for len(l.waiting) > 0 && !l.mustWaitLocked(l.waiting[0]) {
		c := l.waiting[0]
		l.waiting = l.waiting[1:]
		next = append(next, l.registerLocked(c))
	}
	return next, questions
}

// settle lets go on what a change outside of the tables (a call was parked) made possible.
func (l *lane) settle() {
	l.mu.Lock()
	next, questions := l.settleLocked()
	l.mu.Unlock()
	l.proceed(next, questions)
}

func (l *lane) proceed(next []posting, questions []*ask) {
	for _, a := range questions {
		a.offer(nil)
	}
	for _, p := range next {
		l.send(p)
	}
}

// mustWaitLocked is the admission rule of a shared lane whose server asks its clients: calls of different owners do
// not overlap, because stdio does not say which call a question belongs to (protocol.md section 6.1).
func (l *lane) mustWaitLocked(c *call) bool {
	if !l.shared || l.era != era.Legacy || !l.srv.asks.Load() || c.isListen {
		return false
	}
	for _, other := range l.calls {
		if other.owner != c.owner && !other.parked.Load() && !isNobody(other.owner) && !isNobody(c.owner) {
			return true
		}
	}
	return false
}

// soleOwnerLocked is the only client with a call in flight, or nil. The gateway's own calls (lists, levels) make no
// server ask anything, and a parked call has asked already: its client may never come back, so it counts neither here
// nor in mustWaitLocked.
func (l *lane) soleOwnerLocked() owner {
	var sole owner
	for _, c := range l.calls {
		if c.isListen || c.parked.Load() || isNobody(c.owner) {
			continue
		}
		if sole != nil && sole != c.owner {
			return nil
		}
		sole = c.owner
	}
	return sole
}

// cancel ends the backend's work on a call. The call itself ends elsewhere; late answers are dropped and counted.
func (l *lane) cancel(c *call, reason string) {
	l.withdraw(c, func() []byte {
		params := append(append([]byte(`{"requestId":`), c.upID...), `,"reason":`...)
		params = append(append(params, rpc.Quote(reason)...), '}')
		return rpc.NotificationMessage("notifications/cancelled", params)
	})
}

// withdraw removes the call and sends the given cancellation when the backend has the request and its transport has no
// stream of its own to close. It overtakes queued messages: a request that was not sent yet is dropped instead.
func (l *lane) withdraw(c *call, cancellation func() []byte) {
	if c.method == "initialize" {
		return
	}
	l.mu.Lock()
	ref := c.number()
	flying := l.byRef[ref] == c
	l.removeLocked(c)
	if flying {
		l.ghostLocked(c)
	}
	next, questions := l.settleLocked()
	var orphans []*ask
	for _, a := range l.asks {
		if a.via == c || a.owner == c.owner && !l.ownsCallLocked(c.owner) {
			orphans = append(orphans, a)
		}
	}
	l.mu.Unlock()
	if flying {
		c.cancellation = cancellation
		switch {
		case c.hand.CompareAndSwap(handNot, handRevoked): // it is not sent at all
			l.exorcise(c)
		case c.hand.CompareAndSwap(handBegun, handRevoked): // who sends it takes it back
		default:
			l.revoke(c, ref)
		}
	}
	if _, modern := c.owner.(*modernCall); modern {
		for _, a := range orphans {
			a.giveUp()
		}
	}
	l.proceed(next, questions)
}

// revoke takes back a request that was handed to the link.
func (l *lane) revoke(c *call, ref uint64) {
	if !l.link.Abort(ref) {
		_ = l.link.Send(Outbound{Body: c.cancellation(), Kind: rpc.Notification, Method: "notifications/cancelled", Version: l.httpVersion(), Headers: l.noteHeaders("notifications/cancelled")}) // a lost link needs none
		l.done(ref)
		return
	}
	l.exorcise(c)
}

func (l *lane) ownsCallLocked(o owner) bool {
	for _, c := range l.calls {
		if c.owner == o {
			return true
		}
	}
	return false
}

// note sends a notification of the gateway's own. It is best effort: a link that is gone needs none.
func (l *lane) note(method string, params []byte) {
	_ = l.link.Send(Outbound{Body: rpc.NotificationMessage(method, params), Kind: rpc.Notification, Method: method, Version: l.httpVersion(), Headers: l.noteHeaders(method)})
}

func (l *lane) noteHeaders(method string) map[string]string {
	if l.era != era.Modern {
		return nil
	}
	return map[string]string{"Mcp-Method": method}
}

// httpVersion is the value of MCP-Protocol-Version towards an HTTP backend: none before the handshake of a legacy
// session.
func (l *lane) httpVersion() string {
	if l.era == era.Modern {
		return era.V20260728
	}
	return l.version()
}

// version is the negotiated revision, "" before the handshake is done.
func (l *lane) version() string {
	v, _ := l.negotiated.Load().(string)
	return v
}

func (l *lane) isEndedLocked() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// open opens the lane for calls. True: it ended already, before it counted as running.
func (l *lane) open() (Exit, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isEndedLocked() {
		return l.exit, true
	}
	l.ready.Store(true)
	return Exit{}, false
}

// close ends the lane and what is behind it.
func (l *lane) close(reason string) {
	l.down.Store(true)
	l.link.Close(reason)
}

// busy reports whether the lane must not be reaped.
func (l *lane) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls) > 0 || len(l.waiting) > 0 || len(l.subs) > 0 || l.liveTasksLocked() || len(l.asks) > 0 || len(l.listens) > 0
}

func (l *lane) idleSince() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastUsed
}

func (l *lane) status() LaneStatus {
	l.mu.Lock()
	n, used, sessions := len(l.calls)+len(l.waiting), l.lastUsed, slices.Collect(maps.Keys(l.sessions))
	l.mu.Unlock()
	var agents []string
	for _, x := range sessions {
		if agent := x.who().Agent; agent != "" {
			agents = append(agents, agent)
		}
	}
	slices.Sort(agents)
	st := Ready
	if !l.ready.Load() {
		st = Starting
	}
	return LaneStatus{Key: l.key, Era: string(l.era), Version: l.version(), State: st, Shared: l.shared, Sessions: len(sessions), InFlight: n, Link: l.link.Info(), Since: l.started, LastUsed: used, Adopted: l.adopted, Agents: slices.Compact(agents)}
}

// nextStream is the stream field of a modern request's id.
func (l *lane) nextStream() string { return strconv.FormatUint(l.srv.g.posts.Add(1), 36) }
