package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"golang.org/x/sync/errgroup"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/key"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// Directories says what is in the file system, as far as projects need it.
type Directories interface {
	// Survey says what is at an absolute path. An error means that nobody can tell now.
	Survey(ctx context.Context, path string) (session.Found, error)
	// Home is the home directory of the user, "" when it is not known; Runtime are the directories of mcpx. Both are
	// without links.
	Home() string
	Runtime() []string
}

// Projects lists projects.
func (c *Control) Projects(ctx context.Context, in api.ProjectsQuery) (api.ProjectPage, error) {
	if err := c.allow(ctx, "project.list"); err != nil {
		return api.ProjectPage{}, err
	}
	page := api.ProjectPage{Projects: []api.Project{}, Next: []string{}}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		all, err := session.AllProjects(ctx, r, in.All)
		if err != nil {
			return err
		}
		open, err := openSessions(ctx, r)
		for _, p := range all {
			page.Projects = append(page.Projects, api.Project{Project: p, Open: open[p.ID]})
		}
		return err
	})
	for i := range page.Projects {
		c.present(ctx, &page.Projects[i])
	}
	if len(page.Projects) == 0 {
		page.Next = []string{"mcpx project add PATH"}
	}
	return page, err
}

// openSessions counts the open sessions of each project.
func openSessions(ctx context.Context, r store.Reader) (map[string]int, error) {
	count := map[string]int{}
	for s, err := range session.EachSession(ctx, r, session.ListSessions{State: session.Open}) {
		if err != nil {
			return nil, err
		}
		count[s.Project]++
	}
	return count, nil
}

// present fills in what is at the path of a project now. It writes nothing: a turn of the loop does.
func (c *Control) present(ctx context.Context, p *api.Project) {
	if p.State == session.ProjectRemoved {
		return
	}
	found, err := c.cfg.Directories.Survey(ctx, p.Path)
	if err != nil {
		p.Unread = fault.From(err).Message
		return
	}
	if p.Project, _ = session.Look(p.Project, found); p.State != session.ProjectOK {
		return
	}
	if t, err := c.trustOf(ctx, p.ID); err == nil {
		p.Trust = session.Untrusted
		if t.Digest == "" {
			return
		}
		repo, err := c.cfg.Repositories.Repository(ctx, p.Project)
		if p.Trust = session.Changed; err == nil {
			p.Trust = t.State(repo)
		}
	}
}

// Project gives one project.
func (c *Control) Project(ctx context.Context, in api.ProjectRef) (api.Project, error) {
	if err := c.allow(ctx, "project.show"); err != nil {
		return api.Project{}, err
	}
	var out api.Project
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		p, err := projectNamed(ctx, r, in.Project)
		if err != nil {
			return err
		}
		out, err = projectView(ctx, r, p)
		return err
	})
	if err == nil {
		c.present(ctx, &out)
	}
	return out, err
}

func projectView(ctx context.Context, r store.Reader, p session.Project) (api.Project, error) {
	grants, err := session.AllGrants(ctx, r, session.ListGrants{About: p.ID})
	if err != nil {
		return api.Project{}, err
	}
	open, err := openSessions(ctx, r)
	return api.Project{Project: p, Grants: grants, Open: open[p.ID]}, err
}

// projectNamed finds a registered project by name, id or path, and any project by an id or a beginning of it.
func projectNamed(ctx context.Context, r store.Reader, name string) (session.Project, error) {
	all, err := session.AllProjects(ctx, r, false)
	if err != nil {
		return session.Project{}, err
	}
	if p, ok := session.FindProject(all, name); ok {
		return p, nil
	}
	return r.ProjectByID(ctx, session.ByID{ID: name})
}

// projectID is the id of the project that somebody names; "" when nobody does.
func projectID(ctx context.Context, r store.Reader, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	p, err := projectNamed(ctx, r, name)
	return p.ID, err
}

