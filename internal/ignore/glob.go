package ignore

import "strings"

// kind of a step of a glob.
type kind byte

const (
	literal kind = iota // one byte
	one                 // any byte but "/"
	class               // one byte of a set
	run                 // any bytes but "/"
	deep                // any bytes
	dirs                // nothing, or any bytes that end with "/"
)

// step is what a part of a path has to be.
type step struct {
	kind kind
	byte byte
	set  *[256]bool
}

// glob is a pattern with wildcards, step by step.
type glob []step

// compile reads a glob. never: nothing fits it.
func compile(s string) (g glob, never bool) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i == len(s) {
				return nil, true
			}
			g = append(g, step{kind: literal, byte: s[i]})
		case '?':
			g = append(g, step{kind: one})
		case '[':
			set, n := readClass(s[i:])
			if n == 0 {
				return nil, true
			}
			g = append(g, step{kind: class, set: set})
			i += n - 1
		case '*':
			first := i
			for i+1 < len(s) && s[i+1] == '*' {
				i++
			}
			after := s[i+1:]
			opens := first == 0 || s[first-1] == '/'
			switch {
			case first == i || !opens || after != "" && after[0] != '/' && !strings.HasPrefix(after, `\/`):
				g = append(g, step{kind: run})
			case after != "" && after[0] == '/':
				g = append(g, step{kind: dirs})
				i++
			default:
				g = append(g, step{kind: deep})
			}
		default:
			g = append(g, step{kind: literal, byte: s[i]})
		}
	}
	return g, false
}

// readClass reads a class of characters and gives its length; 0 when it does not end, or names what there is not.
func readClass(s string) (set *[256]bool, n int) {
	set = &[256]bool{}
	i := 1
	at := func() byte { // 0: the end; an ignore file has no NUL
		if i < len(s) {
			return s[i]
		}
		return 0
	}
	negated := at() == '!' || at() == '^'
	if negated {
		i++
	}
	before := byte(0) // the beginning of a range that may follow
	for first := true; first || at() != ']'; first = false {
		c := at()
		i++
		switch {
		case c == 0:
			return nil, 0
		case c == '\\':
			if c = at(); c == 0 {
				return nil, 0
			}
			i++
			set[c] = true
		case c == '-' && before != 0 && at() != 0 && at() != ']':
			if c = at(); c == '\\' {
				i++
				if c = at(); c == 0 {
					return nil, 0
				}
			}
			i++
			for b := int(before); b <= int(c); b++ {
				set[b] = true
			}
			c = 0
		case c == '[' && at() == ':':
			end := strings.IndexByte(s[i:], ']')
			if end < 0 {
				return nil, 0
			}
			if name, ok := strings.CutSuffix(s[i+1:max(i+end, i+1)], ":"); ok {
				if !addNamed(set, name) {
					return nil, 0
				}
				i += end + 1
				c = 0
			} else {
				set['['] = true
			}
		default:
			set[c] = true
		}
		before = c
	}
	if negated {
		for b := range set {
			set[b] = !set[b]
		}
	}
	set['/'] = false
	return set, i + 1
}

// addNamed adds a class of ASCII by its name.
func addNamed(set *[256]bool, name string) bool {
	is, known := named[name]
	if !known {
		return false
	}
	for b := range byte(0x80) {
		set[b] = set[b] || is(b)
	}
	return true
}

// named are the classes that git knows.
var named = map[string]func(byte) bool{
	"alnum":  func(b byte) bool { return isAlpha(b) || isDigit(b) },
	"alpha":  isAlpha,
	"blank":  func(b byte) bool { return b == ' ' || b == '\t' },
	"cntrl":  func(b byte) bool { return b < 0x20 || b == 0x7f },
	"digit":  isDigit,
	"graph":  func(b byte) bool { return b > 0x20 && b < 0x7f },
	"lower":  func(b byte) bool { return b >= 'a' && b <= 'z' },
	"print":  func(b byte) bool { return b >= 0x20 && b < 0x7f },
	"punct":  func(b byte) bool { return b > 0x20 && b < 0x7f && !isAlpha(b) && !isDigit(b) },
	"space":  func(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' },
	"upper":  func(b byte) bool { return b >= 'A' && b <= 'Z' },
	"xdigit": func(b byte) bool { return isDigit(b) || b|0x20 >= 'a' && b|0x20 <= 'f' },
}

func isAlpha(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }
func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// takes says whether a step of one byte takes this one.
func (s step) takes(b byte) bool {
	switch s.kind {
	case literal:
		return b == s.byte
	case one:
		return b != '/'
	case class:
		return s.set[b]
	case run, deep, dirs:
	}
	return false
}

// fits says whether a path is what the glob says. Where something does not fit, only the last run is tried with one byte
// more, and when that cannot be, the last one over directories: what an earlier one would take, that takes as well.
func (g glob) fits(text string) bool {
	at, i := 0, 0
	type mark struct{ at, i int } // the step after a run, and how far in the text that goes
	narrow, wide := mark{-1, 0}, mark{-1, 0}
	for {
		switch {
		case at == len(g):
			if i == len(text) {
				return true
			}
		case g[at].kind == run:
			at++
			narrow = mark{at, i}
			continue
		case g[at].kind == deep || g[at].kind == dirs:
			at++
			narrow, wide = mark{-1, 0}, mark{at, i}
			continue
		case i < len(text) && g[at].takes(text[i]):
			at, i = at+1, i+1
			continue
		}
		switch {
		case narrow.at >= 0 && narrow.i < len(text) && text[narrow.i] != '/':
			narrow.i++
			at, i = narrow.at, narrow.i
		case wide.at >= 0:
			n := 1
			if g[wide.at-1].kind == dirs {
				n = strings.IndexByte(text[wide.i:], '/') + 1
			}
			if n == 0 || wide.i+n > len(text) {
				return false
			}
			wide.i += n
			narrow = mark{-1, 0}
			at, i = wide.at, wide.i
		default:
			return false
		}
	}
}
