package work

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/key"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// Why a workspace is in quarantine or missing.
const (
	partialCreate = "partial_create"
	orphan        = "orphan"
	directoryGone = "its directory is gone"
)

// agree makes the rows of workspaces and their directories agree, at the start of a daemon. What cannot be read is left as
// it is: of that nothing is known.
func (s *Service) agree(ctx context.Context) error {
	drafts := s.eachArea(ctx, func(area *tree.Area, _ string) error { return area.ClearSnapshotDrafts() })
	return errors.Join(drafts, s.finishAside(ctx), s.abandonPartial(ctx, operation.Name{}), s.quarantineOrphans(ctx), s.findMissing(ctx))
}

// inStates are all workspaces in some states.
func (s *Service) inStates(ctx context.Context, states ...workspace.State) (all []workspace.Workspace, err error) {
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		all, err = workspace.All(ctx, r, workspace.ListWorkspaces{States: states})
		return err
	})
	return all, err
}

// putAside writes the row of a workspace in quarantine with an event. Its directory moves there afterwards: what is in
// quarantine is always listed.
func (s *Service) putAside(ctx context.Context, tx store.Tx, w workspace.Workspace, summary string) error {
	w.Changed = s.cfg.Now()
	if err := tx.PutWorkspace(ctx, workspace.PutWorkspace{Workspace: w}); err != nil {
		return err
	}
	return s.tellFound(ctx, tx, w, event.WorkspaceQuarantined, summary)
}

// tellFound writes an event about a workspace that nobody's call is about.
func (s *Service) tellFound(ctx context.Context, tx store.Tx, w workspace.Workspace, kind event.Kind, summary string) error {
	_, err := tx.AppendEvent(ctx, event.Draft{
		At: s.cfg.Now(), Kind: kind, Actor: event.Actor{Principal: w.Principal, Channel: "recovery"}, Refs: workspaceRefs(w), Summary: summary,
	})
	return err
}

// moveAside moves the directory of a workspace into quarantine, and writes where it is now. That it is there already is how
// a second try finds it.
func (s *Service) moveAside(ctx context.Context, w workspace.Workspace) error {
	p := tree.Packet{Dir: w.Dir}
	area, err := s.areaAt(p)
	if err != nil {
		return err
	}
	defer area.Close()
	aside := area.Aside(w.ID)
	there, err := p.Exists()
	if err == nil && !there {
		if there, err = aside.Exists(); !there {
			return problem(err) // it is missing
		}
	}
	if err == nil {
		err = area.Move(p, aside)
	}
	if err != nil {
		return problem(err)
	}
	return s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		now, err := tx.WorkspaceByID(ctx, workspace.ByID{ID: w.ID})
		if err != nil {
			return err
		}
		now.Dir = aside.Dir
		return tx.PutWorkspace(ctx, workspace.PutWorkspace{Workspace: now})
	})
}

// finishAside moves what an earlier daemon was about to move into quarantine.
func (s *Service) finishAside(ctx context.Context) error {
	all, err := s.inStates(ctx, workspace.Quarantined)
	for _, w := range all {
		if !(tree.Packet{Dir: w.Dir}).IsAside() {
			err = errors.Join(err, s.moveAside(ctx, w))
		}
	}
	return err
}

// abandonPartial sets aside the copies on which nobody works any more, and frees their scopes. Those of own are of earlier
// attempts of the caller.
func (s *Service) abandonPartial(ctx context.Context, own operation.Name) error {
	var left []workspace.Workspace
	err := s.cfg.DB.View(ctx, func(r store.Reader) error {
		all, err := workspace.All(ctx, r, workspace.ListWorkspaces{States: []workspace.State{workspace.Creating}})
		if err != nil {
			return err
		}
		for _, w := range all {
			if is, err := s.partial(ctx, r, w, own); err != nil {
				return err
			} else if is {
				left = append(left, w)
			}
		}
		return nil
	})
	for _, w := range left {
		err = errors.Join(err, s.abandonCopy(ctx, w, own))
	}
	return err
}

// partial says whether a workspace is the copy of an attempt that is over, or of an earlier one of own.
func (s *Service) partial(ctx context.Context, r store.Reader, w workspace.Workspace, own operation.Name) (bool, error) {
	if w.State != workspace.Creating {
		return false, nil
	}
	o, err := r.OperationByName(ctx, operation.ByName{Name: w.By})
	if fault.KindOf(err) == fault.NotFound {
		return true, nil
	}
	return err == nil && o.State != operation.Dispatched && (w.By == own || !s.works(w.By)), err
}

// works says whether this daemon works on an operation.
func (s *Service) works(n operation.Name) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy[n] != nil
}

// abandonCopy puts a copy that never became complete into quarantine: somebody may have looked at it. Without one there is
// nothing to keep. Where the attempt that made it has come to its end in the meantime, it is left alone.
func (s *Service) abandonCopy(ctx context.Context, w workspace.Workspace, own operation.Name) error {
	there, err := tree.Packet{Dir: w.Dir}.Exists()
	if err != nil {
		return problem(err)
	}
	var aside bool
	err = s.cfg.DB.Change(ctx, func(tx store.Tx) (err error) {
		if w, err = tx.WorkspaceByID(ctx, workspace.ByID{ID: w.ID}); err != nil {
			return err
		}
		aside, err = s.partial(ctx, tx, w, own)
		if err != nil || !aside {
			return err
		}
		if aside = there; !there {
			return s.moveTo(ctx, tx, w, workspace.NotCopied, "never copied")
		}
		if w, err = w.To(workspace.Abandoned, partialCreate); err != nil {
			return err
		}
		return s.putAside(ctx, tx, w, "the copy of a workspace never became complete, and was put aside")
	})
	if err != nil || !aside {
		return err
	}
	return s.moveAside(ctx, w)
}