// ground is what a registration is judged against.
func (c *Control) ground(ctx context.Context, r store.Reader, overlap bool) (session.Ground, error) {
	all, err := session.AllProjects(ctx, r, true)
	return session.Ground{Home: c.cfg.Directories.Home(), Runtime: c.cfg.Directories.Runtime(), Others: all, Overlap: overlap}, err
}

// AddProject registers a directory. Agents may have files in it, and the servers of its repository may be trusted from before.
func (c *Control) AddProject(ctx context.Context, in api.AddProject) (api.ProjectChange, error) {
	if err := c.allow(ctx, "project.add"); err != nil {
		return api.ProjectChange{}, err
	}
	if in.Identity == "" {
		in.Identity = session.ByIdentity
	}
	found, err := c.survey(ctx, in.Path)
	if err != nil {
		return api.ProjectChange{}, err
	}
	out := api.ProjectChange{Next: []string{}, Operation: api.OperationOf(ctx)}
	err = c.mutate(ctx, func(ctx context.Context, tx store.Tx) error {
		ground, err := c.ground(ctx, tx, in.Overlap)
		if err != nil {
			return err
		}
		p, did, err := session.Register(session.RegisterRequest{
			ID: c.cfg.IDs.New(id.Project), Path: in.Path, Name: in.Name, By: in.Identity, Found: found, Ground: ground, Now: c.cfg.Now(),
		})
		if err != nil {
			return err
		}
		out.State, out.Already = string(did), did == session.ProjectThere
		out.Text = map[session.Registered]string{
			session.ProjectAdded:    fmt.Sprintf("%s is the project %s", p.Path, p.Name),
			session.ProjectRestored: fmt.Sprintf("%s is the project %s again, with the records that it had", p.Path, p.Name),
			session.ProjectThere:    fmt.Sprintf("%s is the project %s already", p.Path, p.Name),
		}[did]
		if !out.Already {
			if err := c.keepProject(ctx, tx, p, event.ProjectAdded, out.Text); err != nil {
				return err
			}
		}
		out.Project, err = projectView(ctx, tx, p)
		return err
	})
	if err != nil {
		return api.ProjectChange{}, err
	}
	out.Next = []string{"mcpx project show " + out.Project.Name}
	return out, nil
}

// survey looks at a path that may become that of a project.
func (c *Control) survey(ctx context.Context, path string) (session.Found, error) {
	path, err := session.ProjectPath(path)
	if err != nil {
		return session.Found{}, err
	}
	found, err := c.cfg.Directories.Survey(ctx, path)
	if err != nil {
		return session.Found{}, fault.New(fault.Unavailable, "project-unreadable").Saying("what is at %s cannot be found out", path).
			Hinting("check the permissions of the directories above it").Because(err)
	}
	return found, nil
}

// keepProject writes a project and tells of it.
func (c *Control) keepProject(ctx context.Context, tx store.Tx, p session.Project, kind event.Kind, text string) error {
	if err := tx.PutProject(ctx, session.PutProject{Project: p}); err != nil {
		return err
	}
	return c.tell(ctx, tx, kind, event.Refs{event.RefProject: p.ID, event.RefPath: p.Path}, text, p)
}

// RebindProject says which directory a project is from now on.
func (c *Control) RebindProject(ctx context.Context, in api.RebindProject) (api.ProjectChange, error) {
	if err := c.allow(ctx, "project.rebind"); err != nil {
		return api.ProjectChange{}, err
	}
	path := in.Path
	if path == "" {
		p, err := c.storedProject(ctx, in.Project)
		if err != nil {
			return api.ProjectChange{}, err
		}
		path = p.Path
	}
	found, err := c.survey(ctx, path)
	if err != nil {
		return api.ProjectChange{}, err
	}
	out := api.ProjectChange{State: "rebound", Next: []string{}, Operation: api.OperationOf(ctx)}
	err = c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		was, err := registered(ctx, tx, in.Project)
		if err != nil {
			return err
		}
		ground, err := c.ground(ctx, tx, in.Overlap)
		if err != nil {
			return err
		}
		p, changed, err := session.Rebind(session.RebindRequest{Project: was, Path: path, By: in.Identity, Found: found, Ground: ground})
		if err != nil {
			return err
		}
		out.Text = fmt.Sprintf("the project %s is %s", p.Name, p.Path)
		if changed {
			err = c.keepProject(ctx, tx, p, event.ProjectRebound, out.Text)
		} else {
			out.State, out.Already = "already_bound", true
		}
		if err != nil {
			return err
		}
		out.Project, err = projectView(ctx, tx, p)
		return err
	})
	if err != nil {
		return api.ProjectChange{}, err
	}
	c.stir()
	return out, nil
}

