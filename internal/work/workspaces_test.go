package work

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// opened is what create_agent_workspace answers.
type openedWorkspace struct {
	ID   string `json:"workspace_id"`
	Path string
}

// workspaceOf makes a workspace, and gives its handle and its answer.
func (s *shop) workspaceOf(t *testing.T, id, more string) (handle string, w openedWorkspace) {
	t.Helper()
	a := s.do(t, "create_agent_workspace", `"purpose":%q,"operation_id":%q,%s`, "work of "+id, id, more)
	w = read[openedWorkspace](t, a)
	return a.Handle, w
}

func (w openedWorkspace) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(w.Path, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (w openedWorkspace) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(w.Path, name)); err != nil {
		t.Fatal(err)
	}
}

// TestDW22ForeignHandle: DW-22, of workspaces. To somebody else a workspace is not there, whatever he does with its handle, and so is what
// was kept of one; the same call of its owner works.
func TestDW22ForeignHandle(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	kept, k := s.workspaceOf(t, "create-02", `"mutable":["src"]`)
	k.write(t, "src/mine.go", "package main\n")
	snapshot := read[retired](t, s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-01"`, kept)).Preserved
	id := `"operation_id":"foreign-01"`
	for _, c := range [][2]string{
		{"workspace_status", `"handle":%q,"diff":"patch"`},
		{"integrate_agent_workspace", `"handle":%q,"mode":"plan"`},
		{"integrate_agent_workspace", `"handle":%q,` + id},
		{"integrate_agent_workspace", `"handle":%q,"mode":"undo",` + id},
		{"suspend_workspace", `"handle":%q,"reason":"r",` + id},
		{"amend_workspace_scope", `"handle":%q,"add":["README.md"],` + id},
		{"remove_agent_workspace", `"handle":%q,` + id},
		{"edit_files", `"handle":%q,"edits":[{"op":"create","path":"docs/x.md","content":"x"}],` + id},
		{"read_file", `"handle":%q,"path":"docs/guide.md"`},
		{"list_files", `"handle":%q`},
		{"search_files", `"handle":%q,"query":"guide"`},
	} {
		refused(t, s.as(t, "eve", c[0], "{"+c[1]+"}", handle), operation.NotFound, fault.AfterFix)
	}
	for _, ref := range []string{w.ID, k.ID, snapshot} {
		refused(t, s.as(t, "eve", "resume_workspace", `{"ws":%q,`+id+`}`, ref), operation.NotFound, fault.AfterFix)
	}
	if list := read[reconciled](t, s.as(t, "eve", "reconcile_project_state", `{}`)); len(list.Workspaces) != 0 {
		t.Errorf("reconcile tells %+v", list.Workspaces)
	}
	if own := s.do(t, "workspace_status", `"handle":%q`, handle); !own.OK || read[workspaceShown](t, own).Rev != 1 {
		t.Errorf("it is %s, %v", own.Data, own.Refusal)
	}
	if a := s.do(t, "resume_workspace", `"ws":%q,`+id, snapshot); !a.OK { // the id is free, too
		t.Errorf("its owner: %v", a.Refusal)
	}
}

// TestWorkspace: an agent makes a workspace, edits in it, looks at what it did, integrates and removes it.
func TestWorkspace(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["src","README.md","docs"]`)
	if handle != w.ID+"@1" || !strings.HasPrefix(w.ID, "ws_") {
		t.Errorf("the handle %q of %+v", handle, w)
	}
	if _, err := os.Stat(filepath.Join(w.Path, ".env")); err == nil {
		t.Error("a file that no tool may read was copied")
	}
	if _, err := os.Stat(filepath.Join(w.Path, ".git")); err == nil {
		t.Error("the repository was copied")
	}
	f := read[shownFile](t, s.do(t, "read_file", `"handle":%q,"path":"README.md"`, handle))
	a := s.do(t, "edit_files", `"handle":%q,"operation_id":"edit-0001","edits":[{"path":"README.md","expect_sha256":%q,"replacements":[{"old":"two","new":"2"}]},{"op":"create","path":"src/new/a.go","content":"package a\n"}]`, handle, f.SHA256)
	if a.Handle != w.ID+"@2" || !a.OK {
		t.Fatalf("the edit: %+v %v", a, a.Refusal)
	}
	w.remove(t, "docs/guide.md")
	w.remove(t, "docs")
	w.write(t, "src/run.sh", "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(w.Path, "src/run.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := s.file(t, "README.md"); got != "one\ntwo\nthree\n" {
		t.Errorf("the project has %q before the integration", got)
	}
	status := read[workspaceShown](t, s.do(t, "workspace_status", `"handle":%q,"diff":"patch"`, w.ID))
	if len(status.Changes) != 6 || status.Dirty != "yes" || !strings.Contains(status.Patch, "-two\n+2\n") || !strings.Contains(status.Patch, "--- /dev/null\n+++ src/run.sh\n") {
		t.Errorf("the status: %+v", status)
	}
	stale := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
	refused(t, stale, workspace.StaleHandle, fault.AfterFix)
	plan := read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"mode":"plan"`, a.Handle))
	if len(plan.Applied) != 6 || s.file(t, "README.md") != "one\ntwo\nthree\n" {
		t.Errorf("the plan: %+v", plan)
	}
	done := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, a.Handle)
	if got := read[integrated](t, done); len(got.Applied) != 6 || got.ID == "" {
		t.Errorf("the integration: %+v", got)
	}
	if s.file(t, "README.md") != "one\n2\nthree\n" || s.file(t, "src/new/a.go") != "package a\n" {
		t.Error("the project does not have the changes")
	}
	for name, want := range map[string]os.FileMode{"src/new/a.go": 0o644, "src/run.sh": 0o755} { // as in the project, not as in the private copy
		dir, err := os.Stat(filepath.Join(s.root, "src"))
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(s.root, name))
		if err != nil || info.Mode().Perm() != want&dir.Mode().Perm() {
			t.Errorf("%s: %v, %v, want %v of %v", name, info.Mode(), err, want, dir.Mode())
		}
	}
	if _, err := os.Stat(filepath.Join(s.root, "docs")); err == nil {
		t.Error("a directory that was deleted in the workspace is in the project")
	}
	gone := s.do(t, "remove_agent_workspace", `"handle":%q,"if_dirty":"refuse","operation_id":"remove-01"`, done.Handle)
	if got := read[retired](t, gone); got.Why != "clean" || got.State != workspace.Retired {
		t.Errorf("removed: %+v", got)
	}
	if _, err := os.Stat(w.Path); err == nil {
		t.Error("the directory is still there")
	}
	if again := s.do(t, "remove_agent_workspace", `"handle":%q,"if_dirty":"refuse","operation_id":"remove-01"`, done.Handle); !again.Operation.Replayed {
		t.Errorf("repeated: %+v", again)
	}
}

