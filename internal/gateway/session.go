package gateway

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"mcpx/internal/era"
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
)

// Session is a legacy MCP session: one client, one server, one negotiated revision.
type Session struct {
	ID      string // Mcp-Session-Id
	Version string // what the client was told

	srv     *Server
	caller  Caller
	short   string
	tag     []byte // short as it goes into the journal; nobody changes it
	tagSame []byte // the tag of a call whose progress token is its id
	body    []byte // the client's initialize request
	first   []byte // the backend's answer to it, on an exclusive lane
	params  []byte // its raw params
	caps    clientCaps
	slot    *slot
	home    home // the process that it began with
	own     bool // the slot belongs to this session alone (exclusive lane)
	alone   bool // the slot ends with this session
	bridged bool // the backend is modern (cell L-M)
	get     *Stream

	news atomic.Pointer[trouble] // what its client has to know before it goes on: told once, instead of an answer

	mu       sync.Mutex // guards the fields below; may be taken under the server's lock and a lane's (docs/locks.md)
	calls    map[string]*call
	asks     map[string]*ask
	early    map[string][]byte // answers that came before the question that an earlier daemon had shown
	streams  map[string]*Stream
	subs     map[string]bool
	level    int // rank of the lowest log level the client wants, -1 all
	used     time.Time
	open     int // streams that a client is reading
	ready    bool
	created  time.Time
	past     *past         // of a session of an earlier daemon, else nil
	upstream upstreamState // HTTP: what the lane had when the session was stored last
	ended    bool
	reason   string // why it ended, for the calls that waited; "" for what its client did
	listen   *call  // L-M: the upstream listen that stands for this session's subscriptions
	former   *call  // the one before it, until the new one is acknowledged
	deaf     bool   // no listen could be opened: the server did not start
	breaks   int    // how often the listen ended by itself since it was last acknowledged

	relist sync.Mutex // one change of the listen at a time; taken before mu, held while the lane starts
}

// maxEarly bounds the answers that come before their questions. Clients answer what they were shown, one or two at a time.
const maxEarly = 16

// settled waits, not for long, until it is known whether the session's process outlived the earlier daemon: what a client
// says meanwhile is for that process.
func (x *Session) settled() {
	if x.srv.adopting.Load() == 0 {
		return
	}
	ctx, stop := context.WithTimeout(x.srv.g.ctx, maxAdoptWait)
	defer stop()
	x.slot.decided(ctx)
}

// why is the reason for the end of the session, when it has one of its own.
func (x *Session) why(other string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reason != "" {
		return x.reason
	}
	return other
}

// isRevived reports whether an earlier daemon opened the session.
func (x *Session) isRevived() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.past != nil
}

// who is the caller as the present client proved it; an earlier daemon did not store what mcpx connect passes.
func (x *Session) who() Caller {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.caller
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
		return nil, &Refusal{Status: 400, Code: era.CodeInvalidRequest, Message: "Mcp-Session-Id is missing: send initialize first and repeat the id that its answer carries"}
	}
	s.mu.Lock()
	x := s.sessions[id]
	s.mu.Unlock()
	if x == nil {
		return nil, &Refusal{Status: 404, Code: era.CodeInvalidRequest, Message: "no such session: it ended or never was; send initialize again"}
	}
	if x.who().Principal != c.Principal {
		return nil, &Refusal{Status: 403, Code: era.CodeInvalidRequest, Message: "the session belongs to another principal"}
	}
	x.touch(c)
	return x, nil
}

func (x *Session) touch(c Caller) {
	x.mu.Lock()
	x.used = x.srv.g.now()
	if x.caller.Passed == nil && c.Passed != nil && c.Instance == x.caller.Instance {
		x.caller.Passed = c.Passed // of a session of an earlier daemon
	}
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
	x.srv.g.shelf.forget(x.ID)
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
			c.fail(trouble{class: NotSent, text: x.why("the session ended before the call was sent; initialize again")})
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
	x.mu.Lock()
	streams := make([]*Stream, 0, len(x.streams))
	for _, st := range x.streams {
		streams = append(streams, st)
	}
	x.mu.Unlock()
	dropAll(streams)
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

// enlistLocked is join for a session that comes with its subscriptions.
func (l *lane) enlistLocked(x *Session) {
	l.sessions[x] = struct{}{}
	if !l.shared || x.bridged {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for uri := range x.subs {
		l.subs[uri]++
	}
}

func (l *lane) leave(x *Session) {
	l.mu.Lock()
	delete(l.sessions, x)
	l.mu.Unlock()
	l.mergeSubs()
}

// capsOf reads raw client capabilities; unreadable ones count as none.
func capsOf(raw []byte) clientCaps {
	var c clientCaps
	_ = json.Unmarshal(raw, &c)
	return c
}
