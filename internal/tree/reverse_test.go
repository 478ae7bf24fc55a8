//go:build linux || darwin

package tree

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func (s *shed) reverse(b Batch) Reversal {
	s.t.Helper()
	v, err := s.root.Reverse(s.t.Context(), s.area, b)
	if err != nil {
		s.t.Fatalf("reverse: %v", err)
	}
	return v
}

// seen is all that is in the root: the kind, permissions and digest of each path.
func (s *shed) seen() map[string]string {
	s.t.Helper()
	m, err := s.root.Survey(s.t.Context(), SurveyOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]string{}
	for _, i := range m.Items {
		all[string(i.Path)] = fmt.Sprintf("%s %o %s", i.Kind, i.Mode, i.Digest)
	}
	return all
}

// changed applies a batch with a change of every kind, and says what there was before.
func (s *shed) changed() (b Batch, before map[string]string) {
	s.t.Helper()
	s.put("gone/sub/a.txt", "a\n")
	s.put("run.sh", "#!/bin/sh\n")
	s.put("both.txt", "both\n")
	for name, mode := range map[string]os.FileMode{"gone": 0o710, "gone/sub": 0o750, "gone/sub/a.txt": 0o640, "run.sh": 0o600, "both.txt": 0o600} {
		if err := os.Chmod(s.path(name), mode); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := os.Symlink("README.md", s.path("link")); err != nil {
		s.t.Fatal(err)
	}
	before = s.seen()
	to := "run.sh"
	b = s.stage("op1",
		Intent{Kind: Add, Path: "new/deep/b.txt", Data: []byte("b\n")},
		Intent{Kind: Replace, Path: "README.md", Expect: sum(s.content("README.md")), Data: []byte("changed\n")},
		Intent{Kind: Replace, Path: "both.txt", Expect: sum("both\n"), Data: []byte("changed, too\n"), Mode: 0o755},
		Intent{Kind: Replace, Path: "link", Expect: LinkDigest("README.md"), Link: &to},
		Intent{Kind: SetMode, Path: "run.sh", Mode: 0o700},
		Intent{Kind: Delete, Path: "gone/sub/a.txt", Expect: sum("a\n")},
		Intent{Kind: Rmdir, Path: "gone/sub"},
		Intent{Kind: Rmdir, Path: "gone"})
	s.apply(b, Applied)
	s.finish(b)
	return b, before
}

// TestReverse: what a batch has done is taken back, to the permissions, by a batch that can be taken back itself.
func TestReverse(t *testing.T) {
	s := newShed(t)
	b, before := s.changed()
	after := s.seen()
	for n, want := range []map[string]string{before, after} {
		v := s.reverse(b)
		if len(v.Moved) > 0 {
			t.Fatalf("%d: %v moved", n, v.Moved)
		}
		b = s.stage(fmt.Sprintf("back%d", n), v.Intents...)
		s.apply(b, Applied)
		s.finish(b)
		if now := s.seen(); !maps.Equal(now, want) {
			t.Errorf("%d: there is %v\nwant %v", n, now, want)
		}
	}
}

// TestReverseMoved: what somebody has changed since does not go back, and what is back already needs nothing.
func TestReverseMoved(t *testing.T) {
	s := newShed(t)
	b, _ := s.changed()
	s.put("new/deep/b.txt", "b, and more\n")
	s.put("both.txt", "both\n")
	if err := os.Chmod(s.path("both.txt"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.path("run.sh"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.area.Path(), trashDir, b.ID, b.Changes[slices.IndexFunc(b.Changes, func(c Change) bool { return c.Kind == Delete })].trash()), []byte("late\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := s.reverse(b)
	slices.Sort(v.Moved)
	if want := []RawPath{"gone/sub/a.txt", "new/deep/b.txt", "run.sh"}; !slices.Equal(v.Moved, want) {
		t.Errorf("moved are %v, want %v", v.Moved, want)
	}
	if slices.ContainsFunc(v.Intents, func(i Intent) bool { return i.Path == "both.txt" }) {
		t.Error("what is back is taken back")
	}
}

// TestReversePurged: without what was displaced there is no way back.
func TestReversePurged(t *testing.T) {
	s := newShed(t)
	b, _ := s.changed()
	if late, err := s.root.Purge(t.Context(), s.area, b); err != nil || len(late) > 0 {
		t.Fatal(late, err)
	}
	if _, err := s.root.Reverse(t.Context(), s.area, b); CodeOf(err) != NotFound {
		t.Errorf("%v", err)
	}
	for _, where := range []string{txnDir, trashDir} {
		if left, err := os.ReadDir(filepath.Join(s.area.Path(), where)); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", where, left, err)
		}
	}
}
