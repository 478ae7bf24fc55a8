package clientfile

import (
	"os"
	"path/filepath"
	"slices"
)

func at(a Agent, scope Scope, rule string, path ...string) Location {
	return Location{Agent: a, File: File{Path: filepath.Join(path...), Scope: scope}, Rule: rule}
}

// Why a place is looked at, when it is not a variable of one agent.
const (
	byDefault = "default"
	xdgConfig = "XDG_CONFIG_HOME"
)

// moved is the directory that a variable names, or the default one.
func (s System) moved(variable string, usual ...string) (dir, rule string) {
	if v := s.variable(variable); filepath.IsAbs(v) {
		return v, variable
	}
	return filepath.Join(append([]string{s.Home}, usual...)...), byDefault
}

func (s System) claudeFiles() []Location {
	dir, rule := s.moved("CLAUDE_CONFIG_DIR")
	all := []Location{at(Claude, ScopeUser, rule, dir, ".claude.json")}
	all = append(all, s.inProject(Claude, ".mcp.json")...)
	managed := "/etc/claude-code"
	if s.os() == "darwin" {
		managed = "/Library/Application Support/ClaudeCode"
	}
	return append(all, at(Claude, ScopeManaged, byDefault, s.Root, managed, "managed-mcp.json"))
}

func (s System) codexFiles() []Location {
	dir, rule := s.moved("CODEX_HOME", ".codex")
	all := []Location{
		at(Codex, ScopeSystem, byDefault, s.Root, "/etc/codex/config.toml"),
		at(Codex, ScopeUser, rule, dir, "config.toml"),
	}
	return append(all, s.inProject(Codex, ".codex", "config.toml")...)
}

func (s System) geminiFiles() []Location {
	dir := "/etc/gemini-cli"
	if s.os() == "darwin" {
		dir = "/Library/Application Support/GeminiCli"
	}
	all := []Location{
		at(Gemini, ScopeSystem, byDefault, s.Root, dir, "system-defaults.json"),
		at(Gemini, ScopeUser, byDefault, s.Home, ".gemini", "settings.json"),
	}
	if s.Project != "" && s.Project != s.Home { // only the working directory itself, and in the home it is the user file
		all = append(all, at(Gemini, ScopeProject, byDefault, s.Project, ".gemini", "settings.json"))
	}
	if v := s.variable("GEMINI_CLI_SYSTEM_SETTINGS_PATH"); filepath.IsAbs(v) {
		return append(all, at(Gemini, ScopeManaged, "GEMINI_CLI_SYSTEM_SETTINGS_PATH", v))
	}
	return append(all, at(Gemini, ScopeManaged, byDefault, s.Root, dir, "settings.json"))
}

func (s System) clineFiles() []Location {
	all := []Location{at(Cline, ScopeUser, byDefault, s.Home, ".cline", "data", "settings", "cline_mcp_settings.json")}
	for _, editor := range []string{"Code", "Cursor"} {
		all = append(all, at(Cline, ScopeUser, byDefault, s.editors(), editor, "User", "globalStorage", "saoudrizwan.claude-dev", "settings", "cline_mcp_settings.json"))
	}
	return all
}

// editors is the directory in which VS Code and its kin keep their settings.
func (s System) editors() string {
	if s.os() == "darwin" {
		return filepath.Join(s.Home, "Library", "Application Support")
	}
	return filepath.Join(s.Home, ".config")
}

func (s System) openCodeFiles() []Location {
	dir, rule := s.moved(xdgConfig, ".config")
	var all []Location
	for _, name := range []string{"config.json", "opencode.json", "opencode.jsonc"} {
		all = append(all, at(OpenCode, ScopeUser, rule, dir, "opencode", name))
	}
	if v := s.variable("OPENCODE_CONFIG"); filepath.IsAbs(v) {
		all = append(all, at(OpenCode, ScopeUser, "OPENCODE_CONFIG", v))
	}
	all = append(all, s.named(OpenCode, "opencode.json", "opencode.jsonc")...)
	for _, d := range s.upwards() {
		for _, name := range []string{"opencode.json", "opencode.jsonc"} {
			all = append(all, at(OpenCode, ScopeProject, byDefault, d, ".opencode", name))
		}
	}
	if v := s.variable("OPENCODE_CONFIG_CONTENT"); v != "" {
		l := at(OpenCode, ScopeLocal, "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG_CONTENT")
		l.inline = []byte(v)
		all = append(all, l)
	}
	return all
}

