package text

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// File is a file in memory and its facts.
type File struct {
	*Index
	raw []byte
}

// Parse looks at the bytes of a whole file. It keeps raw, which must not change afterwards.
func Parse(raw []byte) *File {
	var s scan
	for {
		b := raw[s.offset:min(s.offset+blockSize, int64(len(raw)))]
		final := s.offset+int64(len(b)) == int64(len(raw))
		s.block(b, final)
		if final {
			return &File{s.index(), raw}
		}
	}
}

// EncodingOf is the encoding that Parse finds, found faster.
func EncodingOf(raw []byte) Encoding {
	var s scan
	skip := s.begin(raw)
	switch {
	case s.encoding != UTF8:
		return Parse(raw).Encoding
	case hasNUL(raw, 0) || !utf8.Valid(raw[skip:]):
		return Binary
	}
	return UTF8
}

// Raw is the bytes of the file; they are not to be changed.
func (f *File) Raw() []byte { return f.raw }

// Text is the whole text in UTF-8 with \n for every line end and without byte order mark; nil for a binary file. It may
// be part of Raw.
func (f *File) Text() []byte {
	if f.Encoding == Binary {
		return nil
	}
	t := f.decoded()
	switch f.EOL.Style {
	case StyleCR:
		return bytes.ReplaceAll(t, []byte{'\r'}, []byte{'\n'})
	case StyleCRLF, StyleMixed:
		return bytes.ReplaceAll(t, []byte("\r\n"), []byte{'\n'})
	case StyleLF, StyleNone:
	}
	return t
}

// decoded is the text in UTF-8, line ends as they are stored, without byte order mark.
func (f *File) decoded() []byte {
	b := f.raw[len(f.bom()):]
	if f.Encoding == UTF8 {
		return b
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, size := decode(b, f.Encoding)
		out, b = utf8.AppendRune(out, r), b[size:]
	}
	return out
}

// decode is the first character of b, which is valid in its encoding, and its length in bytes.
func decode(b []byte, encoding Encoding) (rune, int) {
	if encoding == UTF8 {
		return utf8.DecodeRune(b)
	}
	u := unit(b, encoding)
	if utf16.IsSurrogate(u) && len(b) >= 4 {
		return utf16.DecodeRune(u, unit(b[2:], encoding)), 4
	}
	return u, 2
}

// appendText appends text as the encoding stores it.
func appendText(out []byte, text string, encoding Encoding) []byte {
	if encoding == UTF8 {
		return append(out, text...)
	}
	for _, r := range text {
		high, low := r, rune(-1)
		if r > 0xffff {
			high, low = utf16.EncodeRune(r)
		}
		for _, u := range []rune{high, low} {
			switch {
			case u < 0:
			case encoding == UTF16LE:
				out = append(out, byte(u), byte(u>>8))
			default:
				out = append(out, byte(u>>8), byte(u))
			}
		}
	}
	return out
}

// unified is text that comes from outside with \n for every line end, as lines end in this file.
func (f *File) unified(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if f.EOL.Style == StyleCR {
		text = strings.ReplaceAll(text, "\r", "\n")
	}
	return text
}
