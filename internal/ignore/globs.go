package ignore

import (
	"fmt"
	"strings"
)

// Globs are patterns that a caller chooses entries by: those of ignore files, with {a,b} for one of several. One without
// "/" is compared with the last name of a path; any other, with the whole path.
type Globs []pattern

// maxGlobs bounds what one glob with braces stands for: each is tried on each entry.
const maxGlobs = 64

// ParseGlobs reads globs. The error says what is wrong with which.
func ParseGlobs(globs []string) (Globs, error) {
	var all Globs
	for _, g := range globs {
		alternatives, err := alternatives(g)
		if err != nil {
			return nil, fmt.Errorf("the glob %.100q %w", g, err)
		}
		for _, one := range alternatives {
			p, ok := parseLine(strings.TrimSuffix(one, "/"))
			if !ok || p.include || p.never {
				return nil, fmt.Errorf("nothing can fit the glob %.100q", g)
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// Fit says whether a path fits one of the globs.
func (g Globs) Fit(path string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	for i := range g {
		if p := &g[i]; p.name && p.fits(name) || !p.name && p.fits(path) {
			return true
		}
	}
	return false
}

// alternatives writes a glob with braces out.
func alternatives(glob string) ([]string, error) {
	out, pending := []string(nil), []string{glob}
	for len(pending) > 0 {
		one := pending[0]
		pending = pending[1:]
		open, commas, end := braces(one)
		switch {
		case open < 0:
			out = append(out, one)
		case end < 0:
			return nil, fmt.Errorf("has a { without its }")
		default:
			from := open + 1
			for _, to := range append(commas, end) {
				pending = append(pending, one[:open]+one[from:to]+one[end+1:])
				from = to + 1
			}
		}
		if len(out)+len(pending) > maxGlobs {
			return nil, fmt.Errorf("stands for more than %d", maxGlobs)
		}
	}
	return out, nil
}

// braces finds the first brace of a glob, the commas in it and its end. -1: there is none.
func braces(glob string) (open int, commas []int, end int) {
	open = -1
	depth := 0
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; {
		case c == '\\':
			i++
		case c == '{':
			if depth++; open < 0 {
				open = i
			}
		case c == ',' && depth == 1:
			commas = append(commas, i)
		case c == '}' && depth > 0:
			if depth--; depth == 0 {
				return open, commas, i
			}
		}
	}
	return open, nil, -1
}
