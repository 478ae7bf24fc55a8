package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// MaxDocument bounds a configuration file that is read. The largest one seen was 12 MB (a client keeps the history of
// its projects in it).
const MaxDocument = 32 << 20

// SyntaxError is where a document stops being readable. It never quotes the document, which may hold secrets.
type SyntaxError struct {
	Line, Column int // from 1; the column counts bytes; 0 is unknown
	Reason       string
}

// Error is "line 3, column 7: reason".
func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.Reason
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Reason)
}

// SyntaxErrorAt is a SyntaxError at a byte offset of data.
func SyntaxErrorAt(data []byte, offset int, reason string) *SyntaxError {
	before := data[:max(0, min(offset, len(data)))]
	return &SyntaxError{
		Line: 1 + bytes.Count(before, []byte{'\n'}), Column: len(before) - bytes.LastIndexByte(before, '\n'), Reason: reason,
	}
}

// StandardJSON gives the strict JSON of a document that may hold comments or trailing commas: spaces stand in their
// place, so every offset stays. The error is a *SyntaxError at what is still wrong; nesting is bounded as in
// encoding/json. A byte order mark is the caller's business.
func StandardJSON(data []byte, comments, trailingCommas bool) ([]byte, error) {
	if len(data) > MaxDocument {
		return nil, &SyntaxError{Reason: fmt.Sprintf("larger than %d MiB", MaxDocument>>20)}
	}
	out := bytes.Clone(data)
	blank(out, comments, trailingCommas)
	var raw json.RawMessage
	if err := json.Unmarshal(out, &raw); err != nil {
		s, ok := errors.AsType[*json.SyntaxError](err)
		if !ok {
			return nil, &SyntaxError{Reason: "no JSON"}
		}
		at := int(s.Offset) - 1 // it counts the byte at fault
		if at+1 >= len(out) && s.Error() == "unexpected end of JSON input" {
			at = len(out)
		}
		return nil, SyntaxErrorAt(out, at, s.Error()) // the message names a single character
	}
	return out, nil
}

// blank puts spaces in place of comments and trailing commas. It walks over strings; on a broken document it may blank
// too little, and the parser behind it reports the fault.
func blank(out []byte, comments, trailingCommas bool) {
	var last, before byte // the last two bytes that mean something
	lastAt := 0
	for i := 0; i < len(out); i++ {
		c := out[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			continue
		case c == '/' && comments:
			end := i + commentEnd(out[i:])
			if end == i {
				return // no comment: the document is broken here, and looking for more could take very long
			}
			for ; i < end; i++ {
				if out[i] != '\n' {
					out[i] = ' '
				}
			}
			i--
			continue
		case (c == '}' || c == ']') && last == ',' && trailingCommas && before != '{' && before != '[' && before != ',':
			out[lastAt] = ' '
		}
		before, last, lastAt = last, c, i
		if c == '"' {
			i = stringEnd(out, i)
		}
	}
}

// stringEnd is the index of the quote that closes the string at i, or of the last byte.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return min(i, len(data)-1)
}

// commentEnd is the length of the comment at the start of rest: 0 when there is none, or none that ends.
func commentEnd(rest []byte) int {
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			return end
		}
		return len(rest)
	case bytes.HasPrefix(rest, []byte("/*")):
		if end := bytes.Index(rest[2:], []byte("*/")); end >= 0 {
			return end + len("/**/")
		}
	}
	return 0
}

// member is one field of a JSON object, in file order.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf splits strict JSON. False: it is no object.
func membersOf(data []byte) ([]member, bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	var all []member
	for d.More() {
		var m member
		name, err := d.Token()
		if err == nil {
			err = d.Decode(&m.value)
		}
		text, isText := name.(string)
		if err != nil || !isText {
			return nil, false
		}
		m.name = text
		all = append(all, m)
	}
	return all, true
}
