package text

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

// Next is the window that continues one: by lines when FromLine is set, else by bytes.
type Next struct {
	FromLine int
	FromByte int64
	Bytes    int // with FromByte
}

// Args is the arguments of read_file that ask for the window.
func (n *Next) Args() map[string]any {
	if n.FromLine > 0 {
		return map[string]any{"from_line": n.FromLine}
	}
	return map[string]any{"from_byte": n.FromByte, "bytes": n.Bytes}
}

// Window is a part of a file. Its ranges are inclusive, so ToLine and ToByte of an empty one lie before their From.
type Window struct {
	FromLine, ToLine int   // the lines of which it holds a part; 0 in a window of raw bytes
	FromByte, ToByte int64 // raw
	Text             string
	Raw              []byte // only from RawWindow
	LineContinues    bool   // it ends within a line
	More             bool   // the file goes on
	Next             *Next  // with More
}

// LineWindow is count lines beginning with line from, as many whole ones as fit into budget bytes of text. A first line that
// does not fit is split between two characters; one is returned also if budget is less.
// The file is read from r, which must be what x was made from; an error that is no Problem is of r.
func (x *Index) LineWindow(r io.ReaderAt, from, count, budget int) (*Window, error) {
	next := &Next{FromLine: from}
	if err := x.checkWindow(budget, next); err != nil {
		return nil, err
	}
	if from < 1 || count < 1 || from > max(x.Lines, 1) {
		return nil, problem(CodeRange, map[string]any{"lines_total": x.Lines}, "the file has %d lines", x.Lines)
	}
	start, err := x.lineStart(r, from-1)
	if err != nil {
		return nil, err
	}
	c := &cutter{x: x, start: start, budget: budget, lines: count, limit: x.Size}
	if err := c.cut(r); err != nil {
		return nil, err
	}
	if c.end < x.Size && c.whole.ends > 0 {
		c.position = c.whole
	}
	return x.window(r, c, from, budget)
}

// ByteWindow is the characters that lie in count raw bytes beginning with byte from, as many as fit into budget bytes of text,
// and at least one. It begins with the character in which from lies and ends before the one that count cuts, so
// adjacent windows join; CR LF and the byte order mark are one character each. r and errors are as for LineWindow.
func (x *Index) ByteWindow(r io.ReaderAt, from int64, count, budget int) (*Window, error) {
	if err := x.checkWindow(budget, &Next{FromByte: from, Bytes: count}); err != nil {
		return nil, err
	}
	if err := checkBytes(x.Size, from, count); err != nil {
		return nil, err
	}
	start, err := x.characterStart(r, from)
	if err != nil {
		return nil, err
	}
	line, err := x.lineOf(r, start)
	if err != nil {
		return nil, err
	}
	c := &cutter{x: x, start: start, budget: budget, limit: from + min(int64(count), x.Size-from)}
	if err := c.cut(r); err != nil {
		return nil, err
	}
	return x.window(r, c, line+1, budget)
}

// RawWindow is count bytes of a file of any kind beginning with byte from, as many as fit into budget bytes of base64, and
// at least three.
func RawWindow(r io.ReaderAt, size, from int64, count, budget int) (*Window, error) {
	if budget < 1 {
		return nil, noBudget(&Next{FromByte: from, Bytes: count})
	}
	if err := checkBytes(size, from, count); err != nil {
		return nil, err
	}
	b, err := readAt(r, size, from, min(count, max(budget/4*3, 3)))
	if err != nil {
		return nil, err
	}
	end := from + int64(len(b))
	w := &Window{FromByte: from, ToByte: end - 1, Raw: b, More: end < size}
	if w.More {
		w.Next = &Next{FromByte: end, Bytes: count}
	}
	return w, nil
}

func (x *Index) checkWindow(budget int, next *Next) error {
	if x.Encoding == Binary {
		return problem(CodeEncoding, map[string]any{"encoding": Binary}, "the file is binary: read it as base64")
	}
	if budget < 1 {
		return noBudget(next)
	}
	return nil
}

func noBudget(next *Next) error {
	return problem(CodeBudget, map[string]any{"next": next.Args()}, "the bytes of this call are used up: ask for the next window")
}

func checkBytes(size, from int64, count int) error {
	if from < 0 || count < 1 || from >= max(size, 1) {
		return problem(CodeRange, map[string]any{"size": size}, "the file has %d bytes", size)
	}
	return nil
}

// window describes what c has cut, which begins in line from.
func (x *Index) window(r io.ReaderAt, c *cutter, from, budget int) (*Window, error) {
	w := &Window{
		FromLine: from, ToLine: from + c.ends, FromByte: c.start, ToByte: c.end - 1,
		Text: string(c.text[:c.length]), More: c.end < x.Size,
	}
	if c.atLineStart {
		w.ToLine--
	}
	if !w.More {
		return w, nil
	}
	if c.atLineStart {
		w.Next = &Next{FromLine: w.ToLine + 1}
		return w, nil
	}
	w.LineContinues = true
	rest, err := x.restOfLine(r, c.end, budget)
	w.Next = &Next{FromByte: c.end, Bytes: rest}
	return w, err
}

// position is a place between two characters that a cutter has come to.
type position struct {
	end         int64 // raw
	length      int   // of the text
	ends        int   // line ends before it
	atLineStart bool
}

// cutter takes characters from start on until one does not fit.
type cutter struct {
	x      *Index
	start  int64
	budget int   // bytes of text
	lines  int   // line ends; 0 for any number
	limit  int64 // where raw bytes end
	text   []byte
	position
	whole position // after the last line end
}

