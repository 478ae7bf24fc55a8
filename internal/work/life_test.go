//go:build unix

package work

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// copyOf makes a workspace of all of the project of the bench.
func (b *bench) copyOf(t *testing.T, id string) (handle string, w openedWorkspace) {
	t.Helper()
	a := b.call(t, "create_agent_workspace", `{"remote_session_id":%q,"purpose":"work","mutable":["."],"operation_id":%q}`, b.session, id)
	return a.Handle, read[openedWorkspace](t, a)
}

// TestDW3Stale: DW-3. A call with the handle of an earlier revision changes nothing, is told the present one and what has changed
// since, and is carried out under the same id with the right handle.
func TestDW3Stale(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	now := handle
	for n := range 4 {
		now = s.do(t, "edit_files", `"handle":%q,"edits":[{"op":"create","path":"docs/%d.md","content":"x"}],"operation_id":"edit-000%d"`, w.ID, n, n).Handle
	}
	if now != w.ID+"@5" {
		t.Fatalf("the handle is %s", now)
	}
	a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, w.ID+"@4")
	refused(t, a, workspace.StaleHandle, fault.AfterFix)
	since, _ := a.Refusal.Details["since"].([]workspace.Step)
	if a.Refusal.Details["handle"] != now || len(since) != 1 || since[0].Rev != 5 || since[0].Tool != "edit_files" || since[0].Operation != "edit-0003" || len(a.Next) == 0 {
		t.Errorf("%+v, %+v", a.Refusal.Details, a.Next)
	}
	if _, err := os.Stat(filepath.Join(s.root, "docs/0.md")); err == nil {
		t.Error("something was applied")
	}
	if a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, now); !a.OK || s.file(t, "docs/3.md") != "x" {
		t.Errorf("%v", a.Refusal)
	}
}

// TestDW5JobsRunning: DW-5. While a command runs in a workspace it is not changed as a whole; afterwards the same call is.
func TestDW5JobsRunning(t *testing.T) {
	b := newBench(t)
	handle, w := b.copyOf(t, "create-01")
	w.write(t, "new.txt", "new\n")
	job := read[startedJob](t, b.run(t, "start_command", fmt.Sprintf(`"handle":%q,"shell":"echo runs; while [ ! -e stop ]; do sleep 0.02; done; rm stop"`, handle))).Job
	b.until(t, job, "output", func(s jobShown) bool { return s.Stdout.Bytes > 0 })
	for tool, more := range map[string]string{"integrate_agent_workspace": "", "suspend_workspace": `,"reason":"later"`, "remove_agent_workspace": "", "amend_workspace_scope": `,"add":["x"]`} {
		a := b.call(t, tool, `{"handle":%q,"operation_id":%q%s}`, handle, "op-"+tool, more)
		refused(t, a, workspace.JobsRunning, fault.AfterWait)
		if a.Refusal == nil || fmt.Sprint(a.Refusal.Details["jobs"]) != "["+job+"]" || len(a.Next) == 0 {
			t.Errorf("%s: %+v, %+v", tool, a.Refusal, a.Next)
		}
	}
	if row := b.row(t, w.ID); row.State != workspace.Open || row.Rev != 1 {
		t.Errorf("%s", row)
	}
	w.write(t, "stop", "")
	b.until(t, job, "its end", func(s jobShown) bool { return s.State.Final() })
	if a := b.call(t, "integrate_agent_workspace", `{"handle":%q,"operation_id":"op-integrate_agent_workspace"}`, handle); !a.OK {
		t.Errorf("%v", a.Refusal)
	}
	if got, err := os.ReadFile(filepath.Join(b.root, "new.txt")); err != nil || string(got) != "new\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestDW50ChildOutlives: DW-50. What a command has left behind in a workspace keeps it, also over a restart of the daemon, until
// that has ended.
func TestDW50ChildOutlives(t *testing.T) {
	b := newBench(t)
	handle, w := b.copyOf(t, "create-01")
	a := b.run(t, "execute_command", fmt.Sprintf(`"handle":%q,"shell":"sleep 300 >/dev/null 2>&1 </dev/null & echo $!"`, handle))
	job := read[jobShown](t, a)
	child, err := strconv.Atoi(strings.TrimSpace(job.Stdout.Text))
	if err != nil {
		t.Fatalf("%+v: %v", job, err)
	}
	t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) }) // when the test did not come so far
	remove := func() operation.Answer {
		return b.call(t, "remove_agent_workspace", `{"handle":%q,"operation_id":"remove-01"}`, handle)
	}
	for _, when := range []string{"at once", "after a restart"} {
		a := remove()
		refused(t, a, workspace.JobsRunning, fault.AfterWait)
		if a.Refusal == nil || fmt.Sprint(a.Refusal.Details["descendants_alive"]) != "["+job.Job+"]" {
			t.Errorf("%s: %+v", when, a.Refusal)
		}
		b.restart(t)
		if err := b.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if a := remove(); a.OK {
			break
		} else if time.Now().After(limit) {
			t.Fatalf("%v", a.Refusal)
		}
	}
	if row := b.row(t, w.ID); row.State != workspace.Retired || row.Why != "clean" {
		t.Errorf("%s (%s)", row, row.Why)
	}
}

