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
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/fault"
)

// jsonText is a value as in a file.
func jsonText(t testing.TB, s string) *node {
	t.Helper()
	n, _, err := parseJSON([]byte(s), lenience{})
	if err != nil {
		t.Fatal(err)
	}
	return &n
}

func TestSpliceJSON(t *testing.T) {
	entry := `{"type":"http","url":"http://127.0.0.1:4000/servers/x/mcp"}`
	put := func(v string, at ...string) op { return op{at: at, value: jsonText(t, v)} }
	drop := func(at ...string) op { return op{at: at} }
	for name, tc := range map[string]struct {
		in, want string
		ops      []op
		lenient  lenience
	}{
		"last member": {
			in:   "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"x\"\n    }\n  }\n}\n",
			ops:  []op{put(entry, "mcpServers", "b")},
			want: "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"x\"\n    },\n    \"b\": {\n      \"type\": \"http\",\n      \"url\": \"http://127.0.0.1:4000/servers/x/mcp\"\n    }\n  }\n}\n",
		},
		"tabs, CRLF, no final newline": {
			in:   "{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {\"command\": \"x\"}\r\n\t}\r\n}",
			ops:  []op{put(`{"url":"u"}`, "mcpServers", "b")},
			want: "{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {\"command\": \"x\"},\r\n\t\t\"b\": {\"url\": \"u\"}\r\n\t}\r\n}",
		},
		"one line": {
			in:   `{"mcpServers":{"a":{"command":"x","args":["1","2"]}}}`,
			ops:  []op{put(`{"command":"y","args":["1","2"]}`, "mcpServers", "b")},
			want: `{"mcpServers":{"a":{"command":"x","args":["1","2"]},"b":{"command":"y","args":["1","2"]}}}`,
		},
		"one line with spaces": {
			in:   `{ "mcpServers": { "a": { "command": "x" } } }`,
			ops:  []op{put(`{"command":"y"}`, "mcpServers", "b")},
			want: `{ "mcpServers": { "a": { "command": "x" }, "b": {"command": "y"} } }`,
		},
		"trailing comma": {
			in:      "{\n  \"mcp\": {\n    \"a\": {}, // the first\n  },\n}\n",
			ops:     []op{put(`{}`, "mcp", "b")},
			want:    "{\n  \"mcp\": {\n    \"a\": {}, // the first\n    \"b\": {},\n  },\n}\n",
			lenient: anyJSON,
		},
		"comment at the end of the line": {
			in:      "{\n  \"a\": 1 // why\n  // the end\n}\n",
			ops:     []op{put(`2`, "b")},
			want:    "{\n  \"a\": 1, // why\n  \"b\": 2\n  // the end\n}\n",
			lenient: lenience{comments: true},
		},
		"byte order mark": {
			in: "\xef\xbb\xbf{}", ops: []op{put(`1`, "a")}, want: "\xef\xbb\xbf{\n  \"a\": 1\n}", lenient: anyJSON,
		},
		"empty file":   {in: "", ops: []op{put(`1`, "a", "b")}, want: "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n", lenient: anyJSON},
		"empty braces": {in: "{}\n", ops: []op{put(`{}`, "a", "b")}, want: "{\n  \"a\": {\n    \"b\": {}\n  }\n}\n"},
		"empty container": {
			in: "{\n\t\"x\": 1,\n\t\"m\": {}\n}", ops: []op{put(`{"u":1}`, "m", "b")},
			want: "{\n\t\"x\": 1,\n\t\"m\": {\n\t\t\"b\": {\n\t\t\t\"u\": 1\n\t\t}\n\t}\n}",
		},
		"null container": {in: `{"m":null}`, ops: []op{put(`1`, "m", "b")}, want: `{"m":{"b":1}}`},
		"container of comments": {
			in:      "{\n  // nothing yet\n}\n",
			ops:     []op{put(`1`, "a")},
			want:    "{\n  // nothing yet\n  \"a\": 1\n}\n",
			lenient: lenience{comments: true},
		},
		"first of three goes": {
			in: "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}", ops: []op{drop("a")}, want: "{\n  \"b\": 2,\n  \"c\": 3\n}",
		},
		"last of three goes": {
			in: "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}", ops: []op{drop("c")}, want: "{\n  \"a\": 1,\n  \"b\": 2\n}",
		},
		"last two go, a comment stays": {
			in:      "{\n  \"a\": 1,\n  // two\n  \"b\": 2,\n  \"c\": 3 /* three */\n}",
			ops:     []op{drop("b"), drop("c")},
			want:    "{\n  \"a\": 1\n  // two\n /* three */\n}",
			lenient: lenience{comments: true},
		},
		"all go":             {in: "{\n  \"m\": {\n    \"a\": 1\n  }\n}", ops: []op{drop("m", "a")}, want: "{\n  \"m\": {}\n}"},
		"all go on one line": {in: `{"a":1, "b":2}`, ops: []op{drop("a"), drop("b")}, want: `{}`},
		"middle on one line": {in: `{"a":1, "b":2, "c":3}`, ops: []op{drop("b")}, want: `{"a":1, "c":3}`},
		"another transport": {
			in: "{\n  \"a\": {\n    \"type\": \"stdio\",\n    \"command\": \"x\",\n    \"args\": [],\n    \"env\": {}\n  }\n}",
			ops: []op{
				put(`"http"`, "a", "type"), drop("a", "command"), drop("a", "args"), drop("a", "env"), put(`"u"`, "a", "url"),
			},
			want: "{\n  \"a\": {\n    \"type\": \"http\",\n    \"url\": \"u\"\n  }\n}",
		},
		"another transport, a field behind": {
			in:   "{\n  \"a\": {\n    \"command\": \"x\",\n    \"args\": [\n      \"1\"\n    ],\n    \"timeout\": 5\n  }\n}",
			ops:  []op{drop("a", "command"), drop("a", "args"), put(`"u"`, "a", "url")},
			want: "{\n  \"a\": {\n    \"timeout\": 5,\n    \"url\": \"u\"\n  }\n}",
		},
		"what says the same stays": {in: `{"a": { "x" :  "\u0041" } }`, ops: []op{put(`{"x":"A"}`, "a")}, want: `{"a": { "x" :  "\u0041" } }`},
		"item of a list":           {in: `{"a": ["x", "y", "z"]}`, ops: []op{put(`"Ü<>"`, "a", "1"), drop("a", "2")}, want: `{"a": ["x", "Ü<>"]}`},
		"duplicates go":            {in: `{"a":1,"b":2,"a":3}`, ops: []op{drop("a")}, want: `{"b":2}`},
		"duplicates but one go": {
			in: `{"a":1,"b":2,"a":3}`, ops: []op{drop("a"), put(`4`, "a")}, want: `{"b":2,"a":4}`,
		},
		"absent stays absent": {in: `{"a":1}`, ops: []op{drop("b"), drop("c", "d")}, want: `{"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			spans, err := dialect{format: JSON, lenient: tc.lenient}.splice([]byte(tc.in), tc.ops)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(applySpans([]byte(tc.in), spans))); diff != "" {
				t.Error(diff)
			}
			checkSplice(t, dialect{format: JSON, lenient: tc.lenient}, []byte(tc.in), tc.ops)
		})
	}
}

func TestSpliceJSONRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ in, code string }{
		"duplicate":           {`{"m":{"a":1,"a":2}}`, "duplicate-keys"},
		"duplicate container": {`{"m":{"a":1},"m":{}}`, "duplicate-keys"},
		"no object":           {`{"m":"text"}`, "wrong-type"},
		"comment":             {`{"m":{}} // no`, "config-broken"},
		"comma":               {`{"m":{},}`, "config-broken"},
		"mark":                {"\xef\xbb\xbf{}", "config-broken"},
		"not UTF-8":           {"{\"m\":{\"\xff\":1}}", "unsupported-file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dialect{format: JSON}.splice([]byte(tc.in), []op{{at: []string{"m", "a"}, value: &node{kind: text}}})
			if code := codeOf(err); code != tc.code {
				t.Errorf("got %q (%v), want %q", code, err, tc.code)
			}
		})
	}
}

