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
	"strings"
	"testing"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/gateway"
	"mcpx/internal/rpc"
)

// answering is a legacy backend that answers every request in Send; tools named "slow", which says something first, and
// "quiet" are answered by release.
type answering struct{ release chan func() }

type answeringLink struct {
	b    answering
	sink gateway.Sink
}

func (b answering) Open(_ context.Context, _ gateway.Open, sink gateway.Sink) (gateway.Link, error) {
	return &answeringLink{b, sink}, nil
}

func (l *answeringLink) Send(m gateway.Outbound) error {
	if m.Kind != rpc.Request {
		return nil
	}
	msg, err := rpc.Scan(m.Body)
	if err != nil {
		return err
	}
	result := []byte(`{"ok":true}`)
	if m.Method == "initialize" {
		version, _ := rpc.Unquote(rpc.Find(m.Body, msg.Params, "protocolVersion").Of(m.Body))
		result = fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":{},"serverInfo":{"name":"s","version":"1"}}`, version)
	}
	answer := func() {
		l.sink.Deliver(gateway.Inbound{Body: rpc.ResultResponse(msg.ID.Of(m.Body), result)})
	}
	l.sink.Written(m.Ref)
	switch name, _ := rpc.Unquote(msg.Name.Of(m.Body)); name {
	case "slow":
		l.sink.Deliver(gateway.Inbound{Body: []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"early"}}`)})
		l.b.release <- answer
	case "quiet":
		l.b.release <- answer
	default:
		answer()
	}
	return nil
}
func (l *answeringLink) Abort(uint64) bool            { return false }
func (l *answeringLink) Close(string)                 { go l.sink.Closed(gateway.Exit{Reason: gateway.Terminated}) }
func (l *answeringLink) Detach(context.Context) error { return nil }
func (l *answeringLink) Info() gateway.LinkInfo       { return gateway.LinkInfo{} }

// front serves two legacy servers, a and b; tokens are names of principals.
func front(t testing.TB) (string, chan func()) {
	t.Helper()
	b := answering{release: make(chan func(), 4)}
	g, err := gateway.New(gateway.Config{
		Stdio: b, HTTP: b, Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler), Epoch: 3,
		Resolve: func(context.Context, catalog.Server, gateway.Caller) (gateway.Resolved, error) {
			return gateway.Resolved{}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	entry := func(name string) catalog.Server {
		return catalog.Server{ID: name, Name: name, Stdio: &catalog.Stdio{Command: name}, Protocol: catalog.ProtocolLegacy, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled}
	}
	g.Apply([]catalog.Server{entry("a"), entry("b")})
	f, err := NewFront(FrontConfig{Gateway: g, Log: slog.New(slog.DiscardHandler), Token: func(bearer string) (gateway.Caller, bool) {
		return gateway.Caller{Principal: bearer}, bearer != "bad"
	}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(f.Guard(f))
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		if err := g.Stop(ctx, true); err != nil {
			t.Error(err)
		}
		srv.Close()
	})
	return srv.URL, b.release
}

// do sends one request; headers are "Name: value", and the token is "owner" unless they say otherwise.
func do(t testing.TB, method, url, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer owner")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(got), res.Header
}

func open(t testing.TB, url, version string) string {
	t.Helper()
	status, body, h := do(t, "POST", url, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	if status != 200 || h.Get(hdrSession) == "" {
		t.Fatalf("initialize: %d %s", status, body)
	}
	return h.Get(hdrSession)
}

// TestFrontStatus is the table of protocol.md section 4, as far as the front decides.
func TestFrontStatus(t *testing.T) {
	base, _ := front(t)
	a := base + "/servers/a/mcp"
	x := "Mcp-Session-Id: " + open(t, a, "2025-11-25")
	old := "Mcp-Session-Id: " + open(t, a, "2025-03-26")
	elsewhere := "Mcp-Session-Id: " + open(t, base+"/servers/b/mcp", "2025-11-25")
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	note := `{"jsonrpc":"2.0","method":"notifications/x"}`
	modern := func(meta string) string {
		return `{"jsonrpc":"2.0","id":9,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"` + meta + `}}}`
	}
	whole := `,"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
	version := "Mcp-Protocol-Version: 2026-07-28"
	for _, c := range []struct {
		name, method, url, body string
		headers                 []string
		status                  int
		has                     string
	}{
		{"no such path", "POST", base + "/servers/a", ping, nil, 404, "-32600"},
		{"no such server", "POST", base + "/servers/c/mcp", ping, nil, 404, "there are: a, b"},
		{"no JSON", "POST", a, `{"jsonrpc"`, nil, 400, "-32700"},
		{"no object", "POST", a, `7`, nil, 400, "-32600"},
		{"two ids", "POST", a, `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, []string{x}, 400, "-32600"},
		{"a fractional id", "POST", a, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, []string{x}, 400, "-32600"},
		{"a long id", "POST", a, `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1025) + `","method":"ping"}`, []string{x}, 400, "-32600"},
		{"too deep", "POST", a, strings.Repeat("[", 2000) + strings.Repeat("]", 2000), nil, 400, "-32600"},
		{"text", "POST", a, ping, []string{x, "Content-Type: text/plain"}, 415, "-32600"},
		{"no form to answer in", "POST", a, ping, []string{x, "Accept: text/html"}, 406, "-32600"},
		{"another Host", "POST", a, ping, []string{x, "Host: evil.example"}, 403, "-32600"},
		{"another Origin", "POST", a, ping, []string{x, "Origin: https://evil.example"}, 403, "-32600"},
		{"a null Origin", "POST", a, ping, []string{x, "Origin: null"}, 403, "-32600"},
		{"a loopback Origin", "POST", a, ping, []string{x, "Origin: http://localhost:5173"}, 200, `"ok":true`},
		{"a bad token", "POST", a, ping, []string{x, "Authorization: Bearer bad"}, 401, "-32600"},
		{"no token and no known peer", "POST", a, ping, []string{x, "Authorization: Basic eA=="}, 401, "-32600"},
		{"another principal", "POST", a, ping, []string{x, "Authorization: Bearer other"}, 403, "-32600"},
		{"no session", "POST", a, ping, nil, 400, "-32600"},
		{"an unknown session", "POST", a, ping, []string{"Mcp-Session-Id: x"}, 404, `"id":1`},
		{"another server's session", "POST", a, ping, []string{elsewhere}, 404, "-32600"},
		{"a notification", "POST", a, note, []string{x}, 202, ""},
		{"a response", "POST", a, `{"jsonrpc":"2.0","id":5,"result":{}}`, []string{x}, 202, ""},
		{"an unknown version", "POST", a, ping, []string{x, "Mcp-Protocol-Version: 1999-01-01"}, 400, ""},
		{"another known version", "POST", a, ping, []string{x, "Mcp-Protocol-Version: 2025-06-18"}, 200, `"ok":true`},
		{"JSON only", "POST", a, ping, []string{x, "Accept: application/json"}, 200, `{"jsonrpc":"2.0","id":1,"result":{"ok":true}}`},
		{"events only", "POST", a, ping, []string{x, "Accept: text/event-stream"}, 200, "retry: 1000\ndata: \n\n"},
		{"events only, older", "POST", a, ping, []string{old, "Accept: text/event-stream"}, 200, "id: rMQ.3.1."},
		{"a batch", "POST", a, "[" + ping + "," + note + "]", []string{old}, 200, `[{"jsonrpc":"2.0","id":1,"result":{"ok":true}}]`},
		{"a batch of notifications", "POST", a, "[" + note + "]", []string{old}, 202, ""},
		{"an empty batch", "POST", a, "[]", []string{old}, 400, "-32700"},
		{"a batch of nonsense", "POST", a, "[1]", []string{old}, 400, "-32600"},
		{"a batch of many", "POST", a, "[" + strings.Repeat("1,", maxBatch) + "1]", []string{old}, 400, "-32600"},
		{"a batch of a newer session", "POST", a, "[" + ping + "]", []string{x}, 400, "-32600"},
		{"a batch of a lost session", "POST", a, "[" + ping + "]", []string{elsewhere}, 404, "-32600"},
		{"a batch without session", "POST", a, "[" + ping + "]", nil, 400, "-32600"},
		{"GET without session", "GET", a, "", nil, 405, "-32600"},
		{"GET of an unknown session", "GET", a, "", []string{"Mcp-Session-Id: x"}, 404, "-32600"},
		{"GET in JSON", "GET", a, "", []string{x, "Accept: application/json"}, 406, "-32600"},
		{"GET of an unknown version", "GET", a, "", []string{x, "Mcp-Protocol-Version: 1999-01-01"}, 400, ""},
		{"GET after nonsense", "GET", a, "", []string{x, "Last-Event-ID: what"}, 400, "-32600"},
		{"DELETE without session", "DELETE", a, "", nil, 405, "-32600"},
		{"PUT", "PUT", a, "", nil, 405, "-32600"},
		{"modern without envelope", "POST", a, ping, []string{x, version}, 400, "-32602"},
		{"modern with half of it", "POST", a, modern(""), []string{version}, 400, "-32602"},
		{"modern against its header", "POST", a, modern(whole), []string{version, "Mcp-Method: tools/list"}, 400, "-32020"},
		{"modern, removed", "POST", a, modern(whole), []string{version, "Mcp-Method: ping"}, 404, "-32601"},
		{"a modern notification", "POST", a, strings.Replace(modern(whole), `"id":9,`, "", 1), []string{version}, 202, ""},
		{"a modern response", "POST", a, `{"jsonrpc":"2.0","id":5,"result":{}}`, []string{version}, 400, "-32600"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body, h := do(t, c.method, c.url, c.body, c.headers...)
			if status != c.status || !strings.Contains(body, c.has) {
				t.Errorf("got %d %s, want %d with %q", status, body, c.status, c.has)
			}
			if status == 405 && h.Get("Allow") != "POST" {
				t.Errorf("Allow is %q", h.Get("Allow"))
			}
			if len(body) > 0 && status >= 400 && h.Get("Content-Type") != "application/json" {
				t.Errorf("the error is %q", h.Get("Content-Type"))
			}
		})
	}
	if status, _, _ := do(t, "DELETE", a, "", x); status != 200 {
		t.Errorf("DELETE got %d", status)
	}
	if status, _, _ := do(t, "POST", a, ping, x); status != 404 {
		t.Errorf("a deleted session got %d", status)
	}
}

