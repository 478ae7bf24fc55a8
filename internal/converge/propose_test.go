package converge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/catalog"
)

var testNow = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// testWorld is one managed agent with a user's and a project's file, and the catalog of classify_test.go.
func testWorld(entries ...Entry) World {
	w := World{
		Files: []File{
			{Agent: "claude_code", Path: "/h/.claude.json", Scope: "user", State: FileReadable, Entries: 1, Real: "/h/.claude.json", SHA256: "aa"},
			{Agent: "claude_code", Path: "/p/.mcp.json", Scope: "project", State: FileReadable, Shared: true, Real: "/p/.mcp.json", SHA256: "bb"},
			{Agent: "codex", Path: "/h/.codex/config.toml", Scope: "user", State: FileAbsent},
		},
		Servers: servers, Revision: "r1", Adapter: "1", Port: "30000", Program: "/opt/mcpx", Look: Look{Home: "/h", Names: map[string]bool{"files": false}},
		Agents: []AgentRecord{{Agent: "claude_code", Level: LevelManaged}},
		Now:    testNow,
	}
	return w.with(entries...)
}

// with puts the entries into the user's file, where they name no other, and judges them.
func (w World) with(entries ...Entry) World {
	for i := range entries {
		e := &entries[i]
		if e.Agent == "" {
			e.Agent = "claude_code"
		}
		if e.File == "" {
			e.File, e.Scope = "/h/.claude.json", "user"
		}
		if e.At == nil {
			e.At = []string{"mcpServers", e.Name}
		}
		if e.ID == "" {
			e.ID = "obs_" + e.File + e.Name
		}
		if e.Auth == "" {
			e.Auth = "none"
		}
		if e.Digest == "" {
			e.Digest = "d-" + e.Name
		}
	}
	w.Findings = Classify(entries, w.Servers, nil)
	return w
}

func in(file, scope string) func(*Entry) {
	return func(e *Entry) { e.File, e.Scope = file, scope }
}

// said is a proposal in one line: kind, entry, risk with its reasons, form, and what stands in the way.
func said(p Proposal) string {
	out := []string{string(p.Kind), p.Agent, p.Entry, string(p.Risk.Class) + "(" + strings.Join(p.Risk.Reasons, ",") + ")"}
	for _, f := range p.Files {
		for _, s := range f.Steps {
			step := string(s.Op)
			if s.Want != nil {
				step += " " + string(s.Want.Kind) + " " + s.Want.URL + strings.Join(append([]string{s.Want.Command}, s.Want.Args...), " ")
			}
			for _, m := range s.Moves {
				step += fmt.Sprintf(" %s>%s%s", strings.Join(m.Field, "."), m.Credential, m.Put)
			}
			out = append(out, f.Path+" "+step)
		}
	}
	for _, need := range p.Needs {
		out = append(out, "needs "+need)
	}
	for _, problem := range p.Problems {
		out = append(out, "problem "+problem.Code)
	}
	return strings.Join(out, " | ")
}

