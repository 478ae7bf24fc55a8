package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"mcpx/internal/atomicfile"
)

func TestResolve(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"home", "dotfiles"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"home/linked": "../dotfiles/real", "home/dangling": "../dotfiles/later", "home/loop": "loop2", "home/loop2": "loop",
		"home/sub": "../dotfiles", "home/twice": "sub/real",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "dotfiles/real"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"home/plain": "home/plain", "home/linked": "dotfiles/real", "home/dangling": "dotfiles/later", "home/sub/x": "dotfiles/x", "home/twice": "dotfiles/real",
	} {
		got, err := atomicfile.Resolve(filepath.Join(dir, path))
		if err != nil || got != filepath.Join(dir, want) {
			t.Errorf("%s leads to %s, %v; want %s", path, got, err, want)
		}
	}
	if _, err := atomicfile.Resolve(filepath.Join(dir, "home/loop")); !errors.Is(err, atomicfile.ErrLinkLoop) {
		t.Errorf("a loop: %v", err)
	}
	if _, err := atomicfile.Resolve(filepath.Join(dir, "nowhere/file")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	file, link, large := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "large")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, atomicfile.MaxContent+1); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{link: atomicfile.ErrIrregular, dir: atomicfile.ErrIrregular, large: atomicfile.ErrTooLarge} {
		if _, err := (atomicfile.OS{}).Read(path); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if c, err := (atomicfile.OS{}).Read(filepath.Join(dir, "none")); err != nil || !c.Absent {
		t.Errorf("no file: %+v, %v", c, err)
	}
	if err := os.Link(file, filepath.Join(dir, "second")); err != nil {
		t.Fatal(err)
	}
	if c, err := (atomicfile.OS{}).Read(file); err != nil || c.Links != 2 || string(c.Data) != "x" {
		t.Errorf("two names: %+v, %v", c, err)
	}
}
