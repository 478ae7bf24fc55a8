//go:build unix

package work

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// killed is an effect whose daemon ends when it was dispatched.
type killed struct {
	effect
	keeper
}

func (killed) run(context.Context) (any, error) { return nil, undecided(errors.New("the daemon ends")) }

func (s *shop) amend(t *testing.T, handle, id string) operation.Answer {
	t.Helper()
	return s.do(t, "amend_workspace_scope", `"handle":%q,"add":["docs"],"remove":["src"],"operation_id":%q`, handle, id)
}

// TestAmendClaims: what an amendment claims is claimed when it is dispatched: who wants it between that and the record is refused.
func TestAmendClaims(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["src"]`)
	var other operation.Answer
	s.between("amend_workspace_scope", func(e effect) effect {
		return cut{e, e.(keeper), func() {
			other = s.do(t, "create_agent_workspace", `"purpose":"meanwhile","mutable":["docs"],"operation_id":"create-02"`)
		}}
	})
	a := s.amend(t, handle, "amend-001")
	if !a.OK || a.Handle != w.ID+"@2" || fmt.Sprint(scopePaths(s.row(t, w.ID))) != "[docs]" {
		t.Errorf("%+v %v, %v", a, a.Refusal, scopePaths(s.row(t, w.ID)))
	}
	refused(t, other, workspace.ScopeOverlap, fault.AfterWait)
}

// TestAmendKilled: an amendment that was dispatched is carried to its end by the next daemon, and the same call has its answer.
func TestAmendKilled(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["src"]`)
	again := s.between("amend_workspace_scope", func(e effect) effect { return killed{e, e.(keeper)} })
	if a := s.amend(t, handle, "amend-001"); a.Status != operation.OutcomeInProgress {
		t.Fatalf("%+v", a)
	}
	again()
	s.next(t)
	a := s.amend(t, handle, "amend-001")
	if !a.OK || !a.Operation.Recovered || a.Handle != w.ID+"@2" || fmt.Sprint(scopePaths(s.row(t, w.ID))) != "[docs]" {
		t.Errorf("%+v %v, %v", a, a.Refusal, scopePaths(s.row(t, w.ID)))
	}
	if free := s.do(t, "create_agent_workspace", `"purpose":"the rest","mutable":["src"],"operation_id":"create-02"`); !free.OK {
		t.Errorf("what was given up: %v", free.Refusal)
	}
}

// TestRefusedRecord: an operation whose rows take it no more ends: a change of rows alone has failed, and of one that changed files
// nobody says that it did nothing.
func TestRefusedRecord(t *testing.T) {
	for tool, want := range map[string]operation.State{"amend_workspace_scope": operation.Failed, integrateTool: operation.Unknown} {
		t.Run(tool, func(t *testing.T) {
			s := newShop(t)
			handle, w := s.workspaceOf(t, "create-01", `"mutable":["src"]`)
			w.write(t, "src/new.go", "package new\n")
			s.between(tool, func(e effect) effect {
				return cut{e, e.(keeper), func() {
					err := s.db.Change(t.Context(), func(tx store.Tx) error {
						row, err := tx.WorkspaceByID(t.Context(), workspace.ByID{ID: w.ID})
						row.State = workspace.Quarantined
						return errors.Join(err, tx.PutWorkspace(t.Context(), workspace.PutWorkspace{Workspace: row}))
					})
					if err != nil {
						t.Error(err)
					}
				}}
			})
			call := func() operation.Answer {
				if tool == integrateTool {
					return s.do(t, tool, `"handle":%q,"operation_id":"op-000001"`, handle)
				}
				return s.amend(t, handle, "op-000001")
			}
			if a := call(); a.Refusal == nil || a.Operation == nil || a.Operation.State != want {
				t.Errorf("%+v %v", a, a.Refusal)
			}
			if o := s.operations(t)[0]; o.ID != "op-000001" || o.State != want || o.Code == "" {
				t.Errorf("%+v", o)
			}
			if scope := fmt.Sprint(scopePaths(s.row(t, w.ID))); scope != "[src]" {
				t.Errorf("the scope is %s", scope)
			}
		})
	}
}

// TestAmendKeepsBase: what comes into the scope as BASE has it is merged later, and what had changed already is a conflict.
func TestAmendKeepsBase(t *testing.T) {
	s := newShop(t)
	for _, name := range []string{"src/kept.txt", "src/changed.txt"} {
		s.save(t, name, "1\n2\n3\n4\n5\n"+name)
	}
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	w.write(t, "src/changed.txt", "one\n2\n3\n4\n5\nsrc/changed.txt")
	w.remove(t, "src/main.go")
	a := s.do(t, "amend_workspace_scope", `"handle":%q,"add":["src"],"operation_id":"amend-001"`, handle)
	if !a.OK {
		t.Fatal(a.Refusal)
	}
	w.write(t, "src/kept.txt", "one\n2\n3\n4\n5\nsrc/kept.txt")
	for _, name := range []string{"src/kept.txt", "src/changed.txt"} {
		s.save(t, name, "1\n2\n3\n4\nfive\n"+name)
	}
	plan := read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"mode":"plan"`, a.Handle))
	if fmt.Sprint(plan.Merged) != "[src/kept.txt]" || len(plan.Conflicts) != 1 || plan.Conflicts[0].Path != "src/changed.txt" || len(plan.Applied) != 2 {
		t.Errorf("%+v", plan)
	}
}
