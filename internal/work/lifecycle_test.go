package work

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// TestScopeOverlap: DW-2, DW-25. Parent and child projects, and a symbolic link to one, lead to the same files.
func TestScopeOverlap(t *testing.T) {
	s := newShop(t)
	s.project(t, "docs", filepath.Join(s.root, "docs"))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.root, link); err != nil {
		t.Fatal(err)
	}
	s.project(t, "linked", link)
	create := func(n int, project, mutable string) operation.Answer {
		return s.call(t, "create_agent_workspace", `{"project":%q,"purpose":"work %d","mutable":[%q],"operation_id":"create-%03d"}`, project, n, mutable, n)
	}
	for i, order := range [][2][2]string{{{"shop", "docs/x"}, {"docs", "x"}}, {{"docs", "x"}, {"shop", "docs/x"}}} {
		first := create(100*i, order[0][0], order[0][1])
		holder := read[openedWorkspace](t, first).ID
		for j, clash := range [][2]string{order[1], {"docs", "x/y/z"}, {"docs", "."}, {"linked", "docs/x"}, {"shop", "docs"}} {
			a := create(100*i+j+1, clash[0], clash[1])
			refused(t, a, workspace.ScopeOverlap, fault.AfterWait)
			if a.Refusal != nil && !strings.Contains(fmt.Sprint(a.Refusal.Details), holder) {
				t.Errorf("%v does not name the holder %s: %v", clash, holder, a.Refusal.Details)
			}
		}
		beside := create(100*i+50, "docs", "xy")
		if !beside.OK {
			t.Errorf("xy: %v", beside.Refusal)
		}
		for k, a := range []operation.Answer{first, beside} {
			if gone := s.call(t, "remove_agent_workspace", `{"handle":%q,"operation_id":"remove-%d-%d"}`, a.Handle, i, k); !gone.OK {
				t.Fatal(gone.Refusal)
			}
		}
	}
}

// TestOneOfMany: DW-4. Of calls that change a workspace as a whole through one handle exactly one does; the others are told that the
// handle is stale, or that another call is at it, and their ids are free. MCPX_TEST_FULL makes it 50 rounds.
func TestOneOfMany(t *testing.T) {
	rounds := 4
	if os.Getenv("MCPX_TEST_FULL") != "" {
		rounds = 50
	}
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	const calls = 100
	integrated := 0
	for round := range rounds {
		w.write(t, fmt.Sprintf("docs/new-%d.md", round), "new\n")
		call := func(i int, handle string) operation.Answer {
			if i%2 == 0 {
				return s.do(t, "integrate_agent_workspace", `"handle":%q,"keep_open":true,"operation_id":"change-%02d-%03d"`, handle, round, i)
			}
			return s.do(t, "suspend_workspace", `"handle":%q,"reason":"later","operation_id":"change-%02d-%03d"`, handle, round, i)
		}
		next := fmt.Sprintf("%s@%d", w.ID, s.row(t, w.ID).Rev+1)
		answers := make([]operation.Answer, calls)
		release := make(chan struct{})
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() {
				<-release
				answers[i] = call(i, handle)
			})
		}
		close(release)
		all.Wait()
		done, refused := -1, -1
		for i, a := range answers {
			switch {
			case a.OK && done >= 0:
				t.Errorf("round %d: %d and %d succeeded", round, done, i)
			case a.OK && a.Handle != next:
				t.Errorf("round %d: the handle is %s, want %s", round, a.Handle, next)
			case a.OK:
				done = i
			case a.Refusal.Code != workspace.StaleHandle && a.Refusal.Code != workspace.Busy || a.Refusal.Retry == "" || len(a.Next) == 0:
				t.Errorf("round %d: %v, %v", round, a.Refusal, a.Next)
			case i%2 == 0: // by which it is integrated when it is open again
				refused = i
			}
		}
		if done < 0 || s.row(t, w.ID).Handle().String() != next {
			t.Fatalf("round %d: %d succeeded, and it is %s", round, done, s.row(t, w.ID))
		}
		if done%2 == 0 {
			integrated++
		}
		again := call(refused, next)
		if !again.OK || again.Operation.Replayed || again.Operation.Attempts != 1 {
			t.Fatalf("round %d: an id that was refused: %+v, %v", round, again.Operation, again.Refusal)
		}
		handle = again.Handle
	}
	t.Logf("%d of %d rounds are those of an integration", integrated, rounds)
}

