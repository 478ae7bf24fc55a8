package gateway

import (
	"strconv"
	"time"
)

// Event ids say when their stream began, in minutes: what a supervisor remembers reaches only so far back, and a client may
// come with the event id of a call that is older than that.

// maxWitnessed is the longest raw id of a request that is found again in every journal: the tag of an entry has to hold it
// when the id that the server sees does not.
const maxWitnessed = maxTag - len("s") - shortKeyLen - 3

// longAgo is before every call.
var longAgo = time.Unix(0, 0)

// covers says whether a request must be among those that are known, if an earlier daemon sent it. Only half of the time that
// a supervisor remembers is relied on: clocks may be set.
func (p *past) covers(id []byte, began time.Time) bool {
	restart := p.until.Add(-witnessFor)
	fresh := began.IsZero() || began.After(restart.Add(-witnessFor/2)) && began.Before(restart.Add(witnessFor/2))
	return fresh && len(id) <= maxWitnessed
}

// Stamp is the last part of the event ids of the stream; "" for one that has no beginning.
func (r *Reader) Stamp() string {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.s.began.IsZero() {
		return ""
	}
	return "." + strconv.FormatInt(r.s.began.Unix()/60, 36)
}

// stampOf reads it, where there is one.
func stampOf(parts []string) (began time.Time, ok bool) {
	if len(parts) == 0 {
		return time.Time{}, true
	}
	minutes, err := strconv.ParseInt(parts[0], 36, 64)
	const far = 1 << 40 // minutes: whatever is beyond it is none of ours, and would overflow
	if err != nil || minutes < 0 || minutes > far {
		return time.Time{}, false
	}
	return time.Unix(minutes*60, 0), true
}
