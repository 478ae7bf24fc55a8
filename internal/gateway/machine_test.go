package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/era"
	"mcpx/internal/rpc"
	"mcpx/internal/store"
)

// memory is a SessionStore.
type memory struct {
	mu     sync.Mutex
	all    map[string]store.Session
	seq    uint64
	writes int
	fails  error
	slow   chan struct{} // Save waits for it; nil: not at all
}

func (m *memory) Save(_ context.Context, s store.Session) error {
	if m.slow != nil {
		<-m.slow
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	if m.fails != nil {
		return m.fails
	}
	if m.all == nil {
		m.all = map[string]store.Session{}
	}
	if old, ok := m.all[s.ID]; ok {
		s.Seq = old.Seq
	} else {
		m.seq++
		s.Seq = m.seq
	}
	m.all[s.ID] = s
	return nil
}

func (m *memory) Forget(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, id)
	return nil
}

func (m *memory) All(context.Context) ([]store.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails != nil {
		return nil, m.fails
	}
	return slices.SortedFunc(maps.Values(m.all), func(a, b store.Session) int { return int(a.Seq) - int(b.Seq) }), nil
}

func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.all)
}

// machine is what outlives the daemons of a test.
type machine struct {
	t     testing.TB
	k     *keeper
	store *memory
	epoch uint64
	edit  func(*catalog.Server)
	cfg   func(*Config)

	g *Gateway
	s *Server
}

func newMachine(t testing.TB, edit func(*catalog.Server), handle func(c *child, m Outbound, msg rpc.Message)) *machine {
	k := &keeper{t: t}
	k.handle = func(c *child, m Outbound, msg rpc.Message) {
		if m.Method == "initialize" {
			c.result(m, msg, legacyInit)
			return
		}
		handle(c, m, msg)
	}
	mc := &machine{t: t, k: k, store: &memory{}, epoch: 6, edit: edit}
	t.Cleanup(func() {
		if mc.g != nil {
			mc.stop(true)
		}
		for _, c := range k.all() {
			c.die(Exit{Reason: Terminated})
		}
	})
	mc.start()
	return mc
}

// start is a new daemon.
func (mc *machine) start() {
	mc.t.Helper()
	mc.epoch++
	cfg := Config{
		Stdio: mc.k, HTTP: mc.k, Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler), Epoch: mc.epoch, Version: "test", Sessions: mc.store,
		StateKey: bytes.Repeat([]byte{7}, sealKeyLen),
		Resolve:  func(context.Context, catalog.Server, Caller) (Resolved, error) { return Resolved{}, nil },
	}
	if mc.cfg != nil {
		mc.cfg(&cfg)
	}
	g, err := New(cfg)
	if err != nil {
		mc.t.Fatal(err)
	}
	e := catalog.Server{
		ID: "srv_1", Name: "peer", Stdio: &catalog.Stdio{Command: "peer"}, Sharing: catalog.ShareSession, Protocol: catalog.ProtocolLegacy,
		Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled,
	}
	if mc.edit != nil {
		mc.edit(&e)
	}
	g.Apply([]catalog.Server{e})
	if err := g.Restore(mc.t.Context()); err != nil {
		mc.t.Error(err)
	}
	s, ok := g.Route("peer")
	if !ok {
		mc.t.Fatal("the server is not routed")
	}
	mc.g, mc.s = g, s
}

// kill ends the daemon as SIGKILL does: no link, no answer, no write to the store follows.
func (mc *machine) kill() {
	mc.k.kill()
	g := mc.g
	g.shelf.stop(context.Background()) // what a client was told is written by then; nothing else is waited for
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	if err := g.Stop(ctx, false); err != nil { // only to end its goroutines
		mc.t.Errorf("stop: %v", err)
	}
	mc.g, mc.s = nil, nil
}

func (mc *machine) stop(children bool) {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	if err := mc.g.Stop(ctx, children); err != nil {
		mc.t.Errorf("stop: %v", err)
	}
	mc.g, mc.s = nil, nil
}

// crash is kill and start.
func (mc *machine) crash() {
	mc.kill()
	mc.start()
}

// again is the same session at the present daemon.
func (mc *machine) again(x *Session) *Session {
	mc.t.Helper()
	same, bad := mc.s.Session(x.ID, owner1)
	if bad != nil {
		mc.t.Fatalf("the session is gone: %v", bad)
	}
	return same
}

// resume follows the stream of a request by its id, as a client does that has seen an event of an earlier daemon.
func resume(t *testing.T, x *Session, id string, epoch uint64) *Reader {
	t.Helper()
	return resumeNamed(t, x, era.StreamName([]byte(id)), epoch)
}

func resumeNamed(t *testing.T, x *Session, name string, epoch uint64) *Reader {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	_, r, bad := x.Resume(ctx, EventID(name, epoch, 0), false)
	if bad != nil {
		t.Fatalf("the resume of %s got %v", name, bad)
	}
	return r
}

func b64(id string) string { return base64.RawURLEncoding.EncodeToString([]byte(id)) }

func callBody(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"a"}}`, id)
}

// end ends the machine inside of a test that has its own time: cleanups run too late there.
func (mc *machine) end() {
	mc.stop(true)
	for _, c := range mc.k.all() {
		c.die(Exit{Reason: Terminated})
	}
	synctest.Wait()
}
