package rpc

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

func hex(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c >= 'a' && c <= 'f':
		return rune(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}

// keyText is the decoded text of a raw key, cut when it is longer than any routing member. It uses buf only for keys
// with escapes, so that "id" and "i\u0064" are the same member for us as they are for every decoder.
func keyText(raw, buf []byte) []byte {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 || len(inner) > 6*cap(buf) {
		return inner
	}
	text, _ := appendText(buf, inner)
	return text
}

// isText says whether a raw token is the string s.
func isText(raw []byte, s string) bool {
	if len(raw) < 2 || raw[0] != '"' {
		return false
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == s
	}
	if len(inner) > 6*len(s) {
		return false
	}
	text, _ := appendText(nil, inner)
	return string(text) == s
}

// appendText decodes the content of a JSON string. A lone surrogate is written in the three bytes that UTF-8 would
// have given it: such bytes occur in no valid message, so different strings stay different.
func appendText(dst, inner []byte) ([]byte, bool) {
	for {
		k := bytes.IndexByte(inner, '\\')
		if k < 0 {
			return append(dst, inner...), true
		}
		dst = append(dst, inner[:k]...)
		if inner = inner[k+1:]; len(inner) == 0 {
			return dst, false
		}
		c := inner[0]
		inner = inner[1:]
		switch c {
		case '"', '\\', '/':
			dst = append(dst, c)
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, ok := unit(inner)
			if !ok {
				return dst, false
			}
			inner = inner[4:]
			if utf16.IsSurrogate(r) && len(inner) >= 6 && inner[0] == '\\' && inner[1] == 'u' {
				if low, ok := unit(inner[2:]); ok {
					if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
						r, inner = both, inner[6:]
					}
				}
			}
			if utf16.IsSurrogate(r) {
				dst = append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
			} else {
				dst = utf8.AppendRune(dst, r)
			}
		default:
			return dst, false
		}
	}
}

// unit reads the four hex digits of one UTF-16 code unit.
func unit(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		h := hex(c)
		if h < 0 {
			return 0, false
		}
		r = r<<4 | h
	}
	return r, true
}

// Unquote decodes a raw JSON string. Lone surrogates become U+FFFD. False when raw is not a string.
func Unquote(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(replaceInvalid(inner)), true
	}
	text, ok := appendText(make([]byte, 0, len(inner)), inner)
	if !ok {
		return "", false
	}
	return string(replaceInvalid(text)), true
}

// replaceInvalid writes one U+FFFD for each lone surrogate (three invalid bytes) or other invalid byte.
func replaceInvalid(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 && len(b) >= 3 && b[0] == 0xED && b[1] >= 0xA0 {
			n = 3
		}
		out = utf8.AppendRune(out, r)
		b = b[n:]
	}
	return out
}

const hexDigits = "0123456789abcdef"

// Quote is s as a JSON string with no escape that is not required. Invalid UTF-8 becomes U+FFFD.
func Quote(s string) []byte { return appendQuoted(make([]byte, 0, len(s)+2), s) }

func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, '\\', 'n')
		case r == '\r':
			dst = append(dst, '\\', 'r')
		case r == '\t':
			dst = append(dst, '\\', 't')
		case r < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&0xF])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

// IDKey is the comparison key of a raw id or progress token: "s:" and the decoded text of a string, "i:" and the
// canonical digits of an integer of any length. Two tokens that a peer may take for the same have the same key. False
// for every other token.
func IDKey(raw []byte) (string, bool) {
	if len(raw) >= 2 && raw[0] == '"' && raw[len(raw)-1] == '"' {
		inner := raw[1 : len(raw)-1]
		text, ok := appendText(append(make([]byte, 0, len(inner)+2), "s:"...), inner)
		return string(text), ok
	}
	if !isInteger(raw) {
		return "", false
	}
	sign := "i:"
	if raw[0] == '-' {
		sign, raw = "i:-", raw[1:]
	}
	if raw = bytes.TrimLeft(raw, "0"); len(raw) == 0 {
		return "i:0", true
	}
	return sign + string(raw), true
}
