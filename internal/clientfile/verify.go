package clientfile

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

// verify reads the result as the agent would, and refuses one that is not exactly what the steps ask for, or that the
// agent could not work with. It gives the document.
func (w *drafting) verify(spans []span, result []byte) (node, error) {
	if err := checkBytes(result); err != nil {
		return node{}, err
	}
	after, err := w.dialect.parse(result)
	if err != nil {
		return node{}, failed("the agent could not read the result")
	}
	if !same(after, applied(w.root, w.ops)) {
		return node{}, failed("more or less than the entry would change")
	}
	if !bytes.Equal(applySpans(result, inverse(w.data, spans)), w.data) {
		return node{}, failed("the change could not be taken back")
	}
	if again, err := w.dialect.splice(result, w.ops); err != nil || len(again) > 0 && !w.renumbered() {
		return node{}, failed("the change would not be complete")
	}
	o := w.observed(after, result)
	if p := refused(o); p != nil {
		return node{}, fault.New(fault.Conflict, "would-break").Saying("the agent would refuse the file: %s (%s)", p.Field, p.Text).
			Hinting("change the entry in the agent itself")
	}
	if err := w.wanted(after, o.Entries); err != nil {
		return node{}, err
	}
	return after, w.layers(result)
}

func failed(why string) *fault.Error {
	return fault.New(fault.Internal, "verify-failed").Saying("the change is not offered: %s", why).
		Hinting("change the entry in the agent itself, and report this with the output of `mcpx config inspect`")
}

// inverse are the spans of the new bytes that give the old ones.
func inverse(data []byte, spans []span) []span {
	out := make([]span, 0, len(spans))
	moved := 0
	for _, s := range spans {
		start := s.start + moved
		out = append(out, span{start: start, end: start + len(s.text), kind: spanReplace, text: data[s.start:s.end]})
		moved += len(s.text) - (s.end - s.start)
	}
	return out
}

// renumbered says whether an operation changes the numbers in a list, so that doing it twice is something else.
func (w *drafting) renumbered() bool {
	return slices.ContainsFunc(w.ops, func(o op) bool {
		up := lookup(w.root, o.at[:len(o.at)-1])
		return up.kind == list && (o.value == nil || lookup(w.root, o.at).kind == absent)
	})
}

// wanted looks at the entries as the agent understands them now.
func (w *drafting) wanted(after node, entries []Entry) error {
	for _, t := range w.touched {
		if t.gone {
			continue
		}
		i := slices.IndexFunc(entries, func(e Entry) bool { return slices.Equal(e.At, t.at) })
		if i < 0 || lookup(after, t.at).kind != object {
			return failed("the agent would not see the entry")
		}
		e := entries[i]
		if e.Parse == Broken {
			return fault.New(fault.Conflict, "would-break").Saying("the agent could not use the entry %q: %s %s", e.Name, e.Problems[0].Code, e.Problems[0].Field).
				Hinting("change the entry in the agent itself")
		}
		if t.step.Op == converge.StepSet && !e.has(*t.step.Want) {
			return failed("the agent would understand the entry as something else")
		}
	}
	return nil
}

// has says whether the entry, as its agent understands it, is what a form asks for.
func (e Entry) has(f converge.Form) bool {
	if e.def == nil {
		return false
	}
	switch f.Kind {
	case converge.FormHTTP:
		return e.def.transport == HTTP && e.def.url == f.URL
	case converge.FormBridge:
		name, ok := bridged(e.def.command, e.def.args)
		return e.def.transport == Stdio && ok && name == f.Server
	case converge.FormDirect:
		if f.URL != "" {
			return e.def.url == f.URL && (e.def.transport == HTTP || e.def.transport == SSE)
		}
		return e.def.transport == Stdio && e.def.command == f.Command && slices.Equal(e.def.args, f.Args)
	}
	return false
}

// maxProjects bounds the projects that are looked into: people trust some dozens.
const maxProjects = 50

// layers compares the entries that count before and after the change, in every project that is known.
func (w *drafting) layers(result []byte) error {
	if !w.dialect.merges {
		return nil // an entry counts whole or not at all
	}
	systems := []System{w.system}
	for _, p := range w.projects() {
		s := w.system
		s.Project = p
		systems = append(systems, s)
	}
	for _, s := range systems {
		before := s.observe(w.hub, w.agent, map[string]content{w.d.Path: {w.data, w.exists}})
		after := s.observe(w.hub, w.agent, map[string]content{w.d.Path: {result, true}})
		for _, t := range w.touched {
			name := t.step.Name
			if name == "" {
				name = t.at[len(t.at)-1]
			}
			old, now := s.counting(w.agent, before, w.hub, name), s.counting(w.agent, after, w.hub, name)
			if now.Parse == Broken && old.Parse != Broken {
				return fault.New(fault.Conflict, "layer-conflict").
					Saying("another file of %s has an entry %q too, and together they could not be read%s", w.agent.Title(), name, in(s.Project)).
					Hinting("change or remove the other entry first: `mcpx config inspect` shows where it is")
			}
			if s.leaks(w.agent, after, name) && (old.def == nil || now.def == nil || old.def.url != now.def.url) {
				return fault.New(fault.Conflict, "header-leak-by-merge").
					Saying("headers of another file of %s would be sent to the URL of %q%s", w.agent.Title(), name, in(s.Project)).
					Hinting("remove the headers there first: `mcpx config inspect` shows where they are")
			}
		}
	}
	return nil
}

func in(project string) string {
	if project == "" {
		return ""
	}
	return fmt.Sprintf(" in %s", project)
}

// projects are those that the agent itself keeps a record of. Only Codex has one and merges files.
func (w *drafting) projects() []string {
	if w.agent != Codex {
		return nil
	}
	s := w.system
	s.Project = s.Home // the record of trust is read for a project only
	all := slices.DeleteFunc(slices.Clone(s.trust().folders[Codex]), func(p string) bool { return p == w.system.Project })
	return all[:min(len(all), maxProjects)]
}

// counting is the entry of a name that counts; the zero one when there is none.
func (s System) counting(a Agent, all []Observed, hub Hub, name string) Entry {
	for _, e := range s.effective(a, all, hub) {
		if e.Name == name {
			return e
		}
	}
	return Entry{}
}

// leaks says whether the URL of an entry comes from one file, and something that authenticates from another.
func (s System) leaks(a Agent, all []Observed, name string) bool {
	var entries []Entry
	for _, o := range all {
		for _, e := range o.Entries {
			if e.Name == name && !hasGate(e) && e.value != nil {
				e.Scope = cmp.Or(e.Scope, o.File.Scope)
				entries = append(entries, e)
			}
		}
	}
	slices.SortStableFunc(entries, func(x, y Entry) int { return cmp.Compare(x.Scope.rank(), y.Scope.rank()) })
	sp := spellings[a]
	secret := slices.DeleteFunc(append([]string{sp.headers[0], sp.bearer, sp.helper}, sp.otherAuth...), func(f string) bool { return f == "" })
	at := -1
	for i, e := range entries {
		if e.value.get("url").kind == text {
			at = i
		}
	}
	if at < 0 {
		return false
	}
	for i, e := range entries {
		if i != at && slices.ContainsFunc(secret, func(f string) bool {
			n := e.value.get(f)
			return n.kind == text || len(n.fields) > 0
		}) {
			return true
		}
	}
	return false
}
