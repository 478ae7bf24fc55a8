package control

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// lookFor is how long one list looks at what is in the copies: what is left then is unverified.
const lookFor = 3 * time.Second

// Workspaces lists workspaces of everybody.
func (c *Control) Workspaces(ctx context.Context, in api.WorkspacesQuery) (api.WorkspacePage, error) {
	if err := c.allow(ctx, "workspace.list"); err != nil {
		return api.WorkspacePage{}, err
	}
	limit := min(rows(in.Limit), workspace.MaxPage-1)
	list := workspace.ListWorkspaces{Before: uint64(in.Before), Limit: limit + 1}
	if !in.All {
		list.States = workspace.Unfinished
	}
	page := api.WorkspacePage{Workspaces: []api.Workspace{}, Next: []string{}}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		if list.Project, err = projectID(ctx, r, in.Project); err != nil {
			return err
		}
		found, err := r.Workspaces(ctx, list)
		if err != nil {
			return err
		}
		found, page.Before = cut(found, limit, func(w workspace.Workspace) uint64 { return w.Seq })
		for _, w := range found {
			one, err := workspaceIn(ctx, r, w)
			if err != nil {
				return err
			}
			page.Workspaces = append(page.Workspaces, one)
		}
		return askedIn(ctx, r, page.Workspaces)
	})
	if err != nil {
		return api.WorkspacePage{}, err
	}
	look, stop := context.WithTimeout(ctx, lookFor)
	defer stop()
	for i := range page.Workspaces {
		page.Workspaces[i].Sight = c.cfg.Work.Look(look, page.Workspaces[i].Workspace)
	}
	if len(page.Workspaces) > 0 {
		page.Next = append(page.Next, "mcpx workspace show "+page.Workspaces[0].ID)
	}
	return page, nil
}

// workspaceIn is a workspace with the name of its project.
func workspaceIn(ctx context.Context, r store.Reader, w workspace.Workspace) (api.Workspace, error) {
	p, err := r.ProjectByID(ctx, session.ByID{ID: w.Project})
	if fault.KindOf(err) == fault.NotFound {
		err = nil // one from the quarantine may have none
	}
	return api.Workspace{Workspace: w, Name: p.Name}, err
}

// askedIn adds the approvals that operations on the workspaces wait for.
func askedIn(ctx context.Context, r store.Reader, all []api.Workspace) error {
	for o, err := range operation.Each(ctx, r, operation.ListOperations{States: []operation.State{operation.Claimed}}) {
		if err != nil {
			return err
		}
		var about struct {
			Handle string `json:"handle"`
		}
		if o.Hold == "" || json.Unmarshal(o.Args, &about) != nil {
			continue // arguments that were not kept name no workspace
		}
		id, _, _ := strings.Cut(about.Handle, "@")
		for i := range all {
			if all[i].ID == id {
				all[i].Asks = append(all[i].Asks, o.Approval)
			}
		}
	}
	return nil
}

// workspaceNamed finds a workspace by its id, a beginning of it, or a handle.
func (c *Control) workspaceNamed(ctx context.Context, ref string) (one api.Workspace, handle string, err error) {
	name, rev, exact := strings.Cut(ref, "@")
	err = c.cfg.DB.View(ctx, func(r store.Reader) error {
		w, err := r.WorkspaceByID(ctx, workspace.ByID{ID: name})
		if err != nil {
			return err
		}
		all := make([]api.Workspace, 1)
		if all[0], err = workspaceIn(ctx, r, w); err != nil {
			return err
		}
		err = askedIn(ctx, r, all)
		one = all[0]
		return err
	})
	if handle = one.Handle().String(); exact {
		handle = one.ID + "@" + rev
	}
	return one, handle, err
}

