package work

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// seen is all that the project has, but for its repository: kind and permissions of each path, with its bytes.
func (s *shop) seen(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(s.root, func(path string, e os.DirEntry, err error) error {
		if err != nil || path == s.root {
			return err
		}
		if e.Name() == ".git" {
			return filepath.SkipDir
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var raw []byte
		switch {
		case e.Type().IsRegular():
			raw, err = os.ReadFile(path)
		case e.Type()&os.ModeSymlink != 0:
			to, _ := os.Readlink(path) // it was a link right now
			raw = []byte(to)
		}
		all[strings.TrimPrefix(path, s.root+"/")] = fmt.Sprintf("%s %s", info.Mode(), raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// integratedShop is a workspace whose changes, one of each kind, are in the project, which was before as is said.
func integratedShop(t *testing.T, more string) (s *shop, w openedWorkspace, handle, id string, before map[string]string) {
	t.Helper()
	s = newShop(t)
	plant(t, map[string]string{filepath.Join(s.root, "run.sh"): "#!/bin/sh\n", filepath.Join(s.root, "turned/inside.txt"): "inside\n"})
	before = s.seen(t)
	handle, w = s.workspaceOf(t, "create-01", `"mutable":["."]`)
	w.write(t, "README.md", "one\n2\nthree\n")
	w.write(t, "src/new/a.go", "package a\n")
	w.remove(t, "docs")
	w.remove(t, "turned")
	w.write(t, "turned", "a file now\n")
	if err := os.Chmod(filepath.Join(w.Path, "run.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`+more, handle)
	return s, w, a.Handle, read[integrated](t, a).ID, before
}

func (s *shop) undo(t *testing.T, handle, id string) operation.Answer {
	t.Helper()
	return s.do(t, "integrate_agent_workspace", `"handle":%q,"mode":"undo","operation_id":%q`, handle, id)
}

func (s *shop) row(t *testing.T, id string) (w workspace.Workspace) {
	t.Helper()
	err := s.db.View(t.Context(), func(r store.Reader) (err error) {
		w, err = r.WorkspaceByID(t.Context(), workspace.ByID{ID: id})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestUndo: the project is what it was, to the permissions, the work is in its workspace as if it had never been integrated, and goes
// into the project again. The second call of one id does nothing.
func TestUndo(t *testing.T) {
	s, w, handle, id, before := integratedShop(t, "")
	after := s.seen(t)
	done := s.undo(t, handle, "undo-0001")
	got := read[integrated](t, done)
	if now := s.seen(t); !maps.Equal(now, before) {
		t.Errorf("the project has %q\nit had %q", now, before)
	}
	if got.Undone != id || got.ID == "" || got.ID == id || len(got.Applied) == 0 {
		t.Errorf("%+v", got)
	}
	if row := s.row(t, w.ID); row.State != workspace.Open || done.Handle != row.Handle().String() {
		t.Errorf("%s, %s", row.State, done.Handle)
	}
	status := read[workspaceShown](t, s.do(t, "workspace_status", `"handle":%q`, w.ID))
	if status.Dirty != "yes" || len(status.Superseded) != 0 {
		t.Errorf("%+v", status)
	}
	if again := s.undo(t, handle, "undo-0001"); !again.Operation.Replayed {
		t.Errorf("repeated: %+v", again)
	}
	refused(t, s.undo(t, done.Handle, "undo-0002"), workspace.WrongState, fault.AfterFix)
	if a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-2"`, done.Handle); !a.OK || !maps.Equal(s.seen(t), after) {
		t.Errorf("integrated again: %v, %q", a.Refusal, s.seen(t))
	}
}

// TestUndoKeepsLater: whoever has changed one of the paths since keeps that, and all of the integration stays.
func TestUndoKeepsLater(t *testing.T) {
	s, w, handle, _, _ := integratedShop(t, "")
	if err := os.WriteFile(filepath.Join(s.root, "README.md"), []byte("mine, later\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	later := s.seen(t)
	a := s.undo(t, handle, "undo-0001")
	refused(t, a, workspace.CanonicalMoved, fault.AfterFix)
	if got := fmt.Sprint(a.Refusal.Details["paths"]); got != "[README.md]" {
		t.Errorf("moved: %s", got)
	}
	if now := s.seen(t); !maps.Equal(now, later) {
		t.Errorf("the project has %q\nit had %q", now, later)
	}
	if row := s.row(t, w.ID); row.State != workspace.Integrated || row.Handle().String() != handle {
		t.Errorf("%s", row)
	}
}

// TestUndoInOrder: integrations are taken back one after the other, the last one first, and the work that was done since stays.
func TestUndoInOrder(t *testing.T) {
	s, w, handle, _, before := integratedShop(t, `,"keep_open":true`)
	first := s.seen(t)
	w.write(t, "README.md", "one\n2\n3\n")
	a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-2","keep_open":true`, handle)
	w.write(t, "later.txt", "later\n")
	a = s.undo(t, a.Handle, "undo-0001")
	if now := s.seen(t); !a.OK || !maps.Equal(now, first) {
		t.Fatalf("the second: %v, %q", a.Refusal, now)
	}
	a = s.undo(t, a.Handle, "undo-0002")
	if now := s.seen(t); !a.OK || !maps.Equal(now, before) {
		t.Fatalf("the first: %v, %q", a.Refusal, now)
	}
	a = s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-3"`, a.Handle)
	if !a.OK || s.file(t, "README.md") != "one\n2\n3\n" || s.file(t, "later.txt") != "later\n" || s.file(t, "src/new/a.go") != "package a\n" {
		t.Errorf("all of it: %v, %q", a.Refusal, s.seen(t))
	}
}

// TestUndoRebased: what is taken back is the workspace's own change again, also when its BASE has moved since; what the project did
// is none.
func TestUndoRebased(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
	w.write(t, "README.md", "mine\n")
	w.write(t, "new.md", "new\n")
	w.remove(t, "docs/guide.md")
	before := s.seen(t)
	a := s.do(t, "integrate_agent_workspace", `"handle":%q,"keep_open":true,"operation_id":"integrate-1"`, handle)
	a = s.do(t, "suspend_workspace", `"handle":%q,"reason":"later","operation_id":"suspend-1"`, a.Handle)
	s.save(t, "src/main.go", "package theirs\n")
	a = s.do(t, "resume_workspace", `"ws":%q,"rebase":true,"operation_id":"resume-01"`, w.ID)
	if a = s.undo(t, a.Handle, "undo-0001"); !a.OK {
		t.Fatal(a.Refusal)
	}
	before["src/main.go"] = strings.Replace(before["src/main.go"], "package main", "package theirs", 1)
	if now := s.seen(t); !maps.Equal(now, before) {
		t.Errorf("the project has %q, want %q", now, before)
	}
	var changed []string
	for _, c := range read[workspaceShown](t, s.do(t, "workspace_status", `"handle":%q`, w.ID)).Changes {
		changed = append(changed, c.Path)
	}
	if got := fmt.Sprint(changed); got != "[README.md docs/guide.md new.md]" {
		t.Errorf("changed: %s", got)
	}
	s.save(t, "README.md", "zero\n") // with the bytes of BASE it is seen that both have changed it
	refused(t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-2"`, a.Handle), workspace.Conflicts, fault.AfterFix)
	s.save(t, "README.md", "one\ntwo\nthree\n")
	if a = s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-3"`, a.Handle); !a.OK || s.file(t, "README.md") != "mine\n" || s.file(t, "new.md") != "new\n" {
		t.Errorf("integrated again: %v", a.Refusal)
	}
}

// TestUndoRetired: also when the workspace is removed. It stays so, and the bytes are kept.
func TestUndoRetired(t *testing.T) {
	s, w, handle, _, before := integratedShop(t, "")
	gone := s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-01"`, handle)
	a := s.undo(t, gone.Handle, "undo-0001")
	if now := s.seen(t); !a.OK || !maps.Equal(now, before) {
		t.Errorf("%v, %q", a.Refusal, now)
	}
	if row := s.row(t, w.ID); row.State != workspace.Retired {
		t.Errorf("%s", row)
	}
	kept := false
	err := filepath.WalkDir(filepath.Join(s.state, "trash"), func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && !strings.Contains(path, w.ID) {
			raw, err := os.ReadFile(path)
			kept = kept || string(raw) == "package a\n"
			return err
		}
		return err
	})
	if err != nil || !kept {
		t.Errorf("what was taken out of the project is not kept: %v", err)
	}
}

// TestUndoRetiredResumed: the work of a workspace that was removed after its integrations comes back when they are taken back, from
// its directory in the trash, or from its snapshot when that is cleared.
func TestUndoRetiredResumed(t *testing.T) {
	for name, dirty := range map[string]bool{"clean": false, "preserved": true} {
		t.Run(name, func(t *testing.T) {
			s, w, handle, _, before := integratedShop(t, `,"keep_open":true`)
			w.write(t, "README.md", "one\n2\n3\n")
			a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-2","keep_open":true`, handle)
			if dirty {
				w.write(t, "later.txt", "later\n")
			}
			after := s.seen(t)
			a = s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-01"`, a.Handle)
			if got := read[retired](t, a); got.Why != name {
				t.Fatalf("%+v", got)
			}
			if dirty {
				if err := os.RemoveAll(s.row(t, w.ID).Dir); err != nil {
					t.Fatal(err)
				}
			}
			a = s.undo(t, a.Handle, "undo-0001")
			a = s.undo(t, a.Handle, "undo-0002")
			if now := s.seen(t); !a.OK || !maps.Equal(now, before) {
				t.Fatalf("%v, %q", a.Refusal, now)
			}
			again := s.do(t, "resume_workspace", `"ws":%q,"operation_id":"resume-01"`, read[integrated](t, a).Preserved)
			read[openedWorkspace](t, again)
			if a = s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-3"`, again.Handle); !a.OK {
				t.Fatal(a.Refusal)
			}
			now := s.seen(t)
			if _, ok := now["later.txt"]; ok != dirty {
				t.Errorf("the work that was never integrated: %v", ok)
			}
			delete(now, "later.txt")
			if !maps.Equal(now, after) {
				t.Errorf("integrated again: %q\nit was %q", now, after)
			}
		})
	}
}

// TestUndoClaimed: who has claimed the scope meanwhile is named, and nothing is taken back under them.
func TestUndoClaimed(t *testing.T) {
	s, w, handle, _, _ := integratedShop(t, "")
	after := s.seen(t)
	_, other := s.workspaceOf(t, "create-02", `"mutable":["src"]`)
	a := s.undo(t, handle, "undo-0001")
	refused(t, a, workspace.ScopeOverlap, fault.AfterWait)
	if !strings.Contains(fmt.Sprint(a.Refusal.Details), other.ID) || !maps.Equal(s.seen(t), after) || s.row(t, w.ID).State != workspace.Integrated {
		t.Errorf("%v", a.Refusal)
	}
}

// TestUndoRefuses: what cannot be taken back is said.
func TestUndoRefuses(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
	refused(t, s.undo(t, handle, "undo-0001"), workspace.WrongState, fault.AfterFix)
	refused(t, s.do(t, "integrate_agent_workspace", `"handle":%q,"mode":"undo","keep_open":true,"operation_id":"undo-0002"`, handle), operation.ArgumentInvalid, fault.AfterFix)
	w.write(t, "README.md", "changed\n")
	a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
	by := operation.ByName{Name: operation.Name{Namespace: s.row(t, w.ID).Principal, ID: "integrate-1"}}
	err := s.db.Change(t.Context(), func(tx store.Tx) error {
		o, err := tx.OperationByName(t.Context(), by)
		o.Purged = time.Unix(1, 0)
		if err != nil {
			return err
		}
		return tx.PutOperation(t.Context(), operation.PutOperation{Operation: o})
	})
	if err != nil {
		t.Fatal(err)
	}
	refused(t, s.undo(t, a.Handle, "undo-0003"), operation.ResultExpired, fault.Never)
}

// TestUndoDisputed: of an undo that was contested somebody says whether the work is in the project or in its workspace; that is
// recorded also when the workspace is removed.
func TestUndoDisputed(t *testing.T) {
	for _, c := range []struct {
		verdict       string
		stands, after workspace.State
	}{
		{"done", workspace.Attention, workspace.Open},
		{"not_done", workspace.Attention, workspace.Integrated},
		{"abandon", workspace.Attention, workspace.Integrated},
		{"done", workspace.Retired, workspace.Retired},
		{"not_done", workspace.Retired, workspace.Retired},
	} {
		t.Run(c.verdict+" "+string(c.stands), func(t *testing.T) {
			s, w, _, id, _ := integratedShop(t, "")
			row := s.row(t, w.ID)
			evidence, err := json.Marshal(integrateEvidence{Workspace: w.ID, Project: row.Project, Undoes: id, From: workspace.Integrated, Base: row.Base, Answer: integrated{ID: "int_undo", Undone: id}})
			if err != nil {
				t.Fatal(err)
			}
			err = s.db.Change(t.Context(), func(tx store.Tx) error {
				row.State = c.stands
				if err := tx.PutWorkspace(t.Context(), workspace.PutWorkspace{Workspace: row}); err != nil {
					return err
				}
				return tx.PutOperation(t.Context(), operation.PutOperation{Operation: operation.Operation{
					Name: operation.Name{Namespace: row.Principal, ID: "undo-0001"}, Tool: integrateTool, Class: operation.FS, State: operation.Unknown, Evidence: evidence, Claimed: time.Unix(1, 0),
				}})
			})
			if err != nil {
				t.Fatal(err)
			}
			if a := s.call(t, "resolve_operation", `{"target":"undo-0001","verdict":%q,"evidence":"looked","operation_id":"resolve-1"}`, c.verdict); !a.OK {
				t.Fatal(a.Refusal)
			}
			now := s.row(t, w.ID)
			if now.State != c.after {
				t.Errorf("it is %s, want %s", now.State, c.after)
			}
			err = s.db.View(t.Context(), func(r store.Reader) error {
				if _, stands, err := workspace.LastStanding(t.Context(), r, now); err != nil || stands != (c.verdict != "done") {
					t.Errorf("the integration stands: %v, %v", stands, err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
