package cli

import (
	"context"
	"io"
	"path/filepath"
	"strconv"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/session"
)

var (
	identityFlag = Flag{Name: "identity", Kind: StringFlag, Value: "KIND", Usage: "by what the directory is recognised: physical, or path where the file system gives no stable numbers"}
	overlapFlag  = Flag{Name: "overlap", Kind: BoolFlag, Usage: "it may lie in another project, hold one, or be one by another path"}
	toFlag       = Flag{Name: "to", Kind: StringFlag, Value: "PRINCIPAL", Usage: "who gets the role"}
	revokeFlag   = Flag{Name: "revoke", Kind: BoolFlag, Usage: "take the role away"}
)

var projectAdd = Command{
	Path: "project add", Short: "Register a directory for the tools of /mcp", Op: "project.add", Args: "PATH", Min: 1, Max: 1,
	Long: "The tools at /mcp reach registered directories and nothing else. A project is recognised by what its directory is,\n" +
		"not by how its path is spelled. Home and / cannot be projects. A directory that was registered before gets its\n" +
		"records back.",
	Example: "mcpx project add .\nmcpx project add ~/src/shop --name shop",
	Flags: []Flag{
		{Name: "name", Kind: StringFlag, Value: "NAME", Usage: "call it NAME (default: the name of the directory)"},
		identityFlag, overlapFlag,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		path, err := projectPath(a.Pos(0))
		if err != nil {
			return err
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.AddProject(e.operation(ctx), api.AddProject{
			Path: path, Name: a.String("name"), Identity: session.Recognised(a.String("identity")), Overlap: a.Bool("overlap"),
		})
		return e.showProjectChange(out, err)
	},
}

// projectPath makes a path absolute; links in it are kept.
func projectPath(given string) (string, error) {
	path, err := filepath.Abs(given)
	if given == "" || err != nil {
		return "", fault.New(fault.Invalid, "usage").Saying("the path %q cannot be made absolute", given).Hinting("give the path of a directory").Because(err)
	}
	return path, nil
}

func (e *Env) showProjectChange(out api.ProjectChange, err error) error {
	if err != nil {
		return err
	}
	return e.Show(out, func(w io.Writer) {
		line(w, "%s.", plain(out.Text))
		e.next(w, out.Next)
	})
}

var projectList = Command{
	Path: "project list", Short: "List the registered directories", Op: "project.list",
	Example: "mcpx project list\nmcpx project list --all",
	Flags:   []Flag{{Name: "all", Kind: BoolFlag, Usage: "also those that are not registered any more"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.Projects(ctx, api.ProjectsQuery{All: a.Bool("all")})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if len(page.Projects) == 0 {
				line(w, "No projects.")
				e.next(w, page.Next)
				return
			}
			rows := make([][]cell, 0, len(page.Projects))
			for _, p := range page.Projects {
				rows = append(rows, []cell{{p.Name, bold}, projectState(p), trustState(p), {plain(p.Path), ""}, {strconv.Itoa(p.Open), ""}, {p.ID, ""}})
			}
			e.table(w, []string{"PROJECT", "STATE", "TRUST", "PATH", "SESSIONS", "ID"}, rows)
		})
	},
}

// projectState is the state as a cell. What nobody can tell is not shown as ok.
func projectState(p api.Project) cell {
	if p.Unread != "" {
		return cell{"unknown", yellow}
	}
	return cell{string(p.State), map[session.ProjectState]string{session.ProjectOK: green, session.ProjectMoved: red, session.ProjectRemoved: dim}[p.State]}
}

// trustState is the state of the trust as a cell.
func trustState(p api.Project) cell {
	if p.Trust == "" {
		return cell{"-", ""}
	}
	return cell{string(p.Trust), trustColors[p.Trust]}
}

