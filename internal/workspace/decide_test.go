package workspace

import (
	"slices"
	"testing"
)

// TestDecide: DW-37. All 512 combinations of what three sides can have under one path, against an oracle that looks at
// bytes and permission one after the other.
func TestDecide(t *testing.T) {
	kinds := []Entry{
		{Kind: Absent},
		{Kind: File, Digest: "1"},
		{Kind: File, Digest: "2"},
		{Kind: File, Digest: "3"},
		{Kind: File, Digest: "1", Exec: true},
		{Kind: Link, Digest: "a"},
		{Kind: Link, Digest: "b"},
		{Kind: Directory},
	}
	cases := 0
	for _, b := range kinds {
		for _, c := range kinds {
			for _, p := range kinds {
				cases++
				got := Decide(b, c, p)
				if want := oracle(b, c, p); !slices.Contains(want, result(c, p, got)) {
					t.Errorf("BASE %v, CURRENT %v, PROPOSED %v: %+v, that is %v, want one of %v", b, c, p, got, result(c, p, got), want)
				}
				if mirrored := Decide(b, p, c); (mirrored.Action == Clash) != (got.Action == Clash) {
					t.Errorf("BASE %v: %v and %v clash on one side only", b, c, p)
				}
			}
		}
	}
	if cases != 512 {
		t.Errorf("%d cases", cases)
	}
}

// end is what is in the project afterwards; conflict is set, or the digest "merged".
type end struct {
	Entry
	conflict Conflict
}

// result is what a decision comes to.
func result(c, p Entry, d Decision) end {
	switch d.Action {
	case Keep:
		return end{Entry: c}
	case Take:
		return end{Entry: p}
	case Mix:
		e := end{Entry: c}
		if d.Proposed {
			e.Entry = p
		}
		e.Exec = d.Exec
		return e
	case Merge:
		return end{Entry: Entry{Kind: File, Digest: "merged", Exec: d.Exec}}
	case Clash:
		return end{conflict: d.Conflict}
	}
	panic("workspace: unknown action " + string(d.Action))
}

// oracle is what may be there afterwards: whoever alone changed something has it.
func oracle(b, c, p Entry) []end {
	switch {
	case c == b:
		return []end{{Entry: p}}
	case p == b, c == p:
		return []end{{Entry: c}}
	}
	gone := func(e Entry) bool { return e.Kind == Absent }
	if gone(p) {
		return []end{{conflict: ConflictDeleteModify}}
	}
	if gone(c) {
		return []end{{conflict: ConflictModifyDelete}}
	}
	if c.Kind == File && p.Kind == File && (b.Kind == File || gone(b)) {
		exec := p.Exec
		if c.Exec != b.Exec {
			exec = c.Exec
		}
		side := func(x string) []end { return []end{{Entry: Entry{Kind: File, Digest: x, Exec: exec}}} }
		switch {
		case c.Digest == p.Digest:
			return side(c.Digest)
		case gone(b):
			return []end{{conflict: ConflictAddAdd}}
		case c.Digest == b.Digest:
			return side(p.Digest)
		case p.Digest == b.Digest:
			return side(c.Digest)
		}
		return side("merged")
	}
	switch {
	case c.Kind != p.Kind:
		return []end{{conflict: ConflictType}}
	case gone(b):
		return []end{{conflict: ConflictAddAdd}}
	case b.Kind == c.Kind:
		return []end{{conflict: ConflictBinary}}
	}
	return []end{{conflict: ConflictType}}
}

// TestCovers: DW-27. What does not exist is covered by its names, also once somebody has made it.
func TestCovers(t *testing.T) {
	way := func(ids ...string) (all []Node) {
		for _, id := range ids {
			all = append(all, Node{ID: id, Name: "n" + id})
		}
		return all
	}
	out := Scope{Way: way("1", "2"), Missing: []string{"new", "out"}}
	for _, c := range []struct {
		what string
		s    Scope
		want bool
	}{
		{"below it", Scope{Way: way("1", "2"), Missing: []string{"new", "out", "deep"}}, true},
		{"above it", Scope{Way: way("1", "2"), Missing: []string{"new"}}, true},
		{"the directory that it will be in", Scope{Way: way("1", "2")}, true},
		{"beside it", Scope{Way: way("1", "2"), Missing: []string{"new", "other"}}, false},
		{"elsewhere", Scope{Way: way("1", "3"), Missing: []string{"new", "out"}}, false},
		{"the same, once new is made", Scope{Way: append(way("1", "2"), Node{"9", "new"}), Missing: []string{"out"}}, true},
		{"another one, once that is made", Scope{Way: append(way("1", "2"), Node{"9", "other"}), Missing: []string{"out"}}, false},
	} {
		if got := Overlaps(out, c.s); got != c.want || Overlaps(c.s, out) != got {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
