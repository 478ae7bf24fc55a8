package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// fakeWork notes which tools were called, and answers what it was told to.
type fakeWork struct {
	calls   []string
	answers map[string]operation.Answer // by tool, with its mode or what it waits for
	bundle  workspace.Bundle
}

func (f *fakeWork) ForPerson(_ context.Context, by event.Actor, tool string, args json.RawMessage) operation.Answer {
	f.calls = append(f.calls, fmt.Sprintf("%s/%s %s %s", by.Principal, by.Channel, tool, args))
	if a, ok := f.answers[tool]; ok {
		return a
	}
	return operation.Answer{Refusal: operation.Refuse(operation.NotFound, "no answer for %s", tool)}
}

func (f *fakeWork) Verify(_ context.Context, by event.Actor, build string, read func(bytes int)) operation.Answer {
	read(3)
	return f.ForPerson(context.Background(), by, "verify_generation", json.RawMessage(`{"build_id":"`+build+`"}`))
}

func (*fakeWork) Look(_ context.Context, w workspace.Workspace) workspace.Sight {
	return workspace.Sight{Dirty: workspace.Unverified, Jobs: []string{"job_of_" + w.ID}}
}

func (f *fakeWork) Bundles(_ context.Context, _ workspace.Workspace, paths []string) ([]workspace.Bundle, error) {
	return slices.Repeat([]workspace.Bundle{f.bundle}, len(paths)), nil
}

