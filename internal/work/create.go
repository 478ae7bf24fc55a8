package work

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"

	"mcpx/internal/crash"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/ignore"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// CreateWorkspace are the arguments of create_agent_workspace.
type CreateWorkspace struct {
	ID
	Claims
	Session   string   `json:"remote_session_id,omitempty" jsonschema:"the session; without it name the project"`
	Project   string   `json:"project,omitempty" jsonschema:"instead of a session: name, id or path"`
	Purpose   string   `json:"purpose" jsonschema:"what the work is for"`
	Mutable   []string `json:"mutable" jsonschema:"paths, or globs of directories, that may be changed; . is all"`
	Read      []string `json:"read,omitempty" jsonschema:"what else is copied; the whole project without it"`
	Excludes  []string `json:"excludes,omitempty" jsonschema:"globs of what is not copied"`
	OnOverlap string   `json:"on_overlap,omitempty" jsonschema:"refuse or allow; refuse without it"`
	Base      string   `json:"base,omitempty" jsonschema:"a build to begin with"`
	HardLinks string   `json:"hardlinks,omitempty" jsonschema:"break: a file's other names keep the old bytes"`
	Confirm   bool     `json:"confirm,omitempty" jsonschema:"yes to a copy of more than 2 GB"`
	Distinct  string   `json:"distinct_from,omitempty" jsonschema:"operation it does not repeat"`
}

// Bounds of a workspace.
const (
	maxPurpose     = 500     // bytes
	maxMutable     = 100     // each is compared with those of all others
	maxGlobs       = 100     // of excludes
	copyUnasked    = 2 << 30 // bytes that are copied without confirm (durable-work.md section 3)
	maxLeftOut     = 50      // paths that an answer names
	noPathsMatched = "no directory fits %q"
)

// creation is a workspace that is being made.
type creation struct {
	s       *Service
	t       *turn
	in      CreateWorkspace
	at      *target
	area    *tree.Area
	w       workspace.Workspace
	whole   workspace.Scope // the project
	exclude ignore.Globs
	build   *workspace.Generation // whose outputs are a part of BASE; nil: none are
}

// created is the answer of create_agent_workspace.
type created struct {
	ID      string           `json:"workspace_id"`
	Path    string           `json:"path"`
	Mutable []string         `json:"mutable"`
	Base    string           `json:"base_snapshot"`
	Build   string           `json:"build_id,omitempty"` // whose outputs are a part of BASE
	Files   int              `json:"files"`
	Bytes   int64            `json:"bytes"`
	Method  string           `json:"copy_method"`
	Skipped []workspace.Left `json:"skipped"`
	Aliases []workspace.Left `json:"aliases"`
	More    int              `json:"more_left_out,omitempty"`
}

func beginCreate(ctx context.Context, s *Service, t *turn) (effect, error) {
	var in CreateWorkspace
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if err := s.repeated(ctx, t, in.Distinct); err != nil {
		return nil, err
	}
	a, err := s.projectOf(ctx, t, in.Project)
	if err != nil {
		return nil, err
	}
	s.cleared(ctx, s.abandonPartial(ctx, t.op.Name)) // what an attempt could not clear away, such as on a full disk, holds its scope
	x, err := s.open(a)
	if err != nil {
		return nil, err
	}
	c := &creation{s: s, t: t, in: in, at: x}
	if err := c.plan(ctx); err != nil {
		c.close()
		return nil, problem(err)
	}
	return c, nil
}

func (in CreateWorkspace) check() error {
	switch {
	case in.Purpose == "" || len(in.Purpose) > maxPurpose:
		return operation.Refuse(operation.ArgumentInvalid, "purpose has 1 to %d bytes", maxPurpose)
	case len(in.Mutable) == 0 || len(in.Mutable) > maxMutable:
		return operation.Refuse(operation.LimitExceeded, "mutable has 1 to %d paths", maxMutable).With("limit", maxMutable).With("value", len(in.Mutable))
	case len(in.Excludes) > maxGlobs || len(in.Read) > maxMutable:
		return operation.Refuse(operation.LimitExceeded, "read and excludes have at most %d paths", maxGlobs).With("limit", maxGlobs)
	case in.OnOverlap != "" && in.OnOverlap != string(workspace.RefuseOverlap) && in.OnOverlap != string(workspace.AllowOverlap):
		return operation.Refuse(operation.ArgumentInvalid, "%.32q is no on_overlap; refuse and allow are", in.OnOverlap)
	case in.HardLinks != "" && in.HardLinks != "break":
		return operation.Refuse(operation.ArgumentInvalid, "%.32q is no hardlinks; break is", in.HardLinks)
	}
	return nil
}

