package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// WorkspaceDiff shows what was done in a workspace.
func (c *Control) WorkspaceDiff(ctx context.Context, in api.WorkspaceDiffQuery) (api.WorkspaceDiff, error) {
	if err := c.allow(ctx, "workspace.diff"); err != nil {
		return api.WorkspaceDiff{}, err
	}
	one, handle, err := c.workspaceNamed(ctx, in.Workspace)
	if err != nil {
		return api.WorkspaceDiff{}, err
	}
	diff := "patch"
	if in.Names {
		diff = "names"
	}
	out := api.WorkspaceDiff{Handle: handle, State: one.State, Snapshot: one.Snapshot}
	_, err = c.tool(ctx, "workspace_status", map[string]any{"handle": handle, "diff": diff}, &out)
	if out.Changes == nil {
		out.Changes = []api.WorkspaceChange{}
	}
	if out.Dirty == workspace.Unverified {
		out.Unseen = unseen(one)
	}
	return out, refusedWork(err)
}

// PlanIntegration says what an integration would do.
func (c *Control) PlanIntegration(ctx context.Context, in api.PlanIntegration) (api.IntegrationOutcome, error) {
	if err := c.allow(ctx, "workspace.plan"); err != nil {
		return api.IntegrationOutcome{}, err
	}
	one, handle, err := c.workspaceNamed(ctx, in.Workspace)
	if err != nil {
		return api.IntegrationOutcome{}, err
	}
	args, err := c.resolutions(ctx, one.Workspace, handle, in.Resolved, in.Current)
	if err != nil {
		return api.IntegrationOutcome{}, err
	}
	args["mode"] = "plan"
	requireBuild(args, in.Build, in.Audited)
	out := api.IntegrationOutcome{State: "planned", Handle: handle}
	if _, err := c.tool(ctx, "integrate_agent_workspace", args, &out); err != nil {
		return out, refusedBuild(err)
	}
	if out.Conflicts, err = c.bundled(ctx, one.Workspace, out.Conflicts); err != nil {
		return out, err
	}
	out.Text = fmt.Sprintf("%d %s would be changed in %s, and %d %s in conflict", len(out.Applied)+out.More, pathsWord(len(out.Applied)+out.More), one.Name, len(out.Conflicts), isWord(len(out.Conflicts)))
	asked := api.IntegrateWorkspace{Resolved: in.Resolved, Current: in.Current, Outside: len(out.Outside) > 0, Build: in.Build, Audited: in.Audited}
	out.Next = []string{integrateCommand(one.ID, asked, out.Conflicts)}
	return out, nil
}

// IntegrateWorkspace brings the changes of a workspace into its project.
func (c *Control) IntegrateWorkspace(ctx context.Context, in api.IntegrateWorkspace) (api.IntegrationOutcome, error) {
	if err := c.allow(ctx, "workspace.integrate"); err != nil {
		return api.IntegrationOutcome{}, err
	}
	one, handle, err := c.workspaceNamed(ctx, in.Workspace)
	if err != nil {
		return api.IntegrationOutcome{}, err
	}
	args, err := c.earlier(ctx, one.ID)
	if err == nil && args == nil {
		if one.State == workspace.Integrated {
			return c.integratedAlready(ctx, one), nil
		}
		args, err = c.resolutions(ctx, one.Workspace, handle, in.Resolved, in.Current)
	}
	if err != nil {
		return api.IntegrationOutcome{}, err
	}
	for name, value := range map[string]bool{"keep_open": in.KeepOpen, "preserve_out_of_scope": in.Outside} {
		if value {
			args[name] = true
		}
	}
	if in.Message != "" {
		args["message"] = in.Message
	}
	out := api.IntegrationOutcome{State: string(workspace.Integrated), Handle: handle, Operation: api.OperationOf(ctx)}
	requireBuild(args, in.Build, in.Audited)
	a, err := c.tool(ctx, "integrate_agent_workspace", withID(ctx, args), &out)
	if r := refusalIn(err); r != nil && r.Outcome == operation.OutcomeConflict {
		return c.inConflict(ctx, one, in, out, r)
	}
	if err != nil {
		return out, refusedBuild(err)
	}
	if a.Waiting != nil {
		return waits(out, a.Waiting.Approval, "mcpx workspace integrate "+one.ID), nil
	}
	out.Handle = a.Handle
	if args["keep_open"] == true {
		out.State = string(workspace.Open)
	}
	out.Text = fmt.Sprintf("%d %s changed in %s", len(out.Applied)+out.More, pathsWord(len(out.Applied)+out.More), one.Name)
	out.Next = []string{"mcpx workspace remove " + one.ID}
	return out, nil
}

