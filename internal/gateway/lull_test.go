package gateway

import (
	"testing"
	"testing/synctest"
	"time"
)

func over(l *Lull) bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

func (q *Lulls) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue)
}

func TestLulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := Lulls{wait: 100 * time.Millisecond}
		first := q.Begin()
		time.Sleep(50 * time.Millisecond)
		second := q.Begin()
		time.Sleep(49 * time.Millisecond)
		if synctest.Wait(); over(first) {
			t.Error("a wait ended early")
		}
		time.Sleep(2 * time.Millisecond)
		if synctest.Wait(); !over(first) || over(second) {
			t.Error("after 100 ms the first wait is over and the second is not")
		}
		time.Sleep(50 * time.Millisecond)
		if synctest.Wait(); !over(second) {
			t.Error("the second wait did not end")
		}
		if n := q.size(); n != 0 {
			t.Errorf("%d waits are left in the queue", n)
		}
	})
}

// However many waits there are, the timer fires a bounded number of times, and none of them is late by more than one
// look.
func TestLullsManyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := Lulls{wait: 100 * time.Millisecond}
		const n = 1000
		for range n {
			l, began := q.Begin(), time.Now()
			go func() {
				<-l.over
				if took := time.Since(began); took < q.wait || took > q.wait+q.wait/lullLooks {
					t.Errorf("a wait of %v took %v", q.wait, took)
				}
			}()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * q.wait)
		synctest.Wait()
		if n := q.size(); n != 0 {
			t.Errorf("%d waits never ended", n)
		}
	})
}

// Waits that were left do not pile up behind one that goes on.
func TestLullsForgetWhatWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := Lulls{wait: time.Second}
		long := q.Begin()
		most := 0
		for range 500 {
			for range 100 {
				q.Begin().End()
			}
			time.Sleep(time.Millisecond)
			most = max(most, q.size())
		}
		if limit := 100 * 100; most > limit+100 {
			t.Errorf("%d waits in the queue, want at most those of one look, %d", most, limit)
		}
		long.End()
		time.Sleep(q.wait)
		synctest.Wait()
		if n := q.size(); n != 0 {
			t.Errorf("%d waits are left in the queue", n)
		}
	})
}
