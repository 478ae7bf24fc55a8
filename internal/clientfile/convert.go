package clientfile

import (
	"bytes"
	"encoding/json"
	"fmt"

	"mcpx/internal/catalog"
)

// Convert gives a document of any syntax as strict JSON, its members in the order of the file. The error is a
// *catalog.SyntaxError.
func Convert(data []byte, format Format) ([]byte, error) {
	var (
		doc node
		err error
	)
	switch format {
	case TOML:
		doc, err = parseTOML(data)
	case YAML:
		doc, _, err = parseYAML(bytes.TrimPrefix(data, byteOrderMark))
	case JSON, JSONC:
		doc, _, err = parseJSON(data, lenience{comments: true, trailingCommas: true, mark: true, empty: true})
	}
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := doc.write(&out); err != nil {
		return nil, &catalog.SyntaxError{Reason: err.Error()}
	}
	return out.Bytes(), nil
}

// write gives a value as JSON.
func (n node) write(out *bytes.Buffer) error {
	quoted := func(text string) error {
		raw, err := json.Marshal(text)
		out.Write(raw)
		return err
	}
	switch n.kind {
	case absent:
		out.WriteString("null")
	case text:
		return quoted(n.text)
	case boolean:
		out.WriteString(n.text)
	case number:
		if !json.Valid([]byte(n.text)) { // 0x10, 1_000, .inf, a date
			return quoted(n.text)
		}
		out.WriteString(n.text)
	case list:
		out.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := item.write(out); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	case object:
		out.WriteByte('{')
		for i, f := range n.fields {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := quoted(f.name); err != nil {
				return err
			}
			out.WriteByte(':')
			if err := f.value.write(out); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		out.WriteByte('}')
	}
	return nil
}
