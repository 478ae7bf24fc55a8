package policy

import (
	"strings"
	"unicode/utf8"
)

// ansiC decodes the inside of $'...' as bash does. A NUL ends the text.
func ansiC(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			i++
			continue
		}
		c := s[i+1]
		i += 2
		switch c {
		case 'a':
			b.WriteByte('\a')
		case 'b':
			b.WriteByte('\b')
		case 'e', 'E':
			b.WriteByte(0x1b)
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'v':
			b.WriteByte('\v')
		case '\\', '\'', '"', '?':
			b.WriteByte(c)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			n, used := number(s[i-1:], 8, 3)
			i += used - 1
			if byte(n) == 0 {
				return b.String()
			}
			b.WriteByte(byte(n))
		case 'x':
			n, used := hexByte(s[i:])
			i += used
			if used == 0 {
				b.WriteString(`\x`)
			} else if byte(n) == 0 {
				return b.String()
			} else {
				b.WriteByte(byte(n))
			}
		case 'u', 'U':
			width := 4
			if c == 'U' {
				width = 8
			}
			n, used := number(s[i:], 16, width)
			i += used
			if used == 0 {
				b.WriteByte('\\')
				b.WriteByte(c)
			} else if n == 0 {
				return b.String()
			} else {
				b.Write(utf8.AppendRune(nil, rune(n)))
			}
		case 'c':
			if i == len(s) {
				b.WriteString(`\c`)
				continue
			}
			if s[i] == '\\' && i+1 < len(s) && s[i+1] == '\\' {
				i++
			}
			control := s[i] & 0x1f
			if s[i] == '?' {
				control = 0x7f
			}
			i++
			if control == 0 {
				return b.String()
			}
			b.WriteByte(control)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}

// hexByte reads what follows \x: two digits, or any number of them in braces, of which the last eight bits count.
func hexByte(s string) (value uint32, used int) {
	if !strings.HasPrefix(s, "{") {
		return number(s, 16, 2)
	}
	value, used = number(s[1:], 16, len(s))
	used++
	if used < len(s) && s[used] == '}' {
		used++
	}
	return value, used
}

// number reads at most width digits of a base.
func number(s string, base uint32, width int) (value uint32, used int) {
	for used < len(s) && used < width {
		d := uint32(99)
		switch c := s[used]; {
		case '0' <= c && c <= '9':
			d = uint32(c - '0')
		case 'a' <= c && c <= 'f':
			d = uint32(c-'a') + 10
		case 'A' <= c && c <= 'F':
			d = uint32(c-'A') + 10
		}
		if d >= base {
			break
		}
		value = value*base + d
		used++
	}
	return value, used
}
