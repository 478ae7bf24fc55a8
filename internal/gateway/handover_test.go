package gateway

import (
	"context"
	"testing"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/rpc"
)

// endOf waits until a reader has something to say that is no event.
func endOf(t *testing.T, r *Reader) ReadState {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		e, state := r.Next()
		switch state {
		case ReadEvent:
			t.Fatalf("the stream has %s", e.Data)
		case ReadWait:
			select {
			case <-r.Wake():
			case <-r.Moved():
			case <-deadline:
				t.Fatal("no end in 10 s")
			}
		case ReadEnd, ReadMissed, ReadMoved:
			return state
		}
	}
}

// TestHandOver: whoever waits for a supervised server is told that the next daemon has it, and nothing else: not that the
// link was left, not what comes late, and no second process is started for it.
func TestHandOver(t *testing.T) {
	release := make(chan func(), 1)
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if m.Method == "tools/call" {
			release <- func() { l.result(m, msg, `{"content":[]}`) }
		}
	})
	s := newRig(t, p, nil)
	x := initialize(t, s, "2025-11-25", allCaps)
	standalone := x.Standalone()
	call := x.Request([]byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}`), scan(t, []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}`)))
	reader := call.Follow()
	answer := <-release
	if err := s.g.HandOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	answer()
	if got := endOf(t, reader); got != ReadMoved || !call.Sent() {
		t.Errorf("a call in flight: state %d, sent %v", got, call.Sent())
	}
	if got := endOf(t, standalone); got != ReadEnd {
		t.Errorf("the standalone stream: state %d", got)
	}
	if !s.Moved() {
		t.Error("the server has not moved")
	}
	late := x.Request([]byte(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"a"}}`), scan(t, []byte(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"a"}}`)))
	if got := endOf(t, late.Follow()); got != ReadMoved || late.Sent() {
		t.Errorf("a call that came late: state %d, sent %v", got, late.Sent())
	}
	modernCall := modern(t, s, "9", "tools/call", `{"name":"a"}`, `{}`)
	if got := endOf(t, modernCall.Follow()); got != ReadMoved || modernCall.Sent() {
		t.Errorf("a modern call that came late: state %d, sent %v", got, modernCall.Sent())
	}
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	if other, _ := s.Initialize(t.Context(), body, scan(t, body), owner1); other != nil {
		t.Error("a session was opened on a server that has moved")
	}
	if n := len(p.opened()); n != 1 {
		t.Errorf("%d processes were started", n)
	}
}

// TestHandOverKeepsRemote: what a remote server works on ends here.
func TestHandOverKeepsRemote(t *testing.T) {
	release := make(chan func(), 1)
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if m.Method == "tools/call" {
			release <- func() { l.result(m, msg, `{"content":[]}`) }
		}
	})
	s := newRig(t, p, func(e *catalog.Server) {
		e.Stdio, e.HTTP, e.Protocol = nil, &catalog.HTTP{URL: "http://127.0.0.1:1/mcp"}, catalog.ProtocolLegacy
	})
	x := initialize(t, s, "2025-11-25", allCaps)
	reader := send(t, x, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}`)
	answer := <-release
	if err := s.g.HandOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	short, stop := context.WithTimeout(t.Context(), 2*lookEvery)
	defer stop()
	if s.g.inFlight() != 1 || s.Moved() || short.Err() != nil {
		t.Errorf("%d calls in flight, moved %v", s.g.inFlight(), s.Moved())
	}
	answer()
	if got, _ := reply(t, reader); member(t, got, "result") == nil {
		t.Errorf("the answer is %s", got)
	}
	if err := s.g.Linger(t.Context()); err != nil {
		t.Error(err)
	}
}
