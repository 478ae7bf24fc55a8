package text

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// EncodePath spells the bytes of a path in ASCII where they are no printable UTF-8: control bytes, space, "%" and bytes of
// invalid UTF-8 become "%" and two upper-case hex digits, as in manifests (durable-work.md section 12).
func EncodePath(path string) string {
	if !strings.ContainsFunc(path, func(r rune) bool { return r < 0x21 || r >= 0x7f || r == '%' }) {
		return path // nearly all are like this
	}
	var b strings.Builder
	for len(path) > 0 {
		r, n := utf8.DecodeRuneInString(path)
		if r == utf8.RuneError && n == 1 || n == 1 && (r < 0x21 || r == 0x7f || r == '%') {
			fmt.Fprintf(&b, "%%%02X", path[0])
		} else {
			b.WriteString(path[:n])
		}
		path = path[n:]
	}
	return b.String()
}

// DecodePath reads what EncodePath wrote, and other spellings of bytes that need none. A refusal is a *Problem.
func DecodePath(encoded string) (string, error) {
	if !strings.Contains(encoded, "%") {
		return encoded, nil
	}
	var b strings.Builder
	for i := 0; i < len(encoded); i++ {
		if encoded[i] != '%' {
			b.WriteByte(encoded[i])
			continue
		}
		if len(encoded)-i < 3 {
			return "", badEncoding(encoded)
		}
		high, low := hexDigit(encoded[i+1]), hexDigit(encoded[i+2])
		if high < 0 || low < 0 {
			return "", badEncoding(encoded)
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return b.String(), nil
}

func badEncoding(encoded string) error {
	return problem(CodeName, nil, "%q is no percent-encoded path: two hex digits follow each %%", encoded)
}

func hexDigit(c byte) int { return strings.IndexByte("0123456789ABCDEF", c) }