func TestPropose(t *testing.T) {
	const filesURL = "http://127.0.0.1:30000/servers/files/mcp"
	direct := stdio("files", "npx files@1")
	withServer := func(w World, change func(*catalog.Server)) World {
		w.Servers = slices.Clone(w.Servers)
		change(&w.Servers[0])
		var all []Entry
		for _, f := range w.Findings {
			all = append(all, f.Entry)
		}
		return w.with(all...)
	}
	mounted := func(w World, mounts ...Mount) World {
		w.Agents = []AgentRecord{{Agent: "claude_code", Level: LevelManaged, Mounts: mounts}}
		return w
	}
	for _, c := range []struct {
		name  string
		world World
		want  []string
	}{
		{"nothing to do", testWorld(routedTo("files", RoutedHere)), nil},
		{"direct and equal", testWorld(direct), []string{"route | claude_code | files | normal() | /h/.claude.json set http " + filesURL}},
		{"an absolute launcher is the same launcher", testWorld(stdio("files", "/usr/local/bin/npx files@1")), []string{"route | claude_code | files | normal() | /h/.claude.json set http " + filesURL}},
		{"another version", testWorld(stdio("files", "npx files@2")), []string{"route | claude_code | files | normal() | /h/.claude.json set http " + filesURL}},
		{
			"in a shared file with a directory and fields that nobody knows",
			testWorld(but(but(direct, in("/p/.mcp.json", "project")), func(e *Entry) { e.Cwd, e.Extra, e.Parse = "/p", []string{"odd"}, "extra" })),
			[]string{"route | claude_code | files | high(cwd-involved,file-shared,unknown-fields) | /p/.mcp.json set bridge /opt/mcpx connect --agent claude_code files | needs mcpx server edit files --sharing workspace"},
		},
		{
			"a variable that the catalog has no value for", testWorld(but(direct, func(e *Entry) { e.Variables = []string{"TOKEN"} })),
			[]string{"route | claude_code | files | high(variables-involved) | /h/.claude.json set http " + filesURL + " | needs mcpx catalog review files --bind TOKEN=env:TOKEN"},
		},
		{
			"a variable that the catalog has", withServer(testWorld(but(direct, func(e *Entry) { e.Variables = []string{"TOKEN"} })), func(s *catalog.Server) {
				s.Stdio = &catalog.Stdio{Command: "npx", Args: []string{"files@1"}, Env: map[string]catalog.Binding{"TOKEN": {Ref: "env:TOKEN"}}}
			}), []string{"route | claude_code | files | high(variables-involved) | /h/.claude.json set http " + filesURL},
		},
		{
			"a raw secret", testWorld(but(direct, func(e *Entry) {
				e.Variables, e.Problems = []string{"API.KEY"}, []Problem{{Code: "raw-secret", Field: "env.API.KEY"}}
			})),
			[]string{"move-secret | claude_code | files | high(binding-for-everyone,secret-involved,variables-involved) | /h/.claude.json set http " + filesURL + " env.API.KEY>files-api.key"},
		},
		{
			"a raw secret whose credential is there", func() World {
				w := testWorld(but(direct, func(e *Entry) {
					e.Variables, e.Problems = []string{"FILES_TOKEN"}, []Problem{{Code: "raw-secret", Field: "env.FILES_TOKEN"}}
				}))
				w.Known = map[string]bool{"files-token": true}
				return w
			}(),
			[]string{"route | claude_code | files | high(secret-involved,variables-involved) | /h/.claude.json set http " + filesURL + " | needs mcpx catalog review files --bind FILES_TOKEN=store:files-token"},
		},
		{
			"a server for each agent", withServer(testWorld(direct), func(s *catalog.Server) { s.Sharing = catalog.ShareAgent }),
			[]string{"route | claude_code | files | normal() | /h/.claude.json set bridge /opt/mcpx connect --agent claude_code files"},
		},
		{
			"a token for everybody", func() World { w := testWorld(direct); w.Token = true; return w }(),
			[]string{"route | claude_code | files | normal() | /h/.claude.json set bridge /opt/mcpx connect --agent claude_code files"},
		},
		{
			"variables that are handed on", withServer(testWorld(but(direct, func(e *Entry) { e.Variables = []string{"A"} })), func(s *catalog.Server) {
				s.Stdio = &catalog.Stdio{Command: "npx", Args: []string{"files@1"}, EnvPass: []string{"A"}}
			}),
			[]string{"route | claude_code | files | high(variables-involved) | /h/.claude.json set bridge /opt/mcpx connect --agent claude_code --pass A files"},
		},
		{
			"a server that works on the project", withServer(testWorld(stdio("files", "npx files@1 .")), func(s *catalog.Server) {
				s.Stdio = &catalog.Stdio{Command: "npx", Args: []string{"files@1", "."}, CwdPolicy: catalog.CwdWorkspace}
			}),
			[]string{"route | claude_code | files | normal() | /h/.claude.json set bridge /opt/mcpx connect --agent claude_code files"},
		},
		{
			"a server whose directory a person fixed", withServer(testWorld(stdio("files", "npx files@1 .")), func(s *catalog.Server) {
				s.Stdio = &catalog.Stdio{Command: "npx", Args: []string{"files@1", "."}, Cwd: "/srv"}
			}),
			[]string{"route | claude_code | files | normal() | /h/.claude.json set http " + filesURL},
		},
		{"a server that nobody shares", withServer(testWorld(direct), func(s *catalog.Server) { s.Sharing = catalog.ShareNone }), nil},
		{
			"a server that waits for review", withServer(testWorld(direct), func(s *catalog.Server) { s.Review = catalog.ReviewPending }),
			[]string{"route | claude_code | files | normal() | /h/.claude.json set http " + filesURL + " | needs mcpx catalog review files --approve"},
		},
		{
			"a deprecated server", withServer(testWorld(direct), func(s *catalog.Server) { s.Lifecycle = catalog.Deprecated }),
			[]string{"route | claude_code | files | normal() | /h/.claude.json set http " + filesURL + " | problem server-deprecated"},
		},
		{
			"layers", testWorld(but(direct, func(e *Entry) { e.Facts.Layered = true })),
			[]string{"route | claude_code | files | normal() | /h/.claude.json set http " + filesURL + " | problem layer-conflict"},
		},
		{
			"a layer whose headers would travel",
			testWorld(but(direct, func(e *Entry) { e.Facts.Layered = true }), but(but(http("files", "https://example.com/x"), in("/p/.mcp.json", "project")), func(e *Entry) { e.Headers = []string{"Authorization"} })),
			[]string{"route | claude_code | files | normal() | /h/.claude.json set http " + filesURL + " | problem header-leak-by-merge"},
		},
		{"off", testWorld(but(direct, func(e *Entry) { e.Enabled = false })), nil},
		{
			"off and asked for", func() World {
				w := testWorld(but(direct, func(e *Entry) { e.Enabled = false }))
				w.Asked.Off = true
				return w
			}(),
			[]string{"route | claude_code | files | normal() | /h/.claude.json set http " + filesURL},
		},
		{"an agent that is only observed", func() World { w := testWorld(direct); w.Agents = nil; return w }(), nil},
		{
			"an agent that is observed and asked for", func() World {
				w := testWorld(direct)
				w.Agents = nil
				w.Asked.Agents = []string{"claude_code"}
				return w
			}(),
			[]string{"route | claude_code | files | normal() | /h/.claude.json set http " + filesURL},
		},
		{"a file of the administrator", func() World { w := testWorld(direct); w.Files[0].Scope = "managed"; return w }(), nil},
		{"a broken file", func() World { w := testWorld(direct); w.Files[0].State = FileBroken; return w }(), nil},

		{"two servers fit", testWorld(stdio("x", "npx twin@1")), nil},
		{"the name is another server's", testWorld(stdio("files", "npx new")), nil},
		{"the name is another server's alias", testWorld(stdio("fs", "npx new")), nil},
		{"only the name is the same", testWorld(stdio("files", "npx --odd files@1")), nil},
		{"not in the catalog", testWorld(stdio("new", "npx new")), nil},
		{
			"a candidate", func() World {
				w := testWorld(stdio("new", "npx new"))
				w.Staged = map[string]Staged{w.Findings[0].ID: {ID: "cand_1", Name: "new"}}
				return w
			}(),
			[]string{"import | claude_code | new | high(new-in-catalog) | /h/.claude.json set http http://127.0.0.1:30000/servers/new/mcp | needs mcpx catalog review cand_1 --promote"},
		},
		{
			"a rejected candidate", func() World {
				w := testWorld(stdio("new", "npx new"))
				w.Staged = map[string]Staged{w.Findings[0].ID: {ID: "cand_1", Name: "new", Rejected: true}}
				return w
			}(), nil,
		},
		{
			"what a person linked", func() World {
				w := testWorld(stdio("x", "npx twin@1"))
				w.Servers = slices.Clone(w.Servers)
				w.Servers[1].ID = "srv_1"
				w.Findings = Classify([]Entry{w.Findings[0].Entry}, w.Servers, map[string]string{"d-x": "srv_1"})
				return w
			}(),
			[]string{"route | claude_code | x | normal() | /h/.claude.json set http http://127.0.0.1:30000/servers/one/mcp"},
		},

		{"a stale port", testWorld(routedTo("files", RoutedStalePort)), []string{"fix-endpoint | claude_code | files | normal() | /h/.claude.json set http " + filesURL}},
		{"an unknown server of ours", testWorld(routedTo("gone", RoutedUnknown)), nil},
		{"another hub", testWorld(routedTo("files", RoutedForeign)), nil},
		{"http to another machine", testWorld(http("x", "http://example.com/m")), []string{"fix-endpoint | claude_code | x | high(endpoint-changed) | /h/.claude.json ref url>https://example.com/m"}},
		{"http to another port of another machine", testWorld(http("x", "http://example.com:8080/m")), nil},
		{
			"credentials in the URL of a known server", testWorld(but(http("docs", "https://example.com/mcp"), func(e *Entry) { e.Facts.URLCredentials, e.Facts.Hidden = true, true })),
			[]string{"fix-endpoint | claude_code | docs | high(endpoint-changed,secret-involved) | /h/.claude.json set http http://127.0.0.1:30000/servers/docs/mcp"},
		},
		{"a file that everybody writes", testWorld(but(direct, func(e *Entry) { e.Facts.FileWritable = true })), nil},

		{
			"a mount that is missing", mounted(withID(testWorld()), Mount{Server: "srv_files", Name: "files"}),
			[]string{"add | claude_code | files | normal() | /h/.claude.json set http " + filesURL},
		},
		{"a mount that is off", mounted(withID(testWorld(but(routedTo("files", RoutedDisabled), func(e *Entry) { e.Enabled = false }))), Mount{Server: "srv_files", Name: "files"}), nil},
		{
			"a mount whose name is taken", mounted(withID(testWorld(stdio("f", "npx other"))), Mount{Server: "srv_files", Name: "f"}),
			[]string{"add | claude_code | f | normal() | /h/.claude.json set http " + filesURL + " | problem name-taken"},
		},
		{
			"a mount beside an entry of a project, in an agent that merges", func() World {
				w := withID(testWorld(but(stdio("files", "npx other"), func(e *Entry) { e.Agent, e.File, e.Scope = "codex", "/p/.codex/config.toml", "project" })))
				w.Agents = []AgentRecord{{Agent: "codex", Level: LevelManaged, Mounts: []Mount{{Server: "srv_files", Name: "files"}}}}
				return w
			}(),
			[]string{"add | codex | files | normal() | /h/.codex/config.toml set http " + filesURL + " | problem layer-conflict"},
		},
		{
			"a mount that shall go", mounted(testWorld(routedTo("files", RoutedHere)), Mount{Name: "files", Absent: true}),
			[]string{"remove | claude_code | files | high(entry-removed) | /h/.claude.json remove"},
		},
		{
			"what is extra", func() World {
				w := testWorld(routedTo("files", RoutedHere), stdio("new", "npx new"))
				w.Agents[0].Only = true
				return w
			}(),
			[]string{"remove | claude_code | files | high(entry-removed) | /h/.claude.json remove"},
		},
		{
			"copies in two files", testWorld(routedTo("files", RoutedHere), but(routedTo("files", RoutedHere), in("/p/.mcp.json", "project"))),
			[]string{"merge | claude_code | files | high(entry-removed,file-shared) | /p/.mcp.json remove"},
		},
		{"copies with two names", testWorld(routedTo("files", RoutedHere), routedTo("fs", RoutedAlias)), nil},
		{
			"copies in two projects only",
			testWorld(but(routedTo("files", RoutedHere), in("/p/.mcp.json", "project")), but(routedTo("files", RoutedHere), in("/q/.mcp.json", "project"))), nil,
		},
		{
			"the control plane by a helper", func() World { w := testWorld(); w.Agents[0].Control = "helper"; return w }(),
			[]string{"control-plane | claude_code | mcp_hub | normal() | /h/.claude.json set http http://127.0.0.1:30000/servers/mcp_hub/mcp"},
		},
		{
			"the control plane in an absent file", func() World {
				w := testWorld()
				w.Agents = []AgentRecord{{Agent: "codex", Level: LevelManaged, Control: "bridge"}}
				return w
			}(),
			[]string{"control-plane | codex | mcp_hub | normal() | /h/.codex/config.toml set bridge /opt/mcpx connect --agent codex mcp_hub"},
		},
		{
			"the control plane by a way that the agent does not have", func() World { w := testWorld(); w.Agents[0].Control = "carrier-pigeon"; return w }(),
			[]string{"control-plane | claude_code | mcp_hub | normal() | problem strategy-unsupported"},
		},
		{"the control plane is there", func() World {
			w := testWorld(but(routedTo(HubName, RoutedHere), func(e *Entry) { e.Auth = "helper" }))
			w.Agents[0].Control = "helper"
			return w
		}(), nil},
		{"the control plane without a token", func() World {
			w := testWorld(routedTo(HubName, RoutedHere))
			w.Agents[0].Control = "helper"
			return w
		}(), []string{"control-plane | claude_code | mcp_hub | normal() | /h/.claude.json set http http://127.0.0.1:30000/servers/mcp_hub/mcp"}},
		{"the control plane in another way", func() World {
			w := testWorld(but(routedTo(HubName, RoutedHere), func(e *Entry) { e.Auth = "header-template" }))
			w.Agents[0].Control = "bridge"
			return w
		}(), []string{"control-plane | claude_code | mcp_hub | normal() | /h/.claude.json set bridge /opt/mcpx connect --agent claude_code mcp_hub"}},

		{
			"leaving", func() World { w := testWorld(routedTo("files", RoutedHere), direct); w.Asked.Unroute = true; return w }(),
			[]string{"unroute | claude_code | files | normal() | /h/.claude.json set direct npx files@1"},
		},
		{
			"leaving with a value that only mcpx can get", func() World {
				w := withServer(testWorld(routedTo("files", RoutedHere)), func(s *catalog.Server) {
					s.Stdio = &catalog.Stdio{Command: "npx", Env: map[string]catalog.Binding{"A": {Ref: "store:a"}, "B": {Ref: "env:B"}}}
				})
				w.Asked.Unroute = true
				return w
			}(),
			[]string{"unroute | claude_code | files | normal() | /h/.claude.json set direct npx | problem unroute-credential"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, p := range Propose(c.world) {
				got = append(got, said(p))
				for _, code := range slices.Concat(p.Reasons, p.Risk.Reasons, p.auto, p.Match.Reasons) {
					if _, ok := Explain(code); !ok {
						t.Errorf("%s is not explained", code)
					}
				}
				if p.Summary == "" || len(p.Reasons) == 0 {
					t.Errorf("%+v: want a summary and a reason", p)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// withID gives the server files the id that mounts name.
func withID(w World) World {
	w.Servers = slices.Clone(w.Servers)
	w.Servers[0].ID = "srv_files"
	return w
}

// TestNothingIsGuessed: where there is no plan for an entry that goes around mcpx, a person is told why and what to type.
func TestNothingIsGuessed(t *testing.T) {
	for _, c := range []struct {
		name  string
		entry Entry
		want  string
	}{
		{"two servers of the catalog with one backend", stdio("x", "npx twin@1"), "ambiguous: several servers of the catalog fit equally well: [one two] > mcpx catalog review --link obs_/h/.claude.jsonx SERVER"},
		{"the name of another server", stdio("files", "npx new"), "name-conflict: has the name or an alias of files and is another server > mcpx catalog review --link obs_/h/.claude.jsonfiles files"},
		{"an alias of another server", stdio("fs", "npx new"), "name-conflict: has the name or an alias of files and is another server > mcpx catalog review --link obs_/h/.claude.jsonfs files"},
		{"a launcher that may be misread", stdio("files", "npx --odd files@1"), "unknown-server: may be [files], but that is not sure enough: [same-name identity-weak] > mcpx catalog review --link obs_/h/.claude.jsonfiles files"},
		{"nothing like it", stdio("new", "npx new"), "unknown-server: is not in the catalog > mcpx audit run --agent claude_code"},
		{"a hub that is not ours", routedTo("files", RoutedForeign), "foreign-hub: leads to another hub on this machine > mcpx cutover dry-run --from NAME"},
		{"a name that the catalog lost", routedTo("gone", RoutedUnknown), `routed-unknown: leads to "gone", which the catalog does not have > mcpx server list`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := testWorld(c.entry)
			if got := Propose(w); len(got) != 0 {
				t.Errorf("a plan was made: %s", said(got[0]))
			}
			var got []string
			for _, trouble := range Drift(w) {
				got = append(got, fmt.Sprintf("%s: %s > %s", trouble.Code, trouble.Text, trouble.Command))
				if _, ok := Explain(trouble.Code); !ok {
					t.Errorf("%s is not explained", trouble.Code)
				}
			}
			if d := cmp.Diff([]string{c.want}, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestHubForms: an entry names where a token comes from, never the token.
func TestHubForms(t *testing.T) {
	w := testWorld()
	w.Program = "/opt/my tools/mcpx"
	x := look(w)
	got := map[string]string{}
	for _, c := range [][2]string{{"claude_code", "helper"}, {"claude_code", "env"}, {"codex", "env"}, {"codex", "helper"}, {"opencode", "env"}, {"cline", "env"}, {"gemini", "helper"}} {
		form, ok := x.hub(c[0], c[1])
		if !ok {
			got[c[0]+" "+c[1]] = "no"
			continue
		}
		got[c[0]+" "+c[1]] = form.Helper + form.Bearer + form.Headers["Authorization"]
	}
	want := map[string]string{
		"claude_code helper": "'/opt/my tools/mcpx' token print --agent claude_code --as headers",
		"claude_code env":    "Bearer ${MCPX_TOKEN_CLAUDE_CODE}",
		"codex env":          "MCPX_TOKEN_CODEX",
		"codex helper":       "'/opt/my tools/mcpx' token print --agent codex --as headers",
		"opencode env":       "Bearer {env:MCPX_TOKEN_OPENCODE}",
		"cline env":          "no",
		"gemini helper":      "no",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestHabits: every agent whose files are read says how it is made to read them again.
func TestHabits(t *testing.T) {
	for _, agent := range slices.Sorted(maps.Keys(habits)) {
		if lines := effects(agent, "x", &Form{Kind: FormHTTP, Server: "x", URL: "u"}, true, true); len(lines) < 3 || strings.Contains(strings.Join(lines, ""), "%!") {
			t.Errorf("%s: %q", agent, lines)
		}
	}
}

func TestDirectForm(t *testing.T) {
	s := catalog.Server{Name: "x", HTTP: &catalog.HTTP{URL: "https://e/", Headers: map[string]catalog.Binding{"Authorization": {Template: "Bearer {env:TOK}"}, "X": {Literal: "1"}}}}
	for agent, want := range map[string]Form{
		"codex":       {Kind: FormDirect, Server: "x", URL: "https://e/", Bearer: "TOK", Headers: map[string]string{"X": "1"}},
		"claude_code": {Kind: FormDirect, Server: "x", URL: "https://e/", Headers: map[string]string{"Authorization": "Bearer ${TOK}", "X": "1"}},
	} {
		var p Proposal
		if d := cmp.Diff(&want, direct(&p, Entry{Agent: agent}, &s)); d != "" || len(p.Problems) > 0 {
			t.Errorf("%s: %v -want +got:\n%s", agent, p.Problems, d)
		}
	}
	var p Proposal
	direct(&p, Entry{Agent: "cline"}, &s) // it has no references
	if d := cmp.Diff([]string{problemUnroute}, codesOf(p.Problems)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func codesOf(all []Problem) []string {
	var out []string
	for _, p := range all {
		out = append(out, p.Code)
	}
	return out
}
