package ignore

import (
	"strings"
	"testing"
	"time"
)

// slow is a glob as it is defined, every way tried.
func (g glob) slow(text string) bool {
	if len(g) == 0 {
		return text == ""
	}
	rest := g[1:]
	switch g[0].kind {
	case run, deep:
		for i := 0; ; i++ {
			if rest.slow(text[i:]) {
				return true
			}
			if i == len(text) || g[0].kind == run && text[i] == '/' {
				return false
			}
		}
	case dirs:
		for {
			if rest.slow(text) {
				return true
			}
			_, after, ok := strings.Cut(text, "/")
			if !ok {
				return false
			}
			text = after
		}
	case literal, one, class:
	}
	return text != "" && g[0].takes(text[0]) && rest.slow(text[1:])
}

func FuzzGlob(f *testing.F) {
	for _, s := range [][2]string{{"**/a*/**/b", "a/ab/c/b"}, {"a/*b*?", "a/bbb"}, {"[!a-c[:digit:]]*", "xyz"}, {"***/b", "a/b/b"}, {"a**b", "a/b"}, {`\`, "x"}, {"[", "["}, {"*a*a*b", "aaaaab"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 24 || len(path) > 24 {
			return
		}
		g, never := compile(pattern)
		if never {
			return
		}
		if got, want := g.fits(path), g.slow(path); got != want {
			t.Errorf("%q fits %q: %v, want %v", pattern, path, got, want)
		}
	})
}

// FuzzRules: no ignore file stops a walk.
func FuzzRules(f *testing.F) {
	for _, s := range [][2]string{{"*.o\n!a.o\n", "x/a.o"}, {"/a/\n#\n", "a"}, {"\xef\xbb\xbf\\ \r\n\x00", " "}, {"[[:alpha:]", "a"}} {
		f.Add([]byte(s[0]), s[1])
	}
	f.Fuzz(func(t *testing.T, content []byte, path string) {
		if len(content) > 4096 || len(path) > 4096 {
			return
		}
		began := time.Now()
		(*Rules)(nil).With("", content).Ignores(path, true)
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("%q on %q took %v", content, path, d)
		}
	})
}

// TestHostilePatternsAreFast: what takes other matchers a time that doubles with each star.
func TestHostilePatternsAreFast(t *testing.T) {
	long := strings.Repeat("a/", 2000) + "b"
	for _, pattern := range []string{strings.Repeat("**/a/", 40) + "c", strings.Repeat("*a", 200) + "*b", "x/" + strings.Repeat("**/", 100) + "c", strings.Repeat("**/*a*/", 40) + "c"} {
		began := time.Now()
		(*Rules)(nil).With("", []byte(pattern)).Ignores(long, false)
		(*Rules)(nil).With("", []byte(pattern)).Ignores(strings.Repeat("a", 4000), false)
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("%.40q took %v", pattern, d)
		}
	}
}
