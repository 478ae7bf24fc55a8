package text

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// MaxEditSize is the size in bytes up to which a file is edited, before and after.
	MaxEditSize = 8 << 20
	// MaxReplacements is how many replacements one edit has, because each is looked for in the whole file.
	MaxReplacements = 1000
)

// Edit is a change of one file: exactly one field is set. Texts are UTF-8 with any line ends.
type Edit struct {
	Replacements []Replacement
	Range        *Range
	Append       *string // lines after the last one, which is ended first when it is not
	Content      *string // the whole text; encoding, byte order mark and forms of line ends are kept
	Raw          []byte  // the whole bytes, stored as they are; empty and not nil empties the file
}

// Replacement puts New where Old is.
type Replacement struct {
	Old, New string
	Count    int // how often Old must occur; 0 for every occurrence and at least one
}

// Range puts the lines of Text in place of the lines From to To. With To = From-1 it inserts before From, and an empty
// Text deletes. A last line without a line end gets one in the middle of a file; at the end the file stays as it was,
// with or without, unless Text ends with one.
type Range struct {
	From, To int
	Text     string
}

// Result is what an edit makes of a file.
type Result struct {
	After          *File
	Added, Removed int  // lines, as Diff shows them
	Joined         bool // a last line without a line end got one, so that lines follow it
	Unchanged      bool // the same bytes as before
}

// Apply makes the bytes after an edit of f. A refusal is a *Problem.
func (f *File) Apply(e Edit) (*Result, error) {
	if err := f.checkEdit(e); err != nil {
		return nil, err
	}
	raw, joined := e.Raw, false
	if raw == nil {
		var err error
		if raw, joined, err = f.edited(e); err != nil {
			return nil, err
		}
	}
	if len(raw) > MaxEditSize {
		return nil, tooLarge()
	}
	result := &Result{After: Parse(raw), Joined: joined, Unchanged: bytes.Equal(raw, f.raw)}
	if e.Raw == nil && result.After.Encoding != f.Encoding {
		return nil, problem(CodeEncoding, nil, "the result would not be text in %s: give it as content_base64", f.Encoding)
	}
	result.Added, result.Removed = countLines(f, result.After)
	return result, nil
}

func (f *File) checkEdit(e Edit) error {
	fields, texts := 0, []string{}
	if len(e.Replacements) > 0 {
		fields++
	}
	for _, r := range e.Replacements {
		texts = append(texts, r.Old, r.New)
	}
	if e.Range != nil {
		fields, texts = fields+1, append(texts, e.Range.Text)
	}
	for _, text := range []*string{e.Append, e.Content} {
		if text != nil {
			fields, texts = fields+1, append(texts, *text)
		}
	}
	if e.Raw != nil {
		fields++
	}
	switch {
	case fields == 0:
		return problem(CodeEmpty, nil, "the edit has no change: give replacements, range, append, content or content_base64")
	case fields > 1:
		return problem(CodeArgument, nil, "the edit has more than one of replacements, range, append, content and content_base64")
	case len(e.Replacements) > MaxReplacements:
		return problem(CodeLimit, map[string]any{"limit": "replacements", "value": MaxReplacements}, "more than %d replacements in one edit", MaxReplacements)
	case !valid(texts):
		return problem(CodeArgument, nil, "the text of the edit is not valid UTF-8")
	case e.Raw == nil && f.Encoding == Binary:
		return problem(CodeEncoding, map[string]any{"encoding": Binary}, "the file is binary: give its bytes as content_base64")
	case e.Raw == nil && f.Size > MaxEditSize:
		return tooLarge()
	}
	return nil
}

func valid(texts []string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !utf8.ValidString(text) })
}

func tooLarge() error {
	return problem(CodeLimit, map[string]any{"limit": "file_bytes", "value": MaxEditSize}, "files of more than %d bytes are not edited", MaxEditSize)
}

// edited is the bytes after one of the edits that speak of text.
func (f *File) edited(e Edit) (raw []byte, joined bool, err error) {
	s := newSplicer(f)
	switch {
	case e.Range != nil:
		joined, err = s.putLines(e.Range.From, e.Range.To, e.Range.Text)
	case e.Append != nil:
		joined, err = s.putLines(f.Lines+1, f.Lines, *e.Append)
	case e.Content != nil:
		s.putContent(*e.Content)
	default:
		err = s.replace(e.Replacements)
	}
	if err != nil {
		return nil, false, err
	}
	raw, err = s.splice()
	return raw, joined, err
}

// splicer puts pieces in the place of spans of a text.
type splicer struct {
	*File
	text   []byte // File.Text
	pieces []string
	spans  []span // in their order when splice is called
}