// TestRetireDirty: DW-9. What is only in a workspace is kept, and comes back as it was.
func TestRetireDirty(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
	w.write(t, "README.md", "mine\n")
	w.write(t, "new/run.sh", "#!/bin/sh\n")
	w.remove(t, "docs/guide.md")
	for _, err := range []error{
		os.Chmod(filepath.Join(w.Path, "new/run.sh"), 0o755), os.Mkdir(filepath.Join(w.Path, "empty"), 0o755), os.Symlink("README.md", filepath.Join(w.Path, "readme")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	refused(t, s.do(t, "remove_agent_workspace", `"handle":%q,"if_dirty":"refuse","operation_id":"remove-01"`, handle), workspace.WrongState, fault.AfterFix)
	gone := read[retired](t, s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-01"`, handle))
	if gone.Why != "preserved" || gone.Preserved == "" {
		t.Fatalf("%+v", gone)
	}
	again := read[openedWorkspace](t, s.do(t, "resume_workspace", `"ws":%q,"operation_id":"resume-01"`, gone.Preserved))
	if again.ID == w.ID {
		t.Error("a retired workspace is open again")
	}
	for name, want := range map[string]string{"README.md": "mine\n", "new/run.sh": "#!/bin/sh\n", "src/main.go": "package main\n"} {
		if got, err := os.ReadFile(filepath.Join(again.Path, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(again.Path, "new/run.sh")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("the program: %v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(again.Path, "empty")); err != nil || !info.IsDir() {
		t.Errorf("the empty directory: %v", err)
	}
	if to, err := os.Readlink(filepath.Join(again.Path, "readme")); err != nil || to != "README.md" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if _, err := os.Stat(filepath.Join(again.Path, "docs/guide.md")); err == nil {
		t.Error("what was deleted is back")
	}
}

// TestSuspendResume: DW-10. What others integrated meanwhile is told, and the own work is as it was.
func TestSuspendResume(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	w.write(t, "docs/mine.md", "mine\n")
	away := s.do(t, "suspend_workspace", `"handle":%q,"reason":"tomorrow","operation_id":"suspend-1"`, handle)
	if !away.OK || away.Handle != w.ID+"@2" {
		t.Fatalf("%+v %v", away, away.Refusal)
	}
	other, o := s.workspaceOf(t, "create-02", `"mutable":["docs"]`)
	o.write(t, "docs/guide.md", "changed\n")
	o.write(t, "docs/b.md", "b\n")
	o.write(t, "docs/c.md", "c\n")
	refused(t, s.do(t, "resume_workspace", `"ws":%q,"operation_id":"resume-01"`, w.ID), workspace.ScopeOverlap, fault.AfterWait)
	if a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-2"`, other); !a.OK {
		t.Fatal(a.Refusal)
	}
	back := s.do(t, "resume_workspace", `"ws":%q,"operation_id":"resume-01"`, w.ID)
	got := read[struct{ Moved []string }](t, back)
	if back.Handle != w.ID+"@3" || fmt.Sprint(got.Moved) != "[docs/b.md docs/c.md docs/guide.md]" {
		t.Errorf("%s, moved: %v", back.Handle, got.Moved)
	}
	status := read[workspaceShown](t, s.do(t, "workspace_status", `"handle":%q`, w.ID))
	if len(status.Superseded) != 1 || len(status.Changes) != 1 || status.Changes[0].Path != "docs/mine.md" {
		t.Errorf("%+v", status)
	}
}

// TestOneConflictOfMany: DW-42, and DW-43 for what was changed outside of the scope.
func TestOneConflictOfMany(t *testing.T) {
	s := newShop(t)
	for i := range 49 {
		s.save(t, fmt.Sprintf("docs/%02d.md", i), "old\n")
	}
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	for i := range 49 {
		w.write(t, fmt.Sprintf("docs/%02d.md", i), "new\n")
	}
	w.write(t, "docs/guide.md", "mine\n")
	w.write(t, "README.md", "outside\n")
	guide := filepath.Join(s.root, "docs/guide.md")
	if err := os.WriteFile(guide, []byte("theirs\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	project := func() map[string]string { // bytes and times of all of it
		all := files(t, s.root)
		for path := range all {
			info, err := os.Stat(filepath.Join(s.root, path))
			if err != nil {
				t.Fatal(err)
			}
			all[path] += info.ModTime().String()
		}
		return all
	}
	before := project()
	a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
	refused(t, a, workspace.OutOfScope, fault.AfterFix)
	if got := fmt.Sprint(a.Refusal.Details["paths"]); got != "[README.md]" {
		t.Errorf("outside: %s", got)
	}
	a = s.do(t, "integrate_agent_workspace", `"handle":%q,"preserve_out_of_scope":true,"operation_id":"integrate-1"`, handle)
	refused(t, a, workspace.Conflicts, fault.AfterFix)
	if len(before) < 50 || !maps.Equal(project(), before) {
		t.Errorf("of %d files some were touched", len(before))
	}
	conflicts := a.Refusal.Details["conflicts"].([]conflictShown)
	bundles, err := os.ReadDir(filepath.Join(w.Path, conflictsDir))
	if err != nil || len(conflicts) != 1 || conflicts[0].Path != "docs/guide.md" || len(bundles) != 1 {
		t.Fatalf("conflicts %+v, bundles %v, %v", conflicts, bundles, err)
	}
	for side, want := range map[string]string{"BASE": "guide\n", workspace.SideCurrent: "theirs\n", "PROPOSED": "mine\n"} {
		if got, err := os.ReadFile(filepath.Join(w.Path, conflicts[0].Bundle, side)); err != nil || string(got) != want {
			t.Errorf("%s of the bundle is %q, %v", side, got, err)
		}
	}
	seen := conflicts[0].Current
	w.write(t, "docs/guide.md", "both\n")
	got := read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"preserve_out_of_scope":true,"operation_id":"integrate-1","seen_current":{"docs/guide.md":%q}`, handle, seen))
	if len(got.Applied) != 50 || got.Preserved == "" || s.file(t, "docs/guide.md") != "both\n" || s.file(t, "README.md") != "one\ntwo\nthree\n" {
		t.Errorf("%d applied, %q kept", len(got.Applied), got.Preserved)
	}
	if kept, err := os.ReadFile(filepath.Join(s.state, "snapshots", got.Preserved, "tree/README.md")); err != nil || string(kept) != "outside\n" {
		t.Errorf("kept: %q, %v", kept, err)
	}
}

// TestAllowedOverlap: DW-47. The second of two gets both changes or a conflict, never the last word, and one who refuses overlap gets
// neither.
func TestAllowedOverlap(t *testing.T) {
	s := newShop(t)
	first, a := s.workspaceOf(t, "create-01", `"mutable":["README.md"],"on_overlap":"allow"`)
	second, b := s.workspaceOf(t, "create-02", `"mutable":["README.md"],"on_overlap":"allow"`)
	a.write(t, "README.md", "zero\none\ntwo\nthree\n")
	b.write(t, "README.md", "one\ntwo\nthree\nfour\n")
	for i, handle := range []string{first, second} {
		if got := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-%d"`, handle, i); !got.OK {
			t.Fatal(got.Refusal)
		}
		if i == 0 {
			refused(t, s.do(t, "create_agent_workspace", `"purpose":"third","mutable":["README.md"],"operation_id":"create-03"`), workspace.ScopeOverlap, fault.AfterWait)
		}
	}
	if got := s.file(t, "README.md"); got != "zero\none\ntwo\nthree\nfour\n" {
		t.Errorf("the project has %q", got)
	}
	one, c := s.workspaceOf(t, "create-04", `"mutable":["src"],"on_overlap":"allow"`)
	other, d := s.workspaceOf(t, "create-05", `"mutable":["src"],"on_overlap":"allow"`)
	c.write(t, "src/main.go", "package one\n")
	d.write(t, "src/main.go", "package other\n")
	if got := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-4"`, one); !got.OK {
		t.Fatal(got.Refusal)
	}
	refused(t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-5"`, other), workspace.Conflicts, fault.AfterFix)
	if got := s.file(t, "src/main.go"); got != "package one\n" {
		t.Errorf("the first has lost its bytes: the project has %q", got)
	}
}

// TestReconcile: what is unfinished is told, and nothing new is one line.
func TestReconcile(t *testing.T) {
	s := newShop(t)
	handle, _ := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	a := s.do(t, "reconcile_project_state", `"limit":5`)
	got := read[reconciled](t, a)
	if len(got.Workspaces) != 1 || got.Workspaces[0].Handle != handle || got.Authority != "canonical" {
		t.Errorf("%+v", got)
	}
	again := s.do(t, "reconcile_project_state", `"since":%q`, got.Cursor)
	raw, err := json.Marshal(again)
	if err != nil || len(raw) > 300 || !read[reconciled](t, again).Unchanged {
		t.Errorf("%d bytes: %s, %v", len(raw), raw, err)
	}
}

// TestAmendScope: a path that comes into the scope is claimed and integrated.
func TestAmendScope(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	a := s.do(t, "amend_workspace_scope", `"handle":%q,"add":["src"],"remove":["docs"],"operation_id":"amend-001"`, handle)
	if !a.OK || a.Handle != w.ID+"@2" {
		t.Fatalf("%+v %v", a, a.Refusal)
	}
	refused(t, s.do(t, "create_agent_workspace", `"purpose":"second","mutable":["src/main.go"],"operation_id":"create-02"`), workspace.ScopeOverlap, fault.AfterWait)
	if b := s.do(t, "create_agent_workspace", `"purpose":"second","mutable":["docs"],"operation_id":"create-02"`); !b.OK {
		t.Error(b.Refusal)
	}
	w.write(t, "src/main.go", "package other\n")
	if done := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, a.Handle); !done.OK || s.file(t, "src/main.go") != "package other\n" {
		t.Errorf("%+v", done.Refusal)
	}
}

// TestRebase: what the project changed meanwhile comes into a workspace that is resumed with rebase, merged with its own work; a
// conflict stays as it is, with its BASE, and is one when it is integrated. The
// scenario integrated of TestCrashPoints cuts it off.
func TestRebase(t *testing.T) {
	s := newShop(t)
	s.save(t, "docs/merged.md", "1\n2\n3\n4\n5\n")
	s.save(t, "docs/gone.md", "gone\n")
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	w.write(t, "docs/merged.md", "one\n2\n3\n4\n5\n")
	w.write(t, "docs/guide.md", "mine\n")
	w.write(t, "docs/mine.md", "mine\n")
	read[struct{}](t, s.do(t, "suspend_workspace", `"handle":%q,"reason":"tomorrow","operation_id":"suspend-1"`, handle))
	s.save(t, "docs/merged.md", "1\n2\n3\n4\nfive\n")
	s.save(t, "docs/guide.md", "theirs\n")
	s.save(t, "docs/new/deep.md", "new\n")
	if err := os.Remove(filepath.Join(s.root, "docs/gone.md")); err != nil {
		t.Fatal(err)
	}
	a := s.do(t, "resume_workspace", `"ws":%q,"rebase":true,"operation_id":"resume-01"`, w.ID)
	got := read[resumed](t, a)
	if fmt.Sprint(got.Taken) != "[docs/gone.md docs/merged.md docs/new docs/new/deep.md]" || len(got.Conflicts) != 1 || got.Conflicts[0].Path != "docs/guide.md" {
		t.Errorf("taken %v, conflicts %v", got.Taken, got.Conflicts)
	}
	for name, want := range map[string]string{"docs/merged.md": "one\n2\n3\n4\nfive\n", "docs/guide.md": "mine\n", "docs/mine.md": "mine\n", "docs/new/deep.md": "new\n"} {
		if raw, err := os.ReadFile(filepath.Join(w.Path, name)); err != nil || string(raw) != want {
			t.Errorf("%s is %q, %v", name, raw, err)
		}
	}
	if _, err := os.Stat(filepath.Join(w.Path, "docs/gone.md")); err == nil {
		t.Error("what the project removed is still there")
	}
	if left, err := os.ReadDir(filepath.Join(s.state, "txn")); err != nil || len(left) > 0 {
		t.Errorf("left in the staging area: %v, %v", left, err)
	}
	status := read[workspaceShown](t, s.do(t, "workspace_status", `"handle":%q`, w.ID))
	if len(status.Changes) != 3 || status.Changes[0].Path != "docs/guide.md" || status.Changes[0].Current == "" {
		t.Errorf("%+v", status.Changes)
	}
	refused(t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, a.Handle), workspace.Conflicts, fault.AfterFix)
	done := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1","seen_current":{"docs/guide.md":%q}`, a.Handle, got.Conflicts[0].Current)
	if !done.OK || s.file(t, "docs/merged.md") != "one\n2\n3\n4\nfive\n" || s.file(t, "docs/guide.md") != "mine\n" {
		t.Errorf("%+v", done.Refusal)
	}
}

// between lets something happen between the dispatch of a tool and its effect.
func (s *shop) between(tool string, wrap func(effect) effect) (again func()) {
	begin := s.tools[tool].begin
	s.tools[tool].begin = func(ctx context.Context, svc *Service, t *turn) (effect, error) {
		e, err := begin(ctx, svc, t)
		if err != nil {
			return nil, err
		}
		return wrap(e), nil
	}
	return func() { s.tools[tool].begin = begin }
}

// disturbed is a resumption during which something happens after it has read the project.
type disturbed struct {
	*resumption
	happens func()
}

func (d disturbed) stage(ctx context.Context) (any, error) {
	got, err := d.resumption.stage(ctx)
	d.happens()
	return got, err
}

// TestRebaseBesideIntegration: as TestCopyBesideIntegration, of a BASE that a rebase makes.
func TestRebaseBesideIntegration(t *testing.T) {
	s := newShop(t)
	_, first := s.workspaceOf(t, "create-01", `"mutable":["docs/guide.md"],"on_overlap":"allow"`)
	other := s.row(t, first.ID)
	put := func(state workspace.State) {
		t.Helper()
		other.State = state
		if err := s.db.Change(t.Context(), func(tx store.Tx) error { return tx.PutWorkspace(t.Context(), workspace.PutWorkspace{Workspace: other}) }); err != nil {
			t.Fatal(err)
		}
	}
	handle, w := s.workspaceOf(t, "create-02", `"mutable":["docs"],"on_overlap":"allow"`)
	read[struct{}](t, s.do(t, "suspend_workspace", `"handle":%q,"reason":"tomorrow","operation_id":"suspend-1"`, handle))
	s.save(t, "docs/guide.md", "theirs\n")
	base := s.row(t, w.ID).Base
	n := 0
	resume := func() operation.Answer {
		n++
		return s.do(t, "resume_workspace", `"ws":%q,"rebase":true,"operation_id":"resume-%02d"`, w.ID, n)
	}
	put(workspace.Integrating) // before it has read the project
	refused(t, resume(), workspace.MovedDuringCopy, fault.AfterWait)
	put(workspace.Open)
	again := s.between("resume_workspace", func(e effect) effect {
		return disturbed{e.(*resumption), func() { put(workspace.Integrating) }}
	})
	refused(t, resume(), workspace.MovedDuringCopy, fault.AfterWait)
	again()
	put(workspace.Open)
	if now := s.row(t, w.ID); now.State != workspace.Suspended || now.Base.Rev != base.Rev {
		t.Errorf("it is %s on BASE %d", now.State, now.Base.Rev)
	}
	if a := read[resumed](t, resume()); fmt.Sprint(a.Taken) != "[docs/guide.md]" {
		t.Errorf("afterwards: %v", a.Taken)
	}
}

// TestDW36InProgress: DW-36. A copy that takes longer than its caller waits is under way when that is answered, and goes on: the workspace
// is open when operation_status says that it has ended, and the same call has its answer.
func TestDW36InProgress(t *testing.T) {
	s := newShop(t)
	tool := s.tools["create_agent_workspace"]
	begin, staged, copied := tool.begin, make(chan struct{}), make(chan struct{})
	tool.wait = 1
	tool.begin = func(ctx context.Context, s *Service, t *turn) (effect, error) {
		e, err := begin(ctx, s, t)
		if err != nil {
			return nil, err
		}
		return meanwhile{e.(*creation), func() { close(staged); <-copied }}, nil
	}
	create := func() operation.Answer {
		return s.do(t, "create_agent_workspace", `"purpose":"much","mutable":["docs"],"operation_id":"create-01"`)
	}
	for range 2 { // the second one joins the first
		a := create()
		refused(t, a, operation.OperationInProgress, fault.AfterWait)
		if a.Status != operation.OutcomeInProgress || len(a.Next) == 0 || a.Next[0].Tool != "operation_status" {
			t.Errorf("%s, %+v", a.Status, a.Next)
		}
	}
	<-staged // its callers may be answered before it has claimed anything
	if list := read[reconciled](t, s.do(t, "reconcile_project_state", `"limit":5`)); len(list.Workspaces) != 1 || list.Workspaces[0].State != workspace.Creating {
		t.Errorf("meanwhile: %+v", list.Workspaces)
	}
	close(copied)
	if a := s.do(t, "operation_status", `"operation_id":"create-01","wait_ms":20000`); !a.OK || !strings.Contains(string(a.Data), string(operation.Succeeded)) {
		t.Errorf("its end: %s, %v", a.Data, a.Refusal)
	}
	again := create()
	if w := read[openedWorkspace](t, again); !again.Operation.Replayed || s.row(t, w.ID).State != workspace.Open {
		t.Errorf("%+v, %s", again.Operation, s.row(t, w.ID))
	}
}

// TestDW36Canceled: DW-36, but for its size: the caller of a large copy leaves half-way. What was copied is in quarantine, no workspace is open, and
// the scope is free for the next one, which is whole. MCPX_TEST_FULL makes it 200,000 files.
func TestDW36Canceled(t *testing.T) {
	files := 600
	if os.Getenv("MCPX_TEST_FULL") != "" {
		files = 200_000
	}
	s := newShop(t)
	for i := range files {
		s.save(t, fmt.Sprintf("many/d%03d/f%05d", i/100, i), strings.Repeat("x", 4096))
	}
	ctx, leave := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() { // until half of it is there
		defer close(watched)
		for ctx.Err() == nil {
			found, err := filepath.Glob(filepath.Join(s.state, "workspaces/*/tree/many/*/*"))
			if err != nil || len(found) >= files/2 {
				leave()
			}
		}
	}()
	args := fmt.Sprintf(`{"remote_session_id":%q,"purpose":"many","mutable":["many"],"operation_id":"create-01"}`, s.session)
	left := s.Do(ctx, Call{Tool: "create_agent_workspace", Args: []byte(args), Principal: "owner"})
	leave()
	<-watched
	if left.OK {
		t.Skip("skip: the copy was complete before its caller left") // a machine on which nothing can be seen half-way
	}
	var a operation.Answer
	for range 100 { // the copy that was left ends by itself
		a = s.do(t, "create_agent_workspace", `"purpose":"many","mutable":["many"],"operation_id":"create-01"`)
		if a.Refusal == nil || a.Refusal.Code != operation.OperationInProgress {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	w := read[openedWorkspace](t, a)
	list := read[reconciled](t, s.do(t, "reconcile_project_state", `"limit":10`))
	if len(list.Workspaces) != 1 || len(list.Quarantine) != 1 {
		t.Errorf("%+v", list)
	}
	if found, err := filepath.Glob(filepath.Join(w.Path, "many/*/*")); err != nil || len(found) != files {
		t.Errorf("%d files, %v", len(found), err)
	}
	if found, err := filepath.Glob(filepath.Join(s.state, "quarantine/*/tree/many/*/*")); err != nil || len(found) == 0 {
		t.Errorf("%d files in quarantine, %v", len(found), err)
	}
}

// meanwhile is a workspace that is made, and what happens once its copy is complete.
type meanwhile struct {
	*creation
	happens func()
}

func (m meanwhile) stage(ctx context.Context) (any, error) {
	got, err := m.creation.stage(ctx)
	m.happens()
	return got, err
}

// TestCopyBesideIntegration: DW-34, of our own changes. While a workspace comes into its project, or into one that the project holds, no
// other one is made with a part of that in its BASE, whether that began before the copy or during it.
func TestCopyBesideIntegration(t *testing.T) {
	s := newShop(t)
	s.project(t, "docs", filepath.Join(s.root, "docs"))
	s.project(t, "src", filepath.Join(s.root, "src"))
	first := s.call(t, "create_agent_workspace", `{"project":"docs","purpose":"one","mutable":["guide.md"],"operation_id":"create-01"}`)
	w := s.row(t, read[openedWorkspace](t, first).ID)
	put := func(state workspace.State) {
		t.Helper()
		w.State = state
		if err := s.db.Change(t.Context(), func(tx store.Tx) error { return tx.PutWorkspace(t.Context(), workspace.PutWorkspace{Workspace: w}) }); err != nil {
			t.Fatal(err)
		}
	}
	n := 1
	create := func(project, mutable string) operation.Answer {
		n++
		return s.call(t, "create_agent_workspace", `{"project":%q,"purpose":"work %d","mutable":[%q],"operation_id":"create-%02d"}`, project, n, mutable, n)
	}
	put(workspace.Integrating)
	a := create("shop", "README.md")
	refused(t, a, workspace.MovedDuringCopy, fault.AfterWait)
	if a.Refusal != nil && a.Refusal.Details["workspace_id"] != w.ID {
		t.Errorf("it names %v", a.Refusal.Details)
	}
	if beside := create("src", "main.go"); !beside.OK {
		t.Errorf("a project beside it: %v", beside.Refusal)
	}
	put(workspace.Open)
	tool := s.tools["create_agent_workspace"]
	begin, happens := tool.begin, func() { put(workspace.Integrating) }
	tool.begin = func(ctx context.Context, s *Service, t *turn) (effect, error) {
		e, err := begin(ctx, s, t)
		if err != nil {
			return nil, err
		}
		return meanwhile{e.(*creation), happens}, nil
	}
	refused(t, create("shop", "README.md"), workspace.MovedDuringCopy, fault.AfterWait)
	put(workspace.Open)
	happens = func() {}
	if free := create("shop", "README.md"); !free.OK {
		t.Errorf("afterwards: %v", free.Refusal)
	}
}
