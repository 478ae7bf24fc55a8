package ignore

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// world is a tree with ignore files.
type world struct {
	dirs  map[string]bool
	files map[string]bool
	rules map[string]string // directory, "" the top, to its ignore file
	out   string            // the exclude file of the repository
}

// ignored is what a walk finds.
func (w world) ignored(name string) bool {
	rules := (*Rules)(nil).With("", []byte(w.out)).With("", []byte(w.rules[""]))
	parts := strings.Split(name, "/")
	for i := range parts {
		at := strings.Join(parts[:i+1], "/")
		if rules.Ignores(at, w.dirs[at]) {
			return true
		}
		rules = rules.With(at, []byte(w.rules[at]))
	}
	return false
}

// git asks git about every entry.
func (w world) git(t *testing.T) map[string]bool {
	t.Helper()
	top := t.TempDir()
	environ := []string{"HOME=" + top, "XDG_CONFIG_HOME=" + top, "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
	run := func(in string, args ...string) string {
		c := exec.Command("git", args...)
		c.Dir, c.Env, c.Stdin = filepath.Join(top, "r"), environ, strings.NewReader(in)
		var wrong bytes.Buffer
		c.Stderr = &wrong
		out, err := c.Output()
		if err != nil && (args[0] != "check-ignore" || c.ProcessState.ExitCode() != 1) { // 1: nothing is ignored
			t.Fatalf("git %v: %v: %s", args, err, wrong.String())
		}
		return string(out)
	}
	write := func(name, content string) {
		full := filepath.Join(top, "r", name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(top, "r"), 0o755); err != nil {
		t.Fatal(err)
	}
	run("", "init", "-q", "--template=")
	write(".git/info/exclude", w.out)
	for name := range w.files {
		write(name, "")
	}
	for dir, content := range w.rules {
		write(path.Join(dir, ".gitignore"), content)
	}
	names := slices.Sorted(maps.Keys(w.files))
	names = append(names, slices.Sorted(maps.Keys(w.dirs))...)
	out := map[string]bool{}
	for name := range strings.SplitSeq(run(strings.Join(names, "\x00"), "check-ignore", "--no-index", "-z", "--stdin"), "\x00") {
		out[name] = name != ""
	}
	return out
}

func (w world) compare(t *testing.T) (asked int) {
	t.Helper()
	says := w.git(t)
	for name := range w.files {
		asked++
		if got := w.ignored(name); got != says[name] {
			t.Errorf("%q: ignored %v, git says %v\n%s", name, got, says[name], w.around(name))
		}
	}
	for name := range w.dirs {
		asked++
		if got := w.ignored(name); got != says[name] {
			t.Errorf("%q/: ignored %v, git says %v\n%s", name, got, says[name], w.around(name))
		}
	}
	return asked
}

// around are the ignore files that have a say about an entry.
func (w world) around(name string) string {
	out := fmt.Sprintf("exclude %q", w.out)
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		out += fmt.Sprintf(", %s %q", dir, w.rules[strings.TrimPrefix(dir, ".")])
		if dir == "." {
			return out
		}
	}
}

func newWorld(files ...string) world {
	w := world{dirs: map[string]bool{}, files: map[string]bool{}, rules: map[string]string{}}
	for _, name := range files {
		w.files[name] = true
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			w.dirs[dir] = true
		}
	}
	return w
}

func needsGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
}