// projectOf is the project of a call that changes something: that of its session, or the one that it names.
func (s *Service) projectOf(ctx context.Context, t *turn, project string) (a session.Admission, err error) {
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		if project != "" && t.text("remote_session_id") == "" {
			a, err = session.AdmitProject(ctx, r, session.AdmitProjectRequest{Project: project, Principal: t.Principal, Act: session.ActChange})
			return err
		}
		if a, err = s.locate(ctx, r, t, project, session.ActChange); err != nil {
			return err
		}
		if found, ok := session.FindProject([]session.Project{a.Project}, project); project != "" && (!ok || found.ID != a.Project.ID) {
			return session.UnknownProject(project)
		}
		return nil
	})
	t.op.Project, t.op.Session = a.Project.ID, a.Session.ID
	return a, err
}

// plan resolves the scope, and says where the copy will be.
func (c *creation) plan(ctx context.Context) (err error) {
	if err := c.at.root.Changeable(); err != nil {
		return err
	}
	if c.exclude, err = ignore.ParseGlobs(c.in.Excludes); err != nil {
		return operation.Refuse(operation.ArgumentInvalid, "excludes: %s", err)
	}
	now := c.s.cfg.Now()
	c.w = workspace.Workspace{
		ID: c.s.cfg.IDs.New(id.Workspace), Rev: 1, Principal: c.t.Principal, Project: c.at.Project.ID, Session: c.at.Session.ID, By: c.t.op.Name,
		Purpose: c.s.cfg.Redact(c.in.Purpose), State: workspace.Creating, Excludes: c.in.Excludes, Overlap: workspace.RefuseOverlap, Break: c.in.HardLinks == "break",
		Created: now, Changed: now,
	}
	if c.in.OnOverlap != "" {
		c.w.Overlap = workspace.Overlap(c.in.OnOverlap)
	}
	if err := c.from(ctx); err != nil {
		return err
	}
	if c.w.Mutable, err = c.s.scopes(ctx, c.at, c.in.Mutable); err != nil {
		return err
	}
	if c.whole, err = c.at.root.Scope("."); err != nil {
		return err
	}
	if c.area, err = c.at.root.Area(c.s.cfg.State); err != nil {
		return err
	}
	c.w.Dir = c.area.Packet(c.w.ID).Dir
	return nil
}

// scopes says what paths and globs of directories physically are. What is within another one is left out.
func (s *Service) scopes(ctx context.Context, x *target, given []string) ([]workspace.Scope, error) {
	var all []workspace.Scope
	for _, one := range given {
		paths := []string{one}
		if strings.ContainsAny(one, "*?[{") {
			var err error
			if paths, err = directoriesLike(ctx, x, one); err != nil {
				return nil, err
			}
		}
		for _, p := range paths {
			scope, err := x.root.Scope(p)
			if err != nil {
				return nil, problem(err)
			}
			if x.root.Holds(scope.Path, s.cfg.Own) {
				return nil, operation.Refuse(workspace.OutsideProject, "%s holds a directory of mcpx itself", p).With("reason", "runtime_area").With("path", p)
			}
			all = append(all, scope)
		}
	}
	slices.SortFunc(all, func(a, b workspace.Scope) int { return walkOrder(a.Path, b.Path) })
	kept := all[:0]
	for _, scope := range all {
		if n := len(kept); n == 0 || !kept[n-1].Covers(scope) {
			kept = append(kept, scope)
		}
	}
	if len(kept) > maxMutable {
		return nil, operation.Refuse(operation.LimitExceeded, "mutable has at most %d paths", maxMutable).With("limit", maxMutable).With("value", len(kept))
	}
	return kept, nil
}

// directoriesLike are the directories that fit a glob.
func directoriesLike(ctx context.Context, x *target, glob string) (paths []string, err error) {
	globs, err := ignore.ParseGlobs([]string{glob})
	if err != nil {
		return nil, operation.Refuse(operation.ArgumentInvalid, "mutable: %s", err)
	}
	top, err := x.root.Resolve(".", tree.List)
	if err != nil {
		return nil, problem(err)
	}
	defer top.Close()
	err = top.Walk(ctx, tree.WalkOptions{Ignored: true}, func(v tree.Visit) error {
		if v.Kind == tree.Directory && path.Base(v.Path) != ".git" && globs.Fit(v.Path) {
			paths = append(paths, v.Path)
		}
		return nil
	})
	if err != nil {
		return nil, problem(err)
	}
	if len(paths) == 0 {
		return nil, operation.Refuse(operation.ArgumentInvalid, noPathsMatched, glob)
	}
	return paths, nil
}

