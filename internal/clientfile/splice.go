package clientfile

import (
	"slices"
	"strconv"
)

// op changes one member of a document.
type op struct {
	at    []string // names from the root; in a list the number as text
	value *node    // nil: the member goes. Else it gets this value; one that is absent is inserted last, missing containers are made
}

// span is one replaced range of the old bytes.
type span struct {
	start, end int
	kind       string // replace, insert or remove
	text       []byte
}

// The kinds of spans, as converge.Edit tells them.
const (
	spanReplace = "replace"
	spanInsert  = "insert"
	spanRemove  = "remove"
)

// applySpans gives the document with the spans replaced.
func applySpans(data []byte, spans []span) []byte {
	size := len(data)
	for _, s := range spans {
		size += len(s.text) - (s.end - s.start)
	}
	out := make([]byte, 0, size)
	at := 0
	for _, s := range spans {
		out = append(append(out, data[at:s.start]...), s.text...)
		at = s.end
	}
	return append(out, data[at:]...)
}

// ordered sorts spans by their place in the file; spans of the same place keep their order.
func ordered(spans []span) []span {
	slices.SortStableFunc(spans, func(a, b span) int { return a.start - b.start })
	return spans
}

// applied is the document that the operations ask for. Where they cannot be made it is the old one.
func applied(root node, ops []op) node {
	t, err := planOps(ops)
	if err != nil {
		return root
	}
	return t.apply(root)
}

func (t *todo) apply(n node) node {
	switch {
	case t.value != nil:
		return *t.value
	case n.kind == absent:
		if made := t.node(); made.kind != absent {
			return made
		}
		return n
	case n.kind == list:
		return t.applyList(n)
	}
	out := n
	out.fields = slices.Clone(n.fields)
	for _, m := range t.below {
		old := n.get(m.name)
		known := slices.ContainsFunc(n.fields, func(f field) bool { return f.name == m.name })
		now := m.todo.apply(old)
		drop := m.todo.remove && m.todo.value == nil
		if drop || !known && now.kind == absent && m.todo.value == nil {
			out.fields = slices.DeleteFunc(out.fields, func(f field) bool { return f.name == m.name })
			continue
		}
		if !known {
			out.fields = append(out.fields, field{name: m.name, value: now})
			continue
		}
		for i, f := range slices.Backward(out.fields) {
			if f.name == m.name {
				out.fields[i].value = now
				break
			}
		}
	}
	return out
}

func (t *todo) applyList(n node) node {
	out := n
	out.items = nil
	for i, item := range n.items {
		at := slices.IndexFunc(t.below, func(m todoMember) bool { return m.name == strconv.Itoa(i) })
		if at < 0 {
			out.items = append(out.items, item)
		} else if m := t.below[at].todo; m.value != nil || !m.remove {
			out.items = append(out.items, m.apply(item))
		}
	}
	for _, m := range t.below { // what is beyond the end is appended
		if i, err := strconv.Atoi(m.name); err == nil && i >= 0 && i < len(n.items) {
			continue
		}
		if made := m.todo.node(); made.kind != absent || m.todo.value != nil {
			out.items = append(out.items, made)
		}
	}
	return out
}

// child is a member of an object, or an item of a list by its number.
func child(n node, name string) node {
	if n.kind != list {
		return n.get(name)
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.items) {
		return n.items[i]
	}
	return node{}
}

// lookup follows a path of names.
func lookup(n node, at []string) node {
	for _, name := range at {
		n = child(n, name)
	}
	return n
}
