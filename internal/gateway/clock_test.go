package gateway

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"
	"unsafe"

	"mcpx/internal/rpc"
	"mcpx/internal/supervise"
)

// jumped is t after somebody set the wall clock by d: the monotonic reading is the same. Package time has no way to say
// this, because only the system does it.
func jumped(t time.Time, d time.Duration) time.Time {
	const secondsAt = 30 // a Time with a monotonic reading has the wall seconds in bits 30 to 62 of its first word
	s := t.Add(0)
	word := (*uint64)(unsafe.Pointer(&s))
	*word = uint64(int64(*word) + int64(d/time.Second)<<secondsAt)
	return s
}

func TestJumped(t *testing.T) {
	now := time.Now()
	for _, d := range []time.Duration{time.Hour, -time.Hour} {
		then := jumped(now, d)
		if then.Unix()-now.Unix() != int64(d/time.Second) || then.Sub(now) != 0 {
			t.Errorf("after %s: %s by the wall, %s by the clock that counts", d, time.Duration(then.Unix()-now.Unix())*time.Second, then.Sub(now))
		}
	}
}

// TestS22WallClock sets the clock by an hour while sessions, lanes, backoffs and a parked question wait for their times.
func TestS22WallClock(t *testing.T) {
	for _, d := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(d.String(), func(t *testing.T) {
			p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
				if m.Kind == rpc.Request {
					l.result(m, msg, `{"tools":[]}`)
				}
			})
			s := newRig(t, p, global)
			x := initialize(t, s, "2025-11-25", allCaps)
			now := jumped(time.Now(), d)
			s.sweep(now) // sessions 30 min, lanes 5 min, replay buffers, parked calls 15 min
			if _, bad := s.Session(x.ID, owner1); bad != nil {
				t.Errorf("the session ended: %+v", bad)
			}
			if got, _ := reply(t, send(t, x, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)); !strings.Contains(got, "tools") {
				t.Errorf("the session got %s", got)
			}
			s.mu.Lock()
			for l := range s.lanes {
				if l.down.Load() {
					t.Error("the lane was ended")
				}
			}
			s.mu.Unlock()
			s.sweep(time.Now().Add(time.Hour)) // the same sweep, an hour later by the clock that counts
			if _, bad := s.Session(x.ID, owner1); bad == nil {
				t.Error("an hour without a word did not end the session")
			}

			var h supervise.History
			before := time.Now()
			h.Exited(before, true, 0.5, "test")
			_, wait, _ := h.MayStart(before)
			if _, after, _ := h.MayStart(jumped(before, d)); after != wait || wait <= 0 {
				t.Errorf("the next start is %s away, it was %s", after, wait)
			}
		})
	}
}

// TestS22ParkedCall sets the clock while a question is with its client.
func TestS22ParkedCall(t *testing.T) {
	for _, d := range []time.Duration{time.Hour, -time.Hour} {
		now := time.Now()
		s, err := newSealer(make([]byte, sealKeyLen), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		parked, err := s.seal(state{Call: "c", Expires: now.Add(stateTTL).Unix()})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := s.open(parked, jumped(now, d)); !ok {
			t.Errorf("%s: the state of a parked call is too old; how long it waits is up to the call", d)
		}
		repeat, err := s.seal(state{Expires: now.Add(stateTTL).Unix()})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := s.open(repeat, now.Add(stateTTL+time.Minute)); ok {
			t.Error("a state without a call never gets too old")
		}
	}
}

// TestS22Adopted sets the clock after a child was adopted: when it was started is known by the wall only.
func TestS22Adopted(t *testing.T) {
	now := time.Now()
	for _, d := range []time.Duration{time.Hour, -time.Hour} {
		started := anchored(now.Add(-time.Minute).Round(0), now)
		if got := jumped(now, d).Sub(started); got != time.Minute {
			t.Errorf("%s: it has run for %s, want a minute", d, got)
		}
	}
	if got := now.Sub(anchored(now.Add(time.Hour).Round(0), now)); got != 0 {
		t.Errorf("started in the future: it has run for %s, want 0", got)
	}
}
