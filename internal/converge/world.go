package converge

import (
	"cmp"
	"slices"
	"time"

	"mcpx/internal/catalog"
)

// HubName is the server of the control plane. It is no entry of the catalog.
const HubName = "mcp_hub"

// World is everything that decides what is planned. All of it are values; nothing of it is a secret.
type World struct {
	Files    []File    // places that were looked at, the weaker ones first for each agent
	Findings []Finding // entries of these files, as Classify judged them
	Servers  []catalog.Server
	Revision string // of the catalog
	Agents   []AgentRecord
	Policy   Policy
	Adapter  string // version of the code that reads and writes the files
	Port     string // of our listener; "" there is none, so no http form can be written
	Token    bool   // the listener asks everybody for a token
	Program  string // absolute path of our binary
	Look     Look   // where the files were looked for
	Asked    Asked

	Staged  map[string]Staged // candidates, by the id of an observation
	Known   map[string]bool   // names of credentials in the store
	Pinned  map[string]bool   // names of servers whose tools were all reviewed, or need no review
	Waiting map[string]bool   // real paths of files for which a plan waits for a person
	// Certified are the agents whose installed version has a valid certificate.
	Certified map[string]bool
	Receipts  []Receipt    // of the last 24 hours at least
	Records   []FileRecord // the observations before this one: since when something is so
	Now       time.Time
}

// Asked is what a person wants beyond what the levels of the agents say.
type Asked struct {
	Agents  []string // plan for these, whatever their level is
	All     bool     // plan for every agent
	Entry   string   // only entries of this name
	Mounts  bool     // only what the mounts ask for: servers that are missing, and entries that are one too many
	Off     bool     // also entries that are off
	Unroute bool     // lead routed entries back to the server itself
	Retry   bool     // offer again what failed
}

// Staged is a candidate of the catalog, as far as it concerns plans.
type Staged struct {
	ID       string
	Name     string // proposed for the catalog
	Rejected bool   // a person does not want it in the catalog
}

// StagedFrom finds the candidates by what was observed.
func StagedFrom(all []catalog.Candidate) map[string]Staged {
	out := map[string]Staged{}
	for _, c := range all {
		if c.State != catalog.CandidateNew && c.State != catalog.CandidateRejected {
			continue
		}
		for _, seen := range c.Sightings {
			if seen.Observation != "" {
				out[seen.Observation] = Staged{ID: c.ID, Name: c.Name, Rejected: c.State == catalog.CandidateRejected}
			}
		}
	}
	return out
}

// Proposal is a plan before the bytes are known.
type Proposal struct {
	Kind     PlanKind
	Agent    string
	Server   string
	Entry    string
	Summary  string
	Reasons  []string
	Match    catalog.Match
	Risk     Risk
	Effects  []string
	Needs    []string
	Problems []Problem
	Reverts  string
	Files    []Drafting // what happens in each file; empty when nothing can be written
	// Conflicts are those that drafting found.
	Conflicts Conflicts

	auto []string // codes of the entry that forbid to apply it without a person
}

// problem makes the proposal one that is not offered.
func (p *Proposal) problem(code, text string) {
	p.Problems = append(p.Problems, Problem{Code: code, Text: text})
}

func (p *Proposal) reason(codes ...string) {
	p.Reasons = unique(append(p.Reasons, codes...))
}

// raise makes the plan one that needs a closer look.
func (p *Proposal) raise(is bool, code string) {
	if is {
		p.Risk.Class = RiskHigh
		p.Risk.Reasons = unique(append(p.Risk.Reasons, code))
	}
}

// need tells a command that comes first.
func (p *Proposal) need(code, command string) {
	p.reason(code)
	p.Needs = unique(append(p.Needs, command))
}

// view is the world, indexed once, so that every question costs the same however large it is.
type view struct {
	World
	byID    map[string]*catalog.Server
	byName  map[string]*catalog.Server // names and aliases
	records map[string]AgentRecord
	files   map[place]File
	byAgent map[string][]Finding
	byEntry map[named][]*Finding // all entries of one name
	served  map[named][]*Finding // all entries that lead through mcpx to one server
	homes   map[room]File        // where a new entry goes
	history history
}

// place is one file of one agent.
type place struct{ agent, path string }

// named is something of one agent: an entry, a server.
type named struct{ agent, name string }

// room is where an agent keeps entries of one scope, in one project.
type room struct{ agent, scope, project string }

func look(w World) *view {
	x := &view{
		World: w, byID: map[string]*catalog.Server{}, byName: map[string]*catalog.Server{}, records: map[string]AgentRecord{},
		files: map[place]File{}, byAgent: map[string][]Finding{}, byEntry: map[named][]*Finding{}, served: map[named][]*Finding{},
		history: remember(w.Receipts, w.Now),
	}
	for i := range w.Servers {
		s := &w.Servers[i]
		x.byID[s.ID], x.byName[s.Name] = s, s
		for _, alias := range s.Aliases {
			x.byName[alias] = s
		}
	}
	for _, r := range w.Agents {
		x.records[r.Agent] = r
	}
	for _, f := range w.Files {
		x.files[place{f.Agent, f.Path}] = f
	}
	for _, f := range w.Findings {
		x.byAgent[f.Agent] = append(x.byAgent[f.Agent], f)
	}
	for agent, all := range x.byAgent { // whatever the order in which they were found
		slices.SortStableFunc(all, compareEntries)
		for i := range all {
			f := &all[i]
			x.byEntry[named{agent, f.Name}] = append(x.byEntry[named{agent, f.Name}], f)
			if f.Routed != nil && f.Routed.State != RoutedForeign {
				x.served[named{agent, f.Match.Server}] = append(x.served[named{agent, f.Match.Server}], f)
			}
		}
	}
	x.homes = x.findHomes()
	return x
}

func compareEntries(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.File, b.File), cmp.Compare(a.Project, b.Project), slices.Compare(a.At, b.At), cmp.Compare(a.Name, b.Name))
}

// level is what a person decided about an agent.
func (x *view) level(agent string) Level {
	if r, ok := x.records[agent]; ok && r.Level != "" {
		return r.Level
	}
	return LevelObserved
}

// planned says whether plans are made for the agent.
func (x *view) planned(agent string) bool {
	return x.level(agent) != LevelObserved || x.Asked.All || slices.Contains(x.Asked.Agents, agent)
}

// server finds an entry of the catalog by id, name or alias.
func (x *view) server(name string) (*catalog.Server, bool) {
	s, ok := x.byID[name]
	if !ok {
		s, ok = x.byName[name]
	}
	return s, ok
}

// writable says whether the file is one that mcpx may change. What is wrong with it otherwise is told by its own state.
func (x *view) writable(agent, path string) bool {
	f, ok := x.files[place{agent, path}]
	return ok && (f.State == FileReadable || f.State == FileAbsent) && f.Scope != scopeSystem && f.Scope != scopeManaged
}

// Scopes of files, as package clientfile spells them.
const (
	scopeSystem  = "system"
	scopeUser    = "user"
	scopeProject = "project"
	scopeLocal   = "local"
	scopeManaged = "managed"
)
