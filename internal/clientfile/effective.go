package clientfile

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/secret"
)

// Effective joins the layers of each agent as the agent does for the project, and gives the entries that count: one of
// each name and agent, in the order of the agents and of the files.
func (s System) Effective(all []Observed, hub Hub) []Entry {
	var out []Entry
	for _, a := range Agents() {
		out = append(out, s.effective(a, all, hub)...)
	}
	return out
}

func (s System) effective(a Agent, all []Observed, hub Hub) []Entry {
	d := dialectOf(a)
	var entries []Entry
	var off []rule
	upwards := s.upwards()
	for _, o := range all {
		if o.Agent != a {
			continue
		}
		off = append(off, o.off...)
		for _, e := range o.Entries {
			if e.Scope == "" {
				e.Scope = o.File.Scope
			}
			if e.Scope == ScopeLocal && e.project != "" && !slices.Contains(upwards, e.project) {
				continue // of another project
			}
			entries = append(entries, e)
		}
	}
	slices.SortStableFunc(entries, func(x, y Entry) int { return cmp.Compare(x.Scope.rank(), y.Scope.rank()) })

	var out []Entry
	at := make(map[string]int, len(entries)) // where a name is in out
	for _, e := range entries {
		i, there := at[e.Name]
		switch {
		case !there:
			at[e.Name] = len(out)
			out = append(out, e)
		case !e.Enabled && hasGate(e):
			// The agent ignores the layer, so it hides nothing.
		case !d.merges && e.def == nil && e.Scope == out[i].Scope && e.dir == out[i].dir:
			// In a list names may repeat; a bad entry hides no good one beside it.
		case d.merges:
			out[i] = mergedEntry(d, hub, out[i], e)
		default:
			out[i] = e
		}
	}
	for i := range out {
		if switchedOff(off, out[i].Name, "") || slices.ContainsFunc(upwards, func(p string) bool { return switchedOff(off, out[i].Name, p) }) {
			out[i].Enabled = false
		}
	}
	return out
}

// hasGate says whether an entry is off because a person has not agreed to it yet.
func hasGate(e Entry) bool {
	return e.gated || hasProblem(e, "approval-pending")
}

func hasProblem(e Entry, code string) bool {
	return slices.ContainsFunc(e.Problems, func(p Problem) bool { return p.Code == code })
}

// mergedEntry reads the fields of both layers again as one entry. In doubt the place is that of the stronger one.
func mergedEntry(d dialect, hub Hub, below, above Entry) Entry {
	f := found{name: above.Name, at: above.At, value: below.value.merged(*above.value), scope: above.Scope}
	r := reader{dialect: d, agent: above.agent, hub: hub, found: f}
	e := r.entry()
	e.project, e.dir = above.project, above.dir
	return e
}

// Offer is one server for `mcpx up`: entries of several agents that define the same thing are one offer.
type Offer struct {
	Name    string   // unique among the offers, valid in a URL path
	Agents  []Agent  // whose entries it comes from
	Entries []string // the names of the entries there, in the same order
	Aliases []string // other names of the entries, as far as they are free: the server has them too
	Run     Runnable
}

// Skipped is an entry that cannot be offered.
type Skipped struct {
	Agent Agent
	Name  string
	Err   error // *fault.Error
}

// disabled is the reason why an entry that is off, or that nobody may have agreed to, is not offered.
func disabled(e Entry) *fault.Error {
	f := fault.New(fault.Conflict, "entry-disabled")
	if e.Enabled {
		return f.Saying("%s: whether %s may start it is kept where mcpx cannot read it", e.Name, e.agent.Title()).Hinting("add it with `mcpx server add`")
	}
	if hasGate(e) {
		return f.Saying("%s: nobody has agreed to it there yet", e.Name).Hinting("start %s in this directory and allow it", e.agent.Title())
	}
	return f.Saying("%s: it is disabled there", e.Name).Hinting("enable it in %s", e.agent.Title())
}

// Offers makes the entries that are on runnable, joins equal ones and gives each a name. Taken names are those of the
// catalog; an entry that would hide one gets another name.
func (s System) Offers(entries []Entry, taken []string) (offers []Offer, skipped []Skipped) {
	used := map[string]bool{}
	for _, name := range taken {
		used[name] = true
	}
	for _, e := range entries {
		if !e.Enabled || hasProblem(e, "approval-unseen") {
			skipped = append(skipped, Skipped{Agent: e.agent, Name: e.Name, Err: disabled(e)})
			continue
		}
		run, err := s.Runnable(e)
		if err != nil {
			skipped = append(skipped, Skipped{Agent: e.agent, Name: e.Name, Err: err})
			continue
		}
		i := slices.IndexFunc(offers, func(o Offer) bool { return sameServer(*o.Run.server, *run.server) })
		if i < 0 {
			name := freeName(run.server.Name, e.agent, used)
			used[name] = true
			run.server.Name = name
			offers = append(offers, Offer{Name: name, Run: run})
			i = len(offers) - 1
		} else if name := run.server.Name; !used[name] {
			used[name] = true
			offers[i].Aliases = append(offers[i].Aliases, name)
			offers[i].Run.server.Aliases = offers[i].Aliases
		}
		offers[i].Agents = append(offers[i].Agents, e.agent)
		offers[i].Entries = append(offers[i].Entries, e.Name)
		maps.Copy(offers[i].Run.secrets, run.secrets)
	}
	return offers, skipped
}

// sameServer compares definitions, values included, but not names.
func sameServer(a, b catalog.Server) bool {
	a.Name, b.Name, a.Aliases, b.Aliases = "", "", nil, nil
	return catalog.Revision([]catalog.Server{a}) == catalog.Revision([]catalog.Server{b})
}

// nameRoom is what freeName leaves of a name, so that agent and number fit behind it.
const nameRoom = 44

// freeName is the name, else with the agent behind it, else with a number.
func freeName(name string, a Agent, used map[string]bool) string {
	if !used[name] {
		return name
	}
	name = name[:min(len(name), nameRoom)] + "-" + string(a)
	for n, try := 2, name; ; n++ {
		if !used[try] {
			return try
		}
		try = name + "-" + strconv.Itoa(n)
	}
}

// Redact makes the values of all offers known to a redactor.
func Redact(offers []Offer, to *secret.Redactor) {
	for _, o := range offers {
		o.Run.Redact(to)
	}
}
