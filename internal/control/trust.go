package control

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// Repositories reads repositories.
type Repositories interface {
	// Repository is what the repository of a project can name to run, as it is now. It starts nothing.
	Repository(ctx context.Context, p session.Project) (session.Repository, error)
}

// ProjectTrust shows what the repository of a project can start.
func (c *Control) ProjectTrust(ctx context.Context, in api.ProjectRef) (api.ProjectTrust, error) {
	if err := c.allow(ctx, "trust.show"); err != nil {
		return api.ProjectTrust{}, err
	}
	p, err := c.storedProject(ctx, in.Project)
	if err != nil {
		return api.ProjectTrust{}, err
	}
	repo, err := c.repository(ctx, p)
	if err != nil {
		return api.ProjectTrust{}, err
	}
	t, err := c.trustOf(ctx, p.ID)
	return trustView(p, repo, t), err
}

func (c *Control) repository(ctx context.Context, p session.Project) (session.Repository, error) {
	repo, err := c.cfg.Repositories.Repository(ctx, p)
	if err != nil {
		return repo, fault.New(fault.Unavailable, "project-unreadable").Saying("the repository of %s cannot be read", p.Name).
			Hinting("`mcpx project show %s` says what is there", p.Name).Because(err)
	}
	return repo, nil
}

func (c *Control) trustOf(ctx context.Context, projectID string) (t session.Trust, err error) {
	err = c.cfg.DB.View(ctx, func(r store.Reader) error {
		t, err = r.TrustOf(ctx, session.TrustOf{Project: projectID})
		return err
	})
	return t, err
}

func trustView(p session.Project, repo session.Repository, t session.Trust) api.ProjectTrust {
	out := api.ProjectTrust{
		Project: p.Name, ID: p.ID, Path: p.Path, State: t.State(repo), Digest: repo.Digest(), Entries: []api.TrustEntry{},
		Since: t.At, Approval: t.Approval, Next: []string{},
	}
	for _, e := range repo.Entries {
		out.Entries = append(out.Entries, trustEntry(e, t))
	}
	if out.State != session.Trusted && len(out.Entries) > 0 {
		out.Next = []string{"mcpx project trust " + p.Name}
	}
	return out
}

func trustEntry(e session.Entry, t session.Trust) api.TrustEntry {
	out := api.TrustEntry{Kind: e.Kind, Name: e.Name, File: e.File, Digest: e.Digest, State: api.EntryNew, Runs: e.Runs, Problem: e.Problem}
	switch {
	case t.Covers(e):
		out.State = api.EntryTrusted
	case t.Knows(e):
		out.State = api.EntryChanged
	}
	if s := e.Server; s != nil && s.Stdio != nil {
		out.Runs, out.Dir, out.Variables = append([]string{s.Stdio.Command}, s.Stdio.Args...), s.Stdio.Cwd, bindingsText(s.Stdio.Env)
	} else if s != nil && s.HTTP != nil {
		out.URL, out.Headers = s.HTTP.URL, bindingsText(s.HTTP.Headers)
	}
	return out
}

// bindingsText are variables or headers, each with its value or where that comes from. A literal decides what runs as much as
// the command does, as PATH and LD_PRELOAD show; what looks like a secret is a reference here.
func bindingsText(all map[string]catalog.Binding) (texts []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch b := all[name]; {
		case b.Ref != "":
			name += " from " + b.Ref
		case b.Template != "":
			name += " from " + b.Template
		case !b.Unresolved:
			name += "=" + strconv.Quote(b.Literal)
		}
		texts = append(texts, name)
	}
	return texts
}

// TrustProject records what a person decides about the repository of a project. Whoever asks must sit at a terminal: no
// program may agree to what a repository starts. The decision is kept as an approval that is used at once.
func (c *Control) TrustProject(ctx context.Context, in api.TrustProject) (api.ProjectTrust, error) {
	if err := c.allow(ctx, "trust.decide"); err != nil {
		return api.ProjectTrust{}, err
	}
	p, err := c.storedProject(ctx, in.Project)
	if err != nil {
		return api.ProjectTrust{}, err
	}
	asker, refused := c.cfg.Person(api.CallerOf(ctx).Pid)
	var repo session.Repository
	if !in.Revoke && refused == nil {
		if repo, err = c.repository(ctx, p); err != nil {
			return api.ProjectTrust{}, err
		}
		refused = agreeable(p, repo, in.Digest)
	}
	if refused != nil {
		return api.ProjectTrust{}, c.refuseTrust(ctx, p, asker, refused)
	}
	var out api.ProjectTrust
	err = c.mutate(ctx, func(ctx context.Context, tx store.Tx) error {
		t, err := tx.TrustOf(ctx, session.TrustOf{Project: p.ID})
		if err != nil {
			return err
		}
		if in.Revoke {
			out, err = c.revokeTrust(ctx, tx, p, t, asker.Terminal)
		} else {
			out, err = c.grantTrust(ctx, tx, granted{project: p, repo: repo, before: t, terminal: asker.Terminal, note: in.Note})
		}
		return err
	})
	out.Operation = api.OperationOf(ctx)
	return out, err
}

