package work

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// removal moves what a manifest names to the trash, once a person has said yes to exactly that. In a workspace nobody is
// asked.
type removal struct {
	s        *Service
	at       *target
	area     *tree.Area
	bin      *tree.Bin
	id       string
	manifest manifest
	asked    string // the latest question about it
	was      removalEvidence
}

// removalEvidence is what recovery and a restore need.
type removalEvidence struct {
	Manifest  string       `json:"manifest_id"`
	Project   string       `json:"project_id"`
	Workspace string       `json:"workspace_id,omitempty"` // as in manifest
	Batch     tree.Batch   `json:"batch"`
	Bin       tree.BinName `json:"bin"`
	At        time.Time    `json:"at"`
}

// removed is the answer of submit.
type removed struct {
	Manifest   string         `json:"manifest_id"`
	Moved      int            `json:"moved"`
	Bytes      int64          `json:"bytes"`
	Items      []removedItem  `json:"items"`
	Restorable bool           `json:"restorable"`
	Warnings   []tree.Warning `json:"warnings,omitempty"`
	Weak       string         `json:"cas,omitempty"`

	root string // of the project
}

// removedItem is one target and where it is now.
type removedItem struct {
	shownPath
	Trash tree.BinKind `json:"trash"`
	Where string       `json:"where"`
}

// beginRemoval walks all targets again: what is not as it was refuses the whole manifest.
func (s *Service) beginRemoval(ctx context.Context, t *turn, in RemoveFiles) (effect, error) {
	m, err := s.readManifest(ctx, t, in.Manifest)
	if err != nil {
		return nil, err
	}
	x, err := s.whereFrozen(ctx, t, m, session.ActChange)
	if err != nil {
		return nil, err
	}
	r := &removal{s: s, at: x, id: batchID(t.op), manifest: m}
	err = r.compare(ctx)
	if err == nil && m.Workspace == "" {
		err = s.cfg.DB.View(ctx, func(reader store.Reader) error {
			asked, err := lastAsked(ctx, reader, t.Principal, m.sum)
			r.asked = asked.ID
			return err
		})
	}
	if err != nil {
		x.close()
		return nil, problem(err)
	}
	return r, nil
}

// compare makes the manifest again and says how it differs.
func (r *removal) compare(ctx context.Context) error {
	room := &frozenRoom{}
	lists := map[string][]string{"added": {}, "changed": {}, "gone": {}}
	same := true
	for _, t := range r.manifest.Targets {
		_, now, err := r.s.frozenTarget(ctx, r.at, string(t.Path), room)
		if err != nil && tree.CodeOf(err) != tree.NotFound {
			return err
		}
		d := t.Tree.Compare(now)
		same = same && d.Same()
		for name, items := range map[string][]tree.RawPath{"added": d.Added, "changed": d.Changed, "gone": d.Gone} {
			for _, i := range items {
				if len(lists[name]) < maxPreview {
					lists[name] = append(lists[name], text.EncodePath(t.at(i)))
				}
			}
		}
	}
	if same {
		return nil
	}
	refusal := operation.Refuse("MANIFEST_CHANGED", "what would be removed is not what was prepared; nothing was removed").
		Then(operation.Next{Tool: "remove_files", Args: map[string]any{"action": "status", "manifest_id": r.manifest.id}, Why: "what was prepared; then prepare it anew"})
	for name, paths := range lists {
		refusal = refusal.With(name, paths)
	}
	return refusal
}

func (r *removal) question() *Question {
	if r.at.workspace != nil {
		return nil
	}
	return &Question{Kind: approval.KindRemove, Subject: r.manifest.sum, Display: "the manifest " + r.manifest.id, Approval: r.asked}
}

func (r *removal) stage(ctx context.Context) (_ any, err error) {
	if r.area, err = r.at.root.Area(r.s.cfg.State); err != nil {
		return nil, problem(err)
	}
	var intents []tree.Intent
	for _, t := range r.manifest.Targets {
		intents = append(intents, tree.Intent{Kind: tree.Delete, Path: string(t.Path), Expect: t.Tree.Digest()})
	}
	batch, err := r.at.root.Stage(ctx, r.area, r.id, intents, r.s.conditions(ctx, r.at))
	if err != nil {
		return nil, problem(err)
	}
	if r.bin, err = r.at.root.Bin(r.area, r.s.bins()); err != nil {
		return nil, problem(err)
	}
	r.was = removalEvidence{Manifest: r.manifest.id, Project: r.at.Project.ID, Workspace: r.at.id(), Batch: batch, Bin: r.bin.BinName, At: r.s.cfg.Now()}
	return removeEvidence{Removed: &r.was}, nil
}

