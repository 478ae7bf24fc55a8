package gateway

import (
	"testing"

	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// TestVerdictIsOver: a request that was said to be unsent is sent again. Whoever asks from now on gets that call, and not what
// was said of the one before.
func TestVerdictIsOver(t *testing.T) {
	mc := newMachine(t, nil, toolCalls(make(chan Outbound, 1)))
	x := initialize(t, mc.s, "2025-11-25", "{}")
	mc.crash()
	y := mc.again(x)
	if answer, _ := reply(t, resume(t, y, "7", 0)); member(t, answer, "error", "code") != float64(CodeNotSent) {
		t.Fatalf("a request that nobody sent is told %s", answer)
	}
	send(t, y, callBody("7"))
	eventually(t, "the server has the call", func() bool { return inFlight(mc.s) == 1 })
	if st, _, bad := y.Resume(t.Context(), EventID(era.StreamName([]byte("7")), 0, 0), false); bad != nil || st.isOver() {
		t.Errorf("who asks for the call in flight gets its refusal of before (%v)", bad)
	}
}

func (s *Stream) isOver() bool {
	over, _ := s.isEnded()
	return over
}

// TestVerdictForARelay: a process that asks for itself whether a request was sent, and then sends it, has told nobody. Its
// client may come meanwhile: once that is told, the request does not run.
func TestVerdictForARelay(t *testing.T) {
	code := func(t *testing.T, y *Session, relayed bool) any {
		t.Helper()
		_, r, bad := y.Resume(t.Context(), EventID(era.StreamName([]byte("7")), 0, 0), relayed)
		if bad != nil {
			t.Fatal(bad)
		}
		answer, _ := reply(t, r)
		return member(t, answer, "error", "code")
	}
	for name, clientAsks := range map[string]bool{"nobody else asks": false, "its client asks": true} {
		t.Run(name, func(t *testing.T) {
			mc := newMachine(t, nil, answering)
			x := initialize(t, mc.s, "2025-11-25", "{}")
			mc.crash()
			y := mc.again(x)
			if got := code(t, y, true); got != float64(CodeNotSent) {
				t.Fatalf("the relay is told %v", got)
			}
			if clientAsks {
				if got := code(t, y, false); got != float64(CodeNotSent) {
					t.Fatalf("the client is told %v", got)
				}
			}
			body := []byte(callBody("7"))
			if y.TooLate([]byte("7")) != clientAsks {
				t.Errorf("the request of the relay is too late: %v", !clientAsks)
			}
			if st, runs := y.Ask(body, scan(t, body), Asking{Late: true}); runs == clientAsks {
				t.Errorf("the request of the relay runs: %v", runs)
			} else if answer, _ := reply(t, st.Follow()); !runs && member(t, answer, "error", "code") != float64(CodeNotSent) {
				t.Errorf("a request that does not run is told %s", answer)
			}
		})
	}
}

// TestLateIsFound: a request that a process without state passes on is found from the moment on from which it may run, and
// its answer when nobody has taken it. That process may be gone at any time, and then its client asks.
func TestLateIsFound(t *testing.T) {
	for name, plain := range map[string]bool{"as a stream": false, "as JSON": true} {
		t.Run(name, func(t *testing.T) {
			mc := newMachine(t, nil, answering)
			x := initialize(t, mc.s, "2025-11-25", "{}")
			mc.crash()
			y := mc.again(x)
			y.slot.decided(t.Context())
			body := []byte(callBody("7"))
			late := newStream("", !plain)
			if !y.enter(late, []byte("7")) {
				t.Fatal("it does not run")
			}
			st, _, bad := y.Resume(t.Context(), EventID(era.StreamName([]byte("7")), 0, 0), false)
			if bad != nil || st != late {
				t.Errorf("before the call is made its client is told something else (%v)", bad)
			}
			st, _ = y.Ask(body, scan(t, body), Asking{Plain: plain, Late: true})
			if answer, _ := reply(t, st.Follow()); member(t, answer, "result") == nil {
				t.Fatalf("the call got %s", answer)
			}
			eventually(t, "the call is over", func() bool { return inFlight(mc.s) == 0 })
			if answer, _ := reply(t, resume(t, y, "7", 0)); member(t, answer, "result") == nil {
				t.Errorf("its client is told %s", answer)
			}
		})
	}
}

// TestVerdictHasItsName: a relay that asks gets event ids with which it can ask again, should this daemon end before it has
// said what became of the request.
func TestVerdictHasItsName(t *testing.T) {
	mc := newMachine(t, nil, answering)
	x := initialize(t, mc.s, "2025-11-25", "{}")
	mc.crash()
	name := era.StreamName([]byte("7"))
	y := mc.again(x)
	st, _, bad := y.Resume(t.Context(), EventID(name, 0, 0), true)
	if bad != nil || st.ID != name {
		t.Errorf("the stream is %+v (%v), want the name %s", st, bad, name)
	}
	_, r, bad := y.Resume(t.Context(), EventID(name, mc.epoch, 0), true)
	if bad != nil {
		t.Fatal(bad)
	}
	if answer, _ := reply(t, r); member(t, answer, "error", "code") != float64(CodeNotSent) {
		t.Errorf("asked again it says %s", answer)
	}
	if _, _, bad := y.Resume(t.Context(), EventID(name, mc.epoch, 1), true); bad == nil {
		t.Error("a message that nobody was given is gone on behind")
	}
}

// answering answers every call at once.
func answering(c *child, m Outbound, msg rpc.Message) {
	if m.Kind == rpc.Request {
		c.result(m, msg, `{}`)
	}
}
