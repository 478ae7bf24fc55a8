package converge

import (
	"slices"

	"mcpx/internal/catalog"
)

// EntryFor is how an agent would reach a server through mcpx: the form of its entry, why that form, and the commands
// that come first. nil: it cannot be written, and the problems say why.
func EntryFor(w World, agent string, s *catalog.Server) (form *Form, reasons, needs []string, problems []Problem) {
	x := look(w)
	var p Proposal
	x.ready(&p, s, nil)
	form = x.form(&p, Entry{Agent: agent}, s)
	p.finish()
	return form, p.Reasons, p.Needs, p.Problems
}

// Mounted are the servers that the agent has through mcpx, by name.
func Mounted(w World, agent string) []string {
	names := []string{}
	for _, f := range w.Findings {
		if f.Agent != agent || !f.Enabled || f.Routed == nil || f.Routed.State == RoutedForeign || f.Routed.State == RoutedUnknown {
			continue
		}
		if f.Match.Server != "" && f.Match.Server != HubName {
			names = append(names, f.Match.Server)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ReachesHub says whether an enabled entry of the agent leads to the control plane, in every project.
func ReachesHub(w World, agent string) bool {
	return slices.ContainsFunc(w.Findings, func(f Finding) bool {
		return f.Agent == agent && f.Enabled && f.Project == "" && f.Routed != nil && f.Routed.Server == HubName &&
			(f.Routed.State == RoutedHere || f.Routed.State == RoutedSpelling)
	})
}

// Strategies are the ways in which an agent can send the token of mcp_hub, the first one by default (governance.md
// section 3.4).
func Strategies(agent string) []string {
	x := &view{}
	all := []string{}
	for _, s := range []string{StrategyHelper, StrategyEnv, StrategyBridge} {
		if _, ok := x.hub(agent, s); ok {
			all = append(all, s)
		}
	}
	if len(all) > 1 && all[0] == StrategyEnv { // only a helper is better than the bridge: a variable has to be set by somebody
		all[0], all[1] = all[1], all[0]
	}
	return all
}

// The strategies.
const (
	StrategyHelper = "helper" // the agent runs a program that prints the header
	StrategyEnv    = "env"    // the agent takes the token from a variable
	StrategyBridge = "bridge" // the agent starts mcpx connect, which reads the token itself
)
