package clientfile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// listed is a configuration of Continue.
const listed = `name: L
models:
  - name: stub
    roles: [chat]
mcpServers:
  # the first
  - name: a
    command: npx # run it
    args:
      - -y
      - x
    env:
      A: "1" # one
    connectionTimeout: 5
  - name: b
    url: http://h/
rules: []
`

func TestSpliceYAML(t *testing.T) {
	server := things("name", word("new"), "type", word("streamable-http"), "url", word("http://127.0.0.1:1/n"))
	long := things("name", word("new"), "command", word("npx"), "args", words("-y", "é\u2028\x7f\"\\\n", "yes"), "env", things("A", word("1"), "B", word("")))
	for _, c := range []spliceCase{
		{name: "route", ops: []op{del("mcpServers/0/command"), del("mcpServers/0/args"), del("mcpServers/0/env"), set("mcpServers/0/type", word("streamable-http")), set("mcpServers/0/url", word("http://h/"))}, in: listed, want: "name: L\nmodels:\n  - name: stub\n    roles: [chat]\nmcpServers:\n  # the first\n  - name: a\n    connectionTimeout: 5\n    type: streamable-http\n    url: http://h/\n  - name: b\n    url: http://h/\nrules: []\n"},
		{name: "first goes", ops: []op{del("mcpServers/0")}, in: listed, want: "name: L\nmodels:\n  - name: stub\n    roles: [chat]\nmcpServers:\n  - name: b\n    url: http://h/\nrules: []\n"},
		{name: "last goes", ops: []op{del("mcpServers/1")}, in: "mcpServers:\n  - name: a\n  # the second\n  - name: b\n    url: u\n    # args: []\n  # none other\nx: 1\n", want: "mcpServers:\n  - name: a\n  # none other\nx: 1\n"},
		{name: "all go", ops: []op{del("mcpServers/0"), del("mcpServers/1")}, in: "mcpServers: # mine\n- name: a\n- name: b\nx: 1\n", want: "mcpServers: [] # mine\nx: 1\n"},
		{name: "one more", ops: []op{set("mcpServers/2", server)}, in: listed, want: listed[:len(listed)-len("rules: []\n")] + "  - name: new\n    type: streamable-http\n    url: http://127.0.0.1:1/n\nrules: []\n"},
		{name: "one more, not indented", ops: []op{set("mcpServers/1", long)}, in: "mcpServers:\n-   name: a\n    args:\n    - \"1\"\n", want: "mcpServers:\n-   name: a\n    args:\n    - \"1\"\n-   name: new\n    command: npx\n    args:\n    - \"-y\"\n    - \"é\\u2028\\x7F\\\"\\\\\\n\"\n    - \"yes\"\n    env:\n      A: \"1\"\n      B: \"\"\n"},
		{name: "one more, blank lines between", ops: []op{set("mcpServers/2", things("name", word("new")))}, in: "mcpServers:\n  - name: a\n\n  - name: b\n\nx: 1\n", want: "mcpServers:\n  - name: a\n\n  - name: b\n\n  - name: new\n\nx: 1\n"},
		{name: "middle goes, blank lines between", ops: []op{del("mcpServers/1")}, in: "mcpServers:\n  - name: a\n\n  - name: b\n\n  - name: c\n", want: "mcpServers:\n  - name: a\n\n  - name: c\n"},
		{name: "empty list", ops: []op{set("mcpServers/0", server)}, in: "mcpServers: [] # none\nx: 1\n", want: "mcpServers: # none\n  - name: new\n    type: streamable-http\n    url: http://127.0.0.1:1/n\nx: 1\n"},
		{name: "null list", ops: []op{set("mcpServers", listOf(things("name", word("new"))))}, in: "mcpServers:   # none\nx:\n- 1\n", want: "mcpServers:   # none\n- name: new\nx:\n- 1\n"},
		{name: "null written", ops: []op{set("mcpServers", listOf(things("name", word("new"))))}, in: "mcpServers: ~ # none\n", want: "mcpServers: # none\n  - name: new\n"},
		{name: "absent list", ops: []op{set("mcpServers", listOf(long))}, in: "name: L\nroles: [a, b]\n", want: "name: L\nroles: [a, b]\nmcpServers:\n  - name: new\n    command: npx\n    args: [\"-y\", \"é\\u2028\\x7F\\\"\\\\\\n\", \"yes\"]\n    env:\n      A: \"1\"\n      B: \"\"\n"},
		{name: "empty file", ops: []op{set("mcpServers", listOf(things("name", word("new"))))}, in: "", want: "mcpServers:\n  - name: new\n"},
		{name: "comment only", ops: []op{set("mcpServers", listOf(things("name", word("new"))))}, in: "# mine", want: "# mine\nmcpServers:\n  - name: new"},
		{name: "marker only", ops: []op{set("mcpServers", listOf(things("name", word("new"))))}, in: "---\n# c\n", want: "---\nmcpServers:\n  - name: new\n# c\n"},
		{name: "empty mapping", ops: []op{set("mcpServers", listOf(things("name", word("new"))))}, in: "{}\n", want: "mcpServers:\n  - name: new\n"},
		{name: "empty mapping, indented", ops: []op{set("x", digit("1")), set("z", digit("2"))}, in: "\n {} # c\n", want: "\nx: 1\nz: 2 # c\n"},
		{name: "document marks", ops: []op{set("mcpServers/0/url", word("v")), set("x", digit("1"))}, in: "--- # c\nmcpServers:\n- url: u\n...\n", want: "--- # c\nmcpServers:\n- url: v\nx: 1\n...\n"},
		{name: "brackets", ops: []op{set("mcpServers/0/url", word("http://h:1/{a}")), del("mcpServers/0/command"), set("mcpServers/1", things("name", word("new"), "args", words("a, b", "c")))}, in: "{mcpServers: [{name: a, command: \"x\" }], x: 1}\n", want: "{mcpServers: [{name: a, url: \"http://h:1/{a}\" }, {name: new, args: [\"a, b\", c]}], x: 1}\n"},
		{name: "brackets in lines", ops: []op{del("mcpServers/0"), set("mcpServers/2", things("name", word("new")))}, in: "mcpServers: [\n  # first\n  {name: a}, # a\n  # second\n  {name: b} # b\n]\n", want: "mcpServers: [\n  # second\n  {name: b}, # b\n  {name: new}\n]\n"},
		{name: "like JSON", ops: []op{set("mcpServers/0/b", truth("true"))}, in: "{\n  \"mcpServers\": [\n    {\"a\":1}\n  ]\n}", want: "{\n  \"mcpServers\": [\n    {\"a\":1, \"b\": true}\n  ]\n}"},
		{name: "a colon without a value", ops: []op{set("b", digit("1"))}, in: "{a: }\n", want: "{a: , b: 1 }\n"},
		{name: "emptied in brackets", ops: []op{del("a/b"), del("c/0")}, in: "a: {b: 1}\nc: [ x, ]\n", want: "a: {}\nc: []\n"},
		{name: "first field goes", ops: []op{del("mcpServers/0/name")}, in: "mcpServers:\n  - name: a # c\n    url: u\n  - x\n", want: "mcpServers:\n  - url: u\n  - x\n"},
		{name: "first field goes, next has a comment", ops: []op{del("mcpServers/0/name")}, in: "mcpServers:\n  - name: a # c\n    # about url\n    url: u\n", want: "mcpServers:\n  -\n    # about url\n    url: u\n"},
		{name: "all fields replaced", ops: []op{set("mcpServers/0", things("b", digit("1"), "c", things("d", word("e"))))}, in: "mcpServers:\n  - name: a\n    url: u # c\nx: 1\n", want: "mcpServers:\n  - b: 1\n    c:\n      d: e\nx: 1\n"},
		{name: "all fields go", ops: []op{set("mcpServers/0", things())}, in: "mcpServers:\n  - name: a\n    url: u # c\nx: 1\n", want: "mcpServers:\n  - {}\nx: 1\n"},
		{name: "quotes stay", ops: []op{set("a", word("it's")), set("b", word("y")), set("c", word("z")), set("d", word("1")), set("e", word("tab\t"))}, in: "a: 'x' # 1\nb: \"x\" # 2\nc: x # 3\nd: x\ne: 'x'\n", want: "a: 'it''s' # 1\nb: \"y\" # 2\nc: z # 3\nd: \"1\"\ne: \"tab\\t\"\n"},
		{name: "texts in lines", ops: []op{set("a", word("z")), set("b", word("z")), set("c", word("z")), set("d", digit("1"))}, in: "a: |2-\n    x\n   y\n\n# about b\nb: x\n  y # no\nc: \"x\n\n  y\"\nd:\n  x\n", want: "a: z\n\n# about b\nb: z # no\nc: \"z\"\nd: 1\n"},
		{name: "texts outside stay", ops: []op{del("b"), set("m/z", digit("1"))}, in: "a: |+\n  # no comment\n  b: 1\n\nb: 2\nm:\n  t: >\n    x\n     y\n\n\nc: |\n  b: 3\n", want: "a: |+\n  # no comment\n  b: 1\n\nm:\n  t: >\n    x\n     y\n  z: 1\n\n\nc: |\n  b: 3\n"},
		{name: "carriage returns", ops: []op{set("mcpServers/0/url", word("v")), set("mcpServers/1", things("name", word("new"))), del("x")}, in: "mcpServers:\r\n  - name: a\r\nx: 1\r\n", want: "mcpServers:\r\n  - name: a\r\n    url: v\r\n  - name: new\r\n"},
		{name: "mark and runes", ops: []op{set("ö/ü", word("ß")), del("ä")}, in: "\xef\xbb\xbfä: x\nö: {é: \"ï\", ü: x}\n", want: "\xef\xbb\xbfö: {é: \"ï\", ü: ß}\n"},
		{name: "no final newline", ops: []op{del("b"), set("c", digit("1"))}, in: "a: 1\nb: 2", want: "a: 1\nc: 1"},
		{name: "no final newline, last goes", ops: []op{del("b")}, in: "a: 1\nb: 2", want: "a: 1"},
		{name: "value becomes a mapping", ops: []op{set("a", things("b", digit("1"))), set("c/d", digit("1")), set("l/0", things("e", digit("1")))}, in: "a: 1 # c\nc: # d\nl:\n  - x\n", want: "a: # c\n  b: 1\nc: # d\n  d: 1\nl:\n  - e: 1\n"},
		{name: "mapping becomes a value", ops: []op{set("a", word("x")), set("b", words()), set("c", words("x"))}, in: "a:\n  b: 1\nb:\n  - 1\nc:\n  d: 1\ne: 1\n", want: "a: x\nb: []\nc:\n  - x\ne: 1\n"},
		{name: "same again", ops: []op{set("a", word("x")), set("b/0", word("y")), del("q/r")}, in: "a: 'x'\nb:\n- y\n", want: "a: 'x'\nb:\n- y\n"},
		{name: "a comment close by", ops: []op{set("a", digit("9")), set("b", things("c", digit("1")))}, in: "a: ''#c\nb: ''#c\n", want: "a: 9 #c\nb: #c\n  c: 1\n"},
		{name: "anchors elsewhere", ops: []op{set("mcpServers/0/url", word("v")), del("mcpServers/1")}, in: "x: &x\n  a: 1\ny: *x\nz:\n  <<: *x\nmcpServers:\n  - url: u\n  - url: w\nt: !!str 1\n", want: "x: &x\n  a: 1\ny: *x\nz:\n  <<: *x\nmcpServers:\n  - url: v\nt: !!str 1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spans, err := dialect{format: YAML}.splice([]byte(c.in), c.ops)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(applySpans([]byte(c.in), spans))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestSpliceYAMLRefuses(t *testing.T) {
	for name, c := range map[string]struct{ in, code string }{
		"anchor":           {"m:\n  - url: &u x\nb: *u\n", "yaml-anchored"},
		"anchor of entry":  {"m:\n  - &a\n    url: x\nb: *a\n", "yaml-anchored"},
		"anchor of list":   {"m: &m\n  - url: x\nb: *m\n", "yaml-anchored"},
		"anchor of key":    {"m:\n  - &k url: x\n", "yaml-anchored"},
		"alias":            {"b: &b\n  url: x\nm:\n  - *b\n", "yaml-anchored"},
		"alias of list":    {"b: &b\n  - url: x\nm: *b\n", "yaml-anchored"},
		"alias below":      {"b: &b\n  url: x\nm:\n  - env: *b\n", "yaml-anchored"},
		"merge key":        {"b: &b\n  url: x\nm:\n  - <<: *b\n    c: d\n", "yaml-anchored"},
		"tag":              {"m:\n  - url: !!str x\n", "yaml-anchored"},
		"local tag":        {"m:\n  - url: !secret x\n", "yaml-anchored"},
		"plain tag":        {"m:\n  - url: ! x\n", "yaml-anchored"},
		"tag of nothing":   {"m:\n  - url: !!null\n", "yaml-anchored"},
		"tag in brackets":  {"m: [{url: !!str x}]\n", "yaml-anchored"},
		"explicit key":     {"m:\n  - ? url\n    : x\n", "unsupported-file"},
		"bare pair":        {"m: [url: x]\n", "yaml-anchored"},
		"no mapping":       {"m: text\n", "unsupported-file"},
		"list at the root": {"- a\n", "unsupported-file"},
		"twice":            {"m:\n  - url: x\n    url: y\n", "config-broken"},
		"tabs":             {"m:\n\t- url: x\n", "config-broken"},
		"two documents":    {"m: []\n---\n", "config-broken"},
		"UTF-16":           {"\xff\xfem\x00", "unsupported-file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dialect{format: YAML}.splice([]byte(c.in), []op{set("m/0/url", word("z"))})
			if code := codeOf(err); code != c.code {
				t.Errorf("got %q (%v), want %q", code, err, c.code)
			}
		})
	}
}
