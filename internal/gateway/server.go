package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/supervise"
)

// verdict is what is known about one era of a backend.
type verdict uint32

// The verdicts. The zero verdict asks for a probe.
const (
	unknown verdict = iota
	speaks
	refuses
)

// maxSessions is how many legacy sessions one server keeps; above it the session that was idle longest ends. Agents
// that open a session for each task and never delete it would otherwise collect processes for days.
const maxSessions = 256

// maxSlots bounds the lanes of one server: one for each session, and one for each set of capabilities that modern
// clients of a legacy server declare. A client that invents capabilities must not start a process for each.
const maxSlots = 2 * maxSessions

// Times of response streams (protocol.md section 3.4): a resumable event id must exist before anything can break, and
// HTTP layers on the way close bodies that are silent for minutes.
const (
	earlyAfter = 250 * time.Millisecond
	quietAfter = 15 * time.Second
)

// sessionTTL ends a legacy session that had no request and no open stream for this long.
const sessionTTL = 30 * time.Minute

// Server is the live side of one catalog entry: its lanes, sessions and restart history.
type Server struct {
	g   *Gateway
	def atomic.Pointer[catalog.Server]

	asks     atomic.Bool // it was seen to ask its clients (shared lanes run one owner at a time)
	narrowed atomic.Bool // a caller lacked the identity that the sharing mode needs
	legacy   atomic.Uint32
	modern   atomic.Uint32
	sse      atomic.Bool // HTTP: only the 2024-11-05 transport answered

	requests, late, unmatched, dropped, malformed atomic.Uint64
	starting, restarts                            atomic.Int64
	opening                                       atomic.Int64 // sessions between initialize and its answer
	adopting                                      atomic.Int64 // children of an earlier daemon that are being adopted

	mu       sync.Mutex // guards the fields below
	slots    map[string]*slot
	sessions map[string]*Session
	history  supervise.History
	lastErr  string
	errAt    time.Time
	lanes    map[*lane]struct{} // every lane whose link lives, in a slot or on its way out
	stopped  bool

	waiters map[string]waiter // requests of modern clients that an earlier daemon sent, by the id that the server sees
	wedged  map[string]string // children of earlier daemons that could not be adopted, and why, by lane

	moving atomic.Bool   // the next daemon takes the server, or has it
	moved  chan struct{} // closed when it has it
	handed chan struct{} // closed then, too, and also when the calls of the server end here: its listens do not

	// Early ends when a legacy POST has waited long enough for a plain JSON answer, Quiet when a stream was silent for
	// so long that it needs a word.
	Early, Quiet Lulls

	parkMu sync.Mutex // guards parked; taken before the lock of a parked call
	parked map[string]*bridged
}

func newServer(g *Gateway, e catalog.Server) *Server {
	s := &Server{g: g, Early: Lulls{wait: earlyAfter}, Quiet: Lulls{wait: quietAfter}, slots: map[string]*slot{}, sessions: map[string]*Session{}, lanes: map[*lane]struct{}{}, parked: map[string]*bridged{}, moved: make(chan struct{}), handed: make(chan struct{})}
	s.def.Store(&e)
	switch e.Protocol {
	case catalog.ProtocolLegacy:
		s.legacy.Store(uint32(speaks))
		s.modern.Store(uint32(refuses))
	case catalog.ProtocolModern:
		s.modern.Store(uint32(speaks))
		s.legacy.Store(uint32(refuses))
	case catalog.ProtocolAuto, "":
	}
	return s
}

func (s *Server) name() string           { return s.def.Load().Name }
func (s *Server) limits() catalog.Limits { return s.def.Load().Limits.OrDefault() }

// listLimit is the silence allowed in lists and pings: they do no work that takes longer (protocol.md section 6.3).
const listLimit = 30 * time.Second

// deadline gives the silence allowed in a request and its hard maximum.
func (s *Server) deadline(method string) (limit, most time.Duration) {
	lim := s.limits()
	if method == "ping" || strings.HasSuffix(method, "/list") {
		return min(lim.Call, listLimit), lim.Max
	}
	return lim.Call, lim.Max
}

func (s *Server) backend() Backend {
	if s.def.Load().Stdio != nil {
		return s.g.cfg.Stdio
	}
	return s.g.cfg.HTTP
}

// Name is the catalog name.
func (s *Server) Name() string { return s.name() }

// sameProcess reports whether the entry would start the same process or connection. Limits, titles and reviews are
// not part of it and apply live.
func (s *Server) sameProcess(e catalog.Server) bool {
	return s.def.Load().Process() == e.Process()
}

// slotFor finds or makes the slot of a key. start may be nil; then the next caller gives it.
func (s *Server) slotFor(key string, start func(sl *slot) func(context.Context) (*lane, error)) (*slot, error) {
	sl, err := s.findSlot(key)
	if err != nil {
		s.untilMoved()
		return nil, err
	}
	sl.startsWith(start)
	return sl, nil
}

