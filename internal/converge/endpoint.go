package converge

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"mcpx/internal/catalog"
)

// stalePort corrects the port of an entry that once led here.
func (x *view) stalePort(f Finding) (Proposal, bool) {
	if f.Routed.State != RoutedStalePort {
		return Proposal{}, false
	}
	p := Proposal{Kind: PlanFixEndpoint, Agent: f.Agent, Server: f.Match.Server, Entry: f.Name, Match: f.Match}
	p.reason(reasonStalePort)
	p.Summary = fmt.Sprintf("%s: %s gets the port on which mcpx listens", f.Agent, f.Name)
	var form *Form
	if f.Routed.Server == HubName {
		strategy := x.records[f.Agent].Control
		if strategy == "" {
			return Proposal{}, false // nobody installed it, so nobody said how it gets its token
		}
		p.Server = HubName
		form = x.hubForm(&p, f.Agent, strategy)
	} else {
		s, ok := x.server(f.Match.Server)
		if !ok {
			return Proposal{}, false
		}
		x.ready(&p, s, nil)
		form = x.form(&p, f.Entry, s)
		p.raise(len(f.Extra) > 0, riskExtra)
		p.raise(x.files[place{f.Agent, f.File}].Shared, riskShared)
	}
	x.layers(&p, f, form)
	x.set(&p, f.Entry, form, nil)
	return p, true
}

// unsafe cures what a change of the entry can cure: the server of the catalog in its place, or https. A file that
// everybody may write is not made safe by writing it.
func (x *view) unsafe(f Finding) (Proposal, bool) {
	if f.Routed != nil || f.Facts.FileWritable || f.Facts.ProgramWritable {
		return Proposal{}, false
	}
	if s, ok := x.server(f.Match.Server); ok && s.Sharing != catalog.ShareNone && (s.HTTP == nil || !plainHTTP(s.HTTP.URL)) &&
		(f.Match.Confidence == catalog.MatchHigh || f.Match.Confidence == catalog.MatchMedium) {
		p := x.route(f, s, PlanFixEndpoint)
		p.reason(unsafe(f.Entry)...)
		p.raise(true, riskEndpoint)
		return p, true
	}
	if !slices.Contains(f.Reasons, reasonPlainHTTP) || f.Transport != "http" && f.Transport != "sse" || f.Facts.Hidden || f.Facts.URLCredentials || catalog.HasTemplate(f.URL) {
		return Proposal{}, false
	}
	u, err := url.Parse(f.URL)
	if err != nil || u.Port() != "" && u.Port() != "80" || u.Scheme != "http" { // https of another port would be a guess
		return Proposal{}, false
	}
	u.Scheme, u.Host = "https", strings.TrimSuffix(u.Host, ":80")
	p := Proposal{Kind: PlanFixEndpoint, Agent: f.Agent, Entry: f.Name, Match: f.Match}
	p.reason(reasonPlainHTTP)
	p.raise(true, riskEndpoint)
	p.raise(x.files[place{f.Agent, f.File}].Shared, riskShared)
	p.Summary = fmt.Sprintf("%s: %s uses https", f.Agent, f.Name)
	x.layers(&p, f, nil)
	p.Effects = effects(f.Agent, f.Name, nil, f.Scope == scopeProject, x.files[place{f.Agent, f.File}].Shared)
	p.Files = []Drafting{{Agent: f.Agent, Path: f.File, Steps: []Step{{
		Op: StepRef, At: f.At, Name: f.Name, Project: f.Project, Moves: []Move{{Field: []string{urlField}, Put: u.String()}},
	}}}}
	return p, true
}

// urlField is the URL of an entry, however its agent calls that field.
const urlField = "url"

// unroute leads a routed entry back to the server itself, as the catalog has it: leaving mcpx is always possible.
func (x *view) unroute(f Finding) (Proposal, bool) {
	if f.Routed == nil || f.Routed.State == RoutedForeign || f.Routed.State == RoutedUnknown || f.Routed.Server == HubName {
		return Proposal{}, false
	}
	s, ok := x.server(f.Routed.Server)
	if !ok {
		return Proposal{}, false
	}
	p := Proposal{Kind: PlanUnroute, Agent: f.Agent, Server: s.Name, Entry: f.Name, Match: f.Match}
	p.reason(reasonAskedFor)
	p.Summary = fmt.Sprintf("%s: %s reaches its server itself, without mcpx", f.Agent, f.Name)
	p.raise(len(f.Extra) > 0 || f.Parse == "extra", riskExtra)
	p.raise(x.files[place{f.Agent, f.File}].Shared, riskShared)
	form := direct(&p, f.Entry, s)
	x.layers(&p, f, form)
	x.set(&p, f.Entry, form, nil)
	p.Effects = append(p.Effects, "from then on each agent that has it runs a server of its own")
	return p, true
}

// direct is the server itself. A value that only mcpx can get cannot be written down for the agent: who leaves has to
// put it there.
func direct(p *Proposal, e Entry, s *catalog.Server) *Form {
	h := habits[e.Agent]
	form := &Form{Kind: FormDirect, Server: s.Name}
	spell := func(names map[string]catalog.Binding, syntax string, child bool) map[string]string {
		var out map[string]string
		for _, name := range slices.Sorted(maps.Keys(names)) {
			value, ok := spelled(names[name], syntax)
			if !ok && child && h.inherits && names[name].Ref == "env:"+name {
				continue // the agent hands it on by itself
			}
			if !ok {
				p.problem(problemUnroute, "the value of "+name+" comes from where only mcpx looks: bind it to env:NAME for an agent that knows references, or write the entry by hand")
				continue
			}
			if out == nil {
				out = map[string]string{}
			}
			out[name] = value
		}
		return out
	}
	switch {
	case s.Stdio != nil:
		form.Command, form.Args, form.Cwd = s.Stdio.Command, s.Stdio.Args, s.Stdio.Cwd
		form.Env = spell(s.Stdio.Env, h.value, true)
		for _, name := range slices.Sorted(slices.Values(s.Stdio.EnvPass)) {
			if slices.Contains(e.Variables, name) {
				form.Keep = append(form.Keep, name)
			}
		}
	case s.HTTP != nil:
		form.URL, form.SSE = s.HTTP.URL, s.HTTP.Transport == catalog.TransportSSE
		headers := maps.Clone(s.HTTP.Headers)
		if variable, ok := bearer(headers["Authorization"]); ok && h.bearer {
			form.Bearer = variable
			delete(headers, "Authorization")
		}
		form.Headers = spell(headers, h.header, false)
	}
	return form
}

// spelled writes a binding in the syntax of an agent.
func spelled(b catalog.Binding, syntax string) (string, bool) {
	ok := !b.Unresolved
	value, err := b.Value(func(ref string) (string, error) {
		name, env := strings.CutPrefix(ref, "env:")
		ok = ok && env && syntax != ""
		if !ok {
			return "", nil
		}
		return fmt.Sprintf(syntax, name), nil
	})
	return value, ok && err == nil
}

// bearer is the variable of a header that is a bearer token and nothing else.
func bearer(b catalog.Binding) (string, bool) {
	rest, ok := strings.CutPrefix(b.Template, "Bearer {env:")
	name, closed := strings.CutSuffix(rest, "}")
	return name, ok && closed && name != "" && !strings.ContainsAny(name, "{}")
}
