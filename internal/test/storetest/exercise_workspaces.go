package storetest

import (
	"fmt"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// workspaceCases has one case for each method of the ports of the workspaces.
var workspaceCases = map[string]func(*testing.T, Pair){
	"WorkspaceByID":  workspaceByID,
	"Workspaces":     workspaces,
	"PutWorkspace":   putWorkspace,
	"Integrations":   integrations,
	"PutIntegration": putIntegration,
}

func workspaceOf(id string, state workspace.State) workspace.Workspace {
	return workspace.Workspace{
		ID: id, Rev: 2, Principal: "owner", Project: "proj_1", Session: "rs_1", By: operation.Name{Namespace: "owner", ID: "op-" + id}, Purpose: "tests", State: state, Why: "later",
		Mutable:  []workspace.Scope{{Path: "src", Way: []workspace.Node{{ID: "8:1", Name: ""}}, Missing: []string{"new"}}},
		Excludes: []string{"*.o"}, Overlap: workspace.RefuseOverlap, Break: true, Dir: "/state/workspaces/" + id,
		Base: workspace.Copied{
			Digest: "tree:aa", Files: 3, Bytes: 12, Method: "copy", At: uneven, After: 7, Build: "b_1",
			Skipped: []workspace.Left{{Path: "pipe", Why: "other"}}, Aliases: []workspace.Left{{Path: "a", Why: "hardlink"}},
		},
		Snapshot: "snap_1", History: []workspace.Step{{Rev: 2, Tool: "edit_files", Operation: "op-2", At: uneven.UTC()}}, Created: uneven, Changed: uneven,
	}
}

func putWorkspaces(t *testing.T, p Pair, all ...workspace.Workspace) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, w := range all {
			if err := tx.PutWorkspace(t.Context(), workspace.PutWorkspace{Workspace: w}); err != nil {
				return err
			}
		}
		return nil
	})
}

func listWorkspaces(t *testing.T, p Pair, l workspace.ListWorkspaces) (ids []string) {
	t.Helper()
	for _, w := range read(t, p.Read, func(r store.Reader) ([]workspace.Workspace, error) { return r.Workspaces(t.Context(), l) }) {
		ids = append(ids, w.ID)
	}
	return ids
}

func workspaceByID(t *testing.T, p Pair) {
	want := workspaceOf("ws_1a", workspace.Open)
	putWorkspaces(t, p, want, workspaceOf("ws_1b", workspace.Open))
	find := func(id string) func(store.Reader) (workspace.Workspace, error) {
		return func(r store.Reader) (workspace.Workspace, error) {
			return r.WorkspaceByID(t.Context(), workspace.ByID{ID: id})
		}
	}
	got := read(t, p.Read, find("ws_1a"))
	want.Created, want.Changed, want.Base.At, want.Seq = store.CutTime(want.Created), store.CutTime(want.Changed), store.CutTime(want.Base.At), got.Seq
	same(t, "what was put", want, got)
	for id, code := range map[string]string{"ws_2": "workspace-unknown", "": "workspace-unknown", "ws_1": "workspace-ambiguous"} {
		kind := fault.NotFound
		if code == "workspace-ambiguous" {
			kind = fault.Conflict
		}
		wantFault(t, p.Read.View(t.Context(), func(r store.Reader) error {
			_, err := find(id)(r)
			return err
		}), kind, code)
	}
}

func workspaces(t *testing.T, p Pair) {
	other := workspaceOf("ws_c", workspace.Suspended)
	other.Principal, other.Project = "guest", "proj_2"
	putWorkspaces(t, p, workspaceOf("ws_a", workspace.Open), workspaceOf("ws_b", workspace.Retired), other)
	for _, c := range []struct {
		what string
		ask  workspace.ListWorkspaces
		want []string
	}{
		{"all, the newest first", workspace.ListWorkspaces{}, []string{"ws_c", "ws_b", "ws_a"}},
		{"of a principal", workspace.ListWorkspaces{Principal: "owner"}, []string{"ws_b", "ws_a"}},
		{"of a project", workspace.ListWorkspaces{Project: "proj_2"}, []string{"ws_c"}},
		{"in states", workspace.ListWorkspaces{States: []workspace.State{workspace.Open, workspace.Suspended}}, []string{"ws_c", "ws_a"}},
		{"in a state of another project", workspace.ListWorkspaces{Project: "proj_2", States: []workspace.State{workspace.Open}}, nil},
	} {
		same(t, c.what, c.want, listWorkspaces(t, p, c.ask))
	}
	first := read(t, p.Read, func(r store.Reader) ([]workspace.Workspace, error) {
		return r.Workspaces(t.Context(), workspace.ListWorkspaces{Limit: 2})
	})
	putWorkspaces(t, p, workspaceOf("ws_d", workspace.Open)) // between pages
	same(t, "the next page", []string{"ws_a"}, listWorkspaces(t, p, workspace.ListWorkspaces{Before: first[1].Seq}))
	var many []workspace.Workspace
	for i := range workspace.MaxPage {
		many = append(many, workspaceOf(fmt.Sprintf("ws_x%04d", i), workspace.Open))
	}
	putWorkspaces(t, p, many...)
	same(t, "the largest page", workspace.MaxPage, len(listWorkspaces(t, p, workspace.ListWorkspaces{Limit: 1 << 30})))
}

