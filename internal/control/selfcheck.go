package control

import (
	"context"
	"fmt"
	"slices"

	"mcpx/internal/api"
	"mcpx/internal/auth"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// What mcp_hub answered.
const (
	answersIn      = "authenticated" // it lets the agent's token in and nobody without one
	answersOpen    = "open"          // it lets everybody in
	answersRefused = "refused"       // it does not let the agent's token in
	answersNothing = "unreachable"
)

// CheckAgents says how agents do. An agent that asks about itself was let in by its token: that is not tried again.
func (c *Control) CheckAgents(ctx context.Context, in api.ChecksQuery) (api.Checks, error) {
	if err := c.allow(ctx, "agent.check"); err != nil {
		return api.Checks{}, err
	}
	p, _ := api.PrincipalOf(ctx)
	if p.Agent == "" {
		if err := c.FlushTokens(ctx); err != nil {
			return api.Checks{}, err
		}
	}
	w, troubles, err := c.judged(ctx, false)
	if err != nil {
		return api.Checks{}, err
	}
	wanted := []string{}
	switch {
	case p.Agent != "" || in.Agent != "":
		agent, err := c.agentOf(ctx, in.Agent)
		if err != nil {
			return api.Checks{}, err
		}
		wanted = append(wanted, agent)
	default:
		for _, r := range w.Agents {
			if r.Control != "" || r.Level != "" && r.Level != converge.LevelObserved {
				wanted = append(wanted, r.Agent)
			}
		}
	}
	out := api.Checks{OK: len(wanted) > 0, Agents: []api.SelfCheck{}, Next: []string{}}
	if len(wanted) == 0 {
		out.Code, out.Text = "no-agents", "no agent is managed and none has the control plane, so there is nothing to check"
		out.Next = []string{"mcpx agents discover", "mcpx agents install-control-plane --agent AGENT"}
		return out, nil
	}
	bad := 0
	for _, agent := range wanted {
		one, err := c.checkAgent(ctx, agent, w, troubles, p.Agent == "")
		if err != nil {
			return api.Checks{}, err
		}
		if !one.OK {
			bad++
			out.OK = false
			for _, problem := range one.Problems {
				if problem.Command != "" && problem.Severity == converge.WeightBlocker && len(out.Next) == 0 {
					out.Next = []string{problem.Command}
				}
			}
		}
		out.Agents = append(out.Agents, one)
	}
	out.Text = fmt.Sprintf("agents: %d, with problems: %d", len(wanted), bad)
	return out, nil
}

// checkAgent looks at one agent.
func (c *Control) checkAgent(ctx context.Context, agent string, w converge.World, troubles []converge.Trouble, probe bool) (api.SelfCheck, error) {
	out := api.SelfCheck{OK: true, Agent: agent, Level: converge.LevelObserved, Client: api.CheckClient{Name: agent}, Files: []api.CheckFile{}, Problems: []api.CheckProblem{}}
	out.Client.Certified = certified(c.cfg.Certificates(ctx))[agent]
	for _, known := range c.cfg.Agents() {
		if known.Agent == agent {
			out.Client.Name = known.Title
		}
	}
	var record converge.AgentRecord
	for _, r := range w.Agents {
		if r.Agent == agent {
			record = r
		}
	}
	if record.Level != "" {
		out.Level = record.Level
	}
	var live auth.Token
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		tokens, err := auth.AllTokens(ctx, r, agent)
		if err != nil {
			return err
		}
		live, out.Control.Token = auth.Current(tokens, agent, c.cfg.Now())
		plans, err := converge.AllPlans(ctx, r, converge.ListPlans{State: converge.PlanReady, Agent: agent})
		out.Plans = len(plans)
		return err
	})
	if err != nil {
		return out, err
	}
	tell := func(severity converge.Weight, code, entry, command, hint, format string, args ...any) {
		out.Problems = append(out.Problems, api.CheckProblem{Code: code, Severity: severity, Entry: entry, Text: fmt.Sprintf(format, args...), Hint: hint, Command: command})
		if severity == converge.WeightBlocker {
			out.OK = false
		}
	}
	stale := true
	for _, r := range w.Records {
		if r.File.Agent != agent || r.File.State == converge.FileAbsent {
			continue
		}
		out.Files = append(out.Files, api.CheckFile{Path: r.File.Path, Scope: r.File.Scope, State: string(r.File.State), Seen: r.Seen})
		stale = stale && c.cfg.Now().Sub(r.Seen) > filesFresh
	}
	mounted := converge.Mounted(w, agent)
	for _, t := range troubles {
		if concerns(t, agent, mounted) {
			tell(t.Severity, t.Code, t.Entry, t.Command, t.Hint, "%s", t.Text)
		}
	}
	if stale && len(out.Files) > 0 && !slices.ContainsFunc(out.Problems, func(p api.CheckProblem) bool { return p.Code == "never-audited" }) {
		tell(converge.WeightWarning, "files-not-looked-at", "", "mcpx audit run --agent "+agent, "look at the files of the agent", "the files of %s were not looked at for a day", agent)
	}
	c.checkControl(ctx, &out, w, record, live, probe, tell)
	if !out.Client.Certified {
		tell(converge.WeightNotice, "client-uncertified", "", "", "nothing has to be done: plans for it always ask a person", "no certificate says that this version of %s was tried on this machine", out.Client.Name)
	}
	return out, nil
}

