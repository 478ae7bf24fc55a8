//go:build unix

package work

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// row is a workspace as it is stored.
func (d *desk) row(t *testing.T, id string) (w workspace.Workspace) {
	t.Helper()
	err := d.db.View(t.Context(), func(r store.Reader) (err error) {
		w, err = r.WorkspaceByID(t.Context(), workspace.ByID{ID: id})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// next is the next daemon on the same state.
func (d *desk) next(t *testing.T) {
	t.Helper()
	d.Stop()
	d.start(t, d.db)
	if err := d.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestOrphan: DW-11. Directories that no row knows are put aside as they are, listed, and never deleted: one goes on as what
// it says of itself, another one is kept in a snapshot when it is removed.
func TestOrphan(t *testing.T) {
	s := newShop(t)
	_, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	w.write(t, "docs/mine.md", "mine\n")
	loose := filepath.Join(s.state, "workspaces", "loose")
	plant(t, map[string]string{filepath.Join(loose, "a.txt"): "a"})
	before := files(t, filepath.Dir(w.Path))
	mine := func(path string) os.FileInfo {
		t.Helper()
		info, err := os.Stat(filepath.Join(path, "docs/mine.md"))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	file := mine(w.Path)
	other := newShop(t) // a daemon that has lost its rows, on the same state
	other.state = s.state
	other.next(t)
	other.next(t) // nothing is put aside twice
	list := read[reconciled](t, other.call(t, "reconcile_project_state", `{}`))
	if len(list.Quarantine) != 2 || len(list.Workspaces) != 0 {
		t.Fatalf("%+v", list)
	}
	for _, one := range list.Quarantine {
		h, err := workspace.ParseHandle(one.Handle)
		if err != nil || one.Why != orphan || one.Path != filepath.Join(s.state, "quarantine", h.ID) {
			t.Errorf("%+v, %v", one, err)
		}
		if one.Purpose == "loose" {
			if got := files(t, one.Path); !maps.Equal(got, map[string]string{"/a.txt": "a"}) {
				t.Errorf("it holds %v", got)
			}
			a := other.call(t, "resume_workspace", `{"ws":%q,"operation_id":"resume-02"}`, h.ID)
			refused(t, a, workspace.WrongState, fault.AfterFix) // it has no BASE
			gone := read[retired](t, other.call(t, "remove_agent_workspace", `{"handle":%q,"operation_id":"remove-02"}`, one.Handle))
			if gone.Why != "preserved" || files(t, filepath.Join(s.state, "snapshots", gone.Preserved))["/a.txt"] != "a" {
				t.Errorf("removed: %+v", gone)
			}
		} else if got := files(t, one.Path); !maps.Equal(got, before) {
			t.Errorf("it holds %v, it held %v", got, before)
		}
	}
	back := read[openedWorkspace](t, other.call(t, "resume_workspace", `{"ws":%q,"operation_id":"resume-01"}`, w.ID))
	if !os.SameFile(mine(back.Path), file) {
		t.Error("it was copied, and not moved")
	}
	if got := files(t, filepath.Dir(back.Path)); !maps.Equal(got, before) || other.row(t, w.ID).State != workspace.Open {
		t.Errorf("%v", got)
	}
}

// TestOrphanInProject: what lies in the area of a project is found there, and does not become one of another project.
func TestOrphanInProject(t *testing.T) {
	s := newShop(t)
	own := filepath.Join(s.root, ".mcpx")
	about := func(id, project string) string {
		return "base 1\n" + `{"workspace_id":"` + id + `","principal":"owner","project_id":"` + project + `","purpose":"says so","base":{"rev":1},"rev":7}` + "\n"
	}
	plant(t, map[string]string{
		filepath.Join(own, "quarantine", "keep"):                "",
		filepath.Join(own, "workspaces", "ws_mine", "base-1"):   about("ws_mine", "proj_shop"),
		filepath.Join(own, "workspaces", "ws_theirs", "base-1"): about("ws_theirs", "proj_other"),
	})
	s.next(t)
	var purposes []string
	for _, one := range read[reconciled](t, s.call(t, "reconcile_project_state", `{"scope":"shop"}`)).Quarantine {
		purposes = append(purposes, one.Purpose)
	}
	slices.Sort(purposes)
	if !slices.Equal(purposes, []string{"says so", "ws_theirs"}) || s.row(t, "ws_mine").Rev != 7 {
		t.Errorf("%v", purposes)
	}
	if err := os.Chmod(own, 0o755); err != nil {
		t.Fatal(err)
	}
	plant(t, map[string]string{filepath.Join(own, "workspaces", "shared", "a"): ""})
	s.next(t)
	if _, err := os.Stat(filepath.Join(own, "workspaces", "shared", "a")); err != nil {
		t.Errorf("what came with the project was moved: %v", err)
	}
}

// TestAsideIsListed: a directory that is about to be put aside is listed at every moment of that, and put aside in the end.
func TestAsideIsListed(t *testing.T) {
	for what, moved := range map[string]bool{"before the move": false, "after it": true} {
		t.Run(what, func(t *testing.T) {
			s := newShop(t)
			_, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
			row, aside := s.row(t, w.ID), filepath.Join(s.state, "quarantine", w.ID)
			row.State, row.Why = workspace.Quarantined, orphan
			err := s.db.Change(t.Context(), func(tx store.Tx) error { return tx.PutWorkspace(t.Context(), workspace.PutWorkspace{Workspace: row}) })
			if err == nil && moved {
				err = os.Rename(row.Dir, aside)
			}
			if err != nil {
				t.Fatal(err)
			}
			s.next(t)
			list := read[reconciled](t, s.call(t, "reconcile_project_state", `{}`))
			if len(list.Quarantine) != 1 || list.Quarantine[0].Path != aside {
				t.Fatalf("%+v", list)
			}
			if _, err := os.Stat(filepath.Join(aside, "tree", "docs", "guide.md")); err != nil {
				t.Error(err)
			}
			if a := s.call(t, "resume_workspace", `{"ws":%q,"operation_id":"resume-01"}`, w.ID); !a.OK {
				t.Error(a.Refusal)
			}
		})
	}
}

// filling is a store that takes nothing any more once it is full.
type filling struct {
	store.DB
	full *bool
}

func (f filling) Change(ctx context.Context, fn func(store.Tx) error) error {
	if *f.full {
		return fault.New(fault.Unavailable, "store-full").Saying("the disk is full")
	}
	return f.DB.Change(ctx, fn)
}

// TestPartialOnFullDisk: a copy that fails when nothing can be written down any more holds its scope no longer than that
// lasts, and the same call goes on.
func TestPartialOnFullDisk(t *testing.T) {
	s := newShop(t)
	full := false
	s.start(t, filling{s.db, &full})
	begin := s.tools["create_agent_workspace"].begin
	s.tools["create_agent_workspace"].begin = func(ctx context.Context, svc *Service, t *turn) (effect, error) {
		e, err := begin(ctx, svc, t)
		if err != nil {
			return nil, err
		}
		return cutOff{e.(*creation), &full}, nil
	}
	a := s.do(t, "create_agent_workspace", `"purpose":"a","mutable":["docs"],"operation_id":"create-01"`)
	if a.OK || len(read[reconciled](t, s.call(t, "reconcile_project_state", `{}`)).Workspaces) != 1 {
		t.Fatalf("%+v", a)
	}
	full = false
	s.tools["create_agent_workspace"].begin = begin
	if a := s.do(t, "create_agent_workspace", `"purpose":"b","mutable":["docs"],"operation_id":"create-02"`); !a.OK {
		t.Fatalf("another one: %v", a.Refusal)
	}
	list := read[reconciled](t, s.call(t, "reconcile_project_state", `{}`))
	if len(list.Quarantine) != 1 || list.Quarantine[0].Why != partialCreate || len(list.Workspaces) != 1 {
		t.Errorf("%+v", list)
	}
	refused(t, s.do(t, "create_agent_workspace", `"purpose":"a","mutable":["docs"],"operation_id":"create-01"`), workspace.ScopeOverlap, fault.AfterWait)
}

// TestCopyCompletedMeanwhile: between the look at the copies that are not complete and the moment in which one of them is set
// aside, its caller may have completed it. Then it is an open workspace, and stays one.
func TestCopyCompletedMeanwhile(t *testing.T) {
	s := newShop(t)
	if made := s.do(t, "create_agent_workspace", `"purpose":"a","mutable":["docs"],"operation_id":"create-01"`); !made.OK {
		t.Fatal(made.Refusal)
	}
	all, err := s.inStates(t.Context(), workspace.Open)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v (%v)", all, err)
	}
	seen := all[0]
	seen.State = workspace.Creating
	for _, own := range []operation.Name{{}, seen.By} {
		if err := s.abandonCopy(t.Context(), seen, own); err != nil {
			t.Fatal(err)
		}
	}
	if after, err := s.inStates(t.Context(), workspace.Open); err != nil || len(after) != 1 || after[0].Dir != all[0].Dir {
		t.Errorf("%+v (%v)", after, err)
	}
	if there, err := (tree.Packet{Dir: all[0].Dir}).Exists(); err != nil || !there {
		t.Errorf("the copy is not there any more (%v)", err)
	}
}

// cutOff is a creation that fails after its copy, when the store is full.
type cutOff struct {
	*creation
	full *bool
}

func (c cutOff) stage(ctx context.Context) (any, error) {
	_, err := c.creation.stage(ctx)
	*c.full = true
	return nil, errors.Join(err, operation.Refuse(operation.Code(tree.NoSpace), "there is no space"))
}

// TestRowWithoutDirectory: DW-51. A workspace whose directory is gone is missing; it is restored from its last snapshot, or
// removed with all that is known of it.
func TestRowWithoutDirectory(t *testing.T) {
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	w.write(t, "docs/mine.md", "mine\n")
	gone := read[retired](t, s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-01"`, handle))
	kept := read[openedWorkspace](t, s.do(t, "resume_workspace", `"ws":%q,"operation_id":"resume-01"`, gone.Preserved))
	lostHandle, lost := s.workspaceOf(t, "create-02", `"mutable":["src"]`)
	s.Stop()
	for _, one := range []openedWorkspace{kept, lost} {
		if err := os.RemoveAll(filepath.Dir(one.Path)); err != nil {
			t.Fatal(err)
		}
	}
	s.next(t)
	list := read[reconciled](t, s.call(t, "reconcile_project_state", `{}`))
	if len(list.Workspaces) != 2 || list.Workspaces[0].State != workspace.Missing || list.Workspaces[1].State != workspace.Missing {
		t.Fatalf("%+v", list.Workspaces)
	}
	a := s.do(t, "resume_workspace", `"ws":%q,"operation_id":"resume-02"`, kept.ID)
	back := read[resumed](t, a)
	if back.ID != kept.ID || back.Restored != gone.Preserved || a.Handle != kept.ID+"@2" || s.row(t, kept.ID).State != workspace.Open {
		t.Errorf("%+v, %s", back, a.Handle)
	}
	if got, err := os.ReadFile(filepath.Join(back.Path, "docs/mine.md")); err != nil || string(got) != "mine\n" {
		t.Errorf("%q, %v", got, err)
	}
	refused(t, s.do(t, "resume_workspace", `"ws":%q,"operation_id":"resume-03"`, lost.ID), workspace.WrongState, fault.AfterFix)
	end := read[retired](t, s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-02"`, lostHandle))
	if row := s.row(t, lost.ID); end.Why != "lost" || row.State != workspace.Retired || row.Why != "lost" || len(row.Mutable) != 1 || row.Base.Digest == "" {
		t.Errorf("%+v, %+v", end, row)
	}
	if told := s.events(t, string(event.WorkspaceMissing)); len(told) != 2 {
		t.Errorf("%d events tell of it", len(told))
	}
}

// TestUnreadArea: where even the directory that a workspace lay in is not there, nothing is known about the workspace.
func TestUnreadArea(t *testing.T) {
	s := newShop(t)
	_, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	area := filepath.Join(s.state, "workspaces")
	if err := os.Rename(area, area+".away"); err != nil {
		t.Fatal(err)
	}
	s.next(t)
	if row := s.row(t, w.ID); row.State != workspace.Open {
		t.Errorf("%s (%s)", row, row.Why)
	}
	if err := os.Rename(area+".away", area); err != nil {
		t.Fatal(err)
	}
	s.next(t)
	if row := s.row(t, w.ID); row.State != workspace.Open {
		t.Errorf("%s (%s)", row, row.Why)
	}
}

// TestOrphanCopy: a copy of a workspace that no row knows, as a daemon leaves one that is killed while it brings a snapshot back, is
// told to those who know the workspace, and is another one.
func TestOrphanCopy(t *testing.T) {
	s := newShop(t)
	_, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	w.write(t, "docs/mine.md", "mine\n")
	if err := os.CopyFS(filepath.Join(s.state, "workspaces", "ws_copy"), os.DirFS(filepath.Dir(w.Path))); err != nil {
		t.Fatal(err)
	}
	s.next(t)
	list := read[reconciled](t, s.do(t, "reconcile_project_state", `"limit":20`))
	if len(list.Quarantine) != 1 || len(list.Workspaces) != 1 || list.Quarantine[0].Project != list.Workspaces[0].Project || list.Quarantine[0].Purpose != list.Workspaces[0].Purpose {
		t.Fatalf("%+v", list)
	}
	h, err := workspace.ParseHandle(list.Quarantine[0].Handle)
	if err != nil || h.ID == w.ID || h.ID == "ws_copy" {
		t.Fatalf("it is %+v, %v", h, err)
	}
	if got := files(t, list.Quarantine[0].Path); !maps.Equal(got, files(t, filepath.Dir(w.Path))) {
		t.Errorf("it holds %v", got)
	}
	if s.row(t, w.ID).State != workspace.Open {
		t.Error("the workspace that was copied is not open any more")
	}
}
