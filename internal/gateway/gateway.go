package gateway

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcpx/internal/catalog"
)

// ctxNone is for log lines that belong to no request.
var ctxNone = context.Background()

// Resolved is what a backend needs to start, with all references resolved. It is never logged or stored.
type Resolved struct {
	Env     []string
	Cwd     string
	Headers map[string]string
}

// Config is what a Gateway needs. Log, Now, Random, Resolve and both backends are required.
type Config struct {
	Stdio    Backend
	HTTP     Backend
	Resolve  func(ctx context.Context, s catalog.Server, c Caller) (Resolved, error)
	Now      func() time.Time
	Random   io.Reader // crypto/rand.Reader in the product
	Log      *slog.Logger
	Epoch    uint64                                  // the daemon's start counter, part of ids
	StateKey []byte                                  // 32 bytes that seal requestState; nil makes a key that dies with the process
	Version  string                                  // of mcpx, for clientInfo towards backends
	Output   func(server string, p []byte)           // stderr of servers; nil drops it
	Redact   func(server string, text []byte) []byte // hides secrets in stderr tails; nil passes
	// Learn makes Output and Redact know the credentials of a process that an earlier daemon started; false: not all of
	// them. nil knows all.
	Learn    func(ctx context.Context, s catalog.Server) bool
	Sessions SessionStore // keeps sessions over restarts; nil keeps none
	Tools    Tools        // holds back tools that nobody has agreed to; nil holds none
	// Next asks the daemon after this one, once it was handed the server, for the response to a request of our own; nil
	// when there will be none.
	Next   func(ctx context.Context, s *Server, st *Stream, body []byte) []byte
	Rejoin time.Duration // how long calls of modern clients wait for them after Restore; 0 after a crash
}

// Gateway is the data plane: routes, lanes, sessions.
type Gateway struct {
	cfg    Config
	log    *slog.Logger
	now    func() time.Time
	ctx    context.Context // ends with Stop; the only stored context, it carries the life of the gateway
	cancel context.CancelCauseFunc
	goes   *goes
	seal   *sealer
	shelf  *shelf // nil when Config.Sessions is

	routes atomic.Pointer[map[string]*Server] // immutable snapshot, by name and alias

	handed atomic.Bool // the next daemon has the supervised servers: nothing is tidied up here any more

	posts atomic.Uint64 // numbers modern POSTs, and questions on their way to clients

	mu      sync.Mutex // guards servers, serialises Apply
	servers map[string]*Server
}

// New makes a gateway without servers.
func New(cfg Config) (*Gateway, error) {
	switch {
	case cfg.Stdio == nil || cfg.HTTP == nil:
		return nil, errors.New("gateway: Config.Stdio and Config.HTTP are required")
	case cfg.Resolve == nil:
		return nil, errors.New("gateway: Config.Resolve is required")
	case cfg.Now == nil || cfg.Random == nil || cfg.Log == nil:
		return nil, errors.New("gateway: Config.Now, Config.Random and Config.Log are required")
	}
	if cfg.StateKey == nil {
		cfg.StateKey = make([]byte, sealKeyLen)
		if _, err := io.ReadFull(cfg.Random, cfg.StateKey); err != nil {
			return nil, err
		}
	}
	seal, err := newSealer(cfg.StateKey, cfg.Random)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	g := &Gateway{cfg: cfg, log: cfg.Log, now: cfg.Now, ctx: ctx, cancel: cancel, seal: seal, goes: newGoes(), shelf: newShelf(cfg.Sessions, cfg.Log), servers: map[string]*Server{}}
	g.routes.Store(&map[string]*Server{})
	g.goes.Go(g.housekeep)
	return g, nil
}

// Route finds a server by name or alias in the present snapshot. One atomic load, no lock.
func (g *Gateway) Route(name string) (*Server, bool) {
	s, ok := (*g.routes.Load())[name]
	return s, ok
}

// Names lists the routed names, sorted.
func (g *Gateway) Names() []string { return slices.Sorted(maps.Keys(*g.routes.Load())) }

