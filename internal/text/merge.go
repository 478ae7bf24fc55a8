package text

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"
)

const (
	// MaxMergeSize is the size in bytes up to which files are merged.
	MaxMergeSize = MaxEditSize
	// MaxMergeLines is how many lines a file that is merged has at most.
	MaxMergeLines = 200_000
)

// Outcome is how a merge ended.
type Outcome string

// The outcomes; their words are those of conflicts (durable-work.md section 4).
const (
	Clean   Outcome = ""
	Overlap Outcome = "TEXT"     // both sides changed the same lines, or lines that touch
	EOLOnly Outcome = "EOL_ONLY" // a side changed nothing but line ends or the byte order mark
	NotText Outcome = "BINARY"   // one of the files is no UTF-8 text, or too large
)

// Merged is what a three-way merge makes of a file.
type Merged struct {
	Outcome Outcome
	After   *File    // when Clean; encoding, byte order mark and line ends are those of the current file
	Regions []Region // when Overlap: where, in order
	Marked  string   // when Overlap: the current text with the three sides of every region, as diff3 shows them
}

// Region is lines that both sides changed, in each of the three files.
type Region struct{ Base, Current, Proposed Lines }

// Lines is the lines From to To, counted from 1. With To = From-1 it is the place before From.
type Lines struct{ From, To int }

// Merge makes the changes from base to proposed in current. It never guesses: two changes that touch, or that would if one
// of them were described at another place where it means the same, are in each other's way unless they are equal.
func Merge(base, current, proposed *File) Merged {
	for _, f := range []*File{base, current, proposed} {
		if f.Encoding != UTF8 || f.Size > MaxMergeSize || f.Lines > MaxMergeLines {
			return Merged{Outcome: NotText}
		}
	}
	switch texts := [...][]byte{base.Text(), current.Text(), proposed.Text()}; {
	case bytes.Equal(current.raw, base.raw):
		return Merged{After: proposed}
	case bytes.Equal(current.raw, proposed.raw), bytes.Equal(proposed.raw, base.raw):
		return Merged{After: current}
	case bytes.Equal(texts[1], texts[2]), bytes.Equal(texts[0], texts[2]):
		return Merged{Outcome: EOLOnly}
	}
	m := newMerger(base, current, proposed)
	m.decide()
	if len(m.clashes()) == 0 {
		raw, err := m.splice()
		if err != nil {
			return Merged{Outcome: NotText}
		}
		if after := Parse(raw); after.Encoding == UTF8 && string(after.Text()) == m.otherWay() {
			return Merged{After: after}
		}
		m.decided = []decision{{clash, Region{linesOf(0, base.Lines), linesOf(0, current.Lines), linesOf(0, proposed.Lines)}}}
	}
	return Merged{Outcome: Overlap, Regions: m.clashes(), Marked: m.marked()}
}

// linesOf is the lines from to, counted from 0, the end excluded.
func linesOf(from, to int) Lines { return Lines{from + 1, to} }

// side is one of the two changed files.
type side struct {
	part
	changes []change // from base
	reach   [][2]int // of every change: the lines of base at which it could be described as well, the ends included
	done    int      // changes that are in regions before
	shift   int      // by how many lines they moved what follows
}

// merger goes through the regions of a merge. In a region every change touches another one.
type merger struct {
	*splicer          // of the current file
	base              part
	current, proposed side
	decided           []decision
}

// decision is what becomes of a region.
type decision struct {
	verdict
	Region
}

type verdict int

const (
	ours   verdict = iota // changed in the current file, or alike in both
	theirs                // changed in the proposal alone
	clash
)

func newMerger(base, current, proposed *File) *merger {
	m := &merger{splicer: newSplicer(current), base: whole(base)}
	m.current.part, m.proposed.part = whole(current), whole(proposed)
	all := number(&m.base, &m.current.part, &m.proposed.part)
	for i, s := range []*side{&m.current, &m.proposed} {
		s.changes = differ(all[0], all[i+1])
		s.reach = reaches(s.changes, all[0], all[i+1])
	}
	return m
}

func whole(f *File) part {
	text := string(f.Text())
	return split(text, 0, len(text), 0)
}

