package work

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// Reconcile are the arguments of reconcile_project_state.
type Reconcile struct {
	Claims
	Session string `json:"remote_session_id,omitempty" jsonschema:"the session; without it everything of yours"`
	Scope   string `json:"scope,omitempty" jsonschema:"instead of a session: a project"`
	Since   string `json:"since,omitempty" jsonschema:"the cursor of an earlier answer"`
	Limit   int    `json:"limit,omitempty" jsonschema:"of each list, 1 to 50; 20 without it"`
}

const (
	usualListed = 20
	mostListed  = 50
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

// briefOperation is an operation that has not ended, with the call that goes on with it.
type briefOperation struct {
	operation.Standing
	Tool  string          `json:"tool"`
	Retry json.RawMessage `json:"retry,omitempty"` // arguments of the identical call; values that are not kept are left out
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
	Operations   []briefOperation   `json:"unfinished_operations,omitempty"`
	Running      []briefJob         `json:"jobs_running,omitempty"`
	Lost         []briefJob         `json:"jobs_lost,omitempty"`
	Integrations []briefIntegration `json:"recent_integrations,omitempty"`
	More         bool               `json:"more,omitempty"`
}

// maxRetryArgs bounds the arguments of a retry that a list shows.
const maxRetryArgs = 1 << 10

// reconcile tells from the database alone what is unfinished. It never waits for a writer.
func reconcile(ctx context.Context, s *Service, t *turn) (any, error) {
	var in Reconcile
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	out := reconciled{}
	err := s.cfg.DB.View(ctx, func(r store.Reader) error {
		head, err := r.EventHead(ctx)
		if err != nil {
			return err
		}
		out.Version, out.Cursor = head.Seq, strconv.FormatUint(head.Seq, 10)
		if out.Unchanged = in.Since == out.Cursor; out.Unchanged {
			return nil
		}
		return s.unfinishedOf(ctx, r, t, in, &out)
	})
	return out, err
}

// scopeOf is the project that a call is about; "" all of them.
func (s *Service) scopeOf(ctx context.Context, r store.Reader, t *turn, in Reconcile) (string, error) {
	switch {
	case in.Session != "":
		a, err := session.Admit(ctx, r, session.AdmitRequest{Session: in.Session, Principal: t.Principal, Act: session.ActRead})
		return a.Project.ID, err
	case in.Scope != "":
		a, err := session.AdmitProject(ctx, r, session.AdmitProjectRequest{Project: in.Scope, Principal: t.Principal, Act: session.ActRead})
		return a.Project.ID, err
	}
	return "", nil
}

func (s *Service) unfinishedOf(ctx context.Context, r store.Reader, t *turn, in Reconcile, out *reconciled) error {
	project, err := s.scopeOf(ctx, r, t, in)
	if err != nil {
		return err
	}
	out.Authority = "canonical"
	limit := within(in.Limit, usualListed, mostListed)
	room := page{pageBytes}
	all, err := r.Workspaces(ctx, workspace.ListWorkspaces{Principal: t.Principal, Project: project, States: workspace.Unfinished, Limit: limit + 1})
	if err != nil {
		return err
	}
	for i, w := range all {
		b := briefWorkspace{Handle: w.Handle().String(), State: w.State, Why: w.Why, Purpose: w.Purpose, Project: w.Project, Mutable: scopePaths(w), Dirty: "unverified"}
		if len(b.Mutable) > 5 {
			b.Mutable = b.Mutable[:5]
		}
		if !w.Base.At.IsZero() {
			b.BaseAge = int64(s.cfg.Now().Sub(w.Base.At) / time.Second)
		}
		if b.Superseded, err = superseded(ctx, r, w); err != nil {
			return err
		}
		if i == limit || !room.takes(b) {
			out.More = true
			break
		}
		if w.State == workspace.Quarantined {
			b.Path = w.Dir
			out.Quarantine = append(out.Quarantine, b)
		} else {
			out.Workspaces = append(out.Workspaces, b)
		}
	}
	ops, err := r.Operations(ctx, operation.ListOperations{Namespace: t.Principal, States: []operation.State{operation.Claimed, operation.Dispatched, operation.Unknown}, Limit: limit})
	if err != nil {
		return err
	}
	for _, o := range ops {
		if project != "" && o.Project != project {
			continue
		}
		b := briefOperation{Standing: *o.Standing(false), Tool: o.Tool}
		if len(o.Args) <= maxRetryArgs {
			b.Retry = o.Args
		}
		if !room.takes(b) {
			out.More = true
			break
		}
		out.Operations = append(out.Operations, b)
	}
	jobs, err := r.Jobs(ctx, operation.ListJobs{Principal: t.Principal, Project: project, Limit: limit})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		b := briefJob{Job: j.ID, State: j.State, Label: j.Label, Reason: j.Reason, Handled: j.Workspace}
		switch {
		case !room.takes(b):
			out.More = true
		case !j.State.Final():
			out.Running = append(out.Running, b)
		case j.State == operation.JobLost:
			out.Lost = append(out.Lost, b)
		}
	}
	last, err := r.Integrations(ctx, workspace.ListIntegrations{Project: project, Limit: 5})
	for _, i := range last {
		if project == "" { // nobody has said that the caller may look at the project of this one
			w, err := r.WorkspaceByID(ctx, workspace.ByID{ID: i.Workspace})
			if err != nil || w.Principal != t.Principal {
				continue
			}
		}
		out.Integrations = append(out.Integrations, briefIntegration{i.ID, i.Workspace, i.Changed, i.Message, i.At})
	}
	return err
}
