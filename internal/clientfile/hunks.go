package clientfile

import "bytes"

// hunk is a range of one content that became a range of a later one.
type hunk struct {
	from, to       int // in the old bytes
	nowFrom, nowTo int
}

// maxHunkDepth bounds how often what lies between equal parts is looked at again: what a person writes needs a few times.
const maxHunkDepth = 32

// hunks finds where two contents differ, in order. Lines and words count as the same only when each of both contents has
// them once, between what is the same around them: where that would be a guess, the hunk is larger.
func hunks(old, now []byte) []hunk {
	c := comparing{old: old, now: now}
	c.between(hunk{0, len(old), 0, len(now)}, []func([]byte) int{lineLength, wordLength}, 0)
	return c.found
}

type comparing struct {
	old, now []byte
	found    []hunk
}

// between compares two ranges. cuts give the length of the part at the front, the longest parts first.
func (c *comparing) between(h hunk, cuts []func([]byte) int, depth int) {
	old, now := cutUp(c.old[h.from:h.to], cuts[0]), cutUp(c.now[h.nowFrom:h.nowTo], cuts[0])
	for len(old) > 0 && len(now) > 0 && bytes.Equal(old[0], now[0]) {
		h.from, h.nowFrom = h.from+len(old[0]), h.nowFrom+len(old[0])
		old, now = old[1:], now[1:]
	}
	for len(old) > 0 && len(now) > 0 && bytes.Equal(old[len(old)-1], now[len(now)-1]) {
		n := len(old[len(old)-1])
		h.to, h.nowTo = h.to-n, h.nowTo-n
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	switch {
	case len(old) == 0 && len(now) == 0:
		return
	case len(old) == 0 || len(now) == 0 || depth == maxHunkDepth:
		c.found = append(c.found, h)
		return
	}
	all := once(h, old, now)
	if len(all) == 0 {
		if len(cuts) == 1 {
			c.found = append(c.found, h)
		} else {
			c.between(h, cuts[1:], depth+1)
		}
		return
	}
	for _, e := range all {
		c.between(hunk{h.from, e.from, h.nowFrom, e.nowFrom}, cuts, depth+1)
		h.from, h.nowFrom = e.to, e.nowTo
	}
	c.between(h, cuts, depth+1)
}

func cutUp(data []byte, cut func([]byte) int) [][]byte {
	var all [][]byte
	for len(data) > 0 {
		n := cut(data)
		all = append(all, data[:n])
		data = data[n:]
	}
	return all
}

// once are the parts that both ranges have exactly once, as many as are in the same order in both.
func once(h hunk, old, now [][]byte) []hunk {
	type seen struct{ times, at int }
	index := func(parts [][]byte) map[string]seen {
		all, at := map[string]seen{}, 0
		for _, part := range parts {
			if bytes.ContainsFunc(part, isWord) { // brackets alone say nothing
				all[string(part)] = seen{all[string(part)].times + 1, at}
			}
			at += len(part)
		}
		return all
	}
	before, after := index(old), index(now)
	var all []hunk
	at := h.nowFrom
	for _, part := range now {
		if o := before[string(part)]; o.times == 1 && after[string(part)].times == 1 {
			all = append(all, hunk{h.from + o.at, h.from + o.at + len(part), at, at + len(part)})
		}
		at += len(part)
	}
	return rising(all)
}

// rising is the longest selection whose places rise in the old content, too.
func rising(all []hunk) []hunk {
	var ends []int                  // by length: the last one of the best selection so far
	before := make([]int, len(all)) // the one in front, -1 none
	for i, h := range all {
		low, high := 0, len(ends)
		for low < high {
			if mid := (low + high) / 2; all[ends[mid]].from < h.from {
				low = mid + 1
			} else {
				high = mid
			}
		}
		before[i] = -1
		if low > 0 {
			before[i] = ends[low-1]
		}
		if low == len(ends) {
			ends = append(ends, i)
		} else {
			ends[low] = i
		}
	}
	out := make([]hunk, len(ends))
	if len(ends) == 0 {
		return out
	}
	for i, at := len(ends)-1, ends[len(ends)-1]; i >= 0; i, at = i-1, before[at] {
		out[i] = all[at]
	}
	return out
}

// carried moves spans of the old content into the later one. False: the bytes of one are not all there any more.
func carried(spans []span, changes []hunk) ([]span, bool) {
	out := make([]span, 0, len(spans))
	for _, s := range spans {
		moved := 0
		for _, h := range changes {
			switch {
			case s.end <= h.from:
			case s.start >= h.to:
				moved += (h.nowTo - h.nowFrom) - (h.to - h.from)
			default:
				return nil, false
			}
		}
		s.start, s.end = s.start+moved, s.end+moved
		out = append(out, s)
	}
	return out, true
}

// lineLength is the length of the first line, its end included.
func lineLength(b []byte) int {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return i + 1
	}
	return len(b)
}

// wordLength is the length of the word at the front, or of the one byte that is none.
func wordLength(b []byte) int {
	n := bytes.IndexFunc(b, func(r rune) bool { return !isWord(r) })
	switch {
	case n < 0:
		return len(b)
	case n == 0:
		return 1
	}
	return n
}

func isWord(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= 0x80
}