// reaches is how far the changes reach: to the next lines that both texts have once, because between those the same change
// could be described in another way.
func reaches(changes []change, base, other []rune) [][2]int {
	all := make([][2]int, len(changes))
	fixed := anchors(base, other)
	at := 0 // of fixed: the first one that is not before the change
	for i, c := range changes {
		for at < len(fixed) && fixed[at][0] < c.a0 {
			at++
		}
		if all[i] = [2]int{0, len(base)}; at > 0 {
			all[i][0] = fixed[at-1][0] + 1
		}
		if next := at + sort.Search(len(fixed)-at, func(n int) bool { return fixed[at+n][0] >= c.a1 }); next < len(fixed) {
			all[i][1] = fixed[next][0]
		}
	}
	return all
}

// decide goes through the changes of both sides in their order and decides about those that touch together.
func (m *merger) decide() {
	for m.current.more() || m.proposed.more() {
		mine, its := m.current.done, m.proposed.done
		for end := math.MaxInt; ; {
			s := &m.current
			if m.proposed.next() < s.next() {
				s = &m.proposed
			}
			if !s.more() || s.next() > end {
				break
			}
			if end == math.MaxInt { // the first one
				end = 0
			}
			end = max(end, s.reach[s.done][1])
			s.done++
		}
		m.region(m.current.changes[mine:m.current.done], m.proposed.changes[its:m.proposed.done])
	}
}

// more says whether there are changes that are in no region yet, and next where the first of them begins.
func (s *side) more() bool { return s.done < len(s.changes) }

func (s *side) next() int {
	if !s.more() {
		return math.MaxInt
	}
	return s.reach[s.done][0]
}

// region decides about the changes of the two sides that touch.
func (m *merger) region(mine, its []change) {
	all := slices.Concat(mine, its)
	from := slices.MinFunc(all, func(a, b change) int { return cmp.Compare(a.a0, b.a0) }).a0
	to := slices.MaxFunc(all, func(a, b change) int { return cmp.Compare(a.a1, b.a1) }).a1
	c0, c1 := m.current.over(mine, from, to)
	p0, p1 := m.proposed.over(its, from, to)
	r := Region{linesOf(from, to), linesOf(c0, c1), linesOf(p0, p1)}
	d := decision{ours, r}
	switch other := m.proposed.between(p0, p1); {
	case len(mine) == 0:
		d.verdict = theirs
		m.put(m.current.offset(c0), m.current.offset(c1), other)
	case len(its) > 0 && m.current.between(c0, c1) != other:
		d.verdict = clash
	}
	m.decided = append(m.decided, d)
}

func (m *merger) clashes() []Region {
	var all []Region
	for _, d := range m.decided {
		if d.verdict == clash {
			all = append(all, d.Region)
		}
	}
	return all
}

// over is where lines of base are in the file, whose next changes these are.
func (s *side) over(changes []change, from, to int) (start, end int) {
	start = from + s.shift
	for _, c := range changes {
		s.shift += c.b1 - c.b0 - (c.a1 - c.a0)
	}
	return start, to + s.shift
}

// between is the text of the lines from to, counted from 0.
func (p *part) between(from, to int) string { return p.text[p.offset(from):p.offset(to)] }

// otherWay is the text that the changes of the current file make of the proposal. It must be the one that the changes of the
// proposal make of the current file.
func (m *merger) otherWay() string {
	var out strings.Builder
	at := 0
	for _, d := range m.decided {
		if d.verdict == ours {
			out.WriteString(m.proposed.between(at, d.Proposed.From-1))
			out.WriteString(m.current.between(d.Current.From-1, d.Current.To))
			at = d.Proposed.To
		}
	}
	out.WriteString(m.proposed.between(at, len(m.proposed.starts)-1))
	return out.String()
}

// marked is the merge with all three sides where they clash.
func (m *merger) marked() string {
	var out strings.Builder
	at := 0
	for _, d := range m.decided {
		out.WriteString(m.current.between(at, d.Current.From-1))
		at = d.Current.To
		switch d.verdict {
		case ours:
			out.WriteString(m.current.between(d.Current.From-1, at))
		case theirs:
			out.WriteString(m.proposed.between(d.Proposed.From-1, d.Proposed.To))
		case clash:
			markLines(&out, "<<<<<<< current", &m.current.part, d.Current)
			markLines(&out, "||||||| base", &m.base, d.Base)
			markLines(&out, "=======", &m.proposed.part, d.Proposed)
			out.WriteString(">>>>>>> proposed\n")
		}
	}
	out.WriteString(m.current.between(at, len(m.current.starts)-1))
	return out.String()
}

func markLines(out *strings.Builder, mark string, p *part, l Lines) {
	out.WriteString(mark + "\n")
	text := p.between(l.From-1, l.To)
	if out.WriteString(text); text != "" && !strings.HasSuffix(text, "\n") {
		out.WriteByte('\n')
	}
}
