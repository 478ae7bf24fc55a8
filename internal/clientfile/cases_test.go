package clientfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testHub is the mcpx of the cases.
var testHub = Hub{Port: "30000", Servers: map[string]bool{"context7": false, "older": false, "bridged": false, "alias": true}}

// TestCases: 25 files of five agents against the observation that is expected of each.
func TestCases(t *testing.T) {
	count := 0
	for _, a := range Agents() {
		cases, err := filepath.Glob(filepath.Join("testdata", string(a), "cases", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range cases {
			count++
			t.Run(string(a)+"/"+filepath.Base(dir), func(t *testing.T) {
				var want struct {
					File File `json:"file"`
				}
				expected := readFile(t, filepath.Join(dir, "expected.json"))
				if err := json.Unmarshal(expected, &want); err != nil {
					t.Fatal(err)
				}
				inputs, err := filepath.Glob(filepath.Join(dir, "input.*"))
				if err != nil || len(inputs) != 1 {
					t.Fatalf("inputs %v, %v", inputs, err)
				}
				want.File.Format = "" // the reader has to say it
				got, err := json.Marshal(Read(Location{Agent: a, File: want.File}, readFile(t, inputs[0]), testHub))
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(value(t, expected), value(t, got)); d != "" {
					t.Errorf("-want +got:\n%s", d)
				}
			})
		}
	}
	if count != 25 {
		t.Errorf("%d cases, want 25", count)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func value(t *testing.T, data []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestWritten: files that the agents wrote themselves are read without loss. Each line is one entry: scope, state,
// transport, auth, then what is particular.
func TestWritten(t *testing.T) {
	want := map[string]string{
		"claude_code/after-tui-approve--settings.local.json": "",
		"claude_code/after-tui-session--claude.json":         "usr on http none complete",
		"claude_code/local-and-user--claude.json": `proj-http local on http none complete
db local on stdio none complete raw-secret:env.PGURL
everywhere on http none complete`,
		"claude_code/project-mcpjson--mcp.json": `team on http none complete
lint on stdio none complete`,
		"claude_code/user-http-stdio--claude.json": `github on http header-literal complete raw-secret:headers.Authorization
fs on stdio none complete
linear on sse none complete`,
		"codex/fresh-mixed--config.toml": `fs on stdio none complete
gh on http env-name complete
ev.dot on http none complete
oauth on http oauth complete`,
		"codex/handwritten-then-add--config.toml": `docs on stdio none complete raw-secret:env.API_KEY
off off http env-name complete
new on http none complete`,
		"codex/inline-then-add--config.toml": `docs on stdio none complete
h on http none complete
new on http none complete`,
		"gemini/full-flags--settings.json":    "full on http none complete",
		"gemini/project-scope--settings.json": "team on http none complete",
		"gemini/user-mixed--settings.json": `h on http header-template complete
sse on sse none complete`,
		"gemini/user-mixed2--settings.json": `fs on stdio none complete
h on http header-template complete`,
		"cline/cli-mixed--cline_mcp_settings.json": `fs on stdio none complete
h on http header-literal complete raw-secret:transport.headers.Authorization
sse on sse none complete`,
		"cline/one-http--cline_mcp_settings.json": "only on http none complete",
		"cline/vscode-flat-then-add--cline_mcp_settings.json": `github.com/acme/fs on stdio none complete
remote off http header-literal complete raw-secret:headers.Authorization
new on http none complete`,
		"opencode/global-mixed--opencode.jsonc": `fs on stdio none complete
h on http header-template complete`,
		"opencode/jsonc-comments-then-add--opencode.jsonc": `fs off stdio none complete
new on http none complete`,
		"kilo/global-mixed--kilo.jsonc": `fs on stdio none complete
h on http header-template complete`,
		"kilo/project-after-list--kilo.json": "team on http none complete",
		"qwen/full-flags--settings.json":     "full on http none complete",
		"qwen/project-scope--settings.json":  "team on http none complete",
		"qwen/user-mixed--settings.json": `fs on stdio none complete
h on http header-template complete
sse on sse none complete`,
		"copilot/disabled--mcp-config.json": "h on http none complete", // the other file has it off
		"copilot/disabled--settings.json":   "",
		"copilot/mixed--mcp-config.json": `fs on stdio none complete
h on http header-template complete
t on http none complete`,
		"droid/mixed--mcp.json": `fs on stdio none complete
h on http header-template complete
s on sse none complete`,
		"droid/one-stdio--mcp.json":          "s on stdio none complete",
		"continue/hand-secrets--config.yaml": "t on http header-template complete",
		"continue/hand-stdio--config.yaml":   "st on stdio none complete",
		"amp/mixed--settings.json": `fs on stdio none complete
h on http header-literal complete raw-secret:headers.Authorization`,
		"amp/workspace--settings.json": "w on http none complete",
		"auggie/mixed--settings.json": `fs on stdio none complete
h on http header-literal complete raw-secret:headers.Authorization
j on sse none complete`,
		"auggie/project--settings.json":     "p on http none complete",
		"auggie/local--settings.local.json": "p on http none complete",
	}
	seen := 0
	for _, a := range Agents() {
		files, err := filepath.Glob(filepath.Join("testdata", string(a), "written", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			name := string(a) + "/" + filepath.Base(path)
			seen++
			t.Run(name, func(t *testing.T) {
				l := Location{Agent: a, File: File{Path: path, Scope: ScopeUser}}
				if a == Copilot && strings.HasSuffix(path, "settings.json") {
					l.list = copilotSettings
				}
				o := Read(l, readFile(t, path), testHub)
				if len(o.Problems) > 0 {
					t.Errorf("problems %v", o.Problems)
				}
				lines, known := want[name]
				if !known {
					t.Fatal("the file has no expectation")
				}
				if d := cmp.Diff(lines, summary(o)); d != "" {
					t.Errorf("-want +got:\n%s", d)
				}
			})
		}
	}
	if seen != len(want) {
		t.Errorf("%d files, want %d", seen, len(want))
	}
}

// TestWrittenRecords: the whole observation of files that agents wrote, each checked by hand against the dialect.
func TestWrittenRecords(t *testing.T) {
	records, err := filepath.Glob(filepath.Join("testdata", "*", "observed", "*.json"))
	if err != nil || len(records) == 0 {
		t.Fatalf("records %v, %v", records, err)
	}
	for _, path := range records {
		dir, name := filepath.Dir(filepath.Dir(path)), strings.TrimSuffix(filepath.Base(path), ".json")
		a := Agent(filepath.Base(dir))
		t.Run(string(a)+"/"+name, func(t *testing.T) {
			expected := readFile(t, path)
			var want struct {
				File File `json:"file"`
			}
			if err := json.Unmarshal(expected, &want); err != nil {
				t.Fatal(err)
			}
			want.File.Format = "" // the reader has to say it
			inputs, err := filepath.Glob(filepath.Join(dir, "written", name+".*"))
			if err != nil || len(inputs) != 1 {
				t.Fatalf("inputs %v, %v", inputs, err)
			}
			got, err := json.Marshal(Read(Location{Agent: a, File: want.File}, readFile(t, inputs[0]), testHub))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(value(t, expected), value(t, got)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func summary(o Observed) string {
	var lines []string
	for _, e := range o.Entries {
		words := []string{e.Name}
		if e.Scope != "" {
			words = append(words, string(e.Scope))
		}
		state := "off"
		if e.Enabled {
			state = "on"
		}
		words = append(words, state, string(e.Transport), string(e.Auth), string(e.Parse))
		for _, p := range e.Problems {
			words = append(words, p.Code+":"+p.Field)
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "\n")
}

// TestNoSecretInObservations: whatever form an observation is printed in, the fake secrets of the files are not there.
func TestNoSecretInObservations(t *testing.T) {
	secrets := []string{"FAKE", "Bearer x", "hunter2"}
	check := func(name string, o Observed) {
		encoded, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{string(encoded), fmt.Sprintf("%v", o), fmt.Sprintf("%+v", o.Problems)} {
			for _, s := range secrets {
				if strings.Contains(form, s) {
					t.Errorf("%s shows %s: %s", name, s, form)
				}
			}
		}
	}
	for _, a := range Agents() {
		files, err := filepath.Glob(filepath.Join("testdata", string(a), "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		nested, err := filepath.Glob(filepath.Join("testdata", string(a), "cases", "*", "input.*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range append(files, nested...) {
			if info, err := os.Stat(path); err != nil || info.IsDir() {
				continue
			}
			check(path, Read(Location{Agent: a}, readFile(t, path), testHub))
		}
	}
	for a, doc := range map[Agent]string{
		Claude: `{"mcpServers": {"a": {"command": "x --token hunter2", "args": ["--api-key", "hunter2", "https://u:hunter2@h/", "TOKEN=hunter2"]},
			"b": {"type": "http", "url": "https://u:hunter2@h/?api_key=hunter2", "headers": {"Authorization": "Bearer hunter2"}}}}`,
		Codex:  "[mcp_servers.a]\nurl = \"https://h/?token=hunter2\"\nbearer_token = \"hunter2\"\n",
		Gemini: `{"mcpServers": {"a": hunter2}}`,
		Cline:  `{"mcpServers": {"a": {"command": "x", "env": {"A": ["hunter2"]}}}}`,
		Continue: "mcpServers:\n- name: a\n  url: https://h/?token=hunter2\n  apiKey: hunter2\n  requestOptions: {headers: {X-Key: hunter2}}\n" +
			"- name: b\n  command: x\n  args: [--password, hunter2]\n  env: {TOKEN: &a hunter2, COPY: *a}\n",
		Copilot: `{"mcpServers": {"a": {"type": "http", "url": "https://u:hunter2@h", "headers": {"Authorization": "Bearer hunter2"}}, "b": {"command": "x", "env": {"PASSWORD": "hunter2"}}}}`,
	} {
		check(string(a), Read(Location{Agent: a}, []byte(doc), testHub))
	}
	check("codex broken", Read(Location{Agent: Codex}, []byte("token = hunter2\n"), testHub))
	for _, doc := range []string{"a: *hunter2\n", "a: \"hunter2\n", "hunter2: 1\nhunter2: 2\n", "a: {hunter2\n", "%hunter2\n---\n", "- !<hunter2> x: [", "a: b: hunter2\n", "a: \"\\qhunter2\"\n"} {
		check("continue broken", Read(Location{Agent: Continue}, []byte(doc), testHub))
	}
	check("codex twice", Read(Location{Agent: Codex}, []byte("hunter2 = 1\nhunter2 = 2\n"), testHub))
}

// TestReadDoesNotChangeTheBytes: readers hand the bytes to parsers that may work in place.
func TestReadDoesNotChangeTheBytes(t *testing.T) {
	for _, a := range Agents() {
		files, err := filepath.Glob(filepath.Join("testdata", string(a), "written", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			data := readFile(t, path)
			before := bytes.Clone(data)
			Read(Location{Agent: a}, data, testHub)
			if !bytes.Equal(before, data) {
				t.Errorf("%s was changed in memory", path)
			}
		}
	}
}