// checkSplice applies operations and checks what holds for all of them: spans in order, the intended tree and nothing
// else, and nothing left to do.
func checkSplice(t testing.TB, d dialect, data []byte, ops []op) (after []byte, ok bool) {
	t.Helper()
	before, err := d.parse(data)
	spans, spliceErr := d.splice(data, ops)
	if spliceErr != nil {
		if codeOf(spliceErr) == "internal" {
			t.Errorf("%v\n%s", spliceErr, data)
		}
		return nil, false
	}
	if blank := len(bytes.TrimSpace(bytes.TrimPrefix(data, byteOrderMark))) == 0; err != nil && len(spans) > 0 && !blank {
		t.Errorf("a broken file was edited: %v\n%q", err, data)
		return nil, false
	}
	at := 0
	for _, s := range spans {
		if s.start < at || s.end < s.start || s.end > len(data) {
			t.Fatalf("spans %v of %d bytes", spans, len(data))
		}
		at = s.end
	}
	after = applySpans(data, spans)
	got, err := d.parse(after)
	if err != nil {
		t.Errorf("the result is broken: %v\nfrom %q\nto   %q\nby %v", err, data, after, show(ops))
		return nil, false
	}
	want := applied(before, ops)
	if !same(want, got) {
		t.Errorf("another tree\nfrom %q\nto   %q\nby %v", data, after, show(ops))
	}
	checkExcerpt(t, d, data, after, spans, ops)
	if slices.ContainsFunc(ops, func(o op) bool {
		up := lookup(before, o.at[:len(o.at)-1])
		return up.kind == list && (o.value == nil || child(up, o.at[len(o.at)-1]).kind == absent)
	}) {
		return after, true // items of lists have other numbers now
	}
	again, err := d.splice(after, ops)
	if err != nil || len(again) > 0 {
		t.Errorf("not idempotent: %v\nfrom %q\nto   %q\nand  %q\nby %v", err, data, after, applySpans(after, again), show(ops))
	}
	return after, true
}

