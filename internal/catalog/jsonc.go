package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

const (
	// MaxDocument bounds a configuration file that is read. The largest one seen was 12 MB (a client keeps the history
	// of its projects in it).
	MaxDocument = 32 << 20
	// maxDepth bounds nesting: the parser recurses, and encoding/json stops at ten times this.
	maxDepth = 1000
)

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

// ParseJSONC reads JSON with comments and trailing commas, keeping order and offsets. A byte order mark is the
// caller's business. The error is a *SyntaxError.
func ParseJSONC(data []byte) (hujson.Value, error) {
	if len(data) > MaxDocument {
		return hujson.Value{}, &SyntaxError{Reason: fmt.Sprintf("larger than %d MiB", MaxDocument>>20)}
	}
	if at := tooDeep(data); at >= 0 {
		return hujson.Value{}, SyntaxErrorAt(data, at, fmt.Sprintf("nested deeper than %d", maxDepth))
	}
	v, err := hujson.Parse(data)
	if err == nil {
		return v, nil
	}
	var line, column int
	if _, scanErr := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &column); scanErr != nil {
		return hujson.Value{}, &SyntaxError{Reason: "no JSON"}
	}
	reason := "no JSON"
	if cause := errors.Unwrap(err); cause != nil {
		reason, _, _ = strings.Cut(cause.Error(), "literal: ") // what follows is quoted from the document
		if reason != cause.Error() {
			reason += "literal"
		}
	}
	return hujson.Value{}, &SyntaxError{Line: line, Column: column, Reason: reason}
}

// SyntaxErrorAt is a SyntaxError at a byte offset of data.
func SyntaxErrorAt(data []byte, offset int, reason string) *SyntaxError {
	before := data[:min(offset, len(data))]
	return &SyntaxError{
		Line: 1 + bytes.Count(before, []byte{'\n'}), Column: len(before) - bytes.LastIndexByte(before, '\n'), Reason: reason,
	}
}

// tooDeep is the offset where the nesting passes maxDepth, or -1. It walks over strings and comments as the parser
// does; on a broken document it may stop early, and then the parser reports the fault.
func tooDeep(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return i
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '/':
			i += commentEnd(data[i:])
		}
	}
	return -1
}

// commentEnd is how far behind a slash its comment ends: 0 for a slash alone, all of rest for an open comment.
func commentEnd(rest []byte) int {
	end, after := -1, 0
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		end = bytes.IndexByte(rest, '\n')
	case bytes.HasPrefix(rest, []byte("/*")):
		end, after = bytes.Index(rest[2:], []byte("*/")), 3
	default:
		return 0
	}
	if end < 0 {
		return len(rest)
	}
	return end + after
}