func (r *removal) drop() {
	if r.area != nil {
		_ = r.area.Discard(r.id) // what is left of it is found by the next start
	}
}

func (r *removal) run(ctx context.Context) (any, error) {
	o, err := r.at.root.Apply(ctx, r.area, r.was.Batch, r.s.conditions(ctx, r.at))
	if err != nil {
		return nil, undecided(err)
	}
	return r.end(ctx, o)
}

// end hands what was displaced over to the trash, and tells where it is.
func (r *removal) end(ctx context.Context, o tree.Outcome) (any, error) {
	if err := notApplied(o); err != nil {
		return nil, err
	}
	out := removed{Manifest: r.manifest.id, Bytes: r.manifest.summary().Bytes, Items: []removedItem{}, Restorable: true, Warnings: o.Warnings, Weak: weak(o), root: r.at.root.Path()}
	if err := r.empty(ctx); err != nil {
		return nil, err
	}
	for _, x := range r.was.Batch.Names() {
		bin := r.was.Bin
		if !r.bin.Has(x) {
			bin = r.area.Quarantine()
		}
		out.Items = append(out.Items, removedItem{shownPath: showPath(string(x.Path)), Trash: bin.Kind, Where: bin.Where(x)})
	}
	out.Moved = len(out.Items)
	return out, nil
}

// empty moves what was displaced to the trash. What that does not take goes to the quarantine, where nothing stands in the
// way.
func (r *removal) empty(ctx context.Context) error {
	err := r.at.root.Empty(ctx, r.area, r.was.Batch, r.bin, r.was.At)
	if err == nil {
		return nil
	}
	r.s.cleared(ctx, err)
	quarantine, err := r.area.OpenBin(r.area.Quarantine())
	if err == nil {
		err = errors.Join(r.at.root.Empty(ctx, r.area, r.was.Batch, quarantine, r.was.At), quarantine.Close())
	}
	if err != nil {
		return operation.Refuse(operation.OutcomeUnknown, "what was removed lies in %s, and could not be moved to the trash", r.area.Path()).
			Retrying(fault.Never).Ending(operation.OutcomeUnclear)
	}
	return nil
}

// keep raises the revision of the workspace that something was removed from.
func (r *removal) keep(ctx context.Context, tx store.Tx, t *turn, a *operation.Answer) error {
	return r.s.changed(ctx, tx, t, r.at, a)
}

func (r *removal) settle(ctx context.Context) {
	r.s.cleared(ctx, r.at.root.Finish(ctx, r.area, r.was.Batch))
}

func (r *removal) close() {
	if r.bin != nil {
		_ = r.bin.Close() // what was moved there is flushed
	}
	if r.area != nil {
		_ = r.area.Close() // as above
	}
	r.at.close()
}

func (s *Service) recoverRemoval(ctx context.Context, t *turn, was *removalEvidence) (any, ending, error) {
	in := ""
	if was != nil {
		in = was.Workspace
	}
	x, err := s.reopen(ctx, t.op.Project, in)
	if err != nil {
		return nil, nil, undecided(err)
	}
	r := &removal{s: s, at: x, id: batchID(t.op)}
	if r.area, err = x.root.Area(s.cfg.State); err != nil {
		return nil, r, undecided(err)
	}
	if was == nil || t.op.State == operation.Claimed {
		return nil, r, undecided(r.area.Discard(r.id))
	}
	r.was = *was
	if r.manifest, err = s.readManifest(ctx, t, was.Manifest); err != nil {
		return nil, r, undecided(err)
	}
	if r.bin, err = r.area.OpenBin(was.Bin); err != nil {
		return nil, r, undecided(err)
	}
	o, err := r.applied(ctx)
	if err != nil {
		return nil, r, undecided(err)
	}
	data, err := r.end(ctx, o)
	return data, r, err
}

// applied carries the batch to its end. One of which something is in a bin has come there before: what it has displaced is
// not where the batch would look for it.
func (r *removal) applied(ctx context.Context) (tree.Outcome, error) {
	found, err := r.s.binned(r.at, r.was)
	if err != nil {
		return tree.Outcome{}, err
	}
	defer found.close()
	if slices.ContainsFunc(r.was.Batch.Names(), func(x tree.Binned) bool { return found.of(x) != nil }) {
		return tree.Outcome{State: tree.Applied}, nil
	}
	return r.at.root.Recover(ctx, r.area, r.was.Batch, tree.Conditions{})
}

