package work

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"mcpx/internal/operation"
)

// opens says whether anything in some directories was opened since it was asked before.
func opens(t *testing.T, dirs ...string) (since func() bool) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skip("skip: nobody says what is opened: ", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				_, err = unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_ACCESS)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	since = func() (any bool) {
		for buf := make([]byte, 4096); ; any = true {
			if _, err := unix.Read(fd, buf); errors.Is(err, unix.EAGAIN) {
				return any
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	since() // the walk is over
	return since
}

// TestDW1Unopened: DW-1, the trace. A replay opens nothing of its project, neither where that was nor where it is, and nothing of the
// workspace that it is about.
func TestDW1Unopened(t *testing.T) {
	s := newShop(t)
	call := func() operation.Answer {
		return s.call(t, "create_agent_workspace", `{"project":%q,"purpose":"work","mutable":["docs"],"operation_id":"create-01"}`, s.root)
	}
	w := read[openedWorkspace](t, call())
	away := s.root + ".away"
	if err := os.Rename(s.root, away); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(s.root, os.DirFS(filepath.Dir(w.Path))); err != nil { // somebody else is where it was
		t.Fatal(err)
	}
	s.project(t, "shop", away)
	s.next(t)
	opened := opens(t, s.root, away, w.Path)
	if a := call(); !a.OK || !a.Operation.Replayed {
		t.Fatalf("%+v, %v", a, a.Refusal)
	}
	if opened() {
		t.Error("something was opened")
	}
	if a := s.do(t, "read_file", `"path":"README.md"`); !a.OK || !opened() {
		t.Errorf("what reads is not seen: %v", a.Refusal)
	}
}
