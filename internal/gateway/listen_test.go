package gateway

import (
	"context"
	"strings"
	"testing"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/rpc"
)

// TestBridgedListen: a modern client listens on a legacy server: the honest subset first, then what it granted, tagged
// with the client's own id; it survives the process, and leaves nothing behind.
func TestBridgedListen(t *testing.T) {
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if m.Kind == rpc.Request {
			l.result(m, msg, `{}`)
		}
	})
	s := newRig(t, p, nil)
	st := modern(t, s, `"L"`, "subscriptions/listen", `{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["file:///a"]}}`, "{}")
	r := st.Follow()
	want := func(parts ...string) {
		t.Helper()
		got := string(next(t, r).Data)
		for _, part := range append(parts, `"io.modelcontextprotocol/subscriptionId":"L"`) {
			if !strings.Contains(got, part) {
				t.Errorf("the client got %s without %s", got, part)
			}
		}
	}
	want("acknowledged", `"toolsListChanged":true`, `"resourceSubscriptions":["file:///a"]`)
	link := p.newest()
	link.say(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
	link.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
	link.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///b"}}`)
	link.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a","_meta":{"v":1}}}`)
	want("resources/updated", `"v":1`)
	link.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	want("tools/list_changed")
	link.exit(Exit{Reason: Exited, Code: 1})
	want("tools/list_changed")
	link = p.newest()
	eventually(t, "the next process has the subscription", func() bool {
		return strings.Contains(strings.Join(link.messages(), "\n"), `resources/subscribe`)
	})
	st.Gone()
	eventually(t, "the subscription ends", func() bool {
		return strings.Contains(strings.Join(link.messages(), "\n"), `resources/unsubscribe`)
	})
}

// TestListensOfASession: a legacy session on a modern server has one listen; a new set of resources opens another,
// which is acknowledged before the former ends. A broken one is opened again.
func TestListensOfASession(t *testing.T) {
	type listen struct {
		l   *peerLink
		m   Outbound
		msg rpc.Message
	}
	listens := make(chan listen, 8)
	p := modernPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if m.Method == "subscriptions/listen" {
			listens <- listen{l, m, msg}
		}
	})
	s := newRig(t, p, nil)
	x := initialize(t, s, "2025-06-18", "{}")
	say := func(in listen, method, params string) {
		id := string(in.msg.ID.Of(in.m.Body))
		in.l.say(`{"jsonrpc":"2.0","method":"notifications/` + method + `","params":{` + params + `"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`)
	}
	r := x.Standalone()
	first := <-listens
	say(first, "subscriptions/acknowledged", `"notifications":{"toolsListChanged":true},`)
	say(first, "tools/list_changed", "")
	if got := string(next(t, r).Data); !strings.Contains(got, "tools/list_changed") || strings.Contains(got, "subscriptionId") {
		t.Errorf("the client got %s", got)
	}
	reply(t, send(t, x, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`))
	second := <-listens
	if !strings.Contains(string(second.m.Body), `"resourceSubscriptions":["file:///a"]`) {
		t.Errorf("the second listen is %s", second.m.Body)
	}
	if strings.Contains(strings.Join(first.l.messages(), "\n"), "notifications/cancelled") {
		t.Error("the first listen ended before the second was acknowledged")
	}
	say(second, "subscriptions/acknowledged", `"notifications":{},`)
	eventually(t, "the first listen ends", func() bool {
		return strings.Contains(strings.Join(first.l.messages(), "\n"), `"requestId":`+string(first.msg.ID.Of(first.m.Body)))
	})
	say(second, "resources/updated", `"uri":"file:///b",`)
	say(second, "resources/updated", `"uri":"file:///a",`)
	if got := string(next(t, r).Data); !strings.Contains(got, "file:///a") {
		t.Errorf("the client got %s", got)
	}
	second.l.sink.Failed(second.m.Ref, Failure{Class: SentUnknown, Text: "the stream broke"})
	third := <-listens
	third.l.exit(Exit{Reason: Exited, Code: 1})
	fourth := <-listens
	// A listen that is taken back while it is being sent may end with its process, and nothing more is said.
	eventually(t, "the link has the listen", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.listen != nil && x.listen.hand.Load() == handOver
	})
	x.Close()
	eventually(t, "the last listen ends", func() bool {
		return strings.Contains(strings.Join(fourth.l.messages(), "\n"), `"requestId":`+string(fourth.msg.ID.Of(fourth.m.Body)))
	})
	if n := inFlight(s); n != 0 {
		t.Errorf("%d listens are left", n)
	}
}

// TestNativeListen: a listen of a modern client passes with its own id, and is opened again on the next process.
func TestNativeListen(t *testing.T) {
	p := modernPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if m.Method == "subscriptions/listen" {
			l.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(msg.ID.Of(m.Body)) + `}}}`)
		}
	})
	s := newRig(t, p, nil)
	st := modern(t, s, "9", "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`, "{}")
	r := st.Follow()
	if got := string(next(t, r).Data); !strings.Contains(got, "acknowledged") || !strings.Contains(got, `subscriptionId":9`) {
		t.Errorf("the client got %s", got)
	}
	p.newest().exit(Exit{Reason: Exited, Code: 1})
	if got := string(next(t, r).Data); !strings.Contains(got, "tools/list_changed") || !strings.Contains(got, `subscriptionId":9`) {
		t.Errorf("after the loss the client got %s", got)
	}
	st.Gone()
	eventually(t, "the listen ends", func() bool {
		return strings.Contains(strings.Join(p.newest().messages(), "\n"), "notifications/cancelled")
	})
}

