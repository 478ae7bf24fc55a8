package clientfile

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"mcpx/internal/converge"
)

// notesOf tells what a diff cannot show.
func notesOf(old, fresh document, diff string) []converge.Note {
	data, after := old.data, fresh.data
	var notes []converge.Note
	note := func(code, format string, args ...any) {
		notes = append(notes, converge.Note{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	if bytes.HasPrefix(data, byteOrderMark) {
		note("byte-order-mark", "the file begins with a byte order mark, which stays")
	}
	if crlf := bytes.Count(data, []byte("\r\n")); crlf > 0 {
		if lf := bytes.Count(data, []byte("\n")) - crlf; lf > 0 {
			note("line-ends", "%d lines end in CR LF and %d in LF; each stays as it is, and new lines are like their neighbours", crlf, lf)
		} else {
			note("line-ends", "lines end in CR LF, the new ones too")
		}
	}
	if invisible(diff) {
		note("invisible-characters", "the lines above hold characters that are not visible; they are shown as they are")
	}
	if p := fresh.patch; p != nil {
		data, after = data[p.start:p.end], p.now.data
	}
	if f := old.dialect.format; len(comments(f, data)) > len(comments(f, after)) {
		lost := len(comments(f, data)) - len(comments(f, after))
		note("lossy-comment", "%d comments stand in what goes, and go with it", lost)
	}
	return notes
}

// invisible says whether a text holds characters that change how it looks, or do not show.
func invisible(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		switch r {
		case '\n', '\t', '\r', '\ufeff': // the mark has its own note
			return false
		case '\u00a0', '\u2028', '\u2029', '\u3164':
			return true
		}
		return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r)
	})
}

// comments are the offsets of the comments of a document.
func comments(f Format, data []byte) []int {
	if f == JSON {
		return nil
	}
	var all []int
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"' || c == '\'' && f != JSONC:
			i = quotedEnd(f, data, i)
		case c == '#' && f != JSONC && (f == TOML || i == 0 || isBlank(data[i-1]) || data[i-1] == '\n'):
			all = append(all, i)
			i += len(lineOf(data[i:]))
		case c == '/' && f == JSONC && bytes.HasPrefix(data[i:], []byte("//")):
			all = append(all, i)
			i += len(lineOf(data[i:]))
		case c == '/' && f == JSONC && bytes.HasPrefix(data[i:], []byte("/*")):
			all = append(all, i)
			if end := bytes.Index(data[i+2:], []byte("*/")); end >= 0 {
				i += end + len("/**/") - 1
			}
		}
	}
	return all
}

// quotedEnd is the last byte of a text in quotes. In YAML an apostrophe may also stand in the middle of a word.
func quotedEnd(f Format, data []byte, start int) int {
	quote := data[start : start+1]
	if f == YAML && start > 0 && !strings.ContainsRune(" \t\n[{,:-", rune(data[start-1])) {
		return start
	}
	if long := bytes.Repeat(quote, 3); f == TOML && bytes.HasPrefix(data[start:], long) {
		if end := bytes.Index(data[start+3:], long); end >= 0 {
			return start + 3 + end + 2
		}
		return len(data)
	}
	for i := start + 1; i < len(data); i++ {
		switch {
		case data[i] == '\\' && quote[0] == '"':
			i++
		case data[i] == quote[0]:
			return i
		case data[i] == '\n' && f == TOML:
			return i
		}
	}
	return len(data)
}
