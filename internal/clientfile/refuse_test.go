package clientfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

func (d desk) write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDraftRefuses: what cannot be edited safely is refused with a code, and the reason quotes nothing of the file.
func TestDraftRefuses(t *testing.T) {
	desk := newDesk(t)
	home := func(name string) string { return filepath.Join(desk.look.Home, filepath.FromSlash(name)) }
	set := converge.Step{Op: converge.StepSet, Name: "a", Want: viaHTTP}
	deep := `{"x":` + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1) + `,"mcpServers":{}}`
	for name, tc := range map[string]struct {
		agent Agent
		path  string
		data  string
		step  converge.Step
		code  string
	}{
		"UTF-16":           {Gemini, home(".gemini/settings.json"), "\xff\xfe{\x00}\x00", set, "unsupported-file"},
		"not UTF-8":        {Gemini, home(".gemini/settings.json"), "{\"planted\xff\": 1}", set, "unsupported-file"},
		"NUL":              {Gemini, home(".gemini/settings.json"), "{}\x00", set, "unsupported-file"},
		"large":            {Gemini, home(".gemini/settings.json"), "{}" + strings.Repeat(" ", maxEdited), set, "unsupported-file"},
		"deep":             {Gemini, home(".gemini/settings.json"), deep, set, "unsupported-file"},
		"comment":          {Claude, home(".claude.json"), "{} // planted", set, "config-broken"},
		"trailing comma":   {Gemini, home(".gemini/settings.json"), `{"mcpServers":{},}`, set, "config-broken"},
		"mark":             {Gemini, home(".gemini/settings.json"), "\xef\xbb\xbf{}", set, "config-broken"},
		"empty":            {Gemini, home(".gemini/settings.json"), "", set, "config-broken"},
		"list":             {Claude, home(".claude.json"), "[]", set, "config-broken"},
		"refused entry":    {Codex, home(".codex/config.toml"), "[mcp_servers.b]\nurl = \"u\"\ncommand = \"planted\"\n", set, "config-broken"},
		"duplicate":        {Claude, home(".claude.json"), `{"mcpServers":{"a":{"command":"planted"},"a":{"command":"x"}}}`, set, "duplicate-keys"},
		"duplicate field":  {Claude, home(".claude.json"), `{"mcpServers":{"a":{"type":"http","url":"planted","url":"x"}}}`, set, "duplicate-keys"},
		"no container":     {Claude, home(".claude.json"), `{"mcpServers":"planted"}`, set, "wrong-type"},
		"no object":        {Claude, home(".claude.json"), `{"mcpServers":{"a":"planted"}}`, set, "entry-broken"},
		"gone":             {Claude, home(".claude.json"), `{"mcpServers":{}}`, converge.Step{Op: converge.StepRemove, Name: "a"}, "entry-absent"},
		"value gone":       {Claude, home(".claude.json"), `{"mcpServers":{"a":{"command":"x"}}}`, converge.Step{Op: converge.StepRef, Name: "a", Moves: []converge.Move{{Field: []string{"env", "K"}, Credential: "k"}}}, "value-absent"},
		"as it should be":  {Claude, home(".claude.json"), `{"mcpServers":{"a":{"type":"http","url":"` + viaHTTP.URL + `"}}}`, set, "nothing-to-change"},
		"another file":     {Claude, home("other.json"), `{}`, set, "config-unknown"},
		"anchor":           {Continue, home(".continue/config.yaml"), "mcpServers:\n  - &x\n    name: a\n    command: planted\n", set, "yaml-anchored"},
		"no form":          {Claude, home(".claude.json"), `{}`, converge.Step{Op: converge.StepSet, Name: "a"}, "request-invalid"},
		"no such step":     {Claude, home(".claude.json"), `{}`, converge.Step{Op: "dance", Name: "a"}, "request-invalid"},
		"no name":          {Claude, home(".claude.json"), `{}`, converge.Step{Op: converge.StepSet, Want: viaHTTP}, "request-invalid"},
		"nobody's entries": {"", home("x"), `{}`, set, "request-invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := desk.draft(desk.look, converge.Drafting{Agent: string(tc.agent), Path: tc.path, Steps: []converge.Step{tc.step}}, []byte(tc.data), true)
			if code := codeOf(err); code != tc.code {
				t.Errorf("code %q, want %q: %v", code, tc.code, err)
			}
			if err != nil && strings.Contains(fmt.Sprint(err, fault.From(err).Hint), "planted") {
				t.Errorf("the reason quotes the file: %v", err)
			}
		})
	}
}