// TestOwnClient: the gateway's own calls, through both kinds of backend, with the errors they make.
func TestOwnClient(t *testing.T) {
	for _, cell := range cells[2:4] {
		p := cell.peer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
			switch {
			case m.Kind != rpc.Request:
			case m.Method == "prompts/get":
				l.refuse(m, msg, -32602, "no such prompt")
			case m.Method == "tools/call":
				l.say(`{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{"message":"?"}}`)
				l.result(m, msg, `{"content":[]}`)
			default:
				l.result(m, msg, `{"resources":[]}`)
			}
		})
		g := newRig(t, p, nil).g
		if got, err := g.Call(t.Context(), Request{As: Caller{Principal: "owner", Local: true}, Server: "peer", Method: "resources/list"}); err != nil || !strings.Contains(string(got), `"resources":[]`) {
			t.Errorf("%s: got %s, %v", cell.name, got, err)
		}
		if _, err := g.Call(t.Context(), Request{As: Caller{Principal: "owner", Local: true}, Server: "peer", Method: "prompts/get", Params: []byte(`{"name":"x"}`)}); err == nil || !strings.Contains(err.Error(), "-32602") {
			t.Errorf("%s: got %v", cell.name, err)
		}
		if got, err := g.Call(t.Context(), Request{As: Caller{Principal: "owner", Local: true}, Server: "peer", Method: "tools/call", Params: []byte(`{"name":"x"}`)}); err != nil || !strings.Contains(string(got), "content") {
			t.Errorf("%s: got %s, %v", cell.name, got, err)
		}
		if _, err := g.Call(t.Context(), Request{As: Caller{Principal: "owner", Local: true}, Server: "nobody", Method: "tools/list"}); err == nil {
			t.Error("an unknown server answered")
		}
		if err := g.Restart("nobody"); err == nil {
			t.Error("an unknown server restarted")
		}
		if err := g.Restart("peer"); err != nil {
			t.Error(err)
		}
	}
}

// TestApply: changed limits apply to the running process; a changed process or a removed server ends it, and a queue
// of calls with it.
func TestApply(t *testing.T) {
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {})
	s := newRig(t, p, global)
	x := initialize(t, s, "2025-11-25", "{}")
	e := *s.def.Load()
	e.Limits.Call = time.Hour
	s.g.Apply([]catalog.Server{e})
	if again, ok := s.g.Route("peer"); !ok || again != s || s.limits().Call != time.Hour {
		t.Errorf("a new limit made a new server: %v", again != s)
	}
	call := send(t, x, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`)
	e.Lifecycle = catalog.Disabled
	s.g.Apply([]catalog.Server{e})
	if got, _ := reply(t, call); member(t, got, "error", "code") != float64(CodeSentUnknown) {
		t.Errorf("the call got %s", got)
	}
	if all := s.g.Status(); len(all) != 1 || all[0].State != Off || len(s.g.Names()) != 0 {
		t.Errorf("status is %+v", all)
	}
	if got, _ := reply(t, send(t, x, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a"}}`)); member(t, got, "error", "code") != float64(CodeUnavailable) {
		t.Errorf("a call to a disabled server got %s", got)
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	if err := s.g.Stop(ctx, false); err != nil {
		t.Error(err)
	}
	if got, _ := reply(t, send(t, x, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a"}}`)); member(t, got, "error", "code") != float64(CodeNotSent) {
		t.Errorf("a call after the end got %s", got)
	}
}
