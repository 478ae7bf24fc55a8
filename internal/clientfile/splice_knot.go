package clientfile

import (
	"fmt"
	"slices"
	"strconv"

	"mcpx/internal/fault"
)

// maxSpliceDepth bounds the nesting of a file that is edited (governance.md section 7.1).
const maxSpliceDepth = 200

// knot is a value of a file that is edited: what was read, what is to become of it, and its place P in the bytes.
// Changes are made to the knots of one reading, so that places stay valid, and are then spelled out together.
type knot[P any] struct {
	name    string // of the member; "" in a list
	was     node
	kids    []*knot[P]          // members or items; those that are new come last
	index   map[string]*knot[P] // members by name, when there are many
	up      *knot[P]
	gone    bool
	fresh   bool  // not in the file; written is its value
	touched bool  // it or something below is changed
	written *node // the new value when it takes the place of the whole old one
	place   P
}

// manyKids is from where on a table of names is quicker than looking through them.
const manyKids = 16

// grow makes knots of what was read.
func grow[P any](n node, name string, up *knot[P], depth int) (*knot[P], error) {
	if depth > maxSpliceDepth {
		return nil, unsupported("values are nested more than %d levels deep", maxSpliceDepth)
	}
	k := &knot[P]{name: name, was: n, up: up}
	for _, f := range n.fields {
		kid, err := grow(f.value, f.name, k, depth+1)
		if err != nil {
			return nil, err
		}
		k.add(kid)
	}
	for _, item := range n.items {
		kid, err := grow(item, "", k, depth+1)
		if err != nil {
			return nil, err
		}
		k.kids = append(k.kids, kid)
	}
	return k, nil
}

func unsupported(format string, args ...any) *fault.Error {
	return unsupportedFile(fmt.Sprintf(format, args...))
}

func (k *knot[P]) add(kid *knot[P]) {
	k.kids = append(k.kids, kid)
	switch {
	case k.index != nil:
		k.index[kid.name] = kid
	case len(k.kids) > manyKids && k.was.kind == object:
		k.index = make(map[string]*knot[P], len(k.kids))
		for _, kid := range k.kids {
			k.index[kid.name] = kid
		}
	}
}

// member is a member by name, also one that is gone; nil when there was none.
func (k *knot[P]) member(name string) *knot[P] {
	if k.index != nil {
		return k.index[name]
	}
	for _, kid := range k.kids {
		if kid.name == name {
			return kid
		}
	}
	return nil
}

// live are the members or items that stay or are new.
func (k *knot[P]) live() []*knot[P] {
	return slices.DeleteFunc(slices.Clone(k.kids), func(kid *knot[P]) bool { return kid.gone })
}

func (k *knot[P]) touch() {
	for q := k; q != nil; q = q.up {
		q.touched = true
	}
}

// now is the value with all changes so far.
func (k *knot[P]) now() node {
	switch {
	case k.written != nil:
		return *k.written
	case !k.touched:
		return k.was
	}
	n := node{kind: k.was.kind, text: k.was.text}
	for _, kid := range k.live() {
		if k.was.kind == list {
			n.items = append(n.items, kid.now())
			continue
		}
		n.fields = append(n.fields, field{name: kid.name, value: kid.now()})
	}
	return n
}

// do makes one change. The path is not empty. Numbers of items are those of the file; the ones behind the last are new.
func (k *knot[P]) do(at []string, v *node) error {
	if k.written != nil || k.was.kind != object && k.was.kind != list {
		n, err := changed(k.now(), at, v)
		if err == nil && !sameNode(n, k.now()) {
			k.written = &n
			k.touch()
		}
		return err
	}
	kid := k.find(at[0])
	switch {
	case v == nil && (kid == nil || kid.gone):
		return nil
	case v == nil && len(at) == 1:
		kid.drop()
		return nil
	case kid == nil && k.was.kind == list && at[0] != strconv.Itoa(len(k.kids)):
		return unsupported("a list has no item %s", at[0])
	case kid == nil:
		k.insert(at[0], wrapped(at[1:], *v))
		return nil
	case kid.gone:
		kid.gone = false
		kid.assign(wrapped(at[1:], *v))
		return nil
	case len(at) == 1:
		kid.assign(*v)
		return nil
	}
	return kid.do(at[1:], v)
}

