//go:build unix

package shim

import (
	"testing"
	"time"
)

// TestJournalForgetsNothingAlone: while no daemon is there nothing of what it had sent is forgotten. A request that is in no
// list would be taken for one that was never sent.
func TestJournalForgetsNothingAlone(t *testing.T) {
	t.Parallel()
	const hour = 60 * finishedFor
	s := &supervisor{started: time.Now().Add(-hour), journal: newJournal(bounds{maxEntries, maxKept})}
	j := &s.journal
	j.askFor(0, 1, "1", "m")
	j.askFor(0, 2, "2", "m")
	j.done(0, 1)
	j.done(finishedFor/2, 2)
	s.left = finishedFor * 3 / 4 // and nobody came since
	s.countAwayLocked()
	if i := j.info(s.now()); len(i.Finished) != 2 || !i.Complete {
		t.Errorf("after an hour alone: finished %v, complete %v", i.Finished, i.Complete)
	}
	s.countAwayLocked()
	if i := j.info(s.now() + finishedFor/4); len(i.Finished) != 1 {
		t.Errorf("a quarter of the time later: finished %v", i.Finished)
	}
	j.unseen(s.now())
	if j.info(s.now()).Complete {
		t.Error("a request that nobody saw must cloud ten minutes")
	}
	s.left = s.now() - hour/2
	s.countAwayLocked()
	if j.info(s.now()).Complete {
		t.Error("time alone must not clear it")
	}
}
