package ignore

import (
	"strings"
	"testing"
)

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		globs    string
		fit, not string
	}{
		{"*.go", "a.go x/y.go", "a.goo go"},
		{"*.{ts,tsx}", "a.ts x/b.tsx", "a.tss a.{ts,tsx}"},
		{"src/**/*.go", "src/a.go src/x/y/a.go", "a.go lib/src/a.go"},
		{"/README.md", "README.md", "x/README.md"},
		{"**/test/**", "test/a x/test/y/z", "test x/tests/a"},
		{"node_modules", "node_modules x/node_modules", "node_modules/a"},
		{"node_modules/", "node_modules x/node_modules", "node_modules/a"},
		{"{a,b{c,d}}.x", "a.x bc.x bd.x", "b.x c.x"},
		{"a\\{b", "a{b", "ab"},
		{"x *.md", "x y/x a.md", "y"},
	} {
		g, err := ParseGlobs(strings.Fields(c.globs))
		if err != nil {
			t.Errorf("%s: %v", c.globs, err)
			continue
		}
		for name := range strings.FieldsSeq(c.fit) {
			if !g.Fit(name) {
				t.Errorf("%s does not fit %s", c.globs, name)
			}
		}
		for name := range strings.FieldsSeq(c.not) {
			if g.Fit(name) {
				t.Errorf("%s fits %s", c.globs, name)
			}
		}
	}
	for _, glob := range []string{"", "/", "[a", "{a", "!x", "#x", strings.Repeat("{a,b}", 7)} {
		if g, err := ParseGlobs([]string{glob}); err == nil {
			t.Errorf("%q is read as %v", glob, g)
		}
	}
}
