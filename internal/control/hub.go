package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// agentMay are the operations that an agent may ask for with its token. Each answers for that agent alone; none of them
// changes anything.
var agentMay = map[string]bool{
	"agent.check": true, "hub.status": true, "hub.plans": true, "hub.plan": true, "hub.entry": true, "hub.runtime": true,
	"hub.credentials": true, "hub.catalog": true,
}

// agentOf is the agent for which an operation answers: the one that asks, whatever it says, or the one that the owner
// names.
func (c *Control) agentOf(ctx context.Context, named string) (string, error) {
	if p, _ := api.PrincipalOf(ctx); p.Agent != "" {
		return p.Agent, nil
	}
	return c.cfg.ParseAgent(named)
}

// hubOp is the beginning of every operation for one agent.
func (c *Control) hubOp(ctx context.Context, op, named string) (string, error) {
	if err := c.allow(ctx, op); err != nil {
		return "", err
	}
	return c.agentOf(ctx, named)
}

// HubStatus tells the state of mcpx as far as it concerns one agent.
func (c *Control) HubStatus(ctx context.Context, in api.HubQuery) (api.HubStatus, error) {
	agent, err := c.hubOp(ctx, "hub.status", in.Agent)
	if err != nil {
		return api.HubStatus{}, err
	}
	w, troubles, err := c.judged(ctx, false)
	if err != nil {
		return api.HubStatus{}, err
	}
	servers, err := c.views(ctx)
	if err != nil {
		return api.HubStatus{}, err
	}
	out := api.HubStatus{Daemon: api.HubDaemon{Version: c.cfg.Daemon.Version, Since: c.cfg.Daemon.Started}, Servers: []api.HubServer{}}
	mounted := converge.Mounted(w, agent)
	codes := map[converge.Weight][]string{}
	for _, s := range servers {
		if !slices.Contains(mounted, s.Name) {
			continue
		}
		out.Servers = append(out.Servers, api.HubServer{Name: s.Name, State: string(s.Status.State), Routable: s.Routable, Reasons: filled(s.Reasons)})
	}
	for _, f := range c.healthOf(servers).Findings {
		if slices.Contains(mounted, f.Subject) {
			codes[f.Severity] = append(codes[f.Severity], f.Code)
		}
	}
	for _, t := range troubles {
		if concerns(t, agent, mounted) {
			codes[t.Severity] = append(codes[t.Severity], t.Code)
		}
	}
	count := func(w converge.Weight) api.HubFindings {
		return api.HubFindings{Count: len(codes[w]), Codes: filled(slices.Compact(slices.Sorted(slices.Values(codes[w]))))}
	}
	out.Blockers, out.Warnings, out.Notices = count(converge.WeightBlocker), count(converge.WeightWarning), count(converge.WeightNotice)
	return out, nil
}

// concerns says whether a trouble is one of the agent: its own, one of a server that it has, or one of the whole.
func concerns(t converge.Trouble, agent string, mounted []string) bool {
	if t.Agent != "" {
		return t.Agent == agent
	}
	whole := []string{"audit", "listener", "log", "daemon"}
	return slices.Contains(mounted, t.Subject) || slices.Contains(whole, t.Subject) || t.Subject == agent
}