// TestFrontResume: a call whose client loses its connection is resumed from the first event, the answer included.
func TestFrontResume(t *testing.T) {
	base, release := front(t)
	a := base + "/servers/a/mcp"
	x := open(t, a, "2025-11-25")
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", a, strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer owner", "Content-Type": "application/json", hdrSession: x} {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(res.Body)
	first, err := r.ReadString('\n')
	if err != nil || !strings.HasPrefix(first, "id: rNw.3.0.") {
		t.Fatalf("the stream begins with %q, %v", first, err)
	}
	leave()
	_ = res.Body.Close()
	(<-release)()
	status, body, _ := do(t, "GET", a, "", "Mcp-Session-Id: "+x, "Last-Event-ID: rNw.3.0")
	if status != 200 || !strings.Contains(body, "early") || !strings.Contains(body, `"ok":true`) {
		t.Errorf("the resume got %d %s", status, body)
	}
	_, last, _ := strings.Cut(body[strings.LastIndex(body, "id: "):], "id: ")
	last, _, _ = strings.Cut(last, "\n")
	if status, body, _ := do(t, "GET", a, "", "Mcp-Session-Id: "+x, "Last-Event-ID: "+last); status != 204 {
		t.Errorf("a resume behind the response got %d %q, want 204", status, body)
	}
}

