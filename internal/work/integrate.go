package work

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// IntegrateWorkspace are the arguments of integrate_agent_workspace.
type IntegrateWorkspace struct {
	ID
	Claims
	Session  string            `json:"remote_session_id,omitempty" jsonschema:"the session"`
	Handle   string            `json:"handle" jsonschema:"the present handle"`
	Mode     string            `json:"mode,omitempty" jsonschema:"plan (no operation_id), apply or undo; apply without it"`
	Seen     map[string]string `json:"seen_current,omitempty" jsonschema:"per resolved path: the current_sha256 of its conflict"`
	Accept   map[string]string `json:"accept,omitempty" jsonschema:"with seen_current: take current or proposed"`
	KeepOpen bool              `json:"keep_open,omitempty" jsonschema:"go on in the workspace afterwards"`
	Preserve bool              `json:"preserve_out_of_scope,omitempty" jsonschema:"keep changes outside of the scope in a snapshot"`
	Message  string            `json:"message,omitempty" jsonschema:"what the changes are"`
	Build    string            `json:"require_build,omitempty" jsonschema:"build that its outputs must equal"`
	Audit    string            `json:"require_audit,omitempty" jsonschema:"pass"`
}

// integrateTool is the name under which operations are kept that bring a workspace into its project.
const integrateTool = "integrate_agent_workspace"

func integratePlans(t *turn) bool { return t.text("mode") == "plan" }

// integration is the work of a workspace on its way into the project.
type integration struct {
	s       *Service
	t       *turn
	in      IntegrateWorkspace
	p       packet
	at      *target // the project
	copy    *target
	release func()
	area    *tree.Area
	id      string // of the batch

	base    tree.Manifest
	build   *workspace.Generation // that is required; nil: none is
	verdict string                // audit that has passed it, if that is required
	outside []change
	paths   []pathPlan
	intents []tree.Intent
	names   map[tree.ID]uint64   // in the scope, of files with several; nil: not counted yet
	split   []string             // files whose other names keep the old bytes
	seen    map[string]tree.Item // of directories of the project
	turned  map[string]bool      // directories of the workspace that take the place of something else
	reasons []string             // why a person has to be asked
	display string               // what he is asked about
	was     integrateEvidence
}

// pathPlan is what becomes of one path.
type pathPlan struct {
	change
	decision workspace.Decision
	current  tree.Item
	merged   *text.File
	marked   string // of a conflict: the text with both sides
	renamed  string // the name that it seems to have in the workspace
	theirs   string // and in the project
	within   bool   // it is a part of the change of a directory that takes the place of something else, or is that
}

// integrated is the answer of integrate_agent_workspace.
type integrated struct {
	ID        string          `json:"integration_id,omitempty"`
	Applied   []appliedPath   `json:"applied"`
	Merged    []string        `json:"merged"`
	Unchanged int             `json:"unchanged"`
	Conflicts []conflictShown `json:"conflicts"`
	Split     []string        `json:"split,omitempty"`     // hard links whose other names keep the old bytes
	Preserved string          `json:"preserved,omitempty"` // snapshot of what is outside of the scope, or of a removed workspace whose work was taken back
	Outside   []string        `json:"out_of_scope,omitempty"`
	More      int             `json:"more,omitempty"`
	Build     string          `json:"build_id,omitempty"` // that was required
	Audit     string          `json:"audit_id,omitempty"` // that has passed it
	Commit    string          `json:"suggested_commit_message,omitempty"`
	Git       *gitHead        `json:"git,omitempty"`
	Undone    string          `json:"undone,omitempty"` // the integration that was taken back
	Warnings  []tree.Warning  `json:"warnings,omitempty"`
	Weak      string          `json:"cas,omitempty"`
}

type appliedPath struct {
	shownPath
	Change string `json:"change"`
}

// conflictShown is a path that both sides changed. current_sha256 is what seen_current wants.
type conflictShown struct {
	shownPath
	Kind    workspace.Conflict `json:"kind"`
	Current string             `json:"current_sha256"`
	Bundle  string             `json:"bundle,omitempty"` // directory in the workspace
	Renamed string             `json:"renamed_to,omitempty"`
	Theirs  string             `json:"renamed_in_project,omitempty"`
}