// cut reads no more than the budget can need: a byte of text is at most 4 raw ones, an empty line in UTF-16.
func (c *cutter) cut(r io.ReaderAt) error {
	need := min(c.limit-c.start, 4*min(int64(c.budget), c.x.Size))
	raw, err := readAt(r, c.x.Size, c.start, int(need)+8)
	if err != nil {
		return err
	}
	// An empty part of a file is the beginning of its first line, or of none.
	c.position = position{end: c.start, atLineStart: c.x.Size <= int64(len(c.x.bom()))}
	for len(raw) > 0 && (c.lines == 0 || c.ends < c.lines) {
		r, size := c.x.character(raw, c.end)
		text := c.length
		if r >= 0 {
			text += utf8.RuneLen(r)
		}
		if c.end > c.start && (text > c.budget || c.end+int64(size) > c.limit) {
			break
		}
		if c.end += int64(size); r >= 0 {
			c.text = utf8.AppendRune(c.text, r)
			c.atLineStart = r == '\n'
		}
		c.length = text
		if raw = raw[size:]; r == '\n' {
			c.ends++
			c.whole = c.position
		}
	}
	return nil
}

// character is the first character of raw, which lies at offset, with \n for a line end and -1 for the byte order mark, and
// its length in raw bytes.
func (x *Index) character(raw []byte, offset int64) (rune, int) {
	if offset == 0 && x.BOM {
		return -1, len(x.bom())
	}
	r, size := decode(raw, x.Encoding)
	if r != '\r' {
		return r, size
	}
	if x.EOL.Style == StyleCR {
		return '\n', size
	}
	if len(raw) > size {
		if after, more := decode(raw[size:], x.Encoding); after == '\n' {
			return '\n', size + more
		}
	}
	return '\r', size
}

// width is the size of a code unit in bytes.
func (x *Index) width() int64 {
	if x.Encoding == UTF8 {
		return 1
	}
	return 2
}

// characterStart is where the character begins in which the byte at offset lies.
func (x *Index) characterStart(r io.ReaderAt, offset int64) (int64, error) {
	bom := int64(len(x.bom()))
	if offset < bom {
		return 0, nil
	}
	start := max(bom, offset/x.width()*x.width()-4)
	b, err := readAt(r, x.Size, start, int(offset-start)+4)
	if err != nil {
		return 0, err
	}
	if x.Encoding == UTF8 {
		for len(b) > 0 && !utf8.RuneStart(b[0]) {
			b, start = b[1:], start+1
		}
	} else if start > bom && len(b) >= 2 && isLowSurrogate(unit(b, x.Encoding)) {
		b, start = b[2:], start+2
	}
	for len(b) > 0 {
		_, size := x.character(b, start)
		if start+int64(size) > offset {
			break
		}
		b, start = b[size:], start+int64(size)
	}
	return start, nil
}

func isLowSurrogate(u rune) bool { return u >= 0xdc00 && u <= 0xdfff }

// before is the last mark that does not lie behind what behind says.
func (x *Index) before(behind func(mark) bool) mark {
	low, high := 0, len(x.marks)
	for low < high {
		if middle := (low + high) / 2; behind(x.marks[middle]) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	if low == 0 {
		return mark{}
	}
	return x.marks[low-1]
}

// lineStart is the offset of the line that has so many line ends before it.
func (x *Index) lineStart(r io.ReaderAt, ends int) (int64, error) {
	m := x.before(func(m mark) bool { return m.ends > ends })
	for m.ends < ends {
		b, err := readAt(r, x.Size, m.offset, blockSize)
		if err != nil {
			return 0, err
		}
		if len(b) == 0 {
			return 0, errChanged
		}
		at := 0
		for m.ends < ends {
			end := x.nextEnd(b[at:])
			if end < 0 {
				at = len(b)
				break
			}
			at, m.ends = at+end, m.ends+1
		}
		m.offset += int64(at)
	}
	return m.offset, nil
}

// lineOf is the number of line ends before offset.
func (x *Index) lineOf(r io.ReaderAt, offset int64) (int, error) {
	m := x.before(func(m mark) bool { return m.offset > offset })
	for m.offset < offset {
		b, err := readAt(r, x.Size, m.offset, int(min(blockSize, offset-m.offset)))
		if err != nil {
			return 0, err
		}
		if len(b) == 0 {
			return 0, errChanged
		}
		m.offset += int64(len(b))
		for end := x.nextEnd(b); end >= 0; end = x.nextEnd(b) {
			b, m.ends = b[end:], m.ends+1
		}
	}
	return m.ends, nil
}

// restOfLine is how many of the count bytes at offset belong to the line that offset lies in.
func (x *Index) restOfLine(r io.ReaderAt, offset int64, count int) (int, error) {
	b, err := readAt(r, x.Size, offset, count)
	if err != nil {
		return 0, err
	}
	if end := x.nextEnd(b); end >= 0 {
		return end, nil
	}
	return len(b), nil
}

// nextEnd is where in b the first line end ends, or -1. b begins between two units.
func (x *Index) nextEnd(b []byte) int {
	end := x.end()
	if x.Encoding == UTF8 {
		if i := bytes.IndexByte(b, end); i >= 0 {
			return i + 1
		}
		return -1
	}
	for i := 0; i+1 < len(b); i += 2 {
		if unit(b[i:], x.Encoding) == rune(end) {
			return i + 2
		}
	}
	return -1
}

// errChanged says that a file became shorter while it was read.
var errChanged = errors.New("the file changed while it was read")

// readAt is the count bytes at offset of a file of size bytes, fewer only at its end.
func readAt(r io.ReaderAt, size, offset int64, count int) ([]byte, error) {
	b := make([]byte, max(0, min(int64(count), size-offset)))
	n, err := r.ReadAt(b, offset)
	switch {
	case n == len(b):
		return b, nil
	case err == nil || errors.Is(err, io.EOF):
		return nil, errChanged
	default:
		return nil, err
	}
}
