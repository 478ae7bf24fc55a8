package clientfile

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// yamlStyle is how a file is written.
type yamlStyle struct {
	unit  int  // columns from a mapping to the mapping in it
	list  int  // columns from a mapping to a list in it
	dash  int  // columns from a dash to its item
	flow  bool // lists of plain values are in brackets
	quote bool // names have quotes
}

// styleOf looks at the first examples in the file.
func styleOf(root *yamlKnot) yamlStyle {
	s := yamlStyle{unit: -1, list: -1, dash: -1}
	flows := 0
	var look func(k *yamlKnot)
	look = func(k *yamlKnot) {
		y := k.place.y
		if y == nil {
			return
		}
		block := y.Style&yaml.FlowStyle == 0
		if k.was.kind == list && len(k.was.items) > 0 && !slices.ContainsFunc(k.was.items, func(n node) bool { return n.kind == object || n.kind == list }) {
			if block {
				flows--
			} else {
				flows++
			}
		}
		for _, kid := range k.kids {
			if sub := kid.place.y; block && sub != nil && sub.Style&yaml.FlowStyle == 0 && len(kid.kids) > 0 {
				step := kid.place.col - k.place.col
				switch {
				case k.was.kind == list:
					if s.dash < 0 && kid.was.kind == object {
						s.dash = step
					}
				case kid.was.kind == object && s.unit < 0:
					s.unit = step
				case kid.was.kind == list && s.list < 0:
					s.list = step
				}
			}
			look(kid)
		}
	}
	look(root)
	s.flow = flows > 0
	if s.unit < 1 {
		s.unit = 2
	}
	if s.list < 0 {
		s.list = 2
	}
	if s.dash < 2 {
		s.dash = 2
	}
	if y := root.place.y; y != nil && len(y.Content) > 0 {
		s.quote = y.Content[0].Style&yaml.DoubleQuotedStyle != 0
	}
	return s
}

// yamlText writes a text; without quotes only where every parser takes it for one.
func yamlText(s string, flow, quote bool) string {
	if !quote && yamlPlain(s, flow) {
		return s
	}
	return yamlQuoted(s)
}

// yamlWords are not texts for all parsers.
var yamlWords = []string{"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"}

func yamlPlain(s string, flow bool) bool {
	if s == "" || slices.Contains(yamlWords, strings.ToLower(s)) || strings.HasSuffix(s, ":") || strings.HasSuffix(s, " ") {
		return false
	}
	for i, r := range s {
		letter := r < utf8.RuneSelf && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_') || r >= utf8.RuneSelf && unicode.IsLetter(r)
		switch {
		case letter:
		case i == 0 && (r != '/' && r != '$' && r != '('):
			return false
		case r >= '0' && r <= '9':
		case flow && strings.ContainsRune(":{}", r) && !strings.HasPrefix(s[i:], "://"):
			return false
		case r == ':' && strings.HasPrefix(s[i:], ": "), r == ' ' && strings.HasPrefix(s[i:], " #"):
			return false
		case !strings.ContainsRune(" ./-+=@:$(){}~%^;#*", r):
			return false
		}
	}
	return true
}

// yamlQuoted writes a text in double quotes.
func yamlQuoted(s string) string {
	const hex = "0123456789ABCDEF"
	b := []byte{'"'}
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r < ' ' || r >= 0x7f && r < 0xa0:
			b = append(b, '\\', 'x', hex[r>>4], hex[r&15])
		case r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff:
			b = append(b, '\\', 'u', hex[r>>12], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return string(append(b, '"'))
}

// scalar writes what is no collection, or an empty one.
func (d *yamlEditor) scalar(v node, flow bool) string {
	switch v.kind {
	case text:
		if !utf8.ValidString(v.text) {
			d.fail(unsupported("a text is no UTF-8"))
		}
		return yamlText(v.text, flow, false)
	case number, boolean:
		var y yaml.Node
		if err := yaml.Unmarshal([]byte(v.text), &y); err != nil || len(y.Content) == 0 || yamlScalar(y.Content[0]).kind != v.kind || yamlScalar(y.Content[0]).text != v.text {
			d.fail(unsupported("%q is no number", v.text))
		}
		return v.text
	case object:
		return "{}"
	case list:
		return "[]"
	case absent:
	}
	return "null"
}

// inline writes a value in brackets.
func (d *yamlEditor) inline(v node) string {
	var all []string
	switch v.kind {
	case object:
		for _, f := range v.fields {
			all = append(all, d.name(f.name, true)+": "+d.inline(f.value))
		}
		return "{" + strings.Join(all, ", ") + "}"
	case list:
		for _, item := range v.items {
			all = append(all, d.inline(item))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case absent, text, number, boolean:
	}
	return d.scalar(v, true)
}

func (d *yamlEditor) name(s string, flow bool) string {
	if !utf8.ValidString(s) {
		d.fail(unsupported("a name is no UTF-8"))
	}
	return yamlText(s, flow, d.style.quote)
}

// short says whether a value is written behind its name.
func (d *yamlEditor) short(v node) bool {
	switch v.kind {
	case object:
		return len(v.fields) == 0
	case list:
		return len(v.items) == 0 || d.style.flow && !slices.ContainsFunc(v.items, func(n node) bool { return n.kind == object || n.kind == list })
	case absent, text, number, boolean:
	}
	return true
}

// row writes a member of a mapping as lines.
func (d *yamlEditor) row(name string, v node, col int) []string {
	head := strings.Repeat(" ", col) + d.name(name, false) + ":"
	if d.short(v) {
		return []string{head + " " + d.shortText(v)}
	}
	return append([]string{head}, d.below(v, col)...)
}

func (d *yamlEditor) shortText(v node) string {
	if v.kind == list {
		return d.inline(v)
	}
	return d.scalar(v, false)
}

// below writes a collection as the lines below its name, which stands at col.
func (d *yamlEditor) below(v node, col int) []string {
	if v.kind == object {
		return d.block(v, col+d.style.unit)
	}
	return d.block(v, col+d.style.list)
}

// block writes the rows of a collection that is not empty.
func (d *yamlEditor) block(v node, col int) []string {
	var lines []string
	for _, f := range v.fields {
		lines = append(lines, d.row(f.name, f.value, col)...)
	}
	for _, item := range v.items {
		lines = append(lines, d.item(item, col)...)
	}
	return lines
}

// item writes an item of a list as lines.
func (d *yamlEditor) item(v node, col int) []string {
	pad := strings.Repeat(" ", col)
	switch {
	case v.kind == list:
		return []string{pad + "- " + d.inline(v)}
	case v.kind != object || len(v.fields) == 0:
		return []string{pad + "- " + d.scalar(v, false)}
	}
	lines := d.block(v, col+d.style.dash)
	lines[0] = pad + "-" + strings.Repeat(" ", d.style.dash-1) + lines[0][col+d.style.dash:]
	return lines
}

func (d *yamlEditor) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}
