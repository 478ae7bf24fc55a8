package work

import (
	"context"
	"path/filepath"
	"strings"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// place is where a call acts, and as what.
type place struct {
	project session.Project
	session *session.Session // nil: the call names none
	role    session.Role
}

// locate finds the place of a call: its session's project, or the project that it names by an absolute path. A principal
// who has no grant of a project reaches only sessions that were shared with it.
func (s *Service) locate(ctx context.Context, r store.Reader, t *turn, path string, act session.Act) (place, error) {
	if ref := t.text("remote_session_id"); ref != "" {
		return s.inSession(ctx, r, t.Principal, ref, act)
	}
	projects, err := session.AllProjects(ctx, r, false)
	if err != nil {
		return place{}, err
	}
	grants, err := session.AllGrants(ctx, r, session.ListGrants{Principal: t.Principal})
	if err != nil {
		return place{}, err
	}
	if filepath.IsAbs(path) {
		for _, p := range projects {
			role := session.RoleOn(p.ID, t.Principal, grants)
			if role == "" || !within(p.Path, path) && !within(p.Physical.Real, path) {
				continue
			}
			if !role.May(act) {
				return place{}, operation.Refuse(operation.RoleDenied, "your role on the project %s is %s, which does not permit this", p.Name, role).
					Retrying(fault.Never).With("needs", session.Needs(act))
			}
			return place{project: p, role: role}, nil
		}
	}
	return place{}, projectRequired(projects, grants, t.Principal)
}

// within says whether a path is a directory or lies in it. It chooses a project; what may be reached is judged by the file
// system.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && dir != "" && rel != ".." && !strings.HasPrefix(rel, "../")
}

func (s *Service) inSession(ctx context.Context, r store.Reader, principal, ref string, act session.Act) (place, error) {
	found, role, err := s.sessionOf(ctx, r, principal, ref)
	if err != nil {
		return place{}, err
	}
	if err := session.Check(session.CheckRequest{Session: found, Role: role, Act: act}); err != nil {
		return place{}, err
	}
	p, err := r.ProjectByID(ctx, session.ByID{ID: found.Project})
	return place{project: p, session: &found, role: role}, err
}

// sessionOf finds a session and what the principal is in it. One that is foreign is one that is not there.
func (s *Service) sessionOf(ctx context.Context, r store.Reader, principal, ref string) (session.Session, session.Role, error) {
	found, err := r.RemoteSessionByID(ctx, session.ByID{ID: ref})
	if fault.KindOf(err) == fault.NotFound || fault.KindOf(err) == fault.Conflict || err == nil && found.ID != ref {
		return session.Session{}, "", session.NotFound(ref)
	}
	if err != nil {
		return session.Session{}, "", err
	}
	grants, err := session.AllGrants(ctx, r, session.ListGrants{Principal: principal})
	return found, session.RoleIn(found, principal, grants), err
}

// maxOffered is how many projects a refusal lists.
const maxOffered = 20

// projectRequired is the refusal of a call that does not say where. A single project is not chosen silently: the next one
// that is registered would change what a call means.
func projectRequired(all []session.Project, grants []session.Grant, principal string) error {
	r := operation.Refuse(operation.ProjectRequired, "say which project: open a session with `session`, or name it")
	var names []string
	for _, p := range all {
		if session.RoleOn(p.ID, principal, grants) != "" && len(names) < maxOffered {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return r.With("projects", []string{}).With("hint", "a person registers a project with `mcpx project add PATH`")
	}
	return r.With("projects", names).Then(operation.Next{
		Tool: "session", Args: map[string]any{"action": "open", "project": names[0], operation.IDField: "open-" + names[0] + "-1"}, Why: "opens a session",
	})
}
