package clientfile

import (
	"bytes"

	"github.com/tailscale/hujson"

	"mcpx/internal/catalog"
)

// byteOrderMark in UTF-8.
var byteOrderMark = []byte("\xef\xbb\xbf")

// errMark is the refusal of a byte order mark.
var errMark = &catalog.SyntaxError{Line: 1, Column: 1, Reason: "a byte order mark stands before the text"}

// parseJSON reads a document as its agent would: what breaks it there is a *catalog.SyntaxError here. The second result
// tells where its values stand, from behind a byte order mark.
func parseJSON(data []byte, l lenience) (node, hujson.Value, error) {
	var none hujson.Value
	if bytes.HasPrefix(data, byteOrderMark) {
		if !l.mark {
			return node{}, none, errMark
		}
		data = data[len(byteOrderMark):]
	}
	if len(bytes.TrimSpace(data)) == 0 {
		if !l.empty {
			return node{}, none, &catalog.SyntaxError{Line: 1, Column: 1, Reason: "the file is empty"}
		}
		return node{kind: object}, none, nil
	}
	strict, err := catalog.StandardJSON(data, l.comments, l.trailingCommas)
	if err != nil {
		return node{}, none, err
	}
	doc, err := hujson.Parse(strict)
	if err != nil {
		return node{}, none, &catalog.SyntaxError{Reason: "no JSON"} // its error quotes the document
	}
	return fromJSON(doc), doc, nil
}

// fromJSON takes over a parsed value; StandardJSON has bounded its depth.
func fromJSON(v hujson.Value) node {
	n := node{offset: v.StartOffset}
	switch value := v.Value.(type) {
	case *hujson.Object:
		n.kind = object
		for _, m := range value.Members {
			name, _ := m.Name.Value.(hujson.Literal) // the parser lets only strings be names
			n.fields = append(n.fields, field{name: unquoted(name), value: fromJSON(m.Value)})
		}
	case *hujson.Array:
		n.kind = list
		for _, e := range value.Elements {
			n.items = append(n.items, fromJSON(e))
		}
	case hujson.Literal:
		n.text = string(value)
		switch value.Kind() {
		case '"':
			n.kind, n.text = text, unquoted(value)
		case 't', 'f':
			n.kind = boolean
		case '0':
			n.kind = number
		case 'n':
			n.kind = absent
		}
	}
	return n
}
