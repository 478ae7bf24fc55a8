package httpedge

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/catalog"
	"mcpx/internal/gateway"
)

// next is the daemon after a hand-over: it answers each request with the next line of its script.
type next struct {
	mu     sync.Mutex // guards the fields below
	script []reply
	seen   []string // method, and what the old daemon said
}

// reply is one answer of next: a status with JSON, or events.
type reply struct {
	status int
	body   string
	events string
}

func (n *next) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is missing shows in the comparison
	n.mu.Lock()
	line := r.Method
	for _, name := range []string{hdrLastEvent, hdrRejoin, hdrAgent, "Origin", hdrStdio, hdrRelayed} {
		if v := r.Header.Get(name); v != "" {
			line += " " + name + "=" + v
		}
	}
	n.seen = append(n.seen, line+" "+string(body[:min(len(body), 32)]))
	one := reply{status: http.StatusTeapot, body: `{}`}
	if len(n.script) > 0 {
		one, n.script = n.script[0], n.script[1:]
	}
	n.mu.Unlock()
	if one.events != "" {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, one.events)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(one.status)
	_, _ = io.WriteString(w, one.body)
}

// moving is a front whose daemon can hand over to a scripted one.
type moving struct {
	*next
	url     string
	gate    *Gate
	gateway *gateway.Gateway
	front   *Front
	release chan func()
}

func newMoving(t *testing.T) *moving {
	t.Helper()
	b := answering{release: make(chan func(), 4)}
	log := slog.New(slog.DiscardHandler)
	g, err := gateway.New(gateway.Config{
		Stdio: b, HTTP: b, Now: time.Now, Random: rand.Reader, Log: log, Epoch: 3,
		Resolve: func(context.Context, catalog.Server, gateway.Caller) (gateway.Resolved, error) {
			return gateway.Resolved{}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	entry := catalog.Server{ID: "a", Name: "a", Stdio: &catalog.Stdio{Command: "a"}, Protocol: catalog.ProtocolLegacy, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled}
	g.Apply([]catalog.Server{entry})
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	m := &moving{next: &next{}, gateway: g, release: b.release}
	after := &httptest.Server{Listener: l, Config: &http.Server{Handler: m.next}}
	after.Start()
	m.gate = NewGate(func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "unix", socket) }, log)
	f, err := NewFront(FrontConfig{Gateway: g, Log: log, Gate: m.gate, Token: func(bearer string) (gateway.Caller, bool) {
		return gateway.Caller{Principal: bearer}, bearer != "bad"
	}})
	if err != nil {
		t.Fatal(err)
	}
	m.front = f
	srv := httptest.NewUnstartedServer(f.Loopback(f.Guard(f)))
	srv.Config.ConnState = m.gate.ConnState
	srv.Start()
	m.url = srv.URL + "/servers/a/mcp"
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		if err := g.Stop(ctx, true); err != nil {
			t.Error(err)
		}
		srv.Close()
		after.Close()
	})
	return m
}

// handOver moves the daemon while a call is in flight and says what the call got.
func (m *moving) handOver(t *testing.T, headers ...string) (status int, body string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		status, body, _ = do(t, "POST", m.url, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow"}}`, headers...)
	}()
	<-m.release // the server has the call and will never answer here
	m.gate.Move()
	if err := m.gateway.HandOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	return status, body
}

const (
	wanted  = `{"jsonrpc":"2.0","id":7,"result":{"ok":"next"}}`
	notSent = `{"jsonrpc":"2.0","id":7,"error":{"code":-31901,"message":"m"}}`
	plainOf = "Accept: application/json"
)

