//go:build unix

package work

import (
	"encoding/json"
	"fmt"
	"testing"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// TestForPerson: the person who owns the daemon sees and moves the workspaces of everybody, and all of what was done in them,
// also when agents have none of these tools; an agent of theirs does not. The record names the person.
func TestForPerson(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["src"]`)
	for i := range maxChanges + 1 {
		w.write(t, fmt.Sprintf("src/many/%d.go", i), "package many\n")
	}
	one := s.row(t, w.ID)
	one.Principal = "ann"
	if err := s.cfg.DB.Change(t.Context(), func(tx store.Tx) error { return tx.PutWorkspace(t.Context(), workspace.PutWorkspace{Workspace: one}) }); err != nil {
		t.Fatal(err)
	}
	refused(t, s.do(t, "workspace_status", `"handle":%q`, handle), operation.NotFound, fault.AfterFix)
	s.cfg.Disabled = append(s.cfg.Disabled, SetWork)
	if got := s.Look(t.Context(), one); got.Dirty != workspace.Dirty {
		t.Errorf("dirty: %+v", got)
	}
	by := event.Actor{Principal: session.Operator, Channel: "cli"}
	shown := read[workspaceShown](t, s.ForPerson(t.Context(), by, "workspace_status", json.RawMessage(fmt.Sprintf(`{"handle":%q}`, handle))))
	if len(shown.Changes) <= maxChanges || shown.More != 0 {
		t.Errorf("%d changes are shown, %d are not", len(shown.Changes), shown.More)
	}
	a := s.ForPerson(t.Context(), by, "suspend_workspace", json.RawMessage(fmt.Sprintf(`{"handle":%q,"reason":"a release","operation_id":"suspend-01"}`, handle)))
	if now := s.row(t, w.ID); !a.OK || now.State != workspace.Suspended || now.Principal != "ann" {
		t.Errorf("suspended: %+v, %v", a.Refusal, now)
	}
	told := s.events(t, string(event.WorkspaceSuspended))
	if len(told) != 1 || told[0].Actor.Principal != session.Operator || told[0].Actor.Channel != "cli" {
		t.Errorf("the record: %+v", told)
	}
	refused(t, s.do(t, "workspace_status", `"handle":%q`, handle), operation.ToolDisabled, fault.Never)
}

// TestJobForPerson: the person who owns the daemon ends the commands of everybody, also when agents have no commands; another
// principal is told that there is none.
func TestJobForPerson(t *testing.T) {
	b := newBench(t)
	job := read[startedJob](t, b.run(t, "start_command", `"argv":["sleep","300"]`)).Job
	b.until(t, job, "its start", func(s jobShown) bool { return s.State == operation.JobRunning })
	args := json.RawMessage(fmt.Sprintf(`{"job_id":%q,"operation_id":"stop-00001"}`, job))
	stop := func() operation.Answer {
		return b.ForPerson(t.Context(), event.Actor{Principal: "the owner", Channel: "cli"}, "stop_command", args)
	}
	refused(t, b.Do(t.Context(), Call{Tool: "stop_command", Args: args, Principal: "ann"}), operation.NotFound, fault.AfterFix)
	b.cfg.Disabled = append(b.cfg.Disabled, SetCommands)
	if s := read[jobShown](t, stop()); s.State != operation.JobKilled {
		t.Errorf("stopped: %+v", s)
	}
	told := b.events(t, string(event.JobStopped))
	if len(told) != 1 || told[0].Actor.Principal != "the owner" || told[0].Actor.Channel != "cli" {
		t.Errorf("the record: %+v", told)
	}
	if again := stop(); !again.OK || !again.Operation.Replayed {
		t.Errorf("again: %+v", again)
	}
}
