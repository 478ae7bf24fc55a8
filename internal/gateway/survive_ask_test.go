package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/rpc"
)

// asking is a child that asks one question in each call of a tool, and answers the call with what it was answered.
func asking(method, params string) func(c *child, m Outbound, msg rpc.Message) {
	var pending Outbound
	return func(c *child, m Outbound, msg rpc.Message) {
		switch {
		case m.Method == "tools/call":
			pending = m
			c.say(`{"jsonrpc":"2.0","id":5,"method":"` + method + `","params":` + params + `}`)
		case m.Kind == rpc.Result && string(msg.ID.Of(m.Body)) == "5":
			c.result(pending, mustScan(pending.Body), string(msg.Result.Of(m.Body)))
		case m.Kind == rpc.Error && string(msg.ID.Of(m.Body)) == "5":
			c.result(pending, mustScan(pending.Body), `{"refused":true}`)
		case m.Kind == rpc.Request:
			c.result(m, msg, `{}`)
		}
	}
}

// TestQuestionsOverCrash: a question that was open at a crash is asked again under the same id, and answered once.
func TestQuestionsOverCrash(t *testing.T) {
	for _, kind := range kinds {
		for _, method := range []string{"elicitation/create", "sampling/createMessage", "roots/list"} {
			t.Run(kind.name+" "+method, func(t *testing.T) {
				mc := newMachine(t, kind.edit, asking(method, `{"message":"name?"}`))
				x := initialize(t, mc.s, "2025-11-25", allCaps)
				body := callBody("7")
				st := x.Request([]byte(body), scan(t, []byte(body)))
				x.Promote(st, []byte("7"))
				before := next(t, st.Follow())
				mc.crash()
				y := mc.again(x)
				r := resume(t, y, "7", 7)
				again := next(t, r)
				id := scan(t, again.Data).ID.Of(again.Data)
				if string(id) != string(scan(t, before.Data).ID.Of(before.Data)) {
					t.Fatalf("asked %s, and again %s", before.Data, again.Data)
				}
				answer := []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"said":"yes"}}`)
				y.Respond(answer, scan(t, answer))
				y.Respond(answer, scan(t, answer))
				if got, _ := reply(t, r); !strings.Contains(got, `"said":"yes"`) {
					t.Errorf("the call got %s", got)
				}
				if n := mc.k.newest().count(`"said":"yes"`); n != 1 {
					t.Errorf("the server was answered %d times", n)
				}
			})
		}
	}
}

// TestAnswerBeforeQuestion: a client that was shown a question by the earlier daemon may answer at once.
func TestAnswerBeforeQuestion(t *testing.T) {
	mc := newMachine(t, nil, asking("elicitation/create", `{"message":"name?"}`))
	x := initialize(t, mc.s, "2025-11-25", allCaps)
	next(t, send(t, x, callBody("7")))
	mc.kill()
	mc.k.adopting = make(chan struct{})
	mc.start()
	y := mc.again(x)
	answer := []byte(`{"jsonrpc":"2.0","id":5,"result":{"said":"early"}}`)
	said := make(chan struct{})
	go func() {
		defer close(said)
		y.Respond(answer, mustScan(answer))
	}()
	close(mc.k.adopting)
	<-said
	if got, _ := reply(t, resume(t, y, "7", 7)); !strings.Contains(got, `"said":"early"`) {
		t.Errorf("the call got %s", got)
	}
}

// TestQuestionNobodyResumes: a client that does not come back within a minute leaves the server with a safe answer.
func TestQuestionNobodyResumes(t *testing.T) {
	for method, want := range map[string]string{"elicitation/create": `"action":"cancel"`, "sampling/createMessage": "-32603", "roots/list": "-32603"} {
		synctest.Test(t, func(t *testing.T) {
			mc := newMachine(t, nil, asking(method, `{"message":"name?"}`))
			x := initialize(t, mc.s, "2025-11-25", allCaps)
			next(t, send(t, x, callBody("7")))
			mc.crash()
			time.Sleep(askAgain - time.Second)
			if c := mc.k.newest(); c.count(want) != 0 {
				t.Errorf("%s was answered early: %s", method, c.messages())
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if c := mc.k.newest(); c.count(want) != 1 {
				t.Errorf("%s was answered %s, want %s", method, c.messages(), want)
			}
			mc.end()
		})
	}
}

// TestQuestionsOfTheDead: the client hears that a question is void when its server died with the daemon's successor.
func TestQuestionsOfTheDead(t *testing.T) {
	mc := newMachine(t, nil, asking("elicitation/create", `{"message":"name?"}`))
	x := initialize(t, mc.s, "2025-11-25", allCaps)
	next(t, send(t, x, callBody("7")))
	mc.crash()
	r := resume(t, mc.again(x), "7", 7)
	question := next(t, r)
	mc.k.newest().die(Exit{Reason: SupervisorLost})
	_, before := reply(t, r)
	if len(before) != 1 || !strings.Contains(before[0], "notifications/cancelled") || !strings.Contains(before[0], string(scan(t, question.Data).ID.Of(question.Data))) {
		t.Errorf("the client heard %s", before)
	}
}

// TestReplayTime: an answer that nobody resumes is kept for its time after a crash, and then given up.
func TestReplayTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mc := newMachine(t, nil, func(c *child, m Outbound, msg rpc.Message) {
			if m.Kind == rpc.Request {
				c.result(m, msg, `{"n":1}`)
			}
		})
		x := initialize(t, mc.s, "2025-11-25", "{}")
		send(t, x, callBody("7"))
		synctest.Wait()
		mc.crash()
		synctest.Wait()
		time.Sleep(replayFor - 2*time.Second)
		if got, _ := reply(t, resume(t, mc.again(x), "7", 7)); !strings.Contains(got, `"n":1`) {
			t.Errorf("the resume got %s", got)
		}
		if left := mc.k.newest().undone(); len(left) != 1 {
			t.Errorf("the journal holds %q", left)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if left := mc.k.newest().undone(); len(left) != 0 {
			t.Errorf("after its time the journal holds %q", left)
		}
		mc.end()
	})
}

// TestDoneWaits: an answer that was just written is still there for a client whose connection broke at that moment.
func TestDoneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mc := newMachine(t, nil, func(c *child, m Outbound, msg rpc.Message) {
			if m.Kind == rpc.Request {
				c.result(m, msg, `{"n":1}`)
			}
		})
		x := initialize(t, mc.s, "2025-11-25", "{}")
		r := send(t, x, callBody("7"))
		reply(t, r)
		r.Delivered()
		time.Sleep(payAfter - time.Millisecond)
		if left := mc.k.newest().undone(); len(left) != 1 {
			t.Errorf("at once the journal holds %q", left)
		}
		time.Sleep(2 * payAfter)
		synctest.Wait()
		if left := mc.k.newest().undone(); len(left) != 0 {
			t.Errorf("later the journal holds %q", left)
		}
		mc.end()
	})
}

// TestDeadlineOverCrash: of the hard maximum a call has only what is left.
func TestDeadlineOverCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan Outbound, 1)
		mc := newMachine(t, func(e *catalog.Server) { e.Limits.Call, e.Limits.Max = time.Minute, 90*time.Second }, toolCalls(got))
		x := initialize(t, mc.s, "2025-11-25", "{}")
		send(t, x, callBody("7"))
		<-got
		time.Sleep(50 * time.Second)
		mc.crash()
		r := resume(t, mc.again(x), "7", 7)
		began := time.Now()
		answer, _ := reply30(t, r)
		if took := time.Since(began); took != 40*time.Second || member(t, answer, "error", "code") != float64(CodeTimeout) {
			t.Errorf("after %s the call got %s", took, answer)
		}
		synctest.Wait()
		if c := mc.k.newest(); c.count("notifications/cancelled") != 1 || len(c.undone()) != 0 {
			t.Errorf("the server was sent %s, the journal holds %q", c.messages(), c.undone())
		}
		mc.end()
	})
}

// reply30 is reply for answers that take their time.
func reply30(t *testing.T, r *Reader) (string, bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Hour)
	defer stop()
	for {
		switch e, state := r.Next(); state {
		case ReadEvent:
			if e.Final {
				return string(e.Data), true
			}
		case ReadWait:
			select {
			case <-r.Wake():
			case <-ctx.Done():
				t.Fatal("no answer in an hour")
			}
		case ReadEnd, ReadMissed, ReadMoved:
			t.Fatalf("the stream ended (%d)", state)
		}
	}
}

// TestRejoinOnTheSameDaemon: a client that knows only the id of its request finds it, in flight or answered.
func TestRejoinOnTheSameDaemon(t *testing.T) {
	got := make(chan Outbound, 1)
	mc := newMachine(t, nil, toolCalls(got))
	x := initialize(t, mc.s, "2025-11-25", "{}")
	for _, id := range oddIDs {
		old := send(t, x, callBody(id))
		m := <-got
		r := rejoinRaw(t, x, id, 0)
		if _, state := old.Next(); state != ReadEnd {
			t.Errorf("the first reader of %s is in state %d", id, state)
		}
		mc.k.newest().result(m, scan(t, m.Body), `{"n":1}`)
		for range 2 {
			if answer, _ := reply(t, r); !strings.Contains(answer, `"n":1`) {
				t.Errorf("%s got %s", id, answer)
			}
			r = rejoinRaw(t, x, id, 0)
		}
	}
	if _, _, bad := x.Resume(t.Context(), "r"+b64("99")+".0.0", false); bad == nil || bad.Status != 400 {
		t.Errorf("an unknown request got %v", bad)
	}
}

// TestCancelAfterCrash: a client can cancel a call that it made at an earlier daemon.
func TestCancelAfterCrash(t *testing.T) {
	for _, kind := range kinds {
		got := make(chan Outbound, 1)
		mc := newMachine(t, kind.edit, toolCalls(got))
		x := initialize(t, mc.s, "2025-11-25", "{}")
		send(t, x, callBody("7"))
		m := <-got
		mc.crash()
		y := mc.again(x)
		cancel := []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		y.Notify(cancel, scan(t, cancel))
		up := `"requestId":` + string(scan(t, m.Body).ID.Of(m.Body))
		eventually(t, "the server knows", func() bool { return mc.k.newest().count(up) == 1 })
		mc.k.empty()
	}
}
