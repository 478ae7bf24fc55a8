package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
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

	mu       sync.Mutex // guards the fields below
	slots    map[string]*slot
	sessions map[string]*Session
	history  supervise.History
	lastErr  string
	errAt    time.Time
	lanes    map[*lane]struct{} // every lane whose link lives, in a slot or on its way out
	stopped  bool

	// Early ends when a legacy POST has waited long enough for a plain JSON answer, Quiet when a stream was silent for
	// so long that it needs a word.
	Early, Quiet Lulls

	parkMu sync.Mutex // guards parked; taken before the lock of a parked call
	parked map[string]*bridged
}

func newServer(g *Gateway, e catalog.Server) *Server {
	s := &Server{g: g, Early: Lulls{wait: earlyAfter}, Quiet: Lulls{wait: quietAfter}, slots: map[string]*slot{}, sessions: map[string]*Session{}, lanes: map[*lane]struct{}{}, parked: map[string]*bridged{}}
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
	old := *s.def.Load()
	return reflect.DeepEqual(old.Stdio, e.Stdio) && reflect.DeepEqual(old.HTTP, e.HTTP) && old.Direct == e.Direct &&
		old.Sharing == e.Sharing && old.Protocol == e.Protocol && old.IDStyle == e.IDStyle && old.Name == e.Name &&
		old.Lifecycle == e.Lifecycle && old.Review == e.Review
}

// laneKey says which lane serves a caller: the sharing mode of the entry, or the stricter session mode when the
// caller lacks the identity that the mode needs (governance.md section 2.3). An empty key is a lane of its own.
func (s *Server) laneKey(c Caller) string {
	e := s.def.Load()
	switch e.Sharing {
	case catalog.ShareGlobal:
		return "global"
	case catalog.ShareAgent:
		if c.Agent != "" {
			return "agent:" + c.Agent
		}
	case catalog.ShareWorkspace:
		if c.Workspace != "" {
			return "workspace:" + c.Workspace
		}
	case catalog.ShareAccount:
		if hasRefs(e) {
			return "account:" + c.Principal
		}
	case catalog.ShareSession, "":
		return ""
	}
	s.narrowed.Store(true)
	return ""
}

// soloKey names the lane of requests without a session: one for each running mcpx connect, one for each person over
// HTTP, where nothing tells two modern clients apart.
func soloKey(c Caller) string {
	if c.Instance != "" {
		return instancePrefix + c.Instance
	}
	return "principal:" + c.Principal
}

// instancePrefix marks lanes of one mcpx connect; their slots are forgotten when they are empty.
const instancePrefix = "instance:"

// hasRefs reports whether the entry binds any credential.
func hasRefs(e *catalog.Server) bool {
	bound := func(all map[string]catalog.Binding) bool {
		for _, b := range all {
			if b.Ref != "" || b.Template != "" {
				return true
			}
		}
		return false
	}
	return e.Stdio != nil && bound(e.Stdio.Env) || e.HTTP != nil && bound(e.HTTP.Headers)
}

// slotFor finds or makes the slot of a key.
func (s *Server) slotFor(key string, start func(sl *slot) func(context.Context) (*lane, error)) (*slot, error) {
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
	sl.start = start(sl)
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
	s.history.Exited(s.g.now(), false, s.jitter(), err.Error())
	s.lastErr, s.errAt = err.Error(), s.g.now()
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

// open starts a process or connection for a lane and sets its link.
func (s *Server) open(ctx context.Context, l *lane, c Caller, modern bool, transport catalog.Transport) error {
	e := *s.def.Load()
	res, err := s.g.cfg.Resolve(ctx, e, c)
	if err != nil {
		return err
	}
	link, err := s.backend().Open(ctx, Open{Server: e, Lane: l.key, Env: res.Env, Cwd: res.Cwd, Headers: res.Headers, Modern: modern, Transport: transport}, laneSink{l})
	if err != nil {
		return err
	}
	l.link = link
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

// shutAll ends every session and lane of a server that is no longer routed.
func (s *Server) shutAll(reason string) {
	s.mu.Lock()
	s.stopped = true
	slots := make([]*slot, 0, len(s.slots))
	for _, sl := range s.slots {
		slots = append(slots, sl)
	}
	sessions := make([]*Session, 0, len(s.sessions))
	for _, x := range s.sessions {
		sessions = append(sessions, x)
	}
	lanes := s.lanesLocked()
	clear(s.slots)
	clear(s.sessions)
	s.mu.Unlock()
	for _, x := range sessions {
		x.over()
	}
	for _, sl := range slots {
		sl.shut(reason)
	}
	for _, l := range lanes {
		l.close(reason)
	}
}

func (s *Server) lanesLocked() []*lane {
	lanes := make([]*lane, 0, len(s.lanes))
	for l := range s.lanes {
		lanes = append(lanes, l)
	}
	return lanes
}

// restart ends all lanes; slots and sessions stay, so the next call starts the server again and restores its sessions.
func (s *Server) restart() {
	s.mu.Lock()
	s.history.Clear()
	s.lastErr = ""
	lanes := s.lanesLocked()
	s.mu.Unlock()
	if s.def.Load().Protocol == catalog.ProtocolAuto || s.def.Load().Protocol == "" {
		s.legacy.Store(uint32(unknown))
		s.modern.Store(uint32(unknown))
		s.sse.Store(false)
	}
	for _, l := range lanes {
		l.close("restart")
	}
}

// stop ends the server with the gateway.
func (s *Server) stop(ctx context.Context, children bool) error {
	s.mu.Lock()
	s.stopped = true
	sessions := make([]*Session, 0, len(s.sessions))
	for _, x := range s.sessions {
		sessions = append(sessions, x)
	}
	lanes := s.lanesLocked()
	s.mu.Unlock()
	for _, x := range sessions {
		x.closeStreams()
	}
	var errs []error
	for _, l := range lanes {
		l.down.Store(true)
		if children {
			l.link.Close("daemon stop")
			select {
			case <-l.ended:
			case <-ctx.Done():
				errs = append(errs, fmt.Errorf("%s: still ending when the time was over", s.name()))
			}
			continue
		}
		if err := l.link.Detach(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name(), err))
		}
		laneSink{l}.Closed(Exit{Reason: Detached})
	}
	return errors.Join(errs...)
}

