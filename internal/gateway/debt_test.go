package gateway

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpx/internal/rpc"
)

// TestDone: what a supervisor keeps is given up exactly once for every call, however it ended. The keeper reports a second
// Done, and two entries with one id.
func TestDone(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			mc := newMachine(t, both(kind.edit, busy), func(c *child, m Outbound, msg rpc.Message) {
				if name, _ := rpc.Unquote(msg.Name.Of(m.Body)); m.Kind == rpc.Request && name != "never" {
					c.result(m, msg, `{}`)
				}
			})
			const sessions, calls = 20, 30
			var all sync.WaitGroup
			for range sessions {
				x := initialize(t, mc.s, "2025-11-25", "{}")
				all.Go(func() {
					for i := range calls {
						name := []string{"read", "read", "unread", "never", "resumable"}[i%5]
						id := strconv.Itoa(i % 7) // used again and again
						body := []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `"}}`)
						st := x.Request(body, scan(t, body))
						switch name {
						case "read":
							reply(t, st.Follow())
							st.Delivered()
							st.Delivered()
						case "unread":
							reply(t, st.Follow())
							x.Promote(st, []byte(id))
						case "resumable":
							x.Promote(st, []byte(id))
							reply(t, st.Follow())
							st.Delivered()
						case "never":
							cancel := []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
							x.Notify(cancel, scan(t, cancel))
						}
					}
				})
			}
			all.Wait()
			mc.s.sweep(time.Now().Add(replayFor + time.Minute)) // nobody resumes
			mc.k.empty()
		})
	}
}

// TestDeliveredJustNow: what was written to a client last may not have reached it when the daemon goes, in order or not. The
// next one has it still.
func TestDeliveredJustNow(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, mc *machine){
		"killed": func(_ *testing.T, mc *machine) { mc.kill() },
		"handed over": func(t *testing.T, mc *machine) {
			if err := mc.g.HandOver(t.Context()); err != nil {
				t.Fatal(err)
			}
			mc.kill()
		},
	} {
		t.Run(name, func(t *testing.T) {
			big := `{"pad":"` + strings.Repeat("x", maxPaidBytes/3) + `"}`
			mc := newMachine(t, busy, func(c *child, m Outbound, msg rpc.Message) {
				if m.Kind == rpc.Request {
					c.result(m, msg, big)
				}
			})
			x := initialize(t, mc.s, "2025-11-25", "{}")
			const calls = 5 // more than are kept
			for i := range calls {
				body := []byte(callBody(strconv.Itoa(i)))
				st := x.Request(body, scan(t, body))
				reply(t, st.Follow())
				st.Delivered()
			}
			end(t, mc)
			mc.start()
			y := mc.again(x)
			if answer, _ := reply(t, resume(t, y, strconv.Itoa(calls-1), 7)); member(t, answer, "result") == nil {
				t.Errorf("the answer that was written last is now %.200s", answer)
			}
			if answer, _ := reply(t, resume(t, y, "0", 7)); member(t, answer, "error", "code") != float64(CodeAnsweredLost) {
				t.Errorf("the answer that was written first is still kept: %.200s", answer)
			}
		})
	}
}

// TestManyAnswersAdopted: answers that an earlier daemon got are no work of the backend: they refuse no call.
func TestManyAnswersAdopted(t *testing.T) {
	mc := newMachine(t, busy, answering)
	x := initialize(t, mc.s, "2025-11-25", "{}")
	for i := range maxInFlight {
		reply(t, send(t, x, callBody(strconv.Itoa(i))))
	}
	mc.kill()
	mc.k.frames = make(chan struct{})
	mc.start()
	y := mc.again(x)
	eventually(t, "the child is adopted", func() bool { return y.slot.usable() != nil })
	r := send(t, y, callBody(`"new"`))
	close(mc.k.frames)
	if answer, _ := reply(t, r); member(t, answer, "result") == nil {
		t.Errorf("a new call got %s", answer)
	}
	eventually(t, "the answers have arrived", func() bool { return inFlight(mc.s) == 0 })
	l := y.slot.usable()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.arriving != 0 {
		t.Errorf("%d answers are still on their way", l.arriving)
	}
}

// TestManySessionsOverCrash: a hundred sessions, each with a call in flight and one whose answer was not delivered.
func TestManySessionsOverCrash(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			var mu sync.Mutex
			held := map[string][]func(){}
			mc := newMachine(t, both(kind.edit, busy), func(c *child, m Outbound, msg rpc.Message) {
				name, _ := rpc.Unquote(msg.Name.Of(m.Body))
				if m.Kind != rpc.Request {
					return
				}
				answer := func() { c.result(m, msg, `{"of":`+strconv.Quote(name)+`}`) }
				mu.Lock()
				held[name] = append(held[name], answer)
				mu.Unlock()
			})
			const n = 100
			var sessions []*Session
			for i := range n {
				x := initialize(t, mc.s, "2025-11-25", "{}")
				sessions = append(sessions, x)
				for _, id := range []string{"1", "2"} {
					send(t, x, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"s`+strconv.Itoa(i)+`-`+id+`"}}`)
				}
			}
			eventually(t, "all calls are there", func() bool { mu.Lock(); defer mu.Unlock(); return len(held) == 2*n })
			release := func(id string) {
				mu.Lock()
				defer mu.Unlock()
				for i := range n {
					for _, f := range held["s"+strconv.Itoa(i)+"-"+id] {
						f()
					}
				}
			}
			release("1") // answered, not delivered
			mc.crash()
			var all sync.WaitGroup
			for i, x := range sessions {
				all.Go(func() {
					y := mc.again(x)
					for _, id := range []string{"1", "2"} {
						want := `"of":"s` + strconv.Itoa(i) + `-` + id + `"`
						if answer, _ := reply(t, resume(t, y, id, 7)); !strings.Contains(answer, want) {
							t.Errorf("session %d got %s, want %s", i, answer, want)
						}
					}
				})
			}
			eventually(t, "the children are back", func() bool { return inFlight(mc.s) == n })
			release("2")
			all.Wait()
			mc.s.sweep(time.Now().Add(replayFor + time.Minute))
			mc.k.empty()
		})
	}
}

// TestCancelWhileSending: a cancellation that meets its call on the way to the link follows it, once, or keeps it from
// being sent.
func TestCancelWhileSending(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			mc := newMachine(t, kind.edit, func(*child, Outbound, rpc.Message) {})
			x := initialize(t, mc.s, "2025-11-25", "{}")
			cancel := []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
			for range 150 {
				over := make(chan struct{})
				var canceller sync.WaitGroup
				canceller.Go(func() {
					for {
						select {
						case <-over:
							return
						default:
							x.Notify(cancel, mustScan(cancel))
						}
					}
				})
				r := send(t, x, callBody("7"))
				for state := ReadWait; state == ReadWait; _, state = r.Next() {
					select {
					case <-r.Wake():
					case <-time.After(10 * time.Second):
						t.Fatal("the call was not cancelled")
					}
				}
				close(over)
				canceller.Wait()
			}
			mc.k.empty()
			c := mc.k.newest()
			eventually(t, "every call that was sent is cancelled once", func() bool { return c.count("tools/call") == c.count("notifications/cancelled") })
			t.Logf("%d of 150 calls were sent", c.count("tools/call"))
		})
	}
}
