package converge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mcpx/internal/catalog"
)

// Propose says what should be planned: one proposal for an entry, none for what is as it should be, and none where only
// a guess would help. Why there is none is told by Drift. The order of what the world lists does not matter.
func Propose(w World) []Proposal {
	x := look(w)
	out := []Proposal{}
	for agent, all := range x.byAgent {
		if !x.planned(agent) || w.Asked.Mounts {
			continue
		}
		for _, f := range all {
			if p, ok := x.entry(f); ok {
				out = append(out, p)
			}
		}
	}
	if !w.Asked.Unroute {
		out = append(out, x.mounts()...)
	}
	for i := range out {
		out[i].finish()
	}
	slices.SortFunc(out, func(a, b Proposal) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.first().Path, b.first().Path), cmp.Compare(a.Entry, b.Entry),
			cmp.Compare(a.Kind, b.Kind), slices.Compare(a.at(), b.at()), cmp.Compare(a.Server, b.Server))
	})
	return out
}

func (p *Proposal) first() Drafting {
	if len(p.Files) == 0 {
		return Drafting{}
	}
	return p.Files[0]
}

func (p *Proposal) at() []string {
	if steps := p.first().Steps; len(steps) > 0 {
		return append([]string{steps[0].Project}, steps[0].At...)
	}
	return nil
}

// finish gives every list that is shown a value, and an order that depends on nothing but its content.
func (p *Proposal) finish() {
	p.Reasons = unique(p.Reasons)
	if p.Risk.Class == "" {
		p.Risk.Class = RiskNormal
	}
	p.Risk.Reasons = slices.Sorted(slices.Values(p.Risk.Reasons))
	for _, list := range []*[]string{&p.Reasons, &p.Risk.Reasons, &p.Effects, &p.Needs, &p.Match.Reasons, &p.auto} {
		if *list == nil {
			*list = []string{}
		}
	}
	if p.Match.Candidates == nil {
		p.Match.Candidates = []catalog.Likeness{}
	}
	if p.Problems == nil {
		p.Problems = []Problem{}
	}
}

// entry proposes what becomes of one entry that is there.
func (x *view) entry(f Finding) (Proposal, bool) {
	if x.Asked.Entry != "" && f.Name != x.Asked.Entry || !x.writable(f.Agent, f.File) || f.Parse == "broken" {
		return Proposal{}, false
	}
	if x.Asked.Unroute {
		return x.unroute(f)
	}
	switch f.Class {
	case Bypass:
		return x.matched(f, f.Match.Server)
	case Ineffective:
		if f.Routed != nil {
			return x.stalePort(f)
		}
		return x.imported(f)
	case Unsafe:
		return x.unsafe(f)
	case Unknown:
		return x.imported(f)
	case Dormant:
		if x.Asked.Off && f.Routed == nil && (f.Match.Confidence == catalog.MatchHigh || f.Match.Confidence == catalog.MatchMedium) {
			return x.matched(f, f.Match.Server)
		}
	case Compliant, Broken, Unsupported, Ambiguous, NameConflict: // nothing to do, or nothing but a guess
	}
	return Proposal{}, false
}

// matched routes an entry that is a server of the catalog. A server that nobody may share keeps its direct entries.
func (x *view) matched(f Finding, server string) (Proposal, bool) {
	s, ok := x.server(server)
	if !ok || s.Sharing == catalog.ShareNone {
		return Proposal{}, false
	}
	return x.route(f, s, PlanRoute), true
}

// route leads the entry to the server through mcpx. Its name stays, whatever the server is called: tool names and the
// permissions that a person gave contain it.
func (x *view) route(f Finding, s *catalog.Server, kind PlanKind) Proposal {
	p := Proposal{Kind: kind, Agent: f.Agent, Server: s.Name, Entry: f.Name, Match: f.Match}
	p.reason(reasonBypass)
	p.reason(f.Match.Reasons...)
	raw, open := unbound(f.Entry, s)
	var moves []Move
	for _, m := range raw {
		name := m.Field[len(m.Field)-1]
		m.Credential = credentialName(s.Name, name)
		if s.File != "" { // its bindings are written there
			open = append(open, name)
			continue
		}
		if x.Known[m.Credential] { // whether it is the same value nobody can tell
			p.need(needSameValue, fmt.Sprintf("mcpx catalog review %s --bind %s=store:%s", s.Name, name, m.Credential))
			continue
		}
		moves = append(moves, m)
	}
	if len(moves) > 0 {
		p.reason(reasonMoveSecret)
		if kind == PlanRoute {
			p.Kind = PlanMoveSecret
		}
	}
	for _, name := range open {
		p.need(needBinding, bindCommand(s, name))
	}
	x.ready(&p, s, moves)
	form := x.form(&p, f.Entry, s)
	x.risk(&p, f, s, moves)
	x.layers(&p, f, form)
	p.Summary = fmt.Sprintf("%s: %s goes through mcpx", f.Agent, f.Name)
	if f.Name != s.Name {
		p.Summary += " to " + s.Name
	}
	x.set(&p, f.Entry, form, moves)
	p.auto = append(p.auto, x.autoEntry(f, s)...)
	return p
}

