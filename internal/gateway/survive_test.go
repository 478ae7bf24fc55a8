package gateway

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// toolCalls gives the requests of tools to the test and answers everything else.
func toolCalls(got chan<- Outbound) func(c *child, m Outbound, msg rpc.Message) {
	return func(c *child, m Outbound, msg rpc.Message) {
		switch {
		case m.Method == "tools/call":
			got <- m
		case m.Kind == rpc.Request:
			c.result(m, msg, `{}`)
		}
	}
}

func integers(e *catalog.Server) { e.IDStyle = "int" }

func both(edits ...func(*catalog.Server)) func(*catalog.Server) {
	return func(e *catalog.Server) {
		for _, f := range edits {
			if f != nil {
				f(e)
			}
		}
	}
}

// busy keeps lanes that would be idle.
func busy(e *catalog.Server) { e.Limits.Idle = -1 }

// kinds are the lanes of legacy sessions.
var kinds = []struct {
	name string
	edit func(*catalog.Server)
}{
	{"exclusive", nil},
	{"shared", global},
	{"shared with integer ids", both(global, integers)},
}

// oddIDs are ids that travel in different ways.
var oddIDs = []string{"7", `"a"`, `"0b6c4f3e-8f5e-4a59-9d0c-2f6f0a1c7d21"`, "9007199254740993", `"mx1.7.l.-.-.i1"`, `"q\u0062"`}

// TestCallsOverCrash is the table of supervisor.md section 10 for legacy clients, each row on each kind of lane and with
// ids that travel in different ways.
func TestCallsOverCrash(t *testing.T) {
	rows := []struct {
		name  string
		crash func(mc *machine, m Outbound) // what happens between the request and the next daemon; m is zero when nothing is sent
		sent  bool
		after func(mc *machine, m Outbound) // at the next daemon
		want  string
	}{
		{"no entry, the journal is complete", func(*machine, Outbound) {}, false, nil, "-31901"},
		{"no entry, the journal is not complete", func(mc *machine, _ Outbound) { mc.k.newest().blind = true }, false, nil, "-31902"},
		{"an entry without answer", func(*machine, Outbound) {}, true, func(mc *machine, m Outbound) {
			mc.k.newest().result(m, scan(mc.t, m.Body), `{"content":["after"]}`)
		}, `"after"`},
		{"answered while no daemon was there", func(mc *machine, m Outbound) {
			mc.k.newest().result(m, scan(mc.t, m.Body), `{"content":["meanwhile"]}`)
		}, true, nil, `"meanwhile"`},
		{"answered, the answer could not be kept", func(mc *machine, _ Outbound) { mc.k.newest().last().state = CallLost }, true, nil, "-31903"},
		{"answered and done", func(mc *machine, _ Outbound) {
			e := mc.k.newest().last()
			e.state, e.done = CallAnswered, true
		}, true, nil, "-31903"},
		{"the child exited, the call was sent", func(mc *machine, _ Outbound) { mc.perish() }, true, nil, "-31902"},
		{"the child exited, the call was answered", func(mc *machine, _ Outbound) {
			mc.k.newest().last().state = CallAnswered
			mc.perish()
		}, true, nil, "-31903"},
		{"the child exited, the call is in no list", func(mc *machine, _ Outbound) { mc.perish() }, false, nil, "-31901"},
		{"the child exited, the call is in no list, which is not complete", func(mc *machine, _ Outbound) {
			mc.k.newest().blind = true
			mc.perish()
		}, false, nil, "-31902"},
		{"nobody knows what became of the child", func(mc *machine, _ Outbound) { mc.k.newest().die(Exit{}) }, true, nil, "-31902"},
	}
	for _, kind := range kinds {
		for _, row := range rows {
			t.Run(kind.name+"/"+row.name, func(t *testing.T) {
				for _, id := range oddIDs {
					got := make(chan Outbound, 1)
					mc := newMachine(t, kind.edit, toolCalls(got))
					x := initialize(t, mc.s, "2025-11-25", "{}")
					reply(t, send(t, x, `{"jsonrpc":"2.0","id":"first","method":"prompts/list"}`))
					var m Outbound
					if row.sent {
						send(t, x, callBody(id))
						m = <-got
					}
					mc.kill()
					row.crash(mc, m)
					mc.start()
					r := rejoinRaw(t, mc.again(x), id, 7)
					if row.after != nil {
						row.after(mc, m)
					}
					answer, _ := reply(t, r)
					if !strings.Contains(answer, row.want) || !strings.Contains(answer, `"id":`+id+`,`) {
						t.Errorf("id %s got %s, want %s", id, answer, row.want)
					}
					named := strings.Contains(answer, `"method":"tools/call"`)
					if strings.Contains(answer, `"method":""`) || row.want == "-31903" && !named || !row.sent && named {
						t.Errorf("id %s got %s; the method is to be there when it is known", id, answer)
					}
					if again, _ := reply(t, rejoinRaw(t, mc.again(x), id, 0)); again != answer {
						t.Errorf("asked again, id %s got %s", id, again)
					}
					mc.stop(true)
					mc.g = nil
				}
			})
		}
	}
}

