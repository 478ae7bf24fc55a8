package converge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcpx/internal/catalog"
)

// mounts proposes what the decisions about whole agents ask for: servers that are missing, entries that are one too
// many, copies, and the control plane.
func (x *view) mounts() []Proposal {
	var out []Proposal
	for _, agent := range slices.Sorted(maps.Keys(x.records)) {
		if !x.planned(agent) {
			continue
		}
		record := x.records[agent]
		for _, m := range record.Mounts {
			if x.Asked.Entry != "" && m.Name != x.Asked.Entry {
				continue
			}
			if p, ok := x.missing(agent, m); ok {
				out = append(out, p)
			}
		}
		if record.Control != "" && !x.Asked.Mounts && (x.Asked.Entry == "" || x.Asked.Entry == HubName) {
			if p, ok := x.control(agent, record.Control); ok {
				out = append(out, p)
			}
		}
	}
	for agent := range x.byAgent {
		if x.planned(agent) {
			out = append(out, x.removals(agent)...)
			if !x.Asked.Mounts {
				out = append(out, x.merges(agent)...)
			}
		}
	}
	return out
}

// has says what the agent has in the place of a mount: an entry of its name, or one that leads to its server.
func (x *view) has(agent string, m Mount, s *catalog.Server) (same, served *Finding) {
	in := func(list []*Finding) *Finding {
		i := slices.IndexFunc(list, func(f *Finding) bool { return f.Scope == m.scope() && f.Project == m.Project })
		if i < 0 {
			return nil
		}
		return list[i]
	}
	return in(x.byEntry[named{agent, m.Name}]), in(x.served[named{agent, s.Name}])
}

// scope is the one that is meant.
func (m Mount) scope() string { return cmp.Or(m.Scope, scopeUser) }

// another says whether the entry is surely not the server.
func another(f *Finding, s *catalog.Server) bool {
	return f.Parse != "broken" && (f.Match.Server != s.Name || f.Class == NameConflict)
}

// missing adds a server that the agent shall have and has not. An entry that is off is there: its person switched it off.
func (x *view) missing(agent string, m Mount) (Proposal, bool) {
	s, ok := x.byID[m.Server]
	if !ok || !m.due(s) {
		return Proposal{}, false
	}
	same, served := x.has(agent, m, s)
	if served != nil || same != nil && !another(same, s) {
		return Proposal{}, false // routed, or to be routed, or to be looked at by a person
	}
	p := Proposal{Kind: PlanAdd, Agent: agent, Server: s.Name, Entry: m.Name, Match: byName(s.Name)}
	p.reason(reasonMissing)
	p.Summary = fmt.Sprintf("%s gets %s", agent, m.Name)
	if same != nil {
		p.problem(problemName, "the agent has another server under this name")
	}
	together := func(f *Finding) bool { return m.Project == "" || f.Project == "" || f.Project == m.Project }
	if habits[agent].merges && same == nil && slices.ContainsFunc(x.byEntry[named{agent, m.Name}], together) {
		p.problem(problemLayers, "the agent would make one entry of this one and of those with the same name in other files")
	}
	x.ready(&p, s, nil)
	form := x.form(&p, Entry{Agent: agent}, s)
	p.raise(s.Risk == catalog.RiskHigh, riskServer)
	x.insert(&p, room{agent, m.scope(), m.Project}, m.Name, form)
	return p, true
}

// insert puts a new entry into the file in which the agent would look for it first.
func (x *view) insert(p *Proposal, at room, name string, form *Form) {
	file, ok := x.homes[at]
	if !ok {
		p.problem(problemNoFile, "mcpx knows no file of this agent and scope that it may write")
		return
	}
	p.raise(file.Shared, riskShared)
	p.Effects = effects(at.agent, name, form, at.scope == scopeProject, file.Shared)
	if form != nil {
		p.Files = []Drafting{{Agent: at.agent, Path: file.Path, Steps: []Step{{Op: StepSet, Name: name, Want: form}}}}
	}
}