// Workspace shows one workspace with what was done in it.
func (c *Control) Workspace(ctx context.Context, in api.WorkspaceRef) (api.WorkspaceView, error) {
	if err := c.allow(ctx, "workspace.show"); err != nil {
		return api.WorkspaceView{}, err
	}
	one, handle, err := c.workspaceNamed(ctx, in.Workspace)
	if err != nil {
		return api.WorkspaceView{}, err
	}
	view := api.WorkspaceView{Workspace: one}
	var seen struct {
		workspace.Sight
		api.WorkspaceChanges
		Superseded []string `json:"superseded_by"`
		Linked     []string `json:"hard_linked"`
	}
	_, err = c.tool(ctx, "workspace_status", map[string]any{"handle": handle}, &seen)
	if r := refusalIn(err); r != nil && (r.Code == workspace.WrongState || r.Code == operation.NotFound) {
		seen.Sight, err = c.cfg.Work.Look(ctx, one.Workspace), nil // its directory is missing: what is recorded can be shown
	}
	if err != nil {
		return view, refusedWork(err)
	}
	view.Sight, view.WorkspaceChanges, view.Superseded, view.Linked = seen.Sight, seen.WorkspaceChanges, seen.Superseded, seen.Linked
	if view.Changes == nil {
		view.Changes = []api.WorkspaceChange{}
	}
	if one.State == workspace.Open || one.State == workspace.Suspended {
		var plan api.WorkspacePlan
		_, err := c.tool(ctx, "integrate_agent_workspace", map[string]any{"handle": handle, "mode": "plan"}, &plan)
		if err == nil { // what cannot be planned has no conflicts to show
			view.Conflicts, err = c.bundled(ctx, one.Workspace, plan.Conflicts)
			if err != nil {
				return view, err
			}
		}
	}
	view.Next = nextOfWorkspace(view)
	return view, nil
}

// bundled adds to conflicts what an integration that was tried has left about them.
func (c *Control) bundled(ctx context.Context, w workspace.Workspace, all []api.WorkspaceConflict) ([]api.WorkspaceConflict, error) {
	paths := make([]string, len(all))
	for i := range all {
		paths[i] = all[i].String()
	}
	bundles, err := c.cfg.Work.Bundles(ctx, w, paths)
	if err != nil {
		return nil, refusedWork(err)
	}
	for i, b := range bundles {
		all[i].Bundle, all[i].Sides = b.Dir, b.Sides
	}
	return all, nil
}

// nextOfWorkspace are the commands that can follow.
func nextOfWorkspace(v api.WorkspaceView) []string {
	command := func(what string) string { return "mcpx workspace " + what + " " + v.ID }
	next := []string{}
	for _, approval := range v.Asks {
		next = append(next, "mcpx approval show "+approval)
	}
	for _, job := range v.Jobs {
		next = append(next, "mcpx job show "+job)
	}
	switch v.State {
	case workspace.Open:
		switch {
		case len(v.Conflicts) > 0:
			next = append(next, integrateCommand(v.ID, api.IntegrateWorkspace{Outside: len(v.Outside) > 0}, v.Conflicts))
		case v.Dirty == workspace.Dirty:
			next = append(next, command("diff"), integrateCommand(v.ID, api.IntegrateWorkspace{Outside: len(v.Outside) > 0}, nil))
		case v.Dirty == workspace.Clean:
			next = append(next, command("remove"))
		default:
			next = append(next, command("diff")) // which says why nobody can tell
		}
	case workspace.Suspended, workspace.Quarantined, workspace.Missing:
		next = append(next, command("resume"))
	case workspace.Integrated:
		next = append(next, command("remove"), command("undo"))
	case workspace.Attention:
		if n := len(v.History); n > 0 {
			next = append(next, "mcpx operation list --state unknown")
		}
	case workspace.Retired:
		if preserved(v.Workspace) {
			next = append(next, command("resume"))
		}
	case workspace.Creating, workspace.Integrating, workspace.Retiring:
	}
	return next
}

// preserved says that what was in a workspace when it was removed is kept. A snapshot of an earlier time is no such.
func preserved(w api.Workspace) bool { return w.Snapshot != "" && w.Why == "preserved" }