func (k *knot[P]) find(name string) *knot[P] {
	if k.was.kind == object {
		return k.member(name)
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(k.kids) {
		return k.kids[i]
	}
	return nil
}

func (k *knot[P]) drop() {
	k.touch()
	k.gone = true
	if k.fresh {
		k.up.kids = slices.DeleteFunc(k.up.kids, func(kid *knot[P]) bool { return kid == k })
		delete(k.up.index, k.name)
	}
}

func (k *knot[P]) insert(name string, v node) {
	kid := &knot[P]{name: name, up: k, fresh: true, written: &v}
	k.add(kid)
	kid.touch()
}

// assign gives the value v. As much as possible of the old one stays.
func (k *knot[P]) assign(v node) {
	old := k.now()
	if sameNode(old, v) {
		return
	}
	k.touch()
	switch {
	case k.written != nil:
	case old.kind == object && v.kind == object:
		k.merge(v)
		return
	case old.kind == list && v.kind == list && k.align(v.items):
		return
	}
	k.written = &v
}

func (k *knot[P]) merge(v node) {
	for _, kid := range k.live() {
		if !v.has(kid.name) {
			kid.drop()
		}
	}
	for _, f := range v.fields {
		switch kid := k.member(f.name); {
		case kid == nil && f.value.kind == absent: // as if it were not there
		case kid == nil:
			k.insert(f.name, f.value)
		default:
			kid.gone = false
			kid.assign(f.value)
		}
	}
}

// align changes a list item by item, when the items correspond: one list begins as the other one, or all are objects.
func (k *knot[P]) align(items []node) bool {
	live := k.live()
	same := 0
	for same < min(len(live), len(items)) && sameNode(live[same].now(), items[same]) {
		same++
	}
	objects := func(n node) bool { return n.kind == object }
	if same < min(len(live), len(items)) {
		for _, kid := range live {
			if !objects(kid.now()) {
				return false
			}
		}
		if slices.ContainsFunc(items, func(n node) bool { return !objects(n) }) {
			return false
		}
	}
	for i, kid := range live {
		if i < len(items) {
			kid.assign(items[i])
		} else {
			kid.drop()
		}
	}
	for _, item := range items[min(len(live), len(items)):] {
		k.insert("", item)
	}
	return true
}

func (n node) has(name string) bool {
	return slices.ContainsFunc(n.fields, func(f field) bool { return f.name == name })
}

// wrapped puts a value into the objects that its path asks for.
func wrapped(at []string, v node) node {
	for _, name := range slices.Backward(at) {
		v = node{kind: object, fields: []field{{name: name, value: v}}}
	}
	return v
}

// changed is a value with one member set, or removed when v is nil. The old value is left as it is.
func changed(n node, at []string, v *node) (node, error) {
	if len(at) == 0 {
		return *v, nil
	}
	name, last := at[0], len(at) == 1
	switch n.kind {
	case absent:
		if v == nil {
			return n, nil
		}
		return wrapped(at, *v), nil
	case object:
		n.fields = slices.Clone(n.fields)
		i := slices.IndexFunc(n.fields, func(f field) bool { return f.name == name })
		switch {
		case v == nil && i < 0:
			return n, nil
		case v == nil && last:
			n.fields = slices.Delete(n.fields, i, i+1)
			return n, nil
		case i < 0:
			n.fields = append(n.fields, field{name: name, value: wrapped(at[1:], *v)})
			return n, nil
		}
		value, err := changed(n.fields[i].value, at[1:], v)
		n.fields[i].value = value
		return n, err
	case list:
		n.items = slices.Clone(n.items)
		i, err := strconv.Atoi(name)
		switch {
		case v == nil && (err != nil || i < 0 || i >= len(n.items)):
			return n, nil
		case err != nil || i < 0 || i > len(n.items):
			return n, unsupported("a list has no item %s", name)
		case v == nil && last:
			n.items = slices.Delete(n.items, i, i+1)
			return n, nil
		case i == len(n.items):
			n.items = append(n.items, wrapped(at[1:], *v))
			return n, nil
		}
		n.items[i], err = changed(n.items[i], at[1:], v)
		return n, err
	case text, number, boolean:
	}
	if v == nil {
		return n, nil
	}
	return n, unsupported("a value that is no object has no member %s", strconv.Quote(name))
}

// sameNode compares what two values mean: the order of members does not count, and null is like no member.
func sameNode(a, b node) bool {
	if a.kind != b.kind || a.text != b.text || len(a.items) != len(b.items) {
		return false
	}
	for i := range a.items {
		if !sameNode(a.items[i], b.items[i]) {
			return false
		}
	}
	return within(a, b) && within(b, a)
}

func within(a, b node) bool {
	if len(a.fields) <= manyKids {
		for _, f := range a.fields {
			if !sameMember(f.value, b.get(f.name)) {
				return false
			}
		}
		return true
	}
	all := make(map[string]node, len(b.fields))
	for _, f := range b.fields {
		all[f.name] = f.value
	}
	for _, f := range a.fields {
		if !sameMember(f.value, all[f.name]) {
			return false
		}
	}
	return true
}

func sameMember(a, b node) bool { return a.kind == absent && b.kind == absent || sameNode(a, b) }
