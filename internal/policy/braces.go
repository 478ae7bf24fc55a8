package policy

import (
	"slices"
	"strconv"

	"mvdan.cc/sh/v3/syntax"
)

// maxAlternatives bounds what the braces of one word become.
const maxAlternatives = 1024

// braces gives the alternatives of a word with braces. complete is false when there are more than fit.
func (s *script) braces(w *syntax.Word) (alternatives [][]syntax.WordPart, complete bool) {
	split := &syntax.Word{Parts: slices.Clone(w.Parts)}
	if !syntax.SplitBraces(split) {
		return [][]syntax.WordPart{w.Parts}, true
	}
	n := countAlternatives(split.Parts)
	if s.words -= n; s.words < 0 || n > maxAlternatives {
		return nil, false
	}
	return alternate(split.Parts), true
}

// countAlternatives tells how many there are, at most one more than fit.
func countAlternatives(parts []syntax.WordPart) int {
	n := 1
	for _, part := range parts {
		brace, ok := part.(*syntax.BraceExp)
		if !ok {
			continue
		}
		choices := 0
		if brace.Sequence {
			choices = steps(brace).count
		} else {
			for _, elem := range brace.Elems {
				choices = min(choices+countAlternatives(elem.Parts), maxAlternatives+1)
			}
		}
		n = min(n*choices, maxAlternatives+1)
	}
	return n
}

func alternate(parts []syntax.WordPart) [][]syntax.WordPart {
	all := [][]syntax.WordPart{nil}
	for _, part := range parts {
		brace, ok := part.(*syntax.BraceExp)
		if !ok {
			for i := range all {
				all[i] = append(all[i], part)
			}
			continue
		}
		var choices [][]syntax.WordPart
		if brace.Sequence {
			choices = steps(brace).words()
		} else {
			for _, elem := range brace.Elems {
				choices = append(choices, alternate(elem.Parts)...)
			}
		}
		var next [][]syntax.WordPart
		for _, before := range all {
			for _, choice := range choices {
				next = append(next, slices.Concat(before, choice))
			}
		}
		all = next
	}
	return all
}

// sequence is {a..e} or {01..10..2}.
type sequence struct {
	first, step int64
	count       int // at most one more than fit
	letters     bool
	width       int // of numbers that are filled with zeros
}

// maxNumber bounds the numbers of a sequence, so that counting cannot overflow.
const maxNumber = 1 << 40

func steps(b *syntax.BraceExp) sequence {
	from, to := b.Elems[0].Lit(), b.Elems[1].Lit()
	q := sequence{step: 1, letters: len(from) == 1 && (from[0] < '0' || from[0] > '9')}
	var last int64
	if q.letters {
		q.first, last = int64(from[0]), int64(to[0])
		if min(q.first, last) < '\\' && max(q.first, last) > '\\' {
			q.count = maxAlternatives + 1 // the backslash among them quotes what comes next
			return q
		}
	} else {
		q.first, _ = strconv.ParseInt(from, 10, 64) // SplitBraces has looked
		last, _ = strconv.ParseInt(to, 10, 64)
		if padded(from) || padded(to) {
			q.width = max(len(from), len(to))
		}
	}
	if len(b.Elems) > 2 {
		if n, err := strconv.ParseInt(b.Elems[2].Lit(), 10, 64); err == nil && n != 0 {
			q.step = max(n, -n)
		}
	}
	if q.step < 1 || max(q.first, -q.first, last, -last, q.step) > maxNumber || min(q.first, last) < -maxNumber {
		q.count = maxAlternatives + 1
		return q
	}
	q.count = int(min(max(last-q.first, q.first-last)/q.step+1, maxAlternatives+1))
	if q.first > last {
		q.step = -q.step
	}
	return q
}

func (q sequence) words() [][]syntax.WordPart {
	words := make([][]syntax.WordPart, q.count)
	for i := range words {
		n := q.first + int64(i)*q.step
		text := string(rune(n))
		if !q.letters {
			text = pad(n, q.width)
		}
		words[i] = []syntax.WordPart{&syntax.SglQuoted{Value: text}}
	}
	return words
}

func padded(s string) bool {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s = s[1:]
	}
	return len(s) > 1 && s[0] == '0'
}

func pad(n int64, width int) string {
	text := strconv.FormatInt(max(n, -n), 10)
	sign := ""
	if n < 0 {
		sign = "-"
	}
	for len(sign)+len(text) < width {
		text = "0" + text
	}
	return sign + text
}
