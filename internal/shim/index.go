package shim

import (
	"bytes"

	"mcpx/internal/rpc"
)

// order is a list of entries in the order of their registration.
type order struct {
	first, last *entry
	len         int
}

func (o *order) add(e *entry) {
	e.prev = o.last
	if o.last == nil {
		o.first = e
	} else {
		o.last.next = e
	}
	o.last = e
	o.len++
}

func (o *order) remove(e *entry) {
	if e.prev == nil {
		o.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		o.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	o.len--
}

// index finds entries by the key of their id. Of several with one key the oldest comes first: a client that uses an id
// again while it is open breaks the protocol, and servers answer in order.
type index map[string]*entry

func (x index) add(e *entry) {
	head := x[e.key]
	if head == nil {
		x[e.key] = e
		return
	}
	for head.same != nil {
		head = head.same
	}
	head.same = e
}

// oldest finds by a raw id. Ids as programs write them cost no allocation.
func (x index) oldest(id []byte) *entry {
	if plainID(id) {
		return x[string(id)]
	}
	return x[idKey(id)]
}

// drop takes an entry out; false when it was not in.
func (x index) drop(e *entry) bool {
	head := x[e.key]
	if head == e {
		delete(x, e.key)
		if e.same != nil {
			x[e.same.key] = e.same
		}
		e.same = nil
		return true
	}
	for head != nil && head.same != e {
		head = head.same
	}
	if head == nil {
		return false
	}
	head.same, e.same = e.same, nil
	return true
}

// plainID says whether a raw id is its own key: a string without escapes, or an integer but minus zero.
func plainID(id []byte) bool {
	return bytes.IndexByte(id, '\\') < 0 && !bytes.HasPrefix(id, []byte("-0"))
}

// idKey is the key of an id that is not plain.
func idKey(id []byte) string {
	key, ok := rpc.IDKey(id)
	switch {
	case !ok:
		return string(id) // no text can be read from it, so no peer takes it for another
	case key[0] == 's':
		return `"` + key[2:] + `"`
	}
	return key[2:]
}
