package converge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcpx/internal/catalog"
)

// Trouble is something that is not as it should be, and what to do about it.
type Trouble struct {
	Code     string    `json:"code"`
	Severity Weight    `json:"severity"`
	Since    time.Time `json:"since,omitzero"` // zero: nobody has kept it
	Subject  string    `json:"subject"`        // what it is about, in one word
	Agent    string    `json:"agent,omitempty"`
	Path     string    `json:"path,omitempty"`
	Entry    string    `json:"entry,omitempty"`
	Text     string    `json:"text"`
	Hint     string    `json:"hint"`
	Command  string    `json:"command,omitempty"` // the exact next one
}

// TroubleSince is when something was told first.
type TroubleSince struct {
	Code  string    `json:"code"`
	Entry string    `json:"entry,omitempty"`
	Since time.Time `json:"since"`
}

// What drifts, governance.md section 4, beside the reasons of plans.
const (
	driftChanged    = "changed"
	driftUnsafe     = "unsafe-endpoint"
	driftFilter     = "tool-filter-lost"
	driftForeign    = "foreign-hub"
	driftActive     = "active-bypass"
	driftUnknown    = "unknown-server"
	driftShared     = "raw-secret-shared-file"
	driftRejected   = "candidate-rejected"
	driftRoutedGone = "routed-unknown"
	driftSpelling   = "routed-spelling"
	driftDormant    = "dormant"
	driftAmbiguous  = "ambiguous"
	driftConflict   = "name-conflict"
)

// Drift tells what differs from the catalog and from the mounts, entry by entry, and the command that leads on. What
// Propose has a plan for is told as well: a plan is no cure before it is applied.
func Drift(w World) []Trouble {
	x := look(w)
	var out []Trouble
	for _, all := range x.byAgent {
		for _, f := range all {
			out = append(out, x.drift(f)...)
		}
	}
	out = append(out, x.driftOfMounts()...)
	since := x.since()
	for i := range out {
		t := &out[i]
		t.Subject = t.Agent + ":" + t.Entry
		t.Since = w.Now
		if at, ok := since[told{t.Agent, t.Path, t.Code, t.Entry}]; ok {
			t.Since = at
		}
	}
	slices.SortFunc(out, compareTroubles)
	return slices.CompactFunc(out, func(a, b Trouble) bool { return compareTroubles(a, b) == 0 })
}

type told struct{ agent, path, code, entry string }

func (x *view) since() map[told]time.Time {
	out := map[told]time.Time{}
	for _, r := range x.Records {
		for _, t := range r.Troubles {
			out[told{r.File.Agent, r.File.Path, t.Code, t.Entry}] = t.Since
		}
	}
	return out
}

func compareTroubles(a, b Trouble) int {
	order := []Weight{WeightBlocker, WeightWarning, WeightNotice, WeightOK}
	return cmp.Or(cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity)), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Subject, b.Subject),
		cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Text, b.Text))
}

// drift tells of one entry that is there.
func (x *view) drift(f Finding) []Trouble {
	var out []Trouble
	tell := func(code string, severity Weight, command, hint, format string, args ...any) {
		out = append(out, Trouble{
			Code: code, Severity: severity, Agent: f.Agent, Path: f.File, Entry: f.Name,
			Text: fmt.Sprintf(format, args...), Hint: hint, Command: command,
		})
	}
	managed := x.level(f.Agent) != LevelObserved
	plan := "mcpx audit run --agent " + f.Agent
	switch f.Class {
	case Bypass:
		code, severity := reasonBypass, WeightWarning
		if managed {
			code, severity = driftActive, WeightBlocker
		}
		tell(code, severity, plan, "make the plan that leads it through mcpx", "starts or reaches %s itself, and the catalog has it", f.Match.Server)
	case Unsafe:
		tell(driftUnsafe, WeightBlocker, "mcpx config inspect --agent "+f.Agent, "correct the entry; the reasons say what is wrong", "is dangerous: %v", unsafe(f.Entry))
	case Ambiguous:
		tell(driftAmbiguous, WeightWarning, LinkCommand(f), "say which one it is; that is remembered for this entry", "several servers of the catalog fit equally well: %v", Likely(f.Match))
	case NameConflict:
		tell(driftConflict, WeightWarning, LinkCommand(f), "rename one of the two, or say that they are the same", "has the name or an alias of %s and is another server", Likely(f.Match)[0])
	case Unknown, Ineffective:
		x.driftUnlisted(f, tell)
	case Dormant:
		tell(driftDormant, WeightNotice, "", "nothing has to be done", "is off in the agent")
	case Compliant:
		if f.Routed != nil && f.Routed.State == RoutedSpelling {
			tell(driftSpelling, WeightNotice, "", "nothing has to be done", "reaches mcpx by another spelling of the URL")
		}
		if slices.Contains(f.Reasons, catalog.ReasonServerNotRouted) {
			tell(catalog.ReasonServerNotRouted, WeightWarning, "mcpx server show "+f.Match.Server, "see what it waits for", "leads to %s, which is not routed", f.Match.Server)
		}
	case Broken:
		for _, p := range f.Problems {
			tell(p.Code, WeightWarning, "mcpx config inspect --agent "+f.Agent, "correct the entry", "cannot be read by the agent: %s", cmp.Or(p.Field, "the entry"))
		}
	case Unsupported:
		tell(f.Reasons[0], WeightWarning, "", "leave it as it is, or ask for another way to the server", "is of a kind that mcpx does not carry")
	}
	for _, p := range f.Problems {
		if p.Code == reasonMoveSecret && f.Class != Dormant {
			code, severity := reasonMoveSecret, WeightWarning
			if x.files[place{f.Agent, f.File}].Shared {
				code, severity = driftShared, WeightBlocker
			}
			tell(code, severity, "mcpx credential move --from-file "+quoted(f.File), "move it to the store of mcpx, and change it if others may have read it", "holds a value that looks like a secret in %s", p.Field)
		}
		if p.Code == reasonIneffective {
			tell(reasonIneffective, WeightWarning, "", "remove the field", "says %s, which the agent ignores", p.Field)
		}
	}
	return out
}