// kiloFiles: the layout of OpenCode, which Kilo comes from, under names of its own.
func (s System) kiloFiles() []Location {
	dir, rule := s.moved(xdgConfig, ".config")
	names := []string{"kilo.json", "kilo.jsonc"}
	var all []Location
	for _, name := range names {
		all = append(all, at(Kilo, ScopeUser, rule, dir, "kilo", name))
	}
	return append(all, s.named(Kilo, names...)...)
}

func (s System) qwenFiles() []Location {
	dir := filepath.Join(s.Home, ".qwen")
	all := []Location{at(Qwen, ScopeUser, byDefault, dir, "settings.json")}
	if s.Project == "" || s.Project == s.Home { // as Gemini CLI
		return all
	}
	if started(dir) {
		all = append(all, at(Qwen, ScopeProject, byDefault, s.Project, ".mcp.json"))
	}
	return append(all, at(Qwen, ScopeProject, byDefault, s.Project, ".qwen", "settings.json"))
}

func (s System) copilotFiles() []Location {
	dir, rule := s.moved("COPILOT_HOME", ".copilot")
	settings := at(Copilot, ScopeUser, rule, dir, "settings.json")
	settings.list = copilotSettings
	all := []Location{at(Copilot, ScopeUser, rule, dir, "mcp-config.json"), settings}
	if started(dir) {
		all = append(all, s.inProject(Copilot, ".mcp.json")...)
	}
	return all
}

// started says whether an agent has a directory of its own. Several agents read the .mcp.json that Claude Code made
// popular; one that never ran here has nothing to say about it.
func started(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

func (s System) droidFiles() []Location {
	all := []Location{at(Droid, ScopeUser, byDefault, s.Home, ".factory", "mcp.json")}
	return append(all, s.inProject(Droid, ".factory", "mcp.json")...)
}

func (s System) ampFiles() []Location {
	all := []Location{at(Amp, ScopeUser, byDefault, s.Home, ".config", "amp", "settings.json")}
	return append(all, s.inProject(Amp, ".amp", "settings.json")...)
}

func (s System) auggieFiles() []Location {
	all := []Location{at(Auggie, ScopeUser, byDefault, s.Home, ".augment", "settings.json")}
	all = append(all, s.inProject(Auggie, ".augment", "settings.json")...)
	for _, l := range s.inProject(Auggie, ".augment", "settings.local.json") {
		l.File.Scope = ScopeLocal
		all = append(all, l)
	}
	return all
}

func (s System) cursorFiles() []Location {
	all := []Location{at(Cursor, ScopeUser, byDefault, s.Home, ".cursor", "mcp.json")}
	return append(all, s.inProject(Cursor, ".cursor", "mcp.json")...)
}

func (s System) vsCodeFiles() []Location {
	all := []Location{at(VSCode, ScopeUser, byDefault, s.editors(), "Code", "User", "mcp.json")}
	return append(all, s.inProject(VSCode, ".vscode", "mcp.json")...)
}

func (s System) crushFiles() []Location {
	dir, rule := s.moved(xdgConfig, ".config")
	return append([]Location{at(Crush, ScopeUser, rule, dir, "crush", "crush.json")}, s.named(Crush, "crush.json", ".crush.json")...)
}

// inProject is a file of the project's directories. Where an agent takes its project to start is not always known, so
// all directories of the work tree count.
func (s System) inProject(a Agent, path ...string) []Location {
	var all []Location
	for _, d := range s.upwards() {
		all = append(all, at(a, ScopeProject, byDefault, append([]string{d}, path...)...))
	}
	return all
}

// named are the files of some names in the project's directories, the later names the stronger ones in each.
func (s System) named(a Agent, names ...string) []Location {
	var all []Location
	for _, d := range s.upwards() {
		for _, name := range names {
			all = append(all, at(a, ScopeProject, byDefault, d, name))
		}
	}
	return all
}

// upwards lists the directories from the git root down to the project, the nearest last. Without a work tree it is the
// project alone: a walk to the root would read files of other people's directories.
func (s System) upwards() []string {
	if s.Project == "" {
		return nil
	}
	root := gitRoot(s.Project)
	dirs := []string{s.Project}
	for d := s.Project; root != "" && d != root; {
		d = filepath.Dir(d)
		dirs = append(dirs, d)
	}
	slices.Reverse(dirs)
	return dirs
}

// gitRoot is the work tree that holds a directory, "" none.
func gitRoot(dir string) string {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil { // a directory, or a file in a linked work tree
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}
