//go:build unix

package work

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mcpx/internal/event"
	"mcpx/internal/retention"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// TestDW48WildClock: DW-48, of workspaces. However old they are: no workspace that is open, suspended or in quarantine is removed,
// nor a snapshot; one that was removed goes when all that is in it is kept, and stays when somebody has written to it since. That
// nothing goes at all while the clock is held: the tests of the hold in retention and daemon.
func TestDW48WildClock(t *testing.T) {
	s := newShop(t)
	open, dirty := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	dirty.write(t, "docs/mine.md", "mine\n")
	away, suspended := s.workspaceOf(t, "create-02", `"mutable":["src"]`)
	s.do(t, "suspend_workspace", `"handle":%q,"reason":"later","operation_id":"suspend-1"`, away)
	loose := filepath.Join(s.state, "workspaces", "loose")
	if err := os.Mkdir(loose, 0o700); err != nil {
		t.Fatal(err)
	}
	remove := func(n string, change func(openedWorkspace)) (openedWorkspace, retired) {
		t.Helper()
		handle, w := s.workspaceOf(t, "create-"+n, `"mutable":["README.md"]`)
		if change != nil {
			change(w)
		}
		return w, read[retired](t, s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-%s"`, handle, n))
	}
	clean, _ := remove("03", nil)
	kept, was := remove("04", func(w openedWorkspace) { w.write(t, "README.md", "mine\n") })
	late, _ := remove("05", func(w openedWorkspace) { w.write(t, "README.md", "mine, too\n") })
	trash := func(w openedWorkspace) string { return filepath.Join(s.state, "trash", w.ID) }
	if err := os.WriteFile(filepath.Join(trash(late), "tree", "late.txt"), []byte("late\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.pass(time.Second) // ids hold the time
	s.next(t)
	prune := func(after time.Duration) (out retention.Removed) {
		t.Helper()
		report, err := s.Prune(t.Context(), Prune{Periods: retention.Usual, At: s.cfg.Now().Add(after), By: event.Actor{Principal: "owner", Channel: "loop"}})
		if err != nil {
			t.Fatal(err)
		}
		return report.Removed[0]
	}
	if out := prune(29 * retention.Day); out.Removed != 0 {
		t.Errorf("before their time: %+v", out)
	}
	if out := prune(3650 * retention.Day); out.Removed != 2 || out.Needed != 1 {
		t.Errorf("%+v", out)
	}
	for path, want := range map[string]bool{
		trash(clean): false, trash(kept): false, trash(late): true, filepath.Join(s.state, "snapshots", was.Preserved): true,
		dirty.Path: true, suspended.Path: true, filepath.Dir(dirty.Path): true,
	} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v, want it to be there: %v", path, err, want)
		}
	}
	list := read[reconciled](t, s.call(t, "reconcile_project_state", `{}`))
	if len(list.Quarantine) != 1 || len(list.Workspaces) != 2 || s.row(t, dirty.ID).State != workspace.Open || open == "" {
		t.Errorf("%+v", list)
	}
	if _, err := os.Stat(list.Quarantine[0].Path); err != nil {
		t.Error(err)
	}
	if out := prune(3650 * retention.Day); out.Removed != 0 || out.Needed != 1 {
		t.Errorf("again: %+v", out)
	}
	if a := s.do(t, "resume_workspace", `"ws":%q,"operation_id":"resume-01"`, was.Preserved); !a.OK {
		t.Errorf("what was kept: %v", a.Refusal)
	}
}

// A directory of which a part was removed goes at the next look, if its row says that it was being cleared, and what is left of it is
// known; one of which somebody else has removed a part stays.
func TestPruneGoesOn(t *testing.T) {
	s := newShop(t)
	cases := []struct {
		begun bool
		late  string // what somebody has written to it since
		stays bool
	}{{true, "", false}, {false, "", true}, {true, "late.txt", true}, {true, "src/main.go", true}}
	var rows []workspace.Workspace
	for n, c := range cases {
		handle, w := s.workspaceOf(t, fmt.Sprint("create-0", n), `"mutable":["README.md"]`)
		read[retired](t, s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-0%d"`, handle, n))
		row := s.row(t, w.ID)
		if err := os.Remove(filepath.Join(row.Dir, "tree", "README.md")); err != nil {
			t.Fatal(err)
		}
		if c.late != "" {
			plant(t, map[string]string{filepath.Join(row.Dir, "tree", c.late): "late\n"})
		}
		if rows = append(rows, row); !c.begun {
			continue
		}
		row.Cleared = s.cfg.Now()
		if err := s.db.Change(t.Context(), func(tx store.Tx) error {
			return tx.PutWorkspace(t.Context(), workspace.PutWorkspace{Workspace: row})
		}); err != nil {
			t.Fatal(err)
		}
	}
	report, err := s.Prune(t.Context(), Prune{Periods: retention.Usual, At: s.cfg.Now().Add(3650 * retention.Day), By: event.Actor{Principal: "owner", Channel: "loop"}})
	if out := report.Removed[0]; err != nil || out.Removed != 0 || out.Needed != 3 {
		t.Errorf("%+v, %v", out, err)
	}
	for i, c := range cases {
		if _, err := os.Stat(rows[i].Dir); (err == nil) != c.stays {
			t.Errorf("%d: %v, want it to be there: %v", i, err, c.stays)
		}
		if dir := s.row(t, rows[i].ID).Dir; (dir != "") != c.stays {
			t.Errorf("%d: the row names %q", i, dir)
		}
	}
}

// A workspace that has changed since it was listed is not cleared, nor put back to what it was; nor is one that somebody works with.
func TestPruneStale(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["README.md"]`)
	read[retired](t, s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-01"`, handle))
	listed := s.row(t, w.ID)
	changed := listed
	changed.Rev, changed.Changed, changed.Snapshot = listed.Rev+1, listed.Changed.Add(time.Second), "snap_of_an_undo"
	if err := s.db.Change(t.Context(), func(tx store.Tx) error {
		return tx.PutWorkspace(t.Context(), workspace.PutWorkspace{Workspace: changed})
	}); err != nil {
		t.Fatal(err)
	}
	p := &pruning{s: s.Service, Prune: Prune{Periods: retention.Usual, At: s.cfg.Now().Add(3650 * retention.Day), By: event.Actor{Principal: "owner", Channel: "loop"}}}
	var out retention.Removed
	if err := p.clear(t.Context(), &out, listed); err != nil || out.Removed != 0 {
		t.Errorf("%+v, %v", out, err)
	}
	release, err := s.leases.take(w.ID, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.retired(t.Context(), &out); err != nil || out.Removed != 0 {
		t.Errorf("leased: %+v, %v", out, err)
	}
	release()
	if now := s.row(t, w.ID); now.Snapshot != changed.Snapshot || !now.Cleared.IsZero() || now.Dir != listed.Dir {
		t.Errorf("%+v", now)
	}
	if _, err := os.Stat(listed.Dir); err != nil {
		t.Error(err)
	}
}

// What an edit has displaced in a project that is gone is not said to be removed.
func TestPruneOfGoneProject(t *testing.T) {
	s := newShop(t)
	if a := s.do(t, "edit_files", `"operation_id":"edit-0001","edits":[{"path":"README.md","expect_sha256":%q,"content":"mine\n"}]`, digest([]byte(s.file(t, "README.md")))); !a.OK {
		t.Fatal(a.Refusal)
	}
	prune := func(dry bool) retention.Removed {
		t.Helper()
		report, err := s.Prune(t.Context(), Prune{Periods: retention.Usual, At: s.cfg.Now().Add(40 * retention.Day), DryRun: dry, By: event.Actor{Principal: "owner", Channel: "loop"}})
		if err != nil {
			t.Fatal(err)
		}
		return report.Removed[0]
	}
	if err := os.Rename(s.root, s.root+".away"); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		if out := prune(dry); out.Removed != 0 || out.Needed != 1 {
			t.Errorf("dry %v: %+v", dry, out)
		}
	}
	if err := os.Rename(s.root+".away", s.root); err != nil {
		t.Fatal(err)
	}
	if out := prune(false); out.Removed != 1 || out.Needed != 0 {
		t.Errorf("when it is back: %+v", out)
	}
}