// UndoIntegration takes back what a workspace brought into its project last.
func (c *Control) UndoIntegration(ctx context.Context, in api.UndoIntegration) (api.IntegrationOutcome, error) {
	if err := c.allow(ctx, "workspace.undo"); err != nil {
		return api.IntegrationOutcome{}, err
	}
	one, handle, err := c.workspaceNamed(ctx, in.Workspace)
	if err != nil {
		return api.IntegrationOutcome{}, err
	}
	args, err := c.earlier(ctx, one.ID)
	if err != nil {
		return api.IntegrationOutcome{}, err
	}
	if args == nil {
		args = map[string]any{"handle": handle, "mode": "undo"}
		if in.Message != "" {
			args["message"] = in.Message
		}
	}
	out := api.IntegrationOutcome{State: api.IntegrationUndone, Handle: handle, Operation: api.OperationOf(ctx)}
	a, err := c.tool(ctx, "integrate_agent_workspace", withID(ctx, args), &out)
	if err != nil {
		return out, refusedWork(err)
	}
	if a.Waiting != nil {
		return waits(out, a.Waiting.Approval, "mcpx workspace undo "+one.ID), nil
	}
	out.Handle = a.Handle
	out.Text = fmt.Sprintf("%s is taken back: %d %s changed in %s", out.Undone, len(out.Applied)+out.More, pathsWord(len(out.Applied)+out.More), one.Name)
	out.Next = []string{"mcpx workspace show " + one.ID}
	return out, nil
}

// waits is the outcome of what a person has to look at before it goes on by a command.
func waits(out api.IntegrationOutcome, approval, command string) api.IntegrationOutcome {
	out.State, out.Approval, out.Text = api.IntegrationWaits, approval, "a person has to look at it first; nothing was applied"
	out.Applied, out.Merged, out.Conflicts = []api.WorkspaceChange{}, []string{}, []api.WorkspaceConflict{}
	out.Next = []string{"mcpx approval show " + approval, command + " --operation " + out.Operation}
	return out
}

// requireBuild adds the build that an integration has to bring in.
func requireBuild(args map[string]any, build string, audited bool) {
	if build != "" {
		args["require_build"] = build
	}
	if audited {
		args["require_audit"] = string(workspace.Pass)
	}
}

func pathsWord(n int) string {
	if n == 1 {
		return "path"
	}
	return "paths"
}

