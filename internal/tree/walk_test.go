//go:build linux || darwin

package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/atomicfile"
)

// walked are the paths that a walk comes to; "!" marks those that are ignored, "/" directories.
func (y *yard) walked(at string, o WalkOptions, visit func(Visit) error) (all []string) {
	y.t.Helper()
	p, err := y.root.Resolve(at, List)
	if err != nil {
		y.t.Fatal(err)
	}
	defer p.Close()
	err = p.Walk(y.t.Context(), o, func(v Visit) error {
		if !v.Again {
			name := v.Path
			if v.Kind == Directory {
				name += "/"
			}
			if v.Ignored {
				name = "!" + name
			}
			all = append(all, name)
		}
		if visit != nil {
			return visit(v)
		}
		return nil
	})
	if err != nil {
		y.t.Fatal(err)
	}
	return all
}

func TestWalk(t *testing.T) {
	area := t.TempDir()
	y := newYard(t, Options{Unwalked: []string{"vendor"}})
	y.put(".gitignore", "*.log\n/out\n!keep.log\n")
	y.put(".git/info/exclude", "local\n")
	y.put("src/.gitignore", "!a.log\n")
	y.put("src/a.log", "")
	y.put("src/b.log", "")
	y.put("src/local", "")
	y.put("src.txt", "")
	y.put("out/x/y", "")
	y.put("keep.log", "")
	y.put("vendor/x", "")
	y.put(".mcpx/txn/x", "")
	y.link("../outside", "src/link")
	y.link("/etc/hosts", "hosts")
	makePipe(t, y.path("pipe"))
	if err := os.Rename(area, y.path("area")); err != nil {
		t.Fatal(err)
	}
	if err := y.root.exclude(y.path("area")); err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(".git/ .gitignore README.md hosts keep.log !out/ pipe src/ src/.gitignore src/a.log !src/b.log src/link !src/local src/main.go src.txt")
	if got := y.walked(".", WalkOptions{}, nil); !slices.Equal(got, want) {
		t.Errorf("walked\n%q, want\n%q", got, want)
	}
	all := slices.Clone(want)
	all = slices.Insert(all, slices.Index(all, "!out/")+1, "!out/x/", "!out/x/y")
	if got := y.walked(".", WalkOptions{Ignored: true}, nil); !slices.Equal(got, all) {
		t.Errorf("with ignored ones\n%q, want\n%q", got, all)
	}
	if got := y.walked(".", WalkOptions{Depth: 1}, nil); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "src/m") }) || len(got) != 9 {
		t.Errorf("one level: %q", got)
	}
	if got := y.walked("src", WalkOptions{}, nil); !slices.Equal(got, want[8:14]) {
		t.Errorf("src: %q", got)
	}
	if got := y.walked("out", WalkOptions{}, nil); !slices.Equal(got, []string{"out/x/", "out/x/y"}) {
		t.Errorf("a directory that is asked for by its name: %q", got)
	}
	if got := y.walked(".", WalkOptions{}, func(v Visit) error {
		if v.Path == "src" {
			return fs.SkipDir
		}
		return nil
	}); slices.Contains(got, "src/main.go") || !slices.Contains(got, "src.txt") {
		t.Errorf("without src: %q", got)
	}
	// Every page ends where the next one begins.
	for size := 1; size < 6; size++ {
		var pages []string
		for after := ""; ; {
			n := 0
			page := y.walked(".", WalkOptions{After: after, Ignored: true}, func(v Visit) error {
				if v.Again {
					return nil
				}
				after = v.Path
				if n++; n == size {
					return fs.SkipAll
				}
				return nil
			})
			pages = append(pages, page...)
			if n < size {
				break
			}
		}
		if !slices.Equal(pages, all) {
			t.Errorf("in pages of %d:\n%q, want\n%q", size, pages, all)
		}
	}
	// What the page before ended with is gone.
	if got := y.walked(".", WalkOptions{After: "src/a.nothing"}, nil); got[0] != "!src/b.log" {
		t.Errorf("behind a name that is gone: %q", got)
	}
}

