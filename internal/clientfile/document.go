package clientfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/tailscale/hujson"
	"go.yaml.in/yaml/v3"
)

// document is a content that was read: what it says, and where that stands. It is never changed, so whoever looks at the
// same bytes shares it.
type document struct {
	dialect dialect
	data    []byte
	root    node
	json    hujson.Value // of JSON and JSONC with a value in it; offsets count from behind a byte order mark
	yaml    *yaml.Node   // of YAML
	patch   *patch       // how it differs from a document that was read; the others are not set then
	index   *index       // of json and yaml, and of what is found in data
}

// document reads a content as the agent would.
func (d dialect) document(data []byte) (document, error) {
	doc := document{dialect: d, data: data, index: &index{objects: map[*hujson.Object]*jsonMembers{}}}
	var err error
	switch d.format {
	case TOML:
		doc.root, err = parseTOML(data)
	case YAML:
		doc.root, doc.yaml, err = parseYAML(data)
	case JSON, JSONC:
		doc.root, doc.json, err = parseJSON(data, d.lenient)
	default: // a file that is no agent's
		err = errors.New("clientfile: a file of no syntax")
	}
	return doc, err
}

// parse is what a content says to the agent.
func (d dialect) parse(data []byte) (node, error) {
	doc, err := d.document(data)
	return doc.root, err
}

// editable reads a content that is going to be changed; one without text is as good as none.
func (d dialect) editable(data []byte) (document, error) {
	if !utf8.Valid(data) {
		return document{}, unsupportedFile("it is not UTF-8")
	}
	if (d.format == JSON || d.format == JSONC) && len(bytes.TrimSpace(bytes.TrimPrefix(data, byteOrderMark))) == 0 {
		return document{dialect: d, data: data, root: node{kind: object}}, nil
	}
	doc, err := d.document(data)
	if err != nil {
		return document{}, brokenForEdit(err)
	}
	return doc, nil
}

// splice says which bytes have to be replaced so that the document has the members that ops ask for. It changes
// nothing outside of the spans, which are in file order and do not overlap.
func (doc document) splice(ops []op) ([]span, error) {
	if spans, ok := doc.spliceExcerpt(ops); ok {
		return spans, nil
	}
	return doc.spliceWhole(ops)
}

func (doc document) spliceWhole(ops []op) ([]span, error) {
	switch doc.dialect.format {
	case TOML:
		return spliceTOML(doc, ops)
	case YAML:
		return spliceYAML(doc, ops)
	case JSON, JSONC:
	}
	return spliceJSON(doc, ops)
}

// splice does so for a content that nobody has read yet.
func (d dialect) splice(data []byte, ops []op) ([]span, error) {
	doc, err := d.editable(data)
	if err != nil {
		return nil, err
	}
	return doc.splice(ops)
}

// unquoted is the text of a string, or a number and a word as they are written. Most strings need no decoder.
func unquoted(l hujson.Literal) string {
	if l.Kind() != '"' {
		return string(l)
	}
	if inner := l[1 : len(l)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var s string
	if json.Unmarshal(l, &s) != nil {
		return string(l)
	}
	return s
}
