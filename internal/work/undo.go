package work

import (
	"context"
	"encoding/json"
	"io/fs"
	"slices"
	"strings"

	"mcpx/internal/approval"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// undo takes the last integration of a workspace back that stands. It is a file transaction like that integration: it is carried
// out as a whole, and only over what that has put there.
type undo struct {
	integration
	of     workspace.Integration
	back   tree.Reversal
	before *tree.Manifest // BASE afterwards; nil: it stays as it is
}

var _ asking = (*undo)(nil)

func undoes(t *turn) bool { return t.text("mode") == "undo" }

func beginUndo(ctx context.Context, s *Service, t *turn) (effect, error) {
	var in IntegrateWorkspace
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if len(in.Seen)+len(in.Accept) > 0 || in.KeepOpen || in.Preserve || in.Build+in.Audit != "" {
		return nil, operation.Refuse(operation.ArgumentInvalid, "undo takes a handle and a message, and nothing else")
	}
	p, err := s.packet(ctx, t, in.Handle, session.ActChange)
	if err != nil {
		return nil, err
	}
	u := &undo{integration: integration{s: s, t: t, in: in, p: p, id: batchID(t.op)}}
	if u.release, err = s.whole(ctx, p, append(workspace.From(workspace.Undo), workspace.Retired)...); err != nil {
		return nil, err
	}
	if err := u.plan(ctx); err != nil {
		u.close()
		return nil, problem(err)
	}
	return u, nil
}

// plan looks at what the integration has come to.
func (u *undo) plan(ctx context.Context) (err error) {
	if u.at, err = u.s.open(u.p.Admission); err != nil {
		return err
	}
	if err := u.at.root.Changeable(); err != nil {
		return err
	}
	if why := u.repositoryBusy(); why != "" {
		return busyRepository(why)
	}
	was, err := u.standing(ctx)
	if err != nil {
		return err
	}
	if u.area, err = u.at.root.Area(u.s.cfg.State); err != nil {
		return err
	}
	if u.back, err = u.at.root.Reverse(ctx, u.area, was.Batch); tree.CodeOf(err) == tree.NotFound {
		return u.expired()
	} else if err != nil {
		return err
	}
	if moved := u.back.Moved; len(moved) > 0 {
		paths := make([]string, len(moved))
		for i, path := range moved {
			paths[i] = text.EncodePath(string(path))
		}
		slices.Sort(paths)
		shown, more := firstOf(paths, maxChanges)
		return operation.Refuse(workspace.CanonicalMoved, "%d paths were changed since %s; nothing was taken back", len(moved), u.of.ID).With("paths", shown).With("more", more)
	}
	return u.decide(ctx, was)
}

// standing finds the last integration of the workspace that was not taken back, and its journal.
func (u *undo) standing(ctx context.Context) (was integrateEvidence, err error) {
	var o operation.Operation
	err = u.s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		var stands bool
		if u.of, stands, err = workspace.LastStanding(ctx, r, u.p.Workspace); err != nil {
			return err
		}
		if !stands {
			return operation.Refuse(workspace.WrongState, "there is no integration of %s that could be taken back", u.p.ID).With("state", u.p.State)
		}
		o, err = r.OperationByName(ctx, operation.ByName{Name: operation.Name{Namespace: u.of.By(u.p.Workspace), ID: u.of.Operation}})
		return err
	})
	if err != nil {
		return was, err
	}
	if o.Evidence == nil || !o.Purged.IsZero() {
		return was, u.expired()
	}
	return evidenceOf[integrateEvidence](o)
}

func (u *undo) expired() error {
	return operation.Refuse(operation.ResultExpired, "what %s has displaced is not kept any more", u.of.ID).Retrying(fault.Never)
}

// decide asks the policy about each path, and says what the workspace is afterwards. One that went on from a snapshot of before the
// integration has a BASE of before already.
func (u *undo) decide(ctx context.Context, was integrateEvidence) error {
	u.was = integrateEvidence{
		Workspace: u.p.ID, Project: u.p.Workspace.Project, Undoes: u.of.ID, From: u.p.State, Before: u.p.Base, Base: u.p.Base, Message: u.s.cfg.Redact(u.in.Message),
		Answer: integrated{Undone: u.of.ID, Applied: []appliedPath{}, Merged: []string{}, Conflicts: []conflictShown{}},
	}
	kept, err := u.kept()
	if err != nil {
		return err
	}
	if kept && was.Before.Rev > 0 && u.p.Base.Rev >= was.Base.Rev {
		if err := u.baseAfter(was); err != nil {
			return err
		}
	}
	slices.SortFunc(u.back.Intents, func(a, b tree.Intent) int { return walkOrder(a.Path, b.Path) })
	a := &u.was.Answer
	for _, in := range u.back.Intents {
		if err := u.allowed(ctx, pathPlan{change: change{path: in.Path}, current: tree.Item{Kind: kindAt(in)}}); err != nil {
			return err
		}
		if len(u.was.Paths) < workspace.MaxPaths {
			u.was.Paths = append(u.was.Paths, in.Path)
		}
		if len(a.Applied) == maxChanges {
			a.More++
			continue
		}
		a.Applied = append(a.Applied, appliedPath{showPath(in.Path), intentWords[in.Kind]})
	}
	return nil
}