func isWord(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func (c *Control) integratedAlready(ctx context.Context, one api.Workspace) api.IntegrationOutcome {
	return api.IntegrationOutcome{
		State: "already_integrated", Already: true, Handle: one.Handle().String(), Text: "it was integrated already", Operation: api.OperationOf(ctx),
		WorkspacePlan: api.WorkspacePlan{Applied: []api.WorkspaceChange{}, Merged: []string{}, Conflicts: []api.WorkspaceConflict{}},
		Next:          []string{"mcpx workspace remove " + one.ID},
	}
}

// inConflict is the outcome of an integration that met conflicts.
func (c *Control) inConflict(ctx context.Context, one api.Workspace, in api.IntegrateWorkspace, out api.IntegrationOutcome, r *operation.Refusal) (api.IntegrationOutcome, error) {
	var told struct {
		Conflicts []api.WorkspaceConflict `json:"conflicts"`
		More      int                     `json:"more"`
	}
	raw, err := json.Marshal(r.Details)
	if err == nil {
		err = json.Unmarshal(raw, &told)
	}
	if err == nil {
		out.Conflicts, err = c.bundled(ctx, one.Workspace, told.Conflicts)
	}
	out.State, out.Text, out.Unlisted = api.IntegrationConflict, r.Message, told.More
	if r.Code == workspace.CanonicalMoved {
		out.State = api.IntegrationMoved
	}
	out.Applied, out.Merged = []api.WorkspaceChange{}, []string{}
	out.Next = []string{integrateCommand(one.ID, in, out.Conflicts)}
	return out, err
}

// earlier are the arguments of this operation on a workspace when it is one that was begun already: it goes on, whatever the
// workspace has become since. nil: it is a new one.
func (c *Control) earlier(ctx context.Context, id string) (map[string]any, error) {
	args, err := c.begun(ctx)
	if handle, _ := args["handle"].(string); err == nil && !strings.HasPrefix(handle, id+"@") {
		return nil, nil // of something else: the ledger refuses it
	}
	return args, err
}

// begun are the arguments of this operation when it is one that was begun already. nil: it is a new one.
func (c *Control) begun(ctx context.Context) (args map[string]any, err error) {
	var o operation.Operation
	err = c.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		o, err = r.OperationByName(ctx, operation.ByName{Name: operation.Name{Namespace: actorOf(ctx).Principal, ID: api.OperationOf(ctx)}})
		return err
	})
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil
	}
	if err == nil && o.Args != nil {
		err = json.Unmarshal(o.Args, &args)
	}
	return args, err
}

// withID adds the operation id of the caller.
func withID(ctx context.Context, args map[string]any) map[string]any {
	args[operation.IDField] = api.OperationOf(ctx)
	return args
}

// resolutions are the arguments of an integration: what the caller has seen of each conflict is what its bundle shows.
func (c *Control) resolutions(ctx context.Context, w workspace.Workspace, handle string, resolved, current []string) (map[string]any, error) {
	args := map[string]any{"handle": handle}
	seen, accept := map[string]string{}, map[string]string{}
	paths := slices.Concat(resolved, current)
	bundles, err := c.cfg.Work.Bundles(ctx, w, paths)
	if err != nil {
		return nil, refusedWork(err)
	}
	for i, b := range bundles {
		if b.Dir == "" {
			return nil, fault.New(fault.Conflict, "workspace-unseen").Saying("nobody was shown a conflict on %s", paths[i]).
				Hinting("try `mcpx workspace integrate %s`: it writes the sides of each conflict into the workspace", w.ID)
		}
		seen[paths[i]] = b.Current
	}
	for _, path := range current {
		accept[path] = "current"
	}
	if len(seen) > 0 {
		args["seen_current"] = seen
	}
	if len(accept) > 0 {
		args["accept"] = accept
	}
	return args, nil
}

// CreateWorkspace makes a workspace.
func (c *Control) CreateWorkspace(ctx context.Context, in api.CreateWorkspace) (api.WorkspaceChanged, error) {
	if err := c.allow(ctx, "workspace.create"); err != nil {
		return api.WorkspaceChanged{}, err
	}
	args := map[string]any{"project": in.Project, "purpose": in.Purpose, "mutable": in.Mutable}
	if len(in.Excludes) > 0 {
		args["excludes"] = in.Excludes
	}
	if in.Shared {
		args["on_overlap"] = string(workspace.AllowOverlap)
	}
	if in.Confirm {
		args["confirm"] = true
	}
	if in.Build != "" {
		args["base"] = in.Build
	}
	text := "%s is a copy of %s; no other workspace may claim what it may change"
	if in.Shared {
		text = "%s is a copy of %s; workspaces that share it, too, may claim the same"
	}
	out, err := c.moves(ctx, "create_agent_workspace", args, text)
	if err == nil {
		out.Next = []string{"mcpx workspace diff " + out.Workspace.ID, "mcpx workspace integrate " + out.Workspace.ID}
	}
	return out, err
}