// TestDW1Replay: DW-1. An exact retry is answered by what was recorded, byte for byte, also when the project is somewhere else, and
// when it is nowhere: nothing of it is looked at. That a person moves a project with `mcpx project rebind` is left to the tests of session.
func TestDW1Replay(t *testing.T) {
	s := newShop(t)
	call := func() operation.Answer {
		return s.call(t, "create_agent_workspace", `{"project":%q,"purpose":"work","mutable":["docs"],"operation_id":"create-01"}`, s.root)
	}
	first := call()
	w := read[openedWorkspace](t, first)
	away := s.root + ".away"
	if err := os.Rename(s.root, away); err != nil {
		t.Fatal(err)
	}
	s.project(t, "shop", away)
	s.next(t)
	for _, gone := range []bool{false, true} {
		if gone {
			if err := os.RemoveAll(away); err != nil {
				t.Fatal(err)
			}
		}
		again := call()
		if !again.OK || !again.Operation.Replayed || string(again.Data) != string(first.Data) || again.Handle != first.Handle {
			t.Errorf("gone %v: %+v, %v", gone, again, again.Refusal)
		}
	}
	dirs, err := os.ReadDir(filepath.Join(s.state, "workspaces"))
	if err != nil || len(dirs) != 1 || dirs[0].Name() != w.ID || len(s.operations(t)) != 2 { // with that of the session
		t.Errorf("%v, %v, %v", dirs, err, s.operations(t))
	}
}

// TestDW33OurOwn: DW-33. No scope holds a directory of ours or a repository's own, and nothing of ours is copied.
func TestDW33OurOwn(t *testing.T) {
	s := newShop(t)
	state := filepath.Join(s.root, "tools", "state")
	plant(t, map[string]string{filepath.Join(state, "secret.txt"): "ours", filepath.Join(s.root, "tools/a.txt"): "a", filepath.Join(s.root, ".mcpx/note"): "ours"})
	s.state = state
	s.with = func(c *Config) { c.Own = []string{state} }
	s.start(t, s.db)
	for path, code := range map[string]operation.Code{"tools/state": workspace.OutsideProject, "tools": workspace.OutsideProject, ".git": workspace.OutsideProject, ".mcpx": workspace.OutsideProject, ".": workspace.OutsideProject, "tools/state/workspaces": workspace.OutsideProject} {
		a := s.do(t, "create_agent_workspace", `"purpose":"p","mutable":[%q],"operation_id":"create-%s"`, path, digest([]byte(path))[:8])
		refused(t, a, code, fault.AfterFix)
		if a.Refusal != nil && a.Refusal.Details["reason"] == nil {
			t.Errorf("%s: no reason: %+v", path, a.Refusal)
		}
	}
	_, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	for name := range files(t, w.Path) {
		if strings.Contains(name, "state") || strings.Contains(name, ".mcpx") || strings.Contains(name, ".git/") {
			t.Errorf("%s was copied", name)
		}
	}
	if _, err := os.Stat(filepath.Join(w.Path, "tools/a.txt")); err != nil {
		t.Error(err)
	}
}