// rejoinRaw asks for the outcome of a request as mcpx connect does: with its raw id.
func rejoinRaw(t *testing.T, x *Session, id string, epoch uint64) *Reader {
	t.Helper()
	return resumeNamed(t, x, "r"+b64(id), epoch)
}

// last is the youngest entry of the journal.
func (c *child) last() *entry { return c.entries[len(c.entries)-1] }

// perish is the end of the child while nobody is attached, as the next daemon finds it.
func (mc *machine) perish() {
	c := mc.k.newest()
	exit := Exit{Reason: Exited, Code: 3, Tail: []byte("out of luck\n")}
	mc.k.lost = append(mc.k.lost, c.mourned(exit))
	c.die(exit)
}

// TestCutOffBeforeDecided: who is cut off while it is not known yet what outlived the daemon (the process of the daemon before
// passed its request on, and was killed) leaves no outcome behind for the next one who asks.
func TestCutOffBeforeDecided(t *testing.T) {
	mc := newMachine(t, nil, toolCalls(make(chan Outbound, 1)))
	x := initialize(t, mc.s, "2025-11-25", "{}")
	mc.kill()
	mc.k.adopting = make(chan struct{})
	mc.start()
	y := mc.again(x)
	cut, stop := context.WithCancel(t.Context())
	stop()
	if _, _, bad := y.Resume(cut, EventID(era.StreamName([]byte("7")), 0, 0), false); bad == nil || bad.Status != 503 {
		t.Errorf("the one that was cut off got %v", bad)
	}
	close(mc.k.adopting)
	if answer, _ := reply(t, resume(t, y, "7", 0)); member(t, answer, "error", "code") != float64(CodeNotSent) || member(t, answer, "error", "data", "mcpx", "cause") != "daemon_restart" {
		t.Errorf("the next one got %s", answer)
	}
}

// TestDirectAndRemoteOverCrash: without a supervisor nobody knows, and the answer says why.
func TestDirectAndRemoteOverCrash(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*catalog.Server)
		want string
	}{
		"direct": {func(e *catalog.Server) { e.Direct = true }, "without a supervisor"},
		"remote": {func(e *catalog.Server) { e.Stdio, e.HTTP = nil, &catalog.HTTP{URL: "http://127.0.0.1/"} }, "remote server"},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan Outbound, 1)
			mc := newMachine(t, c.edit, toolCalls(got))
			x := initialize(t, mc.s, "2025-11-25", "{}")
			send(t, x, callBody("7"))
			<-got
			mc.kill()
			mc.k.newest().die(Exit{})
			mc.start()
			y := mc.again(x)
			if name == "direct" {
				if told, _ := reply(t, send(t, y, callBody("6"))); member(t, told, "error", "code") != float64(CodeNotSent) || !strings.Contains(told, c.want) {
					t.Errorf("the session was told %s", told)
				}
			}
			answer, _ := reply(t, resume(t, y, "7", 7))
			if member(t, answer, "error", "code") != float64(CodeSentUnknown) || !strings.Contains(answer, c.want) {
				t.Errorf("the call got %s", answer)
			}
			if next, _ := reply(t, send(t, y, `{"jsonrpc":"2.0","id":8,"method":"prompts/list"}`)); !strings.Contains(next, "result") {
				t.Errorf("the next call of the session got %s", next)
			}
		})
	}
}

// TestStatefulDirectOverCrash: a session that cannot be restored ends and says why.
func TestStatefulDirectOverCrash(t *testing.T) {
	mc := newMachine(t, func(e *catalog.Server) { e.Direct, e.Stateful = true, true }, toolCalls(make(chan Outbound, 1)))
	x := initialize(t, mc.s, "2025-11-25", "{}")
	mc.kill()
	mc.k.newest().die(Exit{})
	mc.start()
	answer, _ := reply(t, send(t, mc.again(x), callBody("8")))
	if !strings.Contains(answer, "without a supervisor") || !strings.Contains(answer, "initialize again") {
		t.Errorf("the next call got %s", answer)
	}
	eventually(t, "the session is forgotten", func() bool { return mc.store.count() == 0 })
}