// Apply makes the given entries the routed set. Unchanged servers keep their processes; a changed process definition
// ends the lanes of that server; changed limits apply at once. Calls in flight on an unchanged server notice nothing.
func (g *Gateway) Apply(entries []catalog.Server) {
	g.mu.Lock()
	seen := map[string]bool{}
	var gone []*Server
	for _, e := range entries {
		seen[e.ID] = true
		old := g.servers[e.ID]
		if old != nil && old.sameProcess(e) {
			old.def.Store(&e)
			continue
		}
		if old != nil {
			gone = append(gone, old)
		}
		g.servers[e.ID] = newServer(g, e)
	}
	for id, s := range g.servers {
		if !seen[id] {
			gone = append(gone, s)
			delete(g.servers, id)
		}
	}
	routes := make(map[string]*Server, len(g.servers))
	for _, s := range g.servers {
		e := s.def.Load()
		if len(catalog.NotRoutable(*e)) > 0 {
			continue
		}
		routes[e.Name] = s
		for _, alias := range e.Aliases {
			if routes[alias] == nil {
				routes[alias] = s
			}
		}
	}
	for _, s := range g.servers {
		if e := s.def.Load(); routes[e.Name] != s {
			gone = append(gone, s) // disabled: its lanes end, the entry stays known for status
		}
	}
	g.routes.Store(&routes)
	g.mu.Unlock()
	for _, s := range gone {
		s.shutAll("server removed, disabled or changed")
	}
}

// Restart ends the lanes of a server and clears its backoff; the next call starts it again.
func (g *Gateway) Restart(name string) error {
	s, ok := g.Route(name)
	if !ok {
		return unrouted(name)
	}
	s.restart()
	return nil
}

// Status is the live state of every known server, by name.
func (g *Gateway) Status() []ServerStatus {
	g.mu.Lock()
	servers := slices.Collect(maps.Values(g.servers))
	g.mu.Unlock()
	routes := *g.routes.Load()
	all := make([]ServerStatus, 0, len(servers))
	for _, s := range servers {
		st := s.status()
		if routes[st.Name] != s {
			st.State = Off
		}
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b ServerStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Counters are totals since the start.
func (g *Gateway) Counters() Counters {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := Counters{MaxSessions: maxSessions}
	for _, s := range g.servers {
		c.Requests += s.requests.Load()
		c.Late += s.late.Load()
		c.Unmatched += s.unmatched.Load()
		c.Dropped += s.dropped.Load()
		c.Sessions += s.sessionCount()
	}
	return c
}

// housekeep ends what is over: idle sessions, idle lanes, old replay buffers.
func (g *Gateway) housekeep() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-t.C:
		}
		if g.handed.Load() {
			continue
		}
		g.mu.Lock()
		servers := slices.Collect(maps.Values(g.servers))
		g.mu.Unlock()
		now := g.now()
		for _, s := range servers {
			s.sweep(now)
			s.lookAtPrograms(now)
		}
	}
}

// Stop ends the gateway: streams are closed, and lanes are detached (supervised children go on) or, with children,
// terminated. It returns when nothing runs any more or ctx is over. Safe to call twice.
func (g *Gateway) Stop(ctx context.Context, children bool) error {
	g.cancel(errors.New("gateway: stopped"))
	g.mu.Lock()
	servers := slices.Collect(maps.Values(g.servers))
	g.mu.Unlock()
	var ends sync.WaitGroup
	errs := make([]error, len(servers))
	for i, s := range servers {
		ends.Go(func() { errs[i] = s.stop(ctx, children) })
	}
	ends.Wait()
	if left := g.goes.Wait(ctx); left > 0 {
		errs = append(errs, fmt.Errorf("%d starts or calls had not ended when the time was over", left))
	}
	g.shelf.stop(ctx)
	return errors.Join(errs...)
}

// random returns n random bytes as base64url text.
func (g *Gateway) random(n int) string {
	b := make([]byte, n)
	if _, err := io.ReadFull(g.cfg.Random, b); err != nil {
		_, _ = rand.Read(b) // crypto/rand never fails; a broken injected source must not make guessable session ids
	}
	return base64.RawURLEncoding.EncodeToString(b)
}