// packed puts workspaces into the store, the last one the newest.
func (b *bench) packed(ctx context.Context, t *testing.T, all ...workspace.Workspace) {
	t.Helper()
	err := b.cfg.DB.Change(ctx, func(tx store.Tx) error {
		for _, w := range all {
			w.Rev, w.Principal, w.Created, w.Mutable = max(w.Rev, 1), "ann", b.now, []workspace.Scope{{Path: "."}}
			if err := tx.PutWorkspace(ctx, workspace.PutWorkspace{Workspace: w}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWorkspaces(t *testing.T) {
	b, ctx := newBench(t)
	b.packed(ctx, t, workspace.Workspace{ID: "ws_1", State: workspace.Open}, workspace.Workspace{ID: "ws_2", State: workspace.Retired}, workspace.Workspace{ID: "ws_3", State: workspace.Suspended})
	held := operation.Operation{
		Name: operation.Name{Namespace: "ann", ID: "op-00001"}, Tool: "integrate_agent_workspace", State: operation.Claimed, Hold: operation.HoldApproval, Approval: "apr_1",
		Args: json.RawMessage(`{"handle":"ws_1@1"}`), Claimed: b.now,
	}
	if err := b.cfg.DB.Change(ctx, func(tx store.Tx) error { return tx.PutOperation(ctx, operation.PutOperation{Operation: held}) }); err != nil {
		t.Fatal(err)
	}
	first, err := b.Workspaces(ctx, api.WorkspacesQuery{Limit: 1})
	if err != nil || len(first.Workspaces) != 1 || first.Workspaces[0].ID != "ws_3" || first.Workspaces[0].Jobs[0] != "job_of_ws_3" || fmt.Sprint(first.Next) != "[mcpx workspace show ws_3]" {
		t.Fatalf("the first page: %+v, %v", first, err)
	}
	more, err := b.Workspaces(ctx, api.WorkspacesQuery{Before: first.Before})
	if err != nil || len(more.Workspaces) != 1 || more.Workspaces[0].ID != "ws_1" || more.Before != 0 || fmt.Sprint(more.Workspaces[0].Asks) != "[apr_1]" {
		t.Errorf("the next page, with what waits for a person: %+v, %v", more, err)
	}
	if all, err := b.Workspaces(ctx, api.WorkspacesQuery{All: true}); err != nil || len(all.Workspaces) != 3 {
		t.Errorf("all: %+v, %v", all, err)
	}
	if _, err := b.Workspaces(ctx, api.WorkspacesQuery{Project: "none"}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("of no project: %v", err)
	}
	if _, err := b.Workspaces(t.Context(), api.WorkspacesQuery{}); fault.KindOf(err) != fault.Denied {
		t.Errorf("somebody else: %v", err)
	}
}

// TestWorkspace: what the tools tell is shown to a person, whoever has the workspace; a conflict leads to its resolution.
func TestWorkspace(t *testing.T) {
	b, ctx := newBench(t)
	b.packed(ctx, t, workspace.Workspace{ID: "ws_12", State: workspace.Open, Rev: 3}, workspace.Workspace{ID: "ws_13", State: workspace.Suspended})
	b.work.answers = map[string]operation.Answer{
		"workspace_status":          {OK: true, Data: json.RawMessage(`{"dirty":"yes","jobs":["job_1"],"changes":[{"path":"a","change":"modified","project":"modified"}],"superseded_by":["int_1"]}`)},
		"integrate_agent_workspace": {OK: true, Data: json.RawMessage(`{"applied":[],"merged":[],"conflicts":[{"path":"a","kind":"TEXT","current_sha256":"11"}]}`)},
	}
	b.work.bundle = workspace.Bundle{Dir: "/x/.conflicts/a", Sides: []workspace.Side{{Name: workspace.SideCurrent, SHA256: "11"}}, Current: "11"}
	view, err := b.Workspace(ctx, api.WorkspaceRef{Workspace: "ws_12"})
	if err != nil || view.Dirty != workspace.Dirty || len(view.Changes) != 1 || view.Changes[0].Current != "modified" || len(view.Conflicts) != 1 || view.Conflicts[0].Bundle != b.work.bundle.Dir || len(view.Superseded) != 1 {
		t.Fatalf("%+v, %v", view, err)
	}
	if fmt.Sprint(view.Next) != "[mcpx job show job_1 mcpx workspace integrate ws_12 --resolved a]" {
		t.Errorf("next: %v", view.Next)
	}
	if got := strings.Join(b.work.calls, "\n"); got != `owner/cli workspace_status {"handle":"ws_12@3"}`+"\n"+`owner/cli integrate_agent_workspace {"handle":"ws_12@3","mode":"plan"}` {
		t.Errorf("calls:\n%s", got)
	}
	if _, err := b.Workspace(ctx, api.WorkspaceRef{Workspace: "ws_1"}); fault.From(err).Code != "workspace-ambiguous" {
		t.Errorf("two begin so: %v", err)
	}
	b.work.answers = map[string]operation.Answer{"workspace_status": {Refusal: operation.Refuse(workspace.WrongState, "missing")}}
	if view, err := b.Workspace(ctx, api.WorkspaceRef{Workspace: "ws_13"}); err != nil || view.Dirty != workspace.Unverified || view.Changes == nil {
		t.Errorf("one whose directory is gone: %+v, %v", view, err)
	}
}

// TestAskedBehindMany: a question about a workspace is found behind more claimed operations than a page has.
func TestAskedBehindMany(t *testing.T) {
	b, ctx := newBench(t)
	b.packed(ctx, t, workspace.Workspace{ID: "ws_1", State: workspace.Open})
	err := b.cfg.DB.Change(ctx, func(tx store.Tx) error {
		for n := range operation.MaxOperationPage + 2 {
			o := operation.Operation{
				Name: operation.Name{Namespace: "ann", ID: fmt.Sprintf("op-%05d", n)}, Tool: "integrate_agent_workspace", State: operation.Claimed,
				Args: json.RawMessage(`{"handle":"ws_1@1"}`), Claimed: b.now,
			}
			if n == 0 {
				o.Hold, o.Approval = operation.HoldApproval, "apr_1"
			}
			if err := tx.PutOperation(ctx, operation.PutOperation{Operation: o}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := b.Workspaces(ctx, api.WorkspacesQuery{}); err != nil || fmt.Sprint(all.Workspaces[0].Asks) != "[apr_1]" {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestUnseen: of a workspace into which nobody can look a person is told why, where its work is, and no removal is proposed.
func TestUnseen(t *testing.T) {
	for want, w := range map[string]workspace.Workspace{
		"kept in snap_1: /area/snapshots/snap_1/tree": {State: workspace.Retired, Why: "preserved", Snapshot: "snap_1", Dir: "/area/trash/ws_1"},
		"snap_1 is how it was earlier":                {State: workspace.Retired, Why: "clean", Snapshot: "snap_1", Dir: "/area/trash/ws_1"},
		"nothing was only in it":                      {State: workspace.Retired, Why: "clean", Dir: "/area/trash/ws_1"},
		"vouches for it: /area/quarantine/ws_1/tree":  {State: workspace.Quarantined, Dir: "/area/quarantine/ws_1"},
		"cannot be read: /area/workspaces/ws_1/tree":  {State: workspace.Open, Dir: "/area/workspaces/ws_1"},
		"is not complete":                             {State: workspace.Creating},
	} {
		b, ctx := newBench(t)
		w.ID = "ws_1"
		b.packed(ctx, t, w)
		b.work.answers = map[string]operation.Answer{"workspace_status": {OK: true, Data: json.RawMessage(`{"dirty":"unverified"}`)}}
		if d, err := b.WorkspaceDiff(ctx, api.WorkspaceDiffQuery{Workspace: "ws_1"}); err != nil || !strings.Contains(d.Unseen, want) || d.State != w.State {
			t.Errorf("%+v, %v, want %s", d, err, want)
		}
		view, err := b.Workspace(ctx, api.WorkspaceRef{Workspace: "ws_1"})
		if err != nil || slices.Contains(view.Next, "mcpx workspace remove ws_1") {
			t.Errorf("%s: next are %v, %v", w.State, view.Next, err)
		}
	}
}

// TestRefusedWork: every refusal of the tools has an exit code that says what to do, and tells the way on.
func TestRefusedWork(t *testing.T) {
	for code, want := range map[operation.Code]fault.Kind{
		operation.NotFound: fault.NotFound, workspace.StaleHandle: fault.Stale, workspace.WrongState: fault.Conflict, workspace.Busy: fault.Busy, workspace.ScopeOverlap: fault.Conflict,
		workspace.JobsRunning: fault.Conflict, workspace.OutOfScope: fault.Conflict, workspace.CanonicalMoved: fault.Stale, workspace.RepositoryBusy: fault.Busy,
		operation.ProjectMoved: fault.Conflict, operation.Contested: fault.UnknownOutcome, operation.OutcomeUnknown: fault.UnknownOutcome, operation.OperationIDReused: fault.Conflict,
	} {
		err := fault.From(refusedWork(operation.Refuse(code, "it is so").Retrying(fault.Never)))
		if err.Kind != want || err.Hint == "" || !strings.HasPrefix(err.Message, "it is so") {
			t.Errorf("%s: %v (%s), want %s", code, err, err.Hint, want)
		}
	}
	if err := refusedWork(operation.Refuse("NO_SPACE", "full").Retrying(fault.AfterWait)); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a full disk: %v", err)
	}
	if err := fault.From(refusedWork(operation.InProgress("op-00001", time.Time{}))); err.Kind != fault.Unavailable || err.Code != "workspace-under-way" {
		t.Errorf("under way: %v", err)
	}
	other := errors.New("other")
	if err := refusedWork(other); !errors.Is(err, other) {
		t.Errorf("no refusal: %v", err)
	}
}

// TestIntegrateCommand: a command that is shown is one that can be typed, whatever a path is called.
func TestIntegrateCommand(t *testing.T) {
	conflicts := []api.WorkspaceConflict{{WorkspacePath: api.WorkspacePath{Path: "a b's.txt"}, Bundle: "/x"}, {WorkspacePath: api.WorkspacePath{Path: "src/c.go"}}}
	if got, want := integrateCommand("ws_1", api.IntegrateWorkspace{Outside: true}, conflicts), `mcpx workspace integrate ws_1 --keep-outside --resolved 'a b'\''s.txt'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestUnderWay: an operation on which nobody works is told of, and not asked for again and again.
func TestUnderWay(t *testing.T) {
	b, ctx := newBench(t)
	b.packed(ctx, t, workspace.Workspace{ID: "ws_1", State: workspace.Open})
	b.work.answers = map[string]operation.Answer{"remove_agent_workspace": {Refusal: operation.InProgress("op-00001", b.now)}}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	_, err := b.RemoveWorkspace(api.Under(ctx, "op-00001"), api.WorkspaceRef{Workspace: "ws_1"})
	if fault.From(err).Code != "workspace-under-way" || fault.From(err).Hint == "" || ctx.Err() != nil {
		t.Errorf("%v (%v)", err, ctx.Err())
	}
}

// TestIntegrateAgain: the command after a conflict has all that was asked, and each conflict that is new, however many they are:
// whoever resolves what is shown and types what is printed comes to an end.
func TestIntegrateAgain(t *testing.T) {
	b, ctx := newBench(t)
	b.packed(ctx, t, workspace.Workspace{ID: "ws_1", State: workspace.Open})
	type conflict map[string]any
	conflicts := []conflict{{"path": "moved", "kind": "TEXT"}, {"path_pct": "a%FF", "kind": "BINARY"}, {"path": "old.go", "kind": "RENAME_MODIFY", "renamed_to": "new.go"}}
	want := "mcpx workspace integrate ws_1 --keep-open --keep-outside --message 'so it is' --resolved done --resolved moved --resolved a%FF --resolved old.go"
	for i := range 9 {
		conflicts = append(conflicts, conflict{"path": fmt.Sprint("c", i), "kind": "TEXT"})
		want += fmt.Sprint(" --resolved c", i)
	}
	no := operation.Refuse(workspace.Conflicts, "12 paths").Ending(operation.OutcomeConflict).With("conflicts", conflicts).With("more", 7)
	b.work.answers = map[string]operation.Answer{"integrate_agent_workspace": {Refusal: no}}
	b.work.bundle = workspace.Bundle{Dir: "/x", Current: "11"}
	out, err := b.IntegrateWorkspace(api.Under(ctx, "op-00001"), api.IntegrateWorkspace{
		Workspace: "ws_1", Resolved: []string{"done", "moved"}, Current: []string{"theirs"}, KeepOpen: true, Outside: true, Message: "so it is",
	})
	if err != nil || out.Unlisted != 7 || len(out.Conflicts) != 12 || out.Conflicts[2].Renamed != "new.go" {
		t.Fatalf("%+v, %v", out, err)
	}
	if got := fmt.Sprint(out.Next); got != "["+want+" --current theirs]" {
		t.Errorf("next: %s\nwant  [%s --current theirs]", got, want)
	}
}
