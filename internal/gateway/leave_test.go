package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/rpc"
)

// newest is the link that was opened last: the first one of a legacy server was a probe.
func (p *peer) newest() *peerLink {
	all := p.opened()
	return all[len(all)-1]
}

// inFlight is how many calls the lanes of a server hold.
func inFlight(s *Server) int { return s.status().InFlight }

// TestQueuedCallTimesOut: a call that waits for another client's question ends at its deadline, unsent.
func TestQueuedCallTimesOut(t *testing.T) {
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		switch {
		case m.Method == "tools/call" && strings.Contains(string(m.Body), "asker"):
			l.say(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?"}}`)
		case m.Method == "tools/call":
			l.result(m, msg, `{"content":[]}`)
		}
	})
	s := newRig(t, p, func(e *catalog.Server) { e.Sharing, e.Limits.Call = catalog.ShareGlobal, 200*time.Millisecond })
	s.asks.Store(true)
	a, b := initialize(t, s, "2025-11-25", allCaps), initialize(t, s, "2025-11-25", allCaps)
	asker := send(t, a, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"asker"}}`)
	question := next(t, asker).Data
	got, _ := reply(t, send(t, b, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"other"}}`))
	if member(t, got, "error", "code") != float64(CodeBusy) {
		t.Errorf("the waiting client got %s", got)
	}
	for _, m := range p.opened()[0].messages() {
		if strings.Contains(m, "other") {
			t.Errorf("the server got %s", m)
		}
	}
	// The question stopped the asker's own clock; its answer starts it again.
	answer := []byte(`{"jsonrpc":"2.0","id":` + string(scan(t, question).ID.Of(question)) + `,"result":{"action":"decline"}}`)
	a.Respond(answer, scan(t, answer))
	if got, _ := reply(t, asker); member(t, got, "error", "code") != float64(CodeTimeout) {
		t.Errorf("the asking client got %s", got)
	}
	eventually(t, "no call is left", func() bool { return inFlight(s) == 0 })
}

// TestModernClientLeavesWhileStarting: what arrives only after its client left is not run, and nothing stays behind.
func TestModernClientLeavesWhileStarting(t *testing.T) {
	for _, cell := range cells {
		if !cell.modern {
			continue
		}
		for _, method := range []string{"tools/call", "subscriptions/listen", "prompts/get"} {
			t.Run(cell.name+" "+method, func(t *testing.T) {
				start := make(chan struct{})
				p := cell.peer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
					if m.Method == "prompts/list" {
						l.result(m, msg, `{"prompts":[]}`)
					}
				})
				base := p.handle
				p.handle = func(l *peerLink, m Outbound, msg rpc.Message) {
					<-start
					base(l, m, msg)
				}
				s := newRig(t, p, nil)
				st := modern(t, s, "1", method, `{"name":"a"}`, allCaps)
				eventually(t, "the start begins", func() bool { return len(p.opened()) > 0 })
				st.Gone()
				close(start)
				reply(t, modern(t, s, "2", "prompts/list", `{"_":1}`, allCaps).Follow())
				eventually(t, "nothing is left", func() bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					for l := range s.lanes {
						if l.busy() {
							return false
						}
					}
					return true
				})
			})
		}
	}
}

// TestParkedCall: a client that leaves after the question leaves the call parked; one that leaves during the retry
// cancels it, and a later retry learns that it is gone.
func TestParkedCall(t *testing.T) {
	p := legacyPeer(t, func(l *peerLink, m Outbound, _ rpc.Message) {
		if m.Method == "tools/call" {
			l.say(`{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{"message":"name?"}}`)
		}
	})
	s := newRig(t, p, nil)
	st := modern(t, s, "1", "tools/call", `{"name":"a"}`, allCaps)
	first, _ := reply(t, st.Follow())
	st.Gone()
	state := member(t, first, "result", "requestState").(string)
	retry := func(id, answers string) *Stream {
		return modern(t, s, id, "tools/call", `{"name":"a","requestState":"`+state+`","inputResponses":{`+answers+`}}`, allCaps)
	}
	if again, _ := reply(t, retry("2", "").Follow()); member(t, again, "result", "resultType") != "input_required" {
		t.Fatalf("a retry without the answer got %s", again)
	}
	running := retry("3", `"r1":{"action":"decline"}`)
	link := p.newest()
	eventually(t, "the server has its answer", func() bool { return strings.Contains(strings.Join(link.messages(), "\n"), "decline") })
	if busy, _ := reply(t, retry("4", "").Follow()); !strings.Contains(busy, "another retry") {
		t.Errorf("a second retry at once got %s", busy)
	}
	running.Gone()
	eventually(t, "the server knows", func() bool { return strings.Contains(strings.Join(link.messages(), "\n"), "notifications/cancelled") })
	if gone, _ := reply(t, retry("5", "").Follow()); member(t, gone, "error", "code") != float64(CodeSentUnknown) {
		t.Errorf("a retry of the cancelled call got %s", gone)
	}
	if s.parkMu.Lock(); len(s.parked) != 0 {
		t.Errorf("%d calls are parked", len(s.parked))
	}
	s.parkMu.Unlock()
}

