package work

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// Reconcile are the arguments of reconcile_project_state.
type Reconcile struct {
	Claims
	Session string   `json:"remote_session_id,omitempty" jsonschema:"the session; without it everything of yours"`
	Scope   string   `json:"scope,omitempty" jsonschema:"instead of a session: a project"`
	Since   string   `json:"since,omitempty" jsonschema:"the cursor of an earlier answer"`
	Limit   int      `json:"limit,omitempty" jsonschema:"of each list, 1 to 50; 20 without it"`
	Include []string `json:"include,omitempty" jsonschema:"workspaces, operations, jobs, history, generations; all without it"`
	Verify  bool     `json:"verify,omitempty" jsonschema:"look at the files, too"`
}

// The parts of the answer that include names.
const (
	partWorkspaces = "workspaces"
	partOperations = "operations"
	partJobs       = "jobs"
	partHistory    = "history"
	partBuilds     = "generations"
)

var parts = []string{partWorkspaces, partOperations, partJobs, partHistory, partBuilds}

// wants says whether a part is asked for.
func (in Reconcile) wants(part string) bool {
	return len(in.Include) == 0 || slices.Contains(in.Include, part)
}

const (
	usualListed = 20
	mostListed  = 50
	// reconcileBytes bounds the lists of an answer, which has at most 8 KB as a whole; of that operations, jobs, builds and
	// the history have no more than their own, and workspaces have what is left.
	reconcileBytes  = 6000
	operationsBytes = 1800
	jobsBytes       = 1000
	historyBytes    = 800
	overlapsBytes   = 800
	buildsBytes     = 800
	// recent is how many integrations are told.
	recent = 5
	// briefPaths is how many paths of a scope are told.
	briefPaths = 5
)

// briefWorkspace is a workspace in a list.
type briefWorkspace struct {
	Handle  string          `json:"handle"`
	State   workspace.State `json:"state"`
	Why     string          `json:"why,omitempty"`
	Purpose string          `json:"purpose"`
	Project string          `json:"project_id,omitempty"`
	Mutable []string        `json:"mutable,omitempty"`
	Path    string          `json:"path,omitempty"` // of the directory in quarantine
	BaseAge int64           `json:"base_age_s,omitempty"`
	Dirty   string          `json:"dirty,omitempty"`
	// Superseded are integrations that touched its scope after its BASE.
	Superseded []string `json:"superseded_by,omitempty"`
}

// briefOverlap is a workspace of another project that has files of this one.
type briefOverlap struct {
	Handle  string          `json:"handle"`
	State   workspace.State `json:"state"`
	Purpose string          `json:"purpose"`
	Project string          `json:"project_id"`
	Mutable []string        `json:"mutable"`
}

// briefOperation is an operation that has not ended, with the call that goes on with it.
type briefOperation struct {
	operation.Standing
	Tool  string          `json:"tool"`
	Retry json.RawMessage `json:"retry,omitempty"`          // arguments of the identical call; values that are not kept have a placeholder
	Left  bool            `json:"retry_left_out,omitempty"` // they are too long to be told here, or were too long to be kept
}

type briefJob struct {
	Job     string             `json:"job_id"`
	State   operation.JobState `json:"state"`
	Label   string             `json:"name,omitempty"`
	Reason  string             `json:"reason,omitempty"`
	Handled string             `json:"workspace_id,omitempty"`
}

type briefIntegration struct {
	ID        string    `json:"integration_id"`
	Workspace string    `json:"workspace_id"`
	Changed   int       `json:"changed"`
	Message   string    `json:"message,omitempty"`
	Undoes    string    `json:"undoes,omitempty"`
	At        time.Time `json:"at"`
}

// reconciled is the answer of reconcile_project_state.
type reconciled struct {
	Version      uint64             `json:"state_version"`
	Cursor       string             `json:"cursor"`
	Unchanged    bool               `json:"unchanged,omitempty"`
	Authority    string             `json:"authority,omitempty"`
	Workspaces   []briefWorkspace   `json:"unfinished_workspaces,omitempty"`
	Quarantine   []briefWorkspace   `json:"quarantine,omitempty"`
	Overlaps     []briefOverlap     `json:"overlaps,omitempty"`
	Operations   []briefOperation   `json:"unfinished_operations,omitempty"`
	Running      []briefJob         `json:"jobs_running,omitempty"`
	Lost         []briefJob         `json:"jobs_lost,omitempty"`
	Integrations []briefIntegration `json:"recent_integrations,omitempty"`
	Builds       []briefGeneration  `json:"ready_builds,omitempty"` // the newest of each producer
	More         bool               `json:"more,omitempty"`
}

