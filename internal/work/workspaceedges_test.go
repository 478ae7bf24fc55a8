//go:build unix

package work

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/store"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// TestIntegrateEdges: what is in the project stays when nothing was done about it, and what a caller made of a conflict is taken.
func TestIntegrateEdges(t *testing.T) {
	t.Run("a directory of the project with the name of our bundles", func(t *testing.T) {
		s := newShop(t)
		s.save(t, ".conflicts/note", "the user's\n")
		handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
		w.write(t, "README.md", "mine\n")
		got := read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle))
		if len(got.Applied) != 1 || s.file(t, ".conflicts/note") != "the user's\n" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("resolved to what was there before both", func(t *testing.T) {
		s := newShop(t)
		handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
		w.write(t, "README.md", "one\n2\nthree\n")
		s.save(t, "README.md", "one\nzwei\nthree\n")
		a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
		refused(t, a, workspace.Conflicts, fault.AfterFix)
		seen := a.Refusal.Details["conflicts"].([]conflictShown)[0].Current
		w.write(t, "README.md", "one\ntwo\nthree\nfour\n")
		read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1","seen_current":{"README.md":%q}`, handle, seen))
		if got := s.file(t, "README.md"); got != "one\ntwo\nthree\nfour\n" {
			t.Errorf("%q", got)
		}
	})
	t.Run("the project has the change, and another one", func(t *testing.T) {
		s := newShop(t)
		s.save(t, "README.md", "1\n2\n3\n4\n5\n6\n7\n")
		handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
		w.write(t, "README.md", "one\n2\n3\n4\n5\n6\n7\n")
		w.write(t, "docs/new.md", "new\n")
		s.save(t, "README.md", "one\n2\n3\n4\n5\n6\nseven\n")
		a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
		if !a.OK || s.file(t, "README.md") != "one\n2\n3\n4\n5\n6\nseven\n" || s.file(t, "docs/new.md") != "new\n" {
			t.Errorf("%+v %v", a, a.Refusal)
		}
	})
	t.Run("a scope in directories that are new", func(t *testing.T) {
		s := newShop(t)
		handle, w := s.workspaceOf(t, "create-01", `"mutable":["deep/new/x.md"]`)
		w.write(t, "deep/new/x.md", "x\n")
		a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
		if !a.OK || s.file(t, "deep/new/x.md") != "x\n" {
			t.Errorf("%+v %v", a, a.Refusal)
		}
	})
}

// TestClaimByName: I7. A directory that was made anew is claimed under its name.
func TestClaimByName(t *testing.T) {
	s := newShop(t)
	s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	if err := os.Rename(filepath.Join(s.root, "docs"), filepath.Join(s.root, "old")); err != nil {
		t.Fatal(err)
	}
	s.save(t, "docs/guide.md", "anew\n")
	refused(t, s.do(t, "create_agent_workspace", `"purpose":"too","mutable":["docs"],"operation_id":"create-02"`), workspace.ScopeOverlap, fault.AfterWait)
}

// TestRetireEdges: I11. Files that cannot be written to and commits that are nowhere else are kept, after an attempt that was cut
// off, too; and what is kept comes back.
func TestRetireEdges(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
	w.write(t, ".git/objects/ab", "a commit\n")
	if err := os.Chmod(filepath.Join(w.Path, ".git/objects/ab"), 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(s.state, "snapshots", ".draft-"+w.ID+".blobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	gone := read[retired](t, s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-01"`, handle))
	if gone.Why != "preserved" {
		t.Fatalf("%+v", gone)
	}
	back := read[openedWorkspace](t, s.do(t, "resume_workspace", `"ws":%q,"operation_id":"resume-01"`, gone.Preserved))
	if got, err := os.ReadFile(filepath.Join(back.Path, ".git/objects/ab")); err != nil || string(got) != "a commit\n" {
		t.Errorf("%q, %v", got, err)
	}
	// Its directory is lost: the snapshot is there as a whole, and comes back as a whole.
	if err := os.RemoveAll(filepath.Dir(back.Path)); err != nil {
		t.Fatal(err)
	}
	again := read[openedWorkspace](t, s.do(t, "resume_workspace", `"ws":%q,"operation_id":"resume-02"`, back.ID))
	if got, err := os.ReadFile(filepath.Join(again.Path, "README.md")); err != nil || string(got) != "one\ntwo\nthree\n" || again.ID != back.ID {
		t.Errorf("%+v: %q, %v", again, got, err)
	}
}

// TestReconcileOfOthers: nobody is told what others brought into projects that he does not name.
func TestReconcileOfOthers(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
	w.write(t, "README.md", "mine\n")
	read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"message":"of-the-owner","operation_id":"integrate-1"`, handle))
	for who, want := range map[string]int{"owner": 1, "somebody": 0} {
		a := s.Do(t.Context(), Call{Tool: "reconcile_project_state", Args: []byte(`{}`), Principal: who})
		got := read[struct {
			Integrations []briefIntegration `json:"recent_integrations"`
		}](t, a)
		if len(got.Integrations) != want {
			t.Errorf("%s: %s", who, fmt.Sprint(got.Integrations))
		}
	}
}

