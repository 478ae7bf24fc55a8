package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/workspace"
)

var workspaceList = Command{
	Path: "workspace list", Short: "List the workspaces of agents, the newest first", Op: "workspace.list",
	Long: "A workspace is a copy of a project in which an agent works; its changes come into the project all at once. Without --all,\n" +
		"those that are not done. DIRTY says whether there are changes; unverified, that nobody can tell now.",
	Example: "mcpx workspace list\nmcpx workspace list --project shop --all",
	Flags: []Flag{
		{Name: "project", Kind: StringFlag, Value: "PROJECT", Usage: "only of PROJECT, by its name, id or path"},
		{Name: "all", Kind: BoolFlag, Usage: "those that are done, too"},
		atMost, before,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.Workspaces(ctx, api.WorkspacesQuery{Project: a.String("project"), All: a.Bool("all"), Limit: a.Int("limit"), Before: a.Int("before")})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if len(page.Workspaces) == 0 {
				line(w, "No workspaces.")
			} else {
				rows := make([][]cell, 0, len(page.Workspaces))
				for _, one := range page.Workspaces {
					rows = append(rows, []cell{
						{one.ID, bold},
						workspaceState(one),
						{dash(one.Name), ""},
						dirtyCell(one),
						{e.since(one), ""},
						{plain(one.Principal), ""},
						{dash(strings.Join(waitsFor(one), ", ")), yellow},
						{short(one.Purpose, 50), ""},
					})
				}
				e.table(w, []string{"WORKSPACE", "STATE", "PROJECT", "DIRTY", "AGE", "PRINCIPAL", "WAITS FOR", "PURPOSE"}, rows)
			}
			e.goesOn(page.Before)
			e.next(w, page.Next)
		})
	},
}

func workspaceState(w api.Workspace) cell {
	return cell{string(w.State), map[workspace.State]string{
		workspace.Open: green, workspace.Attention: red, workspace.Quarantined: yellow, workspace.Missing: red, workspace.Integrated: dim, workspace.Retired: dim,
	}[w.State]}
}

func dirtyCell(w api.Workspace) cell {
	return cell{dash(w.Dirty), map[string]string{workspace.Dirty: yellow}[w.Dirty]}
}

// since is how old a workspace is.
func (e *Env) since(w api.Workspace) string { return age(e.Now().Sub(w.Created)) }

// waitsFor says what keeps a workspace from going on.
func waitsFor(w api.Workspace) []string {
	var all []string
	for _, id := range w.Asks {
		all = append(all, "your yes or no to "+id)
	}
	if n := len(w.Jobs); n > 0 {
		all = append(all, fmt.Sprintf("%d %s", n, plural(n, "job", "jobs")))
	}
	if w.State == workspace.Attention {
		all = append(all, "your verdict")
	}
	return all
}

var workspaceShow = Command{
	Path: "workspace show", Short: "Show a workspace: its scope, what was done in it, and what is in its way", Op: "workspace.show", Args: "WORKSPACE", Min: 1, Max: 1, Complete: workspaceNames,
	Long: "WORKSPACE is an id or a beginning of it. A conflict is a path that the workspace and the project both changed since the\n" +
		"copy was made. Its sides are files in the workspace once an integration was tried: BASE as it was copied, CURRENT as the\n" +
		"project has it, PROPOSED as the workspace has it, and of a text MERGED, with marks where both changed.",
	Example: "mcpx workspace show ws_01J",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		view, err := service.Workspace(ctx, api.WorkspaceRef{Workspace: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(view, func(w io.Writer) { e.workspaceText(w, view) })
	},
}

func (e *Env) workspaceText(w io.Writer, v api.WorkspaceView) {
	state := workspaceState(v.Workspace)
	line(w, "%s  %s", e.paint(bold, v.Handle().String()), e.paint(state.color, state.text))
	facts := [][2]string{{"purpose", plain(v.Purpose)}, {"project", dash(v.Name)}, {"principal", plain(v.Principal)}}
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, [2]string{name, value})
		}
	}
	add("session", v.Session)
	add("because", plain(v.Why))
	add("copy", plain(copyOf(v.Workspace)))
	var scope []string
	for _, s := range v.Mutable {
		scope = append(scope, plain(s.Path))
	}
	add("may change", strings.Join(scope, "\n"))
	if len(v.Excludes) > 0 {
		add("without", plain(strings.Join(v.Excludes, "\n")))
	}
	add("claim", claimWords(v.Workspace))
	add("made", stamp(v.Created))
	if !v.Base.At.IsZero() {
		add("copied", fmt.Sprintf("%s, %d files, %d bytes, by %s", stamp(v.Base.At), v.Base.Files, v.Base.Bytes, v.Base.Method))
	}
	add("dirty", v.Dirty)
	add("snapshot", v.Snapshot)
	var earlier []string
	for _, p := range v.Earlier {
		earlier = append(earlier, p.Snapshot)
	}
	add("and before", strings.Join(earlier, "\n"))
	add("jobs", strings.Join(v.Jobs, "\n"))
	add("waits for", strings.Join(waitsFor(v.Workspace), "\n"))
	add("the project", supersededWords(v.Superseded))
	pairs(w, facts)
	e.changesText(w, "Changes", v.Changes, v.More)
	e.changesText(w, "Outside of what it may change", v.Outside, 0)
	e.conflictsText(w, v.Conflicts, 0)
	e.next(w, v.Next)
}

