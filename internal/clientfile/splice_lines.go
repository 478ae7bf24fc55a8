package clientfile

import (
	"bytes"
	"slices"
	"sort"
	"strings"
)

// page is a file as lines. One whose last line does not end gets an end here, which spans leave out again.
type page struct {
	data   []byte
	length int   // of the file; data may be longer by the end of its last line
	base   int   // where the text begins, behind a byte order mark
	starts []int // of the lines, and the end
	edits  []edit
	ended  bool // the last line keeps its end also when it becomes the last one of a file whose last line has none
}

// edit is one replaced range of a page.
type edit struct {
	start, end int
	text       string
	lead       string // the newline of a blank line in front, unless one is there or nothing is
	trail      string // the newline of a blank line behind, unless one is there or nothing is
}

// newPage finds the lines; ends gives the length of the line break at the front of its argument, 0 for none.
func newPage(data []byte, ends func([]byte) int) *page {
	p := &page{data: data, length: len(data)}
	if bytes.HasPrefix(data, byteOrderMark) {
		p.base = len(byteOrderMark)
	}
	p.starts = []int{p.base}
	last := "\n"
	for i := p.base; i < len(data); {
		n := ends(data[i:])
		if n == 0 {
			i++
			continue
		}
		if data[i] == '\r' || data[i] == '\n' {
			last = string(data[i : i+n])
		}
		i += n
		p.starts = append(p.starts, i)
	}
	if p.starts[len(p.starts)-1] < len(data) {
		p.data = append(slices.Clip(data), last...)
		p.starts = append(p.starts, len(p.data))
	}
	return p
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }

// lineFeeds are the line breaks of TOML: LF, and CR LF.
func lineFeeds(b []byte) int {
	if b[0] == '\n' {
		return 1
	}
	if b[0] == '\r' && len(b) > 1 && b[1] == '\n' {
		return 2
	}
	return 0
}

func (p *page) count() int { return len(p.starts) - 1 }

// line is the number of the line of an offset.
func (p *page) line(offset int) int {
	return min(max(sort.SearchInts(p.starts, offset+1)-1, 0), max(p.count()-1, 0))
}

// whole is a line with its end; "" for one that is not there.
func (p *page) whole(line int) []byte {
	if line < 0 || line >= p.count() {
		return nil
	}
	return p.data[p.starts[line]:p.starts[line+1]]
}

func (p *page) blank(line int) bool { return len(bytes.TrimSpace(p.whole(line))) == 0 }

// comment says whether a line holds nothing but a comment, and how far that is indented.
func (p *page) comment(line int) (indent int, ok bool) {
	b := p.whole(line)
	t := bytes.TrimLeft(b, " \t")
	return len(b) - len(t), len(t) > 0 && t[0] == '#'
}

// indent is the space in front of a line.
func (p *page) indent(line int) string {
	b := p.whole(line)
	return string(b[:len(b)-len(bytes.TrimLeft(b, " \t"))])
}

// begins says whether nothing but space stands before an offset on its line.
func (p *page) begins(offset int) bool {
	return len(bytes.TrimLeft(p.data[p.starts[p.line(offset)]:offset], " \t")) == 0
}

// newline is the end of a line, or of the first one if there is no such line.
func (p *page) newline(line int) string {
	if line < 0 || line >= p.count() {
		line = 0
	}
	b := p.whole(line)
	switch {
	case bytes.HasSuffix(b, []byte("\r\n")):
		return "\r\n"
	case bytes.HasSuffix(b, []byte("\r")):
		return "\r"
	}
	return "\n"
}

// after is where the next line begins.
func (p *page) after(line int) int { return p.starts[min(max(line+1, 0), p.count())] }

// replace puts text in the place of a range. A comment that follows at once is kept off, in YAML it would be none otherwise.
func (p *page) replace(start, end int, text string) {
	if end < p.length && p.data[end] == '#' && end > p.base && !isSpace(p.data[end-1]) {
		text += " "
	}
	p.edits = append(p.edits, edit{start: start, end: end, text: text})
}

