package control

import (
	"context"
	"slices"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/store"
)

// KnownProjects are the directories at whose files the last audit looked. The daemon watches them.
func (c *Control) KnownProjects() []string {
	c.seeing.Lock()
	defer c.seeing.Unlock()
	return slices.Clone(c.projects)
}

// rememberProjects keeps which projects an audit of the daemon's own home knew. The loop looks at new ones by itself when
// it was not the one that found them, and so begins to watch them.
func (c *Control) rememberProjects(ctx context.Context, seen converge.Observation) {
	c.seeing.Lock()
	defer c.seeing.Unlock()
	if !slices.Equal(c.projects, seen.Projects) && actorOf(ctx).Channel != channelLoop {
		c.stir()
	}
	c.projects, c.left = seen.Projects, seen.Left
}

// remember keeps what an audit saw: the health is told from it without looking at files again. One that looked at a part
// only replaces that part.
func (c *Control) remember(w converge.World, whole bool) {
	c.seeing.Lock()
	defer c.seeing.Unlock()
	if !whole && c.seen != nil {
		looked := map[string]bool{}
		for _, f := range w.Files {
			looked[f.Agent] = true
		}
		old := slices.DeleteFunc(slices.Clone(c.seen.Files), func(f converge.File) bool { return looked[f.Agent] })
		w.Files = append(old, w.Files...)
		kept := slices.DeleteFunc(slices.Clone(c.seen.Findings), func(f converge.Finding) bool { return looked[f.Agent] })
		w.Findings = append(kept, w.Findings...)
	}
	if whole {
		c.audited = w.Now
	} else if c.seen == nil {
		return // the rest is not known
	}
	c.seen = &converge.World{Files: w.Files, Findings: w.Findings, Look: w.Look}
}

// governed tells what is wrong with the agents' configuration: what the last audit saw, judged by the catalog as it is
// now. Before the first audit of this daemon it is what was stored. With look the credentials are looked at now.
func (c *Control) governed(ctx context.Context, look bool) ([]converge.Trouble, error) {
	_, all, err := c.judged(ctx, look)
	return all, err
}

// judged is governed with what it was told from.
func (c *Control) judged(ctx context.Context, look bool) (converge.World, []converge.Trouble, error) {
	var w converge.World
	var v converge.Vitals
	var records []converge.FileRecord
	var links map[string]string
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		if w.Servers, err = catalog.All(ctx, r); err != nil {
			return err
		}
		if w.Agents, err = r.AgentRecords(ctx); err != nil {
			return err
		}
		w.Agents, _ = following(w.Agents, w.Servers)
		if links, err = linked(ctx, r); err != nil {
			return err
		}
		if w.Receipts, err = receiptsSince(ctx, r, c.cfg.Now().Add(-recentReceipts)); err != nil {
			return err
		}
		if records, err = r.FileRecords(ctx, converge.ListFileRecords{}); err != nil {
			return err
		}
		candidates, err := catalog.AllCandidates(ctx, r)
		if err != nil {
			return err
		}
		w.Staged = converge.StagedFrom(candidates)
		if v.Plans, err = converge.AllPlans(ctx, r, converge.ListPlans{State: converge.PlanReady}); err != nil {
			return err
		}
		v.Asked = map[string]approval.State{}
		for _, p := range v.Plans {
			if v.Asked[p.ID], err = c.asked(ctx, r, p); err != nil {
				return err
			}
		}
		tokens, err := auth.AllTokens(ctx, r, "")
		for _, t := range tokens {
			if t.At(c.cfg.Now()) == auth.Live {
				v.Tokens = append(v.Tokens, converge.TokenFact{Agent: t.Agent, Used: c.usedAt(t), Made: t.Created})
			}
		}
		return err
	})
	if err != nil {
		return w, nil, err
	}
	if v.Keyring, v.Credentials, err = c.CredentialVitals(ctx, look); err != nil {
		return w, nil, err
	}
	v.Clients = clientFacts(w.Agents, c.cfg.Certificates(ctx))
	w.Revision, w.Policy, w.Adapter, w.Port, w.Token, w.Program = catalog.Revision(w.Servers), c.cfg.Policy(), c.cfg.Adapter, c.port(), c.cfg.TokenOnly(), c.cfg.Program
	w.Records, w.Now = records, c.cfg.Now()
	c.seeing.Lock()
	seen, audited := c.seen, c.audited
	v.Watching = c.cfg.Watching()
	v.Watching.Left, v.Watching.Most = c.left, len(c.projects)
	c.seeing.Unlock()
	var entries []converge.Entry
	switch {
	case seen != nil:
		w.Files, w.Look = seen.Files, seen.Look
		for _, f := range seen.Findings {
			entries = append(entries, f.Entry)
		}
	default:
		for _, r := range records {
			w.Files = append(w.Files, r.File)
			entries = append(entries, r.Entries...)
		}
	}
	w.Findings = converge.Classify(entries, w.Servers, links)
	if v.Audited = audited; v.Audited.IsZero() && len(records) > 0 {
		v.Audited = c.cfg.Daemon.Started // an earlier daemon looked; this one has until tomorrow
	}
	all := converge.Findings(w, v)
	if !slices.ContainsFunc(w.Agents, func(a converge.AgentRecord) bool { return a.Level != "" && a.Level != converge.LevelObserved }) {
		for i := range all {
			if all[i].Code == "never-audited" || all[i].Code == "audit-stale" { // nobody has asked mcpx to look after an agent
				all[i].Severity = converge.WeightNotice
			}
		}
	}
	return w, all, nil
}

// clientFacts is what is known of the programs of the agents that are looked after, without running one.
func clientFacts(agents []converge.AgentRecord, certificates map[string]converge.Certificate) []converge.ClientFact {
	var all []converge.ClientFact
	for _, a := range agents {
		if a.Level == "" || a.Level == converge.LevelObserved {
			continue
		}
		one, tried := certificates[a.Agent]
		fact := converge.ClientFact{Agent: a.Agent, Certified: tried && one.Void == ""}
		if one.Void == converge.VoidProgram {
			fact.Changed = one.Version
		}
		all = append(all, fact)
	}
	return all
}

// withGoverned adds what is wrong with the agents' configuration to the health of the servers. Only a blocker makes it
// degraded.
func (c *Control) withGoverned(ctx context.Context, h api.Health, look bool) (api.Health, error) {
	all, err := c.governed(ctx, look)
	if err != nil {
		return h, err
	}
	for _, t := range all {
		if t.Severity == converge.WeightBlocker {
			h.State = api.HealthDegraded
		}
		h.Findings = append(h.Findings, api.Finding{
			Code: t.Code, Severity: t.Severity, Subject: t.Subject, Path: t.Path, Since: t.Since, Text: t.Text, Hint: t.Hint, Command: t.Command,
		})
	}
	h.Findings = append(h.Findings, c.filedFindings()...)
	held, err := c.heldFindings(ctx)
	if err != nil {
		return h, err
	}
	h.Findings = append(h.Findings, held...)
	c.seeing.Lock()
	h.Audited = c.audited
	c.seeing.Unlock()
	return h, nil
}