// agreeable refuses a decision about something else than what is there.
func agreeable(p session.Project, repo session.Repository, shown string) error {
	switch {
	case len(repo.Entries) == 0:
		return fault.New(fault.Conflict, "trust-empty").Saying("nothing in the repository of %s names something to run", p.Name).
			Hinting("there is nothing to agree to")
	case shown != repo.Digest():
		return fault.New(fault.Stale, "trust-stale").Saying("the repository of %s is not what was shown any more", p.Name).
			Hinting("look again: `mcpx project trust %s`", p.Name).Retrying(fault.AfterFix)
	}
	return nil
}

// refuseTrust writes down that a decision was not accepted.
func (c *Control) refuseTrust(ctx context.Context, p session.Project, asker Asker, why error) error {
	err := c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		return c.tell(ctx, tx, event.TrustRefused, asker.refs(event.Refs{event.RefProject: p.ID}), "a decision about the trust of "+p.Name+" was not accepted: "+fault.From(why).Message, refusalOf(why))
	})
	if err != nil {
		return err
	}
	return why
}

// granted is the yes of a person to a repository.
type granted struct {
	project  session.Project
	repo     session.Repository
	before   session.Trust
	terminal string
	note     string
}

func (c *Control) grantTrust(ctx context.Context, tx store.Tx, g granted) (api.ProjectTrust, error) {
	if g.before.State(g.repo) == session.Trusted {
		return trustView(g.project, g.repo, g.before), nil
	}
	digest, actor, now := g.repo.Digest(), actorOf(ctx), c.cfg.Now()
	a, err := approval.New(c.cfg.IDs.New(id.Approval), approval.Question{
		Kind: approval.KindTrust, About: g.project.ID, Subject: digest, Principal: actor.Principal, Project: g.project.ID, Operation: api.OperationOf(ctx),
		Display: trustView(g.project, g.repo, g.before).Text(), Reasons: []string{"nothing that a repository names is started before a person agrees"},
	}, now)
	if err == nil {
		a, err = approval.Decide(a, approval.Decision{Principal: actor.Principal, Channel: actor.Channel, Terminal: g.terminal, At: now, Note: g.note, Digest: digest}, true)
	}
	if err == nil {
		a, err = approval.Consume(a, digest, g.project.ID, now)
	}
	if err != nil {
		return api.ProjectTrust{}, err
	}
	t := session.Trust{Project: g.project.ID, Digest: digest, Entries: g.repo.Entries, Approval: a.ID, At: now}
	if err := tx.PutApproval(ctx, approval.PutApproval{Approval: a}); err != nil {
		return api.ProjectTrust{}, err
	}
	if err := tx.PutTrust(ctx, session.PutTrust{Trust: t}); err != nil {
		return api.ProjectTrust{}, err
	}
	view := trustView(g.project, g.repo, t)
	return view, c.tell(ctx, tx, event.TrustGranted, a.Refs(), "a person agreed to what the repository of "+g.project.Name+" can start", struct {
		Digest   string           `json:"sha256"`
		Terminal string           `json:"terminal"`
		Note     string           `json:"note,omitempty"`
		Entries  []api.TrustEntry `json:"entries"`
	}{digest, g.terminal, g.note, view.Entries})
}

func (c *Control) revokeTrust(ctx context.Context, tx store.Tx, p session.Project, t session.Trust, terminal string) (api.ProjectTrust, error) {
	out := api.ProjectTrust{Project: p.Name, ID: p.ID, Path: p.Path, State: session.Untrusted, Entries: []api.TrustEntry{}, Next: []string{"mcpx project trust " + p.Name}}
	if t.Digest == "" {
		return out, nil
	}
	if err := tx.PutTrust(ctx, session.PutTrust{Trust: session.Trust{Project: p.ID}}); err != nil {
		return out, err
	}
	return out, c.tell(ctx, tx, event.TrustRevoked, event.Refs{event.RefProject: p.ID}, "a person trusts the repository of "+p.Name+" no more", struct {
		Digest   string `json:"sha256"`
		Terminal string `json:"terminal"`
	}{t.Digest, terminal})
}