var projectShow = Command{
	Path: "project show", Short: "Show one project", Op: "project.show", Args: "NAME", Min: 1, Max: 1, Complete: projectNames,
	Long:    "NAME is a name, an id, or a path.",
	Example: "mcpx project show shop",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		p, err := service.Project(ctx, api.ProjectRef{Project: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(p, func(w io.Writer) {
			state := projectState(p)
			line(w, "%s  %s", e.paint(bold, p.Name), e.paint(state.color, state.text))
			line(w, "id        %s", p.ID)
			line(w, "path      %s", plain(p.Path))
			if p.Physical.Real != p.Path {
				line(w, "is        %s", plain(p.Physical.Real))
			}
			line(w, "identity  %s", p.By)
			line(w, "added     %s", stamp(p.Added))
			if !p.Removed.IsZero() && p.State == session.ProjectRemoved {
				line(w, "removed   %s", stamp(p.Removed))
			}
			line(w, "sessions  %d open", p.Open)
			trust := trustState(p)
			line(w, "trust     %s", e.paint(trust.color, trust.text))
			e.showGrants(w, p.Grants)
			switch {
			case p.Unread != "":
				line(w, "Nobody can tell what is there now: %s.", plain(p.Unread))
			case p.State == session.ProjectMoved:
				line(w, "It is not there any more: %s.", plain(p.Why))
				e.next(w, []string{"mcpx project rebind " + p.Name + " PATH"})
			}
		})
	},
}

func (e *Env) showGrants(w io.Writer, all []session.Grant) {
	for _, g := range all {
		line(w, "grant     %s is %s since %s", plain(g.Principal), g.Role, stamp(g.At))
	}
}

var projectRemove = Command{
	Path: "project remove", Short: "Unregister a directory; its records stay", Op: "project.remove", Args: "NAME", Min: 1, Max: 1, Complete: projectNames,
	Long:    "Nothing in the directory is touched. Sessions of the project answer reads and change nothing any more.",
	Example: "mcpx project remove shop",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.RemoveProject(e.operation(ctx), api.ProjectRef{Project: a.Pos(0)})
		return e.showProjectChange(out, err)
	},
}

var projectRebind = Command{
	Path: "project rebind", Short: "Say which directory a project is now", Op: "project.rebind", Args: "NAME [PATH]", Min: 1, Max: 2, Complete: projectNames,
	Long: "For a project that was moved, or whose directory was made anew: until then nothing in it is changed. Without PATH\n" +
		"it is the directory that is at its path now.",
	Example: "mcpx project rebind shop ~/src/shop-2\nmcpx project rebind shop",
	Flags:   []Flag{identityFlag, overlapFlag},
	Run: func(ctx context.Context, e *Env, a Args) error {
		in := api.RebindProject{Project: a.Pos(0), Identity: session.Recognised(a.String("identity")), Overlap: a.Bool("overlap")}
		if a.Len() > 1 {
			path, err := projectPath(a.Pos(1))
			if err != nil {
				return err
			}
			in.Path = path
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.RebindProject(e.operation(ctx), in)
		return e.showProjectChange(out, err)
	},
}

var projectGrant = Command{
	Path: "project grant", Short: "Give somebody a role on a project", Op: "project.grant", Args: "NAME", Min: 1, Max: 1, Complete: projectNames,
	Long:    "A viewer reads, an editor also changes, an owner also approves and shares. You need a terminal: others are let in.",
	Example: "mcpx project grant shop --to ann --role editor\nmcpx project grant shop --to ann --revoke",
	Flags:   []Flag{toFlag, {Name: "role", Kind: StringFlag, Value: "ROLE", Usage: "owner, editor or viewer"}, revokeFlag},
	Run: func(ctx context.Context, e *Env, a Args) error {
		if err := grantWords(a, "project grant"); err != nil {
			return err
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.GrantProject(e.operation(ctx), api.GrantProject{
			Project: a.Pos(0), Principal: a.String("to"), Role: session.Role(a.String("role")), Revoke: a.Bool("revoke"),
		})
		return e.showGranted(out, err)
	},
}

// grantWords checks what both commands that grant want.
func grantWords(a Args, command string) error {
	switch {
	case a.String("to") == "":
		return misused("--to PRINCIPAL is missing", command)
	case a.Bool("revoke") == a.Given("role"):
		return misused("give one of --role ROLE and --revoke", command)
	}
	return nil
}

func (e *Env) showGranted(out api.Granted, err error) error {
	if err != nil {
		return err
	}
	return e.Show(out, func(w io.Writer) { line(w, "%s.", plain(out.Text)) })
}

// projectNames are the candidates for completion.
func projectNames(ctx context.Context, e *Env) []string {
	client, err := e.Daemon()
	if err != nil {
		return nil
	}
	page, err := client.Projects(ctx, api.ProjectsQuery{})
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(page.Projects))
	for _, p := range page.Projects {
		names = append(names, p.Name)
	}
	return names
}
