package text

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// contextLines is how many lines a diff shows around a change.
const contextLines = 3

// Diff is the unified diff of two files, for people and models; empty when their texts are equal. Line ends are shown, as a
// \r before the line break, only when the two files are not of one and the same style.
func Diff(fromName, toName string, before, after *File) string {
	if before.Encoding == Binary || after.Encoding == Binary {
		if bytes.Equal(before.raw, after.raw) {
			return ""
		}
		return fmt.Sprintf("Binary files %s and %s differ\n", DiffName(fromName), DiffName(toName))
	}
	d := compareFiles(before, after)
	if len(d.changes) == 0 {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", DiffName(fromName), DiffName(toName))
	d.write(&out)
	return out.String()
}

// DiffName is a path on one line of a diff: a line break in the name of a directory would look like lines of the file.
func DiffName(path string) string {
	if quoted := strconv.Quote(path); quoted[1:len(quoted)-1] != path {
		return quoted
	}
	return path
}

// countLines is how many lines of after are new and how many of before are gone; 0 when one of them is binary.
func countLines(before, after *File) (added, removed int) {
	if before.Encoding == Binary || after.Encoding == Binary {
		return 0, 0
	}
	for _, c := range compareFiles(before, after).changes {
		added, removed = added+c.b1-c.b0, removed+c.a1-c.a0
	}
	return added, removed
}

func compareFiles(before, after *File) *difference {
	plain := before.EOL.Style == after.EOL.Style && before.EOL.Style != StyleMixed
	if before.EOL.Style == StyleNone || after.EOL.Style == StyleNone {
		plain = before.EOL.Style != StyleMixed && after.EOL.Style != StyleMixed
	}
	return compare(shown(before, plain), shown(after, plain))
}

// shown is the text of a file for a diff, plain or with the CR of its line ends.
func shown(f *File, plain bool) string {
	switch {
	case plain:
		return string(f.Text())
	case f.EOL.Style == StyleCR:
		return strings.ReplaceAll(string(f.decoded()), "\r", "\r\n")
	default:
		return string(f.decoded())
	}
}

// change is lines a0 to a1 of one text that became b0 to b1 of the other, counted from 0, the ends excluded.
type change struct{ a0, a1, b0, b1 int }

// difference is two texts and how one becomes the other.
type difference struct {
	before, after part
	changes       []change // by the lines of the whole text
}

// part is the lines of a text that are compared, and some more. skip lines lie before them.
type part struct {
	text   string
	skip   int
	starts []int // of the lines, and the end of the last one
}

// offset is where a line of the whole text begins.
func (p *part) offset(line int) int { return p.starts[line-p.skip] }

// line is a line of the whole text with its line end.
func (p *part) line(i int) string { return p.text[p.offset(i):p.offset(i+1)] }

// compare finds what differs, not always the least, in a time that does not grow with the square of the texts.
func compare(before, after string) *difference {
	head, tail := equalEnds(before, after)
	skip := strings.Count(before[:head], "\n")
	d := &difference{
		before: split(before, head, len(before)-tail, skip),
		after:  split(after, head, len(after)-tail, skip),
	}
	n := number(&d.before, &d.after)
	d.changes = differ(n[0], n[1])
	for i := range d.changes {
		c := &d.changes[i]
		c.a0, c.a1, c.b0, c.b1 = c.a0+skip, c.a1+skip, c.b0+skip, c.b1+skip
	}
	return d
}

// equalEnds is how many bytes of whole lines are equal at the beginning and at the end, without those a diff shows around a
// change.
func equalEnds(a, b string) (head, tail int) {
	n := min(len(a), len(b))
	for head < n && a[head] == b[head] {
		head++
	}
	if head == len(a) && head == len(b) {
		return head, 0
	}
	for range contextLines + 1 { // the first step goes to the beginning of a line
		head = strings.LastIndexByte(a[:max(head-1, 0)], '\n') + 1
	}
	for tail < n-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	for range contextLines + 1 {
		i := strings.IndexByte(a[len(a)-tail:], '\n')
		if i < 0 {
			return head, 0
		}
		tail -= i + 1
	}
	return head, tail
}

// split finds the lines between two bytes of a text.
func split(text string, from, to, skip int) part {
	p := part{text: text, skip: skip, starts: make([]int, 1, 2+strings.Count(text[from:to], "\n"))}
	p.starts[0] = from
	for from < to {
		if i := strings.IndexByte(text[from:to], '\n'); i >= 0 {
			from += i + 1
		} else {
			from = to
		}
		p.starts = append(p.starts, from)
	}
	return p
}

// number gives equal lines equal numbers, from 0 on.
func number(parts ...*part) [][]rune {
	numbers := map[string]rune{}
	all := make([][]rune, len(parts))
	for k, p := range parts {
		all[k] = make([]rune, len(p.starts)-1)
		for i := range all[k] {
			line := p.text[p.starts[i]:p.starts[i+1]]
			n, seen := numbers[line]
			if !seen {
				n = rune(len(numbers))
				numbers[line] = n
			}
			all[k][i] = n
		}
	}
	return all
}

// differ finds the lines that both texts have once and in the same order, as many as there are, and compares what is
// between them.
func differ(a, b []rune) []change {
	var changes []change
	x, y := 0, 0
	for _, anchor := range append(anchors(a, b), [2]int{len(a), len(b)}) {
		for _, d := range between(a[x:anchor[0]], b[y:anchor[1]]) {
			changes = append(changes, change{x + d.Start, x + d.End, y + d.ReplStart, y + d.ReplEnd})
		}
		x, y = anchor[0]+1, anchor[1]+1
	}
	return changes
}

// between compares without anchors. lcs gives up the least result after 100 lines and stays linear.
func between(a, b []rune) []lcs.Diff {
	const most = 1 << 24 // more lines than lcs can count
	switch {
	case len(a)+len(b) == 0:
		return nil
	case len(a) == 0 || len(b) == 0 || len(a)+len(b) > most:
		return []lcs.Diff{{End: len(a), ReplEnd: len(b)}}
	default:
		return lcs.DiffRunes(a, b)
	}
}

// anchors is the longest sequence of lines that are in a once, in b once, and in the same order in both.
func anchors(a, b []rune) [][2]int {
	const many = -2
	inA := make([]int, maxNumber(a, b)+1) // by line: where it is in a, -1 nowhere
	inB := slices.Clone(inA)
	for _, side := range []struct {
		lines []rune
		at    []int
	}{{a, inA}, {b, inB}} {
		for i := range side.at {
			side.at[i] = -1
		}
		for i, line := range side.lines {
			if side.at[line] == -1 {
				side.at[line] = i
			} else {
				side.at[line] = many
			}
		}
	}
	var pairs [][2]int
	for i, line := range a {
		if inA[line] == i && inB[line] >= 0 {
			pairs = append(pairs, [2]int{i, inB[line]})
		}
	}
	return rising(pairs)
}

func maxNumber(a, b []rune) rune {
	most := rune(0)
	for _, lines := range [][]rune{a, b} {
		if len(lines) > 0 {
			most = max(most, slices.Max(lines))
		}
	}
	return most
}

// rising is the longest part of pairs, which rise in the first number, that rises in the second one, too.
func rising(pairs [][2]int) [][2]int {
	var tops []int // by length: the pair with the least second number that ends so long a sequence
	before := make([]int, len(pairs))
	for i, p := range pairs {
		n := sort.Search(len(tops), func(n int) bool { return pairs[tops[n]][1] > p[1] })
		if before[i] = -1; n > 0 {
			before[i] = tops[n-1]
		}
		if n == len(tops) {
			tops = append(tops, i)
		} else {
			tops[n] = i
		}
	}
	if len(tops) == 0 {
		return nil
	}
	longest := make([][2]int, len(tops))
	for i, n := tops[len(tops)-1], len(tops)-1; i >= 0; i, n = before[i], n-1 {
		longest[n] = pairs[i]
	}
	return longest
}

// write writes the hunks.
func (d *difference) write(out *strings.Builder) {
	for len(d.changes) > 0 {
		n := 1
		for n < len(d.changes) && d.changes[n].a0-d.changes[n-1].a1 <= 2*contextLines {
			n++
		}
		d.writeHunk(out, d.changes[:n])
		d.changes = d.changes[n:]
	}
}

func (d *difference) writeHunk(out *strings.Builder, changes []change) {
	first, last := changes[0], changes[len(changes)-1]
	before := min(contextLines, first.a0-d.before.skip)
	after := min(contextLines, d.before.skip+len(d.before.starts)-1-last.a1)
	fmt.Fprintf(out, "@@ -%s +%s @@\n", hunkRange(first.a0-before, last.a1+after), hunkRange(first.b0-before, last.b1+after))
	at := first.a0 - before
	for _, c := range changes {
		writeLines(out, ' ', &d.before, at, c.a0)
		writeLines(out, '-', &d.before, c.a0, c.a1)
		writeLines(out, '+', &d.after, c.b0, c.b1)
		at = c.a1
	}
	writeLines(out, ' ', &d.before, at, last.a1+after)
}

// hunkRange is how diff writes lines from to, counted from 0: no lines are after the one before them.
func hunkRange(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(from + 1)
	default:
		return fmt.Sprintf("%d,%d", from+1, to-from)
	}
}

func writeLines(out *strings.Builder, sign byte, p *part, from, to int) {
	for i := from; i < to; i++ {
		line := p.line(i)
		out.WriteByte(sign)
		out.WriteString(line)
		if !strings.HasSuffix(line, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}