// keep claims the scope with the operation, and opens the workspace at its end.
func (c *creation) keep(ctx context.Context, tx store.Tx, t *turn, a *operation.Answer) error {
	switch t.op.State {
	case operation.Claimed:
		if err := claim(ctx, tx, c.w); err != nil {
			return err
		}
		if err := undisturbed(ctx, tx, c.whole); err != nil {
			return err
		}
	case operation.Succeeded:
		var err error
		if c.w, err = c.w.To(workspace.Complete, ""); err != nil {
			return err
		}
		a.Handle = c.w.Handle().String()
		if err := c.s.tellWorkspace(ctx, tx, t, c.w, event.WorkspaceOpened, "a workspace: "+firstLine(c.w.Purpose), scopePaths(c.w)); err != nil {
			return err
		}
	case operation.Dispatched:
		if err := c.stillThere(ctx, tx); err != nil {
			return err
		}
		if err := undisturbed(ctx, tx, c.whole); err != nil {
			return err
		}
	case operation.Failed, operation.Unknown:
	}
	return tx.PutWorkspace(ctx, workspace.PutWorkspace{Workspace: c.w})
}

// claim refuses a workspace whose scope somebody holds.
func claim(ctx context.Context, r store.Reader, w workspace.Workspace) error {
	all, err := workspace.All(ctx, r, workspace.ListWorkspaces{States: workspace.Holds})
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(other workspace.Workspace) bool { return other.ID == w.ID })
	if holder, theirs, ours, held := workspace.Holder(all, w.Project, w.Mutable, w.Overlap); held {
		return workspace.Held(holder, theirs, ours)
	}
	return nil
}

// undisturbed refuses while work comes into the project: a BASE with a part of it would be the state of no instant that somebody wanted.
// It is asked before the project is read and after it: what began and ended in between has moved files that were copied. TREE_MOVED_DURING_COPY.
func undisturbed(ctx context.Context, r store.Reader, read ...workspace.Scope) error {
	all, err := workspace.All(ctx, r, workspace.ListWorkspaces{States: []workspace.State{workspace.Integrating}})
	for _, w := range all {
		if slices.ContainsFunc(w.Mutable, func(s workspace.Scope) bool {
			return slices.ContainsFunc(read, func(r workspace.Scope) bool { return workspace.Overlaps(r, s) })
		}) {
			return operation.Refuse(workspace.MovedDuringCopy, "the workspace %s is being integrated; a copy would have a part of that", w.ID).Retrying(fault.AfterWait).
				With("workspace_id", w.ID).Then(operation.Next{Tool: "workspace_status", Args: map[string]any{"handle": w.ID}, Why: "whether it is integrated"})
		}
	}
	return err
}

func scopePaths(w workspace.Workspace) []string {
	paths := make([]string, len(w.Mutable))
	for i, s := range w.Mutable {
		paths[i] = s.Path
	}
	return paths
}

// stage copies the project. Until it is complete, its caller may leave: what was copied is set aside then.
func (c *creation) stage(ctx context.Context) (any, error) {
	p := c.area.Packet(c.w.ID)
	if err := p.Make(); err != nil {
		return nil, problem(err)
	}
	after, err := c.s.lastIntegration(ctx)
	if err != nil {
		return nil, err
	}
	o := tree.CopyOptions{
		Skip: c.skip(ctx), Twice: c.mutable, Refuse: c.mutable, Each: func() { crash.Point("ws.copy.each") },
	}
	if !c.in.Confirm {
		o.Limit = copyUnasked
	}
	got, err := c.copied(ctx, p, o)
	if code := tree.CodeOf(err); code == tree.LimitExceeded || code == tree.SpecialFile || code == tree.Unsupported || code == tree.NotADirectory || codeIn(err) == workspace.BuildCorrupt {
		c.s.cleared(ctx, p.Clear()) // it would never become complete, and nobody has been told of it
	}
	if err != nil {
		return nil, copying(err)
	}
	c.w.Base = workspace.Copied{
		Rev: c.w.Rev, Digest: got.Manifest.Digest(), Files: got.Files, Bytes: got.Bytes, Method: "copy", At: c.s.cfg.Now(), After: after,
		Aliases: c.aliases(got),
	}
	if c.build != nil {
		c.w.Base.Build = c.build.ID
	}
	if got.Shared && got.Files > 0 {
		c.w.Base.Method = "reflink"
	}
	c.w.Base.Skipped = slices.DeleteFunc(lefts(got.Skipped), func(l workspace.Left) bool { return l.Why == notRead })
	if err := p.Note(got.Noted); err != nil {
		return nil, problem(err)
	}
	if err := c.describe(p, got.Manifest); err != nil {
		return nil, err
	}
	crash.Point("ws.copy.after")
	return c.w, nil
}

