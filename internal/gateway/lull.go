package gateway

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Lulls tells readers of streams that nothing came for a fixed time. A timer for each request would nearly always be the
// earliest of the process, and arming the earliest timer wakes the thread that polls the network: one more system call
// and two more context switches for every call. The waits of one queue are equal and share one timer; each server has its
// own queues.
type Lulls struct {
	wait time.Duration

	mu    sync.Mutex // guards queue and armed; close under it never blocks
	queue []*Lull
	armed bool // the timer runs
}

// Lull is one wait.
type Lull struct {
	over  chan struct{} // closed when the time has passed
	until time.Time
	ended atomic.Bool // nobody waits any more
}

// lullLooks is how often a queue is looked at within one wait: a wait may be late by that part of its time, and what
// was left stays in the queue no longer.
const lullLooks = 10

// Begin starts a wait. End must be called.
func (q *Lulls) Begin() *Lull {
	l := &Lull{over: make(chan struct{}), until: time.Now().Add(q.wait)}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, l)
	if !q.armed {
		q.armed = true
		time.AfterFunc(q.wait/lullLooks, q.look)
	}
	return l
}

// Over is closed when the time has passed.
func (l *Lull) Over() <-chan struct{} { return l.over }

// End leaves the wait.
func (l *Lull) End() { l.ended.Store(true) }

// look ends what is due, forgets what was left, and comes again while there is more.
func (q *Lulls) look() {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = slices.DeleteFunc(q.queue, func(l *Lull) bool {
		if !l.ended.Load() && l.until.After(now) {
			return false
		}
		close(l.over)
		return true
	})
	if q.armed = len(q.queue) > 0; q.armed {
		time.AfterFunc(q.wait/lullLooks, q.look)
	}
}
