package gateway

import (
	"context"
	"strings"
	"testing"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/rpc"
)

// modernMachine is a machine whose child speaks 2026-07-28.
func modernMachine(t *testing.T, edit func(*catalog.Server), rest func(c *child, m Outbound, msg rpc.Message)) *machine {
	return newMachine(t, both(func(e *catalog.Server) { e.Protocol = catalog.ProtocolModern }, edit), func(c *child, m Outbound, msg rpc.Message) {
		switch m.Method {
		case "server/discover":
			c.result(m, msg, discover)
		case "tools/list":
			c.result(m, msg, `{"resultType":"complete","tools":[]}`)
		default:
			rest(c, m, msg)
		}
	})
}

// TestModernCallsOverCrash: a crash breaks the streams of modern clients, and that is their cancellation: the server is
// told, a late answer reaches nobody, and nothing is kept.
func TestModernCallsOverCrash(t *testing.T) {
	for name, edit := range map[string]func(*catalog.Server){"native": nil, "native with integer ids": integers, "bridged": func(e *catalog.Server) { e.Protocol = catalog.ProtocolLegacy }} {
		t.Run(name, func(t *testing.T) {
			got := make(chan Outbound, 2)
			mc := modernMachine(t, edit, func(_ *child, m Outbound, _ rpc.Message) {
				if m.Method == "tools/call" || m.Method == "subscriptions/listen" {
					got <- m
				}
			})
			modern(t, mc.s, "7", "tools/call", `{"name":"running"}`, allCaps)
			first := <-got
			modern(t, mc.s, "8", "tools/call", `{"name":"answered"}`, allCaps)
			second := <-got
			if edit == nil {
				modern(t, mc.s, "9", "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`, allCaps)
				<-got
			}
			mc.kill()
			c := mc.k.newest()
			c.result(second, scan(t, second.Body), `{}`)
			mc.start()
			up := `"requestId":` + string(scan(t, first.Body).ID.Of(first.Body))
			eventually(t, "the server knows", func() bool { return c.count(up) == 1 })
			mc.k.empty()
			if n, want := c.count("notifications/cancelled"), map[bool]int{true: 2, false: 1}[edit == nil]; n != want {
				t.Errorf("%d calls were cancelled, want %d: %s", n, want, c.messages())
			}
			st := modern(t, mc.s, "7", "tools/call", `{"name":"again"}`, allCaps)
			again := <-got
			c.result(first, scan(t, first.Body), `{"of":"first"}`)
			c.result(again, scan(t, again.Body), `{"of":"again"}`)
			if answer, _ := reply(t, st.Follow()); !strings.Contains(answer, `"of":"again"`) || member(t, answer, "id") != 7.0 {
				t.Errorf("the call that the client sent again got %s", answer)
			}
			if _, ok := mc.s.Rejoin(t.Context(), scan(t, first.Body).ID.Of(first.Body)); ok {
				t.Error("a cancelled call was joined")
			}
			if len(mc.k.all()) != 1 {
				t.Errorf("%d processes", len(mc.k.all()))
			}
		})
	}
}

// TestRejoin: at a planned restart the old daemon joins the requests of its modern clients again, running or answered; what
// is not joined in time is cancelled.
func TestRejoin(t *testing.T) {
	for name, edit := range map[string]func(*catalog.Server){"native": nil, "native with integer ids": integers, "bridged": func(e *catalog.Server) { e.Protocol = catalog.ProtocolLegacy }} {
		t.Run(name, func(t *testing.T) {
			got := make(chan Outbound, 3)
			mc := modernMachine(t, edit, func(_ *child, m Outbound, _ rpc.Message) {
				if m.Method == "tools/call" {
					got <- m
				}
			})
			var sent []Outbound
			for _, id := range []string{"7", `"answered"`, `"left"`} {
				modern(t, mc.s, id, "tools/call", `{"name":"a"}`, allCaps)
				sent = append(sent, <-got)
			}
			wire := func(n int) []byte { return scan(t, sent[n].Body).ID.Of(sent[n].Body) }
			mc.kill()
			c := mc.k.newest()
			c.result(sent[1], scan(t, sent[1].Body), `{"n":1}`)
			mc.cfg = func(cfg *Config) { cfg.Rejoin = 500 * time.Millisecond }
			mc.start()
			for n, id := range []string{"7", `"answered"`} {
				st, ok := mc.s.Rejoin(t.Context(), wire(n))
				if !ok {
					t.Fatalf("%s is not known", id)
				}
				if _, twice := mc.s.Rejoin(t.Context(), wire(n)); twice {
					t.Errorf("%s was joined twice", id)
				}
				if n == 0 {
					c.result(sent[0], scan(t, sent[0].Body), `{"n":0}`)
				}
				r := st.Follow()
				answer, _ := reply(t, r)
				r.Delivered()
				if !strings.Contains(answer, `"n":`) || !strings.Contains(answer, `"id":`+id+`,`) {
					t.Errorf("%s got %s", id, answer)
				}
			}
			eventually(t, "the one that was left is cancelled", func() bool { return c.count(`"requestId":`+string(wire(2))) == 1 })
			if n := c.count("notifications/cancelled"); n != 1 {
				t.Errorf("%d calls were cancelled", n)
			}
			mc.k.empty()
		})
	}
}

// TestParkedOverCrash: a call of a modern client that waits for its client's answer is still there at the next daemon,
// with its question under the same key.
func TestParkedOverCrash(t *testing.T) {
	mc := newMachine(t, nil, func(c *child, m Outbound, msg rpc.Message) {
		switch {
		case m.Method == "tools/call":
			c.say(`{"jsonrpc":"2.0","id":4,"method":"roots/list"}`)
		case m.Kind == rpc.Result && string(msg.ID.Of(m.Body)) == "4":
			c.say(`{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{"message":"name?"}}`)
		case m.Kind == rpc.Result && string(msg.ID.Of(m.Body)) == "5":
			for _, one := range c.messages() {
				if sent := mustScan([]byte(one)); sent.MethodOf([]byte(one)) == "tools/call" {
					c.say(string(rpc.ResultResponse(sent.ID.Of([]byte(one)), msg.Result.Of(m.Body))))
				}
			}
		}
	})
	first, _ := reply(t, modern(t, mc.s, "1", "tools/call", `{"name":"a"}`, allCaps).Follow())
	state := member(t, first, "result", "requestState").(string)
	retry := func(id, answers string) string {
		got, _ := reply(t, modern(t, mc.s, id, "tools/call", `{"name":"a","requestState":"`+state+`","inputResponses":{`+answers+`}}`, allCaps).Follow())
		return got
	}
	second := retry("2", `"r1":{"roots":[]}`)
	if asked, ok := member(t, second, "result", "inputRequests").(map[string]any); !ok || len(asked) != 1 || asked["r2"] == nil {
		t.Fatalf("the second round is %s", second)
	}
	state = member(t, second, "result", "requestState").(string)
	mc.crash()
	if n := mc.k.newest().count("notifications/cancelled"); n != 0 {
		t.Errorf("%d calls were cancelled", n)
	}
	got := retry("3", `"r2":{"action":"accept"}`)
	if !strings.Contains(got, `"action":"accept"`) || member(t, got, "id") != 3.0 {
		t.Errorf("the retry got %s", got)
	}
	if len(mc.k.all()) != 1 {
		t.Errorf("%d processes", len(mc.k.all()))
	}
}

// TestBridgedSessionOverCrash: cell L-M. The calls of the session go on, its subscriptions are opened again, and a call that
// the server turns into a question ends with a class.
func TestBridgedSessionOverCrash(t *testing.T) {
	got := make(chan Outbound, 2)
	mc := modernMachine(t, nil, func(_ *child, m Outbound, _ rpc.Message) {
		if m.Method == "tools/call" {
			got <- m
		}
	})
	x := initialize(t, mc.s, "2025-06-18", allCaps)
	c := mc.k.newest()
	eventually(t, "it listens", func() bool { return c.count("subscriptions/listen") == 1 })
	send(t, x, callBody("7"))
	first := <-got
	send(t, x, callBody("8"))
	second := <-got
	mc.crash()
	y := mc.again(x)
	eventually(t, "it listens again", func() bool { return c.count("subscriptions/listen") == 2 })
	r7, r8 := resume(t, y, "7", 7), resume(t, y, "8", 7)
	c.result(first, scan(t, first.Body), `{"resultType":"complete","content":[]}`)
	c.result(second, scan(t, second.Body), `{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"s"}`)
	if answer, _ := reply(t, r7); !strings.Contains(answer, `"content":[]`) || strings.Contains(answer, "resultType") {
		t.Errorf("the call got %s", answer)
	}
	if answer, _ := reply(t, r8); member(t, answer, "error", "code") != float64(CodeAnsweredLost) {
		t.Errorf("the call that asks got %s", answer)
	}
	if c.count("server/discover") != 1 || len(mc.k.all()) != 1 {
		t.Errorf("%d processes, which saw %s", len(mc.k.all()), c.messages())
	}
}

// remote is an HTTP backend: its links end with the daemon, its sessions do not.
type remote struct {
	*peer
	sessions chan Open
}

func (r *remote) Open(ctx context.Context, o Open, sink Sink) (Link, error) {
	l, err := r.peer.Open(ctx, o, sink)
	r.sessions <- o
	return remoteLink{l}, err
}

type remoteLink struct{ Link }

func (remoteLink) Info() LinkInfo { return LinkInfo{URL: "http://h/", Session: "up1"} }

// TestUpstreamOverCrash: the session of an HTTP backend is gone on with, without a handshake; one that the backend has
// forgotten is replaced, and the call that found out goes to the new one.
func TestUpstreamOverCrash(t *testing.T) {
	for name, edit := range map[string]func(*catalog.Server){"exclusive": nil, "shared": global} {
		t.Run(name, func(t *testing.T) {
			forgets := false
			r := &remote{sessions: make(chan Open, 4)}
			r.peer = legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
				switch {
				case m.Kind != rpc.Request:
				case forgets && l.n == 3:
					l.sink.Failed(m.Ref, Failure{Class: NotSent, Gone: true})
					l.exit(Exit{Reason: SessionGone})
				default:
					l.result(m, msg, `{"content":[]}`)
				}
			})
			mc := newMachine(t, both(func(e *catalog.Server) { e.Stdio, e.HTTP = nil, &catalog.HTTP{URL: "http://h/"} }, edit), nil)
			mc.stop(true)
			mc.cfg = func(cfg *Config) { cfg.HTTP = r }
			mc.start()
			x := initialize(t, mc.s, "2025-11-25", "{}")
			if o := <-r.sessions; o.Session != "" {
				t.Errorf("the first link was opened with session %q", o.Session)
			}
			for n, want := range []string{"up1", ""} {
				forgets = n == 1
				mc.stop(false)
				mc.start()
				if answer, _ := reply(t, send(t, mc.again(x), callBody("7"))); !strings.Contains(answer, "content") {
					t.Errorf("the call got %s", answer)
				}
				if o := <-r.sessions; o.Session != "up1" || o.Version != "2025-11-25" {
					t.Errorf("the link was opened with session %q, version %q", o.Session, o.Version)
				}
				if !forgets {
					if all := strings.Join(r.opened()[1].messages(), "\n"); strings.Contains(all, "initialize") {
						t.Errorf("the upstream session was sent %s", all)
					}
					continue
				}
				if o := <-r.sessions; o.Session != want {
					t.Errorf("the link after that was opened with session %q", o.Session)
				}
			}
		})
	}
}
