package control

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"mcpx/internal/api"
	"mcpx/internal/auth"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// AuthCapabilities says how each agent can send the token of mcp_hub.
func (c *Control) AuthCapabilities(ctx context.Context, _ api.None) (api.AuthCapabilities, error) {
	if err := c.allow(ctx, "agent.capabilities"); err != nil {
		return api.AuthCapabilities{}, err
	}
	var records []converge.AgentRecord
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		records, err = r.AgentRecords(ctx)
		return err
	})
	out := api.AuthCapabilities{Agents: []api.AgentAuth{}}
	certificates := c.cfg.Certificates(ctx)
	for _, a := range c.cfg.Agents() {
		out.Agents = append(out.Agents, api.AgentAuth{
			Agent: a.Agent, Title: a.Title, Strategies: converge.Strategies(a.Agent), Variable: auth.Variable(a.Agent),
			Installed: recordOf(records, a.Agent).Control, Certified: []string{}, Evidence: a.Evidence,
		})
		if one, known := certificates[a.Agent]; known && one.Void == "" {
			out.Agents[len(out.Agents)-1].Certified = []string{one.Version}
		}
	}
	return out, err
}

// recordOf is what is decided about an agent.
func recordOf(all []converge.AgentRecord, agent string) converge.AgentRecord {
	if i := slices.IndexFunc(all, func(r converge.AgentRecord) bool { return r.Agent == agent }); i >= 0 {
		return all[i]
	}
	return converge.AgentRecord{Agent: agent, Level: converge.LevelObserved}
}

// InstallControl makes the plan that gives an agent the control plane. Nothing is made when the agent has it: no plan and
// no token. The token of an agent that has none is made when the plan is applied.
func (c *Control) InstallControl(ctx context.Context, in api.InstallControl) (api.ControlInstall, error) {
	if err := c.allow(ctx, "agent.control"); err != nil {
		return api.ControlInstall{}, err
	}
	agent, err := c.cfg.ParseAgent(in.Agent)
	if err != nil {
		return api.ControlInstall{}, err
	}
	c.files.Lock()
	defer c.files.Unlock()
	if _, err := c.auditLocked(ctx, api.RunAudit{Agent: agent, Home: in.Home, Moved: in.Moved, NoPlan: true}); err != nil {
		return api.ControlInstall{}, err
	}
	var k known
	if err := c.cfg.DB.View(ctx, func(r store.Reader) error { return c.learn(ctx, r, &k) }); err != nil {
		return api.ControlInstall{}, err
	}
	ways := converge.Strategies(agent)
	record := recordOf(k.agents, agent)
	strategy := cmp.Or(in.Auth, record.Control, ways[0])
	if !slices.Contains(ways, strategy) {
		return api.ControlInstall{}, fault.New(fault.Invalid, "strategy-unsupported").Saying("%s cannot send a token by %s; it can by %v", agent, strategy, ways).
			Hinting("leave --auth out, or see `mcpx agents auth-capabilities`")
	}
	plan, wanted, err := c.controlPlan(ctx, agent, strategy, in, k)
	if err != nil {
		return api.ControlInstall{}, err
	}
	out := api.ControlInstall{Agent: agent, Strategy: strategy, Next: []string{}, Operation: api.OperationOf(ctx)}
	if strategy == converge.StrategyEnv {
		out.Variable = auth.Variable(agent)
	}
	if !wanted {
		return c.installed(ctx, out, record)
	}
	err = c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		view, err := c.offer(ctx, tx, plan)
		out.Plan = &view
		return err
	})
	if err != nil {
		return api.ControlInstall{}, err
	}
	out.State, out.Text = "planned", plan.Summary
	if out.Plan.Already {
		out.State, out.Already = "already_planned", true
	}
	out.Next = append([]string{"mcpx plan show " + out.Plan.ID}, out.Plan.Next...)
	return out, nil
}

// installed is the answer when the files are as they should be: what is missing besides is made.
func (c *Control) installed(ctx context.Context, out api.ControlInstall, record converge.AgentRecord) (api.ControlInstall, error) {
	token, err := c.issue(ctx, out.Agent, auth.Usual(), false, 0)
	if err != nil {
		return api.ControlInstall{}, err
	}
	if record.Control != out.Strategy { // somebody wrote the entry by hand
		err := c.cfg.DB.Change(ctx, func(tx store.Tx) error { return c.keepControl(ctx, tx, out.Agent, out.Strategy) })
		if err != nil {
			return api.ControlInstall{}, err
		}
	}
	out.State, out.Already = "already_installed", true
	out.Text = out.Agent + " has the control plane already"
	if !token.Already {
		out.State, out.Already, out.Text = "token_issued", false, out.Agent+" has the control plane, and a token now"
	}
	out.Next = []string{"mcpx agents self-check " + out.Agent}
	return out, nil
}

// controlPlan makes the one plan of the control plane, if there is something to change.
func (c *Control) controlPlan(ctx context.Context, agent, strategy string, in api.InstallControl, k known) (converge.Plan, bool, error) {
	audit := api.RunAudit{Agent: agent, Home: in.Home, Moved: in.Moved, Entry: converge.HubName}
	look := c.lookOf(k, agent, in.Home, "", in.Moved)
	seen, err := c.cfg.Observe(ctx, look)
	if err != nil {
		return converge.Plan{}, false, err
	}
	record := recordOf(k.agents, agent)
	record.Control = strategy
	k.agents = append(slices.DeleteFunc(slices.Clone(k.agents), func(r converge.AgentRecord) bool { return r.Agent == agent }), record)
	w := c.world(ctx, audit, look, k, seen, converge.Classify(seen.Entries, k.servers, k.links))
	for _, p := range converge.Propose(w) {
		if p.Agent != agent || p.Server != converge.HubName {
			continue
		}
		return c.sealed(ctx, w, p)
	}
	return converge.Plan{}, false, nil
}

