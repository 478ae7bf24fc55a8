package bridge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for something that must happen. It is no synchronisation: it only ends a test that
// has failed.
const patience = 20 * time.Second

// daemon is a scripted daemon on a unix socket. It can be killed and started again at the same path.
type daemon struct {
	t    *testing.T
	path string

	mu     sync.Mutex
	handle http.HandlerFunc // present script
	server *http.Server
	listen net.Listener
	seen   chan seen // every request but the greeting, in order of arrival
}

// seen is one request that arrived.
type seen struct {
	Method string
	Header http.Header
	Body   string
}

func newDaemon(t *testing.T, handle http.HandlerFunc) *daemon {
	d := &daemon{t: t, path: filepath.Join(t.TempDir(), "s"), seen: make(chan seen, 1024), handle: handle}
	d.start()
	t.Cleanup(d.kill)
	return d
}

func (d *daemon) start() {
	l, err := net.Listen("unix", d.path)
	if err != nil {
		d.t.Error(err)
		return
	}
	s := &http.Server{Handler: d}
	d.mu.Lock()
	d.server, d.listen = s, l
	d.mu.Unlock()
	go func() { _ = s.Serve(l) }()
}

// kill closes the listener and every connection, as the kernel does for a killed process.
func (d *daemon) kill() {
	d.mu.Lock()
	s := d.server
	d.server = nil
	d.mu.Unlock()
	if s != nil {
		_ = d.listen.Close() // Serve may not have begun, and then Close of the server does not know it
		_ = s.Close()
	}
}

func (d *daemon) script(handle http.HandlerFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handle = handle
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.Method == http.MethodGet && r.Header.Get(headerSession) == "" {
		if r.URL.Path != "/servers/demo/mcp" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":{"kind":"not-found","code":"server-unknown","message":"there is no server named demmo","hint":"did you mean demo?"}}`)
			return
		}
		w.Header().Set("Allow", "POST")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	d.seen <- seen{Method: r.Method, Header: r.Header.Clone(), Body: string(body)}
	d.mu.Lock()
	handle := d.handle
	d.mu.Unlock()
	handle(w, r)
}

func (d *daemon) dial(ctx context.Context) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", d.path)
}

// next is the next request that arrived.
func (d *daemon) next() seen {
	d.t.Helper()
	select {
	case s := <-d.seen:
		return s
	case <-time.After(patience):
		d.t.Fatal("no request arrived")
		panic("unreachable")
	}
}

// expect is the next request; it must be a POST of exactly this body.
func (d *daemon) expect(body string) seen {
	d.t.Helper()
	s := d.next()
	if s.Method != http.MethodPost || s.Body != body {
		d.t.Fatalf("arrived: %s %s\nwant POST %s", s.Method, s.Body, body)
	}
	return s
}

// client is the client's side of one bridge.
type client struct {
	t      *testing.T
	in     *io.PipeWriter
	lines  chan string
	errs   *syncBuffer
	done   chan error
	cancel context.CancelFunc
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// quick are the limits of tests: nothing that is expected to happen waits for one of them.
var quick = limits{
	line:   64 << 10,
	outage: patience, grace: 0, lead: time.Millisecond, pause: time.Millisecond,
	finish: patience, bye: patience, first: patience, notice: patience,
}

func connect(t *testing.T, d *daemon, change ...func(*Config, *limits)) *client {
	t.Helper()
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	c := &client{t: t, in: inWrite, lines: make(chan string, 1024), errs: &syncBuffer{}, done: make(chan error, 1)}
	cfg := Config{Server: "demo", Dial: d.dial, In: inRead, Out: outWrite, Err: c.errs}
	lim := quick
	for _, f := range change {
		f(&cfg, &lim)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go func() {
		c.done <- run(ctx, cfg, lim)
		_ = outWrite.Close()
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		r := bufio.NewReader(outRead)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			c.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = inWrite.Close()
		<-read
	})
	return c
}

func (c *client) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) next() string {
	c.t.Helper()
	select {
	case line := <-c.lines:
		return line
	case <-time.After(patience):
		c.t.Fatalf("no line arrived; stderr: %s", c.errs)
		panic("unreachable")
	}
}

func (c *client) expect(line string) {
	c.t.Helper()
	if got := c.next(); got != line {
		c.t.Fatalf("line %s\nwant %s", got, line)
	}
}

// expectError is the next line; it must be an error with this id and code.
func (c *client) expectError(id string, code int) string {
	c.t.Helper()
	line := c.next()
	var m struct {
		ID    json.RawMessage `json:"id"`
		Error struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
			Data    struct {
				Mcpx struct {
					Class string `json:"class"`
				} `json:"mcpx"`
			} `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil || string(m.ID) != id || m.Error.Code != code {
		c.t.Fatalf("line %s\nwant an error of id %s with code %d", line, id, code)
	}
	return m.Error.Message
}

// end waits for the end of the bridge.
func (c *client) end() error {
	c.t.Helper()
	select {
	case err := <-c.done:
		return err
	case <-time.After(patience):
		c.t.Fatal("the bridge did not end")
		return nil
	}
}

// quiet says that nothing more was written to the client.
func (c *client) quiet() {
	c.t.Helper()
	select {
	case line := <-c.lines:
		c.t.Fatalf("unexpected line %s", line)
	default:
	}
}

const (
	initLine  = `{"jsonrpc":"2.0", "id":"q\u0062", "method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"x":1.10},"clientInfo":{"name":"t","version":"1"}}}`
	initReply = `{"jsonrpc":"2.0","id":"q\u0062","result":{"zeta":1,"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`
	readyLine = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

func callLine(id int, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"name":"x","n":12345678901234567890}}`, id, method)
}

func reply(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"b":1,"a":[1.0]}}`, id)
}

func answerJSON(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

// openStream begins an SSE response.
func openStream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
}

func emit(w http.ResponseWriter, id, data string) {
	if id != "" {
		_, _ = fmt.Fprintf(w, "id: %s\n", id)
	}
	_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
	_ = http.NewResponseController(w).Flush()
}

// oneSession answers as a daemon with one session does; other requests go to rest. A request of another session is 404.
func oneSession(id string, rest http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		_ = json.Unmarshal(body, &m)
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case r.Method == http.MethodPost && m.Method == "initialize":
			w.Header().Set(headerSession, id)
			answerJSON(w, strings.Replace(initReply, `"q\u0062"`, string(m.ID), 1))
		case r.Header.Get(headerSession) != id:
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusOK)
		case r.Method == http.MethodGet && rest == nil:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.Method == http.MethodPost && (len(m.ID) == 0 || m.Method == "") && !bytes.HasPrefix(body, []byte("[")):
			w.WriteHeader(http.StatusAccepted)
		default:
			rest(w, r)
		}
	}
}

// open brings a bridge into a session: initialize and initialized have been answered, and the standalone stream was
// asked for.
func (c *client) open(d *daemon) {
	c.t.Helper()
	c.send(initLine)
	d.expect(initLine)
	c.expect(initReply)
	c.send(readyLine)
	d.expect(readyLine)
	if s := d.next(); s.Method != http.MethodGet || s.Header.Get("Accept") == "" {
		c.t.Fatalf("after initialized came %s %s, want the standalone GET", s.Method, s.Body)
	}
}