// span is the bytes start to end of the text, and the number of the piece that comes there.
type span struct{ start, end, piece int32 }

func newSplicer(f *File) *splicer { return &splicer{File: f, text: f.Text()} }

// put notes that piece replaces the text from start to end.
func (s *splicer) put(start, end int, piece string) {
	s.spans = append(s.spans, span{int32(start), int32(end), int32(len(s.pieces))})
	s.pieces = append(s.pieces, piece)
}

// own is text with the line ends that pieces have: \n, or in a file that has no line ends those that it comes with.
func (s *splicer) own(text string) string {
	if s.EOL.Style == StyleNone {
		return text
	}
	return s.unified(text)
}

// ending is the line end that a piece has, or would have.
func (s *splicer) ending(piece string) string {
	if i := strings.IndexByte(piece, '\n'); s.EOL.Style == StyleNone && i > 0 && piece[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// putLines replaces whole lines, and says whether the last line of the file had to be ended for it.
func (s *splicer) putLines(from, to int, text string) (joined bool, err error) {
	if from < 1 || to < from-1 || to > s.Lines {
		return false, problem(CodeRange, map[string]any{"lines_total": s.Lines}, "lines %d to %d are not in the file, which has %d", from, to, s.Lines)
	}
	start := offsetOfLine(s.text, from)
	end := start + offsetOfLine(s.text[start:], to-from+2)
	piece := s.own(text)
	if piece != "" {
		open := end == len(s.text) && !s.FinalNewline
		switch newline := s.ending(piece); {
		case !open && !strings.HasSuffix(piece, "\n"):
			piece += newline
		case open && from > s.Lines && len(s.text) > 0:
			piece, joined = newline+piece, true
		}
	}
	s.put(start, end, piece)
	return joined, nil
}

// offsetOfLine is where the line begins, or the length of text when it has fewer.
func offsetOfLine(text []byte, line int) int {
	at := 0
	for ; line > 1; line-- {
		i := bytes.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		at += i + 1
	}
	return at
}

// putContent replaces the whole text. Where line ends are mixed, lines that stay keep theirs.
func (s *splicer) putContent(content string) {
	if s.BOM {
		content = strings.TrimPrefix(content, "\ufeff")
	}
	piece := s.own(content)
	if s.EOL.Style != StyleMixed {
		s.put(0, len(s.text), piece)
		return
	}
	d := compare(string(s.text), piece)
	for _, c := range d.changes {
		s.put(d.before.offset(c.a0), d.before.offset(c.a1), piece[d.after.offset(c.b0):d.after.offset(c.b1)])
	}
}

// replace looks for every replacement in the text as it was.
func (s *splicer) replace(replacements []Replacement) error {
	for i, r := range replacements {
		if err := s.find(i, r); err != nil {
			return err
		}
	}
	slices.SortFunc(s.spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.piece, b.piece))
	})
	for i := 1; i < len(s.spans); i++ {
		if a, b := s.spans[i-1], s.spans[i]; b.start < a.end {
			return problem(CodeOverlap, map[string]any{"replacements": []int{int(a.piece), int(b.piece)}, "line": s.line(int(b.start))},
				"replacements %d and %d meet in line %d", a.piece, b.piece, s.line(int(b.start)))
		}
	}
	return nil
}

// find notes the places of replacement number i.
func (s *splicer) find(i int, r Replacement) error {
	if r.Old == "" {
		return replacementProblem(CodeArgument, i, nil, "its old text is empty")
	}
	if r.Count < 0 {
		return replacementProblem(CodeArgument, i, nil, "its count is less than 0")
	}
	// Text that was read holds \r\n where a CR that is no line end stands before one, and is meant literally.
	before, after := r.Old, r.New
	if !strings.Contains(before, "\r\n") || !bytes.Contains(s.text, []byte(before)) {
		before, after = s.unified(before), s.own(after)
	}
	at, found := occurrences(s.text, before, r.Count)
	switch {
	case found == 0:
		details := map[string]any{}
		if line := closestLine(s.text, before); line > 0 {
			details["closest_line"] = line
		}
		return replacementProblem(CodeNotFound, i, details, "its old text is not in the file")
	case r.Count > 0 && found != r.Count:
		return replacementProblem(CodeCount, i, map[string]any{"found": found, "lines": s.lines(at)},
			"its old text is in the file %d times, not %d", found, r.Count)
	}
	piece := int32(len(s.pieces))
	s.pieces, s.spans = append(s.pieces, after), slices.Grow(s.spans, len(at))
	for _, start := range at {
		s.spans = append(s.spans, span{start, start + int32(len(before)), piece})
	}
	return nil
}

