package event

import (
	"strconv"
	"strings"
)

// Ranges are runs of events, each by its first and its last Seq.
type Ranges [][2]uint64

// Add adds an event to runs that were made in one direction.
func (r Ranges) Add(seq uint64) Ranges {
	if n := len(r) - 1; n >= 0 && r[n][1]+1 == seq {
		r[n][1] = seq
		return r
	} else if n >= 0 && r[n][0] == seq+1 {
		r[n][0] = seq
		return r
	}
	return append(r, [2]uint64{seq, seq})
}

// Pruned tells that the event had a body, and that it is not kept any more.
func (e Event) Pruned() bool { return e.BodySHA256 != "" && e.Body == nil }

// String lists the first runs as people read them: 3 to 5, 9.
func (r Ranges) String() string {
	const shown = 5
	var all []string
	for _, run := range r[:min(len(r), shown)] {
		text := strconv.FormatUint(run[0], 10)
		if run[1] > run[0] {
			text += " to " + strconv.FormatUint(run[1], 10)
		}
		all = append(all, text)
	}
	if len(r) > shown {
		all = append(all, "…")
	}
	return strings.Join(all, ", ")
}
