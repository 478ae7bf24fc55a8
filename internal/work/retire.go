package work

import (
	"context"
	"fmt"
	"path/filepath"

	"mcpx/internal/event"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// RemoveWorkspace are the arguments of remove_agent_workspace.
type RemoveWorkspace struct {
	ID
	Claims
	Session string `json:"remote_session_id,omitempty" jsonschema:"the session"`
	Handle  string `json:"handle" jsonschema:"the present handle"`
	IfDirty string `json:"if_dirty,omitempty" jsonschema:"refuse, or preserve in a snapshot; preserve without it"`
}

// retirement is a workspace that is being removed.
type retirement struct {
	s       *Service
	t       *turn
	p       packet
	x       *target // the working copy; nil when its directory is missing
	release func()
	dirty   bool
	dir     string // in the trash; "" it was lost
	was     retireEvidence
}

// retireEvidence is what recovery needs of a removal.
type retireEvidence struct {
	Workspace string  `json:"workspace_id"`
	Answer    retired `json:"answer"`
}

// retired is the answer of remove_agent_workspace.
type retired struct {
	State     workspace.State `json:"state"`
	Preserved string          `json:"preserved,omitempty"`
	Why       string          `json:"why"`
}

func beginRetire(ctx context.Context, s *Service, t *turn) (effect, error) {
	var in RemoveWorkspace
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if in.IfDirty != "" && in.IfDirty != "refuse" && in.IfDirty != "preserve" {
		return nil, operation.Refuse(operation.ArgumentInvalid, "%.32q is no if_dirty; refuse and preserve are", in.IfDirty)
	}
	p, err := s.packet(ctx, t, in.Handle, session.ActChange)
	if err != nil {
		return nil, err
	}
	r := &retirement{s: s, t: t, p: p}
	if r.release, err = s.whole(ctx, p, workspace.From(workspace.Retire)...); err != nil {
		return nil, err
	}
	if err := r.look(ctx, in.IfDirty == "refuse"); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// look says whether there is something in the workspace that is nowhere else.
func (r *retirement) look(ctx context.Context, refuses bool) error {
	there, err := r.p.dir.Exists()
	if err != nil {
		return problem(err)
	}
	if !there {
		r.was.Answer.Why = "lost"
		return nil
	}
	if r.dirty, err = r.changed(ctx); err != nil {
		return err
	}
	if r.dirty && refuses {
		return operation.Refuse(workspace.WrongState, "the workspace has work that is not integrated").With("state", r.p.State).With("dirty", "yes").
			Then(operation.Next{Tool: "workspace_status", Args: map[string]any{"handle": r.p.Handle().String()}, Why: "what is not integrated"})
	}
	r.was.Answer.Why = "clean"
	if r.dirty {
		r.was.Answer.Why = "preserved"
	}
	return nil
}

// changed says whether the working copy is not BASE. One whose BASE nobody knows is kept.
func (r *retirement) changed(ctx context.Context) (_ bool, err error) {
	if r.p.Base.Rev == 0 {
		return true, nil
	}
	if r.x, err = r.s.copy(r.p); err != nil {
		return false, err
	}
	base, err := r.p.base()
	if codeIn(err) == workspace.WrongState {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	// With a repository of its own in it: commits that are nowhere else.
	now, err := r.x.root.Survey(ctx, tree.SurveyOptions{Git: true, Skip: func(v tree.Visit) bool { return v.Path == conflictsDir }})
	if err != nil {
		return false, problem(err)
	}
	all, err := changes(r.p.Workspace, base, now)
	return len(all) > 0, err
}

// stage keeps what is only in the workspace.
func (r *retirement) stage(ctx context.Context) (any, error) {
	r.was.Workspace, r.was.Answer.State = r.p.ID, workspace.Retired
	if r.dirty {
		var err error
		if r.was.Answer.Preserved, err = r.s.preserve(ctx, r.p); err != nil {
			return nil, err
		}
	}
	return r.was, nil
}

// preserve makes a snapshot of a workspace, and gives its name: that of what is in it.
func (s *Service) preserve(ctx context.Context, p packet) (string, error) {
	area, err := s.areaAt(p.dir)
	if err != nil {
		return "", err
	}
	defer area.Close()
	draft := area.SnapshotDraft(filepath.Base(p.dir.Dir))
	if err := draft.Clear(); err != nil { // of an attempt that was cut off
		return "", problem(err)
	}
	m, err := p.dir.Snapshot(ctx, draft)
	if err != nil {
		return "", copying(err)
	}
	name := "snap_" + digest(fmt.Appendf(nil, "%s\n%d\n%s", p.ID, p.Base.Rev, m.Digest()))[:24] // with the BASE that it is compared with
	return name, problem(draft.Become(area.Snapshot(name)))
}

// areaAt opens the area that a packet is in.
func (s *Service) areaAt(p tree.Packet) (*tree.Area, error) {
	a, err := tree.AreaAt(filepath.Dir(filepath.Dir(p.Dir)))
	return a, problem(err)
}

func (*retirement) drop() {} // a snapshot more is in nobody's way

// run moves the directory to the trash. That it is there already is how a second try finds it.
func (r *retirement) run(context.Context) (any, error) {
	if r.was.Answer.Why == "lost" {
		return r.was.Answer, nil
	}
	area, err := r.s.areaAt(r.p.dir)
	if err != nil {
		return nil, err
	}
	defer area.Close()
	trash := area.InTrash(r.p.ID)
	r.dir = trash.Dir
	there, err := r.p.dir.Exists()
	if err == nil && !there {
		there, err = trash.Exists()
	}
	if err != nil || !there {
		return r.was.Answer, problem(err)
	}
	return r.was.Answer, moved(area, r.p.dir, trash)
}

// moved moves a packet. An error is a refusal only if the packet is still where it was.
func moved(area *tree.Area, p, to tree.Packet) error {
	err := area.Move(p, to)
	if err == nil {
		return nil
	}
	if there, unread := p.Exists(); unread != nil || !there {
		return undecided(err)
	}
	return problem(err)
}

// keep writes the end of the workspace.
func (r *retirement) keep(ctx context.Context, tx store.Tx, t *turn, a *operation.Answer) error {
	switch t.op.State {
	case operation.Dispatched:
		w, err := tx.WorkspaceByID(ctx, workspace.ByID{ID: r.p.ID})
		if err != nil {
			return err
		}
		if err := w.Exactly(r.p.given); err != nil {
			return err
		}
		return r.s.moveTo(ctx, tx, w, workspace.Retire, "")
	case operation.Failed:
		w, err := tx.WorkspaceByID(ctx, workspace.ByID{ID: r.p.ID})
		if err != nil {
			return err
		}
		return r.s.moveTo(ctx, tx, w, workspace.GoneWrong, "")
	case operation.Succeeded:
		w, err := r.s.revise(ctx, tx, t, r.was.Workspace, a, func(w *workspace.Workspace) (err error) {
			if r.dir != "" {
				w.Dir = r.dir
			}
			if r.was.Answer.Preserved != "" {
				w.Keep(r.was.Answer.Preserved, w.Base)
			}
			*w, err = w.To(workspace.InTrash, r.was.Answer.Why)
			return err
		})
		if err != nil {
			return err
		}
		return r.s.tellWorkspace(ctx, tx, t, w, event.WorkspaceRetired, "a workspace was removed: "+firstLine(w.Purpose), r.was.Answer)
	case operation.Claimed, operation.Unknown:
	}
	return nil
}

func (*retirement) settle(context.Context) {}

func (r *retirement) close() {
	if r.x != nil {
		r.x.close()
	}
	if r.release != nil {
		r.release()
	}
}

// recoverRetire ends a removal that an earlier daemon has begun: what had to be kept is kept.
func recoverRetire(ctx context.Context, s *Service, t *turn) (any, ending, error) {
	if t.op.State == operation.Claimed {
		return nil, nil, nil
	}
	r := &retirement{s: s, t: t}
	var err error
	if r.was, err = evidenceOf[retireEvidence](t.op); err != nil {
		return nil, r, err
	}
	err = s.cfg.DB.View(ctx, func(rd store.Reader) (err error) {
		r.p.Workspace, err = rd.WorkspaceByID(ctx, workspace.ByID{ID: r.was.Workspace})
		return err
	})
	if err != nil {
		return nil, r, err
	}
	r.p.dir.Dir = r.p.Dir
	data, err := r.run(ctx)
	return data, r, undecided(err)
}
