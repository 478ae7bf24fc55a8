package work

import (
	"context"
	"slices"
	"strings"

	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// WorkspaceStatus are the arguments of workspace_status.
type WorkspaceStatus struct {
	Claims
	Session string `json:"remote_session_id,omitempty" jsonschema:"the session"`
	Handle  string `json:"handle" jsonschema:"a handle, or the id of a workspace"`
	Diff    string `json:"diff,omitempty" jsonschema:"none, names or patch; names without it"`
}

const (
	// maxChanges is how many changes an answer names.
	maxChanges = 200
	// maxShownToPerson is how many changes a person is shown, who pages through them.
	maxShownToPerson = 5000
	// maxPatch bounds a file whose change is shown, in bytes.
	maxPatch = 1 << 20
	// maxPatches bounds the lines of all of them, in bytes: what comes after is only named.
	maxPatches = 16 << 20
)

// workspaceShown is a workspace as it is told.
type workspaceShown struct {
	ID         string            `json:"workspace_id"`
	State      workspace.State   `json:"state"`
	Why        string            `json:"why,omitempty"`
	Rev        int               `json:"rev"`
	Purpose    string            `json:"purpose"`
	Project    string            `json:"project"`
	Path       string            `json:"path"`
	Mutable    []string          `json:"mutable"`
	Overlap    workspace.Overlap `json:"on_overlap"`
	Snapshot   string            `json:"snapshot,omitempty"`
	Dirty      string            `json:"dirty"` // yes, no or unverified
	Changes    []changeShown     `json:"changes,omitempty"`
	Outside    []changeShown     `json:"out_of_scope,omitempty"`
	More       int               `json:"more,omitempty"`
	Linked     []string          `json:"hard_linked,omitempty"`
	Jobs       []string          `json:"jobs,omitempty"`
	Superseded []string          `json:"superseded_by,omitempty"`
	History    []workspace.Step  `json:"history,omitempty"`
	Patch      string            `json:"patch,omitempty"`
}

// changeShown is a change as it is told.
type changeShown struct {
	shownPath
	Change string `json:"change"`
	// Current says what the project did to the path since BASE, "" nothing.
	Current string `json:"project,omitempty"`
}

func workspaceStatus(ctx context.Context, s *Service, t *turn) (any, error) {
	var in WorkspaceStatus
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if in.Diff != "" && in.Diff != "none" && in.Diff != "names" && in.Diff != "patch" {
		return nil, operation.Refuse(operation.ArgumentInvalid, "%.32q is no diff; none, names and patch are", in.Diff)
	}
	p, err := s.packet(ctx, t, in.Handle, session.ActRead)
	if err != nil {
		return nil, err
	}
	most := maxChanges
	if t.person {
		most = maxShownToPerson
	}
	out, err := s.showWorkspace(ctx, p, in.Diff, most)
	return outcome{data: out, handle: p.Handle().String()}, err
}

func (s *Service) showWorkspace(ctx context.Context, p packet, diff string, most int) (workspaceShown, error) {
	out := workspaceShown{
		ID: p.ID, State: p.State, Why: p.Why, Rev: p.Rev, Purpose: p.Purpose, Project: p.Admission.Project.Name, Path: p.dir.Copy(), Mutable: scopePaths(p.Workspace),
		Overlap: p.Overlap, Snapshot: p.Snapshot, Dirty: workspace.Unverified, Jobs: s.jobs.in(p.ID), History: p.History,
	}
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		since, err := integratedSince(ctx, r, []workspace.Workspace{p.Workspace})
		out.Superseded = superseding(since, p.Workspace)
		return err
	})
	if err != nil || diff == "none" || p.Base.Rev == 0 || p.State == workspace.Retired || p.State == workspace.Quarantined {
		return out, err
	}
	x, err := s.copy(p)
	if err != nil {
		return out, unlessUnread(err)
	}
	defer x.close()
	_, all, err := s.diffOf(ctx, p, x)
	if err != nil {
		return out, unlessUnread(err)
	}
	out.Dirty = "no"
	if len(all) > 0 {
		out.Dirty = "yes"
	}
	project, err := s.open(p.Admission)
	if err != nil {
		project = nil // what the project has now cannot be told: what the workspace has, can
	} else {
		defer project.close()
	}
	var patch strings.Builder
	shown, more := all[:min(len(all), most)], max(0, len(all)-most)
	out.More = more
	for _, c := range shown { // of the others no file is read
		shown := changeShown{shownPath: showPath(c.path), Change: c.kind()}
		if project != nil {
			shown.Current = movedTo(ctx, project, c)
		}
		if c.inside {
			out.Changes = append(out.Changes, shown)
		} else {
			out.Outside = append(out.Outside, shown)
		}
		switch {
		case diff != "patch":
		case patch.Len() > maxPatches:
			patch.WriteString(patchless(c))
		default:
			patch.WriteString(s.patchOf(ctx, p, x, c))
		}
	}
	for _, l := range p.Base.Aliases {
		if l.Why == "hardlink" {
			out.Linked = append(out.Linked, l.Path)
		}
	}
	out.Linked, _ = firstOf(out.Linked, maxLeftOut)
	out.Patch = s.cfg.Redact(patch.String())
	return out, nil
}

