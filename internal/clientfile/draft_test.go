package clientfile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

// desk drafts changes of files that lie in a home of their own.
type desk struct {
	*Files
	look   converge.Look
	system System
}

// draft drafts what is going to be written. A look at the files has to tell the same of it.
func (d desk) draft(look converge.Look, drafting converge.Drafting, data []byte, exists bool) (drafted, error) {
	written, err := d.Files.draft(look, drafting, data, exists)
	looked, lookErr := d.reading(look).draft(drafting, data, exists)
	if diff := cmp.Diff(written.change, looked.change); diff != "" || codeOf(err) != codeOf(lookErr) || !bytes.Equal(written.result, looked.result) {
		return drafted{}, fmt.Errorf("the look tells something else: %w, %w\n%s", err, lookErr, diff)
	}
	return written, err
}

const deskPort = "4200"

func newDesk(t testing.TB) desk {
	t.Helper()
	root := t.TempDir()
	d := desk{look: converge.Look{Home: filepath.Join(root, "home"), Project: filepath.Join(root, "home", "project"), Names: map[string]bool{"srv": false}}}
	if err := os.MkdirAll(filepath.Join(d.look.Project, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	d.Files, err = NewFiles(FilesConfig{
		Backups: filepath.Join(root, "backups"), Key: bytes.Repeat([]byte("k"), minKey), Getenv: func(string) string { return "" },
		Hub: func(l converge.Look) Hub { return Hub{Port: deskPort, Servers: l.Names} }, Now: time.Now,
		Keep: func(context.Context, string, string) error { return nil },
	})
	if err == nil {
		d.system, err = SystemOf(d.look, d.cfg.Getenv)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// place is where the agent keeps a file of this name.
func (d desk) place(t testing.TB, a Agent, name string) Location {
	t.Helper()
	var fallback *Location
	for _, l := range d.system.Locate() {
		if l.Agent != a || l.list != nil || l.inline != nil || l.File.Scope != ScopeUser && l.File.Scope != ScopeProject {
			continue
		}
		if strings.TrimPrefix(filepath.Base(l.File.Path), ".") == name {
			return l
		}
		if fallback == nil && l.File.Scope == ScopeUser && filepath.Ext(l.File.Path) == filepath.Ext(name) {
			fallback = &l
		}
	}
	if fallback == nil {
		t.Fatalf("%s has no place for %s", a, name)
	}
	return *fallback
}

var (
	viaHTTP   = &converge.Form{Kind: converge.FormHTTP, Server: "srv", URL: "http://127.0.0.1:" + deskPort + "/servers/srv/mcp"}
	viaBridge = &converge.Form{Kind: converge.FormBridge, Server: "srv", Command: "/opt/mcpx/bin/mcpx", Args: []string{"connect", "--agent", "x", "srv"}}
)

// fixture is a file as an agent or a person has written it.
type fixture struct {
	agent Agent
	name  string // of the test
	file  string // what the agent calls it
	data  []byte
}

func fixtures(t testing.TB) []fixture {
	t.Helper()
	var all []fixture
	for _, pattern := range []string{"testdata/*/written/*", "testdata/*/observed/*", "testdata/*/cases/*/input.*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			parts := strings.Split(filepath.ToSlash(p), "/")
			f := fixture{agent: Agent(parts[1]), name: strings.Join(parts[1:], "/"), file: filepath.Base(p)}
			if _, after, ok := strings.Cut(f.file, "--"); ok {
				f.file = after
			}
			if f.data, err = os.ReadFile(p); err != nil {
				t.Fatal(err)
			}
			if f.file == "settings.local.json" && f.agent == Claude || f.file == "settings.json" && f.agent == Copilot || f.file == "config.json" && f.agent == Continue {
				continue // no servers are looked for there
			}
			all = append(all, f)
		}
	}
	if len(all) < 45 {
		t.Fatalf("only %d fixtures", len(all))
	}
	return all
}

// mutations write the same file in other manners.
func mutations(a Agent, data []byte) map[string][]byte {
	d := dialectOf(a)
	all := map[string][]byte{"as it is": data, "no final newline": bytes.TrimRight(data, "\r\n")}
	if !bytes.Contains(data, []byte("\r\n")) {
		all["CRLF"] = bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
	}
	with := func(name string, changed []byte) {
		if _, err := d.parse(changed); err == nil {
			all[name] = changed
		}
	}
	with("mark", append([]byte("\xef\xbb\xbf"), data...))
	switch d.format {
	case JSON, JSONC:
		with("comments", bytes.ReplaceAll(data, []byte(",\n"), []byte(", // remark\n")))
		with("comment above", bytes.ReplaceAll(data, []byte("{\n"), []byte("{\n/* remark */\n")))
		with("trailing commas", bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\"\n"), []byte("\",\n")), []byte("}\n"), []byte("},\n")))
		with("tabs", bytes.ReplaceAll(data, []byte("  "), []byte("\t")))
		var compact bytes.Buffer
		if json.Compact(&compact, data) == nil {
			with("compact", compact.Bytes())
		}
		if n, err := d.parse(data); err == nil {
			var b bytes.Buffer
			plainStyle.render(&b, reversed(n), "", true)
			with("reordered", b.Bytes())
		}
	case TOML:
		with("comments", bytes.ReplaceAll(data, []byte("\"\n"), []byte("\" # remark\n")))
	case YAML:
		with("comments", append([]byte("# remark\n"), data...))
	}
	return all
}

