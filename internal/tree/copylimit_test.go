//go:build unix

package tree

import (
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