func (c *Control) storedProject(ctx context.Context, name string) (p session.Project, err error) {
	err = c.cfg.DB.View(ctx, func(r store.Reader) error {
		p, err = registered(ctx, r, name)
		return err
	})
	return p, err
}

// registered finds a project that is not unregistered.
func registered(ctx context.Context, r store.Reader, name string) (session.Project, error) {
	p, err := projectNamed(ctx, r, name)
	if err == nil && p.State == session.ProjectRemoved {
		return session.Project{}, session.ProjectUnknown(name)
	}
	return p, err
}

// RemoveProject unregisters a directory. Nothing in it is touched.
func (c *Control) RemoveProject(ctx context.Context, in api.ProjectRef) (api.ProjectChange, error) {
	if err := c.allow(ctx, "project.remove"); err != nil {
		return api.ProjectChange{}, err
	}
	out := api.ProjectChange{State: "removed", Next: []string{}, Operation: api.OperationOf(ctx)}
	err := c.mutate(ctx, func(ctx context.Context, tx store.Tx) error {
		p, err := projectNamed(ctx, tx, in.Project)
		if err != nil {
			return err
		}
		if p.State == session.ProjectRemoved {
			out.State, out.Already, out.Text = "already_removed", true, p.Path+" is no project already"
		} else {
			p = session.Unregister(p, c.cfg.Now())
			out.Text = p.Path + " is no project any more; nothing in it was touched, and its records stay"
			if err := c.keepProject(ctx, tx, p, event.ProjectRemoved, out.Text); err != nil {
				return err
			}
		}
		out.Project, err = projectView(ctx, tx, p)
		return err
	})
	if err != nil {
		return api.ProjectChange{}, err
	}
	return out, nil
}

// looksAtOnce bounds how many projects are looked at at once: file systems that do not answer are waited for together.
const looksAtOnce = 16

// LookAtProjects writes down which projects are not where they were, and which are there again. Before that nobody changes anything
// at a start.
func (c *Control) LookAtProjects(ctx context.Context) error {
	var all []session.Project
	err := c.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		all, err = session.AllProjects(ctx, r, false)
		return err
	})
	var looks errgroup.Group
	looks.SetLimit(looksAtOnce)
	errs := make([]error, len(all))
	for i, p := range all {
		looks.Go(func() error {
			found, err := c.cfg.Directories.Survey(ctx, p.Path)
			if err != nil { // no verdict comes from an error
				c.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "a project cannot be looked at", slog.String(key.Path, p.Path), slog.Any(key.Cause, err))
				return nil
			}
			if _, changed := session.Look(p, found); changed {
				errs[i] = c.moved(ctx, p.ID, found)
			}
			return nil
		})
	}
	return errors.Join(append(errs, err, looks.Wait())...)
}

// moved judges the project again inside the change: somebody may have rebound it since it was read.
func (c *Control) moved(ctx context.Context, projectID string, found session.Found) error {
	return c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		stored, err := tx.ProjectByID(ctx, session.ByID{ID: projectID})
		if err != nil {
			return err
		}
		p, changed := session.Look(stored, found)
		if !changed {
			return nil
		}
		if p.State == session.ProjectOK {
			return c.keepProject(ctx, tx, p, event.ProjectFound, fmt.Sprintf("the project %s is at %s again", p.Name, p.Path))
		}
		return c.keepProject(ctx, tx, p, event.ProjectMoved, fmt.Sprintf("the project %s is not at %s any more: %s", p.Name, p.Path, p.Why))
	})
}