// TestResumeOfStandalone: the stream of the session goes on from the beginning of the new daemon's.
func TestResumeOfStandalone(t *testing.T) {
	mc := newMachine(t, nil, toolCalls(make(chan Outbound, 1)))
	x := initialize(t, mc.s, "2025-11-25", "{}")
	mc.kill()
	c := mc.k.newest()
	c.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	mc.start()
	_, r, bad := mc.again(x).Resume(t.Context(), "g.7.99", false)
	if bad != nil {
		t.Fatal(bad)
	}
	if e := next(t, r); !strings.Contains(string(e.Data), "list_changed") || e.Seq != 1 {
		t.Errorf("the first message is %d %s", e.Seq, e.Data)
	}
	for _, id := range []string{"g.9.0", "r.7.0", "rx.7.0", "h1.7.0", "rNw.9.1", "rNw.0.1"} {
		if _, _, bad := mc.again(x).Resume(t.Context(), id, false); bad == nil || bad.Status != 400 {
			t.Errorf("%s got %v", id, bad)
		}
	}
}

// TestProgressOverCrash: what belongs to a call goes to the stream that its client resumed, with the client's token.
func TestProgressOverCrash(t *testing.T) {
	for _, kind := range kinds {
		for _, token := range []string{`7`, `"tok"`, "9007199254740993", `"mx1.a"`} {
			t.Run(kind.name+" "+token, func(t *testing.T) {
				got := make(chan Outbound, 1)
				mc := newMachine(t, kind.edit, toolCalls(got))
				x := initialize(t, mc.s, "2025-11-25", "{}")
				send(t, x, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":`+token+`},"name":"a"}}`)
				m := <-got
				up := string(scan(t, m.Body).ProgressToken.Of(m.Body))
				mc.crash()
				r := resume(t, mc.again(x), "7", 7)
				c := mc.k.newest()
				eventually(t, "the call is back", func() bool { return inFlight(mc.s) == 1 })
				c.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + up + `,"progress":1}}`)
				c.result(m, scan(t, m.Body), `{}`)
				_, before := reply(t, r)
				if len(before) != 1 || !strings.Contains(before[0], `"progressToken":`+token+`,`) {
					t.Errorf("the client got %s", before)
				}
			})
		}
	}
}

// TestSessionsOverCrash: the set-up of a session outlives the daemon, and what ends a session is not undone by a restart.
func TestSessionsOverCrash(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			mc := newMachine(t, kind.edit, toolCalls(make(chan Outbound, 1)))
			x, gone := initialize(t, mc.s, "2025-06-18", "{}"), initialize(t, mc.s, "2025-11-25", "{}")
			reply(t, send(t, x, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`))
			reply(t, send(t, x, `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"file:///a"}}`))
			c := mc.k.all()[0]
			before := len(c.messages())
			gone.Close()
			mc.crash()
			y := mc.again(x)
			if y.Version != x.Version || y.level != x.level || !y.subs["file:///a"] || y.short != x.short {
				t.Errorf("the session came back as %s, level %d, %v", y.Version, y.level, y.subs)
			}
			if _, bad := mc.s.Session(gone.ID, owner1); bad == nil || bad.Status != 404 {
				t.Errorf("the deleted session got %v", bad)
			}
			eventually(t, "the lane is back", func() bool { return y.slot.usable() != nil })
			if after := c.messages(); len(after) != before {
				t.Errorf("the child was sent %s", after[before:])
			}
			r := y.Standalone()
			c.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a"}}`)
			if e := next(t, r); !strings.Contains(string(e.Data), "file:///a") {
				t.Errorf("the subscriber got %s", e.Data)
			}
			mc.stop(false)
			if mc.store.count() != 1 {
				t.Errorf("%d sessions are stored after a stop, want 1", mc.store.count())
			}
			mc.start()
			mc.s.sweep(time.Now().Add(sessionTTL + time.Minute))
			eventually(t, "the idle session is forgotten", func() bool { return mc.store.count() == 0 })
		})
	}
}