func replacementProblem(code string, i int, details map[string]any, format string, args ...any) error {
	if details == nil {
		details = map[string]any{}
	}
	details["replacement"] = i
	return problem(code, details, "replacement %d: %s", i, fmt.Sprintf(format, args...))
}

// line is the line in which the byte of the text lies.
func (s *splicer) line(at int) int { return 1 + bytes.Count(s.text[:at], []byte{'\n'}) }

// lines is the lines in which the bytes lie, each once.
func (s *splicer) lines(at []int32) []int {
	var lines []int
	line, from := 1, 0
	for _, to := range at {
		line, from = line+bytes.Count(s.text[from:to], []byte{'\n'}), int(to)
		if len(lines) == 0 || lines[len(lines)-1] != line {
			lines = append(lines, line)
		}
	}
	return lines
}

// splice is the bytes of the file with the pieces in place. What is between them is copied.
func (s *splicer) splice() ([]byte, error) {
	w := &walker{File: s.File, text: s.text, raw: len(s.bom())}
	ends := s.lineEnds()
	out := make([]byte, 0, len(s.raw)+len(s.raw)/16+64)
	done, line, counted := 0, 0, 0
	for _, p := range s.spans {
		start := w.advance(int(p.start))
		out = append(out, s.raw[done:start]...)
		done = w.advance(int(p.end))
		if ends != nil {
			line, counted = line+bytes.Count(s.text[counted:p.start], []byte{'\n'}), int(p.start)
		}
		out = s.appendPiece(out, p, line, ends)
		if len(out) > MaxEditSize {
			return nil, tooLarge()
		}
	}
	return append(out, s.raw[done:]...), nil
}

// appendPiece writes the piece of p, which begins in a line that has so many before it. A new line ends as the line does
// in whose place it comes, or as the one before it.
func (s *splicer) appendPiece(out []byte, p span, line int, ends []lineEnd) []byte {
	piece, major := s.pieces[p.piece], s.EOL.major()
	if ends == nil || !strings.Contains(piece, "\n") {
		if major != "" && major != "\n" {
			piece = strings.ReplaceAll(piece, "\n", major)
		}
		return appendText(out, piece, s.Encoding)
	}
	last := line - 1 // an insertion follows the line before it
	if p.end > p.start {
		last = line + bytes.Count(s.text[p.start:p.end-1], []byte{'\n'})
	}
	for i := min(line, last); piece != ""; i = min(i+1, last) {
		head, rest, more := strings.Cut(piece, "\n")
		out = appendText(out, head, s.Encoding)
		if more {
			out = appendText(out, endOf(ends, i, major), s.Encoding)
		}
		piece = rest
	}
	return out
}

// lineEnd is the form of one line end in a file that has both.
type lineEnd byte

const (
	endLF lineEnd = iota
	endCRLF
)

// lineEnds is the form of every line end of a file with LF and CRLF; nil for others, where all are alike.
func (s *splicer) lineEnds() []lineEnd {
	if s.EOL.Style != StyleMixed {
		return nil
	}
	ends := make([]lineEnd, 0, s.EOL.ends())
	b := s.decoded()
	for i := bytes.IndexByte(b, '\n'); i >= 0; i = bytes.IndexByte(b, '\n') {
		end := endLF
		if i > 0 && b[i-1] == '\r' {
			end = endCRLF
		}
		ends, b = append(ends, end), b[i+1:]
	}
	return ends
}

// endOf is the line end of line i, counted from 0. The last line may have none: then it is the one of the line before.
func endOf(ends []lineEnd, i int, major string) string {
	switch i = min(i, len(ends)-1); {
	case i < 0:
		return major
	case ends[i] == endCRLF:
		return "\r\n"
	default:
		return "\n"
	}
}

// walker finds the raw offsets of offsets in the text, which only grow.
type walker struct {
	*File
	text    []byte
	at, raw int
}

// advance goes to a place in the text and gives its raw offset.
func (w *walker) advance(to int) int {
	switch {
	case w.Encoding != UTF8:
		for w.at < to {
			r, size := w.character(w.File.raw[w.raw:], int64(w.raw))
			w.at, w.raw = w.at+utf8.RuneLen(r), w.raw+size
		}
	case w.EOL.CRLF == 0:
		w.at, w.raw = to, w.raw+to-w.at
	default:
		for w.at < to {
			i := bytes.IndexByte(w.text[w.at:to], '\n')
			if i < 0 {
				w.raw, w.at = w.raw+to-w.at, to
				break
			}
			w.at, w.raw = w.at+i+1, w.raw+i
			if w.File.raw[w.raw] == '\r' {
				w.raw++
			}
			w.raw++
		}
	}
	return w.raw
}
