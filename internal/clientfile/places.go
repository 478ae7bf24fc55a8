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
	for _, d := range s.upwards() {
		all = append(all, at(Claude, ScopeProject, byDefault, d, ".mcp.json"))
	}
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
	for _, d := range s.upwards() {
		if l := at(Codex, ScopeProject, byDefault, d, ".codex", "config.toml"); l.File.Path != all[1].File.Path {
			all = append(all, l)
		}
	}
	return all
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
	config := filepath.Join(s.Home, ".config")
	if s.os() == "darwin" {
		config = filepath.Join(s.Home, "Library", "Application Support")
	}
	for _, editor := range []string{"Code", "Cursor"} {
		all = append(all, at(Cline, ScopeUser, byDefault, config, editor, "User", "globalStorage", "saoudrizwan.claude-dev", "settings", "cline_mcp_settings.json"))
	}
	return all
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
	up := s.upwards()
	for _, d := range up {
		for _, name := range []string{"opencode.json", "opencode.jsonc"} {
			all = append(all, at(OpenCode, ScopeProject, byDefault, d, name))
		}
	}
	for _, d := range up {
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
	for _, d := range s.upwards() {
		for _, name := range names {
			all = append(all, at(Kilo, ScopeProject, byDefault, d, name))
		}
	}
	return all
}

func (s System) qwenFiles() []Location {
	all := []Location{at(Qwen, ScopeUser, byDefault, s.Home, ".qwen", "settings.json")}
	if s.Project != "" && s.Project != s.Home { // as Gemini CLI
		all = append(all,
			at(Qwen, ScopeProject, byDefault, s.Project, ".mcp.json"),
			at(Qwen, ScopeProject, byDefault, s.Project, ".qwen", "settings.json"))
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
