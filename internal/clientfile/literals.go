package clientfile

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/tailscale/hujson"
	"go.yaml.in/yaml/v3"
)

// literal is one text or number of a document with the bytes that it is written with.
type literal struct {
	at         []string
	value      string
	start, end int      // without quotes; in a block of YAML its whole lines
	list       []string // the list that it is an item of, when all of its items are texts
}

// literals are the texts and numbers of a document near some ranges, in file order; there may be others among them. What
// cannot be read has none. A document that its agent refuses may still be shown, so it is read less strictly.
func literals(doc document, near []span) []literal {
	if doc.patch != nil {
		return doc.patch.literals(near)
	}
	if i := doc.index; i != nil && i.listed {
		return i.literals
	}
	data, mark := doc.data, 0
	if bytes.HasPrefix(data, byteOrderMark) {
		mark = len(byteOrderMark)
	}
	var all []literal
	switch doc.dialect.format {
	case TOML:
		all = tomlLiterals(data[mark:])
	case YAML:
		root := doc.yaml
		if root == nil && len(data) <= maxYAML {
			root = &yaml.Node{}
			if yaml.Unmarshal(data, root) != nil {
				break
			}
		}
		all = yamlLiterals(data[mark:], root)
	case JSON, JSONC:
		v, err := doc.json, error(nil)
		if v.Value == nil {
			v, err = hujson.Parse(data[mark:])
		}
		if err == nil {
			w := jsonTexts{near: near, mark: mark}
			w.walk(v, nil, nil)
			all = w.all
		}
	}
	for i := range all {
		all[i].start += mark
		all[i].end += mark
	}
	slices.SortStableFunc(all, func(a, b literal) int { return a.start - b.start })
	if i := doc.index; i != nil && (doc.dialect.format == TOML || doc.dialect.format == YAML) {
		i.literals, i.listed = all, true
	}
	return all
}

// jsonTexts collects the literals of JSON.
type jsonTexts struct {
	near []span
	mark int
	all  []literal
}

// close says whether a value is near.
func (w *jsonTexts) close(v hujson.Value) bool {
	return slices.ContainsFunc(w.near, func(s span) bool { return s.start <= v.EndOffset+w.mark && s.end >= v.StartOffset+w.mark })
}

func (w *jsonTexts) walk(v hujson.Value, at, list []string) {
	switch x := v.Value.(type) {
	case *hujson.Object:
		for _, m := range x.Members {
			if !w.close(m.Value) {
				continue
			}
			name, _ := m.Name.Value.(hujson.Literal) // only strings are names
			w.walk(m.Value, append(at, unquoted(name)), nil)
		}
	case *hujson.Array:
		var texts []string
		for _, e := range x.Elements {
			if l, ok := e.Value.(hujson.Literal); ok && l.Kind() == '"' {
				texts = append(texts, unquoted(l))
			}
		}
		if len(texts) != len(x.Elements) {
			texts = nil
		}
		for i, e := range x.Elements {
			if w.close(e) {
				w.walk(e, append(at, strconv.Itoa(i)), texts)
			}
		}
	case hujson.Literal:
		switch x.Kind() {
		case '"':
			w.all = append(w.all, literal{at: slices.Clone(at), value: unquoted(x), start: v.StartOffset + 1, end: v.EndOffset - 1, list: list})
		case '0': // a variable may hold a number
			w.all = append(w.all, literal{at: slices.Clone(at), value: string(x), start: v.StartOffset, end: v.EndOffset})
		}
	}
}

