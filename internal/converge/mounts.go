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
		if record.Control != "" && (x.Asked.Entry == "" || x.Asked.Entry == HubName) {
			if p, ok := x.control(agent, record.Control); ok {
				out = append(out, p)
			}
		}
	}
	for agent := range x.byAgent {
		if x.planned(agent) {
			out = append(out, x.removals(agent)...)
			out = append(out, x.merges(agent)...)
		}
	}
	return out
}

// has says what the agent has in the place of a mount: an entry of its name, or one that leads to its server.
func (x *view) has(agent string, m Mount, s *catalog.Server) (same, served *Finding) {
	for i := range x.byAgent[agent] {
		f := &x.byAgent[agent][i]
		if !sameScope(f.Entry, m) {
			continue
		}
		if f.Name == m.Name {
			same = f
		}
		if f.Routed != nil && f.Routed.State != RoutedForeign && s != nil && f.Match.Server == s.Name {
			served = f
		}
	}
	return same, served
}

func sameScope(e Entry, m Mount) bool { return e.Scope == cmp.Or(m.Scope, scopeUser) }

// missing adds a server that the agent shall have and has not. An entry that is off is there: its person switched it off.
func (x *view) missing(agent string, m Mount) (Proposal, bool) {
	s, ok := x.byID[m.Server]
	if !ok || m.Absent {
		return Proposal{}, false
	}
	same, served := x.has(agent, m, s)
	if served != nil || same != nil && (same.Match.Server == s.Name || same.Parse == "broken") {
		return Proposal{}, false // routed, or to be routed, or to be corrected by hand
	}
	p := Proposal{Kind: PlanAdd, Agent: agent, Server: s.Name, Entry: m.Name, Match: named(s.Name)}
	p.reason(reasonMissing)
	p.Summary = fmt.Sprintf("%s gets %s", agent, m.Name)
	if same != nil {
		p.problem(problemName, "the agent has another server under this name")
	}
	x.ready(&p, s)
	form := x.form(&p, Entry{Agent: agent}, s)
	p.raise(s.Risk == catalog.RiskHigh, riskServer)
	x.insert(&p, agent, cmp.Or(m.Scope, scopeUser), m.Name, form)
	return p, true
}

// insert puts a new entry into the file in which the agent would look for it first.
func (x *view) insert(p *Proposal, agent, scope, name string, form *Form) {
	file, ok := x.homeOf(agent, scope)
	if !ok {
		p.problem(problemNoFile, "mcpx knows no file of this agent and scope that it may write")
		return
	}
	p.raise(file.Shared, riskShared)
	p.Effects = effects(agent, form, scope == scopeProject, file.Shared)
	if form != nil {
		p.Files = []Drafting{{Agent: agent, Path: file.Path, Steps: []Step{{Op: StepSet, Name: name, Want: form}}}}
	}
}

// homeOf is the file for a new entry: the strongest one that has entries, else the strongest that is there, else the one
// that the agent would make itself.
func (x *view) homeOf(agent, scope string) (File, bool) {
	var best File
	rank := -1
	for _, f := range x.Files {
		if f.Agent != agent || f.Scope != scope || !x.writable(agent, f.Path) {
			continue
		}
		r := 0
		switch main := habits[agent].main; {
		case f.State == FileReadable && f.Entries > 0:
			r = 3
		case f.State == FileReadable:
			r = 2
		case main != "" && strings.HasSuffix(f.Path, main):
			r = 1
		}
		if r > rank || r == rank && r > 0 {
			best, rank = f, r
		}
	}
	return best, rank >= 0
}

// control adds the control plane, or repairs its entry.
func (x *view) control(agent, strategy string) (Proposal, bool) {
	p := Proposal{Kind: PlanControlPlane, Agent: agent, Server: HubName, Entry: HubName, Match: named(HubName)}
	p.reason(reasonHubMissing)
	p.Summary = fmt.Sprintf("%s gets %s, the control plane of mcpx", agent, HubName)
	for _, f := range x.byAgent[agent] {
		if f.Routed != nil && f.Routed.Server == HubName && f.Routed.State != RoutedForeign {
			return Proposal{}, false
		}
		if f.Name == HubName && f.Scope == scopeUser {
			p.problem(problemName, "the agent has another server under this name")
		}
	}
	x.insert(&p, agent, scopeUser, HubName, x.hubForm(&p, agent, strategy))
	return p, true
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
		key := cmp.Or(m.Scope, scopeUser) + " " + m.Name
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
		key := f.Scope + " " + f.Name
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
	p.Effects = effects(f.Agent, nil, f.Scope == scopeProject, shared)
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

// copies are the entries of one agent that lead to one server at the same time.
func (x *view) copies(agent string) map[string][]Finding {
	all := map[string][]Finding{}
	for _, f := range x.byAgent[agent] {
		if f.Routed != nil && f.Enabled && f.Class == Compliant && f.Match.Server != "" {
			all[f.Match.Server] = append(all[f.Match.Server], f)
		}
	}
	maps.DeleteFunc(all, func(_ string, list []Finding) bool {
		user := slices.ContainsFunc(list, func(f Finding) bool { return f.Scope == scopeUser })
		return len(list) < 2 || !user // entries of several projects do not count at the same time
	})
	return all
}

// merges keep one of several copies: that of the user's scope, since it counts everywhere. Where the copies have several
// names a person has to choose, since permissions contain them.
func (x *view) merges(agent string) []Proposal {
	var out []Proposal
	all := x.copies(agent)
	for _, server := range slices.Sorted(maps.Keys(all)) {
		keep, ok := survivor(all[server])
		if !ok || x.Asked.Entry != "" && keep.Name != x.Asked.Entry {
			continue
		}
		p := Proposal{Kind: PlanMerge, Agent: agent, Server: server, Entry: keep.Name, Match: keep.Match}
		p.reason(reasonDuplicate)
		p.raise(true, riskRemoves)
		p.Summary = fmt.Sprintf("%s: of %d copies of %s the one in %s stays", agent, len(all[server]), keep.Name, keep.File)
		for _, f := range all[server] {
			if f.ID == keep.ID && f.File == keep.File && slices.Equal(f.At, keep.At) || !x.writable(agent, f.File) {
				continue
			}
			x.remove(&p, f)
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