// unlessUnread hides that files cannot be read: the answer says that nothing is verified.
func unlessUnread(err error) error {
	if codeIn(err) == operation.Code(tree.FileDenied) {
		return nil
	}
	return err
}

// movedTo says what the project did to a path since BASE.
func movedTo(ctx context.Context, project *target, c change) string {
	now, err := project.root.Item(ctx, c.path)
	if err != nil {
		return workspace.Unverified
	}
	if entryOf(now) == entryOf(c.base) {
		return ""
	}
	return change{path: c.path, base: c.base, proposed: now}.kind()
}

// patchless is the change of a file whose lines are not shown.
func patchless(c change) string { return "# " + text.DiffName(c.path) + ": " + c.kind() + "\n" }

// patchOf is the change of one file from BASE to the working copy, as a unified difference.
func (s *Service) patchOf(ctx context.Context, p packet, x *target, c change) string {
	without := patchless(c)
	const nothing = "/dev/null" // as git names a file that is not there
	from, to, fromName, toName := text.Parse(nil), text.Parse(nil), nothing, nothing
	if c.base.Kind == tree.File {
		data, err := p.dir.Bytes(c.base.Digest, maxPatch)
		if err != nil || text.EncodingOf(data) != text.UTF8 {
			return without
		}
		from, fromName = text.Parse(data), c.path
	}
	if c.proposed.Kind == tree.File {
		at, err := s.resolve(ctx, x, c.path, tree.Read)
		if err != nil {
			return without
		}
		defer at.Close()
		got, err := at.Read(ctx, maxPatch)
		if err != nil || text.EncodingOf(got.Data) != text.UTF8 {
			return without
		}
		to, toName = text.Parse(got.Data), c.path
	}
	if c.base.Kind == tree.Link || c.proposed.Kind == tree.Link || fromName == toName && fromName == nothing {
		return without
	}
	return text.Diff(fromName, toName, from, to)
}

// maxSuperseding is how many integrations an answer names.
const maxSuperseding = 10

// integratedSince are the last integrations of the projects of some workspaces that may have come after their BASE, the newest first.
func integratedSince(ctx context.Context, r store.Reader, all []workspace.Workspace) (found []workspace.Integration, err error) {
	after := map[string]uint64{}
	for _, w := range all {
		if seq, ok := after[w.Project]; !ok || w.Base.After < seq {
			after[w.Project] = w.Base.After
		}
	}
	for project, seq := range after {
		if project == "" {
			continue
		}
		page, err := r.Integrations(ctx, workspace.ListIntegrations{Project: project, After: seq})
		if err != nil {
			return nil, err
		}
		found = append(found, page...)
	}
	return found, nil
}

// superseding are the integrations that touched the scope of a workspace after its BASE.
func superseding(since []workspace.Integration, w workspace.Workspace) (ids []string) {
	for _, i := range since {
		if i.Project != w.Project || i.Workspace == w.ID || i.Seq <= w.Base.After || len(ids) == maxSuperseding {
			continue
		}
		if slices.ContainsFunc(i.Paths, func(path string) bool { return workspace.Inside(path, w.Mutable) }) {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// lastIntegration is the number of the last one.
func (s *Service) lastIntegration(ctx context.Context) (seq uint64, err error) {
	err = s.cfg.DB.View(ctx, func(r store.Reader) error {
		page, err := r.Integrations(ctx, workspace.ListIntegrations{Limit: 1})
		if len(page) > 0 {
			seq = page[0].Seq
		}
		return err
	})
	return seq, err
}