func tomlLiterals(data []byte) []literal {
	var all []literal
	var p unstable.Parser
	p.Reset(data)
	var table []string
	names := func(at []string, keys unstable.Iterator) []string {
		at = slices.Clone(at)
		for keys.Next() {
			at = append(at, string(keys.Node().Data))
		}
		return at
	}
	var value func(at, list []string, n *unstable.Node)
	value = func(at, list []string, n *unstable.Node) {
		switch n.Kind { //nolint:exhaustive // the others hold no text
		case unstable.InlineTable:
			for it := n.Children(); it.Next(); {
				value(names(at, it.Node().Key()), nil, it.Node().Value())
			}
		case unstable.Array:
			var texts []string
			items := 0
			for it := n.Children(); it.Next(); items++ {
				if it.Node().Kind == unstable.String {
					texts = append(texts, string(it.Node().Data))
				}
			}
			if len(texts) != items {
				texts = nil
			}
			i := 0
			for it := n.Children(); it.Next(); i++ {
				value(append(slices.Clone(at), strconv.Itoa(i)), texts, it.Node())
			}
		case unstable.String:
			start, end := int(n.Raw.Offset), int(n.Raw.Offset+n.Raw.Length)
			for _, quote := range []string{`"""`, `'''`, `"`, `'`} {
				if raw := string(data[start:end]); len(raw) >= 2*len(quote) && strings.HasPrefix(raw, quote) && strings.HasSuffix(raw, quote) {
					start, end = start+len(quote), end-len(quote)
					break
				}
			}
			all = append(all, literal{at: at, value: string(n.Data), start: start, end: end, list: list})
		case unstable.Integer, unstable.Float: // a variable may hold a number
			all = append(all, literal{at: at, value: string(n.Data), start: int(n.Raw.Offset), end: int(n.Raw.Offset + n.Raw.Length)})
		}
	}
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind { //nolint:exhaustive // an expression is one of these or a comment
		case unstable.Table, unstable.ArrayTable:
			table = names(nil, e.Key())
		case unstable.KeyValue:
			value(names(table, e.Key()), nil, e.Value())
		}
	}
	return all
}

func yamlLiterals(data []byte, root *yaml.Node) []literal {
	if root == nil {
		return nil
	}
	lines := []int{0} // where each begins
	for i, c := range data {
		if c == '\n' {
			lines = append(lines, i+1)
		}
	}
	var all []literal
	var walk func(n *yaml.Node, at, list []string)
	walk = func(n *yaml.Node, at, list []string) {
		switch n.Kind {
		case yaml.DocumentNode:
			for _, c := range n.Content {
				walk(c, at, nil)
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				walk(n.Content[i+1], append(slices.Clone(at), n.Content[i].Value), nil)
			}
		case yaml.SequenceNode:
			var texts []string
			for _, c := range n.Content {
				if c.Kind == yaml.ScalarNode {
					texts = append(texts, c.Value)
				}
			}
			if len(texts) != len(n.Content) {
				texts = nil
			}
			for i, c := range n.Content {
				walk(c, append(slices.Clone(at), strconv.Itoa(i)), texts)
			}
		case yaml.ScalarNode:
			if n.Line < 1 || n.Line > len(lines) {
				return
			}
			start := lines[n.Line-1] + bytesOf(data[lines[n.Line-1]:], n.Column-1)
			end := scalarEnd(data, start, n, lines)
			all = append(all, literal{at: at, value: n.Value, start: start, end: end, list: list})
		case yaml.AliasNode: // its text stands where the anchor is
		}
	}
	walk(root, nil, nil)
	return all
}

// bytesOf is the length of the first n characters.
func bytesOf(line []byte, n int) int {
	at := 0
	for ; n > 0 && at < len(line); n-- {
		_, size := utf8.DecodeRune(line[at:])
		at += size
	}
	return at
}

// scalarEnd is where a scalar of YAML ends. In doubt it is the end of a line: more is hidden then than has to be.
func scalarEnd(data []byte, start int, n *yaml.Node, lines []int) int {
	if bytes.HasPrefix(data[start:], []byte(n.Value)) && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		return start + len(n.Value)
	}
	if start < len(data) && (data[start] == '"' || data[start] == '\'') {
		quote := data[start]
		for i := start + 1; i < len(data); i++ {
			switch {
			case data[i] == '\\' && quote == '"':
				i++
			case data[i] == quote && quote == '\'' && i+1 < len(data) && data[i+1] == quote:
				i++
			case data[i] == quote:
				return i + 1
			}
		}
		return len(data)
	}
	// A block, or a plain text over several lines: it goes on while lines are indented deeper than its key.
	first := indentOf(data[lines[n.Line-1]:])
	for _, at := range lines[n.Line:] {
		rest := data[at:]
		if line := lineOf(rest); len(bytes.TrimSpace(line)) > 0 && indentOf(rest) <= first {
			return at
		}
	}
	return len(data)
}

func indentOf(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " ")) }