// insert puts lines behind a line; -1 is the beginning of the file.
func (p *page) insert(line int, lines []string) *edit {
	nl, at := p.newline(line), p.after(line)
	p.edits = append(p.edits, edit{start: at, end: at, text: strings.Join(lines, nl) + nl})
	return &p.edits[len(p.edits)-1]
}

// above is the first line of the comment above a line, down to floor. A comment that opens the file belongs to the file.
func (p *page) above(line, floor int, belongs func(indent int) bool) int {
	first := line
	for first > floor {
		if indent, ok := p.comment(first - 1); !ok || !belongs(indent) {
			break
		}
		first--
	}
	if first == 0 {
		return line
	}
	return first
}

// drop removes lines. Of blank lines on both sides, those above go, too, but none above floor.
func (p *page) drop(first, last, floor int, end bool) {
	start, behind := p.starts[first], p.after(last)
	switch {
	case first > floor && p.blank(first-1) && (end || last+1 >= p.count() || p.blank(last+1)):
		for first > floor && p.blank(first-1) {
			first--
		}
		start = p.starts[first]
	case first == 0 && !slices.ContainsFunc(p.edits, func(e edit) bool { return e.start == behind && e.text != "" }):
		for last+1 < p.count() && p.blank(last+1) {
			last++
		}
		behind = p.after(last)
	}
	p.replace(start, behind, "")
}

// spans gives the edits as spans of the file: in order, those that touch as one.
func (p *page) spans() []span {
	slices.SortStableFunc(p.edits, func(a, b edit) int { return a.start - b.start })
	var out []span
	trail := ""
	flush := func() {
		if len(out) == 0 {
			return
		}
		s := &out[len(out)-1]
		if trail != "" && s.end < len(p.data) && !p.blank(p.line(s.end)) {
			s.text = append(s.text, trail...)
		}
	}
	for _, e := range p.edits {
		if len(out) == 0 || e.start > out[len(out)-1].end {
			flush()
			out = append(out, span{start: e.start, end: e.start})
		}
		s := &out[len(out)-1]
		if e.lead != "" {
			before := s.text
			if len(before) == 0 {
				before = p.data[p.base:s.start]
			}
			if len(before) > 0 && !endsBlank(before) {
				s.text = append(s.text, e.lead...)
			}
		}
		s.text = append(s.text, e.text...)
		if e.text != "" {
			trail = e.trail
		}
		s.end = max(s.end, e.end)
	}
	flush()
	return p.fit(out)
}

// endsBlank says whether the last line of b is blank.
func endsBlank(b []byte) bool {
	b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
	i := bytes.LastIndexAny(b, "\r\n")
	return len(bytes.TrimSpace(b[i+1:])) == 0
}

// fit leaves out the line end that the page has and the file has not, and says what kind each span is.
func (p *page) fit(spans []span) []span {
	if n := len(spans); n > 0 && len(p.data) > p.length && spans[n-1].end > p.length {
		s := &spans[n-1]
		added := string(p.data[p.length:])
		switch {
		case s.start > p.length: // behind the last line
			s.start = p.length
			s.text = append([]byte(added), s.text[:len(s.text)-len(lineEnd(s.text))]...)
		case len(s.text) > 0:
			s.text = s.text[:len(s.text)-len(lineEnd(s.text))]
		case !p.ended: // the line before is the last one now, and does not end
			s.start -= len(lineEnd(p.data[p.base:s.start]))
		}
		s.end = p.length
	}
	out := spans[:0]
	for _, s := range spans {
		switch {
		case bytes.Equal(s.text, p.data[s.start:s.end]):
			continue
		case s.start == s.end:
			s.kind = spanInsert
		case len(s.text) == 0:
			s.kind = spanRemove
		default:
			s.kind = spanReplace
		}
		out = append(out, s)
	}
	return out
}

func lineEnd(b []byte) []byte {
	for _, end := range []string{"\r\n", "\n", "\r"} {
		if bytes.HasSuffix(b, []byte(end)) {
			return b[len(b)-len(end):]
		}
	}
	return nil
}