// findHomes picks the file for new entries of each agent, scope and project: the strongest one that has entries, else the strongest
// that is there, else the one that the agent would make itself.
func (x *view) findHomes() map[room]File {
	homes, ranks := map[room]File{}, map[room]int{}
	for _, f := range x.Files {
		if !x.writable(f.Agent, f.Path) {
			continue
		}
		rank := 1
		switch main := habits[f.Agent].main; {
		case f.State == FileReadable && f.Entries > 0:
			rank = 4
		case f.State == FileReadable:
			rank = 3
		case main != "" && strings.HasSuffix(f.Path, main):
			rank = 2
		}
		at := room{f.Agent, f.Scope, f.Project}
		if best := ranks[at]; rank > best || rank == best && rank > 1 {
			homes[at], ranks[at] = f, rank
		}
	}
	return homes
}

// control adds the control plane, or repairs its entry.
func (x *view) control(agent, strategy string) (Proposal, bool) {
	p := Proposal{Kind: PlanControlPlane, Agent: agent, Server: HubName, Entry: HubName, Match: byName(HubName)}
	p.reason(reasonHubMissing)
	p.Summary = fmt.Sprintf("%s gets %s, the control plane of mcpx", agent, HubName)
	if have := x.hubEntries(agent); len(have) > 0 {
		return x.repair(p, have, strategy)
	}
	if slices.ContainsFunc(x.byEntry[named{agent, HubName}], func(f *Finding) bool { return f.Scope == scopeUser }) {
		p.problem(problemName, "the agent has another server under this name")
	}
	x.insert(&p, room{agent: agent, scope: scopeUser}, HubName, x.hubForm(&p, agent, strategy))
	return p, true
}

// hubEntries lead to the control plane in every project; one of a single project is left to that project.
func (x *view) hubEntries(agent string) []*Finding {
	return slices.DeleteFunc(slices.Clone(x.served[named{agent, HubName}]), func(f *Finding) bool { return f.Project != "" })
}

// repair lets the entry of the control plane send its token in the way that is wanted.
func (x *view) repair(p Proposal, have []*Finding, strategy string) (Proposal, bool) {
	i := slices.IndexFunc(have, func(f *Finding) bool { return f.Scope == scopeUser })
	if i < 0 || have[i].Routed.State == RoutedStalePort || sends(have[i].Entry) == strategy || !x.writable(have[i].Agent, have[i].File) {
		return Proposal{}, false // right, or cured by another plan, or nobody's business
	}
	p.Reasons = []string{reasonHubStrategy}
	p.Summary = fmt.Sprintf("%s sends its token to %s by %s", p.Agent, HubName, strategy)
	form := x.hubForm(&p, p.Agent, strategy)
	x.layers(&p, *have[i], form)
	x.set(&p, have[i].Entry, form, nil)
	return p, true
}

// sends is the strategy of an entry that leads to the control plane; "" it sends no token, so it is refused.
func sends(e Entry) string {
	switch {
	case e.Routed.Form == "bridge":
		return StrategyBridge
	case e.Auth == "helper":
		return StrategyHelper
	case e.Auth == "env-name" || e.Auth == "header-template":
		return StrategyEnv
	}
	return ""
}

func (x *view) hubForm(p *Proposal, agent, strategy string) *Form {
	form, ok := x.hub(agent, strategy)
	switch {
	case !ok:
		p.problem(problemStrategy, "this agent cannot send a token by "+strategy+": `mcpx agents auth-capabilities` shows the ways")
	case form.Kind == FormHTTP && x.Port == "":
		p.problem(problemNoListener, "mcpx listens on no port, so there is no URL to write")
	case (form.Kind == FormBridge || form.Helper != "") && x.Program == "":
		p.problem(problemProgram, "the path of mcpx is not known, so no command can be written")
	default:
		return form
	}
	return nil
}

