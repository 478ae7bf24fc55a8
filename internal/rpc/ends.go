package rpc

import "unicode/utf8"

// Ends finds the members of the one message in b that say whose it is: its id and its method. All of b is validated as
// JSON, but of the message nothing else is judged: a supervisor calls it for every line, and what a line means is the
// daemon's business. A null id is absent. ok is false when b is not one JSON object, or readers could disagree on who it
// belongs to: either member twice, an id that is neither a string nor an integer, a method that is no string.
func Ends(b []byte) (id, method Span, ok bool) {
	s := scanner{b: b}
	if !utf8.Valid(b) {
		return Span{}, Span{}, false
	}
	start := s.space(0)
	end := s.value(start, 0, ends)
	if end < 0 || s.space(end) != len(b) || b[start] != '{' || s.refused != "" {
		return Span{}, Span{}, false
	}
	id, method = s.m.ID, s.m.Method
	if raw := id.Of(b); raw != nil && raw[0] == 'n' {
		id = Span{}
	} else if raw != nil && badID(raw) != "" {
		return Span{}, Span{}, false
	}
	if method.Ok() && b[method.From] != '"' {
		return Span{}, Span{}, false
	}
	return id, method, true
}
