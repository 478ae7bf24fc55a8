package text

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	bomUTF8    = "\xef\xbb\xbf"
	bomUTF16LE = "\xff\xfe"
	bomUTF16BE = "\xfe\xff"

	// blockSize is how much is looked at in one step, and the distance between two marks of an Index.
	blockSize = 64 << 10
	// nulWindow is how far a NUL makes a file binary, as git and the merge of work copies have it.
	nulWindow = 8 << 10
)

// mark is the start of a line: ends line ends lie before offset.
type mark struct {
	offset int64
	ends   int
}

// Index is the facts of a file and the starts of some of its lines, one for each 64 KiB, so that a window of a large file
// is found without its beginning.
type Index struct {
	Facts
	marks []mark
}

// Scanner learns an Index from the bytes of a file in their order, in little memory. It is an io.Writer, so that one pass
// over a file serves its hash, too. The zero value is ready.
type Scanner struct {
	scan
	buf []byte
}

// Write takes the next bytes of the file. It does not fail.
func (s *Scanner) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if s.buf == nil {
			s.buf = make([]byte, 0, blockSize)
		}
		take := min(len(p), blockSize-len(s.buf))
		s.buf, p = append(s.buf, p[:take]...), p[take:]
		if len(s.buf) == blockSize {
			used := s.block(s.buf, false)
			s.buf = s.buf[:copy(s.buf, s.buf[used:])]
		}
	}
	return n, nil
}

// Index ends the file. Nothing is written afterwards.
func (s *Scanner) Index() *Index {
	s.block(s.buf, true)
	s.buf = nil
	return s.index()
}

// scan is what is known after the bytes before offset.
type scan struct {
	offset       int64
	encoding     Encoding // "" before the first block
	bom          bool
	lf, crlf, cr int // LF and CR in all, and how many of them are pairs
	last         rune
	lfMarks      []mark
	crMarks      []mark // only of what lies before the first LF
}

// block takes b, which follows what was seen, and says how many bytes of it are done: all when b is final, else all but
// the beginning of a character or of a line end that may go on.
func (s *scan) block(b []byte, final bool) int {
	skip := 0
	if s.encoding == "" {
		skip = s.begin(b)
	}
	used := len(b)
	switch s.encoding {
	case UTF8:
		used = skip + s.utf8Block(b[skip:], s.offset+int64(skip), final)
	case UTF16LE, UTF16BE:
		used = skip + s.utf16Block(b[skip:], s.offset+int64(skip), final)
	case Binary:
	}
	s.offset += int64(used)
	return used
}

// begin reads the byte order mark and gives its length.
func (s *scan) begin(b []byte) int {
	s.encoding = UTF8
	for _, c := range []struct {
		encoding Encoding
		bom      string
	}{{UTF8, bomUTF8}, {UTF16LE, bomUTF16LE}, {UTF16BE, bomUTF16BE}} {
		if bytes.HasPrefix(b, []byte(c.bom)) {
			s.encoding, s.bom = c.encoding, true
			return len(c.bom)
		}
	}
	return 0
}

// utf8Block looks at b, which lies at offset.
func (s *scan) utf8Block(b []byte, offset int64, final bool) int {
	if !final {
		b = b[:wholeUTF8(b)]
	}
	if !utf8.Valid(b) || hasNUL(b, offset) {
		s.encoding = Binary
		return len(b)
	}
	lf, cr, crlf := bytes.Count(b, []byte{'\n'}), bytes.Count(b, []byte{'\r'}), 0
	if lf > 0 && cr > 0 {
		crlf = bytes.Count(b, []byte("\r\n"))
	}
	s.add(lf, crlf, cr)
	if lf > 0 {
		s.markLF(offset + int64(bytes.LastIndexByte(b, '\n')) + 1)
	}
	if cr > 0 {
		s.markCR(offset + int64(bytes.LastIndexByte(b, '\r')) + 1)
	}
	if len(b) > 0 {
		s.last = rune(b[len(b)-1])
	}
	return len(b)
}

// wholeUTF8 is how many bytes of b are characters and line ends that are complete whatever follows.
func wholeUTF8(b []byte) int {
	n := len(b)
	if n > 0 && b[n-1] == '\r' {
		return n - 1
	}
	for i := n - 1; i >= 0 && i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return n
}

func hasNUL(b []byte, offset int64) bool {
	return offset < nulWindow && bytes.IndexByte(b[:min(int64(len(b)), nulWindow-offset)], 0) >= 0
}

// utf16Block looks at b, which lies at offset.
func (s *scan) utf16Block(b []byte, offset int64, final bool) int {
	n := len(b) &^ 1
	if final && n != len(b) {
		s.encoding = Binary
		return len(b)
	}
	lf, crlf, cr, lastLF, lastCR := 0, 0, 0, -1, -1
	for i := 0; i < n; i += 2 {
		switch u := unit(b[i:], s.encoding); {
		case u == '\r':
			if i+2 == n && !final {
				n = i
				continue
			}
			cr, lastCR = cr+1, i
		case u == '\n':
			if lf++; lastCR == i-2 {
				crlf++
			}
			lastLF = i
		case u == 0 && offset+int64(i) < nulWindow:
			s.encoding = Binary
			return len(b)
		case utf16.IsSurrogate(u):
			if i+2 == n && !final {
				n = i
				continue
			}
			if i+2 == n || utf16.DecodeRune(u, unit(b[i+2:], s.encoding)) == utf8.RuneError {
				s.encoding = Binary
				return len(b)
			}
			i += 2
		}
	}
	s.add(lf, crlf, cr)
	if lastLF >= 0 {
		s.markLF(offset + int64(lastLF) + 2)
	}
	if lastCR >= 0 {
		s.markCR(offset + int64(lastCR) + 2)
	}
	if n > 0 {
		s.last = unit(b[n-2:], s.encoding)
	}
	return n
}

// unit is the first code unit of b, which is UTF-16.
func unit(b []byte, encoding Encoding) rune {
	if encoding == UTF16LE {
		return rune(b[0]) | rune(b[1])<<8
	}
	return rune(b[1]) | rune(b[0])<<8
}

func (s *scan) add(lf, crlf, cr int) { s.lf, s.crlf, s.cr = s.lf+lf, s.crlf+crlf, s.cr+cr }

func (s *scan) markLF(offset int64) {
	s.lfMarks, s.crMarks = append(s.lfMarks, mark{offset, s.lf}), nil
}

func (s *scan) markCR(offset int64) {
	if s.lf == 0 {
		s.crMarks = append(s.crMarks, mark{offset, s.cr})
	}
}

func (s *scan) index() *Index {
	x := &Index{Facts: Facts{Size: s.offset, Encoding: s.encoding}}
	if s.encoding == Binary {
		x.EOL = newEOL(0, 0, 0)
		return x
	}
	x.BOM, x.EOL = s.bom, newEOL(s.lf-s.crlf, s.crlf, s.cr)
	x.marks = s.lfMarks
	if s.lf == 0 {
		x.marks = s.crMarks
	}
	x.Lines = x.EOL.ends()
	switch text := s.offset > int64(len(x.bom())); {
	case text && s.last == rune(x.end()):
		x.FinalNewline = true
	case text:
		x.Lines++
	}
	return x
}
