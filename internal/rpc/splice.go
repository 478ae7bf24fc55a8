package rpc

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// Edit replaces the range At by With. An empty range inserts.
type Edit struct {
	At   Span
	With []byte
}

// Splice is b with the edits applied, always in a new slice. The edits may come in any order; insertions at one place
// keep theirs. Overlapping or reversed ranges are a programming error and panic.
func Splice(b []byte, edits ...Edit) []byte {
	order := func(x, y Edit) int {
		return cmp.Or(cmp.Compare(x.At.From, y.At.From), cmp.Compare(x.At.To, y.At.To))
	}
	if !slices.IsSortedFunc(edits, order) {
		edits = slices.Clone(edits)
		slices.SortStableFunc(edits, order)
	}
	size, last := len(b), 0
	for _, e := range edits {
		if e.At.From < last || e.At.To < e.At.From || e.At.To > len(b) {
			panic(fmt.Sprintf("rpc: edit of %d..%d overlaps one that ends at %d, in %d bytes", e.At.From, e.At.To, last, len(b)))
		}
		last = e.At.To
		size += len(e.With) - (e.At.To - e.At.From)
	}
	out, last := make([]byte, 0, size), 0
	for _, e := range edits {
		out = append(out, b[last:e.At.From]...)
		out = append(out, e.With...)
		last = e.At.To
	}
	return append(out, b[last:]...)
}

// Pair is a member to set: a decoded key and a raw value.
type Pair struct {
	Key   string
	Value []byte
}

// EditObject is the edits that remove members of the object obj of the validated message b and set others: the value
// of an existing member is replaced, a new member goes behind the last one. A key in both lists is set. Where a
// member occurs several times, all of them are removed or replaced.
func EditObject(b []byte, obj Span, remove []string, set ...Pair) []Edit {
	var edits []Edit
	var before, gap Span // last kept member's value; removed range not yet closed because nothing was kept before it
	done := make([]bool, len(set))
	for m := range Members(b, obj) {
		if gap.Ok() {
			gap.To = m.Key.From
			edits = append(edits, Edit{At: gap})
			gap = Span{}
		}
		at := slices.IndexFunc(set, func(p Pair) bool { return isText(m.Key.Of(b), p.Key) })
		switch {
		case at >= 0:
			edits = append(edits, Edit{At: m.Value, With: set[at].Value})
			done[at] = true
			before = m.Value
		case !slices.ContainsFunc(remove, func(key string) bool { return isText(m.Key.Of(b), key) }):
			before = m.Value
		case before.Ok():
			// The comma in front goes with the member; the next removed one starts where this one ended.
			edits = append(edits, Edit{At: Span{lastEnd(edits, before), m.Value.To}})
		default:
			gap = Span{m.Key.From, m.Value.To}
		}
	}
	if gap.Ok() {
		edits = append(edits, Edit{At: gap})
	}
	if !obj.Ok() || b[obj.From] != '{' {
		return edits
	}
	var added []byte
	for i, p := range set {
		if done[i] || slices.ContainsFunc(set[:i], func(q Pair) bool { return q.Key == p.Key }) {
			continue
		}
		if before.Ok() || len(added) > 0 {
			added = append(added, ',')
		}
		added = append(append(appendQuoted(added, p.Key), ':'), p.Value...)
	}
	if len(added) > 0 {
		at := obj.From + 1
		if before.Ok() {
			at = before.To
		}
		edits = append(edits, Edit{At: Span{at, at}, With: added})
	}
	return edits
}

// lastEnd is where the text behind the last kept value begins that no edit has removed yet.
func lastEnd(edits []Edit, before Span) int {
	if n := len(edits); n > 0 && edits[n-1].At.From >= before.To {
		return edits[n-1].At.To
	}
	return before.To
}

// Member is one member of an object; both spans are raw tokens.
type Member struct{ Key, Value Span }

// Members yields the members of the object obj of b in order. b must have been validated, by Scan or Batch; anything
// but an object yields nothing.
func Members(b []byte, obj Span) iter.Seq[Member] {
	return func(yield func(Member) bool) {
		if !obj.Ok() || b[obj.From] != '{' {
			return
		}
		s := scanner{b: b[:obj.To]}
		i := s.space(obj.From + 1)
		for i < obj.To && b[i] == '"' {
			var m Member
			m.Key = Span{i, s.text(i)}
			m.Value.From = s.space(s.space(m.Key.To) + 1)
			m.Value.To = s.value(m.Value.From, 0, elsewhere)
			if m.Value.To < 0 || !yield(m) {
				return
			}
			i = s.space(s.space(m.Value.To) + 1)
		}
	}
}

// Elements yields the elements of the array arr of b in order. b must have been validated; anything but an array
// yields nothing.
func Elements(b []byte, arr Span) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		if !arr.Ok() || b[arr.From] != '[' {
			return
		}
		s := scanner{b: b[:arr.To]}
		i := s.space(arr.From + 1)
		for i < arr.To && b[i] != ']' {
			e := Span{i, s.value(i, 0, elsewhere)}
			if e.To < 0 || !yield(e) {
				return
			}
			i = s.space(s.space(e.To) + 1)
		}
	}
}

// Find is the value of the member with this decoded key in the object obj of the validated message b, absent when
// there is none. Of several, the last: nearly every decoder takes that one.
func Find(b []byte, obj Span, key string) Span {
	var at Span
	for m := range Members(b, obj) {
		if isText(m.Key.Of(b), key) {
			at = m.Value
		}
	}
	return at
}

// OneLine is b with each raw CR and LF replaced by a space, which is legal only between tokens and changes no value.
// It returns b itself when there is nothing to replace, else a copy: b may be cached or shared.
func OneLine(b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return b
	}
	out := bytes.Clone(b)
	for i, c := range out {
		if c == '\n' || c == '\r' {
			out[i] = ' '
		}
	}
	return out
}