// filled is a list that is shown as one, even when it is empty.
func filled(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// HubPlans lists the plans of one agent, the newest first.
func (c *Control) HubPlans(ctx context.Context, in api.HubPlansQuery) (api.HubPlans, error) {
	agent, err := c.hubOp(ctx, "hub.plans", in.Agent)
	if err != nil {
		return api.HubPlans{}, err
	}
	limit := in.Limit
	if limit < 1 || limit > api.MaxHubPlans {
		limit = api.MaxHubPlans
	}
	out := api.HubPlans{Plans: []api.HubPlan{}}
	err = c.cfg.DB.View(ctx, func(r store.Reader) error {
		list := converge.ListPlans{State: converge.PlanState(in.State), Agent: agent}
		if in.Cursor != "" {
			p, err := c.planOf(ctx, r, agent, in.Cursor)
			if err != nil {
				return err
			}
			list.Before = p.ID
		}
		for p, err := range converge.EachPlan(ctx, r, list) {
			if err != nil {
				return err
			}
			if in.State == "" && !isOpen(p) {
				continue
			}
			if len(out.Plans) == limit {
				out.Cursor = out.Plans[limit-1].ID
				return nil
			}
			one, err := c.hubPlan(ctx, r, p)
			if err != nil {
				return err
			}
			out.Plans = append(out.Plans, one)
		}
		return nil
	})
	return out, err
}

// planOf finds a plan of the agent. A plan of another agent is not there.
func (c *Control) planOf(ctx context.Context, r converge.Reader, agent, name string) (converge.Plan, error) {
	p, err := r.PlanByID(ctx, converge.PlanByID{ID: name})
	if err == nil && p.Agent == agent {
		return p, nil
	}
	if err == nil || fault.KindOf(err) == fault.Conflict { // a beginning that is not enough would tell of the plans of others
		err = converge.PlanUnknown(name)
	}
	return converge.Plan{}, err
}

func (c *Control) hubPlan(ctx context.Context, r store.Reader, p converge.Plan) (api.HubPlan, error) {
	row, err := c.row(ctx, r, p)
	if err != nil {
		return api.HubPlan{}, err
	}
	one := api.HubPlan{ID: p.ID, Kind: p.Kind, Risk: p.Risk.Class, State: p.State, Summary: p.Summary, Approved: row.Approved}
	if len(row.Files) > 0 {
		one.Path = row.Files[0]
	}
	return one, nil
}

// HubPlan shows one plan of an agent.
func (c *Control) HubPlan(ctx context.Context, in api.HubPlanRef) (api.HubPlanView, error) {
	agent, err := c.hubOp(ctx, "hub.plan", in.Agent)
	if err != nil {
		return api.HubPlanView{}, err
	}
	var out api.HubPlanView
	err = c.cfg.DB.View(ctx, func(r store.Reader) error {
		p, err := c.planOf(ctx, r, agent, in.Plan)
		if err != nil {
			return err
		}
		one, err := c.hubPlan(ctx, r, p)
		if err != nil {
			return err
		}
		view, err := c.planView(ctx, r, p)
		if err != nil {
			return err
		}
		out = api.HubPlanView{
			HubPlan: one, Server: p.Server, Entry: p.Entry, Reasons: filled(p.Reasons), Risks: filled(p.Risk.Reasons), Problems: p.Problems,
			Effects: filled(p.Effects), Files: []api.HubPlanFile{}, Next: personDoes(view),
		}
		if out.Problems == nil {
			out.Problems = []converge.Problem{}
		}
		for _, ch := range p.Changes {
			f := api.HubPlanFile{Path: ch.Path, Scope: ch.Scope, Diff: ch.Diff, Notes: []string{}}
			for _, n := range ch.Notes {
				f.Notes = append(f.Notes, n.Code+": "+n.Text)
			}
			out.Files = append(out.Files, f)
		}
		return nil
	})
	return out, err
}

// personDoes says what a person does about a plan: nothing of it is for an agent.
func personDoes(v api.PlanView) string {
	if v.Asked != nil && v.Asked.State == approval.Pending {
		return "a person runs: mcpx approval show " + v.Asked.ID
	}
	if len(v.Next) == 0 {
		return "nothing"
	}
	return "a person runs: " + v.Next[0]
}

// HubEntry says how an agent would reach a server.
func (c *Control) HubEntry(ctx context.Context, in api.HubEntryQuery) (api.HubEntry, error) {
	agent, err := c.hubOp(ctx, "hub.entry", in.Agent)
	if err != nil {
		return api.HubEntry{}, err
	}
	w, _, err := c.judged(ctx, false)
	if err != nil {
		return api.HubEntry{}, err
	}
	i := slices.IndexFunc(w.Servers, func(s catalog.Server) bool { return s.Name == in.Server || slices.Contains(s.Aliases, in.Server) })
	if i < 0 {
		return api.HubEntry{}, c.unknown(in.Server, w.Servers)
	}
	s := w.Servers[i]
	form, reasons, needs, problems := converge.EntryFor(w, agent, &s)
	if form == nil {
		why := "it cannot be written"
		if len(problems) > 0 {
			why = problems[0].Text
		}
		return api.HubEntry{}, fault.New(fault.Conflict, "entry-impossible").Saying("%s cannot reach %s through mcpx: %s", agent, s.Name, why)
	}
	text, format, dropped, err := c.cfg.Spell(agent, []converge.Form{*form})
	if err != nil {
		return api.HubEntry{}, err
	}
	out := api.HubEntry{
		Name: s.Name, URL: form.URL, Form: form.Kind, Format: format, Text: string(text), Reasons: filled(reasons),
		Next: "a person runs: mcpx agents mount " + agent + " " + s.Name,
	}
	if why := dropped[s.Name]; why != "" {
		return api.HubEntry{}, fault.New(fault.Conflict, "entry-impossible").Saying("%s cannot reach %s through mcpx: %s", agent, s.Name, why)
	}
	_ = json.Unmarshal(text, &out.Entry) // of other formats there is the text only
	if len(needs) > 0 {
		out.Next = "a person runs: " + needs[0]
	}
	return out, nil
}

// HubRuntime says what runs for one agent.
func (c *Control) HubRuntime(ctx context.Context, in api.HubRuntimeQuery) (api.HubRuntime, error) {
	agent, err := c.hubOp(ctx, "hub.runtime", in.Agent)
	if err != nil {
		return api.HubRuntime{}, err
	}
	w, _, err := c.judged(ctx, false)
	if err != nil {
		return api.HubRuntime{}, err
	}
	servers, err := c.views(ctx)
	if err != nil {
		return api.HubRuntime{}, err
	}
	mounted := converge.Mounted(w, agent)
	out := api.HubRuntime{Servers: []api.HubLane{}}
	found := false
	for _, s := range servers {
		own := lanesOf(s, agent)
		if in.Server != "" && s.Name != in.Server && !slices.Contains(s.Aliases, in.Server) {
			continue
		}
		if !slices.Contains(mounted, s.Name) && len(own) == 0 {
			continue
		}
		found = true
		if len(own) == 0 {
			own = []api.HubLane{{Server: s.Name, State: "idle", Sharing: string(s.Sharing), LastError: s.Status.LastError}}
		}
		out.Servers = append(out.Servers, own...)
	}
	if in.Server != "" && !found {
		return out, fault.New(fault.NotFound, "server-not-mounted").Saying("%s has no server %q", agent, in.Server).
			Hinting("`catalog_search` finds the servers that there are")
	}
	return out, nil
}

// lanesOf are the lanes of a server that serve the agent: shared ones, and its own.
func lanesOf(s api.Server, agent string) []api.HubLane {
	var own []api.HubLane
	for _, l := range s.Status.Lanes {
		if l.Key != "global" && l.Key != "agent:"+agent && !slices.Contains(l.Agents, agent) {
			continue
		}
		own = append(own, api.HubLane{
			Server: s.Name, State: string(l.State), Since: l.Since, Sharing: string(s.Sharing), Shared: l.Shared, Calls: l.InFlight,
			LastError: s.Status.LastError,
		})
	}
	return own
}

// HubCredentials says which credentials the servers of an agent need.
func (c *Control) HubCredentials(ctx context.Context, in api.HubQuery) (api.HubCredentials, error) {
	agent, err := c.hubOp(ctx, "hub.credentials", in.Agent)
	if err != nil {
		return api.HubCredentials{}, err
	}
	w, _, err := c.judged(ctx, false)
	if err != nil {
		return api.HubCredentials{}, err
	}
	mounted := converge.Mounted(w, agent)
	all, err := c.credentials(ctx)
	if err != nil {
		return api.HubCredentials{}, err
	}
	out := api.HubCredentials{Credentials: []api.HubCredential{}}
	listed := map[string]bool{}
	for _, one := range all {
		own := slices.DeleteFunc(slices.Clone(one.Servers), func(name string) bool { return !slices.Contains(mounted, name) })
		if len(own) == 0 {
			continue
		}
		listed[one.Ref], listed[catalog.CredentialRef(one.Name)] = true, true
		hint := "nothing has to be done"
		if one.Readiness != catalog.ReadinessReady {
			hint = "a person runs: mcpx credential check " + one.Name
		}
		out.Credentials = append(out.Credentials, api.HubCredential{Name: one.Name, Readiness: string(one.Readiness), Servers: own, Hint: hint})
	}
	out.Credentials = append(out.Credentials, loose(w.Servers, mounted, listed)...)
	return out, nil
}

// loose are what servers take from references that are no credential of their own, and what nobody has bound.
func loose(servers []catalog.Server, mounted []string, listed map[string]bool) []api.HubCredential {
	users, missing := map[string][]string{}, map[string]bool{}
	for _, s := range servers {
		if !slices.Contains(mounted, s.Name) {
			continue
		}
		for name, b := range bindings(s) {
			ref := b.Ref
			switch {
			case b.Unresolved:
				ref, missing[name] = name, true
			case b.Template != "":
				ref = refOf(b.Template)
			}
			if ref != "" && !listed[ref] {
				users[ref] = append(users[ref], s.Name)
			}
		}
	}
	var out []api.HubCredential
	for _, name := range slices.Sorted(maps.Keys(users)) {
		one := api.HubCredential{Name: name, Readiness: "unchecked", Servers: slices.Compact(slices.Sorted(slices.Values(users[name]))), Hint: "it is looked up when the server starts"}
		if missing[name] {
			one.Readiness, one.Hint = "missing", "a person runs: mcpx catalog review "+one.Servers[0]+" --bind "+name+"=env:"+name
		}
		out = append(out, one)
	}
	return out
}

// bindings are the variables or headers of a server.
func bindings(s catalog.Server) map[string]catalog.Binding {
	switch {
	case s.Stdio != nil:
		return s.Stdio.Env
	case s.HTTP != nil:
		return s.HTTP.Headers
	}
	return nil
}

// refOf is the reference in a template such as "Bearer {env:TOKEN}".
func refOf(template string) string {
	_, rest, _ := strings.Cut(template, "{")
	name, _, _ := strings.Cut(rest, "}")
	return name
}

// HubCatalog searches the catalog: every word has to be in the name, the aliases, the title, the notes or the tags.
func (c *Control) HubCatalog(ctx context.Context, in api.HubCatalogQuery) (api.HubCatalog, error) {
	agent, err := c.hubOp(ctx, "hub.catalog", in.Agent)
	if err != nil {
		return api.HubCatalog{}, err
	}
	w, _, err := c.judged(ctx, false)
	if err != nil {
		return api.HubCatalog{}, err
	}
	limit := in.Limit
	if limit < 1 || limit > api.MaxHubCatalog {
		limit = api.MaxHubCatalog
	}
	mounted := converge.Mounted(w, agent)
	words := strings.Fields(strings.ToLower(in.Query))
	out := api.HubCatalog{Servers: []api.HubCatalogEntry{}}
	slices.SortFunc(w.Servers, func(a, b catalog.Server) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range w.Servers {
		text := strings.ToLower(strings.Join(append(append([]string{s.Name, s.Title, s.Notes}, s.Aliases...), s.Tags...), "\n"))
		if s.Name <= in.Cursor || slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
			continue
		}
		if len(out.Servers) == limit {
			out.Cursor = out.Servers[limit-1].Name
			break
		}
		out.Servers = append(out.Servers, api.HubCatalogEntry{
			Name: s.Name, Title: s.Title, Tags: filled(s.Tags), Risk: cmp.Or(string(s.Risk), "unknown"), Routable: len(catalog.NotRoutable(s)) == 0,
			Mounted: slices.Contains(mounted, s.Name),
		})
	}
	return out, nil
}

// hubURL is the address of the control plane.
func (c *Control) hubURL() string {
	return fmt.Sprintf("%s/servers/%s/mcp", c.cfg.Daemon.Base, url.PathEscape(converge.HubName))
}

// filesFresh is how old the last look at a file may be, as for the health of all.
const filesFresh = 24 * time.Hour
