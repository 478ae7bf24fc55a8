package certify

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"mcpx/internal/fault"
)

// stand serves one thing on a port of its own until it is closed.
type stand struct {
	url    string
	server *http.Server
	ended  chan struct{}
}

func open(h http.Handler) (*stand, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.New(fault.Unavailable, "certify-no-port").Saying("no port of this machine can be used").Because(err)
	}
	s := &stand{url: "http://" + l.Addr().String(), server: &http.Server{Handler: h}, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		_ = s.server.Serve(l) // it ends when it is closed
	}()
	return s, nil
}

func (s *stand) close() {
	_ = s.server.Close() // who is connected still is ended too
	<-s.ended
}

// freePort is a port that nobody uses now. The daemon is told to listen there, also after it was killed.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fault.New(fault.Unavailable, "certify-no-port").Saying("no port of this machine can be used").Because(err)
	}
	return l.Addr().String(), l.Close()
}

// stage holds the model of the moment.
type stage struct{ now atomic.Pointer[Model] }

func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m := s.now.Load(); m != nil {
		m.ServeHTTP(w, r)
		return
	}
	(&Model{}).ServeHTTP(w, r)
}

// tap stands before the server that is reached over HTTP, and remembers who came.
type tap struct {
	to http.Handler

	mu     sync.Mutex
	client string // name and version that the last caller gave
	calls  int    // of tools
}

func (t *tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxModelRequest))
	if err != nil {
		return // the caller is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	t.look(body)
	t.to.ServeHTTP(w, r)
}

func (t *tap) look(body []byte) {
	type info struct{ Name, Version string }
	var m struct {
		Method string
		Params struct {
			ClientInfo info
			Meta       struct {
				Client info `json:"io.modelcontextprotocol/clientInfo"`
			} `json:"_meta"`
		}
	}
	if json.Unmarshal(body, &m) != nil {
		return // the server behind refuses it
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range []info{m.Params.ClientInfo, m.Params.Meta.Client} {
		if i.Name != "" {
			t.client = strings.TrimSpace(i.Name + " " + i.Version)
		}
	}
	if m.Method == "tools/call" {
		t.calls++
	}
}

// taken gives what was seen since it was last asked.
func (t *tap) taken() (client string, calls int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	client, calls = t.client, t.calls
	t.client, t.calls = "", 0
	return client, calls
}
