package gateway

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestStreamReplaysAfter(t *testing.T) {
	s := newStream("", false)
	s.resumable("r1")
	for i := range 5 {
		s.push([]byte(fmt.Sprint(i)))
	}
	r := s.Follow()
	for range 3 {
		r.Next()
	}
	r.Stop()
	again, ok := s.Read(2)
	if !ok {
		t.Fatal("cannot resume after an event that is retained")
	}
	if e, _ := again.Next(); string(e.Data) != "2" || e.Seq != 3 {
		t.Errorf("resume after 2 gives %d %s", e.Seq, e.Data)
	}
	if _, ok := s.Read(99); ok {
		t.Error("a seq that never was can be resumed")
	}
}

// TestStreamBounds: an absent reader loses the oldest messages and never the response.
func TestStreamBounds(t *testing.T) {
	s := newStream("r", true)
	for range maxStreamEvents * 3 {
		s.push([]byte("x"))
	}
	big := strings.Repeat("y", 2*maxStreamBytes)
	s.finish([]byte(big), 200)
	if _, ok := s.Read(1); ok {
		t.Error("evicted events can be resumed")
	}
	r := s.Follow()
	e, state := r.Next()
	if state != ReadEvent || !e.Final || len(e.Data) != len(big) {
		t.Errorf("after the bounds the stream gives state %d, final %v, %d bytes", state, e.Final, len(e.Data))
	}
	if _, state := r.Next(); state != ReadEnd {
		t.Errorf("after the response: state %d", state)
	}
	if s.push([]byte("late")) {
		t.Error("a message was taken after the end")
	}
}

// TestStreamTakeover: a second reader ends the first one and misses nothing.
func TestStreamTakeover(t *testing.T) {
	s := newStream("g", true)
	first := s.Follow()
	s.push([]byte("a"))
	first.Next()
	second := s.Follow()
	s.push([]byte("b"))
	if _, state := first.Next(); state != ReadEnd {
		t.Errorf("the first reader goes on: %d", state)
	}
	first.Stop()
	if e, _ := second.Next(); string(e.Data) != "b" {
		t.Errorf("the second reader got %q, want b", e.Data)
	}
}

// TestResumeAfterEarlyRead: what was read before the stream became resumable can still be asked for again.
func TestResumeAfterEarlyRead(t *testing.T) {
	for _, keep := range []bool{true, false} {
		s := newStream("", keep)
		r := s.Follow()
		s.push([]byte("early"))
		if e, state := r.Next(); state != ReadEvent || string(e.Data) != "early" {
			t.Fatalf("got %q (%d)", e.Data, state)
		}
		s.resumable("r1")
		s.finish([]byte("end"), 200)
		again, ok := s.Read(0)
		if ok != keep {
			t.Fatalf("keep %v: a resume from the beginning is possible: %v", keep, ok)
		}
		if !ok {
			continue
		}
		for _, want := range []string{"early", "end"} {
			if e, state := again.Next(); state != ReadEvent || string(e.Data) != want {
				t.Errorf("got %q (%d), want %q", e.Data, state, want)
			}
		}
	}
}

// A flood on a stream that is full costs what one message costs. Copying what the stream retains for each message was
// 900 KB a message; a client that keeps up lost its stream to it.
func TestFullStreamIsCheap(t *testing.T) {
	s := newStream("s", true)
	if _, ok := s.Read(0); !ok {
		t.Fatal("no reader")
	}
	const messages, ceiling = 10_000, 1 << 10 // of bytes a message
	flood := func() {
		for range messages {
			s.push([]byte(`{}`))
		}
	}
	flood()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	flood()
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / messages; each > ceiling {
		t.Errorf("%d bytes a message, want at most %d", each, ceiling)
	}
}