// editCommand is the command that changes an entry of the catalog; for one that stands in a file, the one that says where.
func editCommand(s *catalog.Server, command string) string {
	if s.File != "" {
		return "mcpx catalog show " + s.Name
	}
	return command
}

// bindCommand is the command that says where the value of a variable or header comes from.
func bindCommand(s *catalog.Server, name string) string {
	return editCommand(s, fmt.Sprintf("mcpx catalog review %s --bind %s=env:%s", s.Name, name, catalog.VariableFor(name)))
}

// set is the usual only step: the entry gets a form.
func (x *view) set(p *Proposal, e Entry, form *Form, moves []Move) {
	p.Effects = effects(e.Agent, e.Name, form, e.Scope == scopeProject, x.files[place{e.Agent, e.File}].Shared)
	if form == nil {
		return
	}
	for _, m := range moves {
		p.Effects = append(p.Effects, fmt.Sprintf("the value of %s goes into the encrypted store as %s, and %s gets it from there, whoever uses it",
			strings.Join(m.Field, "."), m.Credential, form.Server))
	}
	p.Files = []Drafting{{Agent: e.Agent, Path: e.File, Steps: []Step{{Op: StepSet, At: e.At, Name: e.Name, Project: e.Project, Want: form, Moves: moves}}}}
}

// ready names what the catalog lacks before anything may be led to the server, beside what the plan moves.
func (x *view) ready(p *Proposal, s *catalog.Server, moves []Move) {
	for _, reason := range catalog.NotRoutable(*s) {
		code, name, _ := strings.Cut(reason, ":")
		switch code {
		case catalog.BindingUnresolved:
			if slices.ContainsFunc(moves, func(m Move) bool { return strings.EqualFold(m.Field[len(m.Field)-1], name) }) {
				continue // the apply binds it
			}
			p.need(needBinding, bindCommand(s, name))
		case catalog.SwitchedOff:
			p.need(needRoutable, "mcpx server enable "+s.Name)
		case catalog.ToolsChanged:
			p.need(needRoutable, "mcpx catalog review "+s.Name+" --tools")
		case catalog.NotReviewed, catalog.ReviewSaidNo:
			p.need(needRoutable, "mcpx catalog review "+s.Name+" --approve")
		default: // the entry itself has to be corrected
			p.need(needRoutable, "mcpx server show "+s.Name)
		}
	}
	if s.Lifecycle == catalog.Deprecated {
		p.problem(problemDeprecated, "the server is deprecated: what uses it goes on, and nothing new is led to it")
	}
}

// form picks between the URL of the gateway and mcpx as a program, governance.md section 2.3. nil: neither can be written.
func (x *view) form(p *Proposal, e Entry, s *catalog.Server) *Form {
	bound, here := workspaceBound(e, s)
	if bound {
		p.reason(formWorkspace)
	}
	if here && s.Sharing != catalog.ShareWorkspace {
		p.need(needWorkspace, editCommand(s, "mcpx server edit "+s.Name+" --sharing workspace"))
	}
	var pass []string
	if s.Stdio != nil {
		pass = slices.Sorted(slices.Values(s.Stdio.EnvPass))
	}
	if len(pass) > 0 {
		p.reason(formPassed)
	}
	if s.Sharing == catalog.ShareAgent {
		p.reason(formAgent)
	}
	if x.Token {
		p.reason(formToken)
	}
	if !bound && len(pass) == 0 && s.Sharing != catalog.ShareAgent && s.Sharing != catalog.ShareWorkspace && !x.Token {
		if x.Port == "" {
			p.problem(problemNoListener, "mcpx listens on no port, so there is no URL to write")
			return nil
		}
		return x.http(s.Name)
	}
	if x.Program == "" {
		p.problem(problemProgram, "the path of mcpx is not known, so no command can be written")
		return nil
	}
	form := x.bridge(e.Agent, s.Name, pass)
	form.Cwd = e.Cwd
	form.Keep = nil
	for _, name := range pass {
		if slices.Contains(e.Variables, name) {
			form.Keep = append(form.Keep, name)
		}
	}
	return form
}

// unbound lists what the entry gives its server and the catalog does not: raw values that can move to the store, and
// names that somebody has to bind. In either case the server would start without them.
func unbound(e Entry, s *catalog.Server) (moves []Move, open []string) {
	bound := map[string]bool{}
	if s.Stdio != nil {
		for name, b := range s.Stdio.Env {
			bound["env "+name] = !b.Unresolved
		}
		for _, name := range s.Stdio.EnvPass {
			bound["env "+name] = true
		}
	} else if s.HTTP != nil {
		for name, b := range s.HTTP.Headers {
			bound["header "+strings.ToLower(name)] = !b.Unresolved
		}
	}
	secret := func(name string) []string {
		for _, p := range e.Problems {
			if container, ok := strings.CutSuffix(p.Field, "."+name); ok && p.Code == reasonMoveSecret {
				return append(strings.Split(container, "."), name)
			}
		}
		return nil
	}
	check := func(key, name string) {
		if bound[key] {
			return
		}
		if field := secret(name); field != nil {
			moves = append(moves, Move{Field: field})
			return
		}
		open = append(open, name)
	}
	for _, name := range slices.Sorted(slices.Values(e.Variables)) {
		check("env "+name, name)
	}
	for _, name := range slices.Sorted(slices.Values(e.Headers)) {
		check("header "+strings.ToLower(name), name)
	}
	return moves, open
}

