package work

import (
	"context"
	"errors"
	"log/slog"
	"maps"

	"mcpx/internal/crash"
	"mcpx/internal/key"
	"mcpx/internal/retention"
	"mcpx/internal/store"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// retired lets go of the directories of workspaces that were removed.
func (p *pruning) retired(ctx context.Context, out *retention.Removed) error {
	all, err := p.s.inStates(ctx, workspace.Retired)
	if err != nil {
		return err
	}
	for _, w := range all {
		if !(tree.Packet{Dir: w.Dir}).IsInTrash() || !p.old(w.Changed, p.Periods.Displaced) {
			continue
		}
		release, err := p.s.leases.take(w.ID, true)
		if err != nil {
			continue // its integration is being taken back
		}
		err = p.clear(ctx, out, w)
		release()
		if err != nil {
			return err
		}
	}
	return nil
}

// clear lets go of a directory in the trash, if all that is in it is in its snapshot, or is BASE: somebody may have written to it
// there. First the row says so, then the directory goes, and the next look goes on with one of which only a part is gone.
func (p *pruning) clear(ctx context.Context, out *retention.Removed, w workspace.Workspace) error {
	if err := p.s.isKept(ctx, w); err != nil {
		p.stays(ctx, slog.String(key.Path, w.Dir), err)
		out.Needed++
		return nil
	}
	if w.Cleared.IsZero() {
		at := p.s.cfg.Now()
		err := p.step(ctx, out, func(r store.Reader, tx store.Tx) (pruned, error) {
			now, err := r.WorkspaceByID(ctx, workspace.ByID{ID: w.ID})
			if err != nil || !now.Changed.Equal(w.Changed) {
				return pruned{}, err
			}
			w = now
			found := pruned{Count: 1, Of: []string{w.ID}}
			if tx == nil {
				return found, nil
			}
			w.Cleared = at
			return found, tx.PutWorkspace(ctx, workspace.PutWorkspace{Workspace: w})
		})
		if err != nil || w.Cleared.IsZero() {
			return err
		}
	}
	if p.DryRun {
		return nil
	}
	// The working copy goes first: what is left of it can be held against its BASE as long as that is there.
	for _, dir := range []string{(tree.Packet{Dir: w.Dir}).Copy(), w.Dir} {
		crash.Point("retention.workspace.before")
		if err := (tree.Packet{Dir: dir}).Clear(); err != nil {
			p.stays(ctx, slog.String(key.Path, w.Dir), err)
			return nil
		}
	}
	crash.Point("retention.workspace.after")
	return p.s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		now, err := tx.WorkspaceByID(ctx, workspace.ByID{ID: w.ID})
		if err != nil || now.Dir != w.Dir {
			return err
		}
		now.Dir = ""
		return tx.PutWorkspace(ctx, workspace.PutWorkspace{Workspace: now})
	})
}

// isKept fails unless all that is in the directory of a workspace is somewhere else, too. One that is gone has nothing, and of one
// that is being cleared a part may be gone.
func (s *Service) isKept(ctx context.Context, w workspace.Workspace) error {
	p := tree.Packet{Dir: w.Dir}
	there, err := p.Exists()
	if err == nil && there && !w.Cleared.IsZero() {
		there, err = (tree.Packet{Dir: p.Copy()}).Exists()
	}
	if err != nil || !there {
		return problem(err)
	}
	m, err := p.Survey(ctx)
	if err != nil {
		return problem(err)
	}
	now := entriesOf(m)
	known := func(kept tree.Manifest) bool {
		all := entriesOf(kept)
		if w.Cleared.IsZero() {
			return maps.Equal(now, all)
		}
		for path, e := range now {
			if all[path] != e {
				return false
			}
		}
		return true
	}
	if w.Snapshot != "" {
		area, err := s.areaAt(p)
		if err != nil {
			return err
		}
		defer area.Close()
		kept, err := area.Snapshot(w.Snapshot).Survey(ctx)
		if err != nil {
			return problem(err)
		}
		if known(kept) {
			return nil
		}
	}
	if w.Base.Rev > 0 {
		base, err := baseIn(p, w.Base)
		if err != nil {
			return err
		}
		if known(base) {
			return nil
		}
	}
	return errors.New("what is in it is neither its snapshot nor its BASE")
}

// entriesOf are the entries of a manifest by their paths, without our bundles of conflicts.
func entriesOf(m tree.Manifest) map[string]workspace.Entry {
	all := make(map[string]workspace.Entry, len(m.Items))
	for _, i := range m.Items {
		if path := string(i.Path); !workspace.Below(path, conflictsDir) {
			all[path] = entryOf(i)
		}
	}
	return all
}
