//go:build linux || darwin

package tree

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// secret is a text that no refusal may show.
const secret = "canary-51bd7c"

// yard is a project in a directory of its own, with a neighbour outside of it.
type yard struct {
	t       *testing.T
	outside string // a directory beside the project
	dir     string // the project
	root    *Root
}

func newYard(t *testing.T, o Options) *yard {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return yardIn(t, base, o)
}

func yardIn(t *testing.T, base string, o Options) *yard {
	t.Helper()
	y := &yard{t: t, outside: filepath.Join(base, "outside"), dir: filepath.Join(base, "shop")}
	y.put("../outside/passwd", secret)
	y.put("README.md", "read me\n")
	y.put("src/main.go", "package main\n")
	y.put(".git/hooks/x", "hook\n")
	o.ByPath = true // a machine of ours may test on an overlay
	root, err := Open(y.dir, o)
	if err != nil {
		t.Fatal(err)
	}
	y.root = root
	t.Cleanup(func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	})
	return y
}

func (y *yard) path(rel string) string { return filepath.Join(y.dir, rel) }

func (y *yard) put(rel, content string) {
	y.t.Helper()
	if err := os.MkdirAll(filepath.Dir(y.path(rel)), 0o755); err != nil {
		y.t.Fatal(err)
	}
	if err := os.WriteFile(y.path(rel), []byte(content), 0o644); err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) link(text, rel string) {
	y.t.Helper()
	if err := os.Symlink(text, y.path(rel)); err != nil {
		y.t.Fatal(err)
	}
}

// content is what stands under a name; "" nothing.
func (y *yard) content(rel string) string {
	y.t.Helper()
	raw, err := os.ReadFile(y.path(rel))
	if err != nil && !os.IsNotExist(err) {
		y.t.Fatal(err)
	}
	return string(raw)
}

func (y *yard) resolve(path string, a Access) (*Place, error) {
	y.t.Helper()
	p, err := y.root.Resolve(path, a)
	if p != nil {
		y.t.Cleanup(func() { _ = p.Close() })
	}
	return p, err
}

// leakless fails when a refusal shows the secret, a hash or a size.
func leakless(t *testing.T, err error) {
	t.Helper()
	raw, jsonErr := json.Marshal(problemOf(t, err).Details)
	if jsonErr != nil {
		t.Fatal(jsonErr)
	}
	for _, shown := range []string{err.Error(), string(raw)} {
		if strings.Contains(shown, secret) || strings.Contains(shown, "sha256") || strings.Contains(shown, "size") {
			t.Errorf("the refusal shows too much: %s", shown)
		}
	}
}

func problemOf(t *testing.T, err error) *Problem {
	t.Helper()
	p, ok := err.(*Problem) //nolint:errorlint // exactly that one
	if !ok {
		t.Fatalf("%v is no problem", err)
	}
	return p
}

