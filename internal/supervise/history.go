package supervise

import "time"

// History is what the past ends of one process mean for its next start. The zero History allows a start and follows
// DefaultPolicy; Policy may be set before first use. It is not safe for concurrent use.
type History struct {
	Policy Policy

	failures int         // ends since the process was last healthy for long enough
	early    int         // ends before the handshake, in a row
	exits    []time.Time // ends within the window, at most Policy.Exits of them
	due      time.Time   // no start before this
	looping  bool
	healthy  time.Time // since when the running process has been healthy; zero when it is not
	cause    string
}

// Exited records that the process ended. handshaked says whether it had answered its handshake; random in [0, 1)
// spreads the delay; cause is shown to people.
func (h *History) Exited(now time.Time, handshaked bool, random float64, cause string) {
	p := h.Policy.orDefault()
	h.settle(now, p)
	h.healthy = time.Time{}
	h.cause = cause
	h.failures++
	h.early++
	if handshaked {
		h.early = 0
	}
	h.exits = append(h.exits, now)
	h.forget(now, p)
	if len(h.exits) >= p.Exits || h.early >= p.Early {
		h.looping = true
	}
	if h.looping {
		h.due = now.Add(p.Trial)
		return
	}
	h.due = now.Add(p.delay(h.failures, random))
}

// Healthy records that the process works now. It may be called as often as that is observed; what counts is the first
// time after a start. A process that stays healthy for Policy.Health has its past failures forgiven.
func (h *History) Healthy(now time.Time) {
	if h.healthy.IsZero() {
		h.healthy = now
		h.early = 0
	}
	h.settle(now, h.Policy.orDefault())
}

// MayStart reports whether a start is allowed now, else how long to wait and why. In a crash loop each allowed start is
// a trial, and counts as begun: the next one is a minute later even if the caller never starts anything.
func (h *History) MayStart(now time.Time) (ok bool, wait time.Duration, state State) {
	p := h.Policy.orDefault()
	h.settle(now, p)
	state = Ready
	switch {
	case h.looping:
		state = CrashLoop
	case now.Before(h.due):
		state = Waiting
	}
	if now.Before(h.due) {
		return false, h.due.Sub(now), state
	}
	if h.looping {
		h.due = now.Add(p.Trial)
	}
	return true, 0, state
}

// Clear forgets everything: a person asked for a fresh start.
func (h *History) Clear() { *h = History{Policy: h.Policy} }

// Failures is the number of ends since the process was last healthy for long enough.
func (h *History) Failures() int { return h.failures }

// LastCause is the cause of the last end, "" when there was none since Clear. Health does not erase it.
func (h *History) LastCause() string { return h.cause }

// settle forgives the past when the process has been healthy for long enough.
func (h *History) settle(now time.Time, p Policy) {
	if h.healthy.IsZero() || now.Sub(h.healthy) < p.Health {
		return
	}
	h.failures, h.early, h.looping = 0, 0, false
	h.exits = h.exits[:0]
	h.due = time.Time{}
}

// forget drops ends that are older than the window, and more than the policy counts.
func (h *History) forget(now time.Time, p Policy) {
	first := max(0, len(h.exits)-p.Exits)
	for first < len(h.exits) && now.Sub(h.exits[first]) >= p.Window {
		first++
	}
	h.exits = append(h.exits[:0], h.exits[first:]...)
}
