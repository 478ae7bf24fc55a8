package clientfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcpx/internal/catalog"
	"mcpx/internal/lazyregexp"
)

// The bounds of a YAML file. People write them by hand; an alias makes many values of few bytes, and may hold itself.
const (
	maxYAML      = 16 << 20
	maxYAMLNodes = 1 << 18
	maxYAMLDepth = 1000
)

// parseYAML reads the one document of a file. Like the agents' parser it takes no key twice, and no merge keys. The
// second result tells where its values begin.
func parseYAML(data []byte) (node, *yaml.Node, error) {
	if len(data) > maxYAML {
		return node{}, nil, &catalog.SyntaxError{Reason: fmt.Sprintf("larger than %d MiB", maxYAML>>20)}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return node{kind: object}, &doc, nil
	} else if err != nil {
		return node{}, nil, yamlError(err)
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		return node{}, nil, &catalog.SyntaxError{Line: more.Line, Column: 1, Reason: "a second document begins"}
	case !errors.Is(err, io.EOF):
		return node{}, nil, yamlError(err)
	}
	left := maxYAMLNodes
	root, err := fromYAML(&doc, &left, 0)
	return root, &doc, err
}

// ReadYAML gives a document as values; one that is empty has none. An error is a *catalog.SyntaxError; it quotes no value.
func ReadYAML(data []byte) (map[string]any, error) {
	root, doc, err := parseYAML(bytes.TrimPrefix(data, byteOrderMark))
	switch {
	case err != nil:
		return nil, err
	case root.kind != object:
		return nil, &catalog.SyntaxError{Line: 1, Column: 1, Reason: "not a map of names to values"}
	}
	values := map[string]any{}
	if doc.Kind == 0 {
		return values, nil
	}
	if err := doc.Decode(&values); err != nil {
		return nil, yamlError(err)
	}
	return values, nil
}

var yamlLine = lazyregexp.New(`^yaml: (?:line (\d+): )?(.*)`)

// yamlError takes over the parser's message without what it quotes from the file, which may be a secret.
func yamlError(err error) error {
	s := &catalog.SyntaxError{Reason: "no YAML"}
	if m := yamlLine().FindStringSubmatch(err.Error()); m != nil {
		s.Line, _ = strconv.Atoi(m[1]) // "" when the parser names no line
		if i := strings.IndexAny(m[2], "\"'`"); i >= 0 {
			m[2] = m[2][:i]
		}
		if reason := strings.TrimSpace(m[2]); reason != "" {
			s.Reason = reason
		}
	}
	if s.Line > 0 {
		s.Column = 1
	}
	return s
}

// fromYAML takes over a value. Left counts down the values that may still be made.
func fromYAML(y *yaml.Node, left *int, depth int) (node, error) {
	if *left--; *left < 0 || depth > maxYAMLDepth {
		return node{}, &catalog.SyntaxError{Line: y.Line, Column: y.Column, Reason: "too many values, or too deep"}
	}
	switch y.Kind {
	case yaml.DocumentNode:
		return fromYAML(y.Content[0], left, depth+1)
	case yaml.AliasNode:
		return fromYAML(y.Alias, left, depth+1)
	case yaml.MappingNode:
		return yamlObject(y, left, depth)
	case yaml.SequenceNode:
		n := node{kind: list}
		for _, item := range y.Content {
			value, err := fromYAML(item, left, depth+1)
			if err != nil {
				return node{}, err
			}
			n.items = append(n.items, value)
		}
		return n, nil
	case yaml.ScalarNode:
	}
	return yamlScalar(y), nil
}

func yamlScalar(y *yaml.Node) node {
	switch y.ShortTag() {
	case "!!null":
		return node{}
	case "!!bool":
		return node{kind: boolean, text: strings.ToLower(y.Value)}
	case "!!int", "!!float":
		return node{kind: number, text: y.Value}
	}
	return node{kind: text, text: y.Value} // a date is a text for the agents' parser
}

func yamlObject(y *yaml.Node, left *int, depth int) (node, error) {
	n := node{kind: object}
	seen := map[string]bool{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		name := key
		if name.Kind == yaml.AliasNode {
			name = name.Alias
		}
		reason := ""
		switch {
		case name.Kind != yaml.ScalarNode:
			reason = "a key is no text"
		case seen[name.Value]:
			reason = "a key is defined twice"
		}
		if reason != "" {
			return node{}, &catalog.SyntaxError{Line: key.Line, Column: key.Column, Reason: reason}
		}
		seen[name.Value] = true
		value, err := fromYAML(y.Content[i+1], left, depth+1)
		if err != nil {
			return node{}, err
		}
		n.fields = append(n.fields, field{name: name.Value, value: value})
	}
	return n, nil
}