// TestWorkspaceConflict: what both sides changed is merged where that is certain, and nothing is applied where it is not.
func TestWorkspaceConflict(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
	w.write(t, "README.md", "one\ntwo\nthree\nfour\n")
	w.write(t, "docs/guide.md", "mine\n")
	for name, content := range map[string]string{"README.md": "zero\none\ntwo\nthree\n", "docs/guide.md": "theirs\n"} {
		if err := os.WriteFile(filepath.Join(s.root, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
	refused(t, a, workspace.Conflicts, fault.AfterFix)
	if a.Status != operation.OutcomeConflict || s.file(t, "README.md") != "zero\none\ntwo\nthree\n" {
		t.Errorf("%s, and the project has %q", a.Status, s.file(t, "README.md"))
	}
	all, ok := a.Refusal.Details["conflicts"].([]conflictShown)
	if !ok || len(all) != 1 || all[0].Path != "docs/guide.md" || all[0].Kind != workspace.ConflictText {
		t.Fatalf("the conflicts: %+v", a.Refusal.Details)
	}
	for name, want := range map[string]string{"BASE": "guide\n", "CURRENT": "theirs\n", "PROPOSED": "mine\n"} {
		if got, err := os.ReadFile(filepath.Join(w.Path, all[0].Bundle, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	w.write(t, "docs/guide.md", "mine and theirs\n")
	a = s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1","seen_current":{"docs/guide.md":%q}`, handle, all[0].Current)
	if got := read[integrated](t, a); len(got.Merged) != 1 || len(got.Applied) != 2 {
		t.Errorf("%+v", got)
	}
	if s.file(t, "README.md") != "zero\none\ntwo\nthree\nfour\n" || s.file(t, "docs/guide.md") != "mine and theirs\n" {
		t.Errorf("the project has %q and %q", s.file(t, "README.md"), s.file(t, "docs/guide.md"))
	}
}

// TestRefusedCopy: a copy that is refused leaves neither a claim nor a directory.
func TestRefusedCopy(t *testing.T) {
	s := newShop(t)
	program := filepath.Join(s.root, "docs/program")
	plant(t, map[string]string{program: "bytes"})
	if err := os.Chmod(program, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	refused(t, s.do(t, "create_agent_workspace", `"purpose":"a","mutable":["docs"],"operation_id":"create-01"`), operation.Code(tree.SpecialFile), fault.AfterFix)
	list := read[reconciled](t, s.call(t, "reconcile_project_state", `{}`))
	if len(list.Workspaces)+len(list.Quarantine) != 0 {
		t.Errorf("%+v", list)
	}
	for _, dir := range []string{"workspaces", "quarantine"} {
		if left, _ := os.ReadDir(filepath.Join(s.state, dir)); len(left) != 0 {
			t.Errorf("%s has %v", dir, left)
		}
	}
}

func plant(t *testing.T, all map[string]string) {
	t.Helper()
	for path, content := range all {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
