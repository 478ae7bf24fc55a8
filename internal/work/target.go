package work

import (
	"context"

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
	if a, ok, err := session.AdmitPath(mine, path, act); ok || err != nil {
		return a, err
	}
	return session.Admission{}, projectRequired(mine)
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
