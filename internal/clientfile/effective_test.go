package clientfile

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/secret"
)

// effective lists agent/name, state, and the command or URL of what counts.
func (h *home) effective() string {
	h.t.Helper()
	s := h.system()
	var lines []string
	for _, e := range s.Effective(s.Observe(testHub), testHub) {
		state := "+"
		if !e.Enabled {
			state = "-"
		}
		lines = append(lines, strings.Join(append([]string{state + string(e.Agent()) + "/" + e.Name, string(e.Command) + string(e.URL)}, e.Args...), " "))
	}
	return strings.Join(lines, "\n")
}

func TestEffectiveLayers(t *testing.T) {
	h := newHome(t)
	app := h.path("home/src/app")
	h.write("home/.claude.json", `{
		"mcpServers": {"a": {"command": "user", "args": ["1"]}, "b": {"command": "user"}, "c": {"command": "user"}, "off": {"command": "user"}},
		"projects": {
			"`+app+`": {"mcpServers": {"c": {"command": "local"}}, "disabledMcpServers": ["off"], "enabledMcpjsonServers": ["b", "c"]},
			"/elsewhere": {"mcpServers": {"a": {"command": "of another project"}}}
		}}`)
	h.write("home/src/app/.mcp.json", `{"mcpServers": {"a": {"command": "not approved"}, "b": {"command": "project"}, "c": {"command": "project"}}}`)
	h.write("home/.config/opencode/opencode.json", `{"mcp": {"x": {"type": "local", "command": ["user", "1"], "enabled": false}, "y": {"type": "local", "command": ["user"]}}}`)
	h.write("home/src/app/opencode.json", `{"mcp": {"x": {"enabled": true}, "y": {"type": "remote", "url": "http://h"}}}`)
	h.env["OPENCODE_CONFIG_CONTENT"] = named(openCodeDoc, "inline")
	h.write("home/.config/kilo/kilo.json", `{"mcp": {"k": {"type": "local", "command": ["user", "1"]}}}`)
	h.write("home/src/app/kilo.json", `{"mcp": {"k": {"enabled": false}}}`)
	h.write("home/.codex/config.toml", "[projects.\""+app+"\"]\ntrust_level = \"trusted\"\n"+named(codexDoc, "z")+"args = [\"1\"]\n")
	h.write("home/src/app/.codex/config.toml", "[mcp_servers.z]\nargs = [\"2\"]\n")
	h.write("home/.continue/config.yaml", "mcpServers:\n- {name: n, command: good}\n- {name: n}\n- {name: m, command: first}\n- {name: m, command: last}\n")
	h.write("home/.gemini/settings.json", `{"mcp": {"excluded": ["g"]}}`)
	h.write("home/src/app/sub/.gemini/settings.json", named(claudeDoc, "g"))
	want := strings.Join([]string{
		"+claude_code/a user 1", "+claude_code/b project", "+claude_code/c local", "-claude_code/off user",
		"+codex/z x 2", "-gemini/g x", "+opencode/x user 1", "+opencode/y http://h", "+opencode/inline x", "-kilo/k user 1", "+continue/n good", "+continue/m last",
	}, "\n")
	if d := cmp.Diff(want, h.effective()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestOffers(t *testing.T) {
	h := newHome(t)
	h.env = map[string]string{"TOK": "hunter2-token", "PASSED": "hunter2-passed"}
	h.write("home/.claude.json", `{"mcpServers": {
		"context7": {"command": "npx", "args": ["-y", "@upstash/context7-mcp"]},
		"docs": {"command": "npx", "args": ["docs"], "env": {"TOKEN": "hunter2-raw"}},
		"hub": {"type": "http", "url": "http://127.0.0.1:30000/servers/context7/mcp"},
		"ws": {"type": "ws", "url": "ws://h"}, "broken": {}, "unset": {"command": "x", "env": {"A": "${NOT_SET}"}},
		"h": {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${TOK}", "Accept": "text/plain", "X-Org": "acme", "X-Empty": ""}},
		"github.com/acme/fs": {"command": "./run", "args": ["--api-key", "hunter2-argument"]}
	}}`)
	h.write("home/.codex/config.toml", `
[mcp_servers.context7]
command = "npx"
args = ["-y", "@upstash/context7-mcp"]
[mcp_servers.docs]
command = "npx"
args = ["other-docs"]
env_vars = ["PASSED", "NOT_SET"]
[mcp_servers.off]
command = "x"
enabled = false
[mcp_servers.c7]
command = "npx"
args = ["-y", "@upstash/context7-mcp"]
[mcp_servers.gh]
url = "https://gh/mcp"
bearer_token_env_var = "TOK"
`)
	s := h.system()
	offers, skipped := s.Offers(s.Effective(s.Observe(testHub), testHub), []string{"h"})

	type offer struct {
		From   []Agent
		Server catalog.Server
	}
	got := map[string]offer{}
	for _, o := range offers {
		r := o.Run.Reveal()
		if r.Name != o.Name || r.Review != catalog.ReviewApproved || r.Sharing != catalog.ShareSession || r.Source != "observed" {
			t.Errorf("offer %s is %+v", o.Name, r)
		}
		r.Name, r.Review, r.Sharing, r.Source, r.Lifecycle = "", "", "", "", ""
		got[o.Name] = offer{o.Agents, r}
	}
	sub := h.path("home/src/app/sub")
	stdio := func(env map[string]string, command string, args ...string) catalog.Server {
		s := catalog.Server{Stdio: &catalog.Stdio{Command: command, Args: args, Cwd: sub, Env: map[string]catalog.Binding{}}}
		for name, v := range env {
			s.Stdio.Env[name] = catalog.Binding{Literal: v}
		}
		return s
	}
	http := func(url string, headers map[string]string) catalog.Server {
		s := catalog.Server{HTTP: &catalog.HTTP{URL: url, Transport: catalog.TransportStreamable, Headers: map[string]catalog.Binding{}}}
		for name, v := range headers {
			s.HTTP.Headers[name] = catalog.Binding{Literal: v}
		}
		return s
	}
	context7 := stdio(nil, "npx", "-y", "@upstash/context7-mcp")
	context7.Aliases = []string{"c7"} // the other name of an equal entry
	want := map[string]offer{
		"context7":           {[]Agent{Claude, Codex, Codex}, context7},
		"docs":               {[]Agent{Claude}, stdio(map[string]string{"TOKEN": "hunter2-raw"}, "npx", "docs")},
		"docs-codex":         {[]Agent{Codex}, stdio(map[string]string{"PASSED": "hunter2-passed"}, "npx", "other-docs")},
		"h-claude_code":      {[]Agent{Claude}, http("https://h/mcp", map[string]string{"Authorization": "Bearer hunter2-token", "X-Org": "acme"})},
		"github.com-acme-fs": {[]Agent{Claude}, stdio(nil, filepath.Join(sub, "run"), "--api-key", "hunter2-argument")},
		"gh":                 {[]Agent{Codex}, http("https://gh/mcp", map[string]string{"Authorization": "Bearer hunter2-token"})},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}

	codes := map[string]string{}
	for _, s := range skipped {
		f := fault.From(s.Err)
		codes[s.Name] = f.Code
		if f.Hint == "" || !strings.Contains(f.Message, s.Name) {
			t.Errorf("%s is skipped without a reason to act on: %v", s.Name, s.Err)
		}
	}
	wantCodes := map[string]string{"hub": "entry-routed", "ws": "entry-unsupported", "broken": "entry-broken", "unset": "credential-missing", "off": "entry-disabled"}
	if d := cmp.Diff(wantCodes, codes); d != "" {
		t.Errorf("skipped (-want +got):\n%s", d)
	}

	// The redactor knows every value that is a secret, in the form in which it is likely to be printed.
	var redactor secret.Redactor
	Redact(offers, &redactor)
	for _, line := range []string{"hunter2-raw", "Bearer hunter2-token", "token is hunter2-token.", "--api-key hunter2-argument"} {
		if out := redactor.Values(line); strings.Contains(out, "hunter2") {
			t.Errorf("%q is shown as %q", line, out)
		}
	}
}

func TestExpand(t *testing.T) {
	h := newHome(t)
	h.write("home/secret.txt", "  from home \n")
	h.write("conf/near.txt", "near")
	w := world{
		lookup: func(n string) (string, bool) {
			v, ok := map[string]string{"A": "1", "EMPTY": "", "DOLLAR": "$A"}[n]
			return v, ok
		},
		home: "/home/ada", folder: "/src",
		readFile: (&builder{sys: h.system(), entry: Entry{dir: h.path("conf")}}).readFile,
	}
	for _, tc := range []struct {
		expand expander
		in     string
		want   string // "!" an error
	}{
		{expandBraces, "a ${A} ${B:-d} ${A:-d} ${B:-} $A {env:A}", "a 1 d 1  $A {env:A}"},
		{expandBraces, "${EMPTY:-d}|${DOLLAR}", "|$A"},
		{expandBraces, "${B}", "!"},
		{expandDollar, "$A-${A}-${B:-d}-$B-$-$1-${", "1-1-d-$B-$-$1-${"},
		{expandDollar, "${B}", "!"},
		{expandDollar, "$DOLLAR ${DOLLAR}", "$A $A"},
		{expandPlain, "$A-${A}-${B:-d}-$B-$-$1-${}-$DOLLAR", "1-1-${B:-d}-$B-$-$1-${}-$A"},
		{expandPlain, "${B}", "!"},
		{expandEditor, "${env:A} ${userHome}/x ${workspaceFolder} $A {env:A}", "1 /home/ada/x /src $A {env:A}"},
		{expandEditor, "${env:B}", "!"},
		{expandEditor, "${input:t}", "!"},
		{expandSecrets, "${{ secrets.A }} ${{secrets.A}} ${A} $A", "1 1 ${A} $A"},
		{expandSecrets, "${{ secrets.B }}", "!"},
		{expandSecrets, "${{ inputs.A }}", "!"},
		{expandShell, "$A ${A} ${B:-d} $1 ${DOLLAR}", "1 1 d $1 $A"},
		{expandShell, "$B", "!"},
		{expandShell, "$(A)", "!"},
		{expandShell, "`A`", "!"},
		{expandUnknown, "plain $ {A}", "plain $ {A}"},
		{expandUnknown, "${A}", "!"},
		{expandCurly, "{env:A}{env:B} ${A} {file:~/secret.txt} {file:near.txt}", "1 ${A} from home near"},
		{expandCurly, "{file:none.txt}", "!"},
	} {
		got, err := tc.expand(tc.in, w)
		if err != nil {
			got = "!"
		}
		if got != tc.want {
			t.Errorf("%q becomes %q (%v), want %q", tc.in, got, err, tc.want)
		}
	}
}

func TestFreeName(t *testing.T) {
	used := map[string]bool{}
	long := strings.Repeat("n", 64)
	for range 30 {
		name := freeName(long, OpenCode, used)
		if used[name] || catalog.ValidName(name) != nil {
			t.Fatalf("name %q is taken or not valid", name)
		}
		used[name] = true
	}
}