// driftUnlisted tells of an entry for which the catalog has nothing, or not surely.
func (x *view) driftUnlisted(f Finding, tell func(code string, severity Weight, command, hint, format string, args ...any)) {
	if f.Routed != nil {
		switch f.Routed.State {
		case RoutedStalePort:
			tell(reasonStalePort, WeightWarning, "mcpx audit run --agent "+f.Agent, "make the plan that corrects the port", "has a port on which mcpx does not listen")
		case RoutedUnknown:
			tell(driftRoutedGone, WeightBlocker, "mcpx server list", "add the server, or remove the entry", "leads to %q, which the catalog does not have", f.Routed.Server)
		case RoutedForeign:
			tell(driftForeign, WeightWarning, "mcpx cutover dry-run --from NAME", "see what moving from that hub would mean", "leads to another hub on this machine")
		case RoutedHere, RoutedAlias, RoutedSpelling, RoutedDisabled:
		}
		return
	}
	if f.Class == Ineffective {
		return // told by its field
	}
	severity := WeightWarning
	if x.Policy.Blocks() {
		severity = WeightBlocker
	}
	staged, ok := x.Staged[f.ID]
	switch {
	case f.Match.Confidence == catalog.MatchWeak:
		tell(driftUnknown, severity, LinkCommand(f), "say that it is that server, or add it as another", "may be %v, but that is not sure enough: %v", Likely(f.Match), f.Match.Reasons)
	case ok && staged.Rejected:
		tell(driftRejected, WeightNotice, "mcpx catalog review "+staged.ID, "nothing has to be done; another look is possible", "is a server that was rejected for the catalog")
	case ok:
		tell(driftUnknown, severity, reviewCommand(f, staged), "look at it and take it into the catalog, or reject it", "is not in the catalog")
	default:
		tell(driftUnknown, severity, "mcpx audit run --agent "+f.Agent, "make it a candidate for the catalog", "is not in the catalog")
	}
}

// LinkCommand says that an entry is a server: a person fills in which one where there are several.
func LinkCommand(f Finding) string {
	server := "SERVER"
	if all := Likely(f.Match); len(all) == 1 {
		server = all[0]
	}
	return "mcpx catalog review --link " + cmp.Or(f.ID, f.Name) + " " + server
}

// Likely names the servers at the best level that was reached.
func Likely(m catalog.Match) []string {
	names := []string{}
	for _, c := range m.Candidates {
		if c.Confidence == m.Candidates[0].Confidence {
			names = append(names, c.Server)
		}
	}
	if len(names) == 0 {
		return []string{"SERVER"}
	}
	return names
}

