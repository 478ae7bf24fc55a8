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
)

// Hold keeps everything from being removed after the wall clock has jumped.
type Hold struct {
	By   time.Duration `json:"by"`   // the largest jump that is waited for, forwards or backwards
	Left time.Duration `json:"left"` // of Rest; not above 0: nothing is held
}

// Held says whether nothing may be removed.
func (h Hold) Held() bool { return h.Left > 0 }

// Refusal is why nothing is removed while it is held.
func (h Hold) Refusal() *fault.Error {
	return fault.New(fault.Conflict, "retention-held").Saying("the clock has jumped by %s, so nothing is removed until mcpx has run for %s more", h.By.Round(time.Second), h.Left.Round(time.Second)).
		Hinting("look at the clock; `mcpx audit prune --dry-run` shows what would be removed").Retrying(fault.AfterWait)
}

// Passed is the hold after some time in which the daemon ran, and in which the wall clock moved by wall. A jump that is no
// larger than the one that is waited for does not begin the wait anew: a machine that sleeps each night would remove
// nothing ever.
func (h Hold) Passed(ran, wall time.Duration) Hold {
	if h.Left = max(h.Left-ran, 0); h.Left == 0 {
		h.By = 0
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
	return h.Passed(0, now.Sub(newest))
}