// reconcile tells what is unfinished, from the database alone unless it is asked to verify: so it never waits for a writer.
func reconcile(ctx context.Context, s *Service, t *turn) (any, error) {
	var in Reconcile
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	for _, part := range in.Include {
		if !slices.Contains(parts, part) {
			return nil, operation.Refuse(operation.ArgumentInvalid, "%.32q is nothing to include; %s are", part, strings.Join(parts, ", "))
		}
	}
	l := reconciliation{s: s, t: t, in: in, limit: within(in.Limit, usualListed, mostListed), room: page{reconcileBytes}}
	err := s.cfg.DB.View(ctx, func(r store.Reader) error { return l.read(ctx, r) })
	if err == nil && in.Verify {
		l.verify(ctx)
	}
	return l.out, err
}

// reconciliation is an answer of reconcile_project_state that is being made.
type reconciliation struct {
	s       *Service
	t       *turn
	in      Reconcile
	limit   int
	room    page
	project session.Project // that the call is about; the zero one: all of them
	shown   []workspace.Workspace
	out     reconciled
}

func (l *reconciliation) read(ctx context.Context, r store.Reader) error {
	head, err := r.EventHead(ctx)
	if err != nil {
		return err
	}
	l.out.Version, l.out.Cursor = head.Seq, strconv.FormatUint(head.Seq, 10)
	if l.out.Unchanged = l.in.Since == l.out.Cursor; l.out.Unchanged {
		return nil
	}
	l.out.Authority = "canonical"
	if err := l.scope(ctx, r); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		read func(context.Context, store.Reader) error
	}{{partOperations, l.operations}, {partJobs, l.jobs}, {partHistory, l.history}, {partBuilds, l.builds}, {partWorkspaces, l.overlaps}, {partWorkspaces, l.workspaces}} {
		if !l.in.wants(part.name) {
			continue
		}
		if err := part.read(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// scope finds the project that the call is about.
func (l *reconciliation) scope(ctx context.Context, r store.Reader) error {
	switch {
	case l.in.Session != "":
		a, err := session.Admit(ctx, r, session.AdmitRequest{Session: l.in.Session, Principal: l.t.Principal, Act: session.ActRead})
		l.project = a.Project
		return err
	case l.in.Scope != "":
		a, err := session.AdmitProject(ctx, r, session.AdmitProjectRequest{Project: l.in.Scope, Principal: l.t.Principal, Act: session.ActRead})
		l.project = a.Project
		return err
	}
	return nil
}

// share is the room of one list.
func (l *reconciliation) share(most int) *page { return &page{min(most, l.room.left)} }

// fits says whether a value has room in its list, and so in the answer.
func (l *reconciliation) fits(share *page, v any) bool {
	before := share.left
	if !share.takes(v) {
		l.out.More = true
		return false
	}
	l.room.left -= before - share.left
	return true
}

func (l *reconciliation) workspaces(ctx context.Context, r store.Reader) error {
	all, err := r.Workspaces(ctx, workspace.ListWorkspaces{Principal: l.t.Principal, Project: l.project.ID, States: workspace.Unfinished, Limit: l.limit + 1})
	if err != nil {
		return err
	}
	if len(all) > l.limit {
		all, l.out.More = all[:l.limit], true
	}
	since, err := integratedSince(ctx, r, all)
	if err != nil {
		return err
	}
	for _, w := range all {
		b := l.brief(w, since)
		if !l.fits(&l.room, b) {
			return nil
		}
		if l.shown = append(l.shown, w); w.State == workspace.Quarantined {
			l.out.Quarantine = append(l.out.Quarantine, b)
		} else {
			l.out.Workspaces = append(l.out.Workspaces, b)
		}
	}
	return nil
}

func (l *reconciliation) brief(w workspace.Workspace, since []workspace.Integration) briefWorkspace {
	b := briefWorkspace{Handle: w.Handle().String(), State: w.State, Why: w.Why, Purpose: w.Purpose, Project: w.Project, Dirty: workspace.Unverified, Superseded: superseding(since, w)}
	b.Mutable, _ = firstOf(scopePaths(w), briefPaths)
	if !w.Base.At.IsZero() {
		b.BaseAge = int64(l.s.cfg.Now().Sub(w.Base.At) / time.Second)
	}
	if w.State == workspace.Quarantined {
		b.Path = w.Dir
	}
	if w.State == workspace.Integrating {
		b.Why = "integration in progress"
	}
	return b
}

// verify looks at the working copies that are told.
func (l *reconciliation) verify(ctx context.Context) {
	dirty := map[string]string{}
	for _, w := range l.shown {
		dirty[w.Handle().String()] = l.s.dirty(ctx, w)
	}
	for i := range l.out.Workspaces {
		l.out.Workspaces[i].Dirty = dirty[l.out.Workspaces[i].Handle]
	}
}

// overlaps are the workspaces of projects around this one, in it, or of another name that have files of it.
func (l *reconciliation) overlaps(ctx context.Context, r store.Reader) error {
	if l.project.ID == "" {
		return nil
	}
	all, err := session.AllProjects(ctx, r, false)
	if err != nil {
		return err
	}
	share := l.share(overlapsBytes)
	for _, p := range all {
		if p.ID == l.project.ID || !session.Related(p, l.project) {
			continue
		}
		theirs, err := r.Workspaces(ctx, workspace.ListWorkspaces{Principal: l.t.Principal, Project: p.ID, States: append(slices.Clone(workspace.Holds), workspace.Suspended)})
		if err != nil {
			return err
		}
		for _, w := range theirs {
			if !slices.ContainsFunc(w.Mutable, func(s workspace.Scope) bool { return session.Shares(p, s.Path, l.project) }) {
				continue
			}
			paths, _ := firstOf(scopePaths(w), briefPaths)
			b := briefOverlap{w.Handle().String(), w.State, w.Purpose, w.Project, paths}
			if len(l.out.Overlaps) == l.limit || !l.fits(share, b) {
				l.out.More = true
				return nil
			}
			l.out.Overlaps = append(l.out.Overlaps, b)
		}
	}
	return nil
}

func (l *reconciliation) operations(ctx context.Context, r store.Reader) error {
	share := l.share(operationsBytes)
	for o, err := range operation.Each(ctx, r, operation.ListOperations{Namespace: l.t.Principal, Open: true}) {
		if err != nil {
			return err
		}
		if l.project.ID != "" && o.Project != l.project.ID {
			continue
		}
		b := briefOperation{Standing: *o.Standing(false), Tool: o.Tool, Left: true}
		whole := b
		whole.Retry, whole.Left = o.Args, false
		told := len(o.Args) > 0 && len(o.Args) <= share.left && l.fits(share, whole)
		if told {
			b = whole
		}
		if len(l.out.Operations) == l.limit || !told && !l.fits(share, b) {
			l.out.More = true
			return nil
		}
		l.out.Operations = append(l.out.Operations, b)
	}
	return nil
}

func (l *reconciliation) jobs(ctx context.Context, r store.Reader) error {
	share := l.share(jobsBytes)
	for _, live := range []bool{true, false} {
		jobs, err := r.Jobs(ctx, operation.ListJobs{Principal: l.t.Principal, Project: l.project.ID, Live: live, Limit: l.limit})
		if err != nil {
			return err
		}
		for _, j := range jobs {
			b := briefJob{Job: j.ID, State: j.State, Label: j.Label, Reason: j.Reason, Handled: j.Workspace}
			switch {
			case !live && j.State != operation.JobLost || !l.fits(share, b):
			case live:
				l.out.Running = append(l.out.Running, b)
			default:
				l.out.Lost = append(l.out.Lost, b)
			}
		}
	}
	return nil
}

// builds are the builds that are ready and not superseded, which is one of each producer, with the state of their last audit.
func (l *reconciliation) builds(ctx context.Context, r store.Reader) error {
	all, err := r.Generations(ctx, workspace.ListGenerations{
		Principal: l.t.Principal, Project: l.project.ID, States: []workspace.GenerationState{workspace.GenReady}, Limit: l.limit + 1,
	})
	if err != nil {
		return err
	}
	if len(all) > l.limit {
		all, l.out.More = all[:l.limit], true
	}
	share := l.share(buildsBytes)
	for _, g := range all {
		b, err := briefGenerationOf(ctx, r, g)
		if err != nil {
			return err
		}
		b.Candidate = ""
		b.Outputs, _ = firstOf(b.Outputs, briefPaths)
		if !l.fits(share, b) {
			return nil
		}
		l.out.Builds = append(l.out.Builds, b)
	}
	return nil
}

func (l *reconciliation) history(ctx context.Context, r store.Reader) error {
	last, err := r.Integrations(ctx, workspace.ListIntegrations{Project: l.project.ID, Limit: recent})
	if err != nil {
		return err
	}
	share := l.share(historyBytes)
	for _, i := range last {
		if l.project.ID == "" { // nobody has said that the caller may look at the project of this one
			w, err := r.WorkspaceByID(ctx, workspace.ByID{ID: i.Workspace})
			if err != nil || w.Principal != l.t.Principal {
				continue
			}
		}
		b := briefIntegration{i.ID, i.Workspace, i.Changed, firstLine(i.Message), i.Undoes, i.At}
		if !l.fits(share, b) {
			return nil
		}
		l.out.Integrations = append(l.out.Integrations, b)
	}
	return nil
}
