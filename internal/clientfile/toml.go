package clientfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"mcpx/internal/catalog"
)

// maxTOML bounds a TOML file. People write them by hand, but Codex adds to them; larger ones are not edited either.
const maxTOML = 16 << 20

// parseTOML reads a document. The decoder says what it means and what is wrong with it; a second pass over its
// expressions gives the order of the file, which a map has lost.
func parseTOML(data []byte) (node, error) {
	data = bytes.TrimPrefix(data, byteOrderMark)
	doc, err := decodeTOML(data)
	if err != nil {
		return node{}, err
	}
	return fromTOML(doc, "", orderOf(data)), nil
}

func decodeTOML(data []byte) (map[string]any, error) {
	if len(data) > maxTOML {
		return nil, &catalog.SyntaxError{Reason: fmt.Sprintf("larger than %d MiB", maxTOML>>20)}
	}
	var doc map[string]any
	if err := toml.Unmarshal(data, &doc); err != nil {
		s := &catalog.SyntaxError{Reason: "no TOML"}
		if e, ok := errors.AsType[*toml.DecodeError](err); ok {
			s.Line, s.Column = e.Position()
			s.Reason = tomlReason(e)
		}
		return nil, s
	}
	return doc, nil
}

// ReadTOML gives a document as values, and the line in which a path of keys first stands: 0 for one that is not there. An
// error is a *catalog.SyntaxError; it quotes no value.
func ReadTOML(data []byte) (doc map[string]any, line func(keys ...string) int, err error) {
	data = bytes.TrimPrefix(data, byteOrderMark)
	if doc, err = decodeTOML(data); err != nil {
		return nil, nil, err
	}
	order := orderOf(data)
	var ends []int
	for i, c := range data {
		if c == '\n' {
			ends = append(ends, i)
		}
	}
	return doc, func(keys ...string) int {
		at, known := order[strings.Join(keys, pathEnd)+pathEnd]
		if !known {
			return 0
		}
		before, _ := slices.BinarySearch(ends, at.offset)
		return before + 1
	}, nil
}

// tomlReason is the decoder's message without what it quotes from the file, which may be a secret: keys that are
// defined twice, and values behind quotes or colons.
func tomlReason(e *toml.DecodeError) string {
	reason := strings.TrimPrefix(e.Error(), "toml: ")
	if strings.Contains(reason, "already") {
		return "a key or a table is defined twice"
	}
	if i := strings.IndexAny(reason, "\"'`:"); i >= 0 {
		reason = strings.TrimSpace(reason[:i])
	}
	if reason == "" {
		return "no TOML"
	}
	return reason
}

// place is where a key first stands: its number among all keys, and its offset.
type place struct{ number, offset int }

// pathEnd ends each part of a path of keys; no key can hold it, TOML refuses control characters.
const pathEnd = "\x00"

// orderOf notes where each path of keys first stands. It sees a valid document only.
func orderOf(data []byte) map[string]place {
	order := map[string]place{}
	var p unstable.Parser
	p.Reset(data)
	table := ""
	// note follows a key part by part: a.b.c makes a, a.b and a.b.c known.
	note := func(prefix string, keys unstable.Iterator) string {
		for keys.Next() {
			prefix += string(keys.Node().Data) + pathEnd
			if _, known := order[prefix]; !known {
				order[prefix] = place{number: len(order), offset: int(keys.Node().Raw.Offset)}
			}
		}
		return prefix
	}
	var inline func(prefix string, n *unstable.Node)
	inline = func(prefix string, n *unstable.Node) {
		if n.Kind != unstable.InlineTable {
			return
		}
		for it := n.Children(); it.Next(); {
			inline(note(prefix, it.Node().Key()), it.Node().Value())
		}
	}
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind { //nolint:exhaustive // an expression is one of these or a comment
		case unstable.Table, unstable.ArrayTable:
			table = note("", e.Key())
		case unstable.KeyValue:
			inline(note(table, e.Key()), e.Value())
		}
	}
	return order
}

func fromTOML(v any, path string, order map[string]place) node {
	switch value := v.(type) {
	case map[string]any:
		n := node{kind: object, offset: order[path].offset}
		for name, member := range value {
			n.fields = append(n.fields, field{name: name, value: fromTOML(member, path+name+pathEnd, order)})
		}
		slices.SortFunc(n.fields, func(a, b field) int {
			return cmp.Or(cmp.Compare(order[path+a.name+pathEnd].number, order[path+b.name+pathEnd].number), cmp.Compare(a.name, b.name))
		})
		return n
	case []any:
		n := node{kind: list, offset: order[path].offset}
		for _, item := range value {
			n.items = append(n.items, fromTOML(item, path, order))
		}
		return n
	case string:
		return node{kind: text, text: value, offset: order[path].offset}
	case bool:
		return node{kind: boolean, text: fmt.Sprint(value), offset: order[path].offset}
	}
	return node{kind: number, text: fmt.Sprint(v), offset: order[path].offset}
}