// TestLateAnswers: a client may use an id again; it never gets the answer of the call before.
func TestLateAnswers(t *testing.T) {
	for _, kind := range kinds[:2] {
		for _, crash := range []string{"", "crash", "crash, answered meanwhile"} {
			t.Run(kind.name+" "+crash, func(t *testing.T) {
				got := make(chan Outbound, 2)
				mc := newMachine(t, kind.edit, toolCalls(got))
				x := initialize(t, mc.s, "2025-11-25", "{}")
				c := mc.k.newest()
				old := send(t, x, callBody("7"))
				first := <-got
				cancel := []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
				x.Notify(cancel, scan(t, cancel))
				if _, state := old.Next(); state != ReadEnd {
					t.Fatalf("the cancelled call is in state %d", state)
				}
				if crash != "" {
					mc.kill()
					if crash != "crash" {
						c.result(first, scan(t, first.Body), `{"n":"first"}`)
					}
					mc.start()
					x = mc.again(x)
				}
				r := send(t, x, callBody("7"))
				second := <-got
				if crash != "crash, answered meanwhile" {
					if string(scan(t, first.Body).ID.Of(first.Body)) == string(scan(t, second.Body).ID.Of(second.Body)) {
						t.Errorf("both calls have the id of %s", second.Body)
					}
					c.result(first, scan(t, first.Body), `{"n":"first"}`)
				}
				c.result(second, scan(t, second.Body), `{"n":"second"}`)
				if answer, _ := reply(t, r); !strings.Contains(answer, "second") || member(t, answer, "id") != 7.0 {
					t.Errorf("the second call got %s", answer)
				}
				// A call that was answered, and whose answer nobody has read, gives its id to the next one.
				for n := range 3 {
					send(t, x, callBody("9"))
					m := <-got
					c.result(m, scan(t, m.Body), `{"n":`+strconv.Itoa(n)+`}`)
					eventually(t, "it is answered", func() bool { return inFlight(mc.s) == 0 })
				}
			})
		}
	}
}

// TestNoFalseProof: that a request is in no journal proves nothing when it may have gone to another process, or came since.
func TestNoFalseProof(t *testing.T) {
	ask := func(t *testing.T, x *Session, id string, want float64) {
		t.Helper()
		if answer, _ := reply(t, rejoinRaw(t, x, id, 0)); member(t, answer, "error", "code") != want {
			t.Errorf("%s got %s, want %.0f", id, answer, want)
		}
	}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			got := make(chan Outbound, 1)
			mc := newMachine(t, kind.edit, toolCalls(got))
			x := initialize(t, mc.s, "2025-11-25", "{}")
			mc.crash()
			y := mc.again(x)
			ask(t, y, "1", CodeNotSent)
			r := send(t, y, callBody("2"))
			m := <-got
			mc.k.newest().result(m, scan(t, m.Body), `{}`)
			reply(t, r)
			r.Delivered() // to a connection that was dead
			ask(t, y, "2", CodeSentUnknown)
			mc.k.newest().die(Exit{Reason: Exited, Code: 1})
			r = send(t, y, callBody("3")) // starts another process
			m = <-got
			mc.k.newest().result(m, scan(t, m.Body), `{}`)
			reply(t, r)
			mc.crash()
			z := mc.again(x)
			ask(t, z, "4", CodeSentUnknown) // it may have gone to the first process
			mc.kill()
			mc.perish()
			mc.start()
			ask(t, mc.again(x), "5", CodeSentUnknown)
		})
	}
}

// TestForgottenReplay: a call of an earlier daemon whose answer was not fetched in time did not remain unsent.
func TestForgottenReplay(t *testing.T) {
	mc := newMachine(t, busy, func(c *child, m Outbound, msg rpc.Message) {
		if m.Kind == rpc.Request {
			c.result(m, msg, `{}`)
		}
	})
	x := initialize(t, mc.s, "2025-11-25", "{}")
	send(t, x, callBody("7"))
	eventually(t, "it is answered", func() bool { return inFlight(mc.s) == 0 })
	mc.crash()
	y := mc.again(x)
	resume(t, y, "7", 7).Stop()
	y.sweepStreams(time.Now().Add(replayFor + time.Minute))
	if answer, _ := reply(t, resume(t, y, "7", 7)); member(t, answer, "error", "code") != float64(CodeAnsweredLost) {
		t.Errorf("the late resume got %s", answer)
	}
	mc.k.empty()
}

// FuzzResume: whatever a client sends as Last-Event-ID, it gets a stream of its own session or a refusal.
func FuzzResume(f *testing.F) {
	mc := newMachine(f, nil, func(c *child, m Outbound, msg rpc.Message) {})
	x := initialize(f, mc.s, "2025-11-25", "{}")
	mc.crash()
	y, _ := mc.s.Session(x.ID, owner1)
	y.slot.decided(f.Context())
	for _, id := range []string{"g.7.0", "rNw.7.0", "rNw.0.0", "hx.7.1", "r.0.0", "rNw.8.0", "..", "rIiI.0.0"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		st, r, bad := y.Resume(t.Context(), id, false)
		switch {
		case bad != nil:
			if bad.Status != 400 || st != nil {
				t.Errorf("%q got %v", id, bad)
			}
			return
		case st != y.get && !strings.Contains(id, ".8."): // else it is a stream that an earlier input made
			answer, _ := reply(t, r)
			if m := scan(t, []byte(answer)); m.Kind != rpc.Error || string(m.Code.Of([]byte(answer))) != strconv.Itoa(CodeNotSent) {
				t.Errorf("%q got %s", id, answer)
			}
		}
		r.Stop()
	})
}