func show(ops []op) []string {
	var all []string
	for _, o := range ops {
		v := "-"
		if o.value != nil {
			var b bytes.Buffer
			plainStyle.render(&b, *o.value, "", false)
			v = b.String()
		}
		all = append(all, strings.Join(o.at, ".")+"="+v)
	}
	return all
}

// manners writes JSON in many of them.
type manners struct {
	*rand.Rand
	l    lenience
	b    bytes.Buffer
	nl   string
	unit string
	wild bool // white space anywhere
}

func (g *manners) one() []byte {
	g.b.Reset()
	g.nl = []string{"\n", "\r\n"}[g.IntN(2)]
	g.unit = []string{"  ", "\t", "    ", " ", ""}[g.IntN(5)]
	g.wild = g.IntN(3) == 0
	if g.l.mark && g.IntN(4) == 0 {
		g.b.Write(byteOrderMark)
	}
	if g.l.empty && g.IntN(40) == 0 {
		return g.b.Bytes()
	}
	g.space(0)
	g.object(0, g.IntN(3) > 0)
	g.space(0)
	return bytes.Clone(g.b.Bytes())
}

func (g *manners) space(depth int) {
	if g.wild {
		for range g.IntN(3) {
			g.b.WriteString([]string{" ", "\t", g.nl, "\n", "  "}[g.IntN(5)])
		}
	}
	if g.l.comments && g.IntN(8) == 0 {
		if g.IntN(2) == 0 {
			g.b.WriteString("/* c, { \" */")
		} else {
			g.b.WriteString("// c } ] \"" + g.nl)
			g.b.WriteString(strings.Repeat(g.unit, depth))
		}
	}
}

func (g *manners) object(depth int, multi bool) { g.block(depth, multi, '{', '}', true) }

func (g *manners) block(depth int, multi bool, open, close byte, named bool) {
	g.b.WriteByte(open)
	n := g.IntN(5)
	for i := range n {
		if multi {
			g.b.WriteString(g.nl + strings.Repeat(g.unit, depth+1))
		}
		g.space(depth + 1)
		if named {
			writeString(&g.b, "k"+strconv.Itoa(g.IntN(9)))
			g.space(depth)
			g.b.WriteByte(':')
			if g.IntN(3) > 0 {
				g.b.WriteByte(' ')
			}
			g.space(depth)
		}
		g.value(depth+1, multi)
		g.space(depth)
		if i < n-1 || g.l.trailingCommas && g.IntN(3) == 0 {
			g.b.WriteByte(',')
			if !multi && g.IntN(2) == 0 {
				g.b.WriteByte(' ')
			}
		}
		g.space(depth)
	}
	if multi && n > 0 {
		g.b.WriteString(g.nl + strings.Repeat(g.unit, depth))
	}
	g.b.WriteByte(close)
}

func (g *manners) value(depth int, multi bool) {
	choice := g.IntN(9)
	if depth > 4 && choice > 4 {
		choice = 0
	}
	switch choice {
	case 0:
		g.b.WriteString(`"\u00fcnï \/ \n"`)
	case 1:
		g.b.WriteString(`"plain ☃ </script>"`)
	case 2:
		g.b.WriteString("-1.50e3")
	case 3:
		g.b.WriteString("true")
	case 4:
		g.b.WriteString("null")
	case 5, 6:
		g.block(depth, multi && g.IntN(3) > 0, '[', ']', false)
	default:
		g.object(depth, multi && g.IntN(4) > 0)
	}
}