// TestTurn: a directory takes the place of a file and a file that of a directory, with all that is in them, unless the project has
// something of its own there; what a caller has seen may go, and is kept.
func TestTurn(t *testing.T) {
	s := newShop(t)
	s.save(t, "a/one.txt", "1\n")
	s.save(t, "a/deep/two.txt", "2\n")
	s.save(t, "b", "a file\n")
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
	w.remove(t, "a")
	w.write(t, "a", "a file now\n")
	w.remove(t, "b")
	w.write(t, "b/sub/run", "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(w.Path, "b/sub/run"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("run", filepath.Join(w.Path, "b/sub/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(w.Path, "b/empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.save(t, "a/mine.txt", "the user's\n")
	a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
	refused(t, a, workspace.Conflicts, fault.AfterFix)
	all := a.Refusal.Details["conflicts"].([]conflictShown)
	if len(all) != 1 || all[0].Path != "a" || all[0].Kind != workspace.ConflictType || s.file(t, "b") != "a file\n" {
		t.Fatalf("%+v", all)
	}
	a = s.do(t, "integrate_agent_workspace", `"handle":%q,"keep_open":true,"operation_id":"integrate-1","seen_current":{"a":%q},"accept":{"a":"proposed"}`, handle, all[0].Current)
	got := read[integrated](t, a)
	if len(got.Applied) != 9 || s.file(t, "a") != "a file now\n" || s.file(t, "b/sub/run") != "#!/bin/sh\n" {
		t.Errorf("%+v", got.Applied)
	}
	if to, err := os.Readlink(filepath.Join(s.root, "b/sub/link")); err != nil || to != "run" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if info, err := os.Stat(filepath.Join(s.root, "b/sub/run")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("the program: %v, %v", info, err)
	}
	if !kept(t, s.state, "the user's\n") {
		t.Error("what went with the directory is nowhere")
	}
	if left, err := os.ReadDir(filepath.Join(s.state, "txn")); err != nil || len(left) > 0 {
		t.Errorf("left in the staging area: %v, %v", left, err)
	}
	// And back again, on the new BASE.
	w.remove(t, "b")
	w.write(t, "b", "a file\n")
	if a = s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-2"`, a.Handle); !a.OK || s.file(t, "b") != "a file\n" {
		t.Errorf("%+v", a.Refusal)
	}
}

// TestRenameModify: a file that was renamed in the workspace and changed in the project is a conflict, which names the new name and
// has the project's change merged into it; it is never applied by itself.
func TestRenameModify(t *testing.T) {
	s := newShop(t)
	s.save(t, "docs/old.md", "1\n2\n3\n4\n5\n6\n")
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	w.remove(t, "docs/old.md")
	w.write(t, "docs/new.md", "one\n2\n3\n4\n5\n6\n")
	w.write(t, "docs/other.md", "something else\n")
	s.save(t, "docs/old.md", "1\n2\n3\n4\n5\nsix\n")
	a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
	refused(t, a, workspace.Conflicts, fault.AfterFix)
	all := a.Refusal.Details["conflicts"].([]conflictShown)
	if len(all) != 1 || all[0].Kind != workspace.ConflictRenameModify || all[0].Path != "docs/old.md" || all[0].Renamed != "docs/new.md" {
		t.Fatalf("%+v", all)
	}
	merged, err := os.ReadFile(filepath.Join(w.Path, all[0].Bundle, "MERGED"))
	if err != nil || string(merged) != "one\n2\n3\n4\n5\nsix\n" {
		t.Fatalf("%q, %v", merged, err)
	}
	// That it was seen is not enough: the old name would go, and the project's change with it.
	unmerged := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1","seen_current":{"docs/old.md":%q}`, handle, all[0].Current)
	refused(t, unmerged, workspace.Conflicts, fault.AfterFix)
	if again := unmerged.Refusal.Details["conflicts"].([]conflictShown); len(again) != 1 || again[0] != all[0] {
		t.Errorf("the conflict stands: %+v", again)
	}
	plan := read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"mode":"plan","seen_current":{"docs/old.md":%q},"accept":{"docs/old.md":"proposed"}`, handle, all[0].Current))
	if len(plan.Conflicts) != 0 || len(plan.Applied) != 3 {
		t.Errorf("the workspace's side was chosen: %+v", plan)
	}
	w.write(t, "docs/new.md", string(merged))
	read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1","seen_current":{"docs/old.md":%q}`, handle, all[0].Current))
	if _, err := os.Stat(filepath.Join(s.root, "docs/old.md")); err == nil || s.file(t, "docs/new.md") != string(merged) {
		t.Errorf("the old name: %v", err)
	}
}

