package work

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// TestReconcileOverlaps: DW-25, of reconcile. A project is told of the workspaces that have files of it in projects around it, in
// it, and under another name.
func TestReconcileOverlaps(t *testing.T) {
	s := newShop(t)
	s.project(t, "docs", filepath.Join(s.root, "docs"))
	s.project(t, "beside", t.TempDir())
	alias := session.Project{ID: "proj_alias", Name: "alias", Path: "/elsewhere", By: session.ByPath, State: session.ProjectOK, Physical: session.Identity{Real: s.root}}
	if err := s.db.Change(t.Context(), func(tx store.Tx) error { return tx.PutProject(t.Context(), session.PutProject{Project: alias}) }); err != nil {
		t.Fatal(err)
	}
	docs, _ := s.workspaceOf(t, "create-01", `"mutable":["docs/x"]`)
	src, _ := s.workspaceOf(t, "create-02", `"mutable":["src"]`)
	child := s.call(t, "create_agent_workspace", `{"project":"docs","purpose":"in the child","mutable":["y"],"operation_id":"create-03"}`)
	for project, want := range map[string][]string{"docs": {docs}, "alias": {child.Handle, docs, src}, "shop": {child.Handle}, "beside": nil} {
		list := read[reconciled](t, s.call(t, "reconcile_project_state", `{"scope":%q}`, project))
		got := map[string]bool{}
		for _, one := range list.Overlaps {
			got[one.Handle] = true
			if one.Purpose == "" || len(one.Mutable) != 1 || one.State != workspace.Open || one.Project == "proj_"+project {
				t.Errorf("%s: %+v", project, one)
			}
		}
		for _, handle := range want {
			if !got[handle] {
				t.Errorf("%s is not told of %s: %v", project, handle, list.Overlaps)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s is told of %v, want %v", project, list.Overlaps, want)
		}
	}
}

// TestReconcileTells: what somebody needs who knows nothing: how old BASE is, what came after it, what verify finds, and the
// call that goes on with an operation.
func TestReconcileTells(t *testing.T) {
	s := newShop(t)
	mine, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	w.write(t, "docs/mine.md", "mine\n")
	s.do(t, "suspend_workspace", `"handle":%q,"reason":"later","operation_id":"suspend-1"`, mine)
	theirs, o := s.workspaceOf(t, "create-02", `"mutable":["docs"]`)
	o.write(t, "docs/theirs.md", "theirs\n")
	done := read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"message":"theirs","operation_id":"integrate-1"`, theirs))
	clean, _ := s.workspaceOf(t, "create-03", `"mutable":["src"]`)
	s.pass(90e9)
	call := json.RawMessage(`{"operation_id":"edit-lost-1","edits":[{"op":"create","path":"a","content":"a"}]}`)
	for id, args := range map[string]json.RawMessage{"edit-lost-1": call, "edit-lost-2": nil} {
		row := operation.Operation{Name: operation.Name{Namespace: session.Operator, ID: id}, Tool: "edit_files", Print: "p", Project: "proj_shop", Args: args, State: operation.Unknown, Class: operation.FS, Claimed: s.cfg.Now()}
		if err := s.db.Change(t.Context(), func(tx store.Tx) error { return tx.PutOperation(t.Context(), operation.PutOperation{Operation: row}) }); err != nil {
			t.Fatal(err)
		}
	}
	list := read[reconciled](t, s.do(t, "reconcile_project_state", `"verify":true`))
	if len(list.Workspaces) != 2 || len(list.Integrations) != 1 || list.Integrations[0].Message != "theirs" {
		t.Fatalf("%+v", list)
	}
	for _, one := range list.Workspaces {
		h, err := workspace.ParseHandle(one.Handle)
		if err != nil {
			t.Fatal(err)
		}
		dirty, superseded := "no", ""
		if h.ID == w.ID {
			dirty, superseded = "yes", done.ID
		}
		if one.BaseAge < 90 || one.Dirty != dirty || strings.Join(one.Superseded, "") != superseded {
			t.Errorf("%+v, want dirty %s, superseded by %q", one, dirty, superseded)
		}
	}
	for _, one := range list.Operations {
		if one.Tool != "edit_files" || (one.ID == "edit-lost-1") != (string(one.Retry) == string(call)) || one.Left != (one.ID == "edit-lost-2") {
			t.Errorf("%+v", one)
		}
	}
	if len(list.Operations) != 2 {
		t.Errorf("%+v", list.Operations)
	}
	unlooked := read[reconciled](t, s.do(t, "reconcile_project_state", `"include":["workspaces"]`))
	if len(unlooked.Operations)+len(unlooked.Integrations) != 0 || len(unlooked.Workspaces) != 2 || unlooked.Workspaces[0].Dirty != workspace.Unverified {
		t.Errorf("%+v", unlooked)
	}
	refused(t, s.do(t, "reconcile_project_state", `"include":["everything"]`), operation.ArgumentInvalid, fault.AfterFix)
	if clean == "" || fmt.Sprint(unlooked.Version) != unlooked.Cursor {
		t.Errorf("%d, %s", unlooked.Version, unlooked.Cursor)
	}
}
