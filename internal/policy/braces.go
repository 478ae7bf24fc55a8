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
	all, complete := alternate(split.Parts)
	if s.words -= len(all); s.words < 0 {
		return nil, false
	}
	return all, complete
}

func alternate(parts []syntax.WordPart) ([][]syntax.WordPart, bool) {
	all := [][]syntax.WordPart{nil}
	for _, part := range parts {
		brace, ok := part.(*syntax.BraceExp)
		if !ok {
			for i := range all {
				all[i] = append(all[i], part)
			}
			continue
		}
		choices, complete := choicesOf(brace)
		if !complete || len(all)*len(choices) > maxAlternatives {
			return nil, false
		}
		var next [][]syntax.WordPart
		for _, before := range all {
			for _, choice := range choices {
				next = append(next, append(slices.Clone(before), choice...))
			}
		}
		all = next
	}
	return all, true
}

func choicesOf(b *syntax.BraceExp) ([][]syntax.WordPart, bool) {
	if b.Sequence {
		return sequence(b)
	}
	var choices [][]syntax.WordPart
	for _, elem := range b.Elems {
		more, complete := alternate(elem.Parts)
		if !complete || len(choices)+len(more) > maxAlternatives {
			return nil, false
		}
		choices = append(choices, more...)
	}
	return choices, true
}

// sequence is {a..e} or {01..10..2}.
func sequence(b *syntax.BraceExp) ([][]syntax.WordPart, bool) {
	from, to := b.Elems[0].Lit(), b.Elems[1].Lit()
	letters := len(from) == 1 && (from[0] < '0' || from[0] > '9')
	first, last := int64(0), int64(0)
	if letters {
		first, last = int64(from[0]), int64(to[0])
	} else {
		first, _ = strconv.ParseInt(from, 10, 64) // SplitBraces has looked
		last, _ = strconv.ParseInt(to, 10, 64)
	}
	step := int64(1)
	if len(b.Elems) > 2 {
		if n, err := strconv.ParseInt(b.Elems[2].Lit(), 10, 64); err == nil && n != 0 {
			step = max(n, -n)
		}
	}
	if step < 1 || last-first > maxAlternatives*step || first-last > maxAlternatives*step || step > 1<<40 || max(first, -first, last, -last) > 1<<40 {
		return nil, false
	}
	if first > last {
		step = -step
	}
	width := 0
	if padded(from) || padded(to) {
		width = max(len(from), len(to))
	}
	var choices [][]syntax.WordPart
	for n := first; step > 0 && n <= last || step < 0 && n >= last; n += step {
		text := string(rune(n))
		if !letters {
			text = pad(n, width)
		}
		choices = append(choices, []syntax.WordPart{&syntax.SglQuoted{Value: text}})
	}
	return choices, true
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
