package atomicfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mcpx/internal/atomicfile"
)

func TestWriteReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "record")
	for _, content := range []string{"one", "", "three"} {
		if err := atomicfile.Write(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("read back %q, %v; want %q", got, err, content)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode = %v, %v; want 0640", info.Mode(), err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files in the directory, want only the target", len(left))
	}
}

func TestWriteFailureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(path, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(path, []byte("x"), 0o600); err == nil {
		t.Fatal("a directory was replaced by a file")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d entries after a failed write, want 1", len(left))
	}
}

func TestWriteReplacesALink(t *testing.T) {
	dir := t.TempDir()
	other, path := filepath.Join(dir, "other"), filepath.Join(dir, "link")
	if err := os.WriteFile(other, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(other); string(got) != "keep" {
		t.Errorf("the target of the link was changed to %q", got)
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if held, err := atomicfile.Held(path); held || err != nil {
		t.Errorf("Held without a file = %v, %v", held, err)
	}
	first, err := atomicfile.TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	// flock belongs to the open file, so a second open in the same process is as foreign as another process.
	if _, err := atomicfile.TryLock(path); !errors.Is(err, atomicfile.ErrLocked) {
		t.Errorf("second lock: %v, want ErrLocked", err)
	}
	if held, err := atomicfile.Held(path); !held || err != nil {
		t.Errorf("Held = %v, %v; want true", held, err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if held, err := atomicfile.Held(path); held || err != nil {
		t.Errorf("Held after Release = %v, %v; want false", held, err)
	}
}

func TestLockRefusesALink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), path); err != nil {
		t.Fatal(err)
	}
	if _, err := atomicfile.TryLock(path); err == nil {
		t.Error("a symbolic link was followed")
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	stay := []string{"owner.json", ".owner.json", ".tmp-1", "owner.json.tmp-12", ".owner.json.tmp-x", ".owner.json.tmp-1x"}
	for _, name := range append([]string{".owner.json.tmp-123", ".a.b.tmp-9"}, stay...) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".dir.tmp-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Sweep(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := append([]string{".dir.tmp-1"}, stay...)
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
}
