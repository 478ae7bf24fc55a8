package work

import (
	"context"
	"slices"
	"strings"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/ignore"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// SuspendWorkspace are the arguments of suspend_workspace.
type SuspendWorkspace struct {
	ID
	Claims
	Session string `json:"remote_session_id,omitempty" jsonschema:"the session"`
	Handle  string `json:"handle" jsonschema:"the present handle"`
	Reason  string `json:"reason" jsonschema:"why, for whoever goes on"`
}

// AmendScope are the arguments of amend_workspace_scope.
type AmendScope struct {
	ID
	Claims
	Session string   `json:"remote_session_id,omitempty" jsonschema:"the session"`
	Handle  string   `json:"handle" jsonschema:"the present handle"`
	Add     []string `json:"add,omitempty" jsonschema:"paths that may be changed, too"`
	Remove  []string `json:"remove,omitempty" jsonschema:"paths that may not be changed any more"`
}

// revision is a change of nothing but the row of a workspace.
type revision struct {
	s       *Service
	p       packet
	release func()
	event   workspace.Event
	why     string
	kind    event.Kind
	summary string
	scope   []workspace.Scope // that it has from now on; nil: the same
	was     []workspace.Scope // and had before
}

// revisionEvidence is what recovery needs of a change of the scope: the claims are made when it is dispatched.
type revisionEvidence struct {
	Workspace string            `json:"workspace_id"`
	Scope     []workspace.Scope `json:"scope,omitempty"`
	Was       []workspace.Scope `json:"was,omitempty"`
}

func beginSuspend(ctx context.Context, s *Service, t *turn) (effect, error) {
	var in SuspendWorkspace
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if in.Reason == "" || len(in.Reason) > maxPurpose {
		return nil, operation.Refuse(operation.ArgumentInvalid, "reason has 1 to %d bytes", maxPurpose)
	}
	why := s.cfg.Redact(in.Reason)
	r := &revision{s: s, event: workspace.Suspend, why: why, kind: event.WorkspaceSuspended, summary: "a workspace was put aside: " + firstLine(why)}
	return r, r.take(ctx, t, in.Handle)
}

// take leases the workspace.
func (r *revision) take(ctx context.Context, t *turn, handle string) (err error) {
	if r.p, err = r.s.packet(ctx, t, handle, session.ActChange); err != nil {
		return err
	}
	r.release, err = r.s.whole(ctx, r.p, workspace.From(r.event)...)
	return err
}

func beginAmend(ctx context.Context, s *Service, t *turn) (effect, error) {
	var in AmendScope
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	r := amendment(s)
	if err := r.take(ctx, t, in.Handle); err != nil {
		return nil, err
	}
	if err := r.amend(ctx, in); err != nil {
		r.close()
		return nil, problem(err)
	}
	return r, nil
}

func amendment(s *Service) *revision {
	return &revision{s: s, event: workspace.Amend, kind: event.WorkspaceScoped, summary: "the scope of a workspace was changed"}
}

// amend computes the new scope, and keeps the bytes of BASE that it needs from now on.
func (r *revision) amend(ctx context.Context, in AmendScope) error {
	x, err := r.s.open(r.p.Admission)
	if err != nil {
		return err
	}
	defer x.close()
	added, err := r.s.scopes(ctx, x, in.Add)
	if err != nil {
		return err
	}
	scope := slices.DeleteFunc(slices.Clone(r.p.Mutable), func(one workspace.Scope) bool { return slices.Contains(in.Remove, one.Path) })
	if len(scope)+len(in.Remove) != len(r.p.Mutable) {
		return operation.Refuse(operation.ArgumentInvalid, "remove names paths of the scope").With("mutable", scopePaths(r.p.Workspace))
	}
	for _, one := range added {
		if !slices.ContainsFunc(scope, func(s workspace.Scope) bool { return s.Covers(one) }) {
			scope = append(scope, one)
		}
	}
	if len(scope) == 0 || len(scope) > maxMutable {
		return operation.Refuse(operation.LimitExceeded, "the scope has 1 to %d paths", maxMutable).With("limit", maxMutable)
	}
	base, err := r.p.base()
	if err != nil {
		return err
	}
	if err := r.keepBase(ctx, base, added); err != nil {
		return err
	}
	r.scope, r.was = scope, r.p.Mutable
	return nil
}

// keepBase keeps the bytes of BASE that come into the scope, which are those of the working copy. What has changed there already has
// none: it is a conflict, should the project change it, too.
func (r *revision) keepBase(ctx context.Context, base tree.Manifest, added []workspace.Scope) error {
	if len(added) == 0 {
		return nil
	}
	x, err := r.s.copy(r.p)
	if err != nil {
		return err
	}
	defer x.close()
	now, err := proposed(ctx, r.p, x)
	if err != nil {
		return err
	}
	var files []tree.Item
	for _, i := range base.Items {
		if path := string(i.Path); i.Kind == tree.File && workspace.Inside(path, added) && now.Find(path).Digest == i.Digest {
			files = append(files, i)
		}
	}
	return problem(r.p.dir.Keep(ctx, files...))
}

// change is the workspace as it is afterwards.
func (r *revision) change(w *workspace.Workspace) (err error) {
	if r.scope != nil {
		w.Mutable = r.scope
	}
	*w, err = w.To(r.event, r.why)
	return err
}

func (r *revision) stage(context.Context) (any, error) {
	return revisionEvidence{r.p.ID, r.scope, r.was}, nil
}

func (*revision) drop() {}

func (r *revision) run(context.Context) (any, error) {
	w := r.p.Workspace
	if err := r.change(&w); err != nil {
		return nil, err
	}
	return struct {
		ID      string          `json:"workspace_id"`
		State   workspace.State `json:"state"`
		Mutable []string        `json:"mutable"`
	}{w.ID, w.State, scopePaths(w)}, nil
}

// keep writes another scope when it is dispatched: from then on nobody else claims what is in it.
func (r *revision) keep(ctx context.Context, tx store.Tx, t *turn, a *operation.Answer) error {
	if t.op.State == operation.Claimed {
		return nil
	}
	w, err := tx.WorkspaceByID(ctx, workspace.ByID{ID: r.p.ID})
	if err != nil {
		return err
	}
	switch t.op.State {
	case operation.Dispatched:
		if err := w.Exactly(r.p.given); err != nil {
			return err
		}
		now := w
		if err := r.change(&now); err != nil || r.scope == nil {
			return err
		}
		if err := claim(ctx, tx, now); err != nil {
			return err
		}
		return tx.PutWorkspace(ctx, workspace.PutWorkspace{Workspace: now})
	case operation.Succeeded:
		if w, err = r.s.revise(ctx, tx, t, w.ID, a, r.change); err != nil {
			return err
		}
		return r.s.tellWorkspace(ctx, tx, t, w, r.kind, r.summary, scopePaths(w))
	case operation.Failed:
		if r.was != nil {
			w.Mutable = r.was
			return tx.PutWorkspace(ctx, workspace.PutWorkspace{Workspace: w})
		}
	case operation.Claimed, operation.Unknown:
	}
	return nil
}

func (*revision) settle(context.Context) {}

func (r *revision) close() {
	if r.release != nil {
		r.release()
	}
}

// recoverRevision ends a change of the scope that was dispatched. Of everything else nothing happens but in the commit of the
// record, so what has none has not happened.
func recoverRevision(ctx context.Context, s *Service, t *turn) (any, ending, error) {
	if t.op.State == operation.Claimed {
		return nil, nil, nil
	}
	was, err := evidenceOf[revisionEvidence](t.op)
	if err != nil || was.Scope == nil {
		return nil, nil, errNotRun
	}
	r := amendment(s)
	r.scope, r.was = was.Scope, was.Was
	err = s.cfg.DB.View(ctx, func(rd store.Reader) (err error) {
		r.p.Workspace, err = rd.WorkspaceByID(ctx, workspace.ByID{ID: was.Workspace})
		return err
	})
	if err != nil {
		return nil, r, undecided(err)
	}
	data, err := r.run(ctx)
	return data, r, err
}

// ResumeWorkspace are the arguments of resume_workspace.
type ResumeWorkspace struct {
	ID
	Claims
	Session string `json:"remote_session_id,omitempty" jsonschema:"the session"`
	WS      string `json:"ws" jsonschema:"id of a workspace, or of a snapshot (snap_...)"`
	Rebase  bool   `json:"rebase,omitempty" jsonschema:"bring in what the project changed in the scope"`
}

// resumption is a workspace that goes on: as it lies, from the quarantine, or from its last snapshot.
type resumption struct {
	s       *Service
	t       *turn
	p       packet
	release func()
	area    *tree.Area
	restore bool    // from its snapshot
	made    bool    // the directory is our copy of that
	copy    *target // the working copy, when the project's changes are brought into it; nil: they are not
	was     resumeEvidence
}

// resumeEvidence is what recovery needs of a resumption.
type resumeEvidence struct {
	Workspace workspace.Workspace `json:"workspace"` // as it is resumed
	Aside     string              `json:"aside,omitempty"`
	Restored  string              `json:"restored,omitempty"` // the snapshot that its directory is a copy of
	Moved     []string            `json:"moved"`
	Rebased   *rebased            `json:"rebased,omitempty"`
}

// resumed is the answer of resume_workspace.
type resumed struct {
	ID       string   `json:"workspace_id"`
	Path     string   `json:"path"`
	Restored string   `json:"restored_from,omitempty"`
	Moved    []string `json:"moved"`
	More     int      `json:"more,omitempty"`
	// Of a rebase.
	Taken     []string        `json:"taken,omitempty"`
	Conflicts []conflictShown `json:"conflicts,omitempty"`
}

func beginResume(ctx context.Context, s *Service, t *turn) (effect, error) {
	var in ResumeWorkspace
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	ref, err := s.keptIn(ctx, t, in.WS)
	if err != nil {
		return nil, err
	}
	p, err := s.packet(ctx, t, ref, session.ActChange)
	if err != nil {
		return nil, err
	}
	if as, ok := p.AsIn(in.WS); ok {
		p.Workspace = as
	}
	r := &resumption{s: s, t: t, p: p}
	if r.release, err = s.leases.take(p.ID, true); err != nil {
		return nil, err
	}
	err = r.plan()
	if err == nil && in.Rebase {
		err = r.openCopy()
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// keptIn is the workspace that a snapshot is of.
func (s *Service) keptIn(ctx context.Context, t *turn, ref string) (string, error) {
	if !strings.HasPrefix(ref, "snap_") {
		return ref, nil
	}
	var all []workspace.Workspace
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		list := workspace.ListWorkspaces{Principal: t.Principal}
		if t.person {
			list.Principal = ""
		}
		all, err = workspace.All(ctx, r, list)
		return err
	})
	for _, w := range all {
		if _, ok := w.AsIn(ref); ok {
			return w.ID, err
		}
	}
	if err == nil {
		err = operation.Refuse(operation.NotFound, "there is no snapshot %.80s", ref)
	}
	return "", err
}

// plan says from what the workspace goes on.
func (r *resumption) plan() error {
	there, err := r.p.dir.Exists()
	if err != nil {
		return problem(err)
	}
	w := r.p.Workspace
	if lost, err := w.To(workspace.Lost, directoryGone); err == nil && !there { // while this daemon runs
		w = lost
	}
	switch {
	case (w.State == workspace.Suspended || w.State == workspace.Missing) && there: // one that was missing may have come back
	case w.State == workspace.Quarantined && there && w.Base.Rev > 0:
		r.was.Aside = w.Dir
	case w.Snapshot != "" && (w.State == workspace.Retired || w.State == workspace.Missing):
		r.restore = true
		w.Base = w.SnapshotBase()
		if w.State == workspace.Retired { // that one stays retired: another one goes on with its work
			w.ID, w.Rev, w.History, w.Earlier, w.By = r.s.cfg.IDs.New(id.Workspace), 0, nil, nil, r.t.op.Name
			w.Created = r.s.cfg.Now()
		}
	default:
		return operation.Refuse(workspace.WrongState, "the workspace is %s; what is suspended, or kept in a snapshot, can be resumed", w.State).With("state", w.State).With("path", w.Dir)
	}
	r.was.Workspace = w
	return nil
}

// stage copies the snapshot back where that is what is resumed from, and looks at what the project did meanwhile.
func (r *resumption) stage(ctx context.Context) (any, error) {
	var err error
	if r.area, err = r.s.areaAt(r.p.dir); r.p.State == workspace.Quarantined || r.p.State == workspace.Retired {
		r.area, err = r.s.areaAbove(ctx, r.p)
	}
	if err != nil {
		return nil, err
	}
	w := &r.was.Workspace
	from := r.p.dir
	if r.restore {
		r.was.Restored = w.Snapshot
		from = r.area.Snapshot(w.Snapshot)
		if _, err := baseIn(from, w.Base); err != nil { // what is kept of it cannot be compared with its BASE
			return nil, err
		}
		if w.Dir, err = r.copied(ctx, from); err != nil {
			return nil, err
		}
	}
	if r.was.Moved, err = r.moved(ctx, from); err == nil && r.copy != nil {
		err = problem(r.rebase(ctx))
	}
	return r.was, err
}

// copied makes the directory of the workspace from its snapshot: as a whole or not at all.
func (r *resumption) copied(ctx context.Context, from tree.Packet) (dir string, err error) {
	w := r.was.Workspace
	draft, to := r.area.SnapshotDraft(w.ID), r.area.Packet(w.ID)
	if err := draft.Clear(); err != nil { // of an attempt that was cut off
		return "", problem(err)
	}
	if _, err := from.Snapshot(ctx, draft); err != nil {
		r.s.cleared(ctx, draft.Clear())
		return "", copying(err)
	}
	if there, err := to.Exists(); there || err != nil {
		r.s.cleared(ctx, draft.Clear())
		if err != nil {
			return "", problem(err)
		}
		return "", operation.Refuse(operation.Exists, "the directory of the workspace is there again").With("path", to.Dir)
	}
	if err := draft.Become(to); err != nil {
		return "", problem(err)
	}
	r.made = true
	return to.Dir, nil
}

// areaAbove is the area of the project of a packet that was set aside.
func (s *Service) areaAbove(ctx context.Context, p packet) (*tree.Area, error) {
	x, err := s.ofProject(ctx, p.Workspace.Project)
	if err != nil {
		return nil, err
	}
	defer x.close()
	a, err := x.root.Area(s.cfg.State)
	return a, problem(err)
}

// moved are the paths in the scope that the project has changed since BASE.
func (r *resumption) moved(ctx context.Context, from tree.Packet) ([]string, error) {
	manifest, err := baseIn(from, r.was.Workspace.Base)
	if err != nil {
		return nil, err
	}
	x, err := r.s.open(r.p.Admission)
	if err != nil {
		return nil, err
	}
	defer x.close()
	now, err := current(ctx, x, r.was.Workspace)
	if err != nil {
		return nil, err
	}
	var base tree.Manifest
	for _, i := range manifest.Items {
		if workspace.Inside(string(i.Path), r.p.Mutable) {
			base.Items = append(base.Items, i)
		}
	}
	all, err := changes(r.p.Workspace, base, now)
	if err != nil {
		return nil, err
	}
	inside, _ := split(all)
	skipped := map[string]bool{}
	for _, l := range r.was.Workspace.Base.Skipped {
		skipped[l.Path] = true
	}
	paths := slices.DeleteFunc(pathsOf(inside), func(p string) bool { return skipped[p] })
	return paths, nil
}

// current is the manifest of what the project has in the scope of a workspace.
func current(ctx context.Context, x *target, w workspace.Workspace) (tree.Manifest, error) {
	excludes, err := ignore.ParseGlobs(w.Excludes)
	if err != nil {
		return tree.Manifest{}, err
	}
	skipped := map[string]bool{}
	for _, l := range w.Base.Skipped {
		skipped[l.Path] = true
	}
	m, err := x.root.Survey(ctx, tree.SurveyOptions{Skip: func(v tree.Visit) bool {
		around := slices.ContainsFunc(w.Mutable, func(s workspace.Scope) bool { return workspace.Below(s.Path, v.Path) })
		return !around && !workspace.Inside(v.Path, w.Mutable) || excludes.Fit(v.Path) || skipped[text.EncodePath(v.Path)]
	}})
	return m, problem(err)
}

func (r *resumption) drop() {
	if r.made {
		r.s.cleared(context.Background(), tree.Packet{Dir: r.was.Workspace.Dir}.Clear()) // our copy of a snapshot
	}
	if r.copy != nil && r.area != nil {
		_ = r.area.Discard(batchID(r.t.op)) // what is left of it is found by the next start
	}
}

// run brings back what lies in the quarantine, and brings in what the project did.
func (r *resumption) run(ctx context.Context) (any, error) {
	if r.was.Rebased != nil {
		o, err := r.copy.root.Apply(ctx, r.area, r.was.Rebased.Batch, r.s.watched(ctx, r.t, r.was.Rebased.Batch, tree.Conditions{}))
		if err != nil {
			return nil, undecided(err)
		}
		if err := notApplied(o); err != nil {
			return nil, err
		}
	}
	return r.back()
}

// back is the end of a resumption.
func (r *resumption) back() (any, error) {
	w := &r.was.Workspace
	if r.was.Aside != "" {
		to := r.area.Packet(w.ID)
		if err := moved(r.area, tree.Packet{Dir: r.was.Aside}, to); err != nil {
			return nil, problem(err)
		}
		w.Dir = to.Dir
	}
	paths, more := firstOf(r.was.Moved, maxChanges)
	a := resumed{ID: w.ID, Path: tree.Packet{Dir: w.Dir}.Copy(), Restored: r.was.Restored, Moved: append([]string{}, paths...), More: more}
	if b := r.was.Rebased; b != nil {
		a.Taken, _ = firstOf(b.Taken, maxChanges)
		a.Conflicts = b.Conflicts[:min(len(b.Conflicts), maxChanges)]
	}
	return a, nil
}

// keep claims the scope again, and opens the workspace at the end.
func (r *resumption) keep(ctx context.Context, tx store.Tx, t *turn, a *operation.Answer) error {
	w := r.was.Workspace
	switch t.op.State {
	case operation.Dispatched:
		if err := claim(ctx, tx, w); err != nil {
			return err
		}
		if r.was.Rebased != nil {
			if err := undisturbed(ctx, tx, w.Mutable...); err != nil {
				return err
			}
		}
		if now, err := tx.WorkspaceByID(ctx, workspace.ByID{ID: w.ID}); err == nil && now.Rev != w.Rev {
			return now.Exactly(w.Handle())
		} else if err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
		if w.ID != r.p.ID {
			w.State = workspace.Creating
			return tx.PutWorkspace(ctx, workspace.PutWorkspace{Workspace: w})
		}
		return r.s.moveTo(ctx, tx, w, workspace.Resume, "")
	case operation.Succeeded:
		w, err := r.s.revise(ctx, tx, t, w.ID, a, func(now *workspace.Workspace) (err error) {
			end := workspace.Resumed
			if now.State == workspace.Creating {
				end = workspace.Complete
			}
			now.Dir = w.Dir
			switch {
			case r.was.Restored != "":
				now.Base = w.Base
			case r.was.Rebased != nil:
				now.Base = r.was.Rebased.Base
			}
			*now, err = now.To(end, "")
			return err
		})
		if err != nil {
			return err
		}
		return r.s.tellWorkspace(ctx, tx, t, w, event.WorkspaceResumed, "a workspace goes on: "+firstLine(w.Purpose), r.was.Moved)
	case operation.Failed:
		now, err := tx.WorkspaceByID(ctx, workspace.ByID{ID: w.ID})
		if err != nil {
			return err
		}
		end := workspace.GoneWrong
		if now.State == workspace.Creating {
			end = workspace.NotCopied
		}
		return r.s.moveTo(ctx, tx, now, end, "")
	case operation.Claimed, operation.Unknown:
	}
	return nil
}

func (r *resumption) settle(ctx context.Context) {
	if r.was.Rebased != nil {
		r.s.cleared(ctx, r.copy.root.Finish(ctx, r.area, r.was.Rebased.Batch))
	}
}

func (r *resumption) close() {
	if r.area != nil {
		_ = r.area.Close() // what was moved in it is flushed
	}
	if r.copy != nil {
		r.copy.close()
	}
	if r.release != nil {
		r.release()
	}
}

// recoverResume ends a resumption that an earlier daemon has begun.
func recoverResume(ctx context.Context, s *Service, t *turn) (any, ending, error) {
	r := &resumption{s: s, t: t}
	var err error
	if t.op.State == operation.Claimed { // a copy that it made has no row, and is put into quarantine
		return nil, r, undecided(r.unstage(ctx))
	}
	if r.was, err = evidenceOf[resumeEvidence](t.op); err != nil {
		return nil, r, err
	}
	r.p.Workspace = r.was.Workspace
	if r.area, err = s.areaAbove(ctx, r.p); err != nil {
		return nil, r, undecided(err)
	}
	if r.was.Rebased != nil {
		if err := r.rebaseOn(ctx); err != nil {
			return nil, r, err
		}
	}
	data, err := r.back()
	return data, r, undecided(err)
}