// kept says whether there is a copy of the workspace that goes on with its work. Of one that was removed it is its directory in the
// trash, or its snapshot when that is being cleared; one whose directory was lost may have none.
func (u *undo) kept() (bool, error) {
	if u.p.State != workspace.Retired {
		return true, nil
	}
	there, err := u.p.dir.Exists()
	if err != nil {
		return false, problem(err)
	}
	if there && u.p.Cleared.IsZero() {
		return true, nil
	}
	u.p.dir = u.area.Snapshot(u.p.Snapshot)
	return u.p.Snapshot != "" && u.p.SnapshotBase().Rev == u.p.Base.Rev, nil
}

// baseAfter computes the BASE of afterwards: the one from before the integration. Of one that has moved since, by a rebase, only what is
// taken back goes back: the bytes of then are still among those of BASE.
func (u *undo) baseAfter(was integrateEvidence) error {
	m, err := baseIn(u.p.dir, was.Before)
	if err != nil {
		return err
	}
	u.was.Base = was.Before
	if u.p.Base.Digest != was.Base.Digest {
		now, err := u.p.base()
		if err != nil {
			return err
		}
		before := map[string]tree.Item{}
		for _, in := range u.back.Intents {
			before[in.Path] = m.Find(in.Path)
		}
		m = now.With(before)
		u.was.Base = u.p.Base
		u.was.Base.Digest = m.Digest()
	}
	u.before = &m
	u.was.Base.Rev = u.p.NextBase()
	return nil
}

// kindAt is what an intent finds under its path.
func kindAt(in tree.Intent) tree.Kind {
	switch in.Kind {
	case tree.Add, tree.Mkdir:
		return tree.Absent
	case tree.Rmdir:
		return tree.Directory
	case tree.Replace, tree.Rename, tree.SetMode, tree.Delete:
	}
	return tree.File
}

// intentWords say what an intent does to a path, as changes are told.
var intentWords = map[tree.ChangeKind]string{
	tree.Mkdir: "added", tree.Add: "added", tree.Replace: "modified", tree.SetMode: "mode", tree.Delete: "deleted", tree.Rmdir: "deleted",
}

// question asks a person as an integration does. The bytes that come back are those that it has displaced.
func (u *undo) question() *Question {
	if len(u.reasons) == 0 {
		return nil
	}
	type frozen struct {
		Kind   tree.ChangeKind
		Path   string
		Expect string
		Mode   fs.FileMode
	}
	var all []frozen
	var names strings.Builder
	for _, in := range u.back.Intents {
		all = append(all, frozen{in.Kind, in.Path, in.Expect, in.Mode})
		names.WriteString(intentWords[in.Kind] + " " + text.EncodePath(in.Path) + "\n")
	}
	raw, err := json.Marshal(all)
	if err != nil {
		panic("work: a record of texts cannot be written: " + err.Error())
	}
	return &Question{
		Kind: approval.KindFileWrite, Subject: digest(append([]byte("mcpx undo 1\n"+u.of.ID+"\n"), raw...)), Reasons: few(u.reasons, maxReasons),
		Display: "takes " + u.of.ID + " back: " + firstLine(u.p.Purpose) + "\n" + names.String(),
	}
}

func (u *undo) stage(ctx context.Context) (any, error) {
	u.was.Answer.ID = u.s.cfg.IDs.New(id.Integration)
	var err error
	if u.was.Batch, err = u.at.root.Stage(ctx, u.area, u.id, u.back.Intents, u.s.conditions(ctx, u.at)); err != nil || u.before == nil {
		return u.was, problem(err)
	}
	u.p.Base = u.was.Base
	about, err := json.Marshal(u.p.Workspace)
	if err != nil {
		return nil, err
	}
	if err := u.p.dir.Write(u.p.Base.Rev, tree.Record{About: about, Manifest: *u.before}); err != nil {
		return nil, problem(err)
	}
	if u.p.State == workspace.Retired { // what only the project had is work again, and has to be found
		u.was.Answer.Preserved, err = u.s.preserve(ctx, u.p)
	}
	return u.was, err
}
