package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
)

var workspaceDiff = Command{
	Path: "workspace diff", Short: "Show what was done in a workspace since its copy was made", Op: "workspace.diff", Args: "WORKSPACE", Min: 1, Max: 1, Complete: workspaceNames,
	Long:    "WORKSPACE is an id or a beginning of it. A line that begins with # tells of a path whose content is no text.",
	Example: "mcpx workspace diff ws_01J\nmcpx workspace diff ws_01J --names",
	Flags:   []Flag{{Name: "names", Kind: BoolFlag, Usage: "only which paths, and what the project did to them"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		diff, err := service.WorkspaceDiff(ctx, api.WorkspaceDiffQuery{Workspace: a.Pos(0), Names: a.Bool("names")})
		if err != nil {
			return err
		}
		return e.Show(diff, func(w io.Writer) {
			switch {
			case diff.Unseen != "":
				line(w, "%s", plain(diff.Unseen))
			case len(diff.Changes)+len(diff.Outside) == 0:
				line(w, "No changes.")
			case diff.Patch != "":
				diffText(w, looks{color: e.color}, diff.Patch)
			default:
				for _, c := range diff.Changes {
					line(w, "%-8s  %s%s", c.Change, plain(c.String()), e.projectSide(c))
				}
				for _, c := range diff.Outside {
					line(w, "%-8s  %s%s  (outside of what it may change)", c.Change, plain(c.String()), e.projectSide(c))
				}
			}
			if diff.More > 0 {
				e.Note("There are %d more changes, which are not shown.", diff.More)
			}
		})
	},
}

// operationFlag repeats an operation.
var operationFlag = Flag{Name: "operation", Kind: StringFlag, Value: "ID", Usage: "go on with the operation ID of an earlier try instead of a new one"}

// resuming is the context of an operation: that which is repeated, or a new one.
func (e *Env) resuming(ctx context.Context, a Args) context.Context {
	if id := a.String("operation"); id != "" {
		return api.Under(ctx, id)
	}
	return e.operation(ctx)
}

// unanswered is the error of an operation that can be repeated: when the daemon went away, it says how its end is asked for.
func unanswered(ctx context.Context, err error) error {
	id := api.OperationOf(ctx)
	if err == nil || id == "" || fault.From(err).Code != "daemon-gone" {
		return err
	}
	return fault.From(err).Hinting("type the command again with --operation %s: it tells what came of this try, or goes on with it", id)
}

var workspaceIntegrate = Command{
	Path: "workspace integrate", Short: "Bring the changes of a workspace into its project, all or none", Op: "workspace.integrate", Args: "WORKSPACE", Min: 1, Max: 1, Complete: workspaceNames,
	Long: "What both sides changed is merged where that is certain; everything else is a conflict: then nothing is applied, the sides\n" +
		"are written into the workspace, and the exit code is 5. You resolve each conflict and integrate again. When a path needs\n" +
		"a person's yes, the exit code is 3, and the command to go on with is printed. 6 says that the project changed since you\n" +
		"looked, 9 that nobody knows how it ended. What has begun goes on when you interrupt this command.",
	Example: "mcpx workspace integrate ws_01J --plan\nmcpx workspace integrate ws_01J --resolved notes.md --current logo.png",
	Flags: []Flag{
		{Name: "plan", Kind: BoolFlag, Usage: "say what would happen, and change nothing"},
		{Name: "resolved", Kind: StringsFlag, Value: "PATH", Usage: "the conflict on PATH is resolved: take what the workspace has now"},
		{Name: "current", Kind: StringsFlag, Value: "PATH", Usage: "the conflict on PATH is resolved: leave what the project has"},
		{Name: "keep-open", Kind: BoolFlag, Usage: "the work goes on in the workspace"},
		{Name: "keep-outside", Kind: BoolFlag, Usage: "keep changes outside of its scope in a snapshot"},
		{Name: "message", Letter: "m", Kind: StringFlag, Value: "TEXT", Usage: "what the changes are, for the record"},
		{Name: "build", Kind: StringFlag, Value: "BUILD", Usage: "only when the workspace has at the outputs of BUILD, given by its whole id, what that is"},
		{Name: "audited", Kind: BoolFlag, Usage: "with --build: only when a consumer has passed it"},
		operationFlag,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		var out api.IntegrationOutcome
		if a.Bool("plan") {
			out, err = service.PlanIntegration(ctx, api.PlanIntegration{Workspace: a.Pos(0), Resolved: a.Strings("resolved"), Current: a.Strings("current"), Build: a.String("build"), Audited: a.Bool("audited")})
		} else {
			ctx = e.resuming(ctx, a)
			told := e.follows(ctx, service)
			out, err = service.IntegrateWorkspace(ctx, api.IntegrateWorkspace{
				Workspace: a.Pos(0), Resolved: a.Strings("resolved"), Current: a.Strings("current"), KeepOpen: a.Bool("keep-open"),
				Outside: a.Bool("keep-outside"), Message: a.String("message"), Build: a.String("build"), Audited: a.Bool("audited"),
			})
			told()
		}
		if err != nil {
			return unanswered(ctx, err)
		}
		return e.showIntegration(out)
	},
}

// showIntegration shows what an integration, or an undo, has come to. One that was not carried out ends with an exit code.
func (e *Env) showIntegration(out api.IntegrationOutcome) error {
	if err := e.Show(out, func(w io.Writer) { e.integrationText(w, out) }); err != nil {
		return err
	}
	switch out.State {
	case api.IntegrationConflict:
		return fault.New(fault.Conflict, "workspace-conflicts").Saying("%s", out.Text).Hinting("resolve each conflict, then integrate with --resolved PATH or --current PATH")
	case api.IntegrationMoved:
		return fault.New(fault.Stale, "workspace-project-moved").Saying("%s", out.Text).Hinting("look at the sides again, then integrate with --resolved PATH or --current PATH")
	case api.IntegrationWaits:
		return fault.New(fault.NeedsApproval, "workspace-waits").Saying("%s", out.Text).Hinting("look at it with `mcpx approval show %s`", out.Approval)
	}
	return nil
}

var workspaceUndo = Command{
	Path: "workspace undo", Short: "Take back what a workspace brought into its project last, all or none", Op: "workspace.undo", Args: "WORKSPACE", Min: 1, Max: 1, Complete: workspaceNames,
	Long: "The project is what it was before, and the workspace is open with its work. What somebody has changed since is never touched:\n" +
		"then nothing is taken back, the paths are named, and the exit code is 6. What is taken out of the project is kept as long as\n" +
		"displaced files are; until then an integration can be taken back. An undo is an integration of its own in the log.",
	Example: "mcpx workspace undo ws_01J --message \"the prices are wrong\"",
	Flags: []Flag{
		{Name: "message", Letter: "m", Kind: StringFlag, Value: "TEXT", Usage: "why, for the record"},
		operationFlag,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		ctx = e.resuming(ctx, a)
		told := e.follows(ctx, service)
		out, err := service.UndoIntegration(ctx, api.UndoIntegration{Workspace: a.Pos(0), Message: a.String("message")})
		told()
		if err != nil {
			return unanswered(ctx, err)
		}
		return e.showIntegration(out)
	},
}

// follows says on a terminal how far an operation is, when it takes longer than a person waits without a word. The caller
// ends it with the returned function.
func (e *Env) follows(ctx context.Context, service api.Service) (done func()) {
	if !e.logs {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		said := "it is compared with the project"
		for next := time.NewTicker(patience); ; {
			select {
			case <-ctx.Done():
				return
			case <-next.C:
			}
			now := "it is compared with the project"
			if o, err := service.Operation(ctx, api.OperationRef{Operation: api.OperationOf(ctx)}); err == nil {
				now = map[operation.State]string{operation.Claimed: "what changes is copied beside the project", operation.Dispatched: "it is being applied"}[o.State]
			}
			if now != said && now != "" && ctx.Err() == nil {
				said = now
				e.Note("%s ...", now)
			}
		}
	}()
	return func() {
		stop()
		<-ended
	}
}

func (e *Env) integrationText(w io.Writer, out api.IntegrationOutcome) {
	line(w, "%s  %s", e.paint(bold, out.Handle), plain(out.Text))
	merged := map[string]bool{}
	for _, path := range out.Merged {
		merged[path] = true
	}
	for _, c := range out.Applied {
		text := fmt.Sprintf("  %-8s  %s", c.Change, plain(c.String()))
		if merged[c.Encoded()] {
			text += "  (merged with what the project changed)"
		}
		line(w, "%s", text)
	}
	if out.More > 0 {
		line(w, "  and %d more", out.More)
	}
	if len(out.Outside) > 0 {
		list(w, "Changed outside of what it may change, and not integrated:", out.Outside)
	}
	if out.Preserved != "" {
		line(w, "kept       %s", out.Preserved)
	}
	if out.Build != "" {
		line(w, "build      %s", strings.TrimSpace(out.Build+"  "+out.Audit))
	}
	for _, warning := range out.Warnings {
		line(w, "warning    %s: %s", warning.Code, plain(warning.Path))
	}
	e.conflictsText(w, out.Conflicts, out.Unlisted)
	if out.Commit != "" && len(out.Applied) > 0 {
		line(w, "message    %s", plain(out.Commit))
	}
	e.next(w, out.Next)
}

var workspaceCreate = Command{
	Path: "workspace create", Short: "Copy a project to work in, and claim what you change", Op: "workspace.create", Args: "PROJECT", Min: 1, Max: 1, Complete: projectNames,
	Long: "The answer says where the copy is. While the workspace is open nobody else may claim what you say that you change; `.` is\n" +
		"the whole project. PROJECT is a name, an id or a path.",
	Example: "mcpx workspace create shop --purpose \"a new price list\" --change prices",
	Flags: []Flag{
		{Name: "purpose", Kind: StringFlag, Value: "TEXT", Usage: "what the work is for, in a sentence"},
		{Name: "change", Kind: StringsFlag, Value: "PATH", Usage: "a path, or a glob of directories, that may be changed"},
		{Name: "without", Kind: StringsFlag, Value: "GLOB", Usage: "leave out what fits GLOB"},
		{Name: "shared", Kind: BoolFlag, Usage: "others that say so, too, may claim the same"},
		{Name: "build", Kind: StringFlag, Value: "BUILD", Usage: "begin with the outputs of BUILD, given by its whole id, instead of what the project has there"},
		{Name: "yes", Letter: "y", Kind: BoolFlag, Usage: "also copy more than 2 GB"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		if a.String("purpose") == "" || len(a.Strings("change")) == 0 {
			return fault.New(fault.Invalid, "workspace-words-missing").Saying("a workspace needs a purpose, and what it may change").
				Hinting("add --purpose TEXT and --change PATH; --change . is the whole project")
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		done := e.waiting("copying the project ...")
		out, err := service.CreateWorkspace(e.operation(ctx), api.CreateWorkspace{
			Project: a.Pos(0), Purpose: a.String("purpose"), Mutable: a.Strings("change"), Excludes: a.Strings("without"), Shared: a.Bool("shared"), Confirm: a.Bool("yes"), Build: a.String("build"),
		})
		done()
		return e.showMoved(out, err)
	},
}

var workspaceSuspend = Command{
	Path: "workspace suspend", Short: "Put a workspace aside: its work stays, its scope is free", Op: "workspace.suspend", Args: "WORKSPACE", Min: 1, Max: 1, Complete: workspaceNames,
	Example: "mcpx workspace suspend ws_01J --reason \"the release comes first\"",
	Flags:   []Flag{{Name: "reason", Kind: StringFlag, Default: "put aside by its owner", Value: "TEXT", Usage: "why, for whoever finds it"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.SuspendWorkspace(e.operation(ctx), api.SuspendWorkspace{Workspace: a.Pos(0), Reason: a.String("reason")})
		return e.showMoved(out, err)
	},
}

var workspaceResume = Command{
	Path: "workspace resume", Short: "Go on with a workspace that was put aside or removed", Op: "workspace.resume", Args: "WORKSPACE", Min: 1, Max: 1, Complete: workspaceNames,
	Long: "WORKSPACE is an id or a beginning of it, or a snapshot (snap_...). It claims its scope again, and the answer says what the\n" +
		"project changed in it meanwhile.",
	Example: "mcpx workspace resume ws_01J",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.ResumeWorkspace(e.operation(ctx), api.WorkspaceRef{Workspace: a.Pos(0)})
		return e.showMoved(out, err)
	},
}

var workspaceRemove = Command{
	Path: "workspace remove", Short: "Remove a workspace; what is only in it is kept in a snapshot", Op: "workspace.remove", Args: "WORKSPACE", Min: 1, Max: 1, Complete: workspaceNames,
	Long:    "Nothing is lost: `mcpx workspace resume` brings its work back. It is refused while commands run in the workspace.",
	Example: "mcpx workspace remove ws_01J",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.RemoveWorkspace(e.operation(ctx), api.WorkspaceRef{Workspace: a.Pos(0)})
		return e.showMoved(out, err)
	},
}

func (e *Env) showMoved(out api.WorkspaceChanged, err error) error {
	if err != nil {
		return err
	}
	return e.Show(out, func(w io.Writer) {
		line(w, "%s.", plain(out.Text))
		if dir := copyOf(out.Workspace); dir != "" {
			line(w, "copy  %s", plain(dir))
		}
		if len(out.Moved) > 0 {
			line(w, "The project has changed meanwhile: %s", plain(strings.Join(out.Moved, ", ")))
		}
		e.next(w, out.Next)
	})
}
