package work

import (
	"context"
	"errors"
	"log/slog"
	"maps"

	"mcpx/internal/key"
	"mcpx/internal/retention"
	"mcpx/internal/store"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// retired lets go of the directories of workspaces that were removed, if all that is in them is in their snapshot, or is BASE:
// somebody may have written to one after it went to the trash. First the row says so, then the directory goes, and the next look
// goes on with one of which only a part is gone.
func (p *pruning) retired(ctx context.Context, out *retention.Removed) error {
	all, err := p.s.inStates(ctx, workspace.Retired)
	if err != nil {
		return err
	}
	for _, w := range all {
		if !(tree.Packet{Dir: w.Dir}).IsInTrash() || !p.old(w.Changed, p.Periods.Displaced) {
			continue
		}
		if w.Cleared.IsZero() {
			if err := p.s.isKept(ctx, w); err != nil {
				p.stays(ctx, slog.String(key.Path, w.Dir), err)
				out.Needed++
				continue
			}
			w.Cleared = p.s.cfg.Now()
			err := p.step(ctx, out, func(_ store.Reader, tx store.Tx) (pruned, error) {
				found := pruned{Count: 1, Of: []string{w.ID}}
				if tx == nil {
					return found, nil
				}
				return found, tx.PutWorkspace(ctx, workspace.PutWorkspace{Workspace: w})
			})
			if err != nil {
				return err
			}
		}
		if p.DryRun {
			continue
		}
		if err := (tree.Packet{Dir: w.Dir}).Clear(); err != nil {
			p.stays(ctx, slog.String(key.Path, w.Dir), err)
			continue
		}
		w.Dir = ""
		if err := p.s.cfg.DB.Change(ctx, func(tx store.Tx) error { return tx.PutWorkspace(ctx, workspace.PutWorkspace{Workspace: w}) }); err != nil {
			return err
		}
	}
	return nil
}

// isKept fails unless all that is in the directory of a workspace is somewhere else, too. One that is gone has nothing.
func (s *Service) isKept(ctx context.Context, w workspace.Workspace) error {
	p := tree.Packet{Dir: w.Dir}
	if there, err := p.Exists(); err != nil || !there {
		return problem(err)
	}
	now, err := p.Survey(ctx)
	if err != nil {
		return problem(err)
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
		if maps.Equal(entriesOf(now), entriesOf(kept)) {
			return nil
		}
	}
	if w.Base.Rev > 0 {
		base, err := baseIn(p, w.Base)
		if err != nil {
			return err
		}
		if maps.Equal(entriesOf(now), entriesOf(base)) {
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