// TestRenameRename: a file that has two new names since is told of before there are two files of it, with both changes in one text.
// Whoever has seen it decides; nothing is applied before.
func TestRenameRename(t *testing.T) {
	s := newShop(t)
	s.save(t, "docs/old.md", "1\n2\n3\n4\n5\n6\n")
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	w.remove(t, "docs/old.md")
	w.write(t, "docs/mine.md", "one\n2\n3\n4\n5\n6\n")
	for _, err := range []error{os.Remove(filepath.Join(s.root, "docs/old.md")), os.WriteFile(filepath.Join(s.root, "docs/theirs.md"), []byte("1\n2\n3\n4\n5\nsix\n"), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
	refused(t, a, workspace.Conflicts, fault.AfterFix)
	all := a.Refusal.Details["conflicts"].([]conflictShown)
	if len(all) != 1 || all[0].Kind != workspace.ConflictRenameRename || all[0].Path != "docs/old.md" || all[0].Renamed != "docs/mine.md" || all[0].Theirs != "docs/theirs.md" {
		t.Fatalf("%+v", all)
	}
	merged, err := os.ReadFile(filepath.Join(w.Path, all[0].Bundle, "MERGED"))
	if err != nil || string(merged) != "one\n2\n3\n4\n5\nsix\n" || s.file(t, "docs/theirs.md") != "1\n2\n3\n4\n5\nsix\n" {
		t.Fatalf("%q, %v", merged, err)
	}
	if b := s.bundleOf(t, w.ID, "docs/old.md"); b.Current != all[0].Current {
		t.Errorf("a person sees %q, an agent %q", b.Current, all[0].Current)
	}
	got := read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1","seen_current":{"docs/old.md":%q}`, handle, all[0].Current))
	if len(got.Applied) != 1 || s.file(t, "docs/mine.md") != "one\n2\n3\n4\n5\n6\n" {
		t.Errorf("%+v", got)
	}
}

// TestRenamesRefuseNothing: a hint for which something cannot be read is not given, and the conflict is what it was.
func TestRenamesRefuseNothing(t *testing.T) {
	s := newShop(t)
	s.save(t, "docs/old.md", "1\n2\n3\n4\n5\n6\n")
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	w.remove(t, "docs/old.md")
	w.write(t, "docs/new.md", "one\n2\n3\n4\n5\n6\n")
	s.save(t, "docs/old.md", "1\n2\n3\n4\n5\nsix\n")
	p, x, err := s.standing(t.Context(), s.row(t, w.ID))
	if err != nil {
		t.Fatal(err)
	}
	g := &integration{s: s.Service, t: &turn{}, p: p, copy: x, in: IntegrateWorkspace{Handle: handle}, seen: map[string]tree.Item{}, turned: map[string]bool{}}
	defer g.close()
	if g.at, err = s.open(p.Admission); err != nil {
		t.Fatal(err)
	}
	base, all, err := s.diffOf(t.Context(), p, x)
	if err != nil {
		t.Fatal(err)
	}
	g.base = base
	if err := g.planAll(t.Context(), all, base); err != nil {
		t.Fatal(err)
	}
	w.remove(t, "docs/new.md") // after the plan was made
	g.renames(t.Context())
	if clashes := g.clashes(); len(clashes) != 1 || clashes[0].decision.Conflict != workspace.ConflictDeleteModify || clashes[0].renamed != "" {
		t.Errorf("%+v", clashes)
	}
}

// TestStatusOfMany: an answer names a page of changes, and counts the others.
func TestStatusOfMany(t *testing.T) {
	s := newShop(t)
	_, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	for i := range maxChanges + 5 {
		w.write(t, fmt.Sprintf("docs/%03d.md", i), "new\n")
	}
	got := read[workspaceShown](t, s.do(t, "workspace_status", `"handle":%q`, w.ID))
	if len(got.Changes) != maxChanges || got.More != 5 || got.Dirty != workspace.Dirty {
		t.Errorf("%d changes, %d more, %s", len(got.Changes), got.More, got.Dirty)
	}
}

// bundleOf is what a person is shown of a conflict.
func (s *shop) bundleOf(t *testing.T, id, path string) workspace.Bundle {
	t.Helper()
	var w workspace.Workspace
	err := s.cfg.DB.View(t.Context(), func(r store.Reader) (err error) {
		w, err = r.WorkspaceByID(t.Context(), workspace.ByID{ID: id})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Bundles(t.Context(), w, []string{path})
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// TestConflictsOneByOne: what was resolved stays seen while others are not, and nothing else of an earlier try stays.
func TestConflictsOneByOne(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
	for _, name := range []string{"README.md", "docs/guide.md", "new"} {
		w.write(t, name, "mine\n")
		s.save(t, name, "theirs\n")
	}
	refused(t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle), workspace.Conflicts, fault.AfterFix)
	seen := s.bundleOf(t, w.ID, "docs/guide.md")
	w.write(t, "docs/guide.md", "both\n")
	w.remove(t, "new")
	refused(t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1","seen_current":{"docs/guide.md":%q}`, handle, seen.Current), workspace.Conflicts, fault.AfterFix)
	if again := s.bundleOf(t, w.ID, "docs/guide.md"); again.Current != seen.Current || len(again.Sides) != len(seen.Sides) {
		t.Errorf("what was seen of the one that is resolved: %+v, and was %+v", again, seen)
	}
	if gone := s.bundleOf(t, w.ID, "new"); gone.Dir != "" {
		t.Errorf("of what is no conflict any more: %+v", gone)
	}
	w.write(t, "README.md", "both\n")
	args := `"handle":%q,"operation_id":"integrate-1","seen_current":{"docs/guide.md":%q,"README.md":%q}`
	read[integrated](t, s.do(t, "integrate_agent_workspace", args, handle, seen.Current, s.bundleOf(t, w.ID, "README.md").Current))
	if s.file(t, "README.md")+s.file(t, "docs/guide.md") != "both\nboth\n" {
		t.Error("the project has something else")
	}
}

// TestConflictsWithoutCurrent: a conflict can be resolved whatever its path is called, and where the project's side is no file
// that could be shown: too large, a link, or nothing.
func TestConflictsWithoutCurrent(t *testing.T) {
	for name, c := range map[string]struct {
		path, shown string
		theirs      func(t *testing.T, s *shop, path string)
	}{
		"no plain text": {"a\nb", "a%0Ab", func(t *testing.T, s *shop, path string) { s.save(t, path, "theirs\n") }},
		"nothing": {"README.md", "README.md", func(t *testing.T, s *shop, path string) {
			if err := os.Remove(filepath.Join(s.root, path)); err != nil {
				t.Fatal(err)
			}
		}},
		"a link": {"README.md", "README.md", func(t *testing.T, s *shop, path string) {
			if err := errors.Join(os.Remove(filepath.Join(s.root, path)), os.Symlink("docs/guide.md", filepath.Join(s.root, path))); err != nil {
				t.Fatal(err)
			}
		}},
		"too large": {"README.md", "README.md", func(t *testing.T, s *shop, path string) {
			if err := os.Truncate(filepath.Join(s.root, path), maxBundle+1); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
			w.write(t, c.path, "mine\n")
			c.theirs(t, s, c.path)
			refused(t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle), workspace.Conflicts, fault.AfterFix)
			b := s.bundleOf(t, w.ID, c.shown)
			if b.Dir == "" || b.Current == "" {
				t.Fatalf("%+v", b)
			}
			read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1","seen_current":{%q:%q},"accept":{%q:"proposed"}`, handle, c.shown, b.Current, c.shown))
			if got := s.file(t, c.path); got != "mine\n" {
				t.Errorf("the project has %.40q", got)
			}
		})
	}
}
