package clientfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"mcpx/internal/catalog"
)

// System is where the files are looked for.
type System struct {
	Home    string                           // absolute
	Project string                           // absolute directory whose project files count; "" none
	Lookup  func(name string) (string, bool) // variables that move files, and that references name
	Root    string                           // before the paths of system files; "" in the product
	OS      string                           // as runtime.GOOS; "" is ours
}

func (s System) os() string {
	if s.OS == "" {
		return runtime.GOOS
	}
	return s.OS
}

// variable is a variable of the environment that is set and not empty.
func (s System) variable(name string) string {
	if s.Lookup == nil {
		return ""
	}
	v, _ := s.Lookup(name)
	return v
}

// Locate lists the places where the agents look, the weaker ones first for each agent.
func (s System) Locate() []Location {
	var all []Location
	for _, find := range []func() []Location{s.claudeFiles, s.codexFiles, s.geminiFiles, s.clineFiles, s.openCodeFiles} {
		all = append(all, find()...)
	}
	for i := range all {
		f := &all[i].File
		f.Format = dialectOf(all[i].Agent).format
		f.Shared = gitRoot(filepath.Dir(f.Path)) != ""
		if f.Scope == ScopeProject {
			f.Project = s.Project
		}
	}
	return all
}

func at(a Agent, scope Scope, rule string, path ...string) Location {
	return Location{Agent: a, File: File{Path: filepath.Join(path...), Scope: scope}, Rule: rule}
}

const byDefault = "default"

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
	dir, rule := s.moved("XDG_CONFIG_HOME", ".config")
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

// Observe reads every place once. A place without a file is left out; what cannot be read is an observation with a
// problem.
func (s System) Observe(hub Hub) []Observed {
	var all []Observed
	trust := s.trust()
	for _, l := range s.Locate() {
		data := l.inline
		if data == nil {
			var p *Problem
			if data, p = load(l.File.Path); p != nil {
				if p.Code != "config-absent" {
					all = append(all, Observed{Schema: Schema, Agent: l.Agent, File: l.File, Entries: []Entry{}, Problems: []Problem{*p}})
				}
				continue
			}
		}
		l.gate = trust.gate(l)
		o := Read(l, data, hub)
		for i := range o.Entries {
			o.Entries[i].dir = filepath.Dir(l.File.Path)
		}
		trust.approve(&o)
		all = append(all, o)
	}
	return all
}

// maxReads bounds the tries on a file that changes while it is read.
const maxReads = 5

// load reads a file whole, in one state: size and time are the same before and after.
func load(path string) ([]byte, *Problem) {
	unreadable := func(err error) *Problem {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir) {
			return &Problem{Code: "config-absent"}
		}
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err // the path is in the observation already
		}
		return &Problem{Code: "config-unreadable", Text: err.Error()}
	}
	for range maxReads {
		before, err := os.Stat(path)
		if err != nil {
			return nil, unreadable(err)
		}
		if !before.Mode().IsRegular() {
			return nil, &Problem{Code: "config-unreadable", Text: "it is no regular file"}
		}
		if before.Size() > catalog.MaxDocument {
			return nil, &Problem{Code: "config-unreadable", Text: "it is too large"}
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, unreadable(err)
		}
		data, err := io.ReadAll(io.LimitReader(f, catalog.MaxDocument+1))
		after, statErr := f.Stat()
		if err := errors.Join(err, statErr, f.Close()); err != nil {
			return nil, unreadable(err)
		}
		if os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime()) && int64(len(data)) == after.Size() {
			return data, nil
		}
	}
	return nil, &Problem{Code: "config-busy", Text: "it changes all the time"}
}
