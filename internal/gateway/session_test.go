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

// TestResume: what an event id of a session opens, and what it does not.
func TestResume(t *testing.T) {
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if m.Method == "tools/call" {
			l.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
			l.result(m, msg, `{"content":[]}`)
		}
	})
	s := newRig(t, p, nil)
	x, other := initialize(t, s, "2025-11-25", "{}"), initialize(t, s, "2025-11-25", "{}")
	for _, id := range []string{"7", `"` + strings.Repeat("long", 50) + `"`} {
		body := []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"a"}}`)
		st := x.Request(body, scan(t, body))
		x.Promote(st, []byte(id))
		reply(t, st.Follow())
		_, r, bad := x.Resume(t.Context(), EventID(st.ID, x.Epoch(), 1), false)
		if bad != nil {
			t.Fatalf("a resume after the first event got %v", bad)
		}
		if got, before := reply(t, r); len(before) != 0 || !strings.Contains(got, "content") {
			t.Errorf("resumed with %s and %s", before, got)
		}
		if _, _, bad := other.Resume(t.Context(), EventID(st.ID, x.Epoch(), 0), false); bad == nil || bad.Status != 400 {
			t.Errorf("another session's event id got %v", bad)
		}
	}
	for _, id := range []string{"", "g", "g.7", "g.7.x", "g.x.0", "g.7.99", "g.7.-1", "r.7.0", "h1.7.0", "g.7.0.0.0", "g.8.0", "g.0.1", strings.Repeat(".", 9)} {
		if _, _, bad := x.Resume(t.Context(), id, false); bad == nil || bad.Status != 400 {
			t.Errorf("%q got %v, want 400", id, bad)
		}
	}
	st, r, bad := x.Resume(t.Context(), "g.7.0", false)
	if bad != nil || st != x.get {
		t.Fatalf("the standalone stream got %v", bad)
	}
	takeover := x.Standalone()
	if _, state := r.Next(); state != ReadEnd {
		t.Errorf("a reader that was taken over got %d", state)
	}
	takeover.Stop()
	x.sweepStreams(time.Now().Add(replayFor + time.Minute))
	if len(x.streams) != 0 {
		t.Errorf("%d streams are kept after their time", len(x.streams))
	}
}

// TestReplayBound: what a session keeps for a resume is bounded in number and in bytes; the last one stays.
func TestReplayBound(t *testing.T) {
	s := newRig(t, legacyPeer(t, func(*peerLink, Outbound, rpc.Message) {}), nil)
	x := initialize(t, s, "2025-11-25", "{}")
	var last string
	for i := range 3 * maxReplays {
		st := newStream("", true)
		st.finish([]byte(strings.Repeat("x", 200<<10)), 200)
		x.Promote(st, fmt.Append(nil, i))
		last = st.ID
	}
	total := 0
	for _, st := range x.streams {
		total += st.size()
	}
	if total > maxReplayBytes || len(x.streams) > maxReplays || x.streams[last] == nil {
		t.Errorf("%d streams with %d bytes are kept, the last: %v", len(x.streams), total, x.streams[last] != nil)
	}
}

// TestSessions: whose session an id is, what ends it, and who makes room when there are too many.
func TestSessions(t *testing.T) {
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {})
	s := newRig(t, p, global)
	x := initialize(t, s, "2025-11-25", "{}")
	for id, want := range map[string]int{"": 400, "nonsense": 404} {
		if _, bad := s.Session(id, owner1); bad == nil || bad.Status != want || len(bad.Body(nil)) == 0 {
			t.Errorf("session %q got %v, want %d", id, bad, want)
		}
	}
	if _, bad := s.Session(x.ID, Caller{Principal: "thief"}); bad == nil || bad.Status != 403 {
		t.Errorf("another principal got %v", bad)
	}
	busy := send(t, x, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"never"}}`)
	twice, _ := reply(t, send(t, x, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"never"}}`))
	if member(t, twice, "error", "code") != -32600.0 {
		t.Errorf("the same id twice got %s", twice)
	}
	for range maxSessions {
		initialize(t, s, "2025-11-25", "{}")
	}
	if n := s.sessionCount(); n != maxSessions {
		t.Errorf("%d sessions, want %d", n, maxSessions)
	}
	if _, bad := s.Session(x.ID, owner1); bad != nil {
		t.Errorf("the session with a call in flight made room: %v", bad)
	}
	x.Close()
	x.Close()
	if got, _ := reply(t, busy); member(t, got, "error", "code") != float64(CodeSentUnknown) {
		t.Errorf("the call of a deleted session got %s", got)
	}
	s.sweep(time.Now().Add(sessionTTL + time.Minute))
	if n := s.sessionCount(); n != 0 {
		t.Errorf("%d sessions are left after their time", n)
	}
	eventually(t, "the idle process ends", func() bool {
		s.sweep(time.Now().Add(24 * time.Hour))
		return len(s.status().Lanes) == 0
	})
	if c := s.g.Counters(); c.Sessions != 0 || c.Requests == 0 {
		t.Errorf("counters are %+v", c)
	}
}

// TestSessionsOfOthers: one session can neither answer the question nor cancel the call of another with the same ids.
func TestSessionsOfOthers(t *testing.T) {
	asked := make(chan func(), 2)
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if m.Method == "tools/call" {
			asked <- func() { l.result(m, msg, `{"content":[]}`) }
			l.say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		}
	})
	s := newRig(t, p, global)
	a, b := initialize(t, s, "2025-11-25", allCaps), initialize(t, s, "2025-11-25", allCaps)
	r := send(t, a, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
	question := next(t, r).Data
	answer := []byte(`{"jsonrpc":"2.0","id":` + string(scan(t, question).ID.Of(question)) + `,"result":{"roots":[]}}`)
	cancel := []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	b.Respond(answer, scan(t, answer))
	b.Notify(cancel, scan(t, cancel))
	link := p.newest()
	a.Respond(answer, scan(t, answer))
	a.Respond(answer, scan(t, answer)) // twice
	eventually(t, "the server has its answer", func() bool { return strings.Contains(strings.Join(link.messages(), "\n"), `"roots":[]`) })
	if all := strings.Join(link.messages(), "\n"); strings.Count(all, `"roots":[]`) != 1 || strings.Contains(all, "cancelled") {
		t.Errorf("the server got %s", all)
	}
	(<-asked)()
	if got, _ := reply(t, r); !strings.Contains(got, "content") {
		t.Errorf("the call got %s", got)
	}
	again := send(t, a, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
	next(t, again)
	a.Notify(cancel, scan(t, cancel))
	eventually(t, "the server is told", func() bool { return strings.Contains(strings.Join(link.messages(), "\n"), "notifications/cancelled") })
	if _, state := again.Next(); state != ReadEnd {
		t.Errorf("the stream of a cancelled call is in state %d", state)
	}
	if n := inFlight(s); n != 0 {
		t.Errorf("%d calls are left", n)
	}
}

// TestLogLevels: each session of a shared server hears from the level it set, and the server is told the lowest.
func TestLogLevels(t *testing.T) {
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if m.Kind == rpc.Request {
			l.result(m, msg, `{}`)
		}
	})
	s := newRig(t, p, global)
	a, b := initialize(t, s, "2025-11-25", "{}"), initialize(t, s, "2025-11-25", "{}")
	level := func(x *Session, name string) string {
		got, _ := reply(t, send(t, x, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"`+name+`"}}`))
		return got
	}
	level(a, "error")
	level(b, "info")
	if got := level(a, "loud"); member(t, got, "error", "code") != -32602.0 {
		t.Errorf("an unknown level got %s", got)
	}
	if got, _ := reply(t, send(t, a, `{"jsonrpc":"2.0","id":"p","method":"ping"}`)); got != `{"jsonrpc":"2.0","id":"p","result":{}}` {
		t.Errorf("ping got %s", got)
	}
	link := p.newest()
	eventually(t, "the server knows the lowest level", func() bool {
		all := link.messages()
		return strings.Contains(all[len(all)-1], `"level":"info"`)
	})
	ra, rb := a.Standalone(), b.Standalone()
	for _, l := range []string{"debug", "info", "error"} {
		link.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + l + `","data":1}}`)
	}
	for name, got := range map[string]string{"info": string(next(t, rb).Data), "error": string(next(t, ra).Data)} {
		if !strings.Contains(got, `"`+name+`"`) {
			t.Errorf("got %s, want level %s", got, name)
		}
	}
	link.exit(Exit{Reason: Exited, Code: 1})
	level(a, "error") // the next process is told again
	eventually(t, "the next process knows", func() bool {
		reply(t, send(t, a, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`))
		return strings.Contains(strings.Join(p.newest().messages(), "\n"), `"level":"info"`)
	})
}

// TestStorm: sessions come and go, call, cancel, subscribe and are restarted at once; everything ends, and nothing is
// left. Its value is in the race detector.
func TestStorm(t *testing.T) {
	for _, cell := range cells {
		t.Run(cell.name, func(t *testing.T) {
			t.Parallel()
			p := cell.peer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
				if m.Kind != rpc.Request {
					return
				}
				if m.Method == "tools/call" {
					l.say(`{"jsonrpc":"2.0","id":` + fmt.Sprint(m.Ref) + `,"method":"elicitation/create","params":{"message":"?"}}`)
					l.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
					l.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
				l.result(m, msg, `{"content":[]}`)
			})
			s := newRig(t, p, func(e *catalog.Server) {
				if cell.edit != nil {
					cell.edit(e)
				}
				e.Limits.Call = 2 * time.Second
			})
			var all sync.WaitGroup
			for i := range 6 {
				all.Go(func() {
					for n := range 8 {
						id := fmt.Sprint(n)
						if cell.modern {
							st := modern(t, s, id, "tools/call", `{"name":"a"}`, allCaps)
							if n%3 == 0 {
								st.Gone()
								continue
							}
							drain(t, st.Follow())
							continue
						}
						ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
						body := []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + allCaps + `,"clientInfo":{"name":"c","version":"1"}}}`)
						x, _ := s.Initialize(ctx, body, scan(t, body), owner1)
						stop()
						if x == nil {
							continue // restarted meanwhile
						}
						sub := []byte(`{"jsonrpc":"2.0","id":5,"method":"resources/subscribe","params":{"uri":"u"}}`)
						x.Request(sub, scan(t, sub))
						note := []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
						x.Notify(note, scan(t, note))
						r := send(t, x, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}`)
						switch n % 4 {
						case 0:
							cancel := []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
							x.Notify(cancel, scan(t, cancel))
						case 1:
							x.Close()
						case 2:
							if i == 0 {
								s.restart()
							}
						}
						drain(t, r)
						x.Close()
					}
				})
			}
			all.Wait()
			eventually(t, "nothing is in flight", func() bool { return cell.modern || inFlight(s) == 0 })
			if n := s.sessionCount(); n != 0 {
				t.Errorf("%d sessions are left", n)
			}
		})
	}
}

// drain reads a stream to its end, whatever comes.
func drain(t *testing.T, r *Reader) {
	deadline := time.After(20 * time.Second)
	for {
		e, state := r.Next()
		switch {
		case state == ReadEvent && e.Final, state == ReadEnd, state == ReadMissed:
			return
		case state == ReadWait:
			select {
			case <-r.Wake():
			case <-deadline:
				t.Error("a stream did not end in 20 s")
				return
			}
		}
	}
}
