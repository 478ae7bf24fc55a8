package gateway

import (
	"testing"

	"mcpx/internal/era"
)

// TestVerdictIsOver: a request that was said to be unsent is sent again. Whoever asks from now on gets that call, and not what
// was said of the one before.
func TestVerdictIsOver(t *testing.T) {
	mc := newMachine(t, nil, toolCalls(make(chan Outbound, 1)))
	x := initialize(t, mc.s, "2025-11-25", "{}")
	mc.crash()
	y := mc.again(x)
	if answer, _ := reply(t, resume(t, y, "7", 0)); member(t, answer, "error", "code") != float64(codeNotSent) {
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
			mc := newMachine(t, nil, toolCalls(make(chan Outbound, 1)))
			x := initialize(t, mc.s, "2025-11-25", "{}")
			mc.crash()
			y := mc.again(x)
			if got := code(t, y, true); got != float64(codeNotSent) {
				t.Fatalf("the relay is told %v", got)
			}
			if clientAsks {
				if got := code(t, y, false); got != float64(codeNotSent) {
					t.Fatalf("the client is told %v", got)
				}
			}
			if may := y.MayRun([]byte("7")); may == clientAsks {
				t.Errorf("the request of the relay may run: %v", may)
			}
			if !clientAsks {
				if got := code(t, y, false); got != float64(codeSentUnknown) {
					t.Errorf("a client that asks afterwards is told %v", got)
				}
			}
		})
	}
}
