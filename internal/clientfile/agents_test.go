package clientfile

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/fault"
)

// TestEntries: how each agent of the second wave understands an entry. The lines are those of summary.
func TestEntries(t *testing.T) {
	for name, tc := range map[string]struct {
		agent Agent
		doc   string
		want  string
	}{
		"kilo": {
			Kilo, "\xef\xbb\xbf{ // c\n" + `"mcp": {"servers": {"a": {"type": "local", "command": ["x"], "disabled": true}}, "b": {"type": "remote", "url": "http://h", "odd": 1,},},}`,
			"a off stdio none complete\nb on http none extra unknown-field:odd",
		},
		"qwen": {
			Qwen, "\xef\xbb\xbf{ // c\n" + `"mcp": {"excluded": ["off"]}, "mcpServers": {
				"url": {"url": "http://h/sse", "type": "http"}, "sse": {"url": "http://h/sse", "type": "sse"},
				"both": {"url": "http://h/sse", "httpUrl": "http://h/mcp"}, "off": {"command": "x", "disabled": false, "discoveryTimeoutMs": 5},
				"none": {"timeout": 5}, "odd": {"command": "x", "cwd": "/", "strange": {}}}}`,
			`url on sse none extra ineffective-field:type
sse on sse none complete
both on http none complete
off off stdio none extra ineffective-field:disabled
none on  none broken missing-field:command
odd on stdio none extra unknown-field:strange`,
		},
		"copilot": {
			Copilot, "{ // c\n" + `"mcpServers": {
				"none": {"command": "x", "tools": []}, "all": {"type": "stdio", "command": "x", "tools": ["*"], "cwd": "/w", "timeout": 1, "odd": 1},
				"untyped": {"url": "http://h"}, "other": {"type": "remote", "url": "http://h"}, "tools": {"command": "x", "tools": "*"},},}`,
			`none on stdio none complete
all on stdio none extra unknown-field:odd
untyped on  none broken type-missing:type
other on  none broken unknown-type:type
tools on  none broken wrong-type:tools`,
		},
		"droid": {
			Droid, "{ // c\n" + `"mcpServers": {
				"off": {"type": "stdio", "command": "x", "disabled": true, "cwd": "/"}, "oauth": {"type": "http", "url": "http://h", "oauth": {"clientId": "x"}},
				"untyped": {"url": "http://h"}, "empty": {}, "number": 5, "wrong": {"command": "x", "disabled": "true"}}}`,
			`off off stdio none extra unknown-field:cwd
oauth on http oauth complete
untyped on  none broken type-missing:type
empty on  none broken missing-field:command
number on  none broken wrong-type:
wrong on  none broken wrong-type:disabled`,
		},
		"continue": {
			Continue, "name: x\nmcpServers:\n" +
				"- &a {name: s, command: x, args: [y, '1'], cwd: /w, env: {A: 1, B: true, C: null, D: 2026-01-01}, <<: {odd: 1}}\n" +
				"- *a\n" +
				"- {name: h, type: streamable-http, url: http://h, apiKey: \"${{ secrets.K }}\", connectionTimeout: 5, requestOptions: {verifySsl: false, headers: {X: y}}}\n" +
				"- {name: k, type: sse, url: http://h, apiKey: hunter2}\n" +
				"- {name: u, url: http://h}\n" +
				"- {uses: acme/block}\n- just text\n- {name: t, type: ws, url: ws://h}\n- {name: o, url: http://h, requestOptions: 5}\n- {name: p, url: http://h, requestOptions: {headers: [1]}}\n- {name: q}\n- {name: r, command: [x]}\n",
			`s on stdio none extra unknown-field:<<
s on stdio none extra unknown-field:<<
h on http header-template extra unknown-field:requestOptions.verifySsl
k on sse header-literal complete raw-secret:apiKey
u on http none complete
mcpServers[5] on  none broken missing-field:name missing-field:command
mcpServers[6] on  none broken wrong-type:
t on  none broken unknown-type:type
o on  none broken wrong-type:requestOptions
p on  none broken wrong-type:requestOptions.headers
q on  none broken missing-field:command
r on  none broken wrong-type:command missing-field:command`,
		},
		"amp": {
			Amp, `{"mcpServers": {"elsewhere": {}}, "amp.mcpServers": {"u": {"url": "https://h?api_key=hunter2", "type": "sse"}, "p": {"command": "x", "includeTools": ["a"]}}}`,
			"u on http none extra raw-secret:url unknown-field:type\np on stdio none complete",
		},
		"auggie": {
			Auggie, `{"mcpServers": {"u": {"url": "http://h"}, "h": {"type": "http", "url": "http://h"}, "n": {"type": "sse"}}}`,
			"u on  none broken type-missing:type\nh on http none complete\nn on  none broken missing-field:url",
		},
		"cursor": {
			Cursor, `{"mcpServers": {"h": {"url": "http://h", "headers": {"Authorization": "Bearer ${env:TOK}"}, "auth": {}}, "s": {"command": "x", "envFile": ".env", "env": {"API_KEY": "hunter2"}, "odd": []}}}`,
			"h on http header-template complete\ns on stdio none extra raw-secret:env.API_KEY unknown-field:odd",
		},
		"vscode": {
			VSCode, `{"inputs": [{"id": "tok"}], "servers": {"h": {"type": "http", "url": "http://h", "headers": {"X-Token": "${input:tok}"}}, "s": {"command": "x", "cwd": "/", "dev": {}, "envFile": "e"}, /* c */ "ws": {"type": "ws", "url": "ws://h"},},}`,
			"h on http header-template complete\ns on stdio none complete\nws on  none broken unknown-type:type",
		},
		"crush": {
			Crush, `{"mcp": {"s": {"type": "stdio", "command": "x", "disabled": true, "disabled_tools": ["a"], "timeout": 5}, "h": {"type": "http", "url": "http://h", "odd": 1}, "u": {"url": "http://h"}}}`,
			"s off stdio none complete\nh on http none extra unknown-field:odd\nu on  none broken type-missing:type",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := read(tc.agent, tc.doc)
			if len(o.Problems) > 0 {
				t.Errorf("problems %v", o.Problems)
			}
			if d := cmp.Diff(tc.want, summary(o)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestQwenApprovals: a project's server counts after the user agreed to exactly this definition. The hash was computed
// with Qwen Code's own method.
func TestQwenApprovals(t *testing.T) {
	h := newHome(t)
	h.env["V"] = "v"
	entry := `{"httpUrl": "http://h/$V", "description": "x", "headers": {"b": "<&>é\u0001\t", "a": "2"}, "timeout": 7000, "trust": true, "args": ["${UNSET}", "z"]}`
	h.write("home/src/app/sub/.qwen/settings.json", `{"mcpServers": {"yes": `+entry+`, "changed": {"command": "y"}, "unasked": `+entry+`}}`)
	h.write("home/src/app/sub/.mcp.json", `{"mcpServers": {"no": `+entry+`}}`)
	h.write("home/src/app/.mcp.json", named(claudeDoc, "not the working directory"))
	h.write("home/.qwen/settings.json", named(claudeDoc, "user"))
	h.write("home/.qwen/mcpApprovals.json", `{
		"`+h.path("home/src/app/sub")+`": {
			"yes": {"hash": "7ff4e51ba6a7a28a", "status": "approved"}, "no": {"hash": "7ff4e51ba6a7a28a", "status": "rejected"},
			"changed": {"hash": "7ff4e51ba6a7a28a", "status": "approved"}},
		"/elsewhere": {"unasked": {"hash": "7ff4e51ba6a7a28a", "status": "approved"}}}`)
	h.env["CLAUDE_CONFIG_DIR"] = h.path("none")
	h.expect(`
		claude_code home/src/app/.mcp.json project shared -not the working directory!approval-pending
		claude_code home/src/app/sub/.mcp.json project shared -no!missing-field!approval-pending
		qwen home/.qwen/settings.json user +user
		qwen home/src/app/sub/.mcp.json project shared -no
		qwen home/src/app/sub/.qwen/settings.json project shared +yes -changed!approval-pending -unasked!approval-pending`)
}

// TestToolFilters: what the agents' own filters say; nil allows everything.
func TestToolFilters(t *testing.T) {
	for name, tc := range map[string]struct {
		agent Agent
		doc   string
		want  Tools
	}{
		"copilot all":  {Copilot, `{"mcpServers": {"a": {"command": "x", "tools": ["*"]}}}`, Tools{Deny: []string{}}},
		"copilot none": {Copilot, `{"mcpServers": {"a": {"command": "x", "tools": []}}}`, Tools{Allow: []string{}, Deny: []string{}}},
		"amp":          {Amp, `{"amp.mcpServers": {"a": {"command": "x", "includeTools": ["t"]}}}`, Tools{Allow: []string{"t"}, Deny: []string{}}},
		"crush":        {Crush, `{"mcp": {"a": {"command": "x", "disabled_tools": ["t"]}}}`, Tools{Deny: []string{"t"}}},
	} {
		if d := cmp.Diff(tc.want, read(tc.agent, tc.doc).Entries[0].Tools); d != "" {
			t.Errorf("%s: -want +got:\n%s", name, d)
		}
	}
}

// TestEvidence: what nobody has run says so in each observation, the unreadable ones too.
func TestEvidence(t *testing.T) {
	for a, want := range map[Agent]Evidence{Claude: Run, Amp: Run, Cursor: Documented, VSCode: Documented, Crush: Documented} {
		if o := read(a, `{}`); o.Evidence != want {
			t.Errorf("the evidence for %s is %q, want %q", a, o.Evidence, want)
		}
	}
	h := newHome(t)
	h.write("home/.cursor/mcp.json/directory", "")
	if o := h.system().Observe(testHub); len(o) != 1 || o[0].Evidence != Documented || o[0].Problems[0].Code != "config-unreadable" {
		t.Errorf("an unreadable file is %+v", o)
	}
}

const (
	droidDoc    = `{"mcpServers": {"NAME": {"type": "stdio", "command": "x"}}}`
	ampDoc      = `{"amp.mcpServers": {"NAME": {"command": "x"}}}`
	codeDoc     = `{"servers": {"NAME": {"command": "x"}}}`
	continueDoc = "mcpServers:\n  - name: NAME\n    command: x\n"
	crushDoc    = `{"mcp": {"NAME": {"type": "stdio", "command": "x"}}}`
)

func TestObserveSecondWave(t *testing.T) {
	h := newHome(t)
	h.write("home/.copilot/mcp-config.json", named(claudeDoc, "u"))
	h.write("home/.copilot/settings.json", `{"disabledMcpServers": ["off"], "trustedFolders": ["`+h.path("home/src")+`"]}`)
	h.write("home/src/app/.mcp.json", `{"mcpServers": {"p": {"command": "x"}, "off": {"command": "mcpx", "args": ["connect", "context7"]}}}`)
	h.write("home/.factory/mcp.json", named(droidDoc, "u"))
	h.write("home/src/app/sub/.factory/mcp.json", named(droidDoc, "p"))
	h.write("home/.continue/config.yaml", named(continueDoc, "u"))
	h.write("home/src/app/.continue/mcpServers/b.yaml", named(continueDoc, "b"))
	h.write("home/src/app/.continue/mcpServers/a.yaml", named(continueDoc, "a"))
	h.write("home/src/app/.continue/mcpServers/notes.txt", "no block")
	h.write("home/.config/amp/settings.json", named(ampDoc, "u"))
	h.write("home/src/app/.amp/settings.json", named(ampDoc, "p"))
	h.write("home/.augment/settings.json", named(claudeDoc, "u"))
	h.write("home/src/app/.augment/settings.json", named(claudeDoc, "p"))
	h.write("home/src/app/.augment/settings.local.json", named(claudeDoc, "l"))
	h.write("home/.cursor/mcp.json", named(claudeDoc, "u"))
	h.write("home/src/app/.cursor/mcp.json", named(claudeDoc, "p"))
	h.write("home/.config/Code/User/mcp.json", named(codeDoc, "u"))
	h.write("home/src/app/.vscode/mcp.json", named(codeDoc, "p"))
	h.write("home/.config/crush/crush.json", named(crushDoc, "u"))
	h.write("home/src/app/crush.json", named(crushDoc, "p"))
	h.write("home/src/app/.crush.json", named(crushDoc, "q"))
	want := `
		claude_code home/src/app/.mcp.json project shared -p!approval-pending -off!approval-pending
		copilot home/.copilot/mcp-config.json user +u
		copilot home/.copilot/settings.json user
		copilot home/src/app/.mcp.json project shared +p -off
		droid home/.factory/mcp.json user +u
		droid home/src/app/sub/.factory/mcp.json project shared +p
		continue home/.continue/config.yaml user +u
		continue home/src/app/.continue/mcpServers/a.yaml project shared +a
		continue home/src/app/.continue/mcpServers/b.yaml project shared +b
		amp home/.config/amp/settings.json user +u
		amp home/src/app/.amp/settings.json project shared +p!approval-unseen
		auggie home/.augment/settings.json user +u
		auggie home/src/app/.augment/settings.json project shared +p
		auggie home/src/app/.augment/settings.local.json local shared +l
		cursor home/.cursor/mcp.json user +u
		cursor home/src/app/.cursor/mcp.json project shared +p!approval-unseen
		vscode home/.config/Code/User/mcp.json user +u
		vscode home/src/app/.vscode/mcp.json project shared +p!approval-unseen
		crush home/.config/crush/crush.json user +u
		crush home/src/app/crush.json project shared +p
		crush home/src/app/.crush.json project shared +q`
	h.expect(want)

	// A folder that Copilot does not trust; the older file and spelling count too.
	h.write("home/.copilot/settings.json", `{}`)
	h.expect(strings.Replace(want, "copilot home/src/app/.mcp.json project shared +p -off", "copilot home/src/app/.mcp.json project shared !project-untrusted -p -off", 1))
	h.write("home/.copilot/config.json", `{"trusted_folders": ["`+h.path("home/src/app/sub")+`"]}`)
	h.expect(strings.Replace(want, "-off\n\t\tdroid", "+off\n\t\tdroid", 1))

	h.env = map[string]string{"COPILOT_HOME": h.path("c"), "XDG_CONFIG_HOME": h.path("xdg")}
	found := map[string]string{}
	mac := h.system()
	mac.OS = "darwin"
	for _, l := range mac.Locate() {
		if path, err := filepath.Rel(h.root, l.File.Path); err == nil {
			found[string(l.Agent)+" "+path] = l.Rule
		}
	}
	for place, rule := range map[string]string{
		"copilot c/mcp-config.json": "COPILOT_HOME", "copilot c/settings.json": "COPILOT_HOME", "crush xdg/crush/crush.json": "XDG_CONFIG_HOME",
		"vscode home/Library/Application Support/Code/User/mcp.json": "default", "amp home/.config/amp/settings.json": "default",
	} {
		if found[place] != rule {
			t.Errorf("%s is found by %q, want %q", place, found[place], rule)
		}
	}
}

// TestHomeIsTheProject: a home under version control does not make the user's files those of a project too.
func TestHomeIsTheProject(t *testing.T) {
	h := newHome(t)
	h.write("home/.git/HEAD", "")
	for _, p := range []string{".cursor/mcp.json", ".augment/settings.json", ".factory/mcp.json"} {
		h.write("home/"+p, named(droidDoc, "u"))
	}
	for _, project := range []string{"home", "home/notes"} {
		s := h.system()
		s.Project = h.path(project)
		for _, o := range s.Observe(testHub) {
			if o.File.Scope != ScopeUser {
				t.Errorf("with the project %s, %s is of scope %s", project, o.File.Path, o.File.Scope)
			}
		}
	}
}

// TestSecondWaveOffers: what can be run gets the values that the agent would use, and what cannot says why.
func TestSecondWaveOffers(t *testing.T) {
	h := newHome(t)
	h.env = map[string]string{"TOK": "hunter2-token", "DIR": "/d"}
	h.write("home/.copilot/mcp-config.json", `{"mcpServers": {
		"copilot": {"type": "http", "url": "https://h/${TOK}", "headers": {"Authorization": "Bearer ${TOK}", "X-D": "${NONE:-d}"}},
		"literal": {"type": "local", "command": "run", "args": ["${DIR}"]}, "copilot-unset": {"type": "http", "url": "https://h", "headers": {"A": "${NONE}"}}}}`)
	h.write("home/.config/amp/settings.json", `{"amp.mcpServers": {"amp": {"url": "https://amp"}, "amp-ref": {"command": "run", "env": {"A": "${TOK}"}}}}`)
	h.write("home/src/app/.amp/settings.json", named(ampDoc, "amp-project"))
	h.write("home/src/app/.augment/settings.local.json", named(claudeDoc, "local"))
	h.write("home/.continue/config.yaml", `mcpServers:
- {name: continue, url: https://c, apiKey: "${{ secrets.TOK }}", requestOptions: {headers: {Authorization: not this, X-D: "${{secrets.DIR}}"}}}
- {name: input, command: run, env: {A: "${{ inputs.TOK }}"}}
- {name: dotted, command: run, env: {A: "${{ secrets.TOK.x }}"}}
`)
	h.write("home/.cursor/mcp.json", `{"mcpServers": {
		"cursor": {"command": "${userHome}/bin/run", "args": ["${workspaceFolder}", "${env:DIR}"]}, "file": {"command": "run", "envFile": ".env"}}}`)
	h.write("home/.config/Code/User/mcp.json", `{"servers": {"ask": {"command": "run", "env": {"T": "${input:t}"}}, "vs": {"type": "http", "url": "https://vs"}}}`)
	h.write("home/.config/crush/crush.json", `{"mcp": {"crush": {"type": "http", "url": "https://h", "headers": {"T": "$TOK"}}, "shell": {"type": "stdio", "command": "run", "args": ["$(cat /secret)"]}}}`)
	h.write("home/src/app/crush.json", `{"mcp": {"crush": {"type": "http", "url": "https://${NONE:-deep}"}}}`)
	s := h.system()
	offers, skipped := s.Offers(s.Effective(s.Observe(testHub), testHub), nil)
	got := map[string]string{}
	for _, o := range offers {
		r := o.Run.Reveal()
		if r.Stdio != nil {
			got[o.Name] = strings.Join(append([]string{r.Stdio.Command}, r.Stdio.Args...), " ")
			continue
		}
		got[o.Name] = string(r.HTTP.Transport) + " " + r.HTTP.URL
		for _, name := range slices.Sorted(maps.Keys(r.HTTP.Headers)) {
			got[o.Name] += " " + name + "=" + r.HTTP.Headers[name].Literal
		}
	}
	want := map[string]string{
		"copilot":  "streamable-http https://h/${TOK} Authorization=Bearer hunter2-token X-D=d",
		"literal":  "run ${DIR}",
		"amp":      "auto https://amp",
		"local":    "x",
		"continue": "auto https://c Authorization=Bearer hunter2-token X-D=/d",
		"cursor":   h.path("home/bin/run") + " " + h.path("home/src/app/sub") + " /d",
		"vs":       "auto https://vs",
		"crush":    "streamable-http https://deep T=hunter2-token", // merged: the header is that of the user's file
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	codes := map[string]string{}
	for _, s := range skipped {
		f := fault.From(s.Err)
		codes[s.Name] = f.Code
		if f.Hint == "" || strings.Contains(f.Error(), "/secret") {
			t.Errorf("%s is skipped with %v, hint %q", s.Name, f, f.Hint)
		}
	}
	wantCodes := map[string]string{
		"copilot-unset": "credential-missing", "amp-ref": "entry-unsupported", "amp-project": "entry-disabled",
		"input": "entry-unsupported", "dotted": "entry-unsupported", "file": "entry-unsupported", "ask": "entry-unsupported", "shell": "entry-unsupported",
	}
	if d := cmp.Diff(wantCodes, codes); d != "" {
		t.Errorf("skipped (-want +got):\n%s", d)
	}
}

func TestParseYAML(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 10; i++ {
		before := fmt.Sprintf("*a%d", i-1)
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(before+", ", 10), ", "))
	}
	for name, tc := range map[string]struct{ doc, want string }{
		"syntax":    {"mcpServers:\n\t- x\n", "config-broken 2:1 "},
		"twice":     {"a: 1\nb: 2\na: 3\n", "config-broken 3:1 a key is defined twice"},
		"two":       {"a: 1\n---\nb: 2\n", "config-broken 2:1 a second document begins"},
		"list":      {"- a\n", "config-broken 1:1 the file holds no object"},
		"text":      {"only text\n", "config-broken 1:1 the file holds no object"},
		"key":       {"? [a]\n: b\n", "config-broken 1:3 a key is no text"},
		"bomb":      {bomb.String(), "config-broken 2:45 too many values"},
		"in itself": {"a: &a [*a]\n", "config-broken 1:8 too many values"},
		"servers":   {"mcpServers: {a: {command: x}}\n", "wrong-type 0:0 "},
		"good":      {"\xef\xbb\xbfmcpServers: []\n", ""},
		"empty":     {"", ""},
		"comments":  {"# nothing yet\n", ""},
	} {
		got := ""
		if o := read(Continue, tc.doc); len(o.Problems) > 0 {
			p := o.Problems[0]
			got = fmt.Sprintf("%s %d:%d %s", p.Code, p.Line, p.Column, p.Text)
		}
		if tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %q, want it to start with %q", name, got, tc.want)
		}
	}
}