// checkControl looks whether the agent reaches mcp_hub in its own way.
func (c *Control) checkControl(ctx context.Context, out *api.SelfCheck, w converge.World, record converge.AgentRecord, live auth.Token, probe bool,
	tell func(severity converge.Weight, code, entry, command, hint, format string, args ...any),
) {
	agent := out.Agent
	install := "mcpx agents install-control-plane --agent " + agent
	out.Control.Strategy, out.Control.Routed, out.Control.Used = record.Control, converge.ReachesHub(w, agent), live.Used
	if record.Control == "" {
		tell(converge.WeightBlocker, "control-plane-absent", converge.HubName, install, "install it", "the control plane is not installed for %s", agent)
		return
	}
	if !out.Control.Routed {
		tell(converge.WeightBlocker, "control-plane-not-routed", converge.HubName, install+" --apply", "write the entry", "no entry of %s leads to mcp_hub", agent)
	}
	if !out.Control.Token {
		tell(converge.WeightBlocker, "token-none", converge.HubName, "mcpx token issue --agent "+agent, "make one", "%s has no token that counts", agent)
		return
	}
	if !probe {
		out.Control.Answers = answersIn // by this very token
		return
	}
	v, err := c.cfg.TokenFiles.Value(agent)
	if err != nil || v.Digest() != live.Digest {
		tell(converge.WeightBlocker, "token-file-missing", converge.HubName, "mcpx token issue --agent "+agent, "make another one", "the value of the token of %s is not in its file", agent)
		return
	}
	open, err := c.cfg.ProbeHub(ctx, "")
	if err == nil && open {
		out.Control.Answers = answersOpen
		tell(converge.WeightBlocker, "control-plane-unauthenticated", converge.HubName, "mcpx daemon restart", "restart the daemon, and tell its makers", "mcp_hub answers without a token")
		return
	}
	in, inErr := c.cfg.ProbeHub(ctx, v.Reveal())
	switch {
	case err != nil || inErr != nil:
		out.Control.Answers = answersNothing
		tell(converge.WeightBlocker, "control-plane-unreachable", converge.HubName, "mcpx daemon status", "see whether the daemon listens", "mcp_hub does not answer at %s: %s", c.hubURL(), fault.From(firstOf(err, inErr)).Message)
	case !in:
		out.Control.Answers = answersRefused
		tell(converge.WeightBlocker, "control-plane-refused", converge.HubName, "mcpx token rotate "+agent, "give it another token", "mcp_hub does not accept the token of %s", agent)
	default:
		out.Control.Answers = answersIn
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
