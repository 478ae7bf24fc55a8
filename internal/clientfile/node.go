package clientfile

import (
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
