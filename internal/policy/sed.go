package policy

import "strings"

// harmlessSed tells that a script of sed only prints, deletes, quits or substitutes. What is not understood is not
// harmless.
func harmlessSed(text string) bool {
	r := sedReader{text: text}
	for {
		r.skip(" \t\n;{}")
		if r.done() {
			return true
		}
		if !r.address() || !r.command() {
			return false
		}
	}
}

type sedReader struct {
	text string
	at   int
}

func (r *sedReader) done() bool { return r.at >= len(r.text) }

func (r *sedReader) peek() byte {
	if r.done() {
		return 0
	}
	return r.text[r.at]
}

func (r *sedReader) skip(set string) {
	for !r.done() && strings.IndexByte(set, r.text[r.at]) >= 0 {
		r.at++
	}
}

// address reads no, one or two addresses and the negation.
func (r *sedReader) address() bool {
	if !r.oneAddress() {
		return false
	}
	r.skip(" \t")
	if r.peek() == ',' {
		r.at++
		r.skip(" \t")
		r.skip("+~")
		if !r.oneAddress() {
			return false
		}
	}
	r.skip(" \t!")
	return true
}

func (r *sedReader) oneAddress() bool {
	switch c := r.peek(); {
	case c >= '0' && c <= '9':
		r.skip("0123456789~")
	case c == '$':
		r.at++
	case c == '/':
		return r.delimited('/') && r.flags("IM")
	case c == '\\' && r.at+1 < len(r.text):
		r.at++
		return r.delimited(r.text[r.at]) && r.flags("IM")
	}
	return true
}

func (r *sedReader) flags(set string) bool {
	r.skip(set)
	return true
}

// delimited reads from one delimiter to the next. A delimiter inside of a bracket expression is read differently by
// different programs, and is not understood.
func (r *sedReader) delimited(delimiter byte) bool {
	if delimiter == '\n' || delimiter == '\\' || delimiter >= 0x80 || delimiter == 0 {
		return false
	}
	r.at++
	bracket := false
	for !r.done() {
		c := r.text[r.at]
		switch {
		case c == '\\' && (!bracket || strings.HasPrefix(r.text[r.at+1:], string(rune(delimiter)))):
			r.at++
		case c == delimiter:
			if bracket {
				return false
			}
			r.at++
			return true
		case c == '[' && !bracket:
			bracket = true
			if strings.HasPrefix(r.text[r.at+1:], "^") {
				r.at++
			}
			if strings.HasPrefix(r.text[r.at+1:], "]") {
				r.at++
			}
		case c == '[' && bracket && r.at+1 < len(r.text) && strings.IndexByte(":.=", r.text[r.at+1]) >= 0:
			end := strings.Index(r.text[r.at+2:], r.text[r.at+1:r.at+2]+"]") // a class: [[:alpha:]]
			if end < 0 || strings.IndexByte(r.text[r.at:r.at+2+end], delimiter) >= 0 {
				return false
			}
			r.at += end + len("[:") + 1
		case c == ']':
			bracket = false
		}
		r.at++
	}
	return false
}

func (r *sedReader) command() bool {
	c := r.peek()
	r.at++
	switch c {
	case 'p', 'P', 'd', 'D', '=', 'n', 'N', 'l':
		return r.ends()
	case 'q', 'Q':
		r.skip(" \t")
		r.skip("0123456789")
		return r.ends()
	case '{', '}':
		return true
	case 'y':
		return r.twoParts() && r.ends()
	case 's':
		if !r.twoParts() {
			return false
		}
		r.skip("gpiIMm0123456789")
		return r.ends()
	}
	return false
}

// twoParts reads the pattern and the replacement: s/a/b/.
func (r *sedReader) twoParts() bool {
	delimiter := r.peek()
	if !r.delimited(delimiter) {
		return false
	}
	for !r.done() {
		switch r.text[r.at] {
		case '\\':
			r.at++
		case delimiter:
			r.at++
			return true
		case '\n':
			return false
		}
		r.at++
	}
	return false
}

// ends reads the end of a command.
func (r *sedReader) ends() bool {
	r.skip(" \t")
	switch r.peek() {
	case 0, ';', '\n', '}':
		return true
	}
	return false
}
