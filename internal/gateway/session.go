package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// Bounds of one session (protocol.md section 8).
const (
	replayFor      = 5 * time.Minute // how long a stream can be resumed after its end
	maxReplays     = 64              // resumable streams of one session
	maxReplayBytes = 4 << 20         // retained by the streams of one session that ended
	standaloneID   = "g"             // event-id prefix of the GET stream
	sessionIDLen   = 32              // random bytes of an Mcp-Session-Id
	fireLimit      = 30 * time.Second
	shortKeyLen    = 12 // characters of the session in ids on shared lanes
	maxStreamName  = 48 // longer request ids are hashed in event ids
)

// Session is a legacy MCP session: one client, one server, one negotiated revision.
type Session struct {
	ID      string // Mcp-Session-Id
	Version string // what the client was told

	srv     *Server
	caller  Caller
	short   string
	tag     []byte // short as it goes into the journal; nobody changes it
	body    []byte // the client's initialize request
	first   []byte // the backend's answer to it, on an exclusive lane
	params  []byte // its raw params
	caps    clientCaps
	slot    *slot
	own     bool // the slot belongs to this session alone (exclusive lane)
	alone   bool // the slot ends with this session
	bridged bool // the backend is modern (cell L-M)
	get     *Stream

	mu      sync.Mutex // guards the fields below; may be taken under the server's lock and a lane's (docs/locks.md)
	calls   map[string]*call
	asks    map[string]*ask
	streams map[string]*Stream
	subs    map[string]bool
	level   int // rank of the lowest log level the client wants, -1 all
	used    time.Time
	open    int // streams that a client is reading
	ready   bool
	ended   bool
	listen  *call // L-M: the upstream listen that stands for this session's subscriptions
	former  *call // the one before it, until the new one is acknowledged
	deaf    bool  // no listen could be opened: the server did not start
	breaks  int   // how often the listen ended by itself since it was last acknowledged

	relist sync.Mutex // one change of the listen at a time; taken before mu, held while the lane starts
}

// clientCaps is what the client declared; only what decides about questions is read.
type clientCaps struct {
	Elicitation *struct {
		Form *struct{} `json:"form"`
		URL  *struct{} `json:"url"`
	} `json:"elicitation"`
	Sampling *struct {
		Tools   *struct{} `json:"tools"`
		Context *struct{} `json:"context"`
	} `json:"sampling"`
	Roots *struct{} `json:"roots"`
}

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
	if !s.adopt(x) {
		return nil, trouble{class: Unavailable, text: "the server was removed, disabled or changed", wait: time.Second}.body(id, s.name(), "initialize")
	}
	return x, answer
}

func (s *Server) newSession(body []byte, m rpc.Message, c Caller) *Session {
	secret := s.g.random(sessionIDLen)
	h := fnv.New64a()
	_, _ = h.Write([]byte(secret)) // never fails
	short := (strconv.FormatUint(h.Sum64(), 36) + "000000000000")[:shortKeyLen]
	x := &Session{
		ID: secret, srv: s, caller: c, short: short, tag: []byte(short), body: body, params: m.Params.Of(body), level: -1, used: s.g.now(),
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
		sl, err := s.slotFor("session:"+x.short, x.startExclusive)
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
		l, a, err := x.srv.openLegacy(ctx, sl, x.caller, false, func(*lane) []byte { return x.body }, x)
		if err != nil {
			return nil, err
		}
		x.mu.Lock()
		again := x.ready
		x.mu.Unlock()
		if !again {
			x.first = a.body
			return l, nil
		}
		if l.version() != x.Version || x.srv.def.Load().Stateful || !keepsPromises(x.first, l.result) {
			l.close("the session cannot be restored")
			x.srv.g.goes.Go(x.Close)
			return nil, &startError{text: "the server came back different or is stateful; the session ended, initialize again", wait: time.Second}
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

// adopt enters the session into the server's table. The session that was idle longest makes room.
func (s *Server) adopt(x *Session) bool {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return false
	}
	var oldest *Session
	if len(s.sessions) >= maxSessions {
		var longest time.Duration
		now := s.g.now()
		for _, other := range s.sessions {
			// One that is in use is ended only when all are: its idle time is 0.
			if idle := other.idleSince(now); oldest == nil || idle > longest || idle == longest && other.lastUse().Before(oldest.lastUse()) {
				oldest, longest = other, idle
			}
		}
	}
	s.sessions[x.ID] = x
	s.mu.Unlock()
	x.mu.Lock()
	x.ready = true
	x.mu.Unlock()
	if oldest != nil {
		oldest.Close()
	}
	return true
}

// Session finds the session of an id. Unknown, ended or another server's: 404, so that clients initialise again.
// Another principal's: 403.
func (s *Server) Session(id string, c Caller) (*Session, *Refusal) {
	if id == "" {
		return nil, &Refusal{Status: 400, Code: codeInvalidRequest, Message: "Mcp-Session-Id is missing: send initialize first and repeat the id that its answer carries"}
	}
	s.mu.Lock()
	x := s.sessions[id]
	s.mu.Unlock()
	if x == nil {
		return nil, &Refusal{Status: 404, Code: codeInvalidRequest, Message: "no such session: it ended or never was; send initialize again"}
	}
	if x.caller.Principal != c.Principal {
		return nil, &Refusal{Status: 403, Code: codeInvalidRequest, Message: "the session belongs to another principal"}
	}
	x.touch()
	return x, nil
}

func (x *Session) touch() {
	x.mu.Lock()
	x.used = x.srv.g.now()
	x.mu.Unlock()
}

func (x *Session) lastUse() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.used
}

// idleSince is how long nothing happened on the session; a session with an open stream is not idle.
func (x *Session) idleSince(now time.Time) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open > 0 || len(x.calls) > 0 {
		return 0
	}
	return now.Sub(x.used)
}

