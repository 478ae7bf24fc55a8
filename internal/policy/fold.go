package policy

import (
	"strings"
	"unicode"
)

// fold gives the form in which names are compared: without the characters that are not seen, in one case. File systems
// that ignore case ignore both; the lists are compared so on every file system.
func fold(name string) string {
	plain := true
	for i := range len(name) {
		if c := name[i]; c >= 0x80 || 'A' <= c && c <= 'Z' {
			plain = false
			break
		}
	}
	if plain {
		return name
	}
	var b strings.Builder
	b.Grow(len(name))
	for i, r := range name {
		switch {
		case 'A' <= r && r <= 'Z':
			b.WriteByte(byte(r) + 'a' - 'A')
		case r < 0x80:
			b.WriteByte(byte(r))
		case r == unicode.ReplacementChar && name[i] >= 0x80 && !strings.HasPrefix(name[i:], "\uFFFD"):
			b.WriteByte(name[i]) // no UTF-8: the byte stays
		case ignorable(r):
		default:
			b.WriteString(foldRune(r))
		}
	}
	return b.String()
}

// foldRune is the full case folding of what can stand for letters of the lists, the simple one of everything else.
func foldRune(r rune) string {
	switch r {
	case 'ß', 'ẞ':
		return "ss"
	case 'ﬀ':
		return "ff"
	case 'ﬁ':
		return "fi"
	case 'ﬂ':
		return "fl"
	case 'ﬃ':
		return "ffi"
	case 'ﬄ':
		return "ffl"
	case 'ﬅ', 'ﬆ':
		return "st"
	}
	smallest := r
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		smallest = min(smallest, other)
	}
	if smallest < 0x80 {
		return string(unicode.ToLower(smallest))
	}
	return string(smallest)
}

// ignorable tells that file systems may ignore a character: Default_Ignorable_Code_Point of Unicode.
func ignorable(r rune) bool {
	if r < 0xAD {
		return false
	}
	for _, span := range [...][2]rune{
		{0xAD, 0xAD},
		{0x34F, 0x34F},
		{0x61C, 0x61C},
		{0x115F, 0x1160},
		{0x17B4, 0x17B5},
		{0x180B, 0x180F},
		{0x200B, 0x200F},
		{0x202A, 0x202E},
		{0x2060, 0x206F},
		{0x3164, 0x3164},
		{0xFE00, 0xFE0F},
		{0xFEFF, 0xFEFF},
		{0xFFA0, 0xFFA0},
		{0xFFF0, 0xFFF8},
		{0x1BCA0, 0x1BCA3},
		{0x1D173, 0x1D17A},
		{0xE0000, 0xE0FFF},
	} {
		if r >= span[0] && r <= span[1] {
			return true
		}
	}
	return false
}
