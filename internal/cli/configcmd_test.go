package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
)

// golden compares an output with the file that holds it, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s is not current; look at the difference, then run `go test ./internal/cli -update`\n-want +got:\n%s", path, d)
	}
}

// configured is a daemon that has seen one file of each kind, with entries of most classes.
func configured(x *terminalOf) {
	command := func(name string, argv ...string) converge.Entry {
		p, _ := catalog.IdentifyCommand(argv[0], argv[1:])
		return converge.Entry{
			Agent: "codex", Name: name, File: "/home/ada/.codex/config.toml", Scope: "user", At: []string{"mcp_servers", name}, Enabled: true,
			Transport: "stdio", Command: argv[0], Args: argv[1:], Variables: []string{}, Headers: []string{}, Auth: "none", Package: &p,
			Parse: "complete", Problems: []converge.Problem{},
		}
	}
	direct := command("files", "npx", "files@1.0.0", "/src")
	direct.Variables, direct.Problems = []string{"API_TOKEN"}, []converge.Problem{{Code: "raw-secret", Field: "env.API_TOKEN"}}
	off := command("off", "npx", "files@1.0.0")
	off.Enabled = false
	routed := converge.Entry{
		Agent: "claude_code", Name: "files", File: "/home/ada/.claude.json", Scope: "local", Project: "/home/ada/app", At: []string{"projects", "/home/ada/app", "mcpServers", "files"},
		Enabled: true, Transport: "http", Args: []string{}, URL: "http://127.0.0.1:1/servers/files/mcp", Variables: []string{}, Headers: []string{"X-A"}, Auth: "none",
		Routed: &converge.Routed{State: converge.RoutedHere, Server: "files", Form: "http"}, Parse: "complete", Problems: []converge.Problem{},
	}
	broken := converge.Entry{
		Agent: "cline", Name: "half\x1b[31m", File: "/home/ada/cline.json", Scope: "user", At: []string{"mcpServers", "half"}, Enabled: true, Args: []string{},
		Variables: []string{}, Headers: []string{}, Auth: "none", Parse: "broken", Problems: []converge.Problem{{Code: "missing-field", Field: "command"}},
	}
	entries := []converge.Entry{routed, direct, off, command("twin", "uvx", "twin==1"), command("new", "bunx", "--bun", "new"), broken}
	server := func(name string, argv ...string) catalog.Server {
		return catalog.Server{Name: name, Stdio: &catalog.Stdio{Command: argv[0], Args: argv[1:]}, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled}
	}
	servers := []catalog.Server{server("files", "npx", "files@1.0.0", "/src"), server("one", "uvx", "twin==1"), server("two", "uvx", "twin==1")}
	file := func(agent, path, scope string, state converge.FileState, entries int, problems ...converge.Problem) converge.File {
		return converge.File{Agent: agent, Path: path, Scope: scope, Rule: "default", Format: "json", State: state, Entries: entries, Problems: append([]converge.Problem{}, problems...)}
	}
	x.daemon.files.Files = []converge.File{
		file("claude_code", "/home/ada/.claude.json", "user", converge.FileReadable, 1),
		file("codex", "/home/ada/.codex/config.toml", "user", converge.FileReadable, 4),
		file("gemini", "/home/ada/.gemini/settings.json", "user", converge.FileBroken, 0, converge.Problem{Code: "config-broken", Line: 3, Column: 7, Text: "want a comma"}),
		file("cline", "/home/ada/cline.json", "user", converge.FileReadable, 1),
		file("opencode", "/home/ada/.config/opencode/opencode.json", "user", converge.FileAbsent, 0),
	}
	x.daemon.report = api.ConfigReport{
		Files: x.daemon.files.Files[:4], Entries: converge.Classify(entries, servers, nil), Counts: map[converge.Class]int{}, Revision: "0123",
	}
	for _, f := range x.daemon.report.Entries {
		x.daemon.report.Counts[f.Class]++
	}
}

func TestConfigGolden(t *testing.T) {
	for _, args := range [][]string{
		{"config", "discover"},
		{"config", "discover", "--json"},
		{"config", "discover", "--all"},
		{"config", "inspect"},
		{"config", "inspect", "--json"},
	} {
		name := strings.ReplaceAll(strings.Join(args, "-"), "--", "") + ".txt"
		if slices.Contains(args, "--json") {
			name = strings.TrimSuffix(name, "-json.txt") + ".json"
		}
		t.Run(name, func(t *testing.T) {
			x := newTerminal(t)
			configured(x)
			if code := x.types(args...); code != 0 || x.err.Len() > 0 {
				t.Fatalf("exit code %d, stderr %s", code, &x.err)
			}
			golden(t, name, strings.ReplaceAll(x.out.String(), x.env.self(), "mcpx")) // however this test was started
		})
	}
}

func TestConfigNothingFound(t *testing.T) {
	x := newTerminal(t)
	x.daemon.report.Files = []converge.File{{Path: "/f", State: converge.FileBroken, Problems: []converge.Problem{{Code: "config-busy"}}}}
	for _, words := range []string{"config discover", "config inspect"} {
		if code := x.types(strings.Fields(words)...); code != 0 || !strings.Contains(x.out.String(), "config discover --all") {
			t.Errorf("%s: exit code %d, %q", words, code, x.out.String())
		}
	}
	if !strings.Contains(x.out.String(), "/f: config-busy: The file changed") {
		t.Errorf("a file that cannot be read is not told of: %q", x.out.String())
	}
}

// TestConfigQuery: the daemon looks where the agents of this command's environment would look.
func TestConfigQuery(t *testing.T) {
	x := newTerminal(t)
	home := x.env.Getenv("HOME")
	env := x.env.Getenv
	x.env.Getenv = func(name string) string {
		if name == "CODEX_HOME" {
			return "/elsewhere"
		}
		return env(name)
	}
	dir := t.TempDir()
	if code := x.types("config", "inspect", "codex", "--project", dir); code != 0 {
		t.Fatalf("exit code %d: %s", code, &x.err)
	}
	if d := cmp.Diff(api.ConfigQuery{Agent: "codex", Home: home, Project: dir, Moved: []string{"CODEX_HOME=/elsewhere"}}, x.daemon.asked); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if code := x.types("config", "discover", "--project", filepath.Join(dir, "none")); code != 2 || !strings.Contains(x.err.String(), "is no directory") {
		t.Errorf("exit code %d: %s", code, &x.err)
	}
}
