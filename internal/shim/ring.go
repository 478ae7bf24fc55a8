package shim

import (
	"encoding/binary"
	"slices"
)

const (
	// keptBytes bounds what a child may say while no daemon is attached.
	keptBytes = 1 << 20
	// lineHead is what a kept line costs beside its bytes: its length and its place.
	lineHead = 4 + 8
	// segmentSize is the size of one piece of a ring. Lines of a quarter of it and more have pieces of their own, so that
	// little room stays unused.
	segmentSize = 32 << 10
)

// ring keeps the last whole lines up to keptBytes, and counts what it dropped. The zero ring is empty. Lines are copied
// into a few large pieces, because ten thousand small ones would cost a supervisor as much again.
type ring struct {
	segments [][]byte // oldest first; each holds lines with their heads, one after the other
	from     int      // where the oldest line begins in the first one
	spare    []byte   // of a piece whose lines are gone
	size     int      // bytes of the lines and their heads
	lines    int

	droppedFrames, droppedBytes uint64
}

// line is one line of the child and its place in the order of everything that is kept.
type line struct {
	arrived uint64
	text    []byte
}

func (r *ring) add(arrived uint64, text []byte) {
	need := lineHead + len(text)
	if need > keptBytes {
		r.count(len(text))
		return
	}
	for r.size+need > keptBytes {
		r.drop()
	}
	last := len(r.segments) - 1
	if last < 0 || cap(r.segments[last])-len(r.segments[last]) < need {
		r.segments = append(r.segments, r.segment(need))
		last++
	}
	s := binary.BigEndian.AppendUint32(r.segments[last], uint32(len(text)))
	s = binary.BigEndian.AppendUint64(s, arrived)
	r.segments[last] = append(s, text...)
	r.size += need
	r.lines++
}

// segment is an empty piece with room for need bytes.
func (r *ring) segment(need int) []byte {
	if need >= segmentSize/4 {
		return make([]byte, 0, need)
	}
	if s := r.spare; s != nil {
		r.spare = nil
		return s[:0]
	}
	return make([]byte, 0, segmentSize)
}

// settle gives back what only a busy ring needs.
func (r *ring) settle() { r.spare = nil }

// drop forgets the oldest line.
func (r *ring) drop() {
	first := r.segments[0]
	n := int(binary.BigEndian.Uint32(first[r.from:]))
	r.count(n)
	r.from += lineHead + n
	r.size -= lineHead + n
	r.lines--
	if r.from == len(first) {
		if cap(first) == segmentSize {
			r.spare = first
		}
		r.segments, r.from = slices.Delete(r.segments, 0, 1), 0
	}
}

func (r *ring) count(n int) {
	r.droppedFrames++
	r.droppedBytes += uint64(n)
}

// take empties the ring.
func (r *ring) take() []line {
	lines := make([]line, 0, r.lines)
	at := r.from
	for _, s := range r.segments {
		for at < len(s) {
			n := int(binary.BigEndian.Uint32(s[at:]))
			text := s[at+lineHead : at+lineHead+n]
			lines = append(lines, line{binary.BigEndian.Uint64(s[at+4:]), text})
			at += lineHead + n
		}
		at = 0
	}
	*r = ring{droppedFrames: r.droppedFrames, droppedBytes: r.droppedBytes}
	return lines
}