// TestWalkFails: what cannot be walked is told, and the rest is walked.
func TestWalkFails(t *testing.T) {
	y := newYard(t, Options{})
	deep := strings.Repeat("d/", MaxDepth+3)
	y.put(deep+"x", "")
	y.put("z", "")
	failed := map[string]Code{}
	got := y.walked(".", WalkOptions{Failed: func(path string, err error) { failed[path] = CodeOf(err) }}, nil)
	at := strings.TrimSuffix(strings.Repeat("d/", MaxDepth), "/")
	if failed[at] != LimitExceeded || len(failed) != 1 || got[len(got)-1] != "z" {
		t.Errorf("%d failed, at the end %q", len(failed), got[len(got)-1])
	}
	if os.Getuid() != 0 {
		if err := os.Chmod(y.path("src"), 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(y.path("src"), 0o700) //nolint:errcheck // the test ends
		clear(failed)
		y.walked(".", WalkOptions{Depth: 2, Failed: func(path string, err error) { failed[path] = CodeOf(err) }}, nil)
		if failed["src"] != FileDenied {
			t.Errorf("a directory without rights: %v", failed)
		}
	}
}

// TestWalkLargeDirectory: a page of a directory of 100,000 needs its names and no more.
func TestWalkLargeDirectory(t *testing.T) {
	y := newYard(t, Options{})
	if err := os.Mkdir(y.path("large"), 0o700); err != nil {
		t.Fatal(err)
	}
	const names = 100_000
	for i := range names {
		if err := os.Link(y.path("README.md"), y.path(fmt.Sprintf("large/%06d", i))); err != nil { // faster than files
			if i == 0 {
				t.Fatal(err)
			}
			y.put(fmt.Sprintf("large/%06d", i), "")
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	seen := 0
	y.walked("large", WalkOptions{After: "large/049999"}, func(v Visit) error {
		if seen++; v.Path != fmt.Sprintf("large/%06d", 49_999+seen) {
			t.Fatalf("the %d. is %s", seen, v.Path)
		}
		if seen == 1000 {
			return fs.SkipAll
		}
		return nil
	})
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
		t.Errorf("a page of 1000 took %d bytes", used)
	}
	if n := len(y.walked("large", WalkOptions{}, nil)); n != names {
		t.Errorf("%d entries", n)
	}
}

func TestSift(t *testing.T) {
	y := newYard(t, Options{})
	visits := map[string]Visit{}
	y.walked(".", WalkOptions{}, func(v Visit) error {
		defer t.Cleanup(v.Hold())
		visits[v.Path] = v
		return nil
	})
	buf := make([]byte, 0, 4)
	sum, buf, err := visits["src/main.go"].Sift(t.Context(), 100, buf, func(_ Facts, b []byte) (bool, error) { return string(b) == "package main\n", nil })
	if err != nil || sum != atomicfile.Sum([]byte("package main\n")) {
		t.Errorf("%s, %v", sum, err)
	}
	if sum, _, err := visits["README.md"].Sift(t.Context(), 100, buf, func(Facts, []byte) (bool, error) { return false, nil }); err != nil || sum != "" {
		t.Errorf("what does not matter: %q, %v", sum, err)
	}
	if _, _, err := visits["README.md"].Sift(t.Context(), 7, buf, nil); CodeOf(err) != LimitExceeded {
		t.Errorf("above the limit: %v", err)
	}
	// A file that changes while it is looked at is looked at again, and the hash is of what was seen last.
	for name, change := range map[string]func(){
		"in place":  func() { y.put("README.md", fmt.Sprint(rand.Uint64())) },
		"by rename": func() { y.put("new", fmt.Sprint(rand.Uint64())); y.rename("new", "README.md") },
	} {
		looks, last := 0, ""
		sum, _, err := visits["README.md"].Sift(t.Context(), 100, buf, func(_ Facts, b []byte) (bool, error) {
			if looks++; looks < 3 {
				change()
			}
			last = string(b)
			return true, nil
		})
		if err != nil || looks != 3 || sum != atomicfile.Sum([]byte(last)) || last != y.content("README.md") {
			t.Errorf("%s: after %d looks %q, %v", name, looks, last, err)
		}
	}
	_, _, err = visits["README.md"].Sift(t.Context(), 100, buf, func(Facts, []byte) (bool, error) {
		y.put("README.md", fmt.Sprint(rand.Uint64()))
		return true, nil
	})
	if CodeOf(err) != FileBusy {
		t.Errorf("always another one: %v", err)
	}
	makePipe(t, y.path("pipe"))
	y.rename("pipe", "README.md")
	if _, _, err := visits["README.md"].Sift(t.Context(), 100, buf, nil); CodeOf(err) != SpecialFile {
		t.Errorf("a pipe in its place: %v", err)
	}
	if err := os.Remove(y.path("README.md")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := visits["README.md"].Sift(t.Context(), 100, buf, nil); CodeOf(err) != NotFound {
		t.Errorf("gone: %v", err)
	}
	y.link(filepath.Join(y.outside, "passwd"), "README.md")
	if _, _, err := visits["README.md"].Sift(t.Context(), 100, buf, nil); err == nil || strings.Contains(err.Error(), secret) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link in its place: %v", err)
	}
}

func (y *yard) rename(from, to string) {
	y.t.Helper()
	if err := os.Rename(y.path(from), y.path(to)); err != nil {
		y.t.Fatal(err)
	}
}