// submitted finds the operation that has removed what a manifest names, and what is known of it. Where a person was asked, the
// yes names it.
func (s *Service) submitted(ctx context.Context, t *turn, m manifest) (asked approval.Approval, by *operation.Operation, was *removalEvidence, err error) {
	if m.Workspace != "" {
		by, was, err = s.removedUnasked(ctx, t, m)
		return asked, by, was, err
	}
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		asked, err = lastAsked(ctx, r, t.Principal, m.sum)
		if err != nil || asked.Consumer == "" {
			return err
		}
		o, err := r.OperationByName(ctx, operation.ByName{Name: operation.Name{Namespace: t.Principal, ID: asked.Consumer}})
		if fault.KindOf(err) == fault.NotFound {
			return nil
		}
		by = &o
		return err
	})
	if err != nil || by == nil || by.State != operation.Succeeded {
		return asked, by, nil, err
	}
	var e removeEvidence
	if err := json.Unmarshal(by.Evidence, &e); err != nil {
		return asked, by, nil, err
	}
	return asked, by, e.Removed, nil
}

// removedUnasked is submitted where nobody was asked: the newest removal of that manifest, which is younger than it.
func (s *Service) removedUnasked(ctx context.Context, t *turn, m manifest) (by *operation.Operation, was *removalEvidence, err error) {
	err = s.cfg.DB.View(ctx, func(r store.Reader) error {
		for o, err := range operation.Each(ctx, r, operation.ListOperations{Namespace: t.Principal, States: []operation.State{operation.Succeeded}}) {
			if err != nil || o.Claimed.Before(m.made) {
				return err
			}
			var e removeEvidence
			if o.Tool == t.Tool && json.Unmarshal(o.Evidence, &e) == nil && e.Removed != nil && e.Removed.Manifest == m.id {
				by, was = &o, e.Removed
				return nil
			}
		}
		return nil
	})
	return by, was, err
}

// removalStatus is the answer of status.
type removalStatus struct {
	prepared
	State      approval.State `json:"approval,omitempty"` // "" nobody is asked
	Approval   string         `json:"approval_id,omitempty"`
	Operation  string         `json:"removed_by,omitempty"`
	Items      []removedItem  `json:"items,omitempty"`
	Restorable bool           `json:"restorable"`
}

func removeStatus(ctx context.Context, s *Service, t *turn) (any, error) {
	var in RemoveFiles
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	m, err := s.readManifest(ctx, t, in.Manifest)
	if err != nil {
		return nil, err
	}
	asked, by, was, err := s.submitted(ctx, t, m)
	if err != nil {
		return nil, err
	}
	out := removalStatus{prepared: m.summary()}
	if asked.ID != "" {
		now, _ := approval.Expire(asked, s.cfg.Now())
		out.State, out.Approval = now.State, asked.ID
	}
	if by != nil {
		out.Operation = by.ID
	}
	if was == nil {
		return out, nil
	}
	x, err := s.whereFrozen(ctx, t, m, session.ActRead)
	if codeIn(err) == workspace.WrongState { // the workspace is gone, and what was removed in it with it
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	defer x.close()
	found, err := s.binned(x, *was)
	if err != nil {
		return nil, err
	}
	defer found.close()
	for _, b := range was.Batch.Names() {
		if bin := found.of(b); bin != nil {
			out.Items = append(out.Items, removedItem{shownPath: showPath(string(b.Path)), Trash: bin.Kind, Where: bin.Where(b)})
		}
	}
	out.Restorable = len(out.Items) > 0
	return out, nil
}

// binned are the bins that hold what a removal has moved.
type binned struct{ bins []*tree.Bin }

func (s *Service) binned(x *target, was removalEvidence) (*binned, error) {
	area, err := x.root.Area(s.cfg.State)
	if err != nil {
		return nil, problem(err)
	}
	defer area.Close()
	out := &binned{}
	for _, name := range []tree.BinName{was.Bin, area.Quarantine()} {
		bin, err := area.OpenBin(name)
		if err != nil {
			out.close()
			return nil, problem(err)
		}
		out.bins = append(out.bins, bin)
	}
	return out, nil
}

// of is the bin that has something; nil: none has it any more.
func (b *binned) of(x tree.Binned) *tree.Bin {
	if i := slices.IndexFunc(b.bins, func(bin *tree.Bin) bool { return bin.Has(x) }); i >= 0 {
		return b.bins[i]
	}
	return nil
}

func (b *binned) close() {
	for _, bin := range b.bins {
		_ = bin.Close() // what was moved is flushed
	}
}