// copyOf is where the working copy of a workspace is; "" it is in the trash.
func copyOf(w api.Workspace) string {
	if w.Dir == "" || w.State == workspace.Retired {
		return ""
	}
	return filepath.Join(w.Dir, "tree")
}

// claimWords says whether others are kept from what the workspace may change.
func claimWords(w api.Workspace) string {
	switch {
	case !slices.Contains(workspace.Holds, w.State):
		return "none: others may claim what it may change"
	case w.Overlap == workspace.AllowOverlap:
		return "shared with others that allow it, too"
	}
	return "its own: nobody else may claim what it may change"
}

func supersededWords(integrations []string) string {
	if len(integrations) == 0 {
		return ""
	}
	return fmt.Sprintf("changed since the copy, by %s", strings.Join(integrations, ", "))
}

// maxShown is how many changes are shown without being asked for.
const maxShown = 50

func (e *Env) changesText(w io.Writer, title string, changes []api.WorkspaceChange, more int) {
	if len(changes) == 0 {
		return
	}
	line(w, "\n%s", title)
	for _, c := range changes[:min(len(changes), maxShown)] {
		line(w, "  %-8s  %s%s", c.Change, plain(c.String()), e.projectSide(c))
	}
	if more += max(0, len(changes)-maxShown); more > 0 {
		line(w, "  and %d more: mcpx workspace diff shows them", more)
	}
}

// projectSide is what the project did to a path, where it did something.
func (e *Env) projectSide(c api.WorkspaceChange) string {
	if c.Current == "" {
		return ""
	}
	return e.paint(yellow, "  (in the project: "+c.Current+")")
}

// conflictsText shows conflicts with their sides, and how each is resolved.
func (e *Env) conflictsText(w io.Writer, conflicts []api.WorkspaceConflict, more int) {
	if len(conflicts) == 0 {
		return
	}
	line(w, "\n%s", e.paint(red, fmt.Sprintf("Conflicts: %d %s changed in the workspace and in the project", len(conflicts)+more, plural(len(conflicts)+more, "path was", "paths were"))))
	for _, c := range conflicts {
		line(w, "  %s  %s", e.paint(bold, plain(c.String())), conflictWords[c.Kind])
		if c.Bundle == "" {
			continue
		}
		for _, s := range c.Sides {
			line(w, "    %-8s  %-24s  %s", s.Name, sideWords[s.Name], plain(filepath.Join(c.Bundle, s.Name)))
		}
		switch {
		case c.Theirs != "":
			line(w, "    the workspace has it as %s, the project as %s; --resolved leaves both", plain(c.Renamed), plain(c.Theirs))
		case c.Renamed != "":
			line(w, "    write MERGED to %s first; --resolved deletes the old name", plain(c.Renamed))
		}
	}
	if more > 0 {
		line(w, "  and %d more, which are shown when these are resolved", more)
	}
	if conflicts[0].Bundle == "" {
		line(w, "The sides of each are written into the workspace when you try to integrate it.")
		return
	}
	line(w, "Write what each shall be into the copy, then integrate with --resolved PATH; or leave what the project has, with --current PATH.")
}

var conflictWords = map[workspace.Conflict]string{
	workspace.ConflictText:         "both changed the same lines",
	workspace.ConflictBinary:       "both changed it, and it is no text that could be merged",
	workspace.ConflictEOL:          "they differ in line ends only",
	workspace.ConflictAddAdd:       "both added it, with different content",
	workspace.ConflictDeleteModify: "the workspace deleted it, the project changed it",
	workspace.ConflictModifyDelete: "the workspace changed it, the project deleted it",
	workspace.ConflictRenameModify: "the workspace seems to have renamed it, the project changed it",
	workspace.ConflictRenameRename: "both seem to have renamed it, to different names",
	workspace.ConflictType:         "a file on one side is a directory or link on the other",
	workspace.ConflictParentGone:   "the project deleted the directory that it is in",
}

var sideWords = map[string]string{
	"BASE": "as it was copied", "CURRENT": "as the project has it", "PROPOSED": "as the workspace has it", "MERGED": "both changes, with marks",
}

// plural is the word for n things.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// workspaceNames are the candidates for completion.
func workspaceNames(ctx context.Context, e *Env) []string {
	client, err := e.Daemon()
	if err != nil {
		return nil
	}
	page, err := client.Workspaces(ctx, api.WorkspacesQuery{})
	if err != nil {
		return nil
	}
	var names []string
	for _, w := range page.Workspaces {
		names = append(names, w.ID)
	}
	return names
}
