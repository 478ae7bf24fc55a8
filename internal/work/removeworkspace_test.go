//go:build linux || darwin

package work

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/workspace"
)

// TestRT74InWorkspace: RT-74. In a workspace a removal asks nobody, moves what was prepared and nothing else, comes back, and
// leaves the files of the project as they are until an integration deletes them there.
func TestRT74InWorkspace(t *testing.T) {
	s := newHeap(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
	project, before := snapshot(t, s.root), snapshot(t, w.Path)
	hash := digest([]byte("old\n"))
	prepare := func(id string) operation.Answer {
		return s.do(t, "remove_files", `"operation_id":%q,"handle":%q,"action":"prepare","targets":[{"path":"old"},{"path":"old.txt","expect_sha256":%q}]`, id, handle, hash)
	}
	asked := prepare("prepare-1")
	p := read[prepared](t, asked)
	if p.Waiting != nil || len(asked.Next) != 1 || asked.Next[0].Args["action"] != "submit" || p.Files != 3 {
		t.Fatalf("%+v, next %+v", p, asked.Next)
	}
	same(t, "prepared", snapshot(t, w.Path), before)

	w.write(t, "old/new.txt", "new\n")
	refused(t, s.submit(t, "submit-0", p.Manifest), "MANIFEST_CHANGED", fault.AfterFix)
	w.remove(t, "old/new.txt")
	done := s.submit(t, "submit-1", p.Manifest)
	r := read[removed](t, done)
	if r.Moved != 2 || !r.Restorable || done.Handle != w.ID+"@2" {
		t.Errorf("%+v of %s", r, done.Handle)
	}
	same(t, "the project", snapshot(t, s.root), project)
	for name := range snapshot(t, w.Path) {
		if strings.HasPrefix(name, "old") {
			t.Errorf("%s is still in the workspace", name)
		}
	}
	if again := s.submit(t, "submit-1", p.Manifest); !again.Operation.Replayed || string(again.Data) != string(done.Data) {
		t.Errorf("a retry: %+v", again)
	}
	refused(t, s.submit(t, "submit-2", p.Manifest), "MANIFEST_CHANGED", fault.AfterFix)
	if n := len(s.approvals(t)) + len(s.events(t, string(event.ApprovalRequested))); n != 0 {
		t.Errorf("%d questions", n)
	}
	status := read[removalStatus](t, s.do(t, "remove_files", `"action":"status","manifest_id":%q`, p.Manifest))
	if status.Operation != "submit-1" || !status.Restorable || len(status.Items) != 2 || status.Approval != "" {
		t.Errorf("%+v", status)
	}

	back := s.do(t, "remove_files", `"operation_id":"restore-1","action":"restore","manifest_id":%q`, p.Manifest)
	if got := read[restored](t, back); len(got.Restored) != 2 || len(got.Skipped) != 0 || back.Handle != w.ID+"@3" {
		t.Errorf("%+v of %s", got, back.Handle)
	}
	same(t, "restored", snapshot(t, w.Path), before)
	same(t, "the project", snapshot(t, s.root), project)

	last := s.submit(t, "submit-3", p.Manifest) // as often as it is there
	if read[removed](t, last).Moved != 2 {
		t.Errorf("%+v", last)
	}
	status = read[removalStatus](t, s.do(t, "remove_files", `"action":"status","manifest_id":%q`, p.Manifest))
	if status.Operation != "submit-3" {
		t.Errorf("%+v", status)
	}
	if got := read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, last.Handle)); len(got.Applied) == 0 {
		t.Errorf("%+v", got)
	}
	if _, err := os.Lstat(filepath.Join(s.root, "old.txt")); !os.IsNotExist(err) {
		t.Errorf("old.txt is in the project after the integration: %v", err)
	}
}

