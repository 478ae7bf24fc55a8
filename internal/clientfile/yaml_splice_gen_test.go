package clientfile

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// yamlPage writes a value in many manners of YAML.
type yamlPage struct {
	invented
	nl    string
	unit  int
	list  int
	dash  int
	quiet bool // no comments and blank lines
}

func (g *yamlPage) one() []byte { return g.page(func() node { return g.object(0) }) }

func (g *yamlPage) page(value func() node) []byte {
	g.nl = g.pick([]string{"\n", "\n", "\r\n"})
	g.unit, g.list, g.dash = 1+g.IntN(4), g.IntN(3), 2+g.IntN(3)
	g.quiet = g.IntN(3) == 0
	var b strings.Builder
	if g.IntN(5) == 0 {
		b.WriteString("---" + g.pick([]string{"", " # c"}) + g.nl)
	}
	switch v := value(); {
	case g.IntN(30) == 0:
		b.WriteString(g.pick([]string{"", "# c" + g.nl, "{}", "~", "null # c" + g.nl}))
	case len(v.fields) == 0 || g.IntN(6) == 0:
		b.WriteString(g.flow(v, 0, true) + g.pick([]string{"", g.nl, " # c" + g.nl}))
	default:
		g.rows(&b, v, 0, false)
		if g.IntN(6) == 0 {
			b.Reset()
			b.WriteString("odd: &x" + g.nl + "  - a" + g.nl + "other: {b: *x, c: !!str 1}" + g.nl)
			g.rows(&b, v, 0, false)
		}
	}
	if g.IntN(8) == 0 && strings.HasSuffix(b.String(), g.nl) && strings.Contains(b.String(), ":") {
		b.WriteString("..." + g.nl)
	}
	all := b.String()
	if g.IntN(4) == 0 {
		all = string(byteOrderMark) + all
	}
	if g.IntN(4) == 0 {
		all = strings.TrimRight(all, "\r\n")
	}
	return []byte(all)
}

func (g *yamlPage) pad(col int) string { return strings.Repeat(" ", col) }

func (g *yamlPage) above(b *strings.Builder, col int) {
	if g.quiet {
		return
	}
	for range g.IntN(2) {
		b.WriteString(g.pick([]string{g.nl, g.pad(col) + "# - a: \"b" + g.nl, g.pad(col+1) + "# c" + g.nl, "#" + g.nl}))
	}
}

// behind ends a row on one line.
func (g *yamlPage) behind() string {
	if g.quiet {
		return g.nl
	}
	return g.pick([]string{"", "", " ", " # c", " # 'x: - \""}) + g.nl
}

// rows writes a collection that is not empty. Begun: its first row stands behind a dash.
func (g *yamlPage) rows(b *strings.Builder, v node, col int, begun bool) {
	for i, f := range v.fields {
		if !begun || i > 0 {
			g.above(b, col)
			b.WriteString(g.pad(col))
		}
		b.WriteString(g.key(f.name) + ":")
		g.behindMark(b, f.value, col, false)
	}
	for i, item := range v.items {
		if !begun || i > 0 {
			g.above(b, col)
			b.WriteString(g.pad(col))
		}
		b.WriteString("-")
		g.behindMark(b, item, col, true)
	}
}

// behindMark writes a value behind a colon or a dash at col.
func (g *yamlPage) behindMark(b *strings.Builder, v node, col int, dash bool) {
	if v.kind != object && v.kind != list || len(v.fields)+len(v.items) == 0 || g.IntN(5) == 0 {
		g.short(b, v, col)
		return
	}
	if dash && g.IntN(4) > 0 {
		b.WriteString(g.pad(g.dash - 1))
		g.rows(b, v, col+g.dash, true)
		return
	}
	step := g.unit
	if v.kind == list && !dash {
		step = g.list
	}
	b.WriteString(g.behind())
	g.rows(b, v, col+step, false)
}

func (g *yamlPage) short(b *strings.Builder, v node, col int) {
	if v.kind == text && g.IntN(4) == 0 && g.lines(b, v.text, col) {
		return
	}
	if v.kind == text && v.text == "~" && g.IntN(2) == 0 { // nothing at all
		b.WriteString(g.behind())
		return
	}
	if g.IntN(12) == 0 {
		b.WriteString(g.nl + g.pad(col+1) + g.flow(v, col, true) + g.behind())
		return
	}
	b.WriteString(" " + g.flow(v, col, false) + g.behind())
}

