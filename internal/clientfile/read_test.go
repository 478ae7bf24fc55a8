package clientfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/converge"
)

func read(a Agent, doc string) Observed {
	return Read(Location{Agent: a, File: File{Path: "/f", Scope: ScopeUser}}, []byte(doc), testHub)
}

// TestBrokenFiles: what makes an agent refuse its file is a finding with a place (governance.md section 3.2, fatal
// inputs).
func TestBrokenFiles(t *testing.T) {
	const ok = `"a": {"command": "x"}`
	for name, tc := range map[string]struct {
		agent Agent
		doc   string
		want  string // code line:column text
	}{
		"claude comment":          {Claude, "{\n // c\n \"mcpServers\": {" + ok + "}}", "config-broken 2:2 invalid character '/'"},
		"claude trailing comma":   {Claude, "{\"mcpServers\": {\n" + ok + ",\n}}", "config-broken 3:1 invalid character '}'"},
		"claude cut":              {Claude, `{"mcpServers": {`, "config-broken 1:17 unexpected end"},
		"claude list":             {Claude, `[]`, "config-broken 1:1 the file holds no object"},
		"cline mark":              {Cline, "\xef\xbb\xbf{}", "config-broken 1:1 a byte order mark"},
		"cline empty":             {Cline, " \n", "config-broken 1:1 the file is empty"},
		"cline comment":           {Cline, `{/* c */}`, "config-broken 1:2 invalid character '/'"},
		"cline http":              {Cline, "{\"mcpServers\": {\n\"a\": {\"type\": \"http\", \"url\": \"http://h\"}}}", "config-broken 2:6 unknown-type"},
		"gemini trailing comma":   {Gemini, "{ // c\n \"a\": [1,]}", "config-broken 2:10 invalid character ']'"},
		"gemini mark":             {Gemini, "\xef\xbb\xbf{}", "config-broken 1:1 a byte order mark"},
		"gemini empty":            {Gemini, "", "config-broken 1:1 the file is empty"},
		"codex duplicate":         {Codex, "a = 1\na = 2\n", "config-broken 2:1 "},
		"codex syntax":            {Codex, "[mcp_servers.x\n", "config-broken 1:"},
		"codex both":              {Codex, "\n[mcp_servers.a]\ncommand = \"x\"\nurl = \"http://h\"\n", "config-broken 2:14 ambiguous-backend"},
		"codex neither":           {Codex, "[mcp_servers.a]\nenabled = true\n", "config-broken 1:14 missing-field"},
		"codex bearer":            {Codex, "[mcp_servers.a]\nurl = \"http://h\"\nbearer_token = \"x\"\n", "config-broken 1:14 inline-bearer-token"},
		"codex headers on stdio":  {Codex, "[mcp_servers.a]\ncommand = \"x\"\nhttp_headers = {A = \"1\"}\n", "config-broken 1:14 wrong-backend"},
		"codex type":              {Codex, "[mcp_servers.a]\ncommand = \"x\"\nargs = \"-y\"\n", "config-broken 1:14 wrong-type"},
		"opencode string command": {OpenCode, `{"mcp": {"a": {"type": "local", "command": "x"}}}`, "config-broken 1:15 wrong-type"},
		"opencode no type":        {OpenCode, `{"mcp": {"a": {"command": ["x"]}}}`, "config-broken 1:15 unknown-type"},
		"opencode other type":     {OpenCode, `{"mcp": {"a": {"type": "stdio", "command": ["x"]}}}`, "config-broken 1:15 unknown-type"},
		"qwen trailing comma":     {Qwen, "{\n\"a\": [1,]}", "config-broken 2:9 invalid character ']'"},
		"qwen empty":              {Qwen, "", "config-broken 1:1 the file is empty"},
		"droid trailing comma":    {Droid, "{\"mcpServers\": {" + ok + ",}}", "config-broken 1:39 invalid character '}'"},
		"droid mark":              {Droid, "\xef\xbb\xbf{}", "config-broken 1:1 a byte order mark"},
		"droid empty":             {Droid, "\n", "config-broken 1:1 the file is empty"},
		"cursor comment":          {Cursor, "{ // c\n}", "config-broken 1:3 invalid character '/'"},
		"crush comment":           {Crush, "{ // c\n}", "config-broken 1:3 invalid character '/'"},
		"too deep":                {OpenCode, `{"a": ` + strings.Repeat("[", 20000), "config-broken 1:10006 invalid character '[' exceeded max depth"},
	} {
		t.Run(name, func(t *testing.T) {
			o := read(tc.agent, tc.doc)
			if len(o.Problems) != 1 {
				t.Fatalf("problems %v, want one", o.Problems)
			}
			p := o.Problems[0]
			if got := fmt.Sprintf("%s %d:%d %s", p.Code, p.Line, p.Column, p.Text); !strings.HasPrefix(got, tc.want) {
				t.Errorf("%q, want it to start with %q", got, tc.want)
			}
		})
	}
	for name, tc := range map[string]struct {
		agent Agent
		doc   string
	}{
		"claude mark": {Claude, "\xef\xbb\xbf{\"mcpServers\": {" + ok + "}}"}, "claude empty": {Claude, ""},
		"gemini comments":   {Gemini, "{ // c\n /* \" */ \"mcpServers\": {" + ok + "} // \n}"},
		"opencode anything": {OpenCode, "\xef\xbb\xbf{ // c\n \"mcp\": {\"a\": {\"type\": \"local\", \"command\": [\"x\",],},},}"},
		"codex mark":        {Codex, "\xef\xbb\xbf[mcp_servers.a]\ncommand = \"x\"\n"}, "codex empty": {Codex, ""},
	} {
		if o := read(tc.agent, tc.doc); len(o.Problems) > 0 {
			t.Errorf("%s: problems %v, want none", name, o.Problems)
		}
	}
}

