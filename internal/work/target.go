package work

import (
	"context"
	"path/filepath"
	"strings"

	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// locate finds where a call acts: its session's project, or the project in which its absolute path lies. A principal who
// has no grant of a project reaches only sessions that were shared with it.
func (s *Service) locate(ctx context.Context, r store.Reader, t *turn, path string, act session.Act) (session.Admission, error) {
	if ref := t.text("remote_session_id"); ref != "" {
		return session.Admit(ctx, r, session.AdmitRequest{Session: ref, Principal: t.Principal, Act: act})
	}
	mine, err := session.Projects(ctx, r, t.Principal)
	if err != nil {
		return session.Admission{}, err
	}
	var deepest session.Project // projects may overlap
	for _, a := range mine {
		if p := a.Project; filepath.IsAbs(path) && (within(p.Path, path) || within(p.Physical.Real, path)) && len(p.Path) > len(deepest.Path) {
			deepest = p
		}
	}
	if deepest.ID != "" {
		return session.AdmitProject(ctx, r, session.AdmitProjectRequest{Project: deepest.ID, Principal: t.Principal, Act: act})
	}
	return session.Admission{}, projectRequired(mine)
}

// within says whether a path is a directory or lies in it. It chooses a project; what may be reached is judged by the file
// system.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && dir != "" && rel != ".." && !strings.HasPrefix(rel, "../")
}

// maxOffered is how many projects a refusal lists.
const maxOffered = 20

// projectRequired is the refusal of a call that does not say where. A single project is not chosen silently: the next one
// that is registered would change what a call means.
func projectRequired(mine []session.Admission) error {
	r := operation.Refuse(operation.ProjectRequired, "say which project: open a session with `session`, or name it")
	names := make([]string, 0, maxOffered)
	for _, a := range mine[:min(len(mine), maxOffered)] {
		names = append(names, a.Project.Name)
	}
	if r = r.With("projects", names); len(names) == 0 {
		return r.With("hint", "a person registers a project with `mcpx project add PATH`")
	}
	return r.Then(operation.Next{
		Tool: "session", Args: map[string]any{"action": "open", "project": names[0], operation.IDField: "open-" + names[0] + "-1"}, Why: "opens a session",
	})
}