// sweep ends idle sessions and lanes.
func (s *Server) sweep(now time.Time) {
	idle := s.limits().Idle
	s.mu.Lock()
	var over []*Session
	for _, x := range s.sessions {
		if x.idleSince(now) > sessionTTL {
			over = append(over, x)
		}
	}
	var reap []*lane
	var unused []*slot
	for name, sl := range s.slots {
		if sl.usable() == nil && (strings.HasPrefix(name, bridgePrefix) || strings.HasPrefix(name, modernPrefix+instancePrefix)) {
			unused = append(unused, sl)
		}
	}
	for l := range s.lanes {
		// A lane of one session lives as long as that session: it may hold state that cannot be rebuilt. Only an idle
		// time that a person set for this server ends it earlier.
		if !l.ready.Load() || l.down.Load() || idle < 0 || !l.shared && s.def.Load().Limits.Idle == 0 {
			continue
		}
		if !l.busy() && now.Sub(l.idleSince()) > idle {
			reap = append(reap, l)
		}
	}
	sessions := make([]*Session, 0, len(s.sessions))
	for _, x := range s.sessions {
		sessions = append(sessions, x)
	}
	s.mu.Unlock()
	for _, sl := range unused {
		if sl.isEmpty() {
			s.forgetSlot(sl) // its next client makes another
		}
	}
	for _, x := range over {
		x.Close()
	}
	for _, l := range reap {
		l.close("idle")
	}
	for _, x := range sessions {
		x.sweepStreams(now)
	}
	s.sweepParked(now)
}

func (s *Server) sessionCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

func (s *Server) status() ServerStatus {
	e := s.def.Load()
	s.mu.Lock()
	lanes := s.lanesLocked()
	ok, wait, state := s.history.MayStart(s.g.now())
	st := ServerStatus{
		Name: e.Name, Kind: "http", Sharing: string(e.Sharing), Direct: e.Direct, State: Idle, Sessions: len(s.sessions),
		Restarts: int(s.restarts.Load()), LastError: s.lastErr, ErrorAt: s.errAt, Attempts: s.history.Failures(), Malformed: s.malformed.Load(), Lanes: []LaneStatus{},
	}
	s.mu.Unlock()
	if e.Stdio != nil {
		st.Kind = "stdio"
	}
	switch {
	case state == supervise.CrashLoop:
		st.State = CrashLoop
	case !ok:
		st.State = Waiting
	}
	if !ok {
		st.NextTry = s.g.now().Add(wait)
	}
	for _, l := range lanes {
		ls := l.status()
		if l.down.Load() {
			continue
		}
		st.Lanes = append(st.Lanes, ls)
		st.InFlight += ls.InFlight
		if ls.State == Ready || ls.State == Starting && st.State != Ready {
			st.State = ls.State
		}
	}
	slices.SortFunc(st.Lanes, func(a, b LaneStatus) int { return strings.Compare(a.Key, b.Key) })
	if st.State == Idle && s.starting.Load() > 0 {
		st.State = Starting
	}
	if s.narrowed.Load() {
		st.Notes = append(st.Notes, "sharing-narrowed")
	}
	if s.asks.Load() {
		st.Notes = append(st.Notes, "asks")
	}
	return st
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