// TestOneBadEntry: a broken entry is named, and the others are read.
func TestOneBadEntry(t *testing.T) {
	for name, tc := range map[string]struct {
		agent Agent
		doc   string
		want  string
	}{
		"claude": {Claude, `{"mcpServers": {
			"none": {}, "number": 5, "null": null, "url only": {"url": "http://h"}, "type": {"type": "carrier-pigeon", "url": "http://h"},
			"args": {"command": "x", "args": [1]}, "env": {"command": "x", "env": {"A": {}}}, "no url": {"type": "sse"},
			"good": {"command": "x"}, "good": {"command": "y"}}}`, `none on   broken missing-field:command
number on   broken wrong-type:
null on   broken wrong-type:
url only on   broken type-missing:type
type on   broken unknown-type:type
args on   broken wrong-type:args
env on   broken wrong-type:env.A
no url on   broken missing-field:url
good on stdio none complete`},
		"codex": {
			Codex, "[mcp_servers.a]\ncommand = 5\n[mcp_servers.b]\ncommand = \"x\"\nenv_vars = [\"A\", {name = \"B\"}]\n[mcp_servers.c]\ncommand = \"x\"\nenv_vars = [1]\n",
			"a on   broken wrong-type:command missing-field:command\nb on stdio none complete\nc on   broken wrong-type:env_vars",
		},
		"gemini": {
			Gemini, `{"mcpServers": {"a": {"args": []}, "b": {"command": "x", "disabled": true, "env": {"N": 5, "B": true}}}}`,
			"a on   broken missing-field:command\nb on stdio none extra ineffective-field:disabled",
		},
		"gemini allowed": {
			Gemini, `{"mcp": {"allowed": ["b"], "excluded": ["c"]}, "mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}, "c": {"command": "x"}}}`,
			"a off stdio none complete\nb on stdio none complete\nc off stdio none complete",
		},
		"cline": {
			Cline, `{"mcpServers": {"a": {"transport": {"type": "stdio", "command": "x", "odd": 1, "env": {"TOKEN": "hunter2"}}, "strange": 2}, "b": {"transport": 5}, "c": {"disabled": "yes", "command": "x"}}}`,
			"a on stdio none extra raw-secret:transport.env.TOKEN unknown-field:strange unknown-field:transport.odd\nb on   broken missing-field:command\nc on   broken wrong-type:disabled",
		},
		"opencode": {
			OpenCode, `{"mcp": {"servers": {"x": {"type": "local", "command": ["x"], "disabled": true}}, "y": {"enabled": false}, "z": {"type": "remote", "url": "http://h", "oauth": {}}}}`,
			"x off stdio none complete\ny off  none complete\nz on http oauth complete",
		},
		"container": {Claude, `{"mcpServers": []}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := summary(read(tc.agent, tc.doc))
			got = strings.ReplaceAll(got, " on  none broken", " on   broken") // a broken entry has no transport
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	if o := read(Claude, `{"mcpServers": []}`); len(o.Problems) != 1 || o.Problems[0].Code != "wrong-type" {
		t.Errorf("a list in place of the container gives %v", o.Problems)
	}
}

func TestRouted(t *testing.T) {
	for url, want := range map[string]string{
		"http://127.0.0.1:30000/servers/context7/mcp":   "routed context7 http",
		"http://127.0.0.1:30000/servers/alias/mcp":      "routed-alias alias http",
		"http://localhost:30000/servers/context7/mcp":   "routed-spelling context7 http",
		"http://[::1]:30000/servers/context7/mcp/":      "routed-spelling context7 http",
		"http://127.0.0.1:30001/servers/context7/mcp":   "routed-stale-port context7 http",
		"http://127.0.0.1:30000/servers/unknown/mcp":    "routed-unknown unknown http",
		"http://127.0.0.1:4000/servers/unknown/mcp":     "routed-foreign unknown http",
		"http://127.0.0.1:30000/servers/a/b/mcp":        "",
		"http://127.0.0.1:30000/mcp":                    "",
		"http://example.com:30000/servers/context7/mcp": "",
	} {
		got := ""
		if r := testHub.recognise(url); r != nil {
			got = fmt.Sprintf("%s %s %s", r.State, r.Server, r.Form)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
	for line, want := range map[string]string{
		"mcpx connect x": "x", "/a/b/mcpx connect --agent codex x": "x", "env A=1 mcpx connect --agent=codex x --verbose": "x",
		"mcpx connect": "", "mcpx server x": "", "npx mcpx connect x": "", "mcpx": "", "env": "", "env A=1": "", "mcpx connect --agent": "",
	} {
		argv := strings.Fields(line)
		if got, _ := testHub.bridged(argv[0], argv[1:]); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	renamed := Hub{Program: "/opt/bin/gateway", Wrote: []string{"/old/bin/mcp-gw"}}
	for line, want := range map[string]string{
		"/opt/bin/gateway connect x": "x", "gateway connect --agent codex x": "x", "env A=1 /home/gateway connect x": "x", "/old/bin/mcp-gw connect x": "x",
		"/opt/bin/mcpx connect x": "x", "mcp-gw connect x": "", "/opt/bin/gateway serve x": "", "/new/bin/mcp-gw connect x": "", "gateway2 connect x": "",
	} {
		argv := strings.Fields(line)
		if got, _ := renamed.bridged(argv[0], argv[1:]); got != want {
			t.Errorf("with another name: %s: %q, want %q", line, got, want)
		}
	}
	o := read(Cline, `{"mcpServers": {"a": {"disabled": true, "command": "mcpx", "args": ["connect", "context7"]}}}`)
	if r := o.Entries[0].Routed; r == nil || r.State != converge.RoutedDisabled {
		t.Errorf("a disabled route is %v", r)
	}
}

func TestParseAgent(t *testing.T) {
	for s, want := range map[string]Agent{"claude-code": Claude, "claude_code": Claude, "Codex": Codex} {
		if got, err := ParseAgent(s); got != want || err != nil {
			t.Errorf("%s: %s, %v", s, got, err)
		}
	}
	if _, err := ParseAgent("gemni"); err == nil || !strings.Contains(err.Error(), "gemni") {
		t.Errorf("a misspelt agent gives %v", err)
	}
}

// The fuzz targets: no reader panics, and every observation can be encoded and says why an entry has no transport.
func fuzz(f *testing.F, a Agent, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	sys := System{Home: "/home/ada", Project: "/home/ada/src", Lookup: func(n string) (string, bool) { return "v", n == "V" }}
	f.Fuzz(func(t *testing.T, data []byte) {
		o := Read(Location{Agent: a, File: File{Scope: ScopeUser}}, data, testHub)
		for _, e := range o.Entries {
			if (e.Parse == Broken) != (e.def == nil) {
				t.Errorf("entry %q is %s, its definition is there: %t", e.Name, e.Parse, e.def != nil)
			}
			if e.Parse == Broken && len(e.Problems) == 0 {
				t.Errorf("entry %q is broken without a reason", e.Name)
			}
		}
		sys.Offers(sys.Effective([]Observed{o, o}, testHub), nil)
	})
}

func FuzzClaude(f *testing.F) {
	fuzz(f, Claude, `{"projects": {"/p": {"mcpServers": {"a": {"command": "${V:-x}"}}, "disabledMcpServers": ["a"]}}, "mcpServers": {"b": {"type": "sse", "url": "u"}}}`)
}

func FuzzCodex(f *testing.F) {
	fuzz(f, Codex, "[mcp_servers.\"a.b\"]\ncommand = \"x\"\nargs = [\"-y\"]\n[mcp_servers.\"a.b\".env]\nA = 1979-05-27\n", "[mcp_servers]\na = {url = \"http://h\", http_headers = {X = \"1\"}}\n[[x]]\n")
}

func FuzzGemini(f *testing.F) {
	fuzz(f, Gemini, `{ // c`+"\n"+`"mcp": {"excluded": ["a"], "allowed": ["b"]}, "mcpServers": {"a": {"httpUrl": "$V"}, "b": {"command": "x", "env": {"A": "${V}$"}}}}`)
}

func FuzzQwen(f *testing.F) {
	fuzz(f, Qwen, `{"mcp": {"excluded": ["a"]}, "mcpServers": {"a": {"url": "$V", "type": "http"}, "b": {"httpUrl": "http://h", "headers": {"A": "${V}$"}}}}`)
}

func FuzzCopilot(f *testing.F) {
	fuzz(f, Copilot, `{"disabledMcpServers": ["a"], "mcpServers": {"a": {"type": "local", "command": "x", "tools": ["*"], "env": {"A": "${V}"}}, "b": {"type": "http", "url": "http://h", "headers": {"A": "${V}"}}}}`)
}

func FuzzDroid(f *testing.F) {
	fuzz(f, Droid, `{"mcpServers": {"a": {"type": "stdio", "command": "x", "disabled": true}, "b": {"type": "sse", "url": "http://h", "oauth": false}}}`)
}

func FuzzContinue(f *testing.F) {
	fuzz(f, Continue, "mcpServers:\n- &a {name: a, command: x, env: {A: '${{ secrets.V }}'}}\n- *a\n- name: h\n  url: http://h\n  apiKey: k\n  requestOptions: {headers: {A: 1}, x: 2}\n",
		"a: &a [*a]\n", "mcpServers: 5\n---\n", "%YAML 1.2\n--- !!map\n? [x]\n: |\n  y\n")
}

func FuzzAmp(f *testing.F) {
	fuzz(f, Amp, `{"amp.mcpServers": {"a": {"command": "x", "includeTools": ["t"]}, "b": {"url": "http://h", "headers": {"A": "$V"}},}}`)
}

func FuzzVSCode(f *testing.F) {
	fuzz(f, VSCode, `{"inputs": [], "servers": {"a": {"command": "${userHome}/x", "args": ["${workspaceFolder}", "${env:V}", "${input:i}"], "envFile": "e"}, "b": {"url": "http://h"}}}`)
}

func FuzzCrush(f *testing.F) {
	fuzz(f, Crush, `{"mcp": {"a": {"type": "stdio", "command": "$V", "args": ["$(x)", "${V:-d}"], "disabled_tools": ["t"]}, "b": {"type": "http", "url": "http://h"}}}`)
}

func FuzzCline(f *testing.F) {
	fuzz(f, Cline, `{"mcpServers": {"a": {"transport": {"type": "streamableHttp", "url": "http://h", "x": 1}}, "b": {"url": "http://h", "disabled": true}}}`)
}

func FuzzOpenCode(f *testing.F) {
	fuzz(f, OpenCode, `{"mcp": {"servers": {"a": {"type": "local", "command": ["x"], "disabled": true}}, "b": {"type": "remote", "url": "{env:V}", /* c */ "headers": {"A": "{file:x}"}}, "c": {"enabled": false},},}`)
}