// TestMoved is what becomes of a call in flight at a hand-over, by what the next daemon says.
func TestMoved(t *testing.T) {
	events := func(id, data string) reply {
		return reply{events: "id: " + id + "\ndata: " + data + "\n\n"}
	}
	for _, c := range []struct {
		name    string
		headers []string
		script  []reply
		seen    []string
		has     []string
	}{
		{
			name: "the answer", script: []reply{events("rNw.4.1", wanted)},
			seen: []string{"GET Last-Event-Id=rNw.0.0 Mcpx-Relayed=asks "}, has: []string{"early", wanted, "id: rNw.4.1\n"},
		},
		{
			name: "the answer as JSON", headers: []string{plainOf}, script: []reply{events("rNw.4.1", wanted)},
			seen: []string{"GET Last-Event-Id=rNw.0.0 Mcpx-Relayed=asks "}, has: []string{wanted},
		},
		{
			name: "a message, a second restart, the answer", script: []reply{events("rNw.4.1", `{"jsonrpc":"2.0","method":"n/between"}`), events("rNw.5.1", wanted)},
			seen: []string{"GET Last-Event-Id=rNw.0.0 Mcpx-Relayed=asks ", "GET Last-Event-Id=rNw.4.1 Mcpx-Relayed=asks "}, has: []string{"n/between", wanted},
		},
		{
			name: "never sent", script: []reply{events("rNw.4.1", notSent), {status: 200, body: wanted}},
			seen: []string{"GET Last-Event-Id=rNw.0.0 Mcpx-Relayed=asks ", `POST Mcpx-Relayed=1 {"jsonrpc":"2.0","id":7,"method"`}, has: []string{wanted},
		},
		{
			name: "never sent, then refused before it was taken", script: []reply{events("rNw.4.1", notSent), {status: 503, body: notSent}, {status: 200, body: wanted}},
			seen: []string{"GET Last-Event-Id=rNw.0.0 Mcpx-Relayed=asks ", `POST Mcpx-Relayed=1 {"jsonrpc":"2.0","id":7,"method"`, `POST Mcpx-Relayed=1 {"jsonrpc":"2.0","id":7,"method"`}, has: []string{wanted},
		},
		{
			name: "never sent, and not now", script: []reply{events("rNw.4.1", notSent), {status: 200, body: notSent}},
			seen: []string{"GET Last-Event-Id=rNw.0.0 Mcpx-Relayed=asks ", `POST Mcpx-Relayed=1 {"jsonrpc":"2.0","id":7,"method"`}, has: []string{"-31901"},
		},
		{
			name: "not known", script: []reply{{status: 400, body: `{"jsonrpc":"2.0","error":{"code":-32600,"message":"m"}}`}},
			seen: []string{"GET Last-Event-Id=rNw.0.0 Mcpx-Relayed=asks "}, has: []string{`"id":7`, "-31902"},
		},
		{
			name: "the session is gone", script: []reply{{status: 404, body: `{"jsonrpc":"2.0","error":{"code":-32600,"message":"no such session"}}`}},
			seen: []string{"GET Last-Event-Id=rNw.0.0 Mcpx-Relayed=asks "}, has: []string{`"id":7`, "no such session"},
		},
		{
			name: "it stops and another comes", script: []reply{{status: 503, body: notSent}, events("rNw.4.1", wanted)},
			seen: []string{"GET Last-Event-Id=rNw.0.0 Mcpx-Relayed=asks ", "GET Last-Event-Id=rNw.0.0 Mcpx-Relayed=asks "}, has: []string{wanted},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMoving(t)
			x := open(t, m.url, "2025-11-25")
			m.script = c.script
			status, body := m.handOver(t, append([]string{"Mcp-Session-Id: " + x}, c.headers...)...)
			for _, part := range c.has {
				if status != 200 || !strings.Contains(body, part) {
					t.Errorf("got %d %s, want %q", status, body, part)
				}
			}
			if diff := cmp.Diff(c.seen, m.seen); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMovedModern: a request without a session is joined again by the id that its server knows.
func TestMovedModern(t *testing.T) {
	for _, c := range []struct {
		name   string
		script []reply
		has    string
	}{
		{"the answer", []reply{{status: 200, body: wanted}}, wanted},
		{"not known", []reply{{status: http.StatusGone, body: notSent}}, "-31902"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMoving(t)
			m.script = c.script
			done := make(chan string, 1)
			go func() {
				_, body, _ := do(t, "POST", m.url, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
					"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: slow")
				done <- body
			}()
			<-m.release
			m.gate.Move()
			if err := m.gateway.HandOver(t.Context()); err != nil {
				t.Fatal(err)
			}
			if body := <-done; !strings.Contains(body, c.has) {
				t.Errorf("got %s, want %q", body, c.has)
			}
			if len(m.seen) != 1 || !strings.HasPrefix(m.seen[0], `POST Mcpx-Rejoin="`) {
				t.Errorf("the next daemon saw %q", m.seen)
			}
		})
	}
}

// TestRelay: what arrives after a hand-over goes on as a request of our own user, with nothing that the unix socket would
// believe, and its connection ends.
func TestRelay(t *testing.T) {
	m := newMoving(t)
	m.gate.Move()
	m.script = []reply{{status: 200, body: wanted}}
	status, body, _ := do(t, "POST", m.url, `{"jsonrpc":"2.0","id":7,"method":"ping"}`, "Mcpx-Agent: x", "Mcpx-Rejoin: y", "Mcpx-Stdio: 1", "Origin: http://localhost")
	if status != 200 || body != wanted {
		t.Errorf("got %d %s", status, body)
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	if m.gate.Linger(ctx); ctx.Err() != nil {
		t.Errorf("%d connections are kept", m.gate.conns.Load())
	}
	for name, header := range map[string]string{"another host": "Host: evil.example", "another origin": "Origin: https://evil.example", "a bad token": "Authorization: Bearer bad"} {
		if status, body, _ := do(t, "POST", m.url, `{}`, header); status < 400 {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if diff := cmp.Diff([]string{`POST Mcpx-Relayed=1 {"jsonrpc":"2.0","id":7,"method"`}, m.seen); diff != "" {
		t.Error(diff)
	}
}

// TestGateLingers: a gate waits for work, and for connections that a client may still use.
func TestGateLingers(t *testing.T) {
	m := newMoving(t)
	idle, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(m.url, "http://"), "/servers/a/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	for m.gate.conns.Load() == 0 {
		time.Sleep(time.Millisecond) // the server learns of a connection when it accepts it
	}
	m.gate.Move()
	soon, stop := context.WithTimeout(t.Context(), 3*relayLook)
	defer stop()
	if m.gate.Linger(soon); soon.Err() == nil {
		t.Error("it left while a connection was open")
	}
	if err := idle.Close(); err != nil {
		t.Fatal(err)
	}
	late, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	if m.gate.Linger(late); late.Err() != nil {
		t.Errorf("it stays with %d connections and %d requests", m.gate.conns.Load(), m.gate.work.Load())
	}
}

// TestGateWithoutDaemon: when no daemon comes, callers are told to repeat.
func TestGateWithoutDaemon(t *testing.T) {
	g := NewGate(func(context.Context) (net.Conn, error) { return nil, fmt.Errorf("nobody") }, slog.New(slog.DiscardHandler))
	g.wait = 3 * relayRetry
	g.Move()
	w := httptest.NewRecorder()
	g.Local(nil).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/servers/a/mcp", strings.NewReader("{}")))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

// TestGateMayHaveSent: the next daemon dies with a request that it has read. The client must not be told to repeat it.
func TestGateMayHaveSent(t *testing.T) {
	g := NewGate(func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			_, _ = http.ReadRequest(bufio.NewReader(there))
			_ = there.Close()
		}()
		return here, nil
	}, slog.New(slog.DiscardHandler))
	g.Move()
	server := httptest.NewServer(g.Local(nil))
	defer server.Close()
	resp, err := http.Post(server.URL+"/servers/a/mcp", "application/json", strings.NewReader("{}"))
	if err == nil {
		_ = resp.Body.Close()
		t.Errorf("HTTP %d for a request that may have run; want a broken connection", resp.StatusCode)
	}
}