// removals take away what a person no longer wants, and what is extra where the mounts are the whole list. Only entries
// that lead through mcpx go: a server that the agent has by itself is a question, not an order.
func (x *view) removals(agent string) []Proposal {
	record := x.records[agent]
	wanted, unwanted := map[string]bool{}, map[string]bool{}
	for _, m := range record.Mounts {
		key := m.scope() + " " + m.Project + " " + m.Name
		if m.Absent {
			unwanted[key] = true
		} else {
			wanted[key] = true
		}
	}
	if !record.Only && len(unwanted) == 0 {
		return nil
	}
	var out []Proposal
	for _, f := range x.byAgent[agent] {
		key := f.Scope + " " + f.Project + " " + f.Name
		through := f.Routed != nil && f.Routed.State != RoutedForeign && f.Routed.Server != HubName
		if !through || wanted[key] || x.Asked.Entry != "" && f.Name != x.Asked.Entry || !x.writable(agent, f.File) {
			continue
		}
		reason := reasonExtra
		if unwanted[key] {
			reason = reasonUnwanted
		} else if !record.Only || f.Scope != scopeUser {
			continue // of a project: others may count on it
		}
		p := Proposal{Kind: PlanRemove, Agent: agent, Server: f.Match.Server, Entry: f.Name, Match: f.Match}
		p.reason(reason)
		p.raise(true, riskRemoves)
		p.Summary = fmt.Sprintf("%s loses %s", agent, f.Name)
		x.remove(&p, f)
		out = append(out, p)
	}
	return out
}

func (x *view) remove(p *Proposal, f Finding) {
	shared := x.files[place{f.Agent, f.File}].Shared
	p.raise(shared, riskShared)
	p.Effects = effects(f.Agent, f.Name, nil, f.Scope == scopeProject, shared)
	x.layers(p, f, nil)
	step := Step{Op: StepRemove, At: f.At, Name: f.Name, Project: f.Project}
	for i := range p.Files {
		if p.Files[i].Path == f.File {
			p.Files[i].Steps = append(p.Files[i].Steps, step)
			return
		}
	}
	p.Files = append(p.Files, Drafting{Agent: f.Agent, Path: f.File, Steps: []Step{step}})
}

// copies are the entries of one agent that lead to one server at the same time: several that count everywhere, or one of
// these and those of one project. Entries of several projects do not count at the same time.
func (x *view) copies(agent string) map[copied][]Finding {
	all := map[copied][]Finding{}
	for _, f := range x.byAgent[agent] {
		if f.Routed != nil && f.Enabled && f.Class == Compliant && f.Match.Server != "" {
			at := copied{f.Match.Server, f.Project}
			all[at] = append(all[at], f)
		}
	}
	out := map[copied][]Finding{}
	for at, list := range all {
		if at.project != "" {
			list = slices.Concat(all[copied{server: at.server}], list)
		}
		if len(list) > 1 && slices.ContainsFunc(list, func(f Finding) bool { return f.Scope == scopeUser }) {
			out[at] = list
		}
	}
	return out
}

// copied is what several entries lead to, in a project; "" everywhere.
type copied struct{ server, project string }

// merges keep one of several copies: that of the user's scope, since it counts everywhere. Where the copies have several
// names a person has to choose, since permissions contain them.
func (x *view) merges(agent string) []Proposal {
	var out []Proposal
	all := x.copies(agent)
	order := func(a, b copied) int {
		return cmp.Or(cmp.Compare(a.server, b.server), cmp.Compare(a.project, b.project))
	}
	for _, at := range slices.SortedFunc(maps.Keys(all), order) {
		keep, ok := survivor(all[at])
		if !ok || x.Asked.Entry != "" && keep.Name != x.Asked.Entry {
			continue
		}
		p := Proposal{Kind: PlanMerge, Agent: agent, Server: at.server, Entry: keep.Name, Match: keep.Match}
		p.reason(reasonDuplicate)
		p.raise(true, riskRemoves)
		p.Summary = fmt.Sprintf("%s: of %d copies of %s the one in %s stays", agent, len(all[at]), keep.Name, keep.File)
		for _, f := range all[at] {
			if f.Project == at.project && (f.File != keep.File || !slices.Equal(f.At, keep.At)) && x.writable(agent, f.File) {
				x.remove(&p, f)
			}
		}
		if len(p.Files) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// survivor is the only copy of the user's scope among copies of one name.
func survivor(list []Finding) (Finding, bool) {
	var keep Finding
	found := 0
	for _, f := range list {
		if f.Name != list[0].Name {
			return Finding{}, false
		}
		if f.Scope == scopeUser {
			keep = f
			found++
		}
	}
	return keep, found == 1
}
