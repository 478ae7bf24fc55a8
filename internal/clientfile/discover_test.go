package clientfile

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// home is a user's home, project and system files in a temporary directory.
type home struct {
	t    *testing.T
	root string
	env  map[string]string
}

func newHome(t *testing.T) *home {
	t.Helper()
	h := &home{t: t, root: t.TempDir(), env: map[string]string{}}
	h.write("home/src/app/.git/HEAD", "")
	return h
}

func (h *home) path(p string) string { return filepath.Join(h.root, p) }

func (h *home) write(p, text string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.path(p)), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(h.path(p), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *home) system() System {
	return System{
		Home: h.path("home"), Project: h.path("home/src/app/sub"), Root: h.path("system"), OS: "linux",
		Lookup: func(name string) (string, bool) { v, ok := h.env[name]; return v, ok },
	}
}

// observe lists what was found: agent, path below the root, then the entries and problems.
func (h *home) observe() string {
	h.t.Helper()
	var lines []string
	for _, o := range h.system().Observe(testHub) {
		path, err := filepath.Rel(h.root, o.File.Path)
		if err != nil || strings.HasPrefix(path, "..") {
			path = o.File.Path
		}
		line := string(o.Agent) + " " + path + " " + string(o.File.Scope)
		if o.File.Shared {
			line += " shared"
		}
		for _, p := range o.Problems {
			line += " !" + p.Code
		}
		for _, e := range o.Entries {
			state := " +"
			if !e.Enabled {
				state = " -"
			}
			line += state + e.Name
			for _, p := range e.Problems {
				line += "!" + p.Code
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (h *home) expect(want string) {
	h.t.Helper()
	if d := cmp.Diff(strings.ReplaceAll(strings.TrimSpace(want), "\t", ""), h.observe()); d != "" {
		h.t.Errorf("-want +got:\n%s", d)
	}
}

const (
	claudeDoc   = `{"mcpServers": {"NAME": {"command": "x"}}}`
	codexDoc    = "[mcp_servers.NAME]\ncommand = \"x\"\n"
	openCodeDoc = `{"mcp": {"NAME": {"type": "local", "command": ["x"]}}}`
)

func named(doc, name string) string { return strings.ReplaceAll(doc, "NAME", name) }

func TestObserveDefaultPlaces(t *testing.T) {
	h := newHome(t)
	h.write("home/.claude.json", named(claudeDoc, "u"))
	h.write("home/src/app/.mcp.json", named(claudeDoc, "p"))
	h.write("home/src/.mcp.json", named(claudeDoc, "outside the work tree"))
	h.write("system/etc/claude-code/managed-mcp.json", named(claudeDoc, "m"))
	h.write("home/.codex/config.toml", named(codexDoc, "u"))
	h.write("system/etc/codex/config.toml", named(codexDoc, "s"))
	h.write("home/.gemini/settings.json", named(claudeDoc, "u"))
	h.write("home/src/app/sub/.gemini/settings.json", named(claudeDoc, "p"))
	h.write("home/src/app/.gemini/settings.json", named(claudeDoc, "not the working directory"))
	h.write("system/etc/gemini-cli/settings.json", named(claudeDoc, "m"))
	h.write("home/.cline/data/settings/cline_mcp_settings.json", named(claudeDoc, "cli"))
	h.write("home/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json", named(claudeDoc, "code"))
	h.write("home/.config/opencode/config.json", named(openCodeDoc, "a"))
	h.write("home/.config/opencode/opencode.jsonc", named(openCodeDoc, "b"))
	h.write("home/src/app/opencode.json", named(openCodeDoc, "c"))
	h.write("home/src/app/sub/.opencode/opencode.json", named(openCodeDoc, "d"))
	h.write("home/.config/kilo/kilo.json", named(openCodeDoc, "a"))
	h.write("home/.config/kilo/kilo.jsonc", named(openCodeDoc, "b"))
	h.write("home/src/app/kilo.json", named(openCodeDoc, "c"))
	h.expect(`
		claude_code home/.claude.json user +u
		claude_code home/src/app/.mcp.json project shared -p!approval-pending
		claude_code system/etc/claude-code/managed-mcp.json managed +m
		codex system/etc/codex/config.toml system +s
		codex home/.codex/config.toml user +u
		gemini home/.gemini/settings.json user +u
		gemini home/src/app/sub/.gemini/settings.json project shared +p
		gemini system/etc/gemini-cli/settings.json managed +m
		cline home/.cline/data/settings/cline_mcp_settings.json user +cli
		cline home/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json user +code
		opencode home/.config/opencode/config.json user +a
		opencode home/.config/opencode/opencode.jsonc user +b
		opencode home/src/app/opencode.json project shared +c
		opencode home/src/app/sub/.opencode/opencode.json project shared +d
		kilo home/.config/kilo/kilo.json user +a
		kilo home/.config/kilo/kilo.jsonc user +b
		kilo home/src/app/kilo.json project shared +c`)
}

func TestObserveMovedPlaces(t *testing.T) {
	h := newHome(t)
	h.env = map[string]string{
		"CLAUDE_CONFIG_DIR": h.path("c"), "CODEX_HOME": h.path("x"), "GEMINI_CLI_SYSTEM_SETTINGS_PATH": h.path("g.json"),
		"XDG_CONFIG_HOME": h.path("xdg"), "OPENCODE_CONFIG": h.path("oc.json"), "OPENCODE_CONFIG_CONTENT": named(openCodeDoc, "inline"),
	}
	h.write("home/.claude.json", named(claudeDoc, "no"))
	h.write("c/.claude.json", named(claudeDoc, "yes"))
	h.write("home/.codex/config.toml", named(codexDoc, "no"))
	h.write("x/config.toml", named(codexDoc, "yes"))
	h.write("g.json", named(claudeDoc, "yes"))
	h.write("xdg/opencode/opencode.json", named(openCodeDoc, "yes"))
	h.write("oc.json", named(openCodeDoc, "named"))
	h.write("xdg/kilo/kilo.json", named(openCodeDoc, "yes"))
	h.expect(`
		claude_code c/.claude.json user +yes
		codex x/config.toml user +yes
		gemini g.json managed +yes
		opencode xdg/opencode/opencode.json user +yes
		opencode oc.json user +named
		opencode OPENCODE_CONFIG_CONTENT local +inline
		kilo xdg/kilo/kilo.json user +yes`)
	for _, l := range h.system().Locate() {
		if l.Agent == Codex && l.File.Scope == ScopeUser && l.Rule != "CODEX_HOME" {
			t.Errorf("%s was found by %s, want CODEX_HOME", l.File.Path, l.Rule)
		}
	}
	mac := h.system()
	mac.OS = "darwin"
	found := false
	for _, l := range mac.Locate() {
		found = found || strings.Contains(l.File.Path, "Library/Application Support/Code/User")
	}
	if !found {
		t.Error("the place of VS Code on macOS is missing")
	}
}

// TestObserveUnreadable: a file that cannot be read is a finding beside the others.
func TestObserveUnreadable(t *testing.T) {
	h := newHome(t)
	h.write("home/.claude.json", "{ broken")
	h.write("home/.gemini/settings.json/x", "")
	h.write("home/.config/opencode", "a file where a directory is expected")
	h.write("home/.codex/config.toml", named(codexDoc, "good"))
	want := `
		claude_code home/.claude.json user !config-broken
		codex home/.codex/config.toml user +good
		gemini home/.gemini/settings.json user !config-unreadable`
	if runtime.GOOS != "windows" && os.Geteuid() != 0 {
		h.write("home/.cline/data/settings/cline_mcp_settings.json", "{}")
		if err := os.Chmod(h.path("home/.cline/data/settings/cline_mcp_settings.json"), 0); err != nil {
			t.Fatal(err)
		}
		want += "\n\t\tcline home/.cline/data/settings/cline_mcp_settings.json user !config-unreadable"
	}
	h.expect(want)
}

// TestProjectsAreTrustedFirst: files that come with a project count only after the user agreed in the agent.
func TestProjectsAreTrustedFirst(t *testing.T) {
	h := newHome(t)
	app := h.path("home/src/app")
	h.write("home/src/app/.mcp.json", `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}, "c": {"command": "x"}}}`)
	h.write("home/src/app/.claude/settings.json", `{"enableAllProjectMcpServers": true}`) // comes with the project too
	h.write("home/.claude.json", `{"projects": {"`+app+`": {"enabledMcpjsonServers": ["a"], "disabledMcpjsonServers": ["c"]}}}`)
	h.write("home/src/app/.codex/config.toml", named(codexDoc, "p"))
	h.write("home/.codex/config.toml", "")
	h.expect(`
		claude_code home/.claude.json user
		claude_code home/src/app/.mcp.json project shared +a -b!approval-pending -c
		codex home/.codex/config.toml user
		codex home/src/app/.codex/config.toml project shared !project-untrusted -p`)

	h.write("home/src/app/.claude/settings.local.json", `{"enabledMcpjsonServers": ["b"]}`)
	h.write("home/.codex/config.toml", "[projects.\""+app+"\"]\ntrust_level = \"trusted\"\n")
	h.expect(`
		claude_code home/.claude.json user
		claude_code home/src/app/.mcp.json project shared +a +b -c
		codex home/.codex/config.toml user
		codex home/src/app/.codex/config.toml project shared +p`)

	h.write("home/.claude/settings.json", `{"enableAllProjectMcpServers": true}`)
	h.write("home/.codex/config.toml", "[projects.\""+app+"\"]\ntrust_level = \"untrusted\"\n")
	h.write("home/src/app/.claude/settings.local.json", `{}`)
	h.expect(`
		claude_code home/.claude.json user
		claude_code home/src/app/.mcp.json project shared +a +b -c
		codex home/.codex/config.toml user
		codex home/src/app/.codex/config.toml project shared !project-untrusted -p`)
}
