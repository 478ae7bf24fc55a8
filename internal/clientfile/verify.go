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
func (w *drafting) verify(spans []span) (document, error) {
	result := applySpans(w.data, spans)
	if err := checkBytes(result); err != nil {
		return document{}, err
	}
	after, err := w.after(result, spans)
	if err != nil {
		return document{}, failed("the agent could not read the result")
	}
	old, now, ops := w.doc.root, after, w.ops
	if p := after.patch; p != nil {
		old, now, ops = p.around(p.was), p.now, p.within(w.ops)
	}
	if !same(now.root, applied(old, ops)) {
		return document{}, failed("more or less than the entry would change")
	}
	if !takesBack(result, spans, w.data) {
		return document{}, failed("the change could not be taken back")
	}
	if again, err := now.spliceWhole(ops); err != nil || len(again) > 0 && !w.renumbered() {
		return document{}, failed("the change would not be complete")
	}
	listed, concerned := w.listing(after), w.concerned
	if w.refused(w.hub) != nil { // the others say the same as before, and one of them was a reason
		listed, concerned = w.dialect.list(after.whole()), nil
	}
	var o Observed
	o.read(w.location, after, listed, w.hub, concerned)
	if p := refusal(o); p != nil {
		return document{}, fault.New(fault.Conflict, "would-break").Saying("the agent would refuse the file: %s (%s)", p.Field, p.Text).
			Hinting("change the entry in the agent itself")
	}
	if err := w.wanted(after, o.Entries); err != nil {
		return document{}, err
	}
	return after, w.layers(after, listed)
}

// listing finds in the document behind the change at least the entries with the names of touched ones. Where only the
// object of one that was there has changed, the others need not be looked through again.
func (w *drafting) listing(after document) listing {
	p := after.patch
	if p == nil || len(w.touched) != 1 || !hasPrefix(p.at, w.touched[0].at) {
		return w.dialect.list(after.whole())
	}
	now := w.namesakes()
	i := slices.IndexFunc(now.entries, w.concerned)
	if i < 0 {
		return w.dialect.list(after.whole())
	}
	now.entries[i].value = after.value(now.entries[i].at)
	return now
}

// after reads the result. What is going to be written is read whole, whatever is known of its parts.
func (w *drafting) after(result []byte, spans []span) (document, error) {
	if w.thorough {
		return w.dialect.document(result)
	}
	return w.doc.after(result, spans, w.ops)
}

// concerned says whether a step is about an entry.
func (w *drafting) concerned(f found) bool {
	return slices.ContainsFunc(w.touched, func(t touched) bool { return slices.Equal(t.at, f.at) })
}

func failed(why string) *fault.Error {
	return fault.New(fault.Internal, "verify-failed").Saying("the change is not offered: %s", why).
		Hinting("change the entry in the agent itself, and report this with the output of `mcpx config inspect`")
}

// takesBack says whether a result differs from the old bytes by the spans and nothing else.
func takesBack(result []byte, spans []span, old []byte) bool {
	at := 0 // in the old bytes; what is behind it is not compared yet
	for _, s := range spans {
		rest, ok := bytes.CutPrefix(result, old[at:s.start])
		if !ok {
			return false
		}
		if result, ok = bytes.CutPrefix(rest, s.text); !ok {
			return false
		}
		at = s.end
	}
	return bytes.Equal(result, old[at:])
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
		up := lookup(w.doc.root, o.at[:len(o.at)-1])
		return up.kind == list && (o.value == nil || lookup(w.doc.root, o.at).kind == absent)
	})
}

// wanted looks at the entries as the agent understands them now.
func (w *drafting) wanted(after document, entries []Entry) error {
	for _, t := range w.touched {
		if t.gone {
			continue
		}
		i := slices.IndexFunc(entries, func(e Entry) bool { return slices.Equal(e.At, t.at) })
		if i < 0 || after.value(t.at).kind != object {
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
		name, ok := Hub{Program: f.Command}.bridged(e.def.command, e.def.args)
		return e.def.transport == Stdio && ok && name == f.Server
	case converge.FormDirect:
		if f.URL != "" {
			return e.def.url == f.URL && (e.def.transport == HTTP || e.def.transport == SSE)
		}
		return e.def.transport == Stdio && e.def.command == f.Command && slices.Equal(e.def.args, f.Args)
	}
	return false
}

// layers compares the entries that count before and after the change, in every project that is known.
func (w *drafting) layers(after document, listed listing) error {
	if !w.dialect.merges {
		return nil // an entry counts whole or not at all
	}
	reads := func(doc document, listed listing) func(Location) Observed {
		return func(l Location) Observed {
			o := Observed{Agent: l.Agent, File: l.File}
			o.read(l, doc, listed, w.hub, func(f found) bool { return w.names(f.name) })
			return o
		}
	}
	var was func(Location) Observed
	if w.exists {
		was = reads(w.doc, w.namesakes())
	}
	for _, project := range append([]string{w.system.Project}, w.projects(w.agent)...) {
		s, all := w.layersOf(w.agent, project)
		before, behind := all.with(w.d.Path, was, w.names), all.with(w.d.Path, reads(after, listed), w.names)
		for _, t := range w.touched {
			name := t.name()
			old, now := s.counting(w.agent, before, w.hub, name), s.counting(w.agent, behind, w.hub, name)
			if now.Parse == Broken && old.Parse != Broken {
				return fault.New(fault.Conflict, "layer-conflict").
					Saying("another file of %s has an entry %q too, and together they could not be read%s", w.agent.Title(), name, in(s.Project)).
					Hinting("change or remove the other entry first: `mcpx config inspect` shows where it is")
			}
			if s.leaks(w.agent, behind, name) && (old.def == nil || now.def == nil || old.def.url != now.def.url) {
				return fault.New(fault.Conflict, "header-leak-by-merge").
					Saying("headers of another file of %s would be sent to the URL of %q%s", w.agent.Title(), name, in(s.Project)).
					Hinting("remove the headers there first: `mcpx config inspect` shows where they are")
			}
		}
	}
	return nil
}

// namesakes are the entries of the file with the names of touched ones.
func (w *drafting) namesakes() listing {
	l := w.listed
	l.entries = nil
	for i, t := range w.touched {
		if slices.ContainsFunc(w.touched[:i], func(earlier touched) bool { return earlier.name() == t.name() }) {
			continue
		}
		for _, at := range w.called(t.name()) {
			l.entries = append(l.entries, w.listed.entries[at])
		}
	}
	return l
}

// names says whether an entry of a name is touched.
func (w *drafting) names(name string) bool {
	return slices.ContainsFunc(w.touched, func(t touched) bool { return t.name() == name })
}

func (t touched) name() string { return cmp.Or(t.step.Name, t.at[len(t.at)-1]) }

func in(project string) string {
	if project == "" {
		return ""
	}
	return fmt.Sprintf(" in %s", project)
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