// lines writes a text as a block scalar.
func (g *yamlPage) lines(b *strings.Builder, s string, col int) bool {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0xfeff }) || strings.HasPrefix(s, " ") || s == "" {
		return false
	}
	b.WriteString(g.pick([]string{" |", " |-", " |+", " >", fmt.Sprintf(" |%d", g.unit)}) + g.pick([]string{"", " # c"}) + g.nl)
	for line := range strings.SplitSeq(strings.TrimRight(s, "\n"), "\n") {
		b.WriteString(g.pad(col+g.unit) + line + g.nl)
	}
	b.WriteString(g.pick([]string{"", "", g.nl, g.nl + g.nl}))
	return true
}

func (g *yamlPage) key(name string) string {
	if g.IntN(4) == 0 && !strings.ContainsAny(name, "\n\u2028") {
		return "'" + strings.ReplaceAll(name, "'", "''") + "'"
	}
	if g.IntN(6) == 0 {
		return yamlQuoted(name)
	}
	return yamlText(name, true, false)
}

// flow writes a value in brackets, or a scalar.
func (g *yamlPage) flow(v node, col int, within bool) string {
	open, end := "{", "}"
	var all []string
	switch v.kind {
	case object:
		for _, f := range v.fields {
			if f.value.text == "~" && g.IntN(2) == 0 {
				all = append(all, g.key(f.name)+g.pick([]string{"", ":"}))
				continue
			}
			all = append(all, g.key(f.name)+": "+g.flow(f.value, col, true))
		}
	case list:
		open, end = "[", "]"
		for _, item := range v.items {
			all = append(all, g.flow(item, col, true))
		}
	case text:
		switch {
		case g.IntN(3) == 0 && !strings.ContainsFunc(v.text, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0xfeff }):
			return "'" + strings.ReplaceAll(v.text, "'", "''") + "'"
		case g.IntN(3) == 0:
			return yamlQuoted(v.text)
		case v.text == "x" && g.IntN(2) == 0:
			return "long plain" + g.nl + g.pad(col+1) + "text  x"
		}
		return yamlText(v.text, within, false)
	case absent, number, boolean:
		return v.text
	}
	separator, last := g.pick([]string{",", ", ", " , "}), ""
	if within = g.IntN(5) == 0; within {
		separator = g.pick([]string{",", " # c" + g.nl + g.pad(col+1) + ",", ", # c"}) + g.nl + g.pad(col+1)
		last = g.pick([]string{"", g.nl + g.pad(col+1), " # ]" + g.nl + g.pad(col+1)})
		open += last
	}
	if len(all) > 0 && g.IntN(5) == 0 {
		last = "," + last
	}
	return open + strings.Join(all, separator) + last + end
}

func TestSpliceYAMLGenerated(t *testing.T) {
	generated(t, 10_000, dialect{format: YAML}, func(g invented) []byte { return (&yamlPage{invented: g}).one() })
}

func TestSpliceYAMLLarge(t *testing.T) {
	linear(t, dialect{format: YAML}.splice, func(size int) []byte {
		var b bytes.Buffer
		b.WriteString("models:\n")
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, "  - name: m%d # c\n    prompt: |\n      %s\n    roles: [a, %q]\n", i, strings.Repeat("x", 100), strings.Repeat("ü", 100))
		}
		b.WriteString("mcpServers:\n  - name: a\n    command: x\n")
		return b.Bytes()
	}, []op{set("mcpServers/0/url", word("u")), del("mcpServers/0/command"), set("mcpServers/1", things("url", word("u")))})
}

func FuzzSpliceYAML(f *testing.F) {
	for _, s := range []string{
		"", "a:\n- b: 1\n  c: 2\n", "a: {b: [1, 2 ], c}\r\n", "---\na: |+\n  x\n\nb: >-\n  y\n...\n", "\xef\xbb\xbf# c\na: 'x''y'\n", "a: &x\n  b: 1\nb: *x\n",
		"? a\n: b\n", "a:\n  - - b\n    - c\n  -\n    d: e\n", "a: x\n  y\nb: \"x\\\n  y\"\n", "a: !!str x\n<<: {b: c}\n", "{\"a\":{\"b\":1}}", "a: ~\nb:\n", "[a: b]", "a: b\u2028c: d",
		"A: ''#", " []", "{0: }", "{00:}", "{! }", "0: !", "0: !00\n...", "0: \n !\n -", // found by fuzzing
	} {
		f.Add([]byte(s), uint64(0))
	}
	for i := range uint64(30) {
		f.Add((&yamlPage{invented: invented{rand.New(rand.NewPCG(5, i))}}).one(), i)
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) { fuzzed(t, dialect{format: YAML}, data, seed) })
}