// TestParkedExpiry: a parked call whose client never comes back is given up: the server is answered and told.
func TestParkedExpiry(t *testing.T) {
	p := legacyPeer(t, func(l *peerLink, m Outbound, _ rpc.Message) {
		if m.Method == "tools/call" {
			l.say(`{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{"message":"name?"}}`)
		}
	})
	s := newRig(t, p, nil)
	first, _ := reply(t, modern(t, s, "1", "tools/call", `{"name":"a"}`, allCaps).Follow())
	state := member(t, first, "result", "requestState").(string)
	s.sweepParked(time.Now().Add(stateTTL + time.Minute))
	link := p.newest()
	eventually(t, "the server is answered and told", func() bool {
		all := strings.Join(link.messages(), "\n")
		return strings.Contains(all, `"action":"cancel"`) && strings.Contains(all, "notifications/cancelled")
	})
	gone, _ := reply(t, modern(t, s, "2", "tools/call", `{"name":"a","requestState":"`+state+`","inputResponses":{}}`, allCaps).Follow())
	if member(t, gone, "error", "code") != float64(CodeSentUnknown) {
		t.Errorf("the retry got %s", gone)
	}
	for _, bad := range []string{"", "x", state[1:], state + "A", strings.ToUpper(state)} {
		got, _ := reply(t, modern(t, s, "3", "tools/call", `{"name":"a","requestState":"`+bad+`"}`, allCaps).Follow())
		if member(t, got, "error", "code") != -32602.0 {
			t.Errorf("state %.20q got %s", bad, got)
		}
	}
	other := modernAs(t, s, Caller{Principal: "thief"}, "4", `{"name":"a","requestState":"`+state+`"}`)
	if got, _ := reply(t, other.Follow()); member(t, got, "error", "code") != -32602.0 {
		t.Errorf("a stolen state got %s", got)
	}
}

func modernAs(t *testing.T, s *Server, c Caller, id, params string) *Stream {
	t.Helper()
	body := []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + allCaps + `},` + params[1:] + `}`)
	return s.Modern(ModernRequest{Body: body, Msg: scan(t, body), Caller: c})
}

// TestParkedLaneDies: the server of a parked call ends; the retry learns it at once.
func TestParkedLaneDies(t *testing.T) {
	p := legacyPeer(t, func(l *peerLink, m Outbound, _ rpc.Message) {
		if m.Method == "tools/call" {
			l.say(`{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{"message":"name?"}}`)
		}
	})
	s := newRig(t, p, nil)
	first, _ := reply(t, modern(t, s, "1", "tools/call", `{"name":"a"}`, allCaps).Follow())
	state := member(t, first, "result", "requestState").(string)
	p.newest().exit(Exit{Reason: Exited, Code: 1})
	got, _ := reply(t, modern(t, s, "2", "tools/call", `{"name":"a","requestState":"`+state+`","inputResponses":{"r1":{"action":"accept"}}}`, allCaps).Follow())
	if member(t, got, "error", "code") != float64(CodeSentUnknown) {
		t.Errorf("the retry got %s", got)
	}
}

// TestTooManyParked: above the bound a call that asks ends as busy and its server is told.
func TestTooManyParked(t *testing.T) {
	p := legacyPeer(t, func(l *peerLink, m Outbound, _ rpc.Message) {
		if m.Method == "tools/call" {
			l.say(`{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{"message":"name?"}}`)
		}
	})
	s := newRig(t, p, nil)
	s.parkMu.Lock()
	for i := range maxParked {
		s.parked[fmt.Sprint(i)] = &bridged{stream: newStream("", false)}
	}
	s.parkMu.Unlock()
	got, _ := reply(t, modern(t, s, "1", "tools/call", `{"name":"a"}`, allCaps).Follow())
	if member(t, got, "error", "code") != float64(CodeBusy) {
		t.Errorf("the client got %s", got)
	}
	link := p.newest()
	eventually(t, "the server is answered", func() bool {
		return strings.Contains(strings.Join(link.messages(), "\n"), `"action":"cancel"`)
	})
}

