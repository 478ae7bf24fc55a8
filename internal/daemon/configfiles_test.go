package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/clientfile"
	"mcpx/internal/control"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

const fixtures = "../clientfile/testdata"

// fixture is one case of package clientfile: where the file lies below a home, and its text.
type fixture struct {
	name, path string
	data       []byte
}

// testKey is the key of digests.
var testKey = bytes.Repeat([]byte("k"), stateKeyLen)

func readFixtures(t *testing.T) []fixture {
	t.Helper()
	expected, err := filepath.Glob(filepath.Join(fixtures, "*", "cases", "*", "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []fixture
	for _, name := range expected {
		var want struct {
			File struct {
				Path string `json:"path"`
			} `json:"file"`
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		inputs, err := filepath.Glob(filepath.Join(filepath.Dir(name), "input.*"))
		if err != nil || len(inputs) != 1 {
			t.Fatalf("%s: inputs %v, %v", name, inputs, err)
		}
		if data, err = os.ReadFile(inputs[0]); err != nil {
			t.Fatal(err)
		}
		rel, ok := strings.CutPrefix(want.File.Path, "/home/ada/")
		if !ok {
			t.Fatalf("%s lies in %s", name, want.File.Path)
		}
		all = append(all, fixture{name: strings.TrimPrefix(filepath.Dir(name), fixtures+"/"), path: rel, data: data})
	}
	if len(all) < 25 {
		t.Fatalf("%d fixtures, want at least the 25 of five agents", len(all))
	}
	return all
}

// placed writes a fixture into a home of its own.
func placed(t *testing.T, f fixture) clientfile.System {
	t.Helper()
	home := t.TempDir()
	path := filepath.Join(home, f.path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f.data, 0o600); err != nil {
		t.Fatal(err)
	}
	return clientfile.System{Home: home, Root: home}
}

var hub = clientfile.Hub{Port: "30000", Servers: map[string]bool{"context7": false, "older": false, "bridged": false}}

var inCatalog = []catalog.Server{
	{Name: "context7", HTTP: &catalog.HTTP{URL: "https://example.com/context7"}, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled},
	{Name: "older", HTTP: &catalog.HTTP{URL: "https://example.com/older"}, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled},
	{Name: "bridged", HTTP: &catalog.HTTP{URL: "https://example.com/bridged"}, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled},
	{
		Name: "github", Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled,
		Stdio: &catalog.Stdio{Command: "/opt/bin/uvx", Args: []string{"mcp-server-github", "--readonly"}, EnvPass: []string{"GITHUB_OWNER", "GITHUB_TOKEN"}},
	},
}

// TestFixturesAreClassified: what the cases mean against one catalog.
func TestFixturesAreClassified(t *testing.T) {
	got := map[string]string{}
	for _, f := range readFixtures(t) {
		seen := observation(placed(t, f), "", hub, testKey)
		var words []string
		for _, found := range converge.Classify(seen.Entries, inCatalog, nil) {
			words = append(words, fmt.Sprintf("%s %s %s", found.Name, found.Class, found.Match.Confidence))
			for _, code := range slices.Concat(found.Reasons, found.Match.Reasons, []string{string(found.Class)}) {
				if _, ok := converge.Explain(code); !ok {
					t.Errorf("%s: %s is not explained", f.name, code)
				}
			}
		}
		got[f.name] = strings.Join(words, "; ")
	}
	want := map[string]string{}
	data, err := os.ReadFile(filepath.Join("testdata", "classified.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	for name := range got {
		if _, ok := want[name]; !ok { // an agent that was added is tested where it is read
			delete(got, name)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// planted are values that must not come out, each in a place of its own.
var planted = struct{ flag, assigned, config, script, variable, header, user, password, query, part, passed string }{
	flag: "planted-flag-1", assigned: "planted-assigned-2", config: "planted-config-3", script: "planted-script-4", variable: "planted-variable-5",
	header: "planted-header-6", user: "planted-user-7", password: "planted-password-8", query: "planted-query-9", part: "sk-plantedpart10aaaa", passed: "planted-passed-11",
}

// plant puts the values into every entry that it finds, in whatever form the agent has: an object with a command or a
// URL is one.
func plant(v any) (any, int) {
	switch x := v.(type) {
	case map[string]any:
		count := 0
		for name, inner := range x {
			n := 0
			x[name], n = plant(inner)
			count += n
		}
		arguments := []any{
			"--api-key", planted.flag, "API_TOKEN=" + planted.assigned, `{"mode":"a","apiKey":"` + planted.config + `"}`,
			"run; export API_TOKEN=" + planted.script + " ; go", "--env=API_TOKEN=" + planted.passed,
		}
		variables, headers := map[string]any{"PLAIN": planted.variable, "API_TOKEN": planted.variable}, map[string]any{"X-Plain": planted.header, "Authorization": "Bearer " + planted.header}
		switch command := x["command"].(type) {
		case string:
			args, _ := x["args"].([]any)
			x["args"], x["env"] = append(args, arguments...), variables
			count++
		case []any:
			x["command"], x["environment"] = append(command, arguments...), variables
			count++
		}
		for _, field := range []string{"url", "httpUrl"} {
			raw, ok := x[field].(string)
			if !ok || !strings.Contains(raw, "://") || strings.Contains(raw, "/servers/") { // that of a routed entry names no secret
				continue
			}
			scheme, rest, _ := strings.Cut(raw, "://")
			x[field] = scheme + "://" + planted.user + ":" + planted.password + "@" + rest + "/" + planted.part + "/mcp?api_key=" + planted.query
			x["headers"] = headers
			count++
		}
		return x, count
	case []any:
		count := 0
		for i := range x {
			n := 0
			x[i], n = plant(x[i])
			count += n
		}
		return x, count
	}
	return v, 0
}

func TestNoPlantedSecretComesOut(t *testing.T) {
	total := 0
	for _, f := range readFixtures(t) {
		var doc any
		var encode func(any) ([]byte, error)
		switch ext := filepath.Ext(f.path); ext {
		case ".toml":
			if err := toml.Unmarshal(f.data, &doc); err != nil {
				t.Fatal(err)
			}
			encode = toml.Marshal
		case ".json", ".jsonc":
			strict, err := catalog.StandardJSON(bytes.TrimPrefix(f.data, []byte("\xef\xbb\xbf")), true, true)
			if err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
			if err := json.Unmarshal(strict, &doc); err != nil {
				t.Fatal(err)
			}
			encode = json.Marshal
		default:
			continue
		}
		doc, count := plant(doc)
		total += count
		var err error
		if f.data, err = encode(doc); err != nil {
			t.Fatal(err)
		}
		seen := observation(placed(t, f), "", hub, testKey)
		findings := converge.Classify(seen.Entries, inCatalog, nil)
		if count > 0 && len(findings) == 0 {
			t.Errorf("%s: nothing was read of the file with the planted values", f.name)
		}
		out, err := json.Marshal(map[string]any{"files": seen.Files, "findings": findings})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{string(out), fmt.Sprintf("%+v", findings), fmt.Sprintf("%#v", seen)} {
			for _, secret := range []string{"planted", "plantedpart"} {
				if i := strings.Index(text, secret); i >= 0 {
					t.Errorf("%s: a planted value comes out: ...%s", f.name, text[max(0, i-60):min(len(text), i+40)])
				}
			}
		}
	}
	if total < 20 {
		t.Errorf("values were planted into %d entries: does plant still find them?", total)
	}
}

// TestNoPlantedSecretInPlainForms: forms in which people write secrets into a command or URL.
func TestNoPlantedSecretInPlainForms(t *testing.T) {
	for name, entry := range map[string]map[string]any{
		"command line in one field": {"command": "API_TOKEN=planted npx x --token planted"},
		"env":                       {"command": "env", "args": []string{"API_TOKEN=planted", "npx", "x"}},
		"shell":                     {"command": "sh", "args": []string{"-c", "API_TOKEN=planted; export API_TOKEN; npx x"}},
		"shell, later":              {"command": "sh", "args": []string{"-c", "cd /x && API_TOKEN=planted npx x --password planted"}},
		"header of mcp-remote":      {"command": "npx", "args": []string{"mcp-remote", "https://h/x", "--header", "Authorization: Bearer planted"}},
		"header without a space":    {"command": "npx", "args": []string{"mcp-remote", "https://h/x", "--header", "X-Api-Key:planted"}},
		"header with =":             {"command": "npx", "args": []string{"mcp-remote", "https://h/x", "--header=Authorization: Bearer planted"}},
		"URL of mcp-remote":         {"command": "npx", "args": []string{"mcp-remote", "https://u:planted@h/x?api_key=planted"}},
		"docker":                    {"command": "docker", "args": []string{"run", "-e", "API_TOKEN=planted", "--env=API_TOKEN=planted", "-eAPI_TOKEN=planted", "r/x"}},
		"connection string":         {"command": "npx", "args": []string{"pg", "postgres://u:planted@h/db"}},
		"registry":                  {"command": "npx", "args": []string{"--registry", "https://u:planted@h/", "x"}},
		"flags":                     {"command": "npx", "args": []string{"x", "--password", "planted", "--auth=planted", "--access-key", "planted"}},
		"user in URL":               {"type": "http", "url": "https://planted@h/x"},
		"URL with a reference":      {"type": "http", "url": "https://u:planted@${HOST}/x?key=planted"},
		"websocket":                 {"type": "ws", "url": "wss://u:planted@h/x?token=planted"},
		"part of the path":          {"type": "http", "url": "https://h/s/sk-plantedplanted11/mcp"},
		"wrong type":                {"command": []string{"planted"}, "env": "planted"},
		"fields nobody knows":       {"command": "x", "secretStuff": map[string]string{"a": "planted"}},
		"values":                    {"command": "x", "env": map[string]string{"PLAIN": "planted"}, "cwd": 5},
	} {
		doc, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"x": entry}})
		if err != nil {
			t.Fatal(err)
		}
		seen := observation(placed(t, fixture{name: name, path: ".claude.json", data: doc}), "", hub, testKey)
		if len(seen.Entries) != 1 {
			t.Errorf("%s: %d entries", name, len(seen.Entries))
		}
		findings := converge.Classify(seen.Entries, inCatalog, nil)
		out, err := json.Marshal(map[string]any{"files": seen.Files, "findings": findings})
		if err != nil {
			t.Fatal(err)
		}
		if text := string(out) + fmt.Sprintf("%+v", findings); strings.Contains(text, "planted") {
			t.Errorf("%s: a planted value comes out: %s", name, out)
		}
	}
}

// FuzzInspect: whatever stands in a file, every entry gets a class, and every code is explained.
func FuzzInspect(f *testing.F) {
	for _, dir := range []string{"claude_code", "codex", "opencode", "gemini", "cline"} {
		inputs, err := filepath.Glob(filepath.Join(fixtures, dir, "cases", "*", "input.*"))
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range inputs {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(dir, data)
		}
	}
	f.Fuzz(func(t *testing.T, agent string, data []byte) {
		kind, err := clientfile.ParseAgent(agent)
		if err != nil {
			t.Skip()
		}
		o := clientfile.Read(clientfile.Location{Agent: kind, File: clientfile.File{Path: "/f"}}, data, hub)
		var entries []converge.Entry
		for _, e := range o.Entries {
			entries = append(entries, entry(o, e))
		}
		found := converge.Classify(entries, inCatalog, nil)
		if len(found) != len(o.Entries) {
			t.Fatalf("%d entries, %d findings", len(o.Entries), len(found))
		}
		for _, f := range found {
			codes := slices.Concat([]string{string(f.Class)}, f.Reasons, f.Match.Reasons)
			for _, p := range o.Problems {
				codes = append(codes, p.Code)
			}
			for _, code := range codes {
				if _, ok := converge.Explain(code); !ok {
					t.Errorf("%q is not explained", code)
				}
			}
			if f.Weight == "" || (f.Match.Confidence == catalog.MatchNone) != (len(f.Match.Candidates) == 0) {
				t.Errorf("%+v", f)
			}
		}
	})
}

func TestObservation(t *testing.T) {
	home := t.TempDir()
	write := func(mode os.FileMode, text string, path ...string) string {
		t.Helper()
		name := filepath.Join(append([]string{home}, path...)...)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil { // the umask does not count
			t.Fatal(err)
		}
		return name
	}
	script := write(0o777, "#!/bin/sh\n", "run.sh")
	write(0o600, `{"mcpServers": {"a": {"command": "`+script+`"}, "b": {"type": "http", "url": "https://me@example.com/"}}}`, ".claude.json")
	moved := write(0o666, "[mcp_servers.a]\ncommand = \"x\"\nenv_vars = [\"PASSED\"]\n", "elsewhere", "config.toml")
	write(0o600, "{", ".gemini", "settings.json")
	if err := os.Mkdir(filepath.Join(home, ".cline"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(0o600, "{}", ".cline", "data", "settings", "cline_mcp_settings.json", "is-a-directory")

	system := clientfile.System{Home: home, Root: home, Lookup: func(name string) (string, bool) {
		v := map[string]string{"CODEX_HOME": filepath.Dir(moved)}[name]
		return v, v != ""
	}}
	seen := observation(system, "", hub, testKey)
	states := map[string]string{}
	for _, f := range seen.Files {
		if f.State != converge.FileAbsent {
			states[strings.TrimPrefix(f.Path, home+"/")] = fmt.Sprintf("%s %s %s %d %d", f.Agent, f.Rule, f.State, f.Entries, len(f.Problems))
		}
	}
	if d := cmp.Diff(map[string]string{
		".claude.json":                                 "claude_code default readable 2 0",
		"elsewhere/config.toml":                        "codex CODEX_HOME readable 1 0",
		".gemini/settings.json":                        "gemini default broken 0 1",
		".cline/data/settings/cline_mcp_settings.json": "cline default unreadable 0 1",
	}, states); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	facts := map[string]string{}
	for _, e := range seen.Entries {
		facts[e.Agent+" "+e.Name] = fmt.Sprintf("%+v %v", e.Facts, e.Variables)
	}
	if d := cmp.Diff(map[string]string{
		"claude_code a": "{Shadowed:false Layered:false FileBroken:false Hidden:false URLCredentials:false FileWritable:false ProgramWritable:true} []",
		"claude_code b": "{Shadowed:false Layered:false FileBroken:false Hidden:true URLCredentials:true FileWritable:false ProgramWritable:false} []",
		"codex a":       "{Shadowed:false Layered:false FileBroken:false Hidden:false URLCredentials:false FileWritable:true ProgramWritable:false} [PASSED]",
	}, facts); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if only := observation(system, clientfile.Codex, hub, testKey); len(only.Entries) != 1 || slices.ContainsFunc(only.Files, func(f converge.File) bool { return f.Agent != "codex" }) {
		t.Errorf("one agent was asked for: %+v", only)
	}
}

// TestLayers: what several files of one agent make of an entry.
func TestLayers(t *testing.T) {
	home := t.TempDir()
	project := filepath.Join(home, "app")
	for name, text := range map[string]string{
		".claude.json": `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}},
			"projects": {"` + project + `": {"mcpServers": {"a": {"command": "y"}}}, "/other": {"mcpServers": {"b": {"command": "z"}}}}}`,
		"app/.mcp.json":                  `{"mcpServers": {"b": {"command": "y"}}}`, // nobody has allowed it
		".gemini/settings.json":          `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}}`,
		"app/.gemini/settings.json":      `{"mcp": {"excluded": ["b"]}}`,
		".config/opencode/opencode.json": `{"mcp": {"a": {"type": "local", "command": ["x"]}, "b": {"type": "local", "command": ["x"]}}}`,
		"app/opencode.json":              `{"mcp": {"a": {"enabled": false}}}`,
	} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, f := range converge.Classify(observation(clientfile.System{Home: home, Root: home, Project: project}, "", hub, testKey).Entries, nil, nil) {
		got = append(got, fmt.Sprintf("%s %s %s %s %t %s", f.Agent, f.Scope, f.Name, f.Command, f.Enabled, strings.Join(f.Reasons, ",")))
	}
	if d := cmp.Diff([]string{
		"claude_code user a x true not-in-catalog,shadowed",
		"claude_code user b x true not-in-catalog",
		"claude_code local a y true not-in-catalog",
		"claude_code local b z true not-in-catalog",
		"claude_code project b y false disabled-by-agent,approval-pending",
		"gemini user a x true not-in-catalog",
		"gemini user b x false disabled-by-agent",
		"opencode user a x false disabled-by-agent,layered",
		"opencode user b x true not-in-catalog",
		"opencode project a  false disabled-by-agent,layered",
	}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestMoves(t *testing.T) {
	env := map[string]string{"CODEX_HOME": "/c", "CLAUDE_CONFIG_DIR": "relative", "OPENCODE_CONFIG_CONTENT": `{"secret": 1}`, "PATH": "/bin"}
	if d := cmp.Diff([]string{"CODEX_HOME=/c"}, Moves(func(name string) string { return env[name] }, "/h", "/p")); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestLookIsChecked(t *testing.T) {
	d := &Daemon{cfg: Config{Paths: api.Paths{State: t.TempDir()}, Getenv: func(name string) string {
		return map[string]string{"HOME": "/h", "CODEX_HOME": "/mine", "X": "y"}[name]
	}}}
	for name, look := range map[string]converge.Look{
		"home":          {Home: "h"},
		"project":       {Project: "p"},
		"no assignment": {Moved: []string{"CODEX_HOME"}},
		"no path":       {Moved: []string{"CODEX_HOME=c"}},
		"too many":      {Moved: slices.Repeat([]string{"A=/b"}, 1000)},
	} {
		if _, err := d.observe(t.Context(), look); fault.From(err).Code != "request-invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.observe(t.Context(), converge.Look{Agent: "nobody"}); fault.From(err).Code != "agent-unknown" {
		t.Errorf("an unknown agent: %v", err)
	}
	system, err := clientfile.SystemOf(converge.Look{Moved: []string{"CODEX_HOME=/theirs"}}, d.cfg.Getenv)
	if err != nil || system.Home != "/h" {
		t.Fatalf("%+v, %v", system, err)
	}
	theirs, _ := system.Lookup("CODEX_HOME")
	ours, _ := system.Lookup("X")
	if theirs != "/theirs" || ours != "y" {
		t.Errorf("got %s and %s: the caller's variables win, the daemon's stay", theirs, ours)
	}
}

// TestOurPort: the port of the listener tells our own entries from those of another hub.
func TestOurPort(t *testing.T) {
	home := t.TempDir()
	text := `{"mcpServers": {
		"a": {"type": "http", "url": "http://127.0.0.1:4567/servers/x/mcp"}, "b": {"type": "http", "url": "http://localhost:4567/servers/x/mcp"},
		"c": {"type": "http", "url": "http://127.0.0.1:9/servers/x/mcp"}, "d": {"type": "http", "url": "http://127.0.0.1:9/servers/y/mcp"},
		"e": {"command": "/opt/gateway", "args": ["connect", "x"]}, "f": {"command": "/opt/other", "args": ["connect", "x"]}}}`
	if err := os.WriteFile(filepath.Join(home, ".claude.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &Daemon{cfg: Config{Paths: api.Paths{State: t.TempDir()}, Getenv: func(string) string { return "" }, Exe: "/opt/gateway"}, control: &control.Control{}}
	d.about.Listener = "127.0.0.1:4567"
	seen, err := d.observe(t.Context(), converge.Look{Agent: "claude-code", Home: home, Names: map[string]bool{"x": false}})
	if err != nil {
		t.Fatal(err)
	}
	var got []converge.RoutedState
	for _, e := range seen.Entries {
		if e.Routed == nil {
			got = append(got, "")
			continue
		}
		got = append(got, e.Routed.State)
		if e.Routed.Form == "bridge" && e.Package != nil {
			t.Errorf("mcpx itself is the package %+v", e.Package)
		}
	}
	if d := cmp.Diff([]converge.RoutedState{converge.RoutedHere, converge.RoutedSpelling, converge.RoutedStalePort, converge.RoutedForeign, converge.RoutedHere, ""}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestObservedFacts: what a plan will expect of a file and of an entry is part of the observation, and says nothing of
// the values.
func TestObservedFacts(t *testing.T) {
	home := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(home, "real.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"mcpServers": {"a": {"command": "x", "env": {"K": "planted"}, "future": 1}}}`)
	if err := os.Symlink(filepath.Join(home, "real.json"), filepath.Join(home, ".claude.json")); err != nil {
		t.Fatal(err)
	}
	see := func(key []byte) (converge.File, converge.Entry) {
		o := observation(clientfile.System{Home: home, Root: home}, clientfile.Claude, clientfile.Hub{}, key)
		if len(o.Entries) != 1 {
			t.Fatalf("%+v", o)
		}
		return o.Files[0], o.Entries[0]
	}
	file, first := see(testKey)
	real, err := filepath.EvalSymlinks(filepath.Join(home, "real.json"))
	if err != nil {
		t.Fatal(err)
	}
	if file.Real != real || file.Size != 77 || file.Mode != 0o600 || len(file.SHA256) != 64 || file.Identity == "" && runtime.GOOS != "windows" {
		t.Errorf("%+v", file)
	}
	if !strings.HasPrefix(first.ID, "obs_") || len(first.ID) != 30 || len(first.Digest) != 64 || !slices.Equal(first.Extra, []string{"future"}) {
		t.Errorf("%+v", first)
	}
	write("{\n  \"mcpServers\": {\"a\": {\"future\": 1, \"env\": {\"K\": \"planted\"}, \"command\": \"x\"}}}")
	if again, same := see(testKey); same.ID != first.ID || same.Digest != first.Digest || again.SHA256 == file.SHA256 {
		t.Errorf("what says the same has another digest: %+v", same)
	}
	if _, other := see(bytes.Repeat([]byte("x"), stateKeyLen)); other.Digest == first.Digest {
		t.Error("the digest does not depend on the key")
	}
	write(`{"mcpServers": {"a": {"command": "x", "env": {"K": "other"}, "future": 1}}}`)
	if _, other := see(testKey); other.ID != first.ID || other.Digest == first.Digest {
		t.Errorf("another value has the same digest: %+v", other)
	}
}

// TestProjects: what counts everywhere is read once, the files of each project are told beside it, one that counts in
// several projects belongs to the first, and an entry that a project changes is told to be layered there.
func TestProjects(t *testing.T) {
	c := config(t, "MCPX_GOVERNANCE_WATCH", "false")
	home := c.Getenv("HOME")
	app, sub, gone := filepath.Join(home, "app"), filepath.Join(home, "app", "sub"), filepath.Join(home, "gone")
	for name, text := range map[string]string{
		".claude.json":              `{"mcpServers": {"a": {"command": "x"}}, "projects": {"` + sub + `": {"mcpServers": {"a": {"command": "y"}}}, "` + gone + `": {}}}`,
		".codex/config.toml":        "[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.b]\ncommand = \"x\"\n[projects.\"" + app + "\"]\ntrust_level = \"trusted\"\n",
		"app/.git/HEAD":             "ref: refs/heads/main\n",
		"app/.mcp.json":             `{"mcpServers": {"c": {"command": "z"}}}`,
		"app/sub/.mcp.json":         `{"mcpServers": {"d": {"command": "z"}}}`,
		"app/.codex/config.toml":    "[mcp_servers.a]\nargs = [\"1\"]\n",
		"app/.gemini/settings.json": `{"mcpServers": {"e": {"command": "z"}}}`,
	} {
		writeFile(t, filepath.Join(home, name), text)
	}
	d := run(t, c)
	seen, err := d.observe(t.Context(), converge.Look{Home: home, Projects: []string{filepath.Join(home, "asked")}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{app, sub, filepath.Join(home, "asked"), gone}, seen.Projects); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	got, files := []string{}, map[string]int{}
	for _, f := range converge.Classify(seen.Entries, nil, nil) {
		if f.Agent != "codex" && f.Agent != "claude_code" && f.Agent != "gemini" {
			continue // others read .mcp.json, too
		}
		got = append(got, fmt.Sprintf("%s %s %s %s%s %t %s", f.Agent, f.Scope, f.Name, f.Command, strings.TrimPrefix(f.Project, home), f.Enabled, strings.Join(f.Reasons, ",")))
	}
	for _, f := range seen.Files {
		if files[f.Agent+f.Path]++; files[f.Agent+f.Path] > 1 {
			t.Errorf("%s of %s is told twice", f.Path, f.Agent)
		}
		if f.Path == filepath.Join(app, ".mcp.json") && f.Project != app || f.Scope == "user" && f.Project != "" {
			t.Errorf("%+v", f)
		}
	}
	if d := cmp.Diff([]string{
		"claude_code user a x true not-in-catalog,shadowed",
		"claude_code local a y/app/sub true not-in-catalog",
		"codex user a x true not-in-catalog,layered",
		"codex user b x true not-in-catalog",
		"claude_code project c z/app false disabled-by-agent,approval-pending",
		"codex project a /app true layered,file-broken,missing-field",
		"gemini project e z/app true not-in-catalog",
		"claude_code project d z/app/sub false disabled-by-agent,approval-pending",
	}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}

	var many []string
	for i := range maxProjects + 3 {
		dir := filepath.Join(home, fmt.Sprintf("p%03d", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		many = append(many, dir)
	}
	if chosen, left := choose(many[:1], append([]string{gone}, many...)); len(chosen) != maxProjects || left != 3 || slices.Contains(chosen, gone) {
		t.Errorf("%d projects are looked at, %d are left", len(chosen), left)
	}
}

// TestAuditAnywhere: where somebody is when he asks for an audit changes nothing for what is known.
func TestAuditAnywhere(t *testing.T) {
	c := config(t, "MCPX_GOVERNANCE_WATCH", "false")
	home := c.Getenv("HOME")
	one, two := filepath.Join(home, "one"), filepath.Join(home, "two")
	const entry = `"demo": {"command": "npx", "args": ["demo@1"]}`
	writeFile(t, filepath.Join(home, ".claude.json"), `{"mcpServers": {`+entry+`}, "projects": {"`+one+`": {"mcpServers": {`+entry+`}, "enabledMcpjsonServers": ["demo"]}}}`)
	for _, dir := range []string{one, two} {
		writeFile(t, filepath.Join(dir, ".mcp.json"), `{"mcpServers": {`+entry+`}}`)
	}
	run(t, c)
	client, ctx := api.NewClient(c.Paths.Socket()), t.Context()
	if _, err := client.ImportServers(ctx, api.ImportServers{Servers: []catalog.Server{{Name: "demo", Stdio: &catalog.Stdio{Command: "npx", Args: []string{"demo@1"}}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.SetAgent(ctx, api.SetAgent{Agent: "claude_code", Level: converge.LevelManaged}); err != nil {
		t.Fatal(err)
	}
	first, err := client.RunAudit(ctx, api.RunAudit{Project: two})
	if err != nil {
		t.Fatal(err)
	}
	looks := map[string]string{}
	for _, row := range first.Plans {
		p, err := client.Plan(ctx, api.PlanRef{Plan: row.ID})
		if err != nil {
			t.Fatal(err)
		}
		looks[row.Files[0]+" "+strings.Join(p.Changes[0].Steps[0].At, ".")] = p.Look.Project
	}
	if d := cmp.Diff(map[string]string{
		filepath.Join(home, ".claude.json") + " mcpServers.demo":                      "",
		filepath.Join(home, ".claude.json") + " projects." + one + ".mcpServers.demo": one,
		filepath.Join(one, ".mcp.json") + " mcpServers.demo":                          one,
	}, looks); d != "" {
		t.Errorf("projects of plans: -want +got:\n%s", d)
	}
	for _, project := range []string{"", home, one, two, filepath.Join(one, "elsewhere")} {
		out, err := client.RunAudit(ctx, api.RunAudit{Project: project})
		if err != nil {
			t.Fatal(err)
		}
		if out.Made+out.Superseded+out.Events != 0 || len(out.Plans) != len(first.Plans) {
			t.Errorf("in %q: %d plans made, %d superseded, %d of %d there, %d events", project, out.Made, out.Superseded, len(out.Plans), len(first.Plans), out.Events)
		}
	}
}
