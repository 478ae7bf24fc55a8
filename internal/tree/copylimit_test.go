//go:build unix

package tree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestCopyLimit: no file is begun with which more than the limit would be copied.
func TestCopyLimit(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := Open(dir, Options{ByPath: true})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	to := t.TempDir()
	got, err := root.CopyTo(t.Context(), filepath.Join(to, "tree"), filepath.Join(to, "base"), CopyOptions{Limit: 1<<20 - 1})
	if err == nil && got.Shared {
		t.Skip("here copies share their bytes")
	}
	if CodeOf(err) != LimitExceeded {
		t.Errorf("copied: %v", err)
	}
	if info, err := os.Stat(filepath.Join(to, "tree/large")); err == nil && info.Size() > 0 {
		t.Errorf("%d bytes of it were copied", info.Size())
	}
}

// TestCopyCounted: a copy that has come to a part of its limit looks at all that is to come, second copies included, and what is
// left out is none of it.
func TestCopyCounted(t *testing.T) {
	dir := t.TempDir()
	for n := range 4 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("file-", n)), make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := Open(dir, Options{ByPath: true})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, c := range map[string]struct {
		limit, before int64 // before: to the mark from which it is counted
		twice         bool
		skip          string
		want          Code
	}{
		"all of it fits":         {limit: 4000},
		"too much":               {limit: 3999, want: LimitExceeded},
		"too much with copies":   {limit: 4999, twice: true, want: LimitExceeded},
		"one is left out":        {limit: 3999, skip: "file-2"},
		"it was counted already": {limit: 3999, before: 1},
		"too little yet":         {limit: 3999, before: -20},
	} {
		o := CopyOptions{Limit: c.limit, Twice: func(path string) bool { return c.twice && path != "file-0" }, Skip: func(s Seen) string {
			if s.Path == c.skip {
				return "excluded"
			}
			return ""
		}}
		one := root.copier(filepath.Join(dir, "to"), "", o)
		one.pack = &packer{}
		one.plain.Store(true)
		one.out.Real = c.limit/countFrom + c.before
		if err := one.fits(t.Context(), "file-0", 10); CodeOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLayLimit: what a workspace takes from a build is counted with the bytes that are kept of it.
func TestLayLimit(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "built"), make([]byte, 1<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := Open(dir, Options{ByPath: true})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for limit, want := range map[int64]Code{1 << 10: LimitExceeded, 2 << 10: ""} {
		p := Packet{t.TempDir()}
		if err := errors.Join(os.Mkdir(p.Copy(), 0o700), os.Mkdir(p.Blobs(), 0o700)); err != nil {
			t.Fatal(err)
		}
		got, err := p.Lay(t.Context(), root, CopyOptions{Limit: limit, Twice: func(string) bool { return true }})
		if got.Shared {
			t.Skip("here copies share their bytes")
		}
		if CodeOf(err) != want {
			t.Errorf("%d bytes: %v", limit, err)
		}
	}
}

// TestSnapshotOfSetuid: a snapshot keeps a file that runs as somebody else as one that does not.
func TestSnapshotOfSetuid(t *testing.T) {
	dir := t.TempDir()
	from, to := Packet{filepath.Join(dir, "ws")}, Packet{filepath.Join(dir, "kept")}
	program := filepath.Join(from.Copy(), "program")
	for _, err := range []error{
		os.MkdirAll(from.Copy(), 0o700), os.WriteFile(program, []byte("bytes"), 0o755), os.Chmod(program, 0o755|os.ModeSetuid|os.ModeSetgid),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := from.Snapshot(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(to.Copy(), "program"))
	if err != nil || info.Mode() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
}