func TestResolve(t *testing.T) {
	y := newYard(t, Options{})
	y.put("docs/guide.md", "guide\n")
	y.link(".git/hooks", "hooks")
	y.link("../docs/guide.md", "src/guide")
	y.link(y.path("docs"), "absolute")
	y.link("nowhere", "dangling")
	for _, test := range []struct {
		path    string
		access  Access
		want    string // canonical
		kind    Kind
		through []string
	}{
		{"README.md", Read, "README.md", File, nil},
		{"./src//main.go", Read, "src/main.go", File, nil},
		{"src/../README.md", Read, "README.md", File, nil},
		{"src/..", List, ".", Directory, nil},
		{".git/hooks/..", List, ".git", Directory, nil},
		{".", List, ".", Directory, nil},
		{"docs/", List, "docs", Directory, nil},
		{y.path("src/main.go"), Read, "src/main.go", File, nil},
		{"hooks/x", Read, ".git/hooks/x", File, []string{"hooks"}},
		{"hooks", Look, "hooks", Link, nil},
		{"hooks/../../README.md", Read, "README.md", File, []string{"hooks"}}, // up from where the link leads
		{"src/guide", Read, "docs/guide.md", File, []string{"src/guide"}},
		{"absolute/guide.md", Read, "docs/guide.md", File, []string{"absolute"}},
		{"./docs/../.git/hooks/x", Write, ".git/hooks/x", File, nil},
		{"hooks/x", Write, ".git/hooks/x", File, []string{"hooks"}},
		{"new.txt", Write, "new.txt", Absent, nil},
		{"a/b/new.txt", Write, "a/b/new.txt", Absent, nil},
		{"dangling", Write, "nowhere", Absent, []string{"dangling"}},
		{"dangling", Look, "dangling", Link, nil},
	} {
		p, err := y.resolve(test.path, test.access)
		if err != nil {
			t.Errorf("%s for %s: %v", test.path, test.access, err)
			continue
		}
		if p.Path != test.want || p.Kind != test.kind || !slices.Equal(p.Through, test.through) {
			t.Errorf("%s for %s: %s, %s through %q; want %s, %s through %q", test.path, test.access, p.Path, p.Kind, p.Through, test.want, test.kind, test.through)
		}
		alias := p.Alias()
		if (alias != nil) != (len(test.through) > 0) || alias != nil && CodeOf(alias) != PathAlias {
			t.Errorf("%s: alias %v", test.path, alias)
		}
	}
	p, err := y.resolve("a/b/new.txt", Write)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "new.txt"}, p.Missing); diff != "" {
		t.Error(diff)
	}
}

// TestRT39Escapes: nothing outside of the root is reached, and a refusal says no size, hash or content.
func TestRT39Escapes(t *testing.T) {
	y := newYard(t, Options{})
	y.link(y.outside, "link-out")
	y.link("../outside", "link-rel")
	y.link("/proc/self/root"+y.outside, "link-proc")
	y.link("../../outside/passwd", "src/deep")
	y.link("loop", "loop")
	y.link("../shop", "again")
	for _, test := range []struct {
		path string
		want Code
	}{
		{"../x", Outside},
		{"..", Outside},
		{"src/../../outside/passwd", Outside},
		{"nowhere/../../x", Outside},
		{"nowhere/../x", NotFound},
		{"link-out/", Outside},
		{"nowhere/" + strings.Repeat("a", 256), ArgumentInvalid},
		{"/etc/passwd", Outside},
		{y.dir + "x/passwd", Outside},
		{filepath.Dir(y.dir), Outside},
		{y.dir + "/../outside/passwd", Outside},
		{"/proc/self/root" + y.path("README.md"), Outside},
		{"/proc/self/cwd", Outside},
		{"/dev/stdin", Outside},
		{"link-out/passwd", Outside},
		{"link-out", Outside},
		{"link-rel/passwd", Outside},
		{"link-proc/passwd", Outside},
		{"src/deep", Outside},
		{"again/README.md", Outside}, // it would come back in, by a name that somebody else may change
		{"loop", PathAlias},
		{"", ArgumentInvalid},
		{"a\x00b", ArgumentInvalid},
		{strings.Repeat("a", 256), ArgumentInvalid},
		{strings.Repeat("a/", 3000), ArgumentInvalid},
		{"README.md/x", NotFound},
		{"nothing", NotFound},
		{"src", NotAFile},
		{".mcpx/txn/x", Outside},
		{".mcpx", Outside},
	} {
		for _, a := range []Access{Read, Write} {
			if a == Write && (test.want == NotFound && test.path == "nothing") {
				continue
			}
			_, err := y.resolve(test.path, a)
			if got := CodeOf(err); got != test.want {
				t.Errorf("%s for %s: %v (%s), want %s", test.path, a, err, got, test.want)
				continue
			}
			leakless(t, err)
		}
	}
	if _, err := y.resolve("link-out/", Look); CodeOf(err) != Outside {
		t.Errorf("a link with a slash is what it leads to: %v", err)
	}
	if _, err := y.resolve("README.md", List); CodeOf(err) != NotADirectory {
		t.Errorf("a file as a directory: %v", err)
	}
}

