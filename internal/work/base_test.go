//go:build unix

package work

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// unready is an effect whose preparation fails when all of it is done.
type unready struct{ effect }

func (u unready) stage(ctx context.Context) (any, error) {
	if _, err := u.effect.stage(ctx); err != nil {
		return nil, err
	}
	return nil, operation.Refuse(operation.Code(tree.NoSpace), "there is no space")
}

// TestBaseStays: an integration that was prepared and never begun leaves BASE as it is, also in a workspace that goes on from a
// snapshot, of which the revisions are lower than those of its BASE.
func TestBaseStays(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	for n := range 2 {
		w.write(t, "docs/guide.md", fmt.Sprintf("guide %d\n", n))
		handle = s.do(t, "integrate_agent_workspace", `"handle":%q,"keep_open":true,"operation_id":"integrate-%d"`, handle, n).Handle
	}
	w.write(t, "docs/mine.md", "mine\n")
	gone := read[retired](t, s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-01"`, handle))
	back := s.do(t, "resume_workspace", `"ws":%q,"operation_id":"resume-01"`, gone.Preserved)
	again := read[openedWorkspace](t, back)
	handle = back.Handle
	for row := s.row(t, again.ID); row.Rev+1 < row.Base.Rev; row = s.row(t, again.ID) {
		handle = s.do(t, "edit_files", `"handle":%q,"edits":[{"op":"create","path":"docs/%d.md","content":"x"}],"operation_id":"edit-000%d"`, handle, row.Rev, row.Rev).Handle
	}
	before := s.row(t, again.ID)
	if before.Rev+1 != before.Base.Rev {
		t.Fatalf("revision %d, BASE %d", before.Rev, before.Base.Rev)
	}
	whole := s.tools[integrateTool].begin
	s.tools[integrateTool].begin = func(ctx context.Context, svc *Service, t *turn) (effect, error) {
		e, err := whole(ctx, svc, t)
		if err != nil {
			return nil, err
		}
		return unready{e}, nil
	}
	refused(t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-3"`, handle), operation.Code(tree.NoSpace), fault.AfterFix)
	status := read[workspaceShown](t, s.do(t, "workspace_status", `"handle":%q`, again.ID))
	if now := s.row(t, again.ID); now.Base.Digest != before.Base.Digest || status.Dirty != "yes" || len(status.Changes) != 2 {
		t.Errorf("BASE %v, was %v; %+v", now.Base, before.Base, status)
	}
	s.tools[integrateTool].begin = whole
	if a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-3"`, handle); !a.OK || s.file(t, "docs/mine.md") != "mine\n" {
		t.Errorf("%v", a.Refusal)
	}
}

// TestBaseChecked: nothing is compared with a BASE that is not the one that was written, and what cannot be compared is kept.
func TestBaseChecked(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	w.write(t, "docs/mine.md", "mine\n")
	plant(t, map[string]string{filepath.Join(filepath.Dir(w.Path), "base-1"): "base 1\n{}\n"})
	refused(t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle), workspace.WrongState, fault.AfterFix)
	gone := read[retired](t, s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-01"`, handle))
	if got, err := os.ReadFile(filepath.Join(s.state, "snapshots", gone.Preserved, "tree/docs/mine.md")); err != nil || string(got) != "mine\n" {
		t.Errorf("%+v: %q, %v", gone, got, err)
	}
}

// TestEarlierSnapshot: a snapshot is found by its id also when another one was made after it, with the BASE of then.
func TestEarlierSnapshot(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	var kept []string
	for n := range 3 {
		w.write(t, "docs/guide.md", fmt.Sprintf("guide %d\n", n))
		w.write(t, "README.md", fmt.Sprintf("outside %d\n", n))
		a := s.do(t, "integrate_agent_workspace", `"handle":%q,"preserve_out_of_scope":true,"keep_open":true,"operation_id":"integrate-%d"`, handle, n)
		kept, handle = append(kept, read[integrated](t, a).Preserved), a.Handle
	}
	w.write(t, "README.md", "one\ntwo\nthree\n")
	s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-01"`, handle)
	for n, snapshot := range kept {
		back := s.do(t, "resume_workspace", `"ws":%q,"operation_id":"resume-%02d"`, snapshot, n)
		if !back.OK {
			t.Fatal(back.Refusal)
		}
		again := read[openedWorkspace](t, back)
		status := read[workspaceShown](t, s.do(t, "workspace_status", `"handle":%q,"diff":"patch"`, again.ID))
		if len(status.Changes) != 1 || !strings.Contains(status.Patch, fmt.Sprintf("+guide %d\n", n)) || len(status.Outside) != 1 {
			t.Errorf("snapshot %d: %+v", n, status)
		}
		s.do(t, "suspend_workspace", `"handle":%q,"reason":"later","operation_id":"suspend-%02d"`, back.Handle, n)
	}
	refused(t, s.do(t, "resume_workspace", `"ws":"snap_000000000000000000000000","operation_id":"resume-99"`), operation.NotFound, fault.AfterFix)
}

// TestSnapshotOfIntegration: what an integration kept in a snapshot goes on from there with the BASE of then, also after a later
// integration.
func TestSnapshotOfIntegration(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	w.write(t, "docs/guide.md", "changed\n")
	w.write(t, "README.md", "outside\n")
	a := s.do(t, "integrate_agent_workspace", `"handle":%q,"preserve_out_of_scope":true,"keep_open":true,"operation_id":"integrate-1"`, handle)
	kept := read[integrated](t, a).Preserved
	w.write(t, "README.md", "one\ntwo\nthree\n")
	w.write(t, "docs/later.md", "later\n")
	a = s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-2"`, a.Handle)
	gone := read[retired](t, s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-01"`, a.Handle))
	if kept == "" || gone.Why != "clean" {
		t.Fatalf("%q, %+v", kept, gone)
	}
	back := s.do(t, "resume_workspace", `"ws":%q,"operation_id":"resume-01"`, kept)
	again := read[openedWorkspace](t, back)
	status := read[workspaceShown](t, s.do(t, "workspace_status", `"handle":%q`, again.ID))
	if len(status.Changes) != 1 || status.Changes[0].Path != "docs/guide.md" || len(status.Outside) != 1 || status.Outside[0].Path != "README.md" {
		t.Errorf("%+v", status)
	}
	handle = s.do(t, "amend_workspace_scope", `"handle":%q,"add":["README.md"],"operation_id":"amend-001"`, back.Handle).Handle
	if a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-3"`, handle); !a.OK || s.file(t, "README.md") != "outside\n" {
		t.Errorf("%v", a.Refusal)
	}
}