// SuspendWorkspace puts a workspace aside.
func (c *Control) SuspendWorkspace(ctx context.Context, in api.SuspendWorkspace) (api.WorkspaceChanged, error) {
	if err := c.allow(ctx, "workspace.suspend"); err != nil {
		return api.WorkspaceChanged{}, err
	}
	return c.move(ctx, in.Workspace, workspace.Suspended, "suspend_workspace", map[string]any{"reason": in.Reason}, "%s of %s is put aside; its work stays, and others may claim its scope")
}

// ResumeWorkspace goes on with a workspace.
func (c *Control) ResumeWorkspace(ctx context.Context, in api.WorkspaceRef) (api.WorkspaceChanged, error) {
	if err := c.allow(ctx, "workspace.resume"); err != nil {
		return api.WorkspaceChanged{}, err
	}
	const text = "%s of %s goes on"
	if strings.HasPrefix(in.Workspace, "snap_") {
		return c.moves(ctx, "resume_workspace", map[string]any{"ws": in.Workspace}, text)
	}
	return c.move(ctx, in.Workspace, workspace.Open, "resume_workspace", nil, text)
}

// RemoveWorkspace removes a workspace.
func (c *Control) RemoveWorkspace(ctx context.Context, in api.WorkspaceRef) (api.WorkspaceChanged, error) {
	if err := c.allow(ctx, "workspace.remove"); err != nil {
		return api.WorkspaceChanged{}, err
	}
	return c.move(ctx, in.Workspace, workspace.Retired, "remove_agent_workspace", map[string]any{}, "%s of %s is removed")
}

// move takes a workspace to a state by a tool, unless it is in it. Without args the tool takes the id of the workspace.
func (c *Control) move(ctx context.Context, ref string, to workspace.State, tool string, args map[string]any, text string) (api.WorkspaceChanged, error) {
	one, handle, err := c.workspaceNamed(ctx, ref)
	if err != nil {
		return api.WorkspaceChanged{}, err
	}
	begun, err := c.earlier(ctx, one.ID)
	switch {
	case err != nil:
		return api.WorkspaceChanged{}, err
	case begun != nil:
		args = begun
	case one.State == to:
		one.Sight = c.cfg.Work.Look(ctx, one.Workspace)
		return api.WorkspaceChanged{
			State: "already_" + string(to), Already: true, Workspace: one, Text: one.ID + " is " + string(to) + " already",
			Next: nextOfWorkspace(api.WorkspaceView{Workspace: one}), Operation: api.OperationOf(ctx),
		}, nil
	case args == nil:
		args = map[string]any{"ws": one.ID}
	default:
		args["handle"] = handle
	}
	return c.moves(ctx, tool, args, text)
}

// moves carries out a tool that changes a workspace as a whole, and shows what became of it.
func (c *Control) moves(ctx context.Context, tool string, args map[string]any, text string) (api.WorkspaceChanged, error) {
	out := api.WorkspaceChanged{Operation: api.OperationOf(ctx)}
	a, err := c.tool(ctx, tool, withID(ctx, args), &out)
	if err != nil {
		return out, refusedBuild(err)
	}
	out.Workspace, _, err = c.workspaceNamed(ctx, a.Handle)
	if err != nil {
		return out, err
	}
	out.Workspace.Sight = c.cfg.Work.Look(ctx, out.Workspace.Workspace)
	out.State, out.Text = string(out.Workspace.State), fmt.Sprintf(text, out.Workspace.ID, out.Workspace.Name)
	if out.Preserved != "" {
		out.Text += "; what was only in it is kept in " + out.Preserved
	}
	out.Next = nextOfWorkspace(api.WorkspaceView{Workspace: out.Workspace})
	return out, nil
}