// TestAreas: what is the runtime's own is not reached from a root above it.
func TestAreas(t *testing.T) {
	base := t.TempDir()
	state := filepath.Join(base, "shop", "home", "state")
	if err := os.MkdirAll(filepath.Join(state, "workspaces", "ws_1"), 0o700); err != nil {
		t.Fatal(err)
	}
	y := yardIn(t, base, Options{Areas: []string{state, filepath.Join(base, "no-such")}})
	y.link("home/state", "to-state")
	for _, path := range []string{"home/state", "home/state/mcpx.db", "to-state/mcpx.db", "home/../home/state/workspaces/ws_1"} {
		for _, a := range []Access{Read, Write, List, Look} {
			if path == "home/state" && a == Write {
				continue
			}
			if _, err := y.resolve(path, a); CodeOf(err) != Outside || problemOf(t, err).Details["reason"] != "runtime_area" {
				t.Errorf("%s for %s: %v", path, a, err)
			}
		}
	}
	inside, err := Open(filepath.Join(state, "workspaces", "ws_1"), Options{Areas: []string{state}})
	if err != nil {
		t.Fatalf("a workspace in the area: %v", err)
	}
	defer inside.Close()
	p, err := inside.Resolve("new", Write)
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Close()
}

// TestRT60CaseTwins: where names know no case, one spelling is canonical. No file system of a test machine folds, so the
// lookups of one that does are played.
func TestRT60CaseTwins(t *testing.T) {
	y := newYard(t, Options{})
	y.root.volume.folds = func(dir *os.File) bool { return true }
	// A second name of the same directory stands for the lookup that ignores case.
	y.link(".git", ".GIT")
	p, err := y.resolve(".GIT/hooks/x", Write)
	if err != nil {
		t.Fatal(err)
	}
	if p.Path != ".git/hooks/x" || !p.Folds {
		t.Errorf("%s, folds %v", p.Path, p.Folds)
	}
	for _, path := range []string{".MCPX/x", ".mcpx"} {
		if _, err := y.resolve(path, Write); CodeOf(err) != Outside {
			t.Errorf("%s: %v", path, err)
		}
	}
	w := &walker{root: y.root, dir: mustEnter(t, y.root, nil)}
	defer w.dir.Close()
	facts, err := look(w.dir, "README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range []string{"readme.MD", "README.md", "other spelling"} {
		if got := w.spelled(asked, facts.ID); got != "README.md" {
			t.Errorf("%s is spelled %s", asked, got)
		}
	}
}

func mustEnter(t *testing.T, r *Root, names []string) *os.File {
	t.Helper()
	dir, err := r.enterAll(names)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOpen(t *testing.T) {
	base := t.TempDir()
	if err := os.WriteFile(filepath.Join(base, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(base, filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]Code{
		filepath.Join(base, "file"): NotADirectory, filepath.Join(base, "nothing"): NotFound, "relative": ArgumentInvalid, "/proc/self": Unsupported,
	} {
		if _, err := Open(path, Options{}); CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	one, err := Open(base, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	two, err := Open(filepath.Join(base, "link"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	if !one.Identity().Is(two.Identity()) || one.Path() != two.Path() {
		t.Errorf("%+v and %+v are one directory", one.Identity(), two.Identity())
	}
	if p, err := two.Resolve(filepath.Join(base, "link", "file"), Read); err != nil || p.Path != "file" {
		t.Errorf("by the name the root was given: %v, %v", p, err)
	} else {
		_ = p.Close()
	}
	if err := os.Mkdir(filepath.Join(base, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	other, err := Open(filepath.Join(base, "sub"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if one.Identity().Is(other.Identity()) {
		t.Error("two directories are one")
	}
}
