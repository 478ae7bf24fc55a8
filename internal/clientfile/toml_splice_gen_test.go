package clientfile

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// oddNames are names that have to be quoted somewhere.
var oddNames = []string{"a.b", "ü x", "", "k\"\\", "it's", "0", "true", "<<", "#", "\u2028", "a: b", "-"}

// oddTexts are texts that have to be escaped somewhere.
var oddTexts = []string{"", "x", "it's \"x\"\\", "a\nb\n", "\t", "\x01\x7f\u0085", "# no", "ü\U0001f600", "true", "12", "[x]", "a: b", " x ", "\u2028\ufeff", "- a", "http://h:1/{a}", "'''", `"""`, "~"}

// invented makes values and changes for the property tests.
type invented struct{ *rand.Rand }

func (g invented) pick(all []string) string { return all[g.IntN(len(all))] }

func (g invented) name() string {
	if g.IntN(6) == 0 {
		return g.pick(oddNames)
	}
	return "k" + strconv.Itoa(g.IntN(7))
}

func (g invented) scalar() node {
	switch g.IntN(4) {
	case 0:
		return *digit(strconv.Itoa(g.IntN(100)))
	case 1:
		return *truth(strconv.FormatBool(g.IntN(2) == 0))
	}
	return *word(g.pick(oddTexts))
}

func (g invented) value(depth int) node {
	switch g.IntN(5 + depth) {
	case 0, 1:
		return g.object(depth + 1)
	case 2, 3:
		n := node{kind: list}
		for range g.IntN(4) {
			n.items = append(n.items, g.value(depth+2))
		}
		return n
	}
	return g.scalar()
}

func (g invented) object(depth int) node {
	n := node{kind: object}
	for range g.IntN(5) {
		if name := g.name(); !slices.Contains(n.names(), name) {
			n.fields = append(n.fields, field{name, g.value(depth)})
		}
	}
	return n
}

// changes makes operations on places that do and do not exist, none of them above another.
func (g invented) changes(root node) []op {
	var ops []op
	for range 1 + g.IntN(5) {
		var at []string
		for n := root; ; {
			name := g.name()
			switch {
			case n.kind == list:
				name = strconv.Itoa(g.IntN(len(n.items) + 1))
			case len(n.fields) > 0 && g.IntN(4) > 0:
				name = n.fields[g.IntN(len(n.fields))].name
			}
			at = append(at, name)
			next := child(n, name)
			if g.IntN(3) == 0 || next.kind != object && next.kind != list {
				break
			}
			n = next
		}
		if slices.ContainsFunc(ops, func(o op) bool {
			k := min(len(o.at), len(at))
			return slices.Equal(o.at[:k], at[:k])
		}) {
			continue
		}
		o := op{at: at}
		if g.IntN(5) > 1 {
			v := g.value(1)
			o.value = &v
		}
		ops = append(ops, o)
	}
	return ops
}

// tomlPage writes a value in many manners of TOML.
type tomlPage struct {
	invented
	nl       string
	sections []string
	eq       string
}

func (g *tomlPage) one() []byte { return g.page(func() node { return g.object(0) }) }

func (g *tomlPage) page(v func() node) []byte {
	g.nl = g.pick([]string{"\n", "\n", "\r\n"})
	g.eq = g.pick([]string{" = ", "=", "\t=  "})
	g.table(nil, v(), g.IntN(3) == 0)
	if g.IntN(3) == 0 {
		g.Shuffle(len(g.sections)-1, func(i, j int) { g.sections[i+1], g.sections[j+1] = g.sections[j+1], g.sections[i+1] })
	}
	all := strings.Join(g.sections, "")
	if g.IntN(6) == 0 {
		all += "[[tables]]" + g.nl + "a = 1" + g.nl + "[tables.sub]" + g.nl + "b = [" + g.nl + "[1]," + g.nl + "]" + g.nl + "[[tables]]" + g.nl
	}
	if g.IntN(4) == 0 {
		all = string(byteOrderMark) + all
	}
	if g.IntN(4) == 0 {
		all = strings.TrimRight(all, "\r\n")
	}
	if g.IntN(5) == 0 { // mixed newlines
		parts := strings.SplitAfter(all, "\n")
		for i := range parts {
			if g.IntN(3) == 0 {
				parts[i] = strings.TrimSuffix(parts[i], "\r\n") + strings.Repeat("\n", strings.Count(parts[i], "\r\n"))
			}
		}
		all = strings.Join(parts, "")
	}
	return []byte(all)
}