// TestPatternsAsGit: each line alone, in a directory of its own with the same files.
func TestPatternsAsGit(t *testing.T) {
	needsGit(t)
	files := []string{
		"a", "b", "a.b", "foo", "foo.c", "x y", "#x", "!x", "d/a", "d/b", "d/foo/a", "d/foo/x/bar", "fooa/b/bar", "foox", "e/f/g/h", "e/f/a.b", "e/a",
		"build/out", "sub/build/out", `back\slash`, "tail ", "star*", "d[1]", "sp/tail  x", "7.dat", "x.dat", "ä", "d/-", "d/]", "d/^",
	}
	lines := []string{
		"a", "/a", "a/", "*.b", "*.[bc]", "foo*", "foo", "/foo", "foo/", "d/", "d/a", "d/*", "d/**", "/d/*/", "**/a", "**/foo/", "d/**/a", "d/**/bar", "**/bar",
		"foo**/bar", "e/**/h", "e/**/**/h", "e/***/h", "e/**h", "e**", "e/*/a.b", "?", "??", "x y", "x\\ y", `\#x`, "#x", `\!x`, "!x", "!a", "*\n!a", "*\n!*/\n!e/f/a.b", "/*\n!/d",
		"build", "/build", "sub/build", "**/build/", `back\\slash`, `back\slash`, "tail ", `tail\ `, "tail   ", `star\*`, `star[*]`, "d[[]1]", `d\[1\]`, "[!0-9].dat", "[^0-9].dat", "[0-9].dat", "[[:digit:]].dat",
		"[[:nope:]].dat", "[[:digit:].dat", "[", "[a", "[]]", "d/[]-]", "d/[!-]", "d/[^]]", "a[", `[\]]`, "d[/]a", "d?a", "d*a", "d/[a-", "[b-a]", "[a-\\b]", "\\", "a\\", "", " ", "/", "//", "**", "***", "/**", "**/", "**/*", "/**/a", "a\r", "a\t", "\xef\xbb\xbfa", "a\x00b",
		"d/foo", "!d/foo\nd", "d\n!d/foo", "d/*\n!d/foo\nd/foo/a", "*/*/a", "*/foo/*", "ä", "?ä", "[ä]", "??\n!ä", "e/f/", "e/*", "e/*\n!e/f", "e/*/\n!e/f/", "!**", "*\n!**/", "d/\\**", "**\\/a", "d/**\\/a",
	}
	var all []string
	for i := range lines {
		for _, name := range files {
			all = append(all, fmt.Sprintf("p%d/%s", i, name))
		}
	}
	w := newWorld(all...)
	for i, line := range lines {
		w.rules[fmt.Sprintf("p%d", i)] = line
	}
	t.Logf("%d answers as git's", w.compare(t))
}

// TestTreesAsGit: trees and ignore files of all sorts. MCPX_TEST_FULL takes many.
func TestTreesAsGit(t *testing.T) {
	needsGit(t)
	trees := 8
	if os.Getenv("MCPX_TEST_FULL") != "" {
		trees = 1500
	}
	asked := 0
	for seed := range uint64(trees) {
		r := rand.New(rand.NewPCG(seed, 5))
		pick := func(from ...string) string { return from[r.IntN(len(from))] }
		names := []string{"a", "b", "ab", "a.b", "foo", "bar.c", "x y", "A", "b-"}
		var files []string
		for range 30 {
			depth := 1 + r.IntN(4)
			parts := make([]string, depth)
			for i := range parts {
				parts[i] = pick(names...)
				if i < depth-1 {
					parts[i] += "_" // a name is a file or a directory
				}
			}
			files = append(files, strings.Join(parts, "/"))
		}
		piece := func() string {
			return pick(append([]string{"*", "**", "?", "*b", "a*", "[a-b]", "[!a]", "*.b", "foo_", "a_", "*_", `\a`, "b**", "**b", "x\\ y", "***"}, names...)...)
		}
		lines := func() string {
			var b strings.Builder
			for range 1 + r.IntN(5) {
				if r.IntN(3) == 0 {
					b.WriteByte('!')
				}
				if r.IntN(4) == 0 {
					b.WriteByte('/')
				}
				for i := range 1 + r.IntN(4) {
					if i > 0 {
						b.WriteByte('/')
					}
					b.WriteString(piece())
				}
				b.WriteString(pick("", "", "", "/", " ", "\r"))
				b.WriteByte('\n')
			}
			return b.String()
		}
		w := newWorld(files...)
		w.rules[""] = lines()
		for dir := range w.dirs {
			if r.IntN(4) == 0 {
				w.rules[dir] = lines()
			}
		}
		if r.IntN(2) == 0 {
			w.out = lines()
		}
		asked += w.compare(t)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Log(fmt.Sprint(asked, " answers as git's, of ", trees, " trees"))
}
