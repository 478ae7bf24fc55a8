package supervise_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mcpx/internal/supervise"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

const middle = 0.5 // randomness that adds nothing

type answer struct {
	OK    bool
	Wait  time.Duration
	State supervise.State
}

func ask(h *supervise.History, now time.Time) answer {
	ok, wait, state := h.MayStart(now)
	return answer{ok, wait, state}
}

func TestZeroHistoryStarts(t *testing.T) {
	var h supervise.History
	if diff := cmp.Diff(answer{true, 0, supervise.Ready}, ask(&h, start)); diff != "" {
		t.Error(diff)
	}
}

func TestDelayDoublesToItsBound(t *testing.T) {
	h := supervise.History{Policy: supervise.Policy{Exits: 100}}
	now := start
	var waits []time.Duration
	for range 9 {
		h.Exited(now, true, middle, "exited: code 1")
		got := ask(&h, now)
		if got.OK || got.State != supervise.Waiting {
			t.Fatalf("after an exit: %+v, want to wait", got)
		}
		waits = append(waits, got.Wait)
		now = now.Add(got.Wait)
		if got := ask(&h, now); !got.OK {
			t.Fatalf("after its wait: %+v, want a start", got)
		}
	}
	ms := time.Millisecond
	want := []time.Duration{500 * ms, 1000 * ms, 2000 * ms, 4000 * ms, 8000 * ms, 16000 * ms, 30000 * ms, 30000 * ms, 30000 * ms}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Error(diff)
	}
}

func TestJitter(t *testing.T) {
	for _, c := range []struct {
		random float64
		want   time.Duration
	}{{0, 400 * time.Millisecond}, {middle, 500 * time.Millisecond}, {1, 600 * time.Millisecond}} {
		var h supervise.History
		h.Exited(start, true, c.random, "")
		if got := ask(&h, start).Wait; got != c.want {
			t.Errorf("random %v: wait %v, want %v", c.random, got, c.want)
		}
	}
}

func TestHealthForgives(t *testing.T) {
	var h supervise.History
	h.Exited(start, true, middle, "first")
	h.Exited(start.Add(time.Second), true, middle, "second")
	h.Healthy(start.Add(10 * time.Second))
	h.Exited(start.Add(30*time.Second), true, middle, "too soon")
	if got := h.Failures(); got != 3 {
		t.Errorf("20 s of health: %d failures, want 3", got)
	}
	h.Healthy(start.Add(40 * time.Second))
	h.Healthy(start.Add(90 * time.Second)) // a later report does not start the minute again
	h.Exited(start.Add(100*time.Second), true, middle, "after a minute")
	if got := h.Failures(); got != 1 {
		t.Errorf("60 s of health: %d failures, want 1", got)
	}
	if got := h.LastCause(); got != "after a minute" {
		t.Errorf("last cause %q", got)
	}
}

func TestCrashLoop(t *testing.T) {
	for _, c := range []struct {
		name       string
		exits      int
		handshaked bool
		gap        time.Duration
		looping    bool
	}{
		{"four in the window", 4, true, time.Second, false},
		{"five in the window", 5, true, time.Second, true},
		{"five over a longer time", 5, true, 80 * time.Second, false},
		{"two early", 2, false, 10 * time.Minute, false},
		{"three early", 3, false, 10 * time.Minute, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h supervise.History
			now := start
			for range c.exits {
				now = now.Add(c.gap)
				h.Exited(now, c.handshaked, middle, "x")
			}
			if got := ask(&h, now).State == supervise.CrashLoop; got != c.looping {
				t.Errorf("looping = %v, want %v", got, c.looping)
			}
		})
	}
}

func TestCrashLoopTrials(t *testing.T) {
	var h supervise.History
	for range 3 {
		h.Exited(start, false, middle, "exited: code 3")
	}
	steps := []answer{
		ask(&h, start),
		ask(&h, start.Add(59*time.Second)),
		ask(&h, start.Add(60*time.Second)), // the trial
		ask(&h, start.Add(61*time.Second)), // one only
		ask(&h, start.Add(120*time.Second)),
	}
	want := []answer{
		{false, time.Minute, supervise.CrashLoop},
		{false, time.Second, supervise.CrashLoop},
		{true, 0, supervise.CrashLoop},
		{false, 59 * time.Second, supervise.CrashLoop},
		{true, 0, supervise.CrashLoop},
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Error(diff)
	}
	h.Healthy(start.Add(121 * time.Second))
	if got := ask(&h, start.Add(181*time.Second)); got.State != supervise.Ready {
		t.Errorf("a trial that stayed healthy: %+v, want ready", got)
	}
}

func TestClear(t *testing.T) {
	var h supervise.History
	for range 5 {
		h.Exited(start, false, middle, "x")
	}
	h.Clear()
	if diff := cmp.Diff(answer{true, 0, supervise.Ready}, ask(&h, start)); diff != "" {
		t.Error(diff)
	}
	if h.Failures() != 0 || h.LastCause() != "" {
		t.Errorf("after Clear: %d failures, cause %q", h.Failures(), h.LastCause())
	}
}

// TestProperties drives a History with random events and checks the promises that a lane relies on.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h supervise.History
		p := supervise.DefaultPolicy
		now, lastExit, lastTrial := start, time.Time{}, time.Time{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(90*time.Second)).Draw(t, "gap")))
			switch rapid.SampledFrom([]string{"exit", "ask", "healthy", "clear"}).Draw(t, "event") {
			case "exit":
				before := h.Failures()
				h.Exited(now, rapid.Bool().Draw(t, "handshaked"), rapid.Float64Range(0, 1).Draw(t, "random"), "c")
				if f := h.Failures(); f != before+1 && f != 1 {
					t.Fatalf("failures went from %d to %d", before, f)
				}
				lastExit = now
			case "healthy":
				h.Healthy(now)
			case "clear":
				h.Clear()
				lastExit, lastTrial = time.Time{}, time.Time{}
			case "ask":
				ok, wait, state := h.MayStart(now)
				if ok != (wait == 0) || wait < 0 || wait > p.Trial {
					t.Fatalf("ok %v with wait %v", ok, wait)
				}
				if !ok && state == supervise.Ready {
					t.Fatal("ready, yet no start allowed")
				}
				// A least delay after an exit, however the process behaved before.
				least := time.Duration(float64(p.First) * (1 - p.Jitter))
				if ok && !lastExit.IsZero() && now.Sub(lastExit) < least {
					t.Fatalf("a start %v after an exit, want at least %v", now.Sub(lastExit), least)
				}
				if ok && state == supervise.CrashLoop {
					if !lastTrial.IsZero() && now.Sub(lastTrial) < p.Trial {
						t.Fatalf("two trials within %v", now.Sub(lastTrial))
					}
					lastTrial = now
				}
				// Waiting as told always leads to a start.
				again := h
				if ok, _, _ := again.MayStart(now.Add(wait)); !ok && (state != supervise.CrashLoop || wait != 0) {
					t.Fatalf("no start after waiting %v as told", wait)
				}
			}
		}
	})
}
