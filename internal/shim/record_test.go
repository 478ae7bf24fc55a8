//go:build unix

package shim

import (
	"os"
	"path/filepath"
	"testing"

	"mcpx/internal/process"
)

// TestRecordIsWrittenLater has a disk that takes nothing at first.
func TestRecordIsWrittenLater(t *testing.T) {
	dir := bundle(filepath.Join(t.TempDir(), "shim_x"))
	child := process.Identity{Boot: "b", Pid: 7, Start: 8}
	s := &supervisor{taken: taken{dir: dir}, spec: spec{ID: dir.id(), Name: "files"}, state: stateRunning, life: &life{child: &process.Child{ID: child}}}
	s.keepRecord()
	if !s.unrecorded.Load() {
		t.Fatal("a record was written into nothing")
	}
	if err := os.Mkdir(string(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	s.keepRecord()
	r, err := dir.readRecord()
	if err != nil || s.unrecorded.Load() || r.Name != "files" || r.Child == nil || *r.Child != child {
		t.Errorf("record %+v, %v, still to be written: %v", r, err, s.unrecorded.Load())
	}
	if left, err := filepath.Glob(filepath.Join(string(dir), ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
