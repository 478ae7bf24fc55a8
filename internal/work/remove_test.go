//go:build linux || darwin

package work

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/approval"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/tree"
)

// snapshot is what lies below a directory: kinds, permissions, texts of links and bytes.
func snapshot(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			text, err := os.Readlink(path)
			if err != nil {
				return err
			}
			what += " " + text
		case info.Mode().IsRegular():
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += " " + string(raw)
		}
		name, err := filepath.Rel(root, path)
		all[name] = what
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// same compares two snapshots.
func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s: %s is %.80q, want %.80q", what, name, got[name], w)
		}
	}
	for name, g := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s is there: %.80q", what, name, g)
		}
	}
}

// newHeap is a shop with something to remove: old/, and old.txt.
func newHeap(t *testing.T) *shop {
	t.Helper()
	s := newShop(t)
	s.save(t, "old/a.txt", "a\n")
	s.save(t, "old/sub/run", "#!/bin/sh\n")
	s.save(t, "old.txt", "old\n")
	for _, dir := range []string{"old/empty"} {
		if err := os.Mkdir(filepath.Join(s.root, dir), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(s.root, "old/sub/run"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"old/link": "../README.md", "old/dangling": "nowhere"} {
		if err := os.Symlink(text, filepath.Join(s.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// prepare freezes the heap.
func (s *shop) prepare(t *testing.T, id string) prepared {
	t.Helper()
	a := s.do(t, "remove_files", `"operation_id":%q,"action":"prepare","targets":[{"path":"old"},{"path":"old.txt","expect_sha256":%q}]`, id, digest([]byte(s.file(t, "old.txt"))))
	return read[prepared](t, a)
}

func (s *shop) submit(t *testing.T, id, manifest string) operation.Answer {
	t.Helper()
	return s.do(t, "remove_files", `"operation_id":%q,"action":"submit","manifest_id":%q`, id, manifest)
}

func TestRT66PrepareChangesNothing(t *testing.T) {
	s := newHeap(t)
	before := snapshot(t, s.root)
	p := s.prepare(t, "prepare-1")
	same(t, "after prepare", snapshot(t, s.root), before)
	if p.Files != 3 || p.Dirs != 3 || p.Links != 2 || p.Bytes != int64(len("a\n#!/bin/sh\nold\n")) || p.Waiting == nil || p.Waiting.Approval == "" {
		t.Errorf("%+v", p)
	}
	want := []string{"old", "old/a.txt", "old/dangling", "old/empty", "old/link", "old/sub", "old/sub/run", "old.txt"}
	if !slices.Equal(p.Preview, want) {
		t.Errorf("preview %q, want %q", p.Preview, want)
	}
	whole := read[struct{ Text string }](t, s.do(t, "read_result", `"ref":%q`, p.Ref)).Text
	for _, w := range []string{digest([]byte("a\n")), digest([]byte("#!/bin/sh\n")), `"link":"../README.md"`, `"link":"nowhere"`, `"path":"empty"`} {
		if !strings.Contains(whole, w) {
			t.Errorf("the manifest has no %s:\n%s", w, whole)
		}
	}
	if digest([]byte(whole)) != p.SHA256 {
		t.Error("the manifest has another hash than prepare says")
	}
	if again := s.prepare(t, "prepare-2"); again.Manifest != p.Manifest || again.Waiting.Approval != p.Waiting.Approval {
		t.Errorf("the same prepared twice asks twice: %+v", again)
	}
}

func TestRT67NothingWithoutAYes(t *testing.T) {
	s := newHeap(t)
	before := snapshot(t, s.root)
	p := s.prepare(t, "prepare-1")
	for i := range 10 {
		for _, extra := range []string{"", `,"activity":{"intent":"again"}`, `,"wait_ms":0`} {
			a := s.do(t, "remove_files", `"operation_id":"submit-%d","action":"submit","manifest_id":%q%s`, 10+i%2, p.Manifest, extra)
			if a.OK || a.Status != operation.OutcomeWaiting || a.Waiting == nil || a.Waiting.Approval != p.Waiting.Approval {
				t.Fatalf("%+v (%v)", a, a.Refusal)
			}
		}
	}
	for _, extra := range []string{`"confirmed":true`, fmt.Sprintf(`"token":%q`, p.Manifest), fmt.Sprintf(`"approval_id":%q`, p.Waiting.Approval)} {
		if a := s.do(t, "remove_files", `"operation_id":"submit-20","action":"submit","manifest_id":%q,%s`, p.Manifest, extra); a.OK {
			t.Errorf("%s removed: %+v", extra, a)
		}
	}
	same(t, "without a yes", snapshot(t, s.root), before)
	s.decide(t, s.approvals(t)[0], false)
	refused(t, s.submit(t, "submit-30", p.Manifest), approvalDenied, fault.Never)
	same(t, "after a no", snapshot(t, s.root), before)
}

func TestRT68Once(t *testing.T) {
	s := newHeap(t)
	p := s.prepare(t, "prepare-1")
	s.submit(t, "submit-1", p.Manifest)
	s.decide(t, s.approvals(t)[0], true)
	first := s.submit(t, "submit-1", p.Manifest)
	r := read[removed](t, first)
	if r.Moved != 2 || r.Bytes != p.Bytes || !r.Restorable || len(r.Items) != 2 || r.Items[0].Trash != tree.HomeBin {
		t.Fatalf("%+v", r)
	}
	for _, name := range []string{"old", "old.txt"} {
		if _, err := os.Lstat(filepath.Join(s.root, name)); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(r.Items[0].Where, "sub/run")); err != nil || string(got) != "#!/bin/sh\n" {
		t.Errorf("in the trash: %q, %v", got, err)
	}
	info, err := os.ReadFile(filepath.Join(s.state, "data/Trash/info", filepath.Base(r.Items[1].Where)+".trashinfo"))
	if err != nil || !strings.HasPrefix(string(info), "[Trash Info]\nPath="+filepath.Join(s.root, "old.txt")+"\nDeletionDate=2026-11-30T") {
		t.Errorf("the trash says %q, %v", info, err)
	}
	again := s.submit(t, "submit-1", p.Manifest)
	if string(again.Data) != string(first.Data) || !again.Operation.Replayed {
		t.Errorf("a retry: %+v", again)
	}
	s.save(t, "old.txt", "old\n")
	refused(t, s.submit(t, "submit-2", p.Manifest), "MANIFEST_CHANGED", fault.AfterFix)
	read[restored](t, s.do(t, "remove_files", `"operation_id":"restore-1","action":"restore","manifest_id":%q`, p.Manifest))
	refused(t, s.submit(t, "submit-3", p.Manifest), approvalRevoked, fault.NewID)
	if s.file(t, "old.txt") != "old\n" {
		t.Error("removed by a yes that was used")
	}
	status := read[removalStatus](t, s.do(t, "remove_files", `"action":"status","manifest_id":%q`, p.Manifest))
	if status.State != approval.Consumed || status.Operation != "submit-1" || status.Files != 3 {
		t.Errorf("%+v", status)
	}
}

func TestRT69ManifestChanged(t *testing.T) {
	for list, change := range map[string]func(*shop){
		"changed": func(s *shop) { s.save(t, "old/a.txt", "another\n") },
		"added":   func(s *shop) { s.save(t, "old/new.txt", "new\n") },
		"gone": func(s *shop) {
			if err := os.Remove(filepath.Join(s.root, "old/a.txt")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		s := newHeap(t)
		p := s.prepare(t, "prepare-1")
		s.decide(t, s.approvals(t)[0], true)
		change(s)
		before := snapshot(t, s.root)
		a := s.submit(t, "submit-1", p.Manifest)
		refused(t, a, "MANIFEST_CHANGED", fault.AfterFix)
		if a.Refusal == nil {
			continue
		}
		for _, name := range []string{"added", "changed", "gone"} {
			if paths := a.Refusal.Details[name].([]string); (len(paths) == 1) != (name == list) || len(paths) == 1 && !strings.HasPrefix(paths[0], "old/") {
				t.Errorf("%s: %s is %q", list, name, paths)
			}
		}
		same(t, list, snapshot(t, s.root), before)
	}
}

func TestRT70And71Restore(t *testing.T) {
	s := newHeap(t)
	before := snapshot(t, s.root)
	p := s.prepare(t, "prepare-1")
	s.decide(t, s.approvals(t)[0], true)
	read[removed](t, s.submit(t, "submit-1", p.Manifest))
	if s.file(t, "README.md") != "one\ntwo\nthree\n" {
		t.Error("what a link led to was touched")
	}
	r := read[restored](t, s.do(t, "remove_files", `"operation_id":"restore-1","action":"restore","manifest_id":%q`, p.Manifest))
	if len(r.Restored) != 2 || len(r.Skipped) != 0 {
		t.Errorf("%+v", r)
	}
	same(t, "restored", snapshot(t, s.root), before)
	if left, err := os.ReadDir(filepath.Join(s.state, "data/Trash/info")); err != nil || len(left) != 0 {
		t.Errorf("the trash still tells of %v, %v", left, err)
	}
	r = read[restored](t, s.do(t, "remove_files", `"operation_id":"restore-2","action":"restore","manifest_id":%q`, p.Manifest))
	if len(r.Restored) != 2 || len(r.Skipped) != 0 {
		t.Errorf("what is there already: %+v", r)
	}
	same(t, "restored twice", snapshot(t, s.root), before)
}

// TestRestoreBeside: what is there again is neither overwritten nor in the way of the rest.
func TestRestoreBeside(t *testing.T) {
	s := newHeap(t)
	p := s.prepare(t, "prepare-1")
	s.decide(t, s.approvals(t)[0], true)
	read[removed](t, s.submit(t, "submit-1", p.Manifest))
	s.save(t, "old/a.txt", "theirs\n")
	r := read[restored](t, s.do(t, "remove_files", `"operation_id":"restore-1","action":"restore","manifest_id":%q,"paths":["old/a.txt","old/sub"]`, p.Manifest))
	if len(r.Restored) != 1 || r.Restored[0].Path != "old/sub" || len(r.Skipped) != 1 || r.Skipped[0].Path != "old/a.txt" || r.Skipped[0].Why != tree.Exists {
		t.Errorf("%+v", r)
	}
	if _, err := os.Lstat(filepath.Join(s.root, "old.txt")); !os.IsNotExist(err) {
		t.Errorf("what was not asked for is back: %v", err)
	}
	r = read[restored](t, s.do(t, "remove_files", `"operation_id":"restore-2","action":"restore","manifest_id":%q`, p.Manifest))
	if s.file(t, "old/a.txt") != "theirs\n" || s.file(t, "old/sub/run") != "#!/bin/sh\n" || s.file(t, "old.txt") != "old\n" {
		t.Errorf("%+v", r)
	}
	if info, err := os.Stat(filepath.Join(s.root, "old/empty")); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("old/empty: %v, %v", info, err)
	}
	// What somebody has changed in the trash is not what was removed.
	p = s.prepare(t, "prepare-2")
	s.decide(t, s.pending(t), true)
	moved := read[removed](t, s.submit(t, "submit-2", p.Manifest))
	if err := os.WriteFile(moved.Items[1].Where, []byte("changed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = read[restored](t, s.do(t, "remove_files", `"operation_id":"restore-3","action":"restore","manifest_id":%q,"paths":["old.txt"]`, p.Manifest))
	if len(r.Skipped) != 1 || r.Skipped[0].Why != tree.Moved {
		t.Errorf("%+v", r)
	}
	refused(t, s.do(t, "remove_files", `"operation_id":"restore-4","action":"restore","manifest_id":"r_nothing"`), operation.NotFound, fault.AfterFix)
}

func TestRT73Revisions(t *testing.T) {
	s := newHeap(t)
	before := snapshot(t, s.root)
	for target, code := range map[string]operation.Code{
		`{"path":"old.txt"}`: "REVISION_REQUIRED", `{"path":"old.txt","expect_sha256":"` + digest(nil) + `"}`: "STALE_REVISION", `{"path":"gone"}`: operation.NotFound,
		`{"path":"."}`: "TARGET_ROOT", `{"path":"old"},{"path":"old/sub"}`: "DUPLICATE_PATH", `{"path":"../shop"}`: "SCOPE_OUTSIDE_PROJECT", `{"path":"link-out/passwd"}`: "SCOPE_OUTSIDE_PROJECT",
	} {
		refused(t, s.do(t, "remove_files", `"operation_id":"prepare-1","action":"prepare","targets":[%s]`, target), code, fault.AfterFix)
	}
	for _, target := range []string{`{"path":".git"}`, `{"path":".env","expect_sha256":"x"}`, `{"path":".git/config","expect_sha256":"x"}`} {
		refused(t, s.do(t, "remove_files", `"operation_id":"prepare-1","action":"prepare","targets":[%s]`, target), "FILE_DENIED", fault.Never)
	}
	s.save(t, "sub/.env", "canary-1234567\n")
	refused(t, s.do(t, "remove_files", `"operation_id":"prepare-1","action":"prepare","targets":[{"path":"sub"}]`), "FILE_DENIED", fault.Never)
	if err := os.RemoveAll(filepath.Join(s.root, "sub")); err != nil {
		t.Fatal(err)
	}
	same(t, "refused", snapshot(t, s.root), before)
	if n := len(s.approvals(t)); n != 0 {
		t.Errorf("%d questions of what was refused", n)
	}
}

func TestRT75Display(t *testing.T) {
	s := newHeap(t)
	for i := range 30 {
		s.save(t, fmt.Sprintf("old/z%02d", i), "")
	}
	p := s.prepare(t, "prepare-1")
	shown := s.approvals(t)[0]
	for _, want := range []string{"33 files, 3 directories, 2 links", fmt.Sprint(p.Bytes, " bytes"), "old/a.txt", p.Ref, "18 more"} {
		if !strings.Contains(shown.Display, want) {
			t.Errorf("the display has no %q:\n%s", want, shown.Display)
		}
	}
	if len(p.Preview) != 20 || shown.Subject != p.SHA256 || shown.Kind != approval.KindRemove || strings.Contains(shown.Display, "z20") {
		t.Errorf("%d paths:\n%s", len(p.Preview), shown.Display)
	}
}
