package clientfile

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
)

// keyOf is the name of a knot, as it is written already.
func keyOf(k *tomlKnot) string {
	if k.place.raw != "" {
		return k.place.raw
	}
	return tomlKey(k.name)
}

func pathOf(k *tomlKnot) []string {
	var path []string
	for q := k; q.up != nil; q = q.up {
		path = append(path, keyOf(q))
	}
	slices.Reverse(path)
	return path
}

// tomlKey writes one key.
func tomlKey(name string) string {
	bare := name != ""
	for i := range len(name) {
		c := name[i]
		bare = bare && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if bare {
		return name
	}
	return tomlText(name)
}

// tomlText writes a basic string.
func tomlText(s string) string {
	const hex = "0123456789ABCDEF"
	b := []byte{'"'}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

func empty(v node) bool {
	return len(v.items) == 0 && !slices.ContainsFunc(v.fields, func(f field) bool { return f.value.kind != absent })
}

// spell writes a value on one line.
func (d *tomlEditor) spell(v node) string {
	switch v.kind {
	case object:
		if empty(v) {
			return "{}"
		}
		var all []string
		for _, f := range v.fields {
			if f.value.kind != absent {
				all = append(all, d.key(f.name)+" = "+d.spell(f.value))
			}
		}
		return "{ " + strings.Join(all, ", ") + " }"
	case list:
		return "[" + strings.Join(d.items(v), ", ") + "]"
	case text:
		if !utf8.ValidString(v.text) {
			d.fail(unsupported("a text is no UTF-8"))
		}
		return tomlText(v.text)
	case boolean:
		return v.text
	case number:
		var doc map[string]any
		if strings.ContainsAny(v.text, "\r\n#\"'[{") || toml.Unmarshal([]byte("n = "+v.text), &doc) != nil {
			d.fail(unsupported("%q is no number", v.text))
		}
		return v.text
	case absent:
	}
	d.fail(unsupported("TOML has no null"))
	return `""`
}

func (d *tomlEditor) key(name string) string {
	if !utf8.ValidString(name) {
		d.fail(unsupported("a name is no UTF-8"))
	}
	return tomlKey(name)
}

func (d *tomlEditor) items(v node) []string {
	all := make([]string, len(v.items))
	for i, item := range v.items {
		all[i] = d.spell(item)
	}
	return all
}

// rewritten is the new value of k in the manner of the old one: the same quotes, and lines for items that had lines.
func (d *tomlEditor) rewritten(k *tomlKnot) string {
	v, old := *k.written, d.data[k.place.start:k.place.end]
	literal := v.kind == text && k.was.kind == text && old[0] == '\'' && utf8.ValidString(v.text)
	for _, r := range v.text {
		literal = literal && r != '\'' && r >= ' ' && r != 0x7f
	}
	if literal {
		return "'" + v.text + "'"
	}
	if v.kind != list || k.was.kind != list || len(v.items) == 0 || len(k.kids) == 0 {
		return d.spell(v)
	}
	first, last := 0, 0
	for _, kid := range k.kids {
		if kid.fresh {
			continue
		}
		if first == 0 {
			first = kid.place.start
		}
		last = kid.place.end
	}
	if first == 0 || !d.begins(first) || !d.begins(k.place.end-1) {
		return d.spell(v)
	}
	line := d.line(first)
	nl, indent := d.newline(line), d.indent(line)
	text := "[" + nl + indent + strings.Join(d.items(v), ","+nl+indent)
	if d.comma(last) >= 0 {
		text += ","
	}
	return text + nl + d.indent(d.line(k.place.end-1)) + "]"
}
