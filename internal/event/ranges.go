package event

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