// TestLayers: an entry that an agent makes of several files is changed only when it still works, and sends nothing
// elsewhere.
func TestLayers(t *testing.T) {
	set := func(form *converge.Form) []converge.Step {
		return []converge.Step{{Op: converge.StepSet, Name: "a", Want: form}}
	}
	for name, tc := range map[string]struct {
		agent       Agent
		file, other string // below home
		data, above string
		form        *converge.Form
		code        string
	}{
		"codex: a command above a URL": {
			Codex, ".codex/config.toml", "project/.codex/config.toml", "[mcp_servers.a]\ncommand = \"x\"\n[projects.\"$P\"]\ntrust_level = \"trusted\"\n",
			"[mcp_servers.a]\ncommand = \"y\"\n", viaHTTP, "layer-conflict",
		},
		"codex: nobody trusts the project": {
			Codex, ".codex/config.toml", "project/.codex/config.toml", "[mcp_servers.a]\ncommand = \"x\"\n", "[mcp_servers.a]\ncommand = \"y\"\n", viaHTTP, "",
		},
		"codex: a timeout above": {
			Codex, ".codex/config.toml", "project/.codex/config.toml", "[mcp_servers.a]\ncommand = \"x\"\n[projects.\"$P\"]\ntrust_level = \"trusted\"\n",
			"[mcp_servers.a]\ntool_timeout_sec = 9\n", viaHTTP, "",
		},
		"opencode: headers below the URL": {
			OpenCode, "project/opencode.json", ".config/opencode/opencode.json", `{"mcp":{"a":{"type":"local","command":["x"]}}}`,
			`{"mcp":{"a":{"type":"remote","url":"https://h","headers":{"K":"v"}}}}`, viaHTTP, "header-leak-by-merge",
		},
		"opencode: bridge over headers": {
			OpenCode, "project/opencode.json", ".config/opencode/opencode.json", `{"mcp":{"a":{"type":"remote","url":"u"}}}`,
			`{"mcp":{"a":{"type":"remote","url":"https://h"}}}`, viaBridge, "",
		},
		"opencode: switched above": {
			OpenCode, ".config/opencode/opencode.json", "project/opencode.json", `{"mcp":{"a":{"type":"local","command":["x"]}}}`,
			`{"mcp":{"a":{"enabled":false}}}`, viaHTTP, "",
		},
		"claude takes whole entries": {
			Claude, ".claude.json", "project/.mcp.json", `{"mcpServers":{"a":{"command":"x"}}}`, `{"mcpServers":{"a":{"type":"http","url":"u","headers":{"K":"v"}}}}`, viaHTTP, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			desk := newDesk(t)
			data := strings.ReplaceAll(tc.data, "$P", desk.look.Project)
			path := filepath.Join(desk.look.Home, filepath.FromSlash(tc.file))
			desk.write(t, path, data)
			desk.write(t, filepath.Join(desk.look.Home, filepath.FromSlash(tc.other)), tc.above)
			_, err := desk.Read(desk.look).Draft(t.Context(), converge.Drafting{Agent: string(tc.agent), Path: path, Steps: set(tc.form)})
			if code := codeOf(err); code != tc.code {
				t.Errorf("code %q, want %q: %v", code, tc.code, err)
			}
		})
	}
}

