package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/rpc"
)

// peer is a scripted backend: each opened link runs its handler for every message that the gateway sends.
type peer struct {
	t      *testing.T
	handle func(l *peerLink, m Outbound, msg rpc.Message)

	mu    sync.Mutex
	links []*peerLink
}

func (p *peer) Open(_ context.Context, o Open, sink Sink) (Link, error) {
	l := &peerLink{peer: p, sink: sink, open: o, in: make(chan Outbound, 1024), over: make(chan struct{})}
	p.mu.Lock()
	p.links = append(p.links, l)
	l.n = len(p.links)
	p.mu.Unlock()
	go l.run()
	return l, nil
}

func (p *peer) opened() []*peerLink {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*peerLink(nil), p.links...)
}

type peerLink struct {
	peer *peer
	sink Sink
	open Open
	n    int
	in   chan Outbound
	once sync.Once
	over chan struct{}

	mu   sync.Mutex
	seen []string
}

func (l *peerLink) run() {
	for {
		select {
		case m := <-l.in:
			if m.Kind == rpc.Request {
				l.sink.Written(m.Ref)
			}
			l.mu.Lock()
			l.seen = append(l.seen, string(m.Body))
			l.mu.Unlock()
			msg, err := rpc.Scan(m.Body)
			if err != nil {
				l.peer.t.Errorf("the gateway sent %s: %v", m.Body, err)
				return
			}
			l.peer.handle(l, m, msg)
		case <-l.over:
			return
		}
	}
}

func (l *peerLink) Send(m Outbound) error {
	l.in <- m
	return nil
}
func (l *peerLink) Abort(uint64) bool            { return false }
func (l *peerLink) Close(string)                 { go l.exit(Exit{Reason: Terminated}) }
func (l *peerLink) Detach(context.Context) error { l.once.Do(func() { close(l.over) }); return nil }
func (l *peerLink) Info() LinkInfo               { return LinkInfo{Pid: 1000 + l.n} }
func (l *peerLink) say(body string)              { l.sink.Deliver(Inbound{Body: []byte(body)}) }
func (l *peerLink) exit(e Exit) {
	l.once.Do(func() {
		close(l.over)
		l.sink.Closed(e)
	})
}

// messages is what the backend read so far.
func (l *peerLink) messages() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.seen...)
}

// result answers a request with a raw result.
func (l *peerLink) result(m Outbound, msg rpc.Message, result string) {
	l.sink.Deliver(Inbound{Body: rpc.ResultResponse(msg.ID.Of(m.Body), []byte(result))})
}

func (l *peerLink) refuse(m Outbound, msg rpc.Message, code int, text string) {
	l.sink.Deliver(Inbound{Body: rpc.ErrorResponse(msg.ID.Of(m.Body), code, text, nil)})
}

const legacyInit = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{},"resources":{"subscribe":true}},"serverInfo":{"name":"peer","version":"1"}}`

// legacyPeer answers initialize as a 2025-11-25 server and gives everything else to rest.
func legacyPeer(t *testing.T, rest func(l *peerLink, m Outbound, msg rpc.Message)) *peer {
	p := &peer{t: t}
	p.handle = func(l *peerLink, m Outbound, msg rpc.Message) {
		switch m.Method {
		case "initialize":
			l.result(m, msg, legacyInit)
		case "server/discover":
			l.refuse(m, msg, -32601, "no such method")
		default:
			rest(l, m, msg)
		}
	}
	return p
}

const discover = `{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}},"serverInfo":{"name":"peer","version":"1"}}`

// modernPeer answers server/discover as a 2026-07-28 server.
func modernPeer(t *testing.T, rest func(l *peerLink, m Outbound, msg rpc.Message)) *peer {
	p := &peer{t: t}
	p.handle = func(l *peerLink, m Outbound, msg rpc.Message) {
		switch m.Method {
		case "server/discover":
			l.result(m, msg, discover)
		case "initialize":
			l.refuse(m, msg, -32601, "no such method")
		case "tools/list":
			l.result(m, msg, `{"resultType":"complete","tools":[]}`)
		default:
			rest(l, m, msg)
		}
	}
	return p
}

func newRig(t *testing.T, p *peer, edit func(*catalog.Server)) *Server {
	t.Helper()
	return rigOf(t, p, edit)
}

// rigOf is a gateway with one server on a backend.
func rigOf(t testing.TB, p Backend, edit func(*catalog.Server)) *Server {
	t.Helper()
	g, err := New(Config{
		Stdio: p, HTTP: p, Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler), Epoch: 7, Version: "test",
		Resolve: func(context.Context, catalog.Server, Caller) (Resolved, error) { return Resolved{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	e := catalog.Server{
		ID: "srv_1", Name: "peer", Stdio: &catalog.Stdio{Command: "peer"}, Sharing: catalog.ShareSession,
		Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled,
	}
	if edit != nil {
		edit(&e)
	}
	g.Apply([]catalog.Server{e})
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		if err := g.Stop(ctx, true); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	s, ok := g.Route("peer")
	if !ok {
		t.Fatal("the server is not routed")
	}
	return s
}

func global(e *catalog.Server) { e.Sharing = catalog.ShareGlobal }

var owner1 = Caller{Principal: "owner"}

const allCaps = `{"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"roots":{}}`

// initialize opens a session with the given raw capabilities and version.
func initialize(t testing.TB, s *Server, version, caps string) *Session {
	t.Helper()
	body := []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":` + caps + `,"clientInfo":{"name":"c","version":"1"}}}`)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	x, answer := s.Initialize(ctx, body, scan(t, body), owner1)
	if x == nil {
		t.Fatalf("initialize: %s", answer)
	}
	note := []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	x.Notify(note, scan(t, note))
	return x
}

func scan(t testing.TB, body []byte) rpc.Message {
	t.Helper()
	m, err := rpc.Scan(body)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return m
}

// send posts one request of a session.
func send(t *testing.T, x *Session, body string) *Reader {
	t.Helper()
	return x.Request([]byte(body), scan(t, []byte(body))).Follow()
}

// modern posts one request of a modern client; params must end with the closing brace and have a member.
func modern(t *testing.T, s *Server, id, method, params, caps string) *Stream {
	t.Helper()
	env := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"m","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + caps + `}`
	if params != "{}" {
		env += ","
	}
	body := []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + env + params[1:] + `}`)
	return s.Modern(ModernRequest{Body: body, Msg: scan(t, body), Caller: owner1})
}

// next waits for one event of a stream.
func next(t *testing.T, r *Reader) Event {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		e, state := r.Next()
		switch state {
		case ReadEvent:
			return e
		case ReadEnd, ReadMissed, ReadMoved:
			t.Fatalf("the stream ended (%d)", state)
		case ReadWait:
			select {
			case <-r.Wake():
			case <-deadline:
				t.Fatal("no message in 10 s")
			}
		}
	}
}

// reply is the final answer of a stream, with everything before it.
func reply(t *testing.T, r *Reader) (string, []string) {
	t.Helper()
	var before []string
	for {
		e := next(t, r)
		if e.Final {
			return string(e.Data), before
		}
		before = append(before, string(e.Data))
	}
}

// member digs a value out of a JSON text.
func member(t *testing.T, text string, path ...string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for _, k := range path {
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("%s: no %q", text, k)
		}
		v = m[k]
	}
	return v
}

// eventually waits for a condition that no signal announces.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not in 10 s: %s", what)
}