func reversed(n node) node {
	out := n
	out.fields = nil
	for _, f := range slices.Backward(n.fields) {
		out.fields = append(out.fields, field{f.name, reversed(f.value)})
	}
	return out
}

// TestRouteAndRevert: every entry of every fixture can be routed, the bytes around it stay, and a rollback gives the file
// back bit for bit, or the entry when the file has been changed since.
func TestRouteAndRevert(t *testing.T) {
	desk := newDesk(t)
	drafts := 0
	for _, f := range fixtures(t) {
		l := desk.place(t, f.agent, f.file)
		for mutation, data := range mutations(f.agent, f.data) {
			thorough := mutation == "as it is" || mutation == "comments"
			if raceOn && mutation != "as it is" {
				continue
			}
			o := Read(l, data, desk.cfg.Hub(desk.look))
			if hasCode(o.Problems, "config-broken") {
				continue
			}
			for _, e := range o.Entries {
				for _, form := range []*converge.Form{viaHTTP, viaBridge} {
					if form == viaBridge && !thorough {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%s/%s", f.name, mutation, e.Name, form.Kind), func(t *testing.T) {
						step := converge.Step{Op: converge.StepSet, At: e.At, Name: e.Name, Project: e.Project(), Want: form}
						if desk.check(t, l, data, step, thorough) {
							drafts++
						}
					})
				}
				t.Run(fmt.Sprintf("%s/%s/%s/remove", f.name, mutation, e.Name), func(t *testing.T) {
					desk.check(t, l, data, converge.Step{Op: converge.StepRemove, At: e.At, Name: e.Name, Project: e.Project()}, thorough)
				})
			}
			t.Run(fmt.Sprintf("%s/%s/add", f.name, mutation), func(t *testing.T) {
				desk.check(t, l, data, converge.Step{Op: converge.StepSet, Name: "added", Want: viaHTTP}, thorough)
			})
		}
	}
	if drafts < 600 && !raceOn {
		t.Errorf("only %d changes could be drafted", drafts)
	}
}

func hasCode(all []Problem, code string) bool {
	return slices.ContainsFunc(all, func(p Problem) bool { return p.Code == code })
}

// check drafts a step and takes it back, also when the file was changed in between.
func (d desk) check(t *testing.T, l Location, data []byte, step converge.Step, thorough bool) bool {
	t.Helper()
	drafting := converge.Drafting{Agent: string(l.Agent), Path: l.File.Path, Steps: []converge.Step{step}}
	dr, err := d.draft(d.look, drafting, data, true)
	if err != nil {
		switch code := fault.From(err).Code; {
		case code == "nothing-to-change", code == "entry-broken", code == "yaml-anchored":
		case code == "would-break" && strings.Contains(err.Error(), step.Name):
		default:
			t.Fatalf("%s: %v\n%s", code, err, data)
		}
		return false
	}
	unchanged(t, data, dr)
	receipt := converge.Written{
		Path: l.File.Path, Before: converge.Expected{SHA256: hashOf(data)}, After: converge.Expected{SHA256: hashOf(dr.result)}, Backup: "0",
		Steps: drafting.Steps, Leaves: dr.change.Leaves,
	}
	d.keep(t, data)
	back := converge.Drafting{Agent: drafting.Agent, Path: drafting.Path, Steps: []converge.Step{{Op: converge.StepRevert, Receipt: "rcp_1"}}, Reverts: &receipt}
	undone, err := d.draft(d.look, back, dr.result, true)
	if err != nil {
		t.Fatalf("rollback: %v", err)
	}
	if !bytes.Equal(undone.result, data) {
		t.Fatalf("rollback gave\n%q\nof\n%q", undone.result, data)
	}
	if !thorough {
		return true
	}
	// Somebody adds a line in the meantime.
	for name, edit := range map[string]func([]byte) []byte{
		"behind": func(b []byte) []byte { return append(bytes.Clone(b), '\n') },
		"before": func(b []byte) []byte {
			if rest, ok := bytes.CutPrefix(b, byteOrderMark); ok {
				return append([]byte("\xef\xbb\xbf\n"), rest...)
			}
			return append([]byte("\n"), b...)
		},
	} {
		changed := edit(dr.result)
		undone, err := d.draft(d.look, back, changed, true)
		if err != nil {
			t.Fatalf("rollback with a line %s: %v\n%q", name, err, changed)
		}
		// Where the whole head or tail was removed, the line may come before or after it.
		if extra := differing(data, undone.result); extra.end > extra.start || string(extra.text) != "\n" {
			t.Fatalf("rollback with a line %s gave\n%q\nwant\n%q", name, undone.result, edit(data))
		}
		unchanged(t, changed, undone)
	}
	// The rollback can be rolled back.
	again := converge.Written{Path: l.File.Path, Before: receipt.After, After: receipt.Before, Backup: "0", Leaves: undone.change.Leaves}
	d.keep(t, dr.result)
	back.Reverts = &again
	if redone, err := d.draft(d.look, back, data, true); err != nil || !bytes.Equal(redone.result, dr.result) {
		t.Fatalf("the rollback of the rollback: %v", err)
	}
	return true
}