// part is a member or an item between brackets.
type part struct {
	start, end int
	gone       bool
	loose      bool // it ends in a colon or a tag, behind which nothing is
}

// bracketed edits what stands between brackets: open is the offset of the first one, behind is after the last one.
// Pad goes between the brackets and the members of what was empty.
func (p *page) bracketed(open, behind int, parts []part, fresh []string, pad string) {
	keep := -1 // the last one that stays
	for i, m := range parts {
		if !m.gone {
			keep = i
		}
	}
	if len(parts) == 0 {
		switch {
		case len(fresh) == 0:
		case bytes.ContainsRune(p.data[open:behind], '#'):
			p.replace(open+1, open+1, pad+strings.Join(fresh, ", "))
		default:
			p.replace(open+1, behind-1, pad+strings.Join(fresh, ", ")+pad)
		}
		return
	}
	last := parts[len(parts)-1]
	rows := p.rows(parts, behind)
	switch {
	case keep < 0 && len(fresh) == 0:
		p.replace(open+1, behind-1, "")
	case keep < 0:
		separator := ", "
		if rows {
			line := p.line(parts[0].start)
			separator = "," + p.newline(line) + p.indent(line)
		}
		p.replace(parts[0].start, last.end, strings.Join(fresh, separator))
	case rows:
		p.bracketedRows(open, parts, fresh, keep)
	default:
		for i, m := range parts[:keep] {
			if m.gone {
				p.replace(m.start, parts[i+1].start, "")
			}
		}
		separator := ", "
		if len(parts) > 1 {
			between := string(p.data[parts[0].end:parts[1].start])
			if strings.Trim(between, " ") == "," {
				separator = between
			}
		}
		text := ""
		for _, f := range fresh {
			text += separator + f
		}
		if keep < len(parts)-1 || text != "" {
			text = parts[keep].apart() + text
			p.replace(parts[keep].end, last.end, text)
		}
	}
}

// apart keeps what follows off the end of a part, where they would be one word.
func (m part) apart() string {
	if m.loose {
		return " "
	}
	return ""
}

// rows says whether each part has lines of its own, with its comma on the last of them.
func (p *page) rows(parts []part, behind int) bool {
	for i, m := range parts {
		next := behind - 1
		if i+1 < len(parts) {
			next = parts[i+1].start
			if p.comma(m.end) < 0 {
				return false
			}
		}
		if !p.begins(m.start) || p.line(next) == p.line(m.end) || !p.begins(next) {
			return false
		}
	}
	return true
}

// comma is the place of the comma that follows on the same line, -1 for none.
func (p *page) comma(at int) int {
	for at < len(p.data) && (p.data[at] == ' ' || p.data[at] == '\t') {
		at++
	}
	if at < len(p.data) && p.data[at] == ',' {
		return at
	}
	return -1
}

func (p *page) bracketedRows(open int, parts []part, fresh []string, keep int) {
	last := parts[len(parts)-1]
	line := p.line(last.end)
	ended := p.comma(last.end) >= 0
	if comma := p.comma(parts[keep].end); comma < 0 && len(fresh) > 0 {
		p.replace(parts[keep].end, parts[keep].end, parts[keep].apart()+",")
	} else if comma >= 0 && !ended && len(fresh) == 0 {
		p.replace(comma, comma+1, "")
	}
	floor := p.line(open) + 1
	for i, m := range parts {
		if i > 0 {
			floor = p.line(parts[i-1].end) + 1
		}
		if m.gone {
			first := p.above(p.line(m.start), floor, func(int) bool { return true })
			p.drop(first, p.line(m.end), floor, false)
		}
	}
	lines := make([]string, len(fresh))
	for i, f := range fresh {
		lines[i] = p.indent(p.line(parts[0].start)) + f
		if ended || i < len(fresh)-1 {
			lines[i] += ","
		}
	}
	if len(lines) > 0 {
		p.insert(line, lines)
	}
}