// unseen says why nobody can tell what was done in a workspace, and where it is.
func unseen(w api.Workspace) string {
	switch w.State {
	case workspace.Retired:
		switch snapshot := filepath.Join(filepath.Dir(filepath.Dir(w.Dir)), "snapshots", w.Snapshot, "tree"); {
		case preserved(w):
			return "It is removed. What was only in it is kept in " + w.Snapshot + ": " + snapshot
		case w.Snapshot != "":
			return "It is removed, and nothing was only in it. " + w.Snapshot + " is how it was earlier: " + snapshot
		}
		return "It is removed, and nothing was only in it."
	case workspace.Quarantined:
		return "It was put aside, and nobody vouches for it: " + filepath.Join(w.Dir, "tree")
	case workspace.Creating:
		return "Its copy is not complete."
	case workspace.Open, workspace.Suspended, workspace.Integrating, workspace.Attention, workspace.Integrated, workspace.Missing, workspace.Retiring:
	}
	return "Its files cannot be read: " + filepath.Join(w.Dir, "tree")
}

// integrateCommand is the command that integrates a workspace as was asked, once the conflicts are resolved, too, whose sides
// were shown.
func integrateCommand(id string, asked api.IntegrateWorkspace, conflicts []api.WorkspaceConflict) string {
	words := []string{"mcpx workspace integrate " + id}
	if asked.KeepOpen {
		words = append(words, "--keep-open")
	}
	if asked.Outside {
		words = append(words, "--keep-outside")
	}
	if asked.Message != "" {
		words = append(words, "--message", shellWord(asked.Message))
	}
	if asked.Build != "" {
		words = append(words, "--build", asked.Build)
	}
	if asked.Audited {
		words = append(words, "--audited")
	}
	resolved := slices.Clone(asked.Resolved)
	for _, c := range conflicts {
		if c.Bundle != "" && !slices.Contains(asked.Resolved, c.String()) && !slices.Contains(asked.Current, c.String()) {
			resolved = append(resolved, c.String())
		}
	}
	for _, path := range resolved {
		words = append(words, "--resolved", shellWord(path))
	}
	for _, path := range asked.Current {
		words = append(words, "--current", shellWord(path))
	}
	return strings.Join(words, " ")
}

// shellWord is a text as one word of a shell.
func shellWord(text string) string {
	if plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._/-@+:,%=", r)
	}; text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// least is what a call takes at least that waits for an operation on which somebody works.
const least = time.Second

// tool carries out a call of a tool for the caller, who is a person, and reads its data into out.
func (c *Control) tool(ctx context.Context, name string, args map[string]any, out any) (operation.Answer, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return operation.Answer{}, err
	}
	by := actorOf(ctx)
	a := c.cfg.Work.ForPerson(ctx, by, name, raw)
	for a.Refusal != nil && a.Refusal.Code == operation.OperationInProgress && ctx.Err() == nil {
		asked := time.Now()
		a = c.cfg.Work.ForPerson(ctx, by, name, raw) // the identical call waits for the end of the first one
		if time.Since(asked) < least {
			break // nobody works on it: the daemon that began it ended, and its recovery could not decide yet
		}
	}
	switch {
	case a.Refusal != nil:
		return a, a.Refusal
	case a.Waiting != nil:
		return a, nil
	case a.Spilled != nil:
		err = c.cfg.DB.View(ctx, func(r store.Reader) error {
			k, err := r.KeptResult(ctx, operation.KeptByRef{Principal: by.Principal, Ref: a.Spilled.Ref})
			a.Data = k.Bytes
			return err
		})
	}
	if err != nil || out == nil {
		return a, err
	}
	return a, json.Unmarshal(a.Data, out)
}

func refusalIn(err error) *operation.Refusal {
	r, _ := errors.AsType[*operation.Refusal](err)
	return r
}

