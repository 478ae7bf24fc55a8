package fakemcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Behaviour is how an HTTP server goes wrong.
type Behaviour string

// The behaviours. The zero Behaviour is a good server.
const (
	HTML        Behaviour = "html"        // 200 and a page, as a captive portal or a login wall answers
	Hanging     Behaviour = "hang"        // takes the request and never answers
	Dropping    Behaviour = "drop"        // begins a stream for tools/call and cuts the connection
	Gone        Behaviour = "gone"        // answers 404 to every tools/call of a session, as after a restart
	Unavailable Behaviour = "unavailable" // 503 with Retry-After
)

// Handler is the fixture as Streamable HTTP on any path.
func (s *Server) Handler() http.Handler { return &edge{server: s, sessions: map[string]bool{}} }

func (s *Server) listen() error {
	l, err := net.Listen("tcp", s.opt.Serve)
	if err != nil {
		return err
	}
	return (&http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}).Serve(l)
}

type edge struct {
	server   *Server
	mu       sync.Mutex // guards sessions
	sessions map[string]bool
}

// maxBody bounds a request of a test.
const maxBody = 64 << 20

func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client left
	}
	if e.misbehaves(w, r, body) {
		return
	}
	session := r.Header.Get("Mcp-Session-Id")
	switch {
	case r.Method == http.MethodDelete && e.known(session):
		e.forget(session)
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	e.server.keep(append(bytes.Clone(body), '\n'))
	m, err := parse(body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if e.server.opt.Stateful && !m.modern() && m.method() != "initialize" && !e.known(session) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if m.modern() && !headersAgree(r.Header, m) {
		e.reply(w, http.StatusBadRequest, m.fill(`{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32020,"message":"header and body disagree"}}`))
		return
	}
	switch {
	case m.method() == "":
		e.server.answered(m)
		w.WriteHeader(http.StatusAccepted)
	case m.id() == "":
		w.WriteHeader(http.StatusAccepted)
	default:
		if m.method() == "initialize" && e.server.opt.Stateful {
			w.Header().Set("Mcp-Session-Id", e.open())
		}
		e.serve(w, r, m)
	}
}

// serve runs one request: one answer is JSON, anything before it makes a stream.
func (e *edge) serve(w http.ResponseWriter, r *http.Request, m message) {
	var first []byte
	streaming := false
	event := func(line []byte) {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", bytes.ReplaceAll(line, []byte("\n"), []byte("\ndata: "))) // the client may have left
		_ = http.NewResponseController(w).Flush()                                                       // likewise
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	c := &call{server: e.server, msg: m, modern: m.modern(), ctx: ctx}
	c.send = func(line []byte) {
		if !streaming && first == nil && isAnswer(line, m.id()) {
			first = line
			return
		}
		if !streaming {
			streaming = true
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
		}
		if first != nil {
			event(first)
			first = nil
		}
		event(line)
	}
	e.server.request(c)
	if first != nil {
		e.reply(w, status(m, first), first)
	}
}

func isAnswer(line []byte, id string) bool {
	m, err := parse(line)
	return err == nil && m.id() == id && m.method() == ""
}

// status is the HTTP status that the modern transport demands for some errors.
func status(m message, answer []byte) int {
	a, err := parse(answer)
	if err != nil || !m.modern() || a.top["error"] == nil {
		return http.StatusOK
	}
	switch a.code() {
	case "-32601":
		return http.StatusNotFound
	case "-32020", "-32021", "-32022":
		return http.StatusBadRequest
	}
	return http.StatusOK
}

func (e *edge) reply(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have left
}

func headersAgree(h http.Header, m message) bool {
	name := text(m.params["name"])
	switch m.method() {
	case "resources/read":
		name = text(m.params["uri"])
	case "tasks/get", "tasks/update", "tasks/cancel":
		name = text(m.params["taskId"])
	}
	return h.Get("Mcp-Method") == m.method() && (name == "" || h.Get("Mcp-Name") == name || sentinel(h.Get("Mcp-Name")) == name)
}

func (e *edge) open() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	id := fmt.Sprintf("session-%d", serial.Add(1))
	e.sessions[id] = true
	return id
}

func (e *edge) known(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sessions[id]
}

func (e *edge) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, id)
}

// misbehaves answers in the way of the options; false leaves the request to the good server.
func (e *edge) misbehaves(w http.ResponseWriter, r *http.Request, body []byte) bool {
	call := bytes.Contains(body, []byte(`"tools/call"`))
	switch e.server.opt.Behave {
	case "":
		return false
	case HTML:
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>Sign in</title>") // the client may have left
		return true
	case Hanging:
		<-r.Context().Done()
		return true
	case Unavailable:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	case Gone:
		if call {
			e.forget(r.Header.Get("Mcp-Session-Id"))
			w.WriteHeader(http.StatusNotFound)
		}
		return call
	case Dropping:
		if call {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ": begun\n\n")   // the client may have left
			_ = http.NewResponseController(w).Flush() // likewise
			panic(http.ErrAbortHandler)
		}
		return call
	}
	panic("fakemcp: unknown behaviour " + string(e.server.opt.Behave))
}
