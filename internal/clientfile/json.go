package clientfile

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/tailscale/hujson"

	"mcpx/internal/catalog"
)

// byteOrderMark in UTF-8.
var byteOrderMark = []byte("\xef\xbb\xbf")

// parseJSON reads a document as its agent would: what breaks it there is a *catalog.SyntaxError here.
func parseJSON(data []byte, l lenience) (node, error) {
	if bytes.HasPrefix(data, byteOrderMark) {
		if !l.mark {
			return node{}, &catalog.SyntaxError{Line: 1, Column: 1, Reason: "a byte order mark stands before the text"}
		}
		data = data[len(byteOrderMark):]
	}
	if len(bytes.TrimSpace(data)) == 0 {
		if !l.empty {
			return node{}, &catalog.SyntaxError{Line: 1, Column: 1, Reason: "the file is empty"}
		}
		return node{kind: object}, nil
	}
	doc, err := catalog.ParseJSONC(data)
	if err != nil {
		return node{}, err
	}
	if err := strict(data, doc, l); err != nil {
		return node{}, err
	}
	return fromJSON(doc), nil
}

// strict finds the first comment or trailing comma that the agent does not accept.
func strict(data []byte, doc hujson.Value, l lenience) error {
	if doc.IsStandard() || l.comments && l.trailingCommas {
		return nil
	}
	if l.comments {
		data = blankComments(data)
	}
	var raw json.RawMessage
	if s, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(data, &raw)); ok {
		// The offset is behind the byte at fault; the message names a single character.
		return catalog.SyntaxErrorAt(data, int(s.Offset)-1, s.Error())
	}
	return nil
}

// blankComments puts spaces in place of comments, so that offsets and lines stay.
func blankComments(data []byte) []byte {
	out := bytes.Clone(data)
	for i := 0; i < len(out); i++ {
		switch out[i] {
		case '"':
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case '/':
			end := bytes.IndexByte(out[i:], '\n')
			if bytes.HasPrefix(out[i:], []byte("/*")) {
				if end = bytes.Index(out[i:], []byte("*/")); end >= 0 {
					end += len("*/")
				}
			}
			if end < 0 {
				end = len(out) - i
			}
			for ; end > 0; end-- {
				if out[i] != '\n' {
					out[i] = ' '
				}
				i++
			}
			i--
		}
	}
	return out
}

// fromJSON takes over a parsed value; ParseJSONC has bounded its depth.
func fromJSON(v hujson.Value) node {
	n := node{offset: v.StartOffset}
	switch value := v.Value.(type) {
	case *hujson.Object:
		n.kind = object
		for _, m := range value.Members {
			name, _ := m.Name.Value.(hujson.Literal) // the parser lets only strings be names
			n.fields = append(n.fields, field{name: name.String(), value: fromJSON(m.Value)})
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
			n.kind, n.text = text, value.String()
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
