package rpc

import (
	"encoding/binary"
	"math/bits"
)

// value validates the JSON value at i and returns the index behind it, or -1. Members are read when the value is an
// object and p is not elsewhere.
func (s *scanner) value(i, depth int, p place) int {
	if i >= len(s.b) {
		return s.fail(i)
	}
	switch c := s.b[i]; {
	case c == '"':
		return s.text(i)
	case c == '{':
		return s.object(i, depth+1, p)
	case c == '[':
		return s.array(i, depth+1)
	case c == '-' || c >= '0' && c <= '9':
		return s.number(i)
	case c == 't':
		return s.literal(i, "true")
	case c == 'f':
		return s.literal(i, "false")
	case c == 'n':
		return s.literal(i, "null")
	}
	return s.fail(i)
}

func (s *scanner) fail(i int) int {
	s.bad = i
	return -1
}

// enter refuses the first level too deep.
func (s *scanner) enter(i, depth int) bool {
	if depth > maxDepth {
		s.bad, s.tooDeep = i, true
		return false
	}
	return true
}

func (s *scanner) space(i int) int {
	for i < len(s.b) {
		switch s.b[i] {
		case ' ', '\t', '\r', '\n':
			i++
		default:
			return i
		}
	}
	return i
}

func (s *scanner) object(i, depth int, p place) int {
	if !s.enter(i, depth) {
		return -1
	}
	if i = s.space(i + 1); i < len(s.b) && s.b[i] == '}' {
		return i + 1
	}
	var seen uint32
	for {
		if i >= len(s.b) || s.b[i] != '"' {
			return s.fail(i)
		}
		key := Span{From: i}
		if key.To = s.text(i); key.To < 0 {
			return -1
		}
		if i = s.space(key.To); i >= len(s.b) || s.b[i] != ':' {
			return s.fail(i)
		}
		at := Span{From: s.space(i + 1)}
		f, inside := none, elsewhere
		if p != elsewhere {
			var buf [longestRoute]byte
			f, inside = p.route(keyText(key.Of(s.b), buf[:0]))
		}
		if at.To = s.value(at.From, depth, inside); at.To < 0 {
			return -1
		}
		if f != none {
			if bit := uint32(1) << f; seen&bit == 0 {
				seen |= bit
				s.set(p, f, at)
			} else if s.refused == "" {
				s.refused = twice[f]
			}
		}
		if i = s.space(at.To); i >= len(s.b) {
			return s.fail(i)
		}
		switch s.b[i] {
		case ',':
			i = s.space(i + 1)
		case '}':
			return i + 1
		default:
			return s.fail(i)
		}
	}
}

func (s *scanner) array(i, depth int) int {
	if !s.enter(i, depth) {
		return -1
	}
	if i = s.space(i + 1); i < len(s.b) && s.b[i] == ']' {
		return i + 1
	}
	for {
		if i = s.value(i, depth, elsewhere); i < 0 {
			return -1
		}
		if i = s.space(i); i >= len(s.b) {
			return s.fail(i)
		}
		switch s.b[i] {
		case ',':
			i = s.space(i + 1)
		case ']':
			return i + 1
		default:
			return s.fail(i)
		}
	}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// text validates the string at i. Eight bytes at a time are checked for a quote, a backslash or a control byte:
// payloads are mostly text, and this loop is most of the cost of a large one. UTF-8 has been checked before.
func (s *scanner) text(i int) int {
	b := s.b
	for i++; ; {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			quote := w ^ '"'*ones
			slash := w ^ '\\'*ones
			// The lowest flagged byte is exact; flags above it may be carries, and only the lowest is used.
			hit := ((quote-ones)&^quote | (slash-ones)&^slash | (w-' '*ones)&^w) & highs
			if hit == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(hit) / 8
			break
		}
		if i >= len(b) {
			return s.fail(len(b))
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = s.escape(i); i < 0 {
				return -1
			}
		case c < ' ':
			return s.fail(i)
		default:
			i++
		}
	}
}

// escape validates the escape at i. Lone surrogates are valid JSON (RFC 8259 section 8.2) and pass.
func (s *scanner) escape(i int) int {
	if i+1 >= len(s.b) {
		return s.fail(len(s.b))
	}
	switch s.b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		for k := i + 2; k < i+6; k++ {
			if k >= len(s.b) || hex(s.b[k]) < 0 {
				return s.fail(k)
			}
		}
		return i + 6
	}
	return s.fail(i + 1)
}

// number validates the number at i by the grammar of RFC 8259 section 6.
func (s *scanner) number(i int) int {
	if s.b[i] == '-' {
		i++
	}
	switch {
	case i < len(s.b) && s.b[i] == '0':
		i++
	default:
		if i = s.digits(i); i < 0 {
			return -1
		}
	}
	if i < len(s.b) && s.b[i] == '.' {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if i < len(s.b) && (s.b[i] == 'e' || s.b[i] == 'E') {
		if i++; i < len(s.b) && (s.b[i] == '+' || s.b[i] == '-') {
			i++
		}
		return s.digits(i)
	}
	return i
}

// digits validates one or more digits at i.
func (s *scanner) digits(i int) int {
	from := i
	for i < len(s.b) && s.b[i] >= '0' && s.b[i] <= '9' {
		i++
	}
	if i == from {
		return s.fail(i)
	}
	return i
}

func (s *scanner) literal(i int, word string) int {
	if len(s.b)-i < len(word) || string(s.b[i:i+len(word)]) != word {
		return s.fail(i)
	}
	return i + len(word)
}
