package ignore

import (
	"bytes"
	"strings"
)

// Rules are the patterns that hold in a directory: those of its own ignore file, and of all above it. They do not change.
// None are nil.
type Rules struct {
	above    *Rules
	base     string // of the directory whose file it is, with "/" behind; "" the top
	patterns []pattern
}

// pattern is one line of an ignore file.
type pattern struct {
	include bool // "!": what fits is not ignored
	dirOnly bool
	name    bool   // it is compared with the last name of a path
	prefix  string // what the path, or the name, begins with
	rest    glob   // what follows; nil: nothing does
	never   bool   // nothing fits it: a class of characters has no end
}

// With are the rules for a directory that has an ignore file with this content. dir is its path below the top, "" that
// itself.
func (r *Rules) With(dir string, content []byte) *Rules {
	patterns := parse(content)
	if len(patterns) == 0 {
		return r
	}
	if dir != "" {
		dir += "/"
	}
	return &Rules{above: r, base: dir, patterns: patterns}
}

// Ignores says whether an entry is ignored of which no directory above is. path is below the top, and below the directories
// of all files of the rules.
func (r *Rules) Ignores(path string, dir bool) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	for ; r != nil; r = r.above {
		below := path[len(r.base):]
		for i := len(r.patterns) - 1; i >= 0; i-- {
			p := &r.patterns[i]
			if p.dirOnly && !dir {
				continue
			}
			if p.name && p.fits(name) || !p.name && p.fits(below) {
				return !p.include
			}
		}
	}
	return false
}

func (p *pattern) fits(text string) bool {
	rest, ok := strings.CutPrefix(text, p.prefix)
	if !ok || p.never {
		return false
	}
	if p.rest == nil {
		return rest == ""
	}
	return p.rest.fits(rest)
}

// parse reads an ignore file.
func parse(content []byte) []pattern {
	var all []pattern
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	for line := range bytes.SplitSeq(content, []byte{'\n'}) {
		line = bytes.TrimSuffix(line, []byte{'\r'})
		if end := bytes.IndexByte(line, 0); end >= 0 { // git reads C strings
			line = line[:end]
		}
		if p, ok := parseLine(withoutSpaces(string(line))); ok {
			all = append(all, p)
		}
	}
	return all
}

// withoutSpaces takes the spaces at the end away, up to one that is escaped.
func withoutSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			if i++; i == len(line) {
				return line
			}
		}
		end = i + 1
	}
	return line[:end]
}

func parseLine(line string) (p pattern, ok bool) {
	if strings.HasPrefix(line, "#") {
		return p, false
	}
	line, p.include = strings.CutPrefix(line, "!")
	line, p.dirOnly = strings.CutSuffix(line, "/")
	p.name = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return p, false
	}
	plain := strings.IndexAny(line, `*?[\`)
	if plain < 0 {
		p.prefix = line
		return p, true
	}
	p.prefix = line[:plain]
	// The rest is compiled without what stands before it: a "**" at its beginning stands for directories, as in git.
	p.rest, p.never = compile(line[plain:])
	return p, true
}