// table adds the section of a table, and those of what is in it.
func (g *tomlPage) table(path []string, v node, implicit bool) {
	at := len(g.sections)
	g.sections = append(g.sections, "")
	var b strings.Builder
	g.above(&b)
	if path != nil {
		pad := g.pick([]string{"", "", " "})
		b.WriteString(g.pick([]string{"", "", "  "}) + "[" + pad + strings.Join(path, g.pick([]string{".", ".", " . "})) + pad + "]")
		g.behind(&b)
	}
	rows, body := 0, g.pick([]string{"", "", "  "})
	for _, f := range v.fields {
		key := g.key(f.name)
		if f.value.kind == object && g.IntN(3) > 0 {
			g.table(append(slices.Clone(path), key), f.value, g.IntN(3) == 0)
			continue
		}
		g.above(&b)
		g.row(&b, body, key, f.value)
		rows++
	}
	if rows > 0 || path != nil && (!implicit || len(g.sections) == at+1) {
		g.sections[at] = b.String()
	}
}

func (g *tomlPage) above(b *strings.Builder) {
	for range g.IntN(3) {
		b.WriteString(g.pick([]string{"", g.nl, "# [a.b] \"\"\" '" + g.nl, "  # x = 1" + g.nl}))
	}
}

func (g *tomlPage) behind(b *strings.Builder) {
	b.WriteString(g.pick([]string{"", "", "", " ", " # c", "# ]"}) + g.nl)
}

func (g *tomlPage) row(b *strings.Builder, pad, key string, v node) {
	if v.kind == object && len(v.fields) > 0 && g.IntN(2) == 0 {
		for _, f := range v.fields {
			g.row(b, pad, key+g.pick([]string{".", ".", " . "})+g.key(f.name), f.value)
		}
		return
	}
	b.WriteString(pad + key + g.eq + g.write(v, true))
	g.behind(b)
}

func (g *tomlPage) key(name string) string {
	if !strings.ContainsAny(name, "'\n") && g.IntN(4) == 0 {
		return "'" + name + "'"
	}
	return tomlKey(name)
}

