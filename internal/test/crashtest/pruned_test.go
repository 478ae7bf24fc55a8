package crashtest

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/operation"
	"mcpx/internal/sqlite"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// longAgo is longer than anything is kept that is not kept for ever.
const longAgo = 400 * 24 * time.Hour

// TestPruneKilled: the daemon is killed at each step of the removal of old data: bytes that edits have displaced, what commands wrote,
// and the directories of removed workspaces. The next look removes the rest, and nothing else: the project, what is not old, and how
// each operation ended stay, and the log holds.
func TestPruneKilled(t *testing.T) {
	passes := map[string]int{"retention.workspace.before": 2} // the working copy, and what is around it
	tried := 0
	for _, name := range registered(t) {
		if !strings.HasPrefix(name, "retention.") {
			continue
		}
		for pass := range max(1, passes[name]) {
			tried++
			t.Run(fmt.Sprintf("%s#%d", name, pass+1), func(t *testing.T) {
				t.Parallel()
				pruneKilled(t, fmt.Sprintf("%s#%d", name, pass+1))
			})
		}
	}
	if tried < 7 {
		t.Errorf("there are %d points", tried)
	}
}

func pruneKilled(t *testing.T, at string) {
	w := cut(t, at, append(script{"MCPX_RUNTIME_WORK=true", "MCPX_RETENTION_RESULTS=1d"}, commands...), allowTee)
	w.write("a.txt", "old\n")
	w.is["a.txt"] = "old\n"
	w.register()
	w.edit("edit-old-1", map[string]string{"a.txt": "new\n"}, edit{"path": "a.txt", "expect_sha256": w.sum("a.txt"), "content": "new\n"})
	w.execute("exec-old-1")
	w.is["exec-old-1"] = "exec-old-1\n"
	handle, _ := w.workspace("create-1")
	if gone := w.do("remove_agent_workspace", "retire-1", map[string]any{"handle": handle, "if_dirty": "refuse"}, nil); !gone.OK {
		t.Fatalf("retire-1: %+v", gone)
	}
	state := filepath.Join(w.g.Home, "state")
	old := []string{filepath.Join(state, "trash", "*"), filepath.Join(state, "jobs", "job_*")}
	w.g.Must("daemon", "stop")
	w.g.Wait()
	aged(t, filepath.Join(state, "mcpx.db"))
	w.g.Serve()
	w.edit("edit-new-1", map[string]string{"a.txt": "newer\n"}, edit{"path": "a.txt", "expect_sha256": w.sum("a.txt"), "content": "newer\n"})
	before := found(t, old)
	if len(before) != 4 { // of two edits, a workspace and a command
		t.Fatalf("there are %q", before)
	}
	if cutOff := w.g.Run("audit", "prune"); cutOff.Code == 0 {
		t.Fatalf("nobody was killed: %s", cutOff.Stdout)
	}
	for deadline := time.Now().Add(stepWithin); !w.g.Ended(); time.Sleep(pollEvery) {
		if time.Now().After(deadline) {
			t.Fatal("nobody was killed")
		}
	}
	w.g.Serve()
	w.g.Must("audit", "prune")
	if left := found(t, old); len(left) != 1 || !strings.Contains(left[0], "op-") {
		t.Errorf("left are %q of %q", left, before)
	}
	w.whole("prune", w.is)
	for _, id := range []string{"edit-old-1", "exec-old-1", "retire-1", "edit-new-1"} {
		if shown := w.g.Must("operation", "show", id); !strings.Contains(shown, "succeeded") {
			t.Errorf("%s is told as %s", id, shown)
		}
	}
	w.g.Must("audit", "verify")
	again := w.g.Must("audit", "prune", "--json")
	if found := found(t, old); len(found) != 1 {
		t.Errorf("after another look there are %q: %s", found, again)
	}
}

// found are the files of all patterns.
func found(t *testing.T, patterns []string) (all []string) {
	t.Helper()
	for _, pattern := range patterns {
		some, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
	}
	return all
}

// aged makes everything that has ended in a database old.
func aged(t *testing.T, path string) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Backups: filepath.Join(t.TempDir(), "backups"), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Change(t.Context(), func(tx store.Tx) error { return age(t.Context(), tx) })
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func age(ctx context.Context, tx store.Tx) error {
	operations, err := tx.Operations(ctx, operation.ListOperations{})
	if err != nil {
		return err
	}
	for _, o := range operations {
		o.Ended = o.Ended.Add(-longAgo)
		if err := tx.PutOperation(ctx, operation.PutOperation{Operation: o}); err != nil {
			return err
		}
	}
	jobs, err := tx.Jobs(ctx, operation.ListJobs{})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		j.Ended = j.Ended.Add(-longAgo)
		if err := tx.PutJob(ctx, operation.PutJob{Job: j}); err != nil {
			return err
		}
	}
	workspaces, err := tx.Workspaces(ctx, workspace.ListWorkspaces{States: []workspace.State{workspace.Retired}})
	if err != nil {
		return err
	}
	for _, one := range workspaces {
		one.Changed = one.Changed.Add(-longAgo)
		if err := tx.PutWorkspace(ctx, workspace.PutWorkspace{Workspace: one}); err != nil {
			return err
		}
	}
	return nil
}