// credentialName is what a value is called in the store: GITHUB_TOKEN of github is github-token.
func credentialName(server, name string) string {
	base := strings.ToLower(catalog.SafeName(strings.ReplaceAll(name, "_", "-")))
	prefix := strings.ToLower(server)
	if base == prefix || strings.HasPrefix(base, prefix+"-") {
		return base
	}
	return prefix + "-" + base
}

// risk raises the class for everything that the new form does not carry over by itself.
func (x *view) risk(p *Proposal, f Finding, s *catalog.Server, moves []Move) {
	p.raise(len(f.Variables) > 0, riskVariables)
	p.raise(len(f.Headers) > 0, riskHeaders)
	p.raise(f.Cwd != "", riskCwd)
	p.raise(len(f.Extra) > 0 || f.Parse == "extra", riskExtra)
	p.raise(x.files[place{f.Agent, f.File}].Shared, riskShared)
	p.raise(len(moves) > 0 && p.Match.Confidence == catalog.MatchMedium, riskEveryone)
	p.raise(len(moves) > 0 || f.Facts.Hidden || slices.ContainsFunc(f.Problems, func(p Problem) bool { return p.Code == reasonMoveSecret }), riskSecret)
	p.raise(slices.ContainsFunc(f.Problems, func(p Problem) bool { return p.Code == reasonIneffective }), riskField)
	p.raise(s.Risk == catalog.RiskHigh, riskServer)
}

// layers refuses an entry that the agent makes of several files: in one agent a URL over a command stops the start, in
// another the headers of one layer travel to the URL of the other.
func (x *view) layers(p *Proposal, f Finding, form *Form) {
	if !f.Facts.Layered {
		return
	}
	for _, other := range x.byEntry[named{f.Agent, f.Name}] {
		apart := f.Project != "" && other.Project != "" && f.Project != other.Project
		if other.File != f.File && !apart && len(other.Headers) > 0 && form != nil && form.Kind == FormHTTP {
			p.problem(problemHeaderLeak, "headers of "+other.File+" would be sent to mcpx")
			return
		}
	}
	p.problem(problemLayers, "the agent makes one entry of this one and of those with the same name in other files: change them by hand")
}

// imported routes an entry that is not in the catalog yet. It is offered when its candidate was promoted, and then by
// another plan, since the catalog has changed: this one shows where it leads.
func (x *view) imported(f Finding) (Proposal, bool) {
	staged, ok := x.Staged[f.ID]
	if f.ID == "" || !ok || staged.Rejected || f.Routed != nil || f.Match.Confidence != catalog.MatchNone {
		return Proposal{}, false
	}
	s := catalog.Server{Name: staged.Name, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled}
	switch {
	case f.URL != "":
		s.HTTP = &catalog.HTTP{URL: f.URL}
	case f.Command != "":
		s.Stdio = &catalog.Stdio{Command: f.Command, Args: f.Args}
	default:
		return Proposal{}, false
	}
	p := Proposal{Kind: PlanImport, Agent: f.Agent, Server: s.Name, Entry: f.Name, Match: f.Match}
	p.Summary = fmt.Sprintf("%s: %s becomes a server of the catalog and goes through mcpx", f.Agent, f.Name)
	p.reason(reasonNotCataloged)
	p.raise(true, riskNew)
	form := x.form(&p, f.Entry, &s)
	p.Needs = nil // what else it needs depends on what the person makes of it
	commands, guessed := reviewCommands(f, staged)
	for _, command := range commands {
		p.need(needReview, command)
	}
	x.risk(&p, f, &s, nil)
	x.layers(&p, f, form)
	x.set(&p, f.Entry, form, nil)
	if guessed {
		p.Effects = append(p.Effects, effectGuessed)
	}
	return p, true
}

// effectGuessed is what a person has to know of the commands of KeepOut.
const effectGuessed = "the name of the variable is a guess: look up from which one the server takes its secret; one that takes it as an argument only stays where it is"

// reviewCommand is how a person takes a candidate into the catalog. One with a hidden part cannot be promoted: looking at
// it tells what to do instead.
func reviewCommand(f Finding, staged Staged) string {
	if f.Facts.Hidden {
		return "mcpx catalog candidates " + staged.ID
	}
	return "mcpx catalog review " + staged.ID + " --promote"
}

// reviewCommands is reviewCommand, or the commands that add the server without its hidden part.
func reviewCommands(f Finding, staged Staged) (commands []string, guessed bool) {
	if f.Facts.Hidden {
		commands, guessed = KeepOut(staged.Name, staged.ID, catalog.Shape{Command: f.Command, Args: f.Args, Cwd: f.Cwd})
	}
	if len(commands) == 0 {
		commands = []string{reviewCommand(f, staged)}
	}
	return commands, guessed
}
