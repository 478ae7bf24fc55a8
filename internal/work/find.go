package work

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcpx/internal/operation"
)

// maxQuery bounds a query, in bytes.
const maxQuery = 4 << 10

// queryInvalid is the code of a query that says nothing that could be found.
const queryInvalid operation.Code = "QUERY_INVALID"

// finder finds a query in lines.
type finder struct {
	text string         // what has to be in a line as it stands; "" nothing
	fold string         // the same in lower case, whatever the case in the line is
	re   *regexp.Regexp // nil: text is all
	word bool
}

// newFinder reads a query. QUERY_INVALID.
func newFinder(query, mode, letters string, word bool) (*finder, error) {
	switch {
	case query == "" || len(query) > maxQuery:
		return nil, operation.Refuse(queryInvalid, "a query has 1 to %d bytes", maxQuery)
	case !utf8.ValidString(query):
		return nil, operation.Refuse(queryInvalid, "the query is no UTF-8")
	case strings.ContainsAny(query, "\r\n"):
		return nil, operation.Refuse(queryInvalid, "a query is of one line: what is searched are lines")
	}
	f := &finder{word: word}
	folds := false
	switch letters {
	case "", "sensitive":
	case "insensitive":
		folds = true
	case "smart":
		folds = !hasUpper(query, mode)
	default:
		return nil, operation.Refuse(operation.ArgumentInvalid, "%.32q is no case; sensitive, insensitive and smart are", letters)
	}
	expression := query
	switch mode {
	case "", "literal":
		if !folds {
			f.text = query
			return f, nil
		}
		if isASCII(query) {
			f.fold = strings.ToLower(query)
		}
		expression = regexp.QuoteMeta(query)
	case "regex":
		parsed, err := syntax.Parse(query, syntax.Perl)
		if err != nil {
			return nil, operation.Refuse(queryInvalid, "%s (the syntax is that of RE2)", err)
		}
		if !folds {
			f.text = required(parsed)
		}
	default:
		return nil, operation.Refuse(operation.ArgumentInvalid, "%.32q is no mode; literal and regex are", mode)
	}
	if folds {
		expression = "(?i:" + expression + ")"
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, operation.Refuse(queryInvalid, "%s", err)
	}
	f.re = re
	return f, nil
}

// hasUpper says whether a query has a capital letter; those of classes, as \S, are none.
func hasUpper(query, mode string) bool {
	escaped := false
	return strings.ContainsFunc(query, func(r rune) bool {
		if mode == "regex" && r == '\\' && !escaped {
			escaped = true
			return false
		}
		class := escaped
		escaped = false
		return !class && unicode.IsUpper(r)
	})
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// required is the longest text that everything has which the expression matches, of what is easily seen.
func required(re *syntax.Regexp) (longest string) {
	if re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase == 0 {
		return string(re.Rune)
	}
	always := re.Op == syntax.OpCapture || re.Op == syntax.OpPlus || re.Op == syntax.OpConcat || re.Op == syntax.OpRepeat && re.Min > 0
	for _, sub := range re.Sub {
		if text := required(sub); always && len(text) > len(longest) {
			longest = text
		}
	}
	return longest
}

// mayBeIn says whether a file can have a hit, from its bytes in UTF-8. lower is room for it to work in.
func (f *finder) mayBeIn(data []byte, lower *[]byte) bool {
	if f.text != "" {
		return bytes.Contains(data, []byte(f.text))
	}
	if f.fold == "" {
		return true
	}
	out := (*lower)[:0]
	for _, b := range data {
		if b >= utf8.RuneSelf {
			return true // other letters may fold to those of the query
		}
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		out = append(out, b)
	}
	*lower = out
	return bytes.Contains(out, []byte(f.fold))
}

// lines calls hit for each line of a text that has the query: its number, its bytes and where in it the first match is.
// hit says whether to go on.
func (f *finder) lines(text []byte, hit func(number int, from, to, at int) bool) {
	number, counted := 1, 0
	for at := 0; at < len(text); {
		from, to := at, len(text)
		if f.text != "" { // go to the next line that can match
			i := bytes.Index(text[at:], []byte(f.text))
			if i < 0 {
				return
			}
			from = bytes.LastIndexByte(text[:at+i], '\n') + 1
		}
		if i := bytes.IndexByte(text[from:], '\n'); i >= 0 {
			to = from + i
		}
		if start := f.match(text[from:to]); start >= 0 {
			number += bytes.Count(text[counted:from], []byte{'\n'})
			counted = from
			if !hit(number, from, to, start) {
				return
			}
		}
		at = to + 1
	}
}

// match is where in a line the first match is; -1: nowhere.
func (f *finder) match(line []byte) int {
	switch {
	case f.re == nil:
		return f.matchText(line)
	case !f.word:
		if m := f.re.FindIndex(line); m != nil {
			return m[0]
		}
		return -1
	}
	for _, m := range f.re.FindAllIndex(line, -1) {
		if bounded(line, m[0], m[1]) {
			return m[0]
		}
	}
	return -1
}

func (f *finder) matchText(line []byte) int {
	for at := 0; ; at++ {
		i := bytes.Index(line[at:], []byte(f.text))
		if i < 0 {
			return -1
		}
		if at += i; !f.word || bounded(line, at, at+len(f.text)) {
			return at
		}
	}
}

// bounded says that no letter, digit or underscore touches a match.
func bounded(line []byte, from, to int) bool {
	before, _ := utf8.DecodeLastRune(line[:from])
	after, _ := utf8.DecodeRune(line[to:])
	return (from == 0 || !inWord(before)) && (to == len(line) || !inWord(after))
}

func inWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
