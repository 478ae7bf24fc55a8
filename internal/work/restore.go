package work

import (
	"context"

	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/tree"
)

// restoring brings back what a removal has moved.
type restoring struct {
	s        *Service
	at       *target
	manifest manifest
	was      removalEvidence // of the removal
	paths    []string        // canonical
}

// restoreEvidence is what recovery needs. What was restored is seen on the disk.
type restoreEvidence struct {
	Manifest  string   `json:"manifest_id"`
	Workspace string   `json:"workspace_id,omitempty"` // as in manifest
	Paths     []string `json:"paths,omitempty"`
}

// restored is the answer of restore.
type restored struct {
	Manifest string        `json:"manifest_id"`
	Restored []shownPath   `json:"restored"`
	Skipped  []skippedPath `json:"skipped"`

	root string // of the project
}

// skippedPath is what was not restored.
type skippedPath struct {
	shownPath
	Why tree.Code `json:"why"`
}

func (s *Service) beginRestore(ctx context.Context, t *turn, in RemoveFiles) (effect, error) {
	m, err := s.readManifest(ctx, t, in.Manifest)
	if err != nil {
		return nil, err
	}
	x, err := s.whereFrozen(ctx, t, m, session.ActChange)
	if err != nil {
		return nil, err
	}
	r, err := s.openRestore(ctx, t, x, m, in.Paths)
	if err != nil {
		x.close()
		return nil, problem(err)
	}
	return r, nil
}

// openRestore finds out what there is to restore.
func (s *Service) openRestore(ctx context.Context, t *turn, x *target, m manifest, paths []string) (*restoring, error) {
	_, _, was, err := s.submitted(ctx, t, m)
	if err != nil {
		return nil, err
	}
	if was == nil {
		return nil, operation.Refuse(operation.NotFound, "nothing of the manifest %s was removed", m.id)
	}
	r := &restoring{s: s, at: x, manifest: m, was: *was}
	for _, path := range paths {
		p, err := x.root.Resolve(path, tree.Look)
		if tree.CodeOf(err) == tree.NotFound {
			p, err = x.root.Resolve(path, tree.Write)
		}
		if err != nil {
			return nil, err
		}
		r.paths = append(r.paths, p.Path)
		_ = p.Close() // it was only looked at
	}
	return r, nil
}

func (r *restoring) stage(context.Context) (any, error) {
	return removeEvidence{Restored: &restoreEvidence{Manifest: r.manifest.id, Workspace: r.manifest.Workspace, Paths: r.paths}}, nil
}

func (r *restoring) drop() {}

func (r *restoring) run(ctx context.Context) (any, error) {
	found, err := r.s.binned(r.at, r.was)
	if err != nil {
		return nil, undecided(err)
	}
	defer found.close()
	out := restored{Manifest: r.manifest.id, Restored: []shownPath{}, Skipped: []skippedPath{}, root: r.at.root.Path()}
	trees := map[tree.RawPath]tree.Manifest{}
	for _, t := range r.manifest.Targets {
		trees[t.Path] = t.Tree
	}
	judge := func(p *tree.Place) error { return r.s.judge(ctx, r.at, p.Seen, policy.AccessWrite) }
	for _, x := range r.was.Batch.Names() {
		bin := found.of(x)
		if bin == nil {
			bin = found.bins[0] // which says that it is gone
		}
		all, err := r.at.root.Restore(ctx, bin, x, trees[x.Path], r.paths, judge)
		if err != nil {
			return nil, undecided(err)
		}
		for _, one := range all {
			if one.Why == "" {
				out.Restored = append(out.Restored, showPath(string(one.Path)))
			} else {
				out.Skipped = append(out.Skipped, skippedPath{showPath(string(one.Path)), one.Why})
			}
		}
	}
	return out, nil
}

// keep raises the revision of the workspace that something was brought back to.
func (r *restoring) keep(ctx context.Context, tx store.Tx, t *turn, a *operation.Answer) error {
	return r.s.changed(ctx, tx, t, r.at, a)
}

func (r *restoring) settle(context.Context) {}
func (r *restoring) close()                 { r.at.close() }

func (s *Service) recoverRestore(ctx context.Context, t *turn, was restoreEvidence) (any, ending, error) {
	if t.op.State == operation.Claimed {
		return nil, nil, nil
	}
	m, err := s.readManifest(ctx, t, was.Manifest)
	if err != nil {
		return nil, nil, undecided(err)
	}
	x, err := s.reopen(ctx, t.op.Project, m.Workspace)
	if err != nil {
		return nil, nil, undecided(err)
	}
	r, err := s.openRestore(ctx, t, x, m, was.Paths)
	if err != nil {
		x.close()
		return nil, nil, undecided(err)
	}
	data, err := r.run(ctx)
	return data, r, err
}