// describe writes what the directory says of itself, should its row be lost.
func (c *creation) describe(p tree.Packet, m tree.Manifest) error {
	about, err := json.Marshal(c.w)
	if err != nil {
		return err
	}
	return problem(p.Write(c.w.Base.Rev, tree.Record{About: about, Manifest: m}))
}

func (c *creation) mutable(path string) bool { return workspace.Inside(path, c.w.Mutable) }

// notRead says that something is not in the read set: that is told of nowhere.
const notRead = "not read"

// skip says what is left out of the copy: what is excluded, what is not to be read, and what no tool may read.
func (c *creation) skip(ctx context.Context) func(tree.Seen) string {
	wanted := append(slices.Clone(c.in.Read), scopePaths(c.w)...)
	return func(e tree.Seen) string {
		switch {
		case e.Path == conflictsDir: // of another tool, or of a workspace; in the copy it is that of ours
			return notRead
		case c.exclude.Fit(e.Path):
			return "excluded"
		case len(c.in.Read) > 0 && !slices.ContainsFunc(wanted, func(w string) bool {
			return workspace.Below(e.Path, path.Clean(w)) || workspace.Below(path.Clean(w), e.Path)
		}):
			return notRead
		case c.s.verdict(ctx, c.at, e, policy.AccessRead).Decision == policy.Deny:
			return "denied"
		}
		return ""
	}
}

// lefts are paths for people, a bounded number of them.
func lefts(all []tree.Skipped) []workspace.Left {
	out := []workspace.Left{}
	for _, s := range all {
		out = append(out, workspace.Left{Path: text.EncodePath(s.Path), Why: s.Why})
	}
	slices.SortFunc(out, func(a, b workspace.Left) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// copying is the refusal of a copy.
func copying(err error) error {
	p, ok := errors.AsType[*tree.Problem](err)
	switch {
	case ok && p.Code == tree.Moved:
		r := operation.Refuse(workspace.MovedDuringCopy, "%s", p.Message).Retrying(fault.AfterWait)
		r.Details = p.Details
		return r
	case ok && p.Code == tree.LimitExceeded:
		return operation.Refuse(workspace.ConfirmRequired, "more than 2 GB would be copied: exclude something, or say confirm").With("limit", copyUnasked)
	}
	return problem(err)
}

// drop sets aside what was copied, and frees the scope.
func (c *creation) drop() {
	ctx := context.Background()
	c.s.cleared(ctx, c.s.abandonCopy(ctx, c.w, c.t.op.Name))
}

func (c *creation) run(context.Context) (any, error) {
	crash.Point("ws.open.after")
	return c.answer(), nil
}

func (c *creation) answer() created {
	a := created{
		ID: c.w.ID, Path: c.w.Dir + "/tree", Mutable: scopePaths(c.w), Base: c.w.Base.Digest, Build: c.w.Base.Build, Files: c.w.Base.Files, Bytes: c.w.Base.Bytes, Method: c.w.Base.Method,
		Skipped: c.w.Base.Skipped, Aliases: c.w.Base.Aliases,
	}
	for _, list := range []*[]workspace.Left{&a.Skipped, &a.Aliases} {
		if over := len(*list) - maxLeftOut; over > 0 {
			*list = (*list)[:maxLeftOut]
			a.More += over
		}
	}
	return a
}

func (*creation) settle(context.Context) {}

func (c *creation) close() {
	if c.area != nil {
		_ = c.area.Close() // what was written to it is flushed
	}
	if c.at != nil {
		c.at.close()
	}
}

// recoverCreate finishes a workspace whose copy is complete, and sets aside one that is not.
func recoverCreate(ctx context.Context, s *Service, t *turn) (any, ending, error) {
	if t.op.State != operation.Claimed {
		w, err := evidenceOf[workspace.Workspace](t.op)
		if err != nil {
			return nil, nil, err
		}
		c := &creation{s: s, t: t, w: w}
		return c.answer(), c, nil
	}
	return nil, nil, undecided(s.abandonPartial(ctx, t.op.Name))
}
