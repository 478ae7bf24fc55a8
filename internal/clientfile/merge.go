package clientfile

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

// merging joins what a receipt did to entries, taken back, with what others did to the same entries since.
type merging struct {
	ops       []op
	conflicts []*clash
	unknown   bool // what the receipt left there is not known any more
}

// clash is one place that both have changed. nil: nothing is there.
type clash struct {
	at                   []string
	before, applied, now *node
}

// join goes three ways over what the receipt left: where others changed nothing the old value comes back, and where the
// receipt changed nothing theirs stays. Objects are joined member by member; lists are one value, since what an item
// means may depend on the others.
func (m *merging) join(at []string, before, applied, now *node) {
	switch {
	case sameValue(applied, before), sameValue(before, now):
	case isObject(before) && isObject(applied) && isObject(now):
		for _, name := range memberNames(*now, *before, *applied) {
			m.join(join(at, []string{name}), memberOf(*before, name), memberOf(*applied, name), memberOf(*now, name))
		}
	case sameValue(applied, now):
		m.ops = append(m.ops, op{at: at, value: before})
	default:
		m.conflict(at, before, applied, now)
	}
}

func (m *merging) conflict(at []string, before, applied, now *node) {
	m.conflicts = append(m.conflicts, &clash{at, before, applied, now})
}

func sameValue(a, b *node) bool { return a == b || a != nil && b != nil && same(*a, *b) }

func isObject(n *node) bool { return n != nil && n.kind == object }

// memberOf is a member, nil when there is none. One that says null is one.
func memberOf(n node, name string) *node {
	if !n.has(name) {
		return nil
	}
	v := n.get(name)
	return &v
}

// memberNames are the names of several objects, each once, in the order in which they stand there.
func memberNames(all ...node) []string {
	var names []string
	known := map[string]bool{}
	for _, n := range all {
		for _, f := range n.fields {
			if !known[f.name] {
				known[f.name] = true
				names = append(names, f.name)
			}
		}
	}
	return names
}

// failed is the refusal when something would have to be guessed.
func (m *merging) failed(path string) error {
	if len(m.conflicts) == 0 {
		return nil
	}
	why := "what mcpx wrote there was changed since"
	if m.unknown {
		why = "what mcpx wrote there cannot be told any more, and it was changed since"
	}
	places := "1 place"
	if n := len(m.conflicts); n > 1 {
		places = strconv.Itoa(n) + " places"
	}
	return mergeConflict("%s: %s cannot be joined: %s", path, places, why).Because(m.told(path))
}

func mergeConflict(format string, args ...any) *fault.Error {
	return fault.New(fault.Conflict, "merge-conflict").Saying(format, args...).
		Hinting("make each place what it was before or what was applied, then roll back with --merge again").Retrying(fault.AfterFix)
}

// cannotMerge says why nothing can be joined in the whole file.
func (w *drafting) cannotMerge(r *converge.Written) *fault.Error {
	switch {
	case !w.exists:
		return mergeConflict("%s is gone: what was written since cannot be told from what mcpx wrote", w.d.Path)
	case r.After.Absent:
		return mergeConflict("mcpx removed %s, and somebody made it again", w.d.Path)
	}
	return mergeConflict("%s was changed since, and only entries of agents can be joined", w.d.Path)
}

// told shows the conflicts without secrets.
func (m *merging) told(path string) converge.Conflicts {
	all := make(converge.Conflicts, 0, len(m.conflicts))
	var hidden []mask
	show := func(at []string, n *node) string {
		if n == nil {
			return ""
		}
		shown := veiled(*n, at, nil, &hidden)
		var b bytes.Buffer
		plainStyle.render(&b, shown, "", false)
		return b.String()
	}
	for _, c := range m.conflicts {
		all = append(all, converge.Conflict{Path: path, At: c.at, Before: show(c.at, c.before), Applied: show(c.at, c.applied), Now: show(c.at, c.now)})
	}
	for i := range all {
		for _, text := range []*string{&all[i].Before, &all[i].Applied, &all[i].Now} {
			*text = cutText(scrub(*text, hidden))
		}
	}
	return all
}

// veiled is a value in which nothing is left that must not be shown. What was hidden is looked for in other values, too.
func veiled(n node, at []string, texts []string, hidden *[]mask) node {
	switch n.kind {
	case object:
		fields := make([]field, 0, len(n.fields))
		for _, f := range n.fields {
			fields = append(fields, field{name: f.name, value: veiled(f.value, join(at, []string{f.name}), nil, hidden)})
		}
		n.fields = fields
	case list:
		all, _ := n.texts()
		items := make([]node, 0, len(n.items))
		for i, item := range n.items {
			items = append(items, veiled(item, join(at, []string{strconv.Itoa(i)}), all, hidden))
		}
		n.items = items
	case text, number:
		l := literal{at: at, value: n.text, list: texts}
		if instead, hide := l.hidden(); hide {
			*hidden = append(*hidden, mask{text: instead, secret: l.secret()})
			return textNode(instead)
		}
	case absent, boolean:
	}
	return n
}

// longestConflict bounds one value of a conflict, in bytes: it is there to be compared on a screen.
const longestConflict = 400

func cutText(s string) string {
	if len(s) <= longestConflict {
		return s
	}
	end := longestConflict
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s... (%d bytes more)", s[:end], len(s)-end)
}