// quarantineOrphans puts every directory of an area that no row knows into quarantine, as it is: nobody vouches for it.
func (s *Service) quarantineOrphans(ctx context.Context) error {
	aside, err := s.inStates(ctx, workspace.Quarantined)
	if err != nil {
		return err
	}
	known := map[string]bool{} // those that could not be moved
	for _, w := range aside {
		known[w.Dir] = true
	}
	return s.eachArea(ctx, func(area *tree.Area, project string) error {
		names, err := area.Packets()
		if tree.CodeOf(err) == tree.NotFound {
			return nil // there was never a workspace
		}
		for _, name := range names {
			if !known[area.Packet(name).Dir] {
				err = errors.Join(err, s.quarantine(ctx, area, project, name))
			}
		}
		return err
	})
}

// eachArea opens the areas in which workspaces may be: that of the state directory, and those that projects hold themselves.
// project is the one that an area belongs to alone, "" none.
func (s *Service) eachArea(ctx context.Context, do func(area *tree.Area, project string) error) error {
	area, err := tree.AreaAt(s.cfg.State)
	if err != nil {
		return err
	}
	failed := errors.Join(do(area, ""), area.Close())
	var projects []session.Project
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		projects, err = session.AllProjects(ctx, r, false)
		return err
	})
	for _, p := range projects {
		failed = errors.Join(failed, s.ownArea(p, do))
	}
	return errors.Join(failed, err)
}

func (s *Service) ownArea(p session.Project, do func(area *tree.Area, project string) error) error {
	root, err := tree.Open(p.Path, tree.Options{ByPath: true})
	if err != nil {
		return nil //nolint:nilerr // a project that is not there has nothing that could be looked at
	}
	defer root.Close()
	area, err := root.FindOwnArea()
	if tree.CodeOf(err) == tree.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	defer area.Close()
	return do(area, p.ID)
}

// quarantine puts a directory into quarantine if no row knows it. It goes on as what it says of itself, but not as one of a
// project that it does not lie in.
func (s *Service) quarantine(ctx context.Context, area *tree.Area, project, name string) error {
	known := true
	err := s.cfg.DB.View(ctx, func(r store.Reader) error {
		w, err := r.WorkspaceByID(ctx, workspace.ByID{ID: name})
		if known = err == nil && w.ID == name; fault.KindOf(err) == fault.NotFound || fault.KindOf(err) == fault.Conflict {
			err = nil
		}
		return err
	})
	if err != nil || known {
		return err
	}
	p := area.Packet(name)
	rev, err := p.Latest()
	if err != nil {
		s.unverified(ctx, p, err)
		return nil
	}
	now := s.cfg.Now()
	w := workspace.Workspace{ID: s.cfg.IDs.New(id.Workspace), Rev: 1, Principal: session.Operator, Project: project, Purpose: name, Created: now, Mutable: []workspace.Scope{}, Overlap: workspace.RefuseOverlap}
	if rev > 0 {
		var about workspace.Workspace
		record, err := p.Read(rev)
		if err == nil && json.Unmarshal(record.About, &about) == nil && (project == "" || about.Project == project) {
			fresh := w.ID
			if w = about; w.ID != name { // a copy of it, as one is made of a snapshot that is resumed
				w.ID, w.Rev, w.History, w.By = fresh, 1, nil, operation.Name{}
			}
		}
	}
	w.State, w.Why, w.Dir, w.Was, w.WasWhy = workspace.Quarantined, orphan, p.Dir, "", ""
	err = s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		return s.putAside(ctx, tx, w, "a directory without a record was put aside")
	})
	if err != nil {
		return err
	}
	return s.moveAside(ctx, w)
}

// unverified tells the log that a directory is left as it is, because nobody can say what is in it.
func (s *Service) unverified(ctx context.Context, p tree.Packet, why error) {
	s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "a directory of a workspace cannot be read, and is left as it is", slog.String(key.Path, p.Dir), slog.Any(key.Cause, why))
}

// findMissing notes which workspaces have lost their directory. Where not even what it lay in can be read, nothing is known.
func (s *Service) findMissing(ctx context.Context) error {
	all, err := s.inStates(ctx, workspace.From(workspace.Lost)...)
	for _, w := range all {
		p := tree.Packet{Dir: w.Dir}
		if gone, unread := p.Gone(); unread != nil {
			s.unverified(ctx, p, unread)
			continue
		} else if !gone || len(s.jobs.in(w.ID)) > 0 {
			continue
		}
		err = errors.Join(err, s.cfg.DB.Change(ctx, func(tx store.Tx) error {
			if err := s.tellFound(ctx, tx, w, event.WorkspaceMissing, "the directory of a workspace is gone"); err != nil {
				return err
			}
			return s.moveTo(ctx, tx, w, workspace.Lost, directoryGone)
		}))
	}
	return err
}