// TestUnsubscribeOfOthers: a session can neither end nor double the subscription of another.
func TestUnsubscribeOfOthers(t *testing.T) {
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if strings.HasPrefix(m.Method, "resources/") {
			l.result(m, msg, `{}`)
		}
	})
	s := newRig(t, p, global)
	a, b := initialize(t, s, "2025-11-25", "{}"), initialize(t, s, "2025-11-25", "{}")
	id := 0
	do := func(x *Session, method string) {
		id++
		reply(t, send(t, x, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/%s","params":{"uri":"file:///a"}}`, id, method)))
	}
	do(a, "subscribe")
	do(a, "subscribe")
	do(b, "unsubscribe")
	do(b, "subscribe")
	do(b, "unsubscribe")
	count := func(method string) (n int) {
		for _, m := range p.opened()[0].messages() {
			n += strings.Count(m, `"resources/`+method+`"`)
		}
		return n
	}
	if subs, unsubs := count("subscribe"), count("unsubscribe"); subs != 1 || unsubs != 0 {
		t.Errorf("the server saw %d subscriptions and %d ends, want 1 and 0", subs, unsubs)
	}
	do(a, "unsubscribe")
	if n := count("unsubscribe"); n != 1 {
		t.Errorf("the last subscriber left; the server saw %d ends", n)
	}
}

// TestReissue: a list whose answer was lost with the process is asked once more; a call is not.
func TestReissue(t *testing.T) {
	p := modernPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		switch {
		case l.n == 1:
			l.exit(Exit{Reason: Exited, Code: 1})
		case m.Method == "prompts/list":
			l.result(m, msg, `{"resultType":"complete","prompts":[]}`)
		default:
			l.exit(Exit{Reason: Exited, Code: 1})
		}
	})
	s := newRig(t, p, nil)
	got, _ := reply(t, modern(t, s, "1", "prompts/list", `{"_":1}`, "{}").Follow())
	if !strings.Contains(got, `"prompts":[]`) || member(t, got, "id") != 1.0 {
		t.Errorf("the list got %s", got)
	}
	if got, _ = reply(t, modern(t, s, "2", "tools/call", `{"name":"x"}`, "{}").Follow()); member(t, got, "error", "code") != float64(CodeSentUnknown) {
		t.Errorf("the call got %s", got)
	}
}

// TestDeleteWhileStarting: the session's client leaves, the server is removed, or the gateway stops, all while the
// process starts. Everyone gets an answer and no process stays.
func TestDeleteWhileStarting(t *testing.T) {
	for name, act := range map[string]func(*Server, context.CancelFunc){
		"client leaves": func(_ *Server, leave context.CancelFunc) { leave() },
		"removed":       func(s *Server, _ context.CancelFunc) { s.g.Apply(nil) },
		"restarted":     func(s *Server, _ context.CancelFunc) { s.restart() },
	} {
		t.Run(name, func(t *testing.T) {
			start := make(chan struct{})
			p := legacyPeer(t, nil)
			base := p.handle
			p.handle = func(l *peerLink, m Outbound, msg rpc.Message) {
				select {
				case <-start:
				case <-l.over:
					return
				}
				base(l, m, msg)
			}
			s := newRig(t, p, nil)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			var all sync.WaitGroup
			all.Go(func() {
				body := []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
				x, answer := s.Initialize(ctx, body, scan(t, body), owner1)
				if x != nil || !strings.Contains(string(answer), `"error"`) {
					t.Errorf("initialize got %s", answer)
				}
			})
			eventually(t, "the start begins", func() bool { return len(p.opened()) > 0 })
			act(s, leave)
			all.Wait()
			close(start)
			eventually(t, "no process is left", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return len(s.lanes) == 0
			})
		})
	}
}

// TestAnswerWhileParked: an answer that does not wait for the client is kept for its retry, unless it is too large.
func TestAnswerWhileParked(t *testing.T) {
	for size, want := range map[int]string{10: `"xxxxxxxxxx"`, maxKept: "-31903"} {
		p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
			if m.Method == "tools/call" {
				l.say(`{"jsonrpc":"2.0","id":5,"method":"roots/list"}`)
				l.result(m, msg, `{"content":[],"x":"`+strings.Repeat("x", size)+`"}`)
			}
		})
		s := newRig(t, p, nil)
		first, _ := reply(t, modern(t, s, "1", "tools/call", `{"name":"a"}`, allCaps).Follow())
		state := member(t, first, "result", "requestState").(string)
		eventually(t, "the answer is kept", func() bool { return inFlight(s) == 0 })
		got, _ := reply(t, modern(t, s, "2", "tools/call", `{"name":"a","requestState":"`+state+`","inputResponses":{}}`, allCaps).Follow())
		if !strings.Contains(got, want) {
			t.Errorf("the retry got %.200s, want %s", got, want)
		}
	}
}