// operationReused is the error for an operation id that means something else already.
func operationReused(r *operation.Refusal) *fault.Error {
	return fault.New(fault.Conflict, "operation-reused").Saying("%s", r.Message).Hinting("leave --operation away for something new")
}

// refusedWork is a refusal of a tool for a person at a terminal. Its calls that may follow are commands there.
func refusedWork(err error) error {
	r := refusalIn(err)
	if r == nil {
		return err
	}
	var f *fault.Error
	switch code := r.Code; {
	case code == operation.NotFound:
		f = fault.New(fault.NotFound, "workspace-unknown").Saying("%s", r.Message).Hinting("`mcpx workspace list --all` shows them")
	case code == workspace.StaleHandle:
		f = fault.New(fault.Stale, "workspace-stale").Saying("%s", r.Message).Hinting("look at it again with `mcpx workspace show`; without @ and a number a command means the workspace as it is now")
	case code == workspace.WrongState:
		f = fault.New(fault.Conflict, "workspace-state").Saying("%s", r.Message).Hinting("`mcpx workspace show` says what can follow")
	case code == workspace.Busy:
		f = fault.New(fault.Busy, "workspace-busy").Saying("%s", r.Message).Hinting("try again when it is done")
	case code == workspace.ScopeOverlap:
		f = fault.New(fault.Conflict, "workspace-claimed").Saying("%s", r.Message).Hinting("integrate, suspend or remove that one first")
	case code == workspace.JobsRunning:
		f = fault.New(fault.Conflict, "workspace-jobs-running").Saying("%s: %v", r.Message, r.Details["jobs"]).Hinting("try again when they have ended")
	case code == workspace.OutOfScope:
		f = fault.New(fault.Conflict, "workspace-out-of-scope").Saying("%s: %v", r.Message, r.Details["paths"]).Hinting("--keep-outside keeps them in a snapshot; an agent takes them in with amend_workspace_scope")
	case code == workspace.CanonicalMoved && r.Details["paths"] != nil:
		f = fault.New(fault.Stale, "workspace-project-moved").Saying("%s: %v", r.Message, r.Details["paths"]).Hinting("what was changed since stays; take the rest out by hand, or change these back first")
	case code == workspace.CanonicalMoved:
		f = fault.New(fault.Stale, "workspace-project-moved").Saying("%s", r.Message).Hinting("look at it again with `mcpx workspace show`")
	case code == workspace.AuditRequired:
		f = fault.New(fault.Conflict, "workspace-build-required").Saying("%s", r.Message).Hinting("`mcpx generation produce` makes a build of what is there now, `mcpx generation consume` gives a verdict")
	case code == workspace.RepositoryBusy:
		f = fault.New(fault.Busy, "workspace-repository-busy").Saying("%s", r.Message).Hinting("finish or abort that in the project, then try again")
	case code == operation.ProjectMoved:
		f = fault.New(fault.Conflict, "workspace-project-elsewhere").Saying("%s", r.Message).Hinting("say which directory it is with `mcpx project rebind`")
	case code == operation.OutcomeUnknown || code == operation.Contested:
		f = fault.New(fault.UnknownOutcome, "workspace-contested").Saying("%s", r.Message).Hinting("look at the files, then say what you found: `mcpx operation list --state unknown`")
	case code == operation.OperationIDReused:
		f = operationReused(r)
	case code == operation.OperationInProgress:
		f = fault.New(fault.Unavailable, "workspace-under-way").Saying("%s, and its end is not known yet", r.Message).
			Hinting("`mcpx operation list` shows it; it goes on at the next start of the daemon")
	case r.Retry == fault.AfterWait || r.Retry == fault.SameID:
		f = fault.New(fault.Unavailable, "workspace-unavailable").Saying("%s", r.Message).Hinting("try again when that has changed")
	default:
		f = fault.New(fault.Invalid, "request-invalid").Saying("%s", r.Message)
	}
	return f.Retrying(r.Retry)
}