// TestDW31Replaced: DW-31. Of a project whose directory is another one reconcile and replays work, and nothing is changed until a
// person has said that it is the project.
func TestDW31Replaced(t *testing.T) {
	s := newShop(t)
	handle, _ := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	edit := func(id string) operation.Answer {
		return s.do(t, "edit_files", `"edits":[{"op":"create","path":"%s.txt","content":"x"}],"operation_id":%q`, id, id)
	}
	first := edit("edit-0001")
	if err := os.RemoveAll(s.root); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.root, 0o755); err != nil {
		t.Fatal(err)
	}
	p := s.projectNamed(t, "shop")
	put := func(state session.ProjectState) {
		t.Helper()
		p.State, p.Why = state, "another directory is there"
		if err := s.db.Change(t.Context(), func(tx store.Tx) error { return tx.PutProject(t.Context(), session.PutProject{Project: p}) }); err != nil {
			t.Fatal(err)
		}
	}
	put(session.ProjectMoved) // what the daemon finds when it looks
	s.next(t)
	if list := read[reconciled](t, s.do(t, "reconcile_project_state", `"limit":5`)); len(list.Workspaces) != 1 || list.Workspaces[0].Handle != handle {
		t.Errorf("%+v", list)
	}
	if again := edit("edit-0001"); !again.OK || !again.Operation.Replayed || string(again.Data) != string(first.Data) {
		t.Errorf("%+v, %v", again, again.Refusal)
	}
	refused(t, edit("edit-0002"), operation.ProjectMoved, fault.AfterFix)
	refused(t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle), operation.ProjectMoved, fault.AfterFix)
	put(session.ProjectOK) // `mcpx project rebind`
	if a := edit("edit-0002"); !a.OK || s.file(t, "edit-0002.txt") != "x" {
		t.Errorf("%v", a.Refusal)
	}
}

// TestDW12Maintenance: DW-12, of workspaces: looking after them, again and again, is in nobody's way. A command writes in one,
// edits go on in another, both are left alone, and every byte is there. That their retired ones are purged meanwhile:
// TestDW48WildClock.
func TestDW12Maintenance(t *testing.T) {
	b := newBench(t)
	busy, w := b.copyOf(t, "create-01")
	idle := b.call(t, "create_agent_workspace", `{"remote_session_id":%q,"purpose":"edits","mutable":["."],"on_overlap":"allow","operation_id":"create-02"}`, b.session)
	refused(t, idle, workspace.ScopeOverlap, fault.AfterWait)
	b.project(t, "other", t.TempDir())
	other := b.call(t, "create_agent_workspace", `{"project":"other","purpose":"edits","mutable":["."],"operation_id":"create-03"}`)
	o := read[openedWorkspace](t, other)
	job := read[startedJob](t, b.run(t, "start_command", fmt.Sprintf(`"handle":%q,"shell":"n=0; while [ ! -e stop ]; do n=$((n+1)); echo $n > f$n; done; echo $n"`, busy))).Job
	b.until(t, job, "its start", func(s jobShown) bool { return s.State == operation.JobRunning })
	stop := make(chan struct{})
	var looks sync.WaitGroup
	rounds := 0
	looks.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := b.Service.agree(t.Context()); err != nil {
				t.Error(err)
				return
			}
			rounds++
		}
	})
	const edits = 40
	for n := range edits {
		a := b.call(t, "edit_files", `{"handle":%q,"edits":[{"op":"create","path":"e%d","content":"%d"}],"operation_id":"edit-%04d"}`, o.ID, n, n, n)
		if !a.OK {
			t.Errorf("%v", a.Refusal)
		}
	}
	w.write(t, "stop", "")
	end := b.until(t, job, "its end", func(s jobShown) bool { return s.State.Final() })
	close(stop)
	looks.Wait()
	wrote, err := strconv.Atoi(strings.TrimSpace(end.Stdout.Text))
	if err != nil || end.State != operation.JobExited {
		t.Fatalf("%+v, %v", end, err)
	}
	for dir, c := range map[string]struct {
		name        string
		first, last int
	}{w.Path: {"f", 1, wrote}, o.Path: {"e", 0, edits - 1}} {
		for n := c.first; n <= c.last; n++ {
			if got, err := os.ReadFile(filepath.Join(dir, c.name+strconv.Itoa(n))); err != nil || strings.TrimSpace(string(got)) != strconv.Itoa(n) {
				t.Fatalf("%s%d is %q, %v", c.name, n, got, err)
			}
		}
	}
	if b.row(t, w.ID).State != workspace.Open || b.row(t, o.ID).State != workspace.Open || rounds == 0 {
		t.Errorf("%s, %s after %d rounds", b.row(t, w.ID), b.row(t, o.ID), rounds)
	}
}