// integrateEvidence is what recovery needs of an integration.
type integrateEvidence struct {
	Workspace string           `json:"workspace_id"`
	Project   string           `json:"project_id"`
	Batch     tree.Batch       `json:"batch"`
	Answer    integrated       `json:"answer"`
	Base      workspace.Copied `json:"base"`   // of the workspace afterwards
	Before    workspace.Copied `json:"before"` // of the workspace before
	KeepOpen  bool             `json:"keep_open"`
	Message   string           `json:"message,omitempty"`
	Paths     []string         `json:"paths"`
	// Of an undo: the integration that it takes back, and the state of the workspace before.
	Undoes string          `json:"undoes,omitempty"`
	From   workspace.State `json:"from,omitempty"`
}

// planIntegrate says what an integration would do.
func planIntegrate(ctx context.Context, s *Service, t *turn) (any, error) {
	g, err := s.planIntegration(ctx, t, session.ActRead)
	if err != nil {
		return nil, err
	}
	defer g.close()
	a := g.answer()
	for _, c := range g.outside {
		a.Outside = append(a.Outside, text.EncodePath(c.path))
	}
	for _, c := range g.clashes() {
		a.Conflicts = append(a.Conflicts, g.shown(c, ""))
	}
	return outcome{data: a, handle: g.p.Handle().String()}, nil
}

func beginIntegrate(ctx context.Context, s *Service, t *turn) (effect, error) {
	if undoes(t) {
		return beginUndo(ctx, s, t)
	}
	g, err := s.planIntegration(ctx, t, session.ActChange)
	if err != nil {
		return nil, err
	}
	if err := g.ready(ctx); err != nil {
		g.close()
		return nil, err
	}
	if len(g.reasons) > 0 {
		g.display = g.show(ctx)
	}
	return g, nil
}

func (s *Service) planIntegration(ctx context.Context, t *turn, act session.Act) (*integration, error) {
	var in IntegrateWorkspace
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if in.Mode != "" && in.Mode != "plan" && in.Mode != "apply" {
		return nil, operation.Refuse(operation.ArgumentInvalid, "%.32q is no mode; plan, apply and undo are", in.Mode)
	}
	shownPaths(in.Seen)
	shownPaths(in.Accept)
	for path, side := range in.Accept {
		if in.Seen[path] == "" || side != "current" && side != "proposed" {
			return nil, operation.Refuse(operation.ArgumentInvalid, "accept is current or proposed, and its path is in seen_current").With("path", path)
		}
	}
	p, err := s.packet(ctx, t, in.Handle, act)
	if err != nil {
		return nil, err
	}
	g := &integration{s: s, t: t, in: in, p: p, id: batchID(t.op), seen: map[string]tree.Item{}, turned: map[string]bool{}}
	if act == session.ActChange {
		if g.release, err = s.whole(ctx, p, workspace.Open, workspace.Suspended); err != nil {
			return nil, err
		}
	} else if err := p.In(workspace.Open, workspace.Suspended); err != nil {
		return nil, err
	}
	if err := g.plan(ctx); err != nil {
		g.close()
		return nil, problem(err)
	}
	return g, nil
}

func (g *integration) plan(ctx context.Context) (err error) {
	if g.at, err = g.s.open(g.p.Admission); err != nil {
		return err
	}
	if err := g.at.root.Changeable(); err != nil {
		return err
	}
	if g.copy, err = g.s.copy(g.p); err != nil {
		return err
	}
	base, all, err := g.s.diffOf(ctx, g.p, g.copy)
	if err != nil {
		return err
	}
	g.base = base
	inside, outside := split(all)
	g.outside = outside
	if err := g.planAll(ctx, inside, base); err != nil {
		return err
	}
	if err := g.required(ctx); err != nil {
		return err
	}
	g.renames(ctx)
	return nil
}

