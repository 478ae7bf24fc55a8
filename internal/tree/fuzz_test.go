//go:build linux || darwin

package tree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/atomicfile"
	"mcpx/internal/test/faultdisk"
)

// TestMounts: what is mounted below the root is not reached, and neither are magic links there.
func TestMounts(t *testing.T) {
	root, err := Open("/", Options{})
	if err != nil {
		t.Skipf("skip: mounts: %v", err)
	}
	defer root.Close()
	for _, path := range []string{"proc/self/root/etc/passwd", "/proc/self/status", "dev/null"} {
		top, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		if facts, err := look(root.dir, top); err != nil || facts.mount == root.facts.mount {
			t.Logf("skip: mounts: /%s is none", top)
			continue
		}
		for _, a := range []Access{Look, Read, List, Write} {
			_, err := root.Resolve(path, a)
			if CodeOf(err) != Unsupported || problemOf(t, err).Details["mount"] != top {
				t.Errorf("%s for %s: %v", path, a, err)
			}
		}
	}
}

// FuzzResolve: whatever is asked for, what is found is below the root, under a name that leads to itself.
func FuzzResolve(f *testing.F) {
	for _, seed := range []string{
		"README.md", "../x", "a/../../b", "hooks/x", "link-out/passwd", "src/./main.go", ".mcpx/x", "loop/x", "to-root/src/main.go",
		"/proc/self/root/etc/passwd", "src//../..//outside", "dangling/../x", "\xff\xfe", "pipe", "src/main.go/..", "up/README.md",
	} {
		f.Add(seed, uint8(0))
		f.Add(seed, uint8(3))
	}
	base, err := filepath.EvalSymlinks(faultdisk.Dir(f))
	if err != nil {
		f.Fatal(err)
	}
	dir := filepath.Join(base, "shop")
	for _, name := range []string{"shop/README.md", "shop/src/main.go", "shop/.git/hooks/x", "shop/.mcpx/txn/y", "outside/passwd"} {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			f.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(secret), 0o644); err != nil {
			f.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"hooks": ".git/hooks", "link-out": "../outside", "loop": "loop", "to-root": dir, "dangling": "no/where", "src/up": "..", "up": "src/up", "area": ".mcpx",
	} {
		if err := os.Symlink(text, filepath.Join(dir, name)); err != nil {
			f.Fatal(err)
		}
	}
	root, err := Open(dir, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = root.Close() })
	accesses := []Access{Look, Read, List, Write}
	f.Fuzz(func(t *testing.T, path string, which uint8) {
		a := accesses[int(which)%len(accesses)]
		p, err := root.Resolve(path, a)
		if err != nil {
			if CodeOf(err) == Internal || p != nil {
				t.Errorf("%q for %s: %v", path, a, err)
			}
			return
		}
		defer p.Close()
		for c := range strings.SplitSeq(p.Path, "/") {
			if c == ".." || c == "" || c == "." && p.Path != "." || c == areaName {
				t.Fatalf("%q is at %q", path, p.Path)
			}
		}
		if p.Kind == Absent {
			if _, err := os.Lstat(filepath.Join(dir, p.Path)); err == nil {
				t.Errorf("%q is at %q, which exists", path, p.Path)
			}
			return
		}
		info, err := os.Lstat(filepath.Join(dir, p.Path))
		if err != nil || atomicfile.IdentityOf(info) != p.ID.String() {
			t.Fatalf("%q is at %q, where there is %v, %v", path, p.Path, info, err)
		}
		physical, err := filepath.EvalSymlinks(filepath.Dir(filepath.Join(dir, p.Path)))
		if err != nil || physical != dir && !strings.HasPrefix(physical, dir+"/") && p.Path != "." {
			t.Fatalf("%q is in %q, %v", path, physical, err)
		}
		again, err := root.Resolve(p.Path, Look)
		if err != nil {
			t.Fatalf("%q is at %q, which is not found: %v", path, p.Path, err)
		}
		defer again.Close()
		if again.Path != p.Path || again.ID != p.ID || len(again.Through) > 0 {
			t.Errorf("%q is at %q, and that at %q", path, p.Path, again.Path)
		}
	})
}