// controlOf is the strategy that a plan of the control plane writes.
func controlOf(p converge.Plan) string {
	for _, ch := range p.Changes {
		for _, s := range ch.Steps {
			switch {
			case s.Want == nil:
			case s.Want.Kind == converge.FormBridge:
				return converge.StrategyBridge
			case s.Want.Helper != "":
				return converge.StrategyHelper
			default:
				return converge.StrategyEnv
			}
		}
	}
	return ""
}

// keepControl remembers how an agent reaches the control plane; "" it does not any more.
func (c *Control) keepControl(ctx context.Context, tx store.Tx, agent, strategy string) error {
	all, err := tx.AgentRecords(ctx)
	if err != nil {
		return err
	}
	record := recordOf(all, agent)
	if record.Control == strategy {
		return nil
	}
	record.Control = strategy
	return tx.PutAgentRecord(ctx, converge.PutAgentRecord{Record: record})
}

// maxMounts bounds the servers of one agent.
const maxMounts = 1000

// MountServer says that an agent shall have a server, or not any more, and makes the plan for it.
func (c *Control) MountServer(ctx context.Context, in api.MountServer) (api.Mounted, error) {
	if err := c.allow(ctx, "agent.mount"); err != nil {
		return api.Mounted{}, err
	}
	agent, err := c.cfg.ParseAgent(in.Agent)
	if err != nil {
		return api.Mounted{}, err
	}
	project := ""
	switch in.Scope {
	case "", scopeUser:
	case scopeProject:
		if project = in.Project; !filepath.IsAbs(project) {
			return api.Mounted{}, fault.New(fault.Invalid, "request-invalid").Saying("the scope project needs the directory of a project")
		}
	default:
		return api.Mounted{}, fault.New(fault.Invalid, "request-invalid").Saying("the scope %q is not one of user, project", in.Scope)
	}
	c.files.Lock()
	defer c.files.Unlock()
	out := api.Mounted{Agent: agent, Operation: api.OperationOf(ctx)}
	var mount converge.Mount
	err = c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		s, err := c.find(ctx, tx, in.Server)
		if err != nil {
			return err
		}
		all, err := tx.AgentRecords(ctx)
		if err != nil {
			return err
		}
		record := recordOf(all, agent)
		mount = converge.Mount{Server: s.ID, Name: cmp.Or(in.Name, s.Name), Scope: in.Scope, Project: project, Absent: in.Absent}
		changed, err := decide(&record, mount)
		if err != nil {
			return err
		}
		if in.Only != nil && record.Only != *in.Only {
			record.Only, changed = *in.Only, true
		}
		out.State = map[bool]string{false: "mounted", true: "unmounted"}[in.Absent]
		out.Mounts, out.Only = record.Mounts, record.Only
		if !changed {
			out.State, out.Already = "already_"+out.State, true
			return nil
		}
		if err := tx.PutAgentRecord(ctx, converge.PutAgentRecord{Record: record}); err != nil {
			return err
		}
		text := fmt.Sprintf("%s shall have %s", agent, mount.Name)
		if in.Absent {
			text = fmt.Sprintf("%s shall not have %s any more", agent, mount.Name)
		}
		return c.tell(ctx, tx, event.AgentMounted, event.Refs{event.RefAgent: agent, event.RefServer: s.Name}, text, struct {
			Mount converge.Mount `json:"mount"`
			Only  bool           `json:"only_mounts"`
		}{mount, record.Only})
	})
	if err != nil {
		return api.Mounted{}, err
	}
	entry := mount.Name
	if out.Only { // what is one too many has other names
		entry = ""
	}
	audit, err := c.auditLocked(ctx, api.RunAudit{Agent: agent, Entry: entry, Home: in.Home, Project: in.Project, Moved: in.Moved})
	if err != nil {
		return api.Mounted{}, err
	}
	out.Plans = slices.DeleteFunc(audit.Plans, func(p api.PlanRow) bool { return p.Agent != agent || entry != "" && p.Entry != entry })
	out.Next = []string{"mcpx agents self-check " + agent}
	if next := nextOfRows(out.Plans); next != nil {
		out.Next = next
	}
	return out, nil
}

// decide puts a decision about one server of one scope in the place of the one before.
func decide(r *converge.AgentRecord, m converge.Mount) (changed bool, err error) {
	scope := func(m converge.Mount) string { return cmp.Or(m.Scope, scopeUser) }
	i := slices.IndexFunc(r.Mounts, func(old converge.Mount) bool {
		return scope(old) == scope(m) && old.Project == m.Project && (old.Name == m.Name || old.Server == m.Server)
	})
	if i < 0 {
		if len(r.Mounts) >= maxMounts {
			return false, fault.New(fault.Conflict, "mounts-too-many").Saying("%s has %d servers, which is the most", r.Agent, maxMounts)
		}
		r.Mounts = append(r.Mounts, m)
		return true, nil
	}
	old := r.Mounts[i]
	m.Tools = old.Tools
	if old.Server != m.Server && old.Name == m.Name && !old.Absent && !m.Absent {
		return false, fault.New(fault.Conflict, "mount-taken").Saying("%s has another server under the name %s", r.Agent, m.Name).
			Hinting("give it another one: --name NAME")
	}
	if old.Server == m.Server && old.Name == m.Name && old.Absent == m.Absent && old.Scope == m.Scope {
		return false, nil
	}
	r.Mounts = slices.Clone(r.Mounts)
	r.Mounts[i] = m
	return true, nil
}
