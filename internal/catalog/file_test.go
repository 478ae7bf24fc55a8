package catalog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/catalog"
	"mcpx/internal/clientfile"
)

func readFile(t *testing.T, text string) catalog.File {
	t.Helper()
	doc, line, err := clientfile.ReadTOML([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return catalog.ReadFile("/c/a.toml", doc, line)
}

func TestReadFile(t *testing.T) {
	f := readFile(t, `
[servers.all]
title = "T"
notes = "N"
aliases = ["two"]
tags = ["x"]
profiles = ["work"]
command = "uvx"
args = ["a", "b"]
cwd_policy = "fixed"
cwd = "/d"
env_pass = ["HOME"]
direct = true
on_change = "keep"
sharing = "agent"
protocol = "legacy"
id_style = "int"
stateful = true
retry = "idempotent"
risk = "low"
pins = "strict"
limits = {start = "90s", call = "2m", max = "1h", idle = "never"}
[servers.all.env]
PLAIN = "text"
TOKEN = {ref = "cred:t"}
AUTH = {template = "Bearer {cred:t}"}

[servers.web]
url = "https://h/mcp"
transport = "sse"
headers.X-A = "1"
`)
	want := catalog.File{Path: "/c/a.toml", Entries: []catalog.FileEntry{
		{Name: "all", Line: 2, Server: catalog.Server{
			Name: "all", Title: "T", Notes: "N", Aliases: []string{"two"}, Tags: []string{"x"}, Profiles: []string{"work"},
			Stdio: &catalog.Stdio{
				Command: "uvx", Args: []string{"a", "b"}, CwdPolicy: catalog.CwdFixed, Cwd: "/d", EnvPass: []string{"HOME"},
				Env: map[string]catalog.Binding{"PLAIN": {Literal: "text"}, "TOKEN": {Ref: "cred:t"}, "AUTH": {Template: "Bearer {cred:t}"}},
			},
			Direct: true, OnChange: catalog.OnChangeKeep, Sharing: catalog.ShareAgent, Protocol: catalog.ProtocolLegacy, IDStyle: "int", Stateful: true,
			Retry: "idempotent", Risk: catalog.RiskLow, Pins: catalog.PinsStrict,
			Limits: catalog.Limits{Start: 90 * time.Second, Call: 2 * time.Minute, Max: time.Hour, Idle: -1},
		}},
		{Name: "web", Line: 28, Server: catalog.Server{
			Name: "web", Sharing: catalog.ShareSession,
			HTTP: &catalog.HTTP{URL: "https://h/mcp", Transport: catalog.TransportSSE, Headers: map[string]catalog.Binding{"X-A": {Literal: "1"}}},
		}},
	}}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Error(diff)
	}
}

// TestReadFileProblems: each line of a file names what is wrong, where, and what to do.
func TestReadFileProblems(t *testing.T) {
	const secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	for _, test := range []struct{ text, where, says, hint string }{
		{"x = 1", "line 1, x", `no key "x"`, "[servers.NAME]"},
		{"[server.a]\ncommand='x'", "line 1, server", `no key "server"`, `"servers"`},
		{"servers = 1", "line 1, servers", "no table", ""},
		{"\n[servers]\na = 1", "line 3, servers.a", "no table", "[servers.a]"},
		{"[[servers.a]]\ncommand='x'", "line 1, servers.a", "no table", ""},
		{"[servers.a]", "line 1, servers.a", "neither a command nor a url", `command = "PROGRAM"`},
		{"[servers.a]\ncommand='x'\nurl='https://h'", "line 3, servers.a.url", "not both", ""},
		{"[servers.a]\ncommand='x'\nheaders={}", "line 3, servers.a.headers", "a program has no url", "remove"},
		{"[servers.a]\nurl='https://h'\nargs=[]", "line 3, servers.a.args", "has no program", "remove"},
		{"[servers.a]\ncommand='x'\nargs='y'", "line 3, servers.a.args", "a list of texts", ""},
		{"[servers.a]\ncommand='x'\nargs=[1]", "line 3, servers.a.args", "a list of texts", ""},
		{"[servers.a]\ncommand=['x']", "line 2, servers.a.command", "a text in quotes", ""},
		{"[servers.a]\ncommand='x'\ndirect='yes'", "line 3, servers.a.direct", "true or false", ""},
		{"[servers.a]\ncommand='x'\nlifecycle='disabled'", "line 3, servers.a.lifecycle", "no key", "mcpx server disable"},
		{"[servers.a]\ncommand='x'\n[servers.a.limits]\ncal='1s'", "line 4, servers.a.limits.cal", "no key", `"call"`},
		{"[servers.a]\ncommand='x'\nlimits.call=5", "line 3, servers.a.limits.call", "a time in quotes", ""},
		{"[servers.a]\ncommand='x'\nlimits.idle='-1s'", "line 3, servers.a.limits.idle", `or "never"`, ""},
		{"[servers.a]\ncommand='x'\nlimits.call='48h'", "line 3, servers.a.limits.call", "not between", ""},
		{"[servers.a]\ncommand='x'\nsharing='globl'", "line 3, servers.a.sharing", "not one of", `"global"`},
		{"[servers.a]\ncommand='x y'", "line 2, servers.a.command", "a line for a shell", ""},
		{"[servers.a]\ncommand='x'\ncwd='d'", "line 3, servers.a.cwd", "no absolute path", ""},
		{"[servers.a]\ncommand='x'\nenv.A=1", "line 3, servers.a.env.A", "a text in quotes", ""},
		{"[servers.a]\ncommand='x'\nenv.A={reff='cred:x'}", "line 3, servers.a.env.A", "a text in quotes", ""},
		{"[servers.a]\ncommand='x'\nenv.A={ref='cred:x',template='{cred:y}'}", "line 3, servers.a.env.A", "a text in quotes", ""},
		{"[servers.a]\ncommand='x'\nenv.B='1'\nenv.A='" + secret + "'", "line 4, servers.a.env.A", "looks like a secret", `A = {ref = "cred:NAME"}`},
		{"[servers.a]\nurl='https://h'\nheaders.Authorization='Bearer " + secret + "'", "line 3, servers.a.headers.Authorization", "looks like a secret", "cred:NAME"},
		{"[servers.a]\nurl='https://u:p@h'", "line 2, servers.a.url", "user name or password", ""},
		{"[servers.a]\nurl='https://h'\nheaders.Host='x'", "line 3, servers.a.headers.Host", "set by mcpx itself", ""},
		{"[servers.'a b']\ncommand='x'", `line 1, servers."a b"`, "may hold only", `"a-b"`},
		{"[servers.a]\ncommand='x'\naliases=['a']", "line 3, servers.a.aliases", "the name itself", ""},
	} {
		good := "\n[servers.good]\ncommand = 'x'\n"
		if strings.HasPrefix(test.text, "servers =") { // there is no place for it
			good = ""
		}
		var bad []catalog.FileEntry
		for _, e := range readFile(t, test.text+good).Entries {
			if len(e.Problems) > 0 {
				bad = append(bad, e)
			} else if e.Name == "good" {
				good = ""
			}
		}
		if good != "" || len(bad) != 1 || len(bad[0].Problems) != 1 {
			t.Errorf("%s: the good entry is missing: %v; bad ones: %+v", test.text, good != "", bad)
			continue
		}
		p := bad[0].Problems[0]
		if p.Where() != "/c/a.toml, "+test.where || !strings.Contains(p.Text, test.says) || !strings.Contains(p.Hint, test.hint) {
			t.Errorf("%s: %s: %s (%s)", test.text, p.Where(), p.Text, p.Hint)
		}
		if strings.Contains(p.Text+p.Hint, secret) {
			t.Errorf("%s: the secret is told", test.text)
		}
		if !cmp.Equal(bad[0].Server, catalog.Server{}) {
			t.Errorf("%s: an entry with a problem has a server", test.text)
		}
	}
	// All that is wrong with an entry is told at once, in order.
	f := readFile(t, "[servers.a]\ncommand='x'\nzzz=1\nargs=2\n")
	if p := f.Entries[0].Problems; len(p) != 2 || p[0].Line != 3 || p[1].Line != 4 {
		t.Errorf("%+v", p)
	}
}