// change makes operations on places that do and do not exist.
func (g *manners) change(root node) []op {
	var ops []op
	var taken [][]string
	for range 1 + g.IntN(4) {
		at, n := []string{}, root
		for {
			name := "k" + strconv.Itoa(g.IntN(9))
			if n.kind == object && len(n.fields) > 0 && g.IntN(3) > 0 {
				name = n.fields[g.IntN(len(n.fields))].name
			}
			if n.kind == list {
				name = strconv.Itoa(g.IntN(len(n.items) + 1))
			}
			at = append(at, name)
			next := child(n, name)
			if g.IntN(2) == 0 || len(at) > 4 || next.kind != object && next.kind != list {
				break
			}
			n = next
		}
		if slices.ContainsFunc(taken, func(old []string) bool {
			k := min(len(old), len(at))
			return slices.Equal(old[:k], at[:k])
		}) {
			continue
		}
		taken = append(taken, at)
		o := op{at: at}
		if g.IntN(2) == 0 {
			g.b.Reset()
			l := g.l
			g.l = lenience{}
			g.value(0, false)
			g.l = l
			if v, _, err := parseJSON(g.b.Bytes(), lenience{}); err == nil {
				o.value = &v
			}
		}
		ops = append(ops, o)
	}
	return ops
}

func TestSpliceJSONGenerated(t *testing.T) {
	seed := uint64(4)
	documents, edited := 10_000, 0
	if raceOn {
		documents = 500
	}
	for i := range documents {
		g := manners{Rand: rand.New(rand.NewPCG(seed, uint64(i)))}
		if i%2 == 0 {
			g.l = lenience{comments: true, trailingCommas: i%4 == 0, mark: true, empty: true}
		}
		data := g.one()
		d := dialect{format: JSONC, lenient: g.l}
		root, err := d.parse(data)
		if err != nil {
			t.Fatalf("%d: the generator is wrong: %v\n%q", i, err, data)
		}
		if _, ok := checkSplice(t, d, data, g.change(root)); ok {
			edited++
		}
		if t.Failed() {
			t.Fatalf("document %d", i)
		}
	}
	if edited < documents/2 {
		t.Errorf("only %d of the documents were edited", edited)
	}
}

func TestSpliceJSONLarge(t *testing.T) {
	large := func(n int) []byte {
		var b bytes.Buffer
		b.WriteString("{\n  \"projects\": {\n")
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, "    \"/home/ada/%d\": {\n      \"history\": [\"%s\"],\n      \"mcpServers\": {}\n    },\n", i, strings.Repeat("x", 100))
		}
		b.WriteString("    \"/last\": {}\n  }\n}\n")
		return b.Bytes()
	}
	ops := []op{{at: []string{"mcpServers", "a"}, value: jsonText(t, `{"type":"http"}`)}, {at: []string{"projects", "/home/ada/7", "mcpServers", "b"}, value: jsonText(t, `{}`)}}
	cost := func(n int) time.Duration {
		data := large(n)
		start := time.Now()
		spans, err := dialect{format: JSON}.splice(data, ops)
		took := time.Since(start)
		if err != nil || len(spans) != 2 {
			t.Fatal(err, spans)
		}
		return took
	}
	if raceOn {
		cost(1 << 20)
		return
	}
	small, big := cost(1<<20), cost(5<<20)
	t.Logf("1 MiB %v, 5 MiB %v", small, big)
	if big > 50*small+time.Second { // far from linear
		t.Errorf("1 MiB %v, 5 MiB %v", small, big)
	}
}

func FuzzSpliceJSON(f *testing.F) {
	for _, s := range []string{
		"{}", "", "{\"a\":{\"b\":1}}", "{\n  // c\n  \"a\": [1, 2,],\n}\n", "\xef\xbb\xbf{\"a\":null}", "{\"a\":1,\"a\":2}", "{\r\n\"a\":{/*x*/}\r\n}",
	} {
		f.Add([]byte(s), "a", "b", uint8(0))
	}
	f.Fuzz(func(t *testing.T, data []byte, first, second string, mode uint8) {
		if !utf8.ValidString(first) || !utf8.ValidString(second) {
			return
		}
		l := lenience{comments: mode&1 != 0, trailingCommas: mode&2 != 0, mark: mode&4 != 0, empty: mode&8 != 0}
		d := dialect{format: JSONC, lenient: l}
		value := node{kind: object, fields: []field{{"url", node{kind: text, text: second}}, {"args", node{kind: list, items: []node{{kind: text, text: first}}}}}}
		checkSplice(t, d, data, []op{{at: []string{first, second}, value: &value}})
		checkSplice(t, d, data, []op{{at: []string{first}, value: &value}})
		if first != second {
			checkSplice(t, d, data, []op{{at: []string{first, second}}, {at: []string{second}, value: &value}})
		}
	})
}

func codeOf(err error) string {
	if err == nil {
		return ""
	}
	return fault.From(err).Code
}