func (g *tomlPage) write(v node, lines bool) string {
	switch v.kind {
	case object:
		var all []string
		for _, f := range v.fields {
			key := g.key(f.name)
			if f.value.kind == object && len(f.value.fields) == 1 && g.IntN(2) == 0 {
				all = append(all, key+"."+g.key(f.value.fields[0].name)+g.eq+g.write(f.value.fields[0].value, lines))
				continue
			}
			all = append(all, key+g.eq+g.write(f.value, lines))
		}
		pad := g.pick([]string{"", " "})
		return "{" + pad + strings.Join(all, g.pick([]string{",", ", ", " , "})) + pad + "}"
	case list:
		var b strings.Builder
		b.WriteString("[")
		multi := lines && g.IntN(2) == 0
		for i, item := range v.items {
			if multi {
				b.WriteString(g.pick([]string{"", g.nl, g.nl + "  ", " # [" + g.nl}))
			}
			b.WriteString(g.write(item, lines))
			if multi && g.IntN(6) == 0 {
				b.WriteString(g.nl)
			}
			if i < len(v.items)-1 || g.IntN(4) == 0 {
				b.WriteString(",")
			}
		}
		if multi {
			b.WriteString(g.pick([]string{"", g.nl, " # ]" + g.nl, g.nl + "# ]" + g.nl}))
		}
		return b.String() + "]"
	case text:
		plain := !strings.ContainsFunc(v.text, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f || r == '\'' })
		switch g.IntN(4) {
		case 0:
			if plain && !strings.Contains(v.text, "\n") {
				return "'" + v.text + "'"
			}
		case 1:
			if plain && lines && g.nl == "\n" {
				return "'''" + g.pick([]string{"", g.nl}) + strings.Repeat(g.nl, min(strings.Count(v.text[:min(1, len(v.text))], "\n"), 1)) + strings.TrimPrefix(v.text, "\n") + "'''"
			}
		case 2:
			if lines {
				return `"""` + g.nl + strings.Trim(tomlText(v.text), `"`) + `\` + g.nl + "  " + `"""`
			}
		}
		return tomlText(v.text)
	case absent, number, boolean:
	}
	return v.text
}

func TestSpliceTOMLGenerated(t *testing.T) {
	generated(t, 10_000, dialect{format: TOML}, func(g invented) []byte { return (&tomlPage{invented: g}).one() })
}

// generated checks the changes of generated documents.
func generated(t *testing.T, n int, d dialect, write func(invented) []byte) {
	t.Helper()
	if raceOn {
		n /= 20
	}
	edited, refused := 0, map[string]int{}
	for i := range n {
		g := invented{rand.New(rand.NewPCG(4, uint64(i)))}
		data := write(g)
		root, err := d.parse(data)
		if err != nil {
			t.Fatalf("%d: the generator is wrong: %v\n%s", i, err, data)
		}
		ops := g.changes(root)
		if after, ok := checkSplice(t, d, data, ops); ok {
			edited++
			if spans, _ := d.splice(data, ops); !bytes.Equal(applySpans(after, inverse(data, spans)), data) {
				t.Errorf("%d: the inverse of %v gives something else", i, spans)
			}
		} else {
			_, err := d.splice(data, ops)
			refused[fmt.Sprint(err)]++
		}
		if t.Failed() {
			t.Fatalf("document %d:\n%s", i, data)
		}
	}
	t.Logf("%d edited; refused: %v", edited, refused)
	if edited < n/2 {
		t.Errorf("only %d of %d documents were edited: %v", edited, n, refused)
	}
}

func TestSpliceTOMLLarge(t *testing.T) {
	linear(t, dialect{format: TOML}.splice, func(size int) []byte {
		var b bytes.Buffer
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, "[projects.\"/home/ada/%d\"]\n# %s\ntrust_level = \"trusted\"\n\n", i, strings.Repeat("x", 4000))
		}
		b.WriteString("[mcp_servers.a]\ncommand = \"x\"\n")
		return b.Bytes()
	}, []op{set("mcp_servers/a/url", word("u")), del("mcp_servers/a/command"), set("mcp_servers/b", things("url", word("u")))})
}

// linear checks that a file of five times the size takes about five times as long.
func linear(t *testing.T, splice func([]byte, []op) ([]span, error), file func(size int) []byte, ops []op) {
	t.Helper()
	if raceOn {
		t.Skip("the race detector distorts times")
	}
	cost := func(size int) time.Duration {
		data := file(size)
		best := time.Hour
		for range 2 {
			start := time.Now()
			spans, err := splice(data, ops)
			best = min(best, time.Since(start))
			if err != nil || len(spans) == 0 {
				t.Fatal(err, spans)
			}
		}
		return best
	}
	small, big := cost(1<<20), cost(5<<20)
	t.Logf("1 MiB %v, 5 MiB %v", small, big)
	if big > 50*small+2*time.Second { // far from linear
		t.Errorf("1 MiB %v, 5 MiB %v", small, big)
	}
}

func FuzzSpliceTOML(f *testing.F) {
	for _, s := range []string{
		"", "[a]\nb = 1\n", "a.b.c = 1\r\n[a.d]\n", "a = { b.c = 1, d = [1,\n 2] }", "[[a]]\n[a.b]\nc = 1", "\xef\xbb\xbf# c\na = '''\n[b]\n'''",
		"[ 'a' . \"b\" ] # c\n# d\n[a]\n", "a = [ # c\n\n1, # d\n]", "a = 1e3\nb = 1979-05-27\nc = nan\n", "a = {\n b = 1, # c\n}\n",
	} {
		f.Add([]byte(s), uint64(0))
	}
	for i := range uint64(30) {
		f.Add((&tomlPage{invented: invented{rand.New(rand.NewPCG(5, i))}}).one(), i)
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) { fuzzed(t, dialect{format: TOML}, data, seed) })
}

// fuzzed checks changes of a document that may be anything.
func fuzzed(t *testing.T, d dialect, data []byte, seed uint64) {
	g := invented{rand.New(rand.NewPCG(6, seed))}
	root, err := d.parse(data)
	if err != nil {
		root = node{kind: object}
	}
	checkSplice(t, d, data, g.changes(root))
	at := []string{"mcp_servers", "a.b"}
	checkSplice(t, d, data, []op{{at: at, value: things("url", word(g.pick(oddTexts)), "env", things("A", word("1")))}})
	checkSplice(t, d, data, []op{{at: at}})
}