// GrantProject gives a principal a role on a project, or takes it away.
func (c *Control) GrantProject(ctx context.Context, in api.GrantProject) (api.Granted, error) {
	if err := c.allow(ctx, "project.grant"); err != nil {
		return api.Granted{}, err
	}
	return c.grant(ctx, granting{
		make: session.GrantProject, granted: event.ProjectGranted, revoked: event.ProjectRevoked, principal: in.Principal, role: in.Role, revoke: in.Revoke,
		about: func(tx store.Tx) (string, event.Refs, string, error) {
			p, err := registered(ctx, tx, in.Project)
			return p.ID, event.Refs{event.RefProject: p.ID}, "on the project " + p.Name, err
		},
	})
}

// granting is one change of a role.
type granting struct {
	make             func(session.GrantRequest) (session.Grant, error)
	about            func(tx store.Tx) (about string, refs event.Refs, where string, err error)
	granted, revoked event.Kind
	principal        string
	role             session.Role
	revoke           bool
}

// grant lets somebody in, or out. Whoever asks must sit at a terminal: a program of the same user shall not let others in.
func (c *Control) grant(ctx context.Context, g granting) (api.Granted, error) {
	if _, err := c.cfg.Person(api.CallerOf(ctx).Pid); err != nil {
		return api.Granted{}, err
	}
	var out api.Granted
	err := c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		about, refs, where, err := g.about(tx)
		if err != nil {
			return err
		}
		all, err := session.AllGrants(ctx, tx, session.ListGrants{About: about, Principal: g.principal})
		if err != nil {
			return err
		}
		out = api.Granted{State: "granted", About: about, Principal: g.principal, Role: g.role}
		if g.revoke {
			out.State, out.Role, out.Already = "revoked", "", len(all) == 0
			out.Text = fmt.Sprintf("%s has no role %s", g.principal, where)
			if out.Already {
				return nil
			}
			if err := tx.DeleteGrant(ctx, session.DeleteGrant{About: about, Principal: g.principal}); err != nil {
				return err
			}
			return c.tell(ctx, tx, g.revoked, refs, out.Text, all[0])
		}
		made, err := g.make(session.GrantRequest{About: about, Principal: g.principal, Role: g.role, By: actorOf(ctx).Principal, Now: c.cfg.Now()})
		if err != nil {
			return refusedHere(err)
		}
		out.Text = fmt.Sprintf("%s is %s %s", g.principal, g.role, where)
		if out.Already = slices.ContainsFunc(all, func(have session.Grant) bool { return have.Role == g.role }); out.Already {
			return nil
		}
		if err := tx.PutGrant(ctx, session.PutGrant{Grant: made}); err != nil {
			return err
		}
		return c.tell(ctx, tx, g.granted, refs, out.Text, made)
	})
	if err != nil {
		return api.Granted{}, err
	}
	if out.Already {
		out.State = "already_" + out.State
	}
	out.Operation = api.OperationOf(ctx)
	return out, nil
}

// refusedHere is a refusal that agents would see, for a person at a terminal.
func refusedHere(err error) error {
	r, ok := errors.AsType[*operation.Refusal](err)
	switch {
	case !ok:
		return err
	case r.Code == session.JobsRunning:
		return fault.New(fault.Conflict, "session-jobs-running").Saying("%s: %v", r.Message, r.Details["jobs"]).Hinting("try again when they have ended").Retrying(r.Retry)
	case r.Code == operation.SessionClosed:
		return fault.New(fault.Conflict, "session-closed").Saying("%s", r.Message).Hinting("open another one").Retrying(r.Retry)
	}
	return fault.New(fault.Invalid, "request-invalid").Saying("%s", r.Message).Retrying(r.Retry)
}