// Opened and Done count the streams that a client reads.
func (x *Session) Opened() { x.count(1) }

// Done is the counterpart of Opened.
func (x *Session) Done() { x.count(-1) }

func (x *Session) count(n int) {
	x.mu.Lock()
	x.open += n
	x.used = x.srv.g.now()
	x.mu.Unlock()
}

// Close ends the session: streams, questions, and its process when it had one of its own. Safe to call twice.
func (x *Session) Close() {
	x.srv.mu.Lock()
	if x.srv.sessions[x.ID] == x {
		delete(x.srv.sessions, x.ID)
	}
	x.srv.mu.Unlock()
	x.over()
	if x.alone {
		x.srv.dropSlot(x.slot, "session ended")
	}
}

// over ends what a client of the session could still wait for.
func (x *Session) over() {
	x.mu.Lock()
	if x.ended {
		x.mu.Unlock()
		return
	}
	x.ended = true
	asks := make([]*ask, 0, len(x.asks))
	for _, a := range x.asks {
		asks = append(asks, a)
	}
	calls := make([]*call, 0, len(x.calls))
	for _, c := range x.calls {
		calls = append(calls, c)
	}
	listens := []*call{x.listen, x.former}
	x.mu.Unlock()
	for _, a := range asks {
		a.giveUp()
	}
	for _, c := range calls {
		c.cancel("session ended")
		if c.where() != nil { // handed to a link, which has not said yet how far it came
			c.fail(trouble{class: SentUnknown, text: "the session ended while the call ran"})
		} else {
			c.fail(trouble{class: NotSent, text: "the session ended before the call was sent; initialize again"})
		}
	}
	for _, c := range listens {
		if c != nil {
			c.stopListen()
		}
	}
	if l := x.slot.usable(); l != nil {
		l.leave(x)
	}
	x.closeStreams()
}

// closeStreams ends every stream of the session, so that no client waits on a daemon that stops.
func (x *Session) closeStreams() {
	x.mu.Lock()
	streams := make([]*Stream, 0, len(x.streams)+1)
	for _, st := range x.streams {
		streams = append(streams, st)
	}
	x.mu.Unlock()
	for _, st := range append(streams, x.get) {
		st.end()
	}
}

// join and leave keep the set of sessions that a shared lane serves.
func (l *lane) join(x *Session) {
	l.mu.Lock()
	l.sessions[x] = struct{}{}
	l.mu.Unlock()
}

func (l *lane) leave(x *Session) {
	l.mu.Lock()
	delete(l.sessions, x)
	l.mu.Unlock()
	l.mergeSubs()
}

// Promote makes the stream of a POST resumable; the edge calls it before it writes the first event id.
func (x *Session) Promote(st *Stream, id []byte) {
	name := "r" + base64.RawURLEncoding.EncodeToString(id)
	if len(name) > maxStreamName {
		h := fnv.New64a()
		_, _ = h.Write(id) // never fails
		name = "h" + strconv.FormatUint(h.Sum64(), 36)
	}
	st.resumable(name)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.streams[name] = st
	x.trimStreamsLocked()
}

// trimStreamsLocked forgets the streams that ended first until what is kept for a resume is within the bounds. The one
// that ended last stays whatever its size: its client has not had time to come back.
func (x *Session) trimStreamsLocked() {
	type ended struct {
		name string
		at   time.Time
		size int
	}
	var over []ended
	total := 0
	for name, st := range x.streams {
		if done, at := st.isEnded(); done {
			size := st.size()
			total += size
			over = append(over, ended{name, at, size})
		}
	}
	slices.SortFunc(over, func(a, b ended) int { return a.at.Compare(b.at) })
	for len(over) > 1 && (total > maxReplayBytes || len(x.streams) > maxReplays) {
		delete(x.streams, over[0].name)
		total -= over[0].size
		over = over[1:]
	}
}

// sweepStreams forgets streams that nobody may resume any more.
func (x *Session) sweepStreams(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, st := range x.streams {
		if ended, at := st.isEnded(); ended && now.Sub(at) > replayFor {
			delete(x.streams, name)
		}
	}
	x.trimStreamsLocked()
}

// Standalone is the stream of a GET without a cursor.
func (x *Session) Standalone() *Reader { return x.get.Follow() }

// Resume finds the stream that an event id names and continues after it. 400 for what cannot be resumed: 404 would
// tell the client that its session is gone.
func (x *Session) Resume(lastEventID string) (*Stream, *Reader, *Refusal) {
	bad := &Refusal{Status: 400, Code: codeInvalidRequest, Message: "Last-Event-ID names no stream of this session that can be resumed"}
	parts := strings.Split(lastEventID, ".")
	if len(parts) != 3 {
		return nil, nil, bad
	}
	epoch, err1 := strconv.ParseUint(parts[1], 10, 64)
	seq, err2 := strconv.ParseUint(parts[2], 10, 64)
	if err1 != nil || err2 != nil || epoch != x.srv.g.cfg.Epoch {
		return nil, nil, bad
	}
	st := x.get
	if parts[0] != standaloneID {
		x.mu.Lock()
		st = x.streams[parts[0]]
		x.mu.Unlock()
	}
	if st == nil {
		return nil, nil, bad
	}
	r, ok := st.Read(seq)
	if !ok {
		return nil, nil, bad
	}
	return st, r, nil
}

// Epoch is the daemon's start counter, part of event ids.
func (x *Session) Epoch() uint64 { return x.srv.g.cfg.Epoch }

// capsOf reads raw client capabilities; unreadable ones count as none.
func capsOf(raw []byte) clientCaps {
	var c clientCaps
	_ = json.Unmarshal(raw, &c)
	return c
}
