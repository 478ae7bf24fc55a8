package retention

import (
	"time"

	"mcpx/internal/fault"
)

const (
	// Jump is how much the wall clock may move against the time that has passed before it is not believed.
	Jump = time.Hour
	// Rest is how long nothing is removed after a jump, in time that a daemon runs: who sees that the clock is wrong has
	// so long to put it right.
	Rest = 48 * time.Hour
	// Absence is how long a machine may have been off, or no daemon have run on it, without being worth a word: only when something
	// is to be removed it is said that a clock that jumped would look like that.
	Absence = 30 * Day
)

// Hold keeps everything from being removed after the wall clock has jumped.
type Hold struct {
	By   time.Duration `json:"by"`   // the largest jump that is waited for, forwards or backwards
	Left time.Duration `json:"left"` // of Rest; not above 0: nothing is held
	// Off says that the jump may be one of the time in which no daemon ran, and is not longer than Absence.
	Off bool `json:"off,omitempty"`
}

// Held says whether nothing may be removed.
func (h Hold) Held() bool { return h.Left > 0 }

// Refusal is why nothing is removed while it is held.
func (h Hold) Refusal() *fault.Error {
	return fault.New(fault.Conflict, "retention-held").Saying("nothing is removed until mcpx has run for %s more: %s", h.Left.Round(time.Second), h.Cause()).
		Hinting("look at the clock; `mcpx audit prune --dry-run` shows what would be removed").Retrying(fault.AfterWait)
}

// Cause is what is held for, in words.
func (h Hold) Cause() string {
	by := h.By.Round(time.Second).String()
	if h.Off {
		return "no daemon ran for " + by + ", or the clock has jumped by that"
	}
	return "the clock has jumped by " + by
}

// Passed is the hold after some time in which the daemon ran, and in which the wall clock moved by wall. A jump that is no
// larger than the one that is waited for does not begin the wait anew: a machine that sleeps each night would remove
// nothing ever.
func (h Hold) Passed(ran, wall time.Duration) Hold {
	if h.Left = max(h.Left-ran, 0); h.Left == 0 {
		h = Hold{}
	}
	by := wall - ran
	if by < 0 {
		by = -by
	}
	if by > Jump && by > h.By {
		h = Hold{By: by, Left: Rest}
	}
	return h
}

// Started is the hold at the start of a daemon, by the time of the newest event: nobody knows how long none ran, so that
// a gap counts as a jump. The zero time: there is no event.
func (h Hold) Started(now, newest time.Time) Hold {
	if newest.IsZero() {
		return h
	}
	off := now.Sub(newest)
	next := h.Passed(0, off)
	if next != h && off > 0 && off <= Absence {
		next.Off = true
	}
	return next
}
