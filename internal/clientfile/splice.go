package clientfile

import (
	"slices"
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

// splice says which bytes have to be replaced so that the document has the members that ops ask for. It changes
// nothing outside of the spans, which are in file order and do not overlap.
func (d dialect) splice(data []byte, ops []op) ([]span, error) {
	switch d.format {
	case TOML:
		return spliceTOML(data, ops)
	case YAML:
		return spliceYAML(data, ops)
	case JSON, JSONC:
	}
	return spliceJSON(data, ops, d.lenient)
}

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
