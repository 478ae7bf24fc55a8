package clientfile

import (
	"bytes"
	"slices"
	"strconv"
)

// kind is the type of a value in a file.
type kind uint8

const (
	absent kind = iota // no such field; null of JSON counts as absent, as it does for the agents
	object
	list
	text
	number // and everything of TOML that has no type in JSON
	boolean
)

// node is one value of a file, whatever its syntax. The zero node is an absent value.
type node struct {
	kind   kind
	text   string // of text, number and boolean, as written
	fields []field
	items  []node
	offset int // in the file; 0 unknown
}

// field is one member of an object, in file order.
type field struct {
	name  string
	value node
}

// get is a member by name, absent when there is none. The last of equal names counts.
func (n node) get(name string) node {
	for _, f := range slices.Backward(n.fields) {
		if f.name == name {
			return f.value
		}
	}
	return node{}
}

// texts gives the items of a list of texts. False: it is something else.
func (n node) texts() ([]string, bool) {
	if n.kind != list {
		return nil, false
	}
	out := make([]string, 0, len(n.items))
	for _, item := range n.items {
		if item.kind != text {
			return nil, false
		}
		out = append(out, item.text)
	}
	return out, true
}

// bool gives a boolean. False as the second result: it is something else.
func (n node) bool() (value, ok bool) {
	if n.kind != boolean {
		return false, false
	}
	v, err := strconv.ParseBool(n.text)
	return v, err == nil
}

// merged lays over on top of n field by field, as agents with deep merging do; lists and scalars are replaced.
func (n node) merged(over node) node {
	if n.kind != object || over.kind != object {
		return over
	}
	out := node{kind: object, fields: slices.Clone(n.fields), offset: over.offset}
	for _, f := range over.fields {
		i := slices.IndexFunc(out.fields, func(old field) bool { return old.name == f.name })
		if i < 0 {
			out.fields = append(out.fields, f)
			continue
		}
		out.fields[i].value = out.fields[i].value.merged(f.value)
	}
	return out
}

// same says whether two values mean the same to an agent: the order of names does not matter, and of equal names the
// last one counts.
func same(a, b node) bool {
	if a.kind != b.kind || a.text != b.text && a.kind != object && a.kind != list && a.kind != absent {
		return false
	}
	switch a.kind {
	case object:
		x, y := a.members(), b.members()
		if len(x) != len(y) {
			return false
		}
		for name, v := range x {
			if w, ok := y[name]; !ok || !same(v, w) {
				return false
			}
		}
	case list:
		return slices.EqualFunc(a.items, b.items, same)
	case absent, text, number, boolean:
	}
	return true
}

// members are the values of an object by name. The last of equal names counts.
func (n node) members() map[string]node {
	all := make(map[string]node, len(n.fields))
	for _, f := range n.fields {
		all[f.name] = f.value
	}
	return all
}

// names are the different names of an object, in order of the alphabet.
func (n node) names() []string {
	all := make([]string, 0, len(n.fields))
	for _, f := range n.fields {
		all = append(all, f.name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// canonical writes what a value says, without what does not matter to an agent: order of names, spaces, comments.
func (n node) canonical(b *bytes.Buffer) {
	switch n.kind {
	case object:
		b.WriteByte('{')
		all := n.members()
		for i, name := range n.names() {
			if i > 0 {
				b.WriteByte(',')
			}
			writeString(b, name)
			b.WriteByte(':')
			all[name].canonical(b)
		}
		b.WriteByte('}')
	case list:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.canonical(b)
		}
		b.WriteByte(']')
	case text:
		writeString(b, n.text)
	case number, boolean:
		b.WriteString(n.text)
	case absent:
		b.WriteString("null")
	}
}