func (s *Server) findSlot(key string) (*slot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, &startError{text: "the server was removed, disabled or changed"}
	}
	if sl := s.slots[key]; sl != nil {
		return sl, nil
	}
	if len(s.slots) >= maxSlots {
		return nil, fault.New(fault.Busy, "server-busy").Saying("%s has %d connections, no more are opened", s.name(), maxSlots)
	}
	sl := &slot{srv: s, key: key}
	s.slots[key] = sl
	return sl, nil
}

// dropSlot forgets a slot that belonged to one session.
func (s *Server) dropSlot(sl *slot, reason string) {
	s.forgetSlot(sl)
	sl.shut(reason)
}

func (s *Server) forgetSlot(sl *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots[sl.key] == sl {
		delete(s.slots, sl.key)
	}
}

// mayStart asks the restart policy. A pause that a caller can wait out is returned, a longer one is an error.
func (s *Server) mayStart() (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ok, wait, state := s.history.MayStart(s.g.now())
	if ok {
		return 0, nil
	}
	if wait <= maxSlotWait && state != supervise.CrashLoop {
		return wait, nil
	}
	text := "waits before the next start; last error: " + s.lastErr
	if state == supervise.CrashLoop {
		text = fmt.Sprintf("crash loop: it failed %d times; last error: %s\n`mcpx server restart %s` tries at once", s.history.Failures(), s.lastErr, s.name())
	}
	return 0, &startError{text: text, wait: wait}
}

// startFailed records a start that did not reach a handshake.
func (s *Server) startFailed(err error) {
	if _, refused := errors.AsType[*refusedInit](err); refused || errors.Is(err, errNotModern) {
		return // the server works; it speaks the other era
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastErr, s.errAt = err.Error(), s.g.now()
	if startTrouble(err).fix {
		return // a pause before the next start would not help, and the start after the fix must not wait
	}
	s.history.Exited(s.g.now(), false, s.jitter(), err.Error())
	if t, ok := errors.AsType[*startError](err); ok {
		s.logged([]byte("mcpx: start failed: " + t.text + "\n"))
	}
}

// laneEnded records the end of a lane that had been ready.
func (s *Server) laneEnded(l *lane, e Exit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lanes, l)
	if !l.ready.Load() || e.Reason == Terminated || e.Reason == Detached {
		return
	}
	text := e.String()
	if last := lastLine(e.Tail); last != "" {
		text += ": " + last
	}
	if s.g.now().Sub(l.started) >= supervise.DefaultPolicy.Health {
		s.history.Healthy(s.g.now())
	}
	s.history.Exited(s.g.now(), true, s.jitter(), text)
	s.logged([]byte("mcpx: " + e.String() + "\n"))
	s.lastErr, s.errAt = text, s.g.now()
}

// jitter is a random number in [0, 1).
func (s *Server) jitter() float64 {
	b := make([]byte, 4)
	if _, err := s.g.cfg.Random.Read(b); err != nil {
		return 0.5 // a broken source costs the jitter, nothing else
	}
	return float64(new(big.Int).SetBytes(b).Uint64()) / (1 << 32)
}

func (s *Server) startProgress() string {
	return fmt.Sprintf("%d starting", s.starting.Load())
}

// logged takes output of the backend for the server's log.
func (s *Server) logged(p []byte) {
	if s.g.cfg.Output != nil {
		s.g.cfg.Output(s.name(), p)
	}
}

// learn makes the credentials of a process known that an earlier daemon started. False: not all of them are.
func (s *Server) learn(ctx context.Context) bool {
	return s.g.cfg.Learn == nil || s.g.cfg.Learn(ctx, *s.def.Load())
}

// open starts a process or connection for a lane and sets its link.
func (s *Server) open(ctx context.Context, l *lane, c Caller, modern bool, transport catalog.Transport) error {
	e := *s.def.Load()
	res, err := s.g.cfg.Resolve(ctx, e, c)
	if err != nil {
		return err
	}
	link, err := s.backend().Open(ctx, Open{Server: e, Lane: l.key, Env: res.Env, Cwd: res.Cwd, Headers: res.Headers, Modern: modern, Transport: transport, Process: e.Process(), Session: l.upstream.Session, Version: l.upstream.Version}, laneSink{l})
	if err != nil {
		return err
	}
	l.setLink(link)
	s.mu.Lock()
	stopped := s.stopped
	s.lanes[l] = struct{}{}
	s.mu.Unlock()
	close(l.linked)
	if stopped {
		l.close("server changed while starting")
		return errors.New("the server was removed, disabled or changed")
	}
	return nil
}

func (s *Server) lanesLocked() []*lane {
	lanes := make([]*lane, 0, len(s.lanes))
	for l := range s.lanes {
		lanes = append(lanes, l)
	}
	return lanes
}

// clientInfo is how the gateway introduces itself to backends.
func (g *Gateway) clientInfo() json.RawMessage {
	raw, err := json.Marshal(map[string]string{"name": "mcpx", "title": "mcpx gateway", "version": g.version()})
	if err != nil {
		panic("gateway: client info does not encode: " + err.Error())
	}
	return raw
}

func (g *Gateway) version() string {
	if g.cfg.Version == "" {
		return "0.0.0"
	}
	return g.cfg.Version
}
