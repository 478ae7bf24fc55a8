package shim

import "time"

// finishedFor is how long requests that are done with are remembered: as long as a client may take to ask again.
const finishedFor = 10 * time.Minute

// finished is the done ring: the last requests that were done with, not older than finishedFor.
type finished struct {
	ring  []over // grows to maxEntries
	first int    // index of the oldest
	len   int
}

// over is a request that is done with.
type over struct {
	number       uint64
	text         string // as in entry
	idEnd, tagAt int
	at           time.Duration // when it was done with
}

// add remembers e, as one of limit. False: one that was younger than finishedFor had to be forgotten for it.
func (f *finished) add(now time.Duration, e *entry, limit int) (complete bool) {
	f.expire(now)
	complete = true
	if f.len >= limit {
		f.pop()
		complete = false
	}
	if f.len == len(f.ring) {
		f.grow(limit)
	}
	f.ring[(f.first+f.len)%len(f.ring)] = over{e.number, e.text, e.idEnd, e.tagAt, now}
	f.len++
	return complete
}

// expire forgets what is too old to be asked for.
func (f *finished) expire(now time.Duration) {
	for f.len > 0 && now-f.ring[f.first].at >= finishedFor {
		f.pop()
	}
}

func (f *finished) pop() {
	f.ring[f.first] = over{}
	f.first = (f.first + 1) % len(f.ring)
	f.len--
}

func (f *finished) grow(limit int) {
	const least = 16
	grown := make([]over, min(max(least, 2*len(f.ring)), limit))
	for i := range f.len {
		grown[i] = f.ring[(f.first+i)%len(f.ring)]
	}
	f.ring, f.first = grown, 0
}

// calls lists them, oldest first.
func (f *finished) calls(now time.Duration) []keptCall {
	f.expire(now)
	calls := make([]keptCall, f.len)
	for i := range calls {
		o := &f.ring[(f.first+i)%len(f.ring)]
		calls[i] = keptCall{
			Number: o.number, ID: []byte(o.text[:o.idEnd]), Method: o.text[o.idEnd:o.tagAt], Tag: []byte(o.text[o.tagAt:]),
			Age: (now - o.at).Milliseconds(),
		}
	}
	return calls
}