// A manifest is of one workspace: the project, another workspace, and one that is gone have no part in it.
func TestRemovalIsOfOneWorkspace(t *testing.T) {
	s := newHeap(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["src"]`)
	_, other := s.workspaceOf(t, "create-02", `"mutable":["docs"]`)
	target := `"action":"prepare","targets":[{"path":"old.txt","expect_sha256":"` + digest([]byte("old\n")) + `"}]`
	mine := read[prepared](t, s.do(t, "remove_files", `"operation_id":"prepare-1","handle":%q,%s`, handle, target))
	theirs := read[prepared](t, s.do(t, "remove_files", `"operation_id":"prepare-2",%s`, target))
	if mine.Manifest == theirs.Manifest || theirs.Waiting == nil {
		t.Errorf("%+v and %+v", mine, theirs)
	}
	before := snapshot(t, s.root)
	for i, c := range []struct{ manifest, handle string }{{theirs.Manifest, w.ID}, {mine.Manifest, other.ID}} {
		refused(t, s.do(t, "remove_files", `"operation_id":"submit-0%d","action":"submit","manifest_id":%q,"handle":%q`, i, c.manifest, c.handle), operation.ArgumentInvalid, fault.AfterFix)
	}
	if a := s.submit(t, "submit-10", theirs.Manifest); a.Status != operation.OutcomeWaiting {
		t.Errorf("of the project itself: %+v (%v)", a, a.Refusal)
	}
	w.write(t, ".env", "x")
	refused(t, s.do(t, "remove_files", `"operation_id":"prepare-3","handle":%q,"action":"prepare","targets":[{"path":".env","expect_sha256":"x"}]`, handle), "FILE_DENIED", fault.Never)
	same(t, "the project", snapshot(t, s.root), before)
	gone := s.submit(t, "submit-11", mine.Manifest)
	read[removed](t, gone)
	read[retired](t, s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"retire-01"`, gone.Handle))
	if status := read[removalStatus](t, s.do(t, "remove_files", `"action":"status","manifest_id":%q`, mine.Manifest)); status.Restorable || status.Operation != "submit-11" {
		t.Errorf("after the workspace: %+v", status)
	}
	refused(t, s.do(t, "remove_files", `"operation_id":"restore-1","action":"restore","manifest_id":%q`, mine.Manifest), workspace.WrongState, fault.AfterFix)
}

// A removal in a workspace that a daemon had begun is carried to its end by the next one, and so is one that is taken back.
func TestRemovalInWorkspaceGoesOn(t *testing.T) {
	s := newHeap(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
	project, before := snapshot(t, s.root), snapshot(t, w.Path)
	p := read[prepared](t, s.do(t, "remove_files", `"operation_id":"prepare-1","handle":%q,"action":"prepare","targets":[{"path":"old"}]`, handle))
	txn := filepath.Join(s.state, "txn")
	begin := s.tools["remove_files"].begin
	s.tools["remove_files"].begin = func(ctx context.Context, svc *Service, t2 *turn) (effect, error) {
		e, err := begin(ctx, svc, t2)
		if err != nil {
			return nil, err
		}
		return cut{e, e.(keeper), func() {
			if err := os.Rename(txn, txn+".away"); err != nil {
				t.Error(err)
			}
			plant(t, map[string]string{txn: "in the way"})
		}}, nil
	}
	if a := s.submit(t, "submit-1", p.Manifest); a.Status != operation.OutcomeInProgress {
		t.Fatalf("%+v (%v)", a, a.Refusal)
	}
	same(t, "cut off", snapshot(t, w.Path), before)
	if err := os.Remove(txn); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(txn+".away", txn); err != nil {
		t.Fatal(err)
	}
	s.next(t)
	if a := s.submit(t, "submit-1", p.Manifest); !a.OK || !a.Operation.Recovered || a.Handle != w.ID+"@2" {
		t.Errorf("%+v (%v)", a, a.Refusal)
	}
	if _, err := os.Lstat(filepath.Join(w.Path, "old")); !os.IsNotExist(err) {
		t.Errorf("old is there: %v", err)
	}
	read[restored](t, s.do(t, "remove_files", `"operation_id":"restore-1","action":"restore","manifest_id":%q`, p.Manifest))
	same(t, "restored", snapshot(t, w.Path), before)
	same(t, "the project", snapshot(t, s.root), project)
}

// TestRemoveAgain: what was restored is removed again by the calls that are proposed.
func TestRemoveAgain(t *testing.T) {
	s := newHeap(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
	for _, id := range []string{"prepare-1", "prepare-2"} {
		a := s.do(t, "remove_files", `"operation_id":%q,"handle":%q,"action":"prepare","targets":[{"path":"old"}]`, id, handle)
		p := read[prepared](t, a)
		raw, err := json.Marshal(a.Next[0].Args)
		if err != nil {
			t.Fatal(err)
		}
		read[removed](t, s.call(t, a.Next[0].Tool, "%s", raw))
		if _, err := os.Stat(filepath.Join(w.Path, "old")); err == nil {
			t.Fatalf("%s: it is still there", id)
		}
		read[restored](t, s.do(t, "remove_files", `"operation_id":"restore-%s","action":"restore","manifest_id":%q`, id, p.Manifest))
	}
}