func (d desk) keep(t *testing.T, data []byte) {
	t.Helper()
	dir := filepath.Join(d.cfg.Backups, "rcp_1")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "0"), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// unchanged checks that everything outside of the edits is there, in order.
func unchanged(t *testing.T, data []byte, dr drafted) {
	t.Helper()
	at, from := 0, 0
	for i, e := range dr.change.Edits {
		gap := data[from:e.Start]
		if i == 0 {
			if !bytes.HasPrefix(dr.result, gap) {
				t.Fatalf("bytes before the first edit changed")
			}
			at = len(gap)
		} else {
			found := bytes.Index(dr.result[at:], gap)
			if found < 0 {
				t.Fatalf("bytes between edits changed: %q", gap)
			}
			at += found + len(gap)
		}
		from = e.End
	}
	if rest := data[from:]; !bytes.HasSuffix(dr.result, rest) {
		t.Fatalf("bytes behind the last edit changed")
	}
}

// TestSecretsAreNotTold plants values in every place of an entry and looks for them in what leaves this package.
func TestSecretsAreNotTold(t *testing.T) {
	desk := newDesk(t)
	secrets := map[string]string{
		"env": "planted-env-1", "header": "planted-header-2", "arg": "planted-arg-3", "url": "planted-url-4", "password": "planted-password-5",
		"other": "planted-other-6", "token": "ghp_plantedtokenAAAA0123456789abcdef", "short": "x9q", "number": "918273645",
	}
	quoted := func(format string) []byte {
		for name, v := range secrets {
			format = strings.ReplaceAll(format, "<"+name+">", v)
		}
		return []byte(format)
	}
	for name, tc := range map[string]struct {
		agent Agent
		file  string
		data  string
	}{
		"claude": {Claude, "claude.json", `{"oauthToken": "<other>", "mcpServers": {
  "a": {"command": "x", "args": ["--token", "<arg>", "--url", "https://u:<password>@h/?api_key=<url>"], "env": {"PLAIN": "<env>", "S": "<short>", "N": <number>}},
  "b": {"type": "http", "url": "https://u:<password>@h/p?api_key=<url>", "headers": {"Authorization": "Bearer <header>", "X-Y": "<env>"}},
  "c": {"command": "x --token <arg>"}
}}`},
		"gemini":   {Gemini, "settings.json", "{\n  // old: <token>\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\", \"env\": {\"K\": \"\\u0070lanted-env-1\"}, \"timeout\": 5 /* <token> */},\n    \"b\": {\"httpUrl\": \"https://h/?token=<url>\", \"headers\": {\"K\": \"<header>\"}}\n  }\n}\n"},
		"codex":    {Codex, "config.toml", "[mcp_servers.a]\ncommand = 'x' # <token>\nargs = [\"--token\", \"<arg>\"]\n[mcp_servers.a.env]\nK = \"<env>\"\nN = <number>\nL = '''\n<other>'''\n[mcp_servers.b]\nurl = \"https://u:<password>@h/?token=<url>\"\nhttp_headers = { K = \"<header>\" }\n"},
		"continue": {Continue, "config.yaml", "models:\n  - apiKey: <other>\nmcpServers:\n  - name: a\n    command: x\n    args: [--token, <arg>]\n    env:\n      K: <env>\n      N: <number>\n      L: |\n        <other>\n      M: \"<password>\"\n  - name: b\n    type: sse\n    url: https://h/?token=<url>\n    requestOptions:\n      headers:\n        K: '<header>'\n"},
		"opencode": {OpenCode, "opencode.jsonc", `{"provider": {"x": {"options": {"apiKey": "<other>"}}}, "mcp": {
  "a": {"type": "local", "command": ["x", "--token", "<arg>"], "environment": {"K": "<env>"}},
  "b": {"type": "remote", "url": "https://h/?token=<url>", "headers": {"K": "<header>"},},
}}`},
		"cline": {Cline, "cline_mcp_settings.json", `{"mcpServers": {"a": {"transport": {"type": "stdio", "command": "x", "args": ["--api-key=<arg>"], "env": {"K": "<env>"}}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			l := desk.place(t, tc.agent, tc.file)
			data := quoted(tc.data)
			o := Read(l, data, Hub{})
			if len(o.Entries) == 0 {
				t.Fatal(o.Problems)
			}
			check := func(what string, c converge.Change) {
				raw, err := json.Marshal(c)
				if err != nil {
					t.Fatal(err)
				}
				for kind, v := range secrets {
					if bytes.Contains(raw, []byte(v)) || strings.Contains(c.Diff, v) {
						t.Errorf("%s: %s is told:\n%s", what, kind, c.Diff)
					}
				}
				if c.Diff == "" {
					t.Errorf("%s: no diff", what)
				}
			}
			for _, e := range o.Entries {
				for _, form := range []*converge.Form{viaHTTP, viaBridge} {
					d := converge.Drafting{Agent: string(tc.agent), Path: l.File.Path, Steps: []converge.Step{{Op: converge.StepSet, At: e.At, Name: e.Name, Want: form}}}
					dr, err := desk.draft(desk.look, d, data, true)
					if err != nil {
						t.Fatal(e.Name, err)
					}
					check(e.Name, dr.change)
					desk.keep(t, data)
					d.Reverts = &converge.Written{
						Path: l.File.Path, Before: converge.Expected{SHA256: hashOf(data)}, After: converge.Expected{SHA256: hashOf(dr.result)}, Backup: "0",
						Steps: d.Steps, Leaves: dr.change.Leaves,
					}
					d.Steps = []converge.Step{{Op: converge.StepRevert, Receipt: "rcp_1"}}
					back, err := desk.draft(desk.look, d, dr.result, true)
					if err != nil {
						t.Fatal(e.Name, err)
					}
					check(e.Name+" back", back.change)
				}
			}
		})
	}
}

// TestEveryAgentWrites makes a new file for each agent, in each form, and reads it as the agent does.
func TestEveryAgentWrites(t *testing.T) {
	desk := newDesk(t)
	direct := &converge.Form{Kind: converge.FormDirect, Server: "srv", Command: "npx", Args: []string{"-y", "p"}, Env: map[string]string{"A": "1"}}
	remote := &converge.Form{Kind: converge.FormDirect, Server: "srv", URL: "https://h/mcp", Headers: map[string]string{"X": "1"}}
	for _, a := range Agents() {
		for _, l := range desk.system.Locate() {
			if l.Agent != a || l.list != nil || l.inline != nil || l.File.Scope != ScopeUser {
				continue
			}
			for name, form := range map[string]*converge.Form{"http": viaHTTP, "bridge": viaBridge, "direct": direct, "remote": remote} {
				t.Run(string(a)+"/"+filepath.Base(l.File.Path)+"/"+name, func(t *testing.T) {
					d := converge.Drafting{Agent: string(a), Path: l.File.Path, Steps: []converge.Step{{Op: converge.StepSet, Name: "srv", Want: form}}}
					dr, err := desk.draft(desk.look, d, nil, false)
					if err != nil {
						t.Fatal(err)
					}
					o := Read(l, dr.result, desk.cfg.Hub(desk.look))
					if len(o.Entries) != 1 || len(o.Problems) > 0 {
						t.Fatalf("%v %v\n%s", o.Entries, o.Problems, dr.result)
					}
					e := o.Entries[0]
					if e.Parse != Complete || !e.Enabled || !e.has(*form) || len(e.Problems) > 0 {
						t.Errorf("%v %v\n%s", e.Parse, e.Problems, dr.result)
					}
					if (form == viaHTTP || form == viaBridge) && (e.Routed == nil || e.Routed.State != converge.RoutedHere) {
						t.Errorf("routed %v\n%s", e.Routed, dr.result)
					}
					if form == direct && !maps.Equal(e.def.env, form.Env) || form == remote && !maps.Equal(e.def.headers, form.Headers) {
						t.Errorf("values are not as they should be\n%s", dr.result)
					}
					if !strings.HasSuffix(string(dr.result), "\n") {
						t.Errorf("no newline at the end of %q", dr.result)
					}
				})
			}
		}
	}
}
