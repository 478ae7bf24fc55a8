package work

import (
	"context"
	"encoding/json"

	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// rebased is what a resumption brings into a workspace of what the project did meanwhile.
type rebased struct {
	Batch     tree.Batch       `json:"batch"` // of the working copy
	Base      workspace.Copied `json:"base"`  // of the workspace afterwards
	Taken     []string         `json:"taken"`
	Conflicts []conflictShown  `json:"conflicts"` // paths that stay as they are, and their BASE
}

// rebase stages what the project changed in the scope since BASE for the working copy, by the rules of an integration with the
// sides exchanged. What both sides changed, and cannot be merged, stays as it is with its BASE.
func (r *resumption) rebase(ctx context.Context) error {
	at, err := r.s.open(r.p.Admission)
	if err != nil {
		return err
	}
	defer at.close()
	err = r.s.cfg.DB.View(ctx, func(tx store.Reader) error { return undisturbed(ctx, tx, r.p.Mutable...) })
	if err != nil {
		return err
	}
	after, err := r.s.lastIntegration(ctx)
	if err != nil {
		return err
	}
	base, err := r.p.base()
	if err != nil {
		return err
	}
	now, err := current(ctx, at, r.p.Workspace)
	if err != nil {
		return err
	}
	var within tree.Manifest
	for _, i := range base.Items {
		if workspace.Inside(string(i.Path), r.p.Mutable) {
			within.Items = append(within.Items, i)
		}
	}
	all, err := changes(r.p.Workspace, within, now)
	if err != nil {
		return err
	}
	inside, _ := split(all)
	// The working copy is what is changed, and the project what is proposed for it.
	g := &integration{s: r.s, t: r.t, p: r.p, id: batchID(r.t.op), at: r.copy, copy: at, seen: map[string]tree.Item{}, turned: map[string]bool{}, names: map[tree.ID]uint64{}}
	if err := g.planAll(ctx, inside, base); err != nil {
		return err
	}
	changed := map[string]tree.Item{}
	r.was.Rebased = &rebased{Taken: []string{}, Conflicts: []conflictShown{}}
	var kept []tree.Item
	for _, one := range g.paths {
		if one.decision.Action == workspace.Clash {
			// Of a conflict the caller wants to know what the project has, as an integration would tell it.
			r.was.Rebased.Conflicts = append(r.was.Rebased.Conflicts, conflictShown{shownPath: showPath(one.path), Kind: one.decision.Conflict, Current: shownDigest(one.proposed)})
			continue
		}
		if one.decision.Action != workspace.Keep {
			r.was.Rebased.Taken = append(r.was.Rebased.Taken, text.EncodePath(one.path))
		}
		changed[one.path] = one.proposed
		if one.proposed.Kind == tree.File {
			kept = append(kept, one.proposed)
		}
	}
	if err := r.p.dir.KeepFrom(ctx, at.root, kept...); err != nil {
		return problem(err)
	}
	if r.was.Rebased.Batch, err = r.copy.root.Stage(ctx, r.area, g.id, g.intents, tree.Conditions{}); err != nil {
		return problem(err)
	}
	m := base.With(changed)
	w := r.was.Workspace
	w.Base.Rev, w.Base.Digest, w.Base.At, w.Base.After = w.NextBase(), m.Digest(), r.s.cfg.Now(), after
	r.was.Rebased.Base = w.Base
	about, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return problem(r.p.dir.Write(w.Base.Rev, tree.Record{About: about, Manifest: m}))
}

// openCopy opens the working copy for a rebase. Only one that lies where it was can be rebased.
func (r *resumption) openCopy() (err error) {
	if r.restore || r.was.Aside != "" {
		return operation.Refuse(operation.ArgumentInvalid, "rebase is for a workspace that was suspended; this one is brought back first").With("state", r.p.State)
	}
	r.copy, err = r.s.copy(r.p)
	return err
}

// rebaseOn ends a rebase that an earlier daemon has begun. What cannot be decided is no refusal.
func (r *resumption) rebaseOn(ctx context.Context) error {
	at, err := r.s.ofProject(ctx, r.p.Workspace.Project)
	if err != nil {
		return undecided(err)
	}
	defer at.close()
	r.copy, err = r.s.copy(packet{Workspace: r.p.Workspace, Admission: session.Admission{Project: at.Project}, dir: tree.Packet{Dir: r.p.Dir}})
	if err != nil {
		return undecided(err)
	}
	o, err := r.copy.root.Recover(ctx, r.area, r.was.Rebased.Batch, r.s.watched(ctx, r.t, r.was.Rebased.Batch, tree.Conditions{}))
	if err != nil {
		return undecided(err)
	}
	return notApplied(o)
}

// unstage clears away what was staged for a resumption that never began.
func (r *resumption) unstage(ctx context.Context) error {
	if r.t.op.Project == "" {
		return nil
	}
	at, err := r.s.ofProject(ctx, r.t.op.Project)
	if err != nil {
		return err
	}
	defer at.close()
	if r.area, err = at.root.Area(r.s.cfg.State); err != nil {
		return err
	}
	return r.area.Discard(batchID(r.t.op))
}