// TestFrontCursor: a stream that is opened or resumed begins with the event id of its place, for clients that hear nothing
// on it before it breaks again; sessions of older revisions get none, because their clients fail on an empty event.
func TestFrontCursor(t *testing.T) {
	base, release := front(t)
	a := base + "/servers/a/mcp"
	first := func(version, method, body string, headers ...string) (string, func()) {
		t.Helper()
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, method, a, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range append(headers, "Authorization: Bearer owner", "Content-Type: application/json", "Mcp-Protocol-Version: "+version) {
			name, value, _ := strings.Cut(h, ": ")
			req.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(req) //nolint:bodyclose // end closes it
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%s: %v %v", method, res, err)
		}
		line := make(chan string, 1)
		go func() {
			text, _ := bufio.NewReader(res.Body).ReadString('\n') // its end is an empty line
			line <- text
		}()
		end := func() {
			leave()
			_ = res.Body.Close()
		}
		select {
		case text := <-line:
			return text, end
		case <-time.After(200 * time.Millisecond): // what must not come has no event
			return "", end
		}
	}
	for version, want := range map[string]string{"2025-11-25": "id: g.3.0\n", "2025-06-18": ""} {
		x := open(t, a, version)
		line, end := first(version, "GET", "", "Mcp-Session-Id: "+x)
		end()
		if line != want {
			t.Errorf("%s: the standalone stream begins with %q, want %q", version, line, want)
		}
	}
	x := open(t, a, "2025-11-25")
	line, end := first("2025-11-25", "POST", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow"}}`, "Mcp-Session-Id: "+x)
	end()
	for range 2 {
		var again string
		again, end = first("2025-11-25", "GET", "", "Mcp-Session-Id: "+x, "Last-Event-ID: "+strings.TrimSpace(strings.TrimPrefix(line, "id: ")))
		end()
		if again != line {
			t.Errorf("the resumed stream begins with %q, want %q", again, line)
		}
	}
	(<-release)()
}

// TestFrontLies: a length that is not kept, and one over the limit.
func TestFrontLies(t *testing.T) {
	base, _ := front(t)
	for length, want := range map[int]string{100: "400", 1 << 20: "400", maxBody + 1: "413"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(c, "POST /servers/a/mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer owner\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{}", length)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.Contains(line, want) {
			t.Errorf("a length of %d got %q, %v; want %s", length, line, err, want)
		}
		_ = c.Close()
	}
}