// driftOfMounts tells what the decisions about agents miss.
func (x *view) driftOfMounts() []Trouble {
	var out []Trouble
	tell := func(code string, severity Weight, agent, path, entry, hint, format string, args ...any) {
		out = append(out, Trouble{
			Code: code, Severity: severity, Agent: agent, Path: path, Entry: entry,
			Text: fmt.Sprintf(format, args...), Hint: hint, Command: "mcpx audit run --agent " + agent,
		})
	}
	home := func(agent, scope, project string) string { return x.homes[room{agent, scope, project}].Path }
	for _, record := range x.Agents {
		agent := record.Agent
		for _, m := range record.Mounts {
			s, ok := x.byID[m.Server]
			if !ok || m.Absent {
				continue
			}
			same, served := x.has(agent, m, s)
			switch {
			case same == nil && served == nil && !m.due(s):
			case same == nil && served == nil:
				tell(reasonMissing, WeightWarning, agent, home(agent, m.scope(), m.Project), m.Name, "make the plan that adds it", "the agent shall have %s and has not", s.Name)
			case served == nil && another(same, s):
				tell(driftChanged, WeightWarning, agent, same.File, m.Name, "decide which one it shall be", "the agent shall have %s under this name and has another server", s.Name)
			case served != nil && m.Tools != nil && !m.Tools.same(served.Tools):
				tell(driftFilter, WeightWarning, agent, served.File, served.Name, "put the filter of tools back into the entry", "the entry lost its filter of tools, or has another one")
			}
		}
		if record.Control != "" && len(x.hubEntries(agent)) == 0 {
			tell(reasonHubMissing, WeightWarning, agent, home(agent, scopeUser, ""), HubName, "make the plan that adds it", "the control plane was installed and is no longer in the agent's files")
		}
		for _, p := range x.removals(agent) {
			tell(p.Reasons[0], WeightWarning, agent, p.first().Path, p.Entry, "make the plan that removes it", "is an entry that the agent shall not have")
		}
	}
	for agent := range x.byAgent {
		for at, list := range x.copies(agent) {
			for _, f := range list {
				if at.project != "" && f.Project == "" {
					continue // it is not one too many elsewhere
				}
				tell(reasonDuplicate, WeightWarning, agent, f.File, f.Name, "make the plan that keeps one of them, or remove the others", "is one of %d entries that lead to %s", len(list), at.server)
			}
		}
	}
	return out
}

func (t *Tools) same(other *Tools) bool {
	if other == nil {
		other = &Tools{}
	}
	set := func(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }
	return slices.Equal(set(t.Allow), set(other.Allow)) && slices.Equal(set(t.Deny), set(other.Deny))
}

// maxGone bounds the entries of a file that are remembered after they went.
const maxGone = 50

// Records are those of all files that the world looked at, with the times that Drift told. A file without one is absent.
func Records(w World, troubles []Trouble) []FileRecord {
	before, told, entries := map[place]FileRecord{}, map[place][]Trouble{}, map[place][]Entry{}
	for _, r := range w.Records {
		before[place{r.File.Agent, r.File.Path}] = r
	}
	for _, t := range troubles {
		told[place{t.Agent, t.Path}] = append(told[place{t.Agent, t.Path}], t)
	}
	for _, f := range w.Findings {
		entries[place{f.Agent, f.File}] = append(entries[place{f.Agent, f.File}], f.Entry)
	}
	out := []FileRecord{}
	for _, f := range w.Files {
		at := place{f.Agent, f.Path}
		if previous, known := before[at]; known || f.State != FileAbsent || len(told[at]) > 0 {
			out = append(out, Record(previous, f, entries[at], told[at], w.Now))
		}
	}
	return out
}

// Record makes the record of a file out of the one before and what is there now: entries that went are remembered and
// count for nothing, and what is still wrong keeps the time at which it began. troubles may hold those of other files.
func Record(previous FileRecord, file File, entries []Entry, troubles []Trouble, now time.Time) FileRecord {
	r := FileRecord{File: file, Entries: append([]Entry{}, entries...), Seen: now}
	here := map[string]bool{}
	for _, e := range entries {
		here[spot(e.At, e.Name)] = true
	}
	for _, e := range previous.Entries {
		if !here[spot(e.At, e.Name)] {
			r.Gone = append(r.Gone, Tombstone{Name: e.Name, At: e.At, LastSeen: previous.Seen})
			here[spot(e.At, e.Name)] = true
		}
	}
	for _, g := range previous.Gone {
		if !here[spot(g.At, g.Name)] {
			r.Gone = append(r.Gone, g)
		}
	}
	r.Gone = r.Gone[:min(len(r.Gone), maxGone)]
	for _, t := range troubles {
		if t.Agent == file.Agent && t.Path == file.Path {
			r.Troubles = append(r.Troubles, TroubleSince{Code: t.Code, Entry: t.Entry, Since: t.Since})
		}
	}
	return r
}

// spot is the place of an entry in its file. A place contains the project, if it is of one.
func spot(at []string, name string) string { return strings.Join(at, "\x00") + "\x00\x00" + name }

// Same says whether two records of a file say the same but for when it was looked at: then nothing has to be told.
func (r FileRecord) Same(other FileRecord) bool {
	r.Seen, other.Seen = time.Time{}, time.Time{}
	return slices.Equal(canonical(r), canonical(other))
}