// TestDraft reads the file itself, and says what it expects of it.
func TestDraft(t *testing.T) {
	desk := newDesk(t)
	path := filepath.Join(desk.look.Home, ".claude.json")
	d := converge.Drafting{Agent: "claude_code", Path: path, Steps: []converge.Step{{Op: converge.StepSet, Name: "a", Want: viaHTTP}}}
	c, err := desk.Read(desk.look).Draft(t.Context(), d)
	if err != nil || !c.Expected.Absent || c.Result == "" || !strings.HasPrefix(c.Diff, "--- /dev/null\n") {
		t.Fatalf("%+v %v", c, err)
	}
	text := "{\n  \"mcpServers\": {\n    \"b\": {\n      \"command\": \"x\"\n    }\n  }\n}\n"
	desk.write(t, path, text)
	c, err = desk.Read(desk.look).Draft(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if c.Expected.SHA256 != hashOf([]byte(text)) || c.Expected.Mode != 0o600 || c.Scope != "user" || len(c.Edits) != 1 || c.Edits[0].Kind != spanInsert {
		t.Errorf("%+v", c)
	}
	if len(c.Bound) != 2 || c.Bound[0].Digest != "" || c.Bound[1].Digest == "" || len(c.Leaves) != 1 || c.Leaves[0].Digest == "" {
		t.Errorf("bound %+v, leaves %+v", c.Bound, c.Leaves)
	}
	if !slices.ContainsFunc(c.Notes, func(n converge.Note) bool { return n.Code == "context-may-move" }) {
		t.Errorf("notes %+v", c.Notes)
	}
	want := "--- " + path + "\n+++ " + path + "\n@@ -2,6 +2,10 @@\n   \"mcpServers\": {\n     \"b\": {\n       \"command\": \"x\"\n-    }\n+    },\n+    \"a\": {\n" +
		"+      \"type\": \"http\",\n+      \"url\": \"" + viaHTTP.URL + "\"\n+    }\n   }\n }\n"
	if c.Diff != want {
		t.Errorf("diff\n%s\nwant\n%s", c.Diff, want)
	}
	d.Agent, d.Path = "gemini", filepath.Join(desk.look.Home, ".gemini", "settings.json")
	if _, err := desk.Read(desk.look).Draft(t.Context(), d); codeOf(err) != "config-absent" {
		t.Errorf("without the directory: %v", err)
	}
	hub := *viaHTTP
	hub.Server = controlPlane
	d.Steps = []converge.Step{{Op: converge.StepSet, Name: controlPlane, Want: &hub}}
	if _, err := desk.Read(desk.look).Draft(t.Context(), d); err != nil {
		t.Errorf("the control plane makes the directory: %v", err)
	}
}

// TestMoves: values leave the file for the store, and references stand in their place.
func TestMoves(t *testing.T) {
	desk := newDesk(t)
	for name, tc := range map[string]struct {
		agent          Agent
		file, in, want string
		moves          []converge.Move
		kept           map[string]string
	}{
		"reference": {
			Claude, "claude.json", `{"mcpServers":{"a":{"command":"x","env":{"K":"planted","P":"1"}}}}`, `{"mcpServers":{"a":{"command":"x","env":{"K":"${K}","P":"1"}}}}`,
			[]converge.Move{{Field: []string{"env", "K"}, Credential: "a-k", Put: "${K}"}},
			map[string]string{"a-k": "planted"},
		},
		"gone": {
			Claude, "claude.json", `{"mcpServers":{"a":{"command":"x","args":["--token","planted","y"]}}}`, `{"mcpServers":{"a":{"command":"x","args":["--token","y"]}}}`,
			[]converge.Move{{Field: []string{"args", "1"}, Credential: "a-k"}},
			map[string]string{"a-k": "planted"},
		},
		"the agent's own names": {
			OpenCode, "opencode.jsonc", `{"mcp":{"a":{"type":"local","command":["x","--token","planted"],"environment":{"K":"other"}}}}`,
			`{"mcp":{"a":{"type":"local","command":["x","--token","{env:T}"],"environment":{"K":"{env:K}"}}}}`,
			[]converge.Move{{Field: []string{"args", "1"}, Credential: "t", Put: "{env:T}"}, {Field: []string{"env", "K"}, Credential: "k", Put: "{env:K}"}},
			map[string]string{"t": "planted", "k": "other"},
		},
		"below transport": {
			Cline, "cline_mcp_settings.json", `{"mcpServers":{"a":{"transport":{"type":"streamableHttp","url":"http://h"}}}}`, `{"mcpServers":{"a":{"transport":{"type":"streamableHttp","url":"https://h"}}}}`,
			[]converge.Move{{Field: []string{"url"}, Put: "https://h"}},
			map[string]string{},
		},
		"the older URL": {
			Gemini, "settings.json", `{"mcpServers":{"a":{"httpUrl":"http://h"}}}`, `{"mcpServers":{"a":{"httpUrl":"https://h"}}}`,
			[]converge.Move{{Field: []string{"url"}, Put: "https://h"}},
			map[string]string{},
		},
		"header of YAML": {
			Continue, "config.yaml", "mcpServers:\n  - name: a\n    type: sse\n    url: https://h\n    requestOptions:\n      headers:\n        K: planted # mine\n",
			"mcpServers:\n  - name: a\n    type: sse\n    url: https://h\n    requestOptions:\n      headers:\n        K: ${{ secrets.K }} # mine\n",
			[]converge.Move{{Field: []string{"headers", "K"}, Credential: "k", Put: "${{ secrets.K }}"}},
			map[string]string{"k": "planted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := desk.place(t, tc.agent, tc.file)
			d := converge.Drafting{Agent: string(tc.agent), Path: l.File.Path, Steps: []converge.Step{{Op: converge.StepRef, Name: "a", Moves: tc.moves}}}
			dr, err := desk.draft(desk.look, d, []byte(tc.in), true)
			if err != nil {
				t.Fatal(err)
			}
			if string(dr.result) != tc.want || fmt.Sprint(dr.moves) != fmt.Sprint(tc.kept) {
				t.Errorf("got %s %v\nwant %s %v", dr.result, dr.moves, tc.want, tc.kept)
			}
			// The same values leave when the entry is routed in one step.
			d.Steps = []converge.Step{{Op: converge.StepSet, Name: "a", Want: viaBridge, Moves: tc.moves}}
			if dr, err = desk.draft(desk.look, d, []byte(tc.in), true); err != nil || fmt.Sprint(dr.moves) != fmt.Sprint(tc.kept) {
				t.Errorf("routed: %v %v", dr.moves, err)
			}
		})
	}
}

// TestRollbackOfChangedFile: entries that are as the receipt left them go back, others are left alone.
func TestRollbackOfChangedFile(t *testing.T) {
	desk := newDesk(t)
	before := "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\", \"timeout\": 1}\n  },\n  \"n\": 1\n}\n"
	l := desk.place(t, Claude, "claude.json")
	steps := []converge.Step{{Op: converge.StepSet, Name: "a", Want: viaHTTP}}
	dr, err := desk.draft(desk.look, converge.Drafting{Agent: "claude_code", Path: l.File.Path, Steps: steps}, []byte(before), true)
	if err != nil {
		t.Fatal(err)
	}
	desk.keep(t, []byte(before))
	r := converge.Written{
		Path: l.File.Path, Before: converge.Expected{SHA256: hashOf([]byte(before))}, After: converge.Expected{SHA256: hashOf(dr.result)}, Backup: "0",
		Steps: steps, Leaves: dr.change.Leaves,
	}
	back := func(now string, r converge.Written) (drafted, error) {
		return desk.draft(desk.look, converge.Drafting{
			Agent: "claude_code", Path: l.File.Path, Reverts: &r, Steps: []converge.Step{{Op: converge.StepRevert, Receipt: "rcp_1"}},
		}, []byte(now), now != "")
	}
	// The client has written its file anew, with other spaces and another entry.
	anew := `{"n":2,"mcpServers":{"b":{"command":"y"},"a":{"url":"` + viaHTTP.URL + `","timeout":1,"type":"http"}}}`
	got, err := back(anew, r)
	if err != nil {
		t.Fatal(err)
	}
	n, _, err := parseJSON(got.result, lenience{})
	if want := jsonText(t, `{"n":2,"mcpServers":{"b":{"command":"y"},"a":{"command":"x","timeout":1}}}`); err != nil || !same(n, *want) {
		t.Errorf("got %s", got.result)
	}
	for name, now := range map[string]string{
		"the entry was changed": strings.Replace(string(dr.result), `"timeout": 1`, `"timeout": 2`, 1),
		"the entry is gone":     `{"mcpServers":{}}`,
		"the file is gone":      "",
	} {
		if _, err := back(now, r); codeOf(err) != "changed-since" {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A receipt that made the file, and its container.
	made, err := desk.draft(desk.look, converge.Drafting{Agent: "claude_code", Path: l.File.Path, Steps: steps}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	r = converge.Written{Path: l.File.Path, Before: converge.Expected{Absent: true}, After: converge.Expected{SHA256: hashOf(made.result)}, Steps: steps, Leaves: made.change.Leaves}
	if got, err := back(string(made.result), r); err != nil || !got.remove || got.result != nil || got.change.Result != "" || !strings.Contains(got.change.Diff, "+++ /dev/null\n") {
		t.Errorf("the file that was made stays: %+v %v", got.change, err)
	}
	if got, err := back(`{"n":1,"mcpServers":{"a":{"type":"http","url":"`+viaHTTP.URL+`"}}}`, r); err != nil || string(got.result) != `{"n":1}` {
		t.Errorf("the container that was made stays: %s %v", got.result, err)
	}
	// A damaged backup is no backup.
	desk.keep(t, []byte("{}"))
	r.Before, r.Backup = converge.Expected{SHA256: hashOf([]byte(before))}, "0"
	if _, err := back(string(made.result), r); codeOf(err) != "backup-damaged" {
		t.Errorf("damaged backup: %v", err)
	}
}

// TestRenamedProgram: what is written as mcpx is mcpx, whatever its file is called.
func TestRenamedProgram(t *testing.T) {
	desk := newDesk(t)
	l := desk.place(t, Codex, "config.toml")
	form := *viaBridge
	form.Command = "/opt/bin/gateway"
	dr, err := desk.draft(desk.look, converge.Drafting{Agent: "codex", Path: l.File.Path, Steps: []converge.Step{{Op: converge.StepSet, Name: "a", Want: &form}}}, []byte("[mcp_servers.a]\ncommand = \"x\"\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, hub := range []Hub{{Servers: desk.look.Names, Program: form.Command}, {Servers: desk.look.Names, Wrote: []string{form.Command}}} {
		o := Read(l, dr.result, hub)
		if e := o.Entries[0]; e.Routed == nil || e.Routed.Server != "srv" || e.Package != nil {
			t.Errorf("%+v is read as %+v", hub, e)
		}
	}
	if e := Read(l, dr.result, Hub{Servers: desk.look.Names}).Entries[0]; e.Routed != nil {
		t.Errorf("without that it is some program, and not %+v", e.Routed)
	}
}

// TestNotes: what a diff cannot show is told.
func TestNotes(t *testing.T) {
	desk := newDesk(t)
	l := desk.place(t, OpenCode, "opencode.jsonc")
	for code, data := range map[string]string{
		"byte-order-mark":      "\xef\xbb\xbf{\"mcp\":{\"a\":{\"type\":\"local\",\"command\":[\"x\"]}}}",
		"line-ends":            "{\r\n\"mcp\":{\"a\":{\"type\":\"local\",\"command\":[\"x\"]}}\n}",
		"invisible-characters": "{\"mcp\":{\"a\":{\"type\":\"local\",\"command\":[\"x\u200b\"]}}}",
		"lossy-comment":        "{\"mcp\":{\"a\":{\"type\":\"local\",\"command\":[\"x\" /* why */]}}}",
		"context-may-move":     "{\"mcp\":{\"a\":{\"type\":\"local\",\"command\":[\"x\"]}}}",
	} {
		d := converge.Drafting{Agent: "opencode", Path: l.File.Path, Steps: []converge.Step{{Op: converge.StepSet, Name: "a", Want: viaHTTP}}}
		dr, err := desk.draft(desk.look, d, []byte(data), true)
		if err != nil {
			t.Fatal(code, err)
		}
		for _, n := range dr.change.Notes {
			if _, ok := converge.Explain(n.Code); !ok {
				t.Errorf("%s is not explained", n.Code)
			}
		}
		if !slices.ContainsFunc(dr.change.Notes, func(n converge.Note) bool { return n.Code == code }) {
			t.Errorf("%s is not told: %+v", code, dr.change.Notes)
		}
	}
	file := converge.Drafting{Path: "/home/ada/.config/systemd/user/mcpx.service", Steps: []converge.Step{{Op: converge.StepFile, Content: "[Unit]\n"}}}
	if dr, err := desk.draft(desk.look, file, nil, false); err != nil || string(dr.result) != "[Unit]\n" || !strings.Contains(dr.change.Diff, "+[Unit]\n") {
		t.Errorf("%+v %v", dr.change, err)
	}
}

// TestDraftLarge: the largest file that was seen, with its history of projects, is drafted in little time.
func TestDraftLarge(t *testing.T) {
	desk := newDesk(t)
	var b bytes.Buffer
	size := 12 << 20
	if raceOn {
		size = 1 << 20
	}
	b.WriteString("{\n  \"projects\": {\n")
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "    \"/home/ada/%d\": {\n      \"history\": [\"%s\"],\n      \"mcpServers\": {}\n    },\n", i, strings.Repeat("words of a prompt ", 30))
	}
	b.WriteString("    \"/last\": {}\n  },\n  \"mcpServers\": {\"a\": {\"command\": \"x\"}}\n}\n")
	d := converge.Drafting{Agent: "claude_code", Path: filepath.Join(desk.look.Home, ".claude.json"), Steps: []converge.Step{{Op: converge.StepSet, Name: "a", Want: viaHTTP}}}
	start := time.Now()
	dr, err := desk.draft(desk.look, d, b.Bytes(), true)
	if err != nil || len(dr.result) < size {
		t.Fatal(err)
	}
	t.Logf("%d MiB in %v", size>>20, time.Since(start))
}
