package clientfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The values of the tests.
func word(s string) *node  { return &node{kind: text, text: s} }
func digit(s string) *node { return &node{kind: number, text: s} }
func truth(s string) *node { return &node{kind: boolean, text: s} }

func words(all ...string) *node {
	n := node{kind: list}
	for _, s := range all {
		n.items = append(n.items, *word(s))
	}
	return &n
}

func listOf(all ...*node) *node {
	n := node{kind: list}
	for _, item := range all {
		n.items = append(n.items, *item)
	}
	return &n
}

// things makes an object of names and values in turn.
func things(all ...any) *node {
	n := node{kind: object}
	for i := 0; i < len(all); i += 2 {
		n.fields = append(n.fields, field{all[i].(string), *all[i+1].(*node)})
	}
	return &n
}

func set(at string, v *node) op { return op{at: strings.Split(at, "/"), value: v} }
func del(at string) op          { return op{at: strings.Split(at, "/")} }

// viaURL turns the entry a into one that goes through a URL.
func viaURL() []op {
	return []op{del("mcp_servers/a/command"), del("mcp_servers/a/args"), del("mcp_servers/a/env"), set("mcp_servers/a/url", word("http://h/"))}
}

type spliceCase struct {
	name     string
	in, want string
	ops      []op
}

func TestSpliceTOML(t *testing.T) {
	url := things("url", word("u"))
	for _, c := range []spliceCase{
		{name: "table", ops: viaURL(), in: "[mcp_servers.a]\ncommand = \"npx\" # run it\n# the arguments\nargs = [\"x\"]\nenabled = false # off\n\n[mcp_servers.a.env]\nA = \"1\"\n\n[tui]\nx = 1\n", want: "[mcp_servers.a]\nenabled = false # off\nurl = \"http://h/\"\n\n[tui]\nx = 1\n"},
		{name: "scattered", ops: []op{del("mcp_servers/a")}, in: "[mcp_servers.a.env]\nA = \"1\"\n\n[tui]\nx = 1\n\n# about a\n[mcp_servers.a]\ncommand = \"npx\"\n\n[mcp_servers.b]\nurl = \"u\"\n\n[mcp_servers.a.tools.x]\napproval_mode = \"approve\"\n", want: "[tui]\nx = 1\n\n[mcp_servers.b]\nurl = \"u\"\n"},
		{name: "scattered, routed", ops: viaURL(), in: "[mcp_servers.a.env]\nA = \"1\"\n\n[tui]\nx = 1\n\n[mcp_servers.a]\ncommand = \"npx\"\n\n[mcp_servers.a.tools.x]\napproval_mode = \"approve\"\n", want: "[tui]\nx = 1\n\n[mcp_servers.a]\nurl = \"http://h/\"\n\n[mcp_servers.a.tools.x]\napproval_mode = \"approve\"\n"},
		{name: "quoted name", ops: []op{del("mcp_servers/a.b/env"), set("mcp_servers/a.b/command", word("y")), set("mcp_servers/a.b/http_headers", things("X-A", word("1")))}, in: "[mcp_servers.\"a.b\"]\ncommand = \"x\"\n[mcp_servers.\"a.b\".env]\nA = \"1\"\n[mcp_servers.a]\n", want: "[mcp_servers.\"a.b\"]\ncommand = \"y\"\n[mcp_servers.\"a.b\".http_headers]\nX-A = \"1\"\n[mcp_servers.a]\n"},
		{name: "literal name", ops: []op{set("mcp_servers/a.b/env", things("k ey", word("1")))}, in: "[ mcp_servers . 'a.b' ]\ncommand = 'x'\n", want: "[ mcp_servers . 'a.b' ]\ncommand = 'x'\n\n[mcp_servers.'a.b'.env]\n\"k ey\" = \"1\"\n"},
		{name: "dotted at the root", ops: viaURL(), in: "mcp_servers.a.command = \"npx\"\nmcp_servers . a . args = []\nmcp_servers.a.env.A = \"1\"\nmcp_servers.b.url = \"u\"\n[tui]\n", want: "mcp_servers.a.url = \"http://h/\"\nmcp_servers.b.url = \"u\"\n[tui]\n"},
		{name: "dotted below its container", ops: []op{set("mcp_servers/a/env/B", word("2")), set("mcp_servers/a/http_headers", things("H", word("x"), "I", things())), del("mcp_servers/a/command")}, in: "[mcp_servers]\na.command=\"npx\"\na.env.A=\"1\"\n", want: "[mcp_servers]\na.env.A=\"1\"\na.env.B=\"2\"\na.http_headers.H=\"x\"\na.http_headers.I={}\n"},
		{name: "dotted, a new sibling", ops: []op{set("mcp_servers/n", url)}, in: "mcp_servers.a.url = \"v\"\n\n[tui]\nx = 1\n", want: "mcp_servers.a.url = \"v\"\n\n[tui]\nx = 1\n\n[mcp_servers.n]\nurl = \"u\"\n"},
		{name: "inline", ops: viaURL(), in: "[mcp_servers]\na = { command = \"npx\", args = [\"x\"], enabled = true } # mine\nb = {url = \"u\"}\n", want: "[mcp_servers]\na = { enabled = true, url = \"http://h/\" } # mine\nb = {url = \"u\"}\n"},
		{name: "inline, a new sibling", ops: []op{set("mcp_servers/n", url)}, in: "[mcp_servers ]\na = {url=\"u\"}\n\n[tui]\n", want: "[mcp_servers ]\na = {url=\"u\"}\nn = { url = \"u\" }\n\n[tui]\n"},
		{name: "inline and tables, a new sibling", ops: []op{set("mcp_servers/n", url)}, in: "[mcp_servers ]\na = { url=\"u\" }\n\n[mcp_servers.b]\nurl = \"u\"\n", want: "[mcp_servers ]\na = { url=\"u\" }\n\n[mcp_servers.b]\nurl = \"u\"\n\n[mcp_servers.n]\nurl = \"u\"\n"},
		{name: "all inline", ops: []op{set("mcp_servers/n", url), del("mcp_servers/b"), set("mcp_servers/a/x", digit("20.0"))}, in: "mcp_servers = {a={url=\"u\"},b={}}\n", want: "mcp_servers = {a={url=\"u\", x=20.0},n={ url = \"u\" }}\n"},
		{name: "inline, emptied", ops: []op{del("mcp_servers/a/env/A")}, in: "[mcp_servers.a]\nenv = { A = \"1\" } # v\n", want: "[mcp_servers.a]\nenv = {} # v\n"},
		{name: "inline, filled", ops: []op{set("mcp_servers/a/env/A", word("1"))}, in: "[mcp_servers.a]\nenv = {}\n", want: "[mcp_servers.a]\nenv = { A = \"1\" }\n"},
		{name: "inline, dotted inside", ops: []op{set("mcp_servers/a/env/B", word("2")), del("mcp_servers/a/env/A"), del("mcp_servers/a/t")}, in: "mcp_servers.a = { env.A = \"1\", t = 1 }\n", want: "mcp_servers.a = { env.B = \"2\" }\n"},
		{name: "inline sibling of a new table", ops: []op{set("mcp_servers/a/http_headers", things("H", word("1")))}, in: "[mcp_servers.a]\nenv = { A = \"1\" }\n", want: "[mcp_servers.a]\nenv = { A = \"1\" }\nhttp_headers = { H = \"1\" }\n"},
		{name: "new sibling before others", ops: []op{set("mcp_servers/n", things("command", word("c"), "args", words("-y", "é\u2028\x7f\"\\\n"), "env", things("A", word("1"))))}, in: "# mine\nmodel = \"m\"\n\n[mcp_servers.a]\nurl = \"u\"\n\n[mcp_servers.a.env]\nA = \"1\"\n# B = 2\n\n# --- tui\n[tui]\nx = 1\n", want: "# mine\nmodel = \"m\"\n\n[mcp_servers.a]\nurl = \"u\"\n\n[mcp_servers.a.env]\nA = \"1\"\n# B = 2\n\n[mcp_servers.n]\ncommand = \"c\"\nargs = [\"-y\", \"é\u2028\\u007F\\\"\\\\\\n\"]\n\n[mcp_servers.n.env]\nA = \"1\"\n\n# --- tui\n[tui]\nx = 1\n"},
		{name: "new sibling without blank lines", ops: []op{set("mcp_servers/n", url)}, in: "[mcp_servers.a]\nurl = \"u\"\n[mcp_servers.b]\n  url = \"u\"\n[tui]\n", want: "[mcp_servers.a]\nurl = \"u\"\n[mcp_servers.b]\n  url = \"u\"\n[mcp_servers.n]\n  url = \"u\"\n[tui]\n"},
		{name: "absent container", ops: []op{set("mcp_servers/n/url", word("u"))}, in: "model = \"m\"\n", want: "model = \"m\"\n\n[mcp_servers.n]\nurl = \"u\"\n"},
		{name: "absent container, closing comment", ops: []op{set("mcp_servers/n/url", word("u"))}, in: "[tui]\nx = 1\n\n# bye\n\n\n", want: "[tui]\nx = 1\n\n# bye\n\n[mcp_servers.n]\nurl = \"u\"\n\n\n"},
		{name: "empty", ops: []op{set("mcp_servers/n", url)}, in: "", want: "[mcp_servers.n]\nurl = \"u\"\n"},
		{name: "mark only", ops: []op{set("mcp_servers/n", url)}, in: "\xef\xbb\xbf", want: "\xef\xbb\xbf[mcp_servers.n]\nurl = \"u\"\n"},
		{name: "only sub-tables", ops: []op{set("mcp_servers/a/url", word("u"))}, in: "[mcp_servers.a.env]\nA = \"1\"\n\n[tui]\n", want: "[mcp_servers.a.env]\nA = \"1\"\n\n[mcp_servers.a]\nurl = \"u\"\n\n[tui]\n"},
		{name: "carriage returns", ops: append(viaURL(), set("mcp_servers/n", url)), in: "[mcp_servers.a]\r\ncommand = \"npx\"\r\n\r\n[tui]\r\nx = 1\r\n", want: "[mcp_servers.a]\r\nurl = \"http://h/\"\r\n\r\n[mcp_servers.n]\r\nurl = \"u\"\r\n\r\n[tui]\r\nx = 1\r\n"},
		{name: "mixed newlines", ops: []op{set("mcp_servers/a/x", digit("1")), set("tui/y", digit("2"))}, in: "[mcp_servers.a]\r\nurl = \"u\"\n\n[tui]\nx = 1\r\n", want: "[mcp_servers.a]\r\nurl = \"u\"\nx = 1\n\n[tui]\nx = 1\r\ny = 2\r\n"},
		{name: "no final newline", ops: viaURL(), in: "[mcp_servers.a]\ncommand = \"npx\"", want: "[mcp_servers.a]\nurl = \"http://h/\""},
		{name: "no final newline, new table", ops: []op{set("mcp_servers/n", url)}, in: "[mcp_servers.a]\r\ncommand = \"npx\"", want: "[mcp_servers.a]\r\ncommand = \"npx\"\r\n\r\n[mcp_servers.n]\r\nurl = \"u\""},
		{name: "no final newline, last table goes", ops: []op{del("mcp_servers")}, in: "[tui]\nx = 1\n\n[mcp_servers.a]\ncommand = \"npx\"", want: "[tui]\nx = 1"},
		{name: "byte order mark", ops: viaURL(), in: "\xef\xbb\xbf[mcp_servers.a]\ncommand = \"ü\"\n", want: "\xef\xbb\xbf[mcp_servers.a]\nurl = \"http://h/\"\n"},
		{name: "byte order mark, first table goes", ops: []op{del("mcp_servers")}, in: "\xef\xbb\xbf[mcp_servers.a]\ncommand = \"ü\"\n\n[tui]\n", want: "\xef\xbb\xbf[tui]\n"},
		{name: "array lines that look like headers", ops: []op{del("mcp_servers/b"), set("mcp_servers/a/args/2", word("z"))}, in: "[mcp_servers.a]\nargs = [\n[\"x\"],\n\"[mcp_servers.b]\", # [mcp_servers.b]\n]\n\n[mcp_servers.b]\nurl = \"u\"\n", want: "[mcp_servers.a]\nargs = [\n[\"x\"],\n\"[mcp_servers.b]\", # [mcp_servers.b]\n\"z\",\n]\n"},
		{name: "multi-line strings", ops: []op{del("mcp_servers/b"), set("mcp_servers/a/x", digit("1"))}, in: "[mcp_servers.a]\nt = \"\"\"\n\n[mcp_servers.b]\n# no \"comment\"\n\n\"\"\"\nu = '''\n[mcp_servers.b]\n'''\n\n[mcp_servers.b]\nurl = '''x\n\n'''\n", want: "[mcp_servers.a]\nt = \"\"\"\n\n[mcp_servers.b]\n# no \"comment\"\n\n\"\"\"\nu = '''\n[mcp_servers.b]\n'''\nx = 1\n"},
		{name: "multi-line string replaced", ops: []op{set("a", word("x\ty"))}, in: "a = \"\"\"\nb = 1\n\"\"\" # c\n", want: "a = \"x\\ty\" # c\n"},
		{name: "literal quotes", ops: []op{set("a", word(`c:\x`)), set("b", word("it's"))}, in: "a = 'x'\nb = 'y'\n", want: "a = 'c:\\x'\nb = \"it's\"\n"},
		{name: "list in lines", ops: []op{set("a", words("connect", "x")), set("b/1", nil), set("c", words("1", "2", "3"))}, in: "a = [\n    \"x\", # first\n    \"y\",\n  ]\nb = [\n\"1\"\n# two\n,\"2\",\n\"3\"]\nc = [\n  \"1\", # one\n  \"2\" # two\n]\n", want: "a = [\n    \"connect\",\n    \"x\",\n  ]\nb = [\n\"1\"\n# two\n,\"3\"]\nc = [\n  \"1\", # one\n  \"2\", # two\n  \"3\"\n]\n"},
		{name: "list in lines, one goes", ops: []op{del("a/1"), del("b/1")}, in: "a = [\n  \"x\", # first\n  # about y\n  \"y\", # second\n  \"z\",\n]\nb = [\n  1,\n  2\n]\n", want: "a = [\n  \"x\", # first\n  \"z\",\n]\nb = [\n  1\n]\n"},
		{name: "list, emptied and filled", ops: []op{del("a/0"), del("b/0"), set("b/0", word("2")), set("c/0", truth("true")), set("d/0", things("k", digit("1")))}, in: "a = [1]\nb = [1, ]\nc = []\nd = [ # none\n]\n", want: "a = []\nb = [\"2\", ]\nc = [true]\nd = [{ k = 1 } # none\n]\n"},
		{name: "values of the root", ops: []op{set("n", digit("1"))}, in: "# about a\n[a]\nx = 1\n", want: "n = 1\n\n# about a\n[a]\nx = 1\n"},
		{name: "table to value and back", ops: []op{set("a/b", digit("1")), set("c/d", things("e", things("f", digit("1"))))}, in: "[a.b]\nx = 1\n\n[c]\nd = 1\n", want: "[a]\nb = 1\n\n[c]\nd = { e = { f = 1 } }\n"},
		{name: "array of tables kept", ops: []op{del("mcp_servers/a/x"), set("y", digit("1"))}, in: "[mcp_servers.a]\nx = 1\n\n[[mcp_servers.a.list]]\nx = 1\n[[mcp_servers.a.list]]\n[mcp_servers.a.list.t]\nx = 1\n", want: "y = 1\n\n[mcp_servers.a]\n\n[[mcp_servers.a.list]]\nx = 1\n[[mcp_servers.a.list]]\n[mcp_servers.a.list.t]\nx = 1\n"},
		{name: "array of tables goes", ops: []op{del("a")}, in: "[[a]]\nx = 1\n[[a.b]]\n[a.b.c]\nd = 1\n[c]\n", want: "[c]\n"},
		{name: "same again", ops: []op{set("a", words("x")), set("t", things("b", digit("1"))), del("q/r"), set("c", digit("20"))}, in: "a = ['x']\nc = 20.0\nt.b = 1\n", want: "a = ['x']\nc = 20.0\nt.b = 1\n"},
		{name: "removed and set again", ops: []op{del("t"), set("t/b", digit("2"))}, in: "[t] # c\nb = 1 # d\nc = 2\n", want: "[t] # c\nb = 2 # d\n"},
		{name: "last table goes", ops: []op{del("mcp_servers/a")}, in: "x = 1\n\n# a\n[mcp_servers.a]\nurl = \"u\"\n\n[tui]\n", want: "x = 1\n\n[mcp_servers]\n\n[tui]\n"},
		{name: "last dotted line goes", ops: []op{del("a/b/c")}, in: "a.b.c = 1\na.d = 1\n", want: "a.b = {}\na.d = 1\n"},
		{name: "times and numbers stay", ops: []op{set("x", digit("1e3"))}, in: "t = 1979-05-27T07:32:00Z\nh = 0xff\n", want: "t = 1979-05-27T07:32:00Z\nh = 0xff\nx = 1e3\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spans, err := dialect{format: TOML}.splice([]byte(c.in), c.ops)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(applySpans([]byte(c.in), spans))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