// planAll decides about changes, and says what becomes of their paths.
func (g *integration) planAll(ctx context.Context, all []change, was tree.Manifest) (err error) {
	for _, c := range all {
		one, err := g.decide(ctx, c, was)
		if err != nil {
			return err
		}
		g.paths = append(g.paths, one)
		g.turned[c.path] = one.turns()
	}
	for n, one := range g.paths {
		switch {
		case g.paths[n].within: // what is done to a directory around it is done to it
		case one.turns():
			err = g.turn(ctx, n)
		case one.decision.Action != workspace.Clash && one.decision.Action != workspace.Keep:
			err = g.intend(ctx, one)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decide compares a path with what the project has there now.
func (g *integration) decide(ctx context.Context, c change, base tree.Manifest) (pathPlan, error) {
	one := pathPlan{change: c}
	if c.proposed.Kind == tree.Other {
		return one, operation.Refuse("SPECIAL_FILE", "%s is no plain file", c.path).With("path", c.path)
	}
	var err error
	if one.current, err = g.at.root.Item(ctx, c.path); err != nil {
		return one, err
	}
	b, now, p := entryOf(c.base), entryOf(one.current), entryOf(c.proposed)
	if one.decision = workspace.Decide(b, now, p); one.decision.Action == workspace.Clash && now.Kind == workspace.Directory {
		if _, err := g.frozen(ctx, &one); err != nil {
			return one, err
		}
	}
	if now.Kind == workspace.Absent && p.Kind != workspace.Absent && one.decision.Action == workspace.Take {
		for dir := path.Dir(c.path); dir != "." && !g.turned[dir]; dir = path.Dir(dir) {
			there, err := g.directory(ctx, dir)
			if err != nil {
				return one, err
			}
			if why, clash := workspace.Under(entryOf(base.Find(dir)), entryOf(there)); clash {
				one.decision = workspace.Decision{Action: workspace.Clash, Conflict: why}
			}
		}
	}
	switch one.decision.Action {
	case workspace.Merge, workspace.Mix, workspace.Clash: // what the caller made of both sides comes before what we would
		g.resolve(&one)
	case workspace.Keep, workspace.Take:
	}
	if one.decision.Action == workspace.Merge {
		if err := g.merge(ctx, &one); err != nil {
			return one, err
		}
	}
	return one, nil
}

// directory is what the project has at the path of a directory, looked at once.
func (g *integration) directory(ctx context.Context, dir string) (tree.Item, error) {
	i, ok := g.seen[dir]
	if !ok {
		var err error
		if i, err = g.at.root.Item(ctx, dir); err != nil {
			return i, err
		}
		g.seen[dir] = i
	}
	return i, nil
}

// shownDigest is what callers know of what the project has under a path.
func shownDigest(i tree.Item) string {
	if i.Kind == tree.Absent {
		return string(tree.Absent)
	}
	return i.Digest
}

// resolve takes what a caller who has seen the project's side made of a conflict.
func (g *integration) resolve(one *pathPlan) {
	if g.in.Seen[one.path] == "" || g.in.Seen[one.path] != shownDigest(one.current) {
		return
	}
	one.decision = workspace.Decision{Action: workspace.Take}
	if g.in.Accept[one.path] == "current" || entryOf(one.current) == entryOf(one.proposed) {
		one.decision = workspace.Decision{Action: workspace.Keep}
	}
}

// unmerged are names of files whose lines mean nothing by themselves: a clean merge of them can be broken.
var unmerged = []string{".json", ".ipynb", ".lock", ".min.js", ".svg"}

// lockFiles are those that have no ending of their own.
var lockFiles = []string{"go.sum", "package-lock.json", "pnpm-lock.yaml"}

// merge merges the three sides of a file.
func (g *integration) merge(ctx context.Context, one *pathPlan) error {
	base, err := g.p.dir.Bytes(one.base.Digest, text.MaxMergeSize)
	if code := tree.CodeOf(err); code == tree.LimitExceeded || code == tree.NotFound { // of a path that came into the scope changed, or damaged
		one.decision = workspace.Decision{Action: workspace.Clash, Conflict: workspace.ConflictBinary}
		return nil
	}
	if err != nil {
		return err
	}
	sides := []*text.File{text.Parse(base), nil, nil}
	for i, side := range []struct {
		x  *target
		at tree.Item
	}{{g.at, one.current}, {g.copy, one.proposed}} {
		got, err := g.s.bytes(ctx, side.x, one.path, text.MaxMergeSize)
		if tree.CodeOf(err) == tree.LimitExceeded {
			one.decision = workspace.Decision{Action: workspace.Clash, Conflict: workspace.ConflictBinary}
			return nil
		}
		if err != nil {
			return err
		}
		if got.SHA256 != side.at.Digest {
			return operation.Refuse(workspace.CanonicalMoved, "%s changes at this moment; nothing was changed", one.path).With("path", one.path)
		}
		sides[i+1] = text.Parse(got.Data)
	}
	m := text.Merge(sides[0], sides[1], sides[2])
	structured := slices.Contains(lockFiles, path.Base(one.path)) || slices.ContainsFunc(unmerged, func(end string) bool { return strings.HasSuffix(one.path, end) })
	switch {
	case m.Outcome == text.Clean && bytes.Equal(m.After.Raw(), sides[1].Raw()): // the project has the change, and more
		exec := one.decision.Exec
		if one.decision = (workspace.Decision{Action: workspace.Keep, Same: true}); exec != entryOf(one.current).Exec {
			one.decision = workspace.Decision{Action: workspace.Mix, Exec: exec}
		}
	case m.Outcome == text.Clean && !structured:
		one.merged = m.After
	case m.Outcome == text.Clean:
		one.decision = workspace.Decision{Action: workspace.Clash, Conflict: workspace.ConflictText}
	default:
		one.decision, one.marked = workspace.Decision{Action: workspace.Clash, Conflict: workspace.Conflict(m.Outcome)}, m.Marked
	}
	return nil
}

// bytes reads a file that may be read.
func (s *Service) bytes(ctx context.Context, x *target, path string, limit int64) (tree.Content, error) {
	at, err := s.resolve(ctx, x, path, tree.Read)
	if err != nil {
		return tree.Content{}, err
	}
	defer at.Close()
	return at.Read(ctx, limit)
}

// intend is the change of the project that a decision asks for.
func (g *integration) intend(ctx context.Context, one pathPlan) error {
	if err := g.allowed(ctx, one); err != nil {
		return err
	}
	in := tree.Intent{Path: one.path}
	if one.current.Kind != tree.Absent {
		in.Expect = one.current.Digest
	}
	there, want := one.current.Kind, one.proposed.Kind
	mode := fs.FileMode(one.current.Mode)
	executable := func(exec bool) fs.FileMode {
		if exec {
			return mode | mode&0o444>>2
		}
		return mode &^ 0o111
	}
	switch one.decision.Action {
	case workspace.Merge:
		in.Kind, in.Data = tree.Replace, one.merged.Raw()
		in.Mode = executable(one.decision.Exec)
	case workspace.Mix:
		in.Kind, in.Mode = tree.SetMode, executable(one.decision.Exec)
		if one.decision.Proposed {
			in.Kind, in.From = tree.Replace, g.from(ctx, one)
		}
	case workspace.Take:
		switch {
		case want == tree.Absent && there == tree.Directory:
			in.Kind = tree.Rmdir
		case want == tree.Absent:
			in.Kind = tree.Delete
		case want == tree.Directory:
			in.Kind = tree.Mkdir
		case want == tree.Link:
			in.Kind, in.Link = tree.Replace, &one.proposed.Link
		case there == tree.File:
			in.Kind = tree.SetMode
			in.Mode = executable(one.proposed.Mode&0o100 != 0)
			if one.proposed.Digest != one.current.Digest {
				in.Kind, in.From = tree.Replace, g.from(ctx, one)
			}
		default:
			in.Kind, in.From, in.Exec = tree.Replace, g.from(ctx, one), one.proposed.Mode&0o100 != 0
		}
		if in.Kind == tree.Replace && there == tree.Absent {
			in.Kind = tree.Add
		}
	case workspace.Keep, workspace.Clash:
		return nil
	}
	return g.will(ctx, in)
}

// will adds a change of the project.
func (g *integration) will(ctx context.Context, in tree.Intent) error {
	linked, splits, err := false, false, error(nil)
	if in.Expect != "" {
		linked, splits, err = g.splits(ctx, in.Path)
	}
	if in.BreakLinks = splits; linked && splits && in.Kind == tree.Replace {
		g.split = append(g.split, text.EncodePath(in.Path))
	}
	g.intents = append(g.intents, in)
	return err
}

// allowed asks the policy about a path of the project.
func (g *integration) allowed(ctx context.Context, one pathPlan) error {
	seen := tree.Seen{Path: one.path, Facts: tree.Facts{Kind: one.current.Kind}}
	if err := g.s.judge(ctx, g.at, seen, policy.AccessWrite); err != nil {
		return err
	}
	if v := g.s.verdict(ctx, g.at, seen, policy.AccessWrite); v.Decision == policy.Confirm {
		g.reasons = append(g.reasons, one.path+": "+v.Reason)
	}
	return nil
}

// from reads a file of the working copy, and wants it to be what was decided about.
func (g *integration) from(ctx context.Context, one pathPlan) func(io.Writer) error {
	return func(w io.Writer) error {
		at, err := g.copy.root.Resolve(one.path, tree.Read)
		if err != nil {
			return err
		}
		defer at.Close()
		data, err := at.Copy(ctx, w)
		if err == nil && data != one.proposed.Digest {
			err = operation.Refuse(workspace.Busy, "%s changes in the workspace at this moment; nothing was changed", one.path).Retrying(fault.AfterWait)
		}
		return err
	}
}

// clashes are the paths in conflict.
func (g *integration) clashes() (all []pathPlan) {
	for _, one := range g.paths {
		if one.decision.Action == workspace.Clash {
			all = append(all, one)
		}
	}
	return all
}

func (g *integration) shown(one pathPlan, bundle string) conflictShown {
	return conflictShown{shownPath: showPath(one.path), Kind: one.decision.Conflict, Current: shownDigest(one.current), Bundle: bundle, Renamed: text.EncodePath(one.renamed), Theirs: text.EncodePath(one.theirs)}
}

// ready refuses an integration that cannot be carried out as a whole.
func (g *integration) ready(ctx context.Context) error {
	if why := g.repositoryBusy(); why != "" {
		return busyRepository(why)
	}
	if len(g.outside) > 0 && !g.in.Preserve {
		paths, more := firstOf(pathsOf(g.outside), maxChanges)
		return operation.Refuse(workspace.OutOfScope, "%d paths outside of the scope were changed", len(g.outside)).With("paths", paths).With("more", more).
			With("hint", "amend_workspace_scope takes them in; preserve_out_of_scope keeps them in a snapshot")
	}
	clashes := g.clashes()
	if len(clashes) == 0 {
		return nil
	}
	shown, err := g.bundles(ctx, clashes)
	if err != nil {
		return err
	}
	most := maxChanges
	if g.t.person {
		most = maxShownToPerson
	}
	shown, more := shown[:min(len(shown), most)], max(0, len(shown)-most)
	code, message := workspace.Conflicts, "%d paths were changed on both sides; nothing was applied"
	for _, one := range clashes {
		if was := g.in.Seen[one.path]; was != "" && was != shownDigest(one.current) {
			code, message = workspace.CanonicalMoved, "%d paths are in conflict, and some of them changed in the project since they were seen; nothing was applied"
		}
	}
	return operation.Refuse(code, message, len(clashes)).Ending(operation.OutcomeConflict).With("conflicts", shown).With("more", more).
		With("hint", "resolve each in the workspace (RENAME_MODIFY: write MERGED to renamed_to; RENAME_RENAME: two new names, which both stay unless one is taken away), or choose a side with accept; then call again with seen_current")
}

// unfinishedGit are files of a repository that is in the middle of something.
var unfinishedGit = []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "index.lock"}

// repositoryBusy names what says that somebody is in the middle of something in the repository; "" nothing does.
func (g *integration) repositoryBusy() string {
	for _, name := range unfinishedGit {
		if p, err := g.at.root.Resolve(".git/"+name, tree.Look); err == nil {
			_ = p.Close() // it was only looked at
			return name
		}
	}
	return ""
}

func busyRepository(why string) error {
	return operation.Refuse(workspace.RepositoryBusy, "the repository of the project is in the middle of something (%s)", why).Retrying(fault.AfterWait).With("found", why)
}

func (g *integration) answer() integrated {
	a := integrated{Applied: []appliedPath{}, Merged: []string{}, Conflicts: []conflictShown{}}
	a.Split, _ = firstOf(g.split, maxChanges)
	if g.build != nil {
		a.Build, a.Audit = g.build.ID, g.verdict
	}
	for _, one := range g.paths {
		switch one.decision.Action {
		case workspace.Keep:
			a.Unchanged++
		case workspace.Take, workspace.Mix, workspace.Merge:
			if one.decision.Action == workspace.Merge && len(a.Merged) < maxChanges {
				a.Merged = append(a.Merged, text.EncodePath(one.path))
			}
			if len(a.Applied) == maxChanges {
				a.More++
				continue
			}
			a.Applied = append(a.Applied, appliedPath{showPath(one.path), change{path: one.path, base: one.current, proposed: one.proposed}.kind()})
		case workspace.Clash:
		}
	}
	return a
}

// stage stages the batch, keeps what is not integrated, and writes what will be BASE afterwards.
func (g *integration) stage(ctx context.Context) (any, error) {
	var err error
	if g.area, err = g.at.root.Area(g.s.cfg.State); err != nil {
		return nil, problem(err)
	}
	g.was = integrateEvidence{
		Workspace: g.p.ID, Project: g.p.Workspace.Project, Answer: g.answer(), Before: g.p.Base, KeepOpen: g.in.KeepOpen, Message: g.s.cfg.Redact(g.in.Message),
	}
	g.was.Answer.ID = g.s.cfg.IDs.New(id.Integration)
	g.was.Answer.Commit = g.was.Message
	if g.was.Message == "" {
		g.was.Answer.Commit = g.p.Purpose
	}
	g.was.Answer.Git = g.s.gitHead(ctx, g.at)
	if len(g.outside) > 0 {
		if g.was.Answer.Preserved, err = g.s.preserve(ctx, g.p); err != nil {
			return nil, err
		}
	}
	for _, in := range g.intents {
		if len(g.was.Paths) < workspace.MaxPaths {
			g.was.Paths = append(g.was.Paths, in.Path)
		}
	}
	if g.was.Batch, err = g.at.root.Stage(ctx, g.area, g.id, g.intents, g.s.conditions(ctx, g.at)); err != nil {
		return nil, problem(err)
	}
	g.was.Base, err = g.next(ctx)
	return g.was, err
}

// next writes the BASE of the next revision: of each path in the scope what the working copy has. Where something was
// merged, or the project's side was chosen, that is older than what the project has, as if the project had gone on since.
func (g *integration) next(ctx context.Context) (workspace.Copied, error) {
	now := map[string]tree.Item{}
	var files []tree.Item
	for _, one := range g.paths {
		now[one.path] = one.proposed
		if one.proposed.Kind == tree.File {
			files = append(files, one.proposed)
		}
	}
	if err := g.p.dir.Keep(ctx, files...); err != nil {
		return workspace.Copied{}, problem(err)
	}
	m := g.base.With(now)
	w := g.p.Workspace
	w.Base.Rev, w.Base.Digest, w.Base.At = w.NextBase(), m.Digest(), g.s.cfg.Now()
	about, err := json.Marshal(w)
	if err != nil {
		return workspace.Copied{}, err
	}
	return w.Base, problem(g.p.dir.Write(w.Base.Rev, tree.Record{About: about, Manifest: m}))
}

func (g *integration) drop() {
	if g.area != nil {
		_ = g.area.Discard(g.id) // what is left of it is found by the next start
	}
}

func (g *integration) run(ctx context.Context) (any, error) {
	o, err := g.at.root.Apply(ctx, g.area, g.was.Batch, g.s.watched(ctx, g.t, g.was.Batch, g.s.conditions(ctx, g.at)))
	if err != nil {
		return nil, undecided(err)
	}
	return g.end(o)
}

// end is what an integration has come to, as an answer.
func (g *integration) end(o tree.Outcome) (any, error) {
	if err := notApplied(o); err != nil {
		return nil, err
	}
	a := g.was.Answer
	a.Warnings, a.Weak = o.Warnings, weak(o)
	return a, nil
}

// keep takes the workspace through the states of its integration, in the commits of the operation.
func (g *integration) keep(ctx context.Context, tx store.Tx, t *turn, a *operation.Answer) error {
	if t.op.State == operation.Claimed {
		return nil
	}
	w, err := tx.WorkspaceByID(ctx, workspace.ByID{ID: g.was.Workspace})
	if err != nil {
		return err
	}
	begin, failed := workspace.Integrate, workspace.Reopened
	if g.was.Undoes != "" {
		begin, failed = workspace.Undo, workspace.GoneWrong
	}
	move := func(e workspace.Event, why string) error {
		if w.State == workspace.Retired { // what is taken back is the project's: the workspace stays as it is
			return nil
		}
		return g.s.moveTo(ctx, tx, w, e, why)
	}
	switch t.op.State {
	case operation.Dispatched:
		if err := w.Exactly(g.p.given); err != nil {
			return err
		}
		if err := g.audited(ctx, tx); err != nil {
			return err
		}
		if err := claim(ctx, tx, w); err != nil && (w.State == workspace.Suspended || w.State == workspace.Integrated) {
			return err
		}
		return move(begin, "")
	case operation.Failed:
		return move(failed, "")
	case operation.Unknown:
		if err := g.s.tellWorkspace(ctx, tx, t, w, event.WorkspaceDisputed, "an integration is in dispute", g.was.Paths); err != nil {
			return err
		}
		return move(workspace.Contested, "the operation "+t.op.ID+" is contested")
	case operation.Succeeded:
		return g.s.integratedNow(ctx, tx, t, a, g.was)
	case operation.Claimed:
	}
	return nil
}

// integratedNow records that a workspace is in its project, or that it is not any more.
func (s *Service) integratedNow(ctx context.Context, tx store.Tx, t *turn, a *operation.Answer, was integrateEvidence) error {
	i := workspace.Integration{
		ID: was.Answer.ID, Workspace: was.Workspace, Project: was.Project, Principal: t.op.Namespace, Operation: t.op.ID, Batch: was.Batch.ID, Message: was.Message,
		Undoes: was.Undoes, Paths: was.Paths, Changed: len(was.Batch.Changes), Snapshot: was.Answer.Preserved, At: s.cfg.Now(),
	}
	if err := tx.PutIntegration(ctx, workspace.PutIntegration{Integration: i}); err != nil {
		return err
	}
	last, err := tx.Integrations(ctx, workspace.ListIntegrations{Limit: 1})
	if err != nil {
		return err
	}
	w, err := s.revise(ctx, tx, t, was.Workspace, a, func(w *workspace.Workspace) (err error) {
		if was.Answer.Preserved != "" {
			kept := w.Base // it was made before
			if was.Undoes != "" {
				kept = was.Base
			}
			w.Keep(was.Answer.Preserved, kept)
		}
		w.Base = was.Base
		if w.State == workspace.Retired {
			return nil
		}
		end := workspace.Applied
		switch {
		case was.Undoes != "":
			end = workspace.Undone
		case was.KeepOpen:
			end = workspace.AppliedOn
		}
		if was.Undoes == "" {
			w.Base.After = last[0].Seq
		}
		*w, err = w.To(end, "")
		return err
	})
	if err != nil {
		return err
	}
	if was.Undoes != "" {
		return s.tellWorkspace(ctx, tx, t, w, event.WorkspaceUndone, "an integration was taken back: "+firstLine(w.Purpose), i)
	}
	return s.tellWorkspace(ctx, tx, t, w, event.WorkspaceIntegrated, "a workspace was integrated: "+firstLine(w.Purpose), i)
}

func (g *integration) settle(ctx context.Context) {
	g.s.cleared(ctx, g.at.root.Finish(ctx, g.area, g.was.Batch))
}

func (g *integration) close() {
	if g.area != nil {
		_ = g.area.Close() // what was written to it is flushed
	}
	for _, x := range []*target{g.at, g.copy} {
		if x != nil {
			x.close()
		}
	}
	if g.release != nil {
		g.release()
	}
}

// recoverIntegrate carries an integration to its end, or clears away what was staged for one that never began.
func recoverIntegrate(ctx context.Context, s *Service, t *turn) (data any, end ending, err error) {
	x, err := s.ofProject(ctx, t.op.Project)
	if err != nil {
		return nil, nil, undecided(err)
	}
	g := &integration{s: s, t: t, at: x, id: batchID(t.op)}
	if err := x.elsewhere(); err != nil {
		return nil, g, undecided(err)
	}
	if g.area, err = x.root.Area(s.cfg.State); err != nil {
		return nil, g, undecided(err)
	}
	if t.op.State == operation.Claimed {
		return nil, g, undecided(g.area.Discard(g.id))
	}
	if g.was, err = evidenceOf[integrateEvidence](t.op); err != nil {
		return nil, g, err
	}
	o, err := x.root.Recover(ctx, g.area, g.was.Batch, s.watched(ctx, t, g.was.Batch, tree.Conditions{}))
	if err != nil {
		return nil, g, undecided(err)
	}
	data, err = g.end(o)
	return data, g, err
}