func putWorkspace(t *testing.T, p Pair) {
	w := workspaceOf("ws_1", workspace.Creating)
	put := func() error {
		return p.Write.Change(t.Context(), func(tx store.Tx) error {
			return tx.PutWorkspace(t.Context(), workspace.PutWorkspace{Workspace: w})
		})
	}
	putWorkspaces(t, p, w)
	w.State, w.Rev = workspace.Open, 3
	putWorkspaces(t, p, w)
	w.Rev = 2
	wantFault(t, put(), fault.Stale, "workspace-stale")
	w.Rev, w.State = 4, workspace.Retired
	putWorkspaces(t, p, w)
	w.State = workspace.Open
	wantFault(t, put(), fault.Conflict, "workspace-final")
	same(t, "it kept its place", []string{"ws_1"}, listWorkspaces(t, p, workspace.ListWorkspaces{}))
}

func integrationOf(id, project string) workspace.Integration {
	return workspace.Integration{
		ID: id, Workspace: "ws_1", Project: project, Principal: "ann", Operation: "op-1", Batch: "op-abc-1", Message: "done", Undoes: "int_0", Paths: []string{"a", "b"}, Changed: 2, Snapshot: "snap_2", At: uneven,
	}
}

func putIntegrations(t *testing.T, p Pair, all ...workspace.Integration) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, i := range all {
			if err := tx.PutIntegration(t.Context(), workspace.PutIntegration{Integration: i}); err != nil {
				return err
			}
		}
		return nil
	})
}

func listIntegrations(t *testing.T, p Pair, l workspace.ListIntegrations) []workspace.Integration {
	t.Helper()
	return read(t, p.Read, func(r store.Reader) ([]workspace.Integration, error) { return r.Integrations(t.Context(), l) })
}

func integrations(t *testing.T, p Pair) {
	putIntegrations(t, p, integrationOf("int_a", "proj_1"), integrationOf("int_b", "proj_2"), integrationOf("int_c", "proj_1"))
	ids := func(l workspace.ListIntegrations) (out []string) {
		for _, i := range listIntegrations(t, p, l) {
			out = append(out, i.ID)
		}
		return out
	}
	same(t, "all, the newest first", []string{"int_c", "int_b", "int_a"}, ids(workspace.ListIntegrations{}))
	same(t, "of a project", []string{"int_c", "int_a"}, ids(workspace.ListIntegrations{Project: "proj_1"}))
	first := listIntegrations(t, p, workspace.ListIntegrations{Limit: 1})
	same(t, "after one", []string{"int_c"}, ids(workspace.ListIntegrations{Project: "proj_1", After: first[0].Seq - 1}))
	same(t, "after the last one", nil, ids(workspace.ListIntegrations{After: first[0].Seq}))
	putIntegrations(t, p, integrationOf("int_d", "proj_1")) // between pages
	same(t, "the next page", []string{"int_b", "int_a"}, ids(workspace.ListIntegrations{Before: first[0].Seq}))
	var many []workspace.Integration
	for i := range workspace.MaxPage {
		many = append(many, integrationOf(fmt.Sprintf("int_x%04d", i), "proj_1"))
	}
	putIntegrations(t, p, many...)
	same(t, "the largest page", workspace.MaxPage, len(listIntegrations(t, p, workspace.ListIntegrations{Limit: 1 << 30})))
}

func putIntegration(t *testing.T, p Pair) {
	want := integrationOf("int_1", "proj_1")
	putIntegrations(t, p, want)
	got := listIntegrations(t, p, workspace.ListIntegrations{})[0]
	want.At, want.Seq = store.CutTime(want.At), got.Seq
	same(t, "what was put", want, got)
}
