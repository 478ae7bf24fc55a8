package clientfile

import (
	"path/filepath"
	"slices"
	"strings"
)

// trust is what the user has told the agents about files that come with a project. A project file that its agent would
// not read is not served either.
type trust struct {
	folders  map[Agent][]string // that the user trusts; agents that are not in it read every project's files
	approved []string           // servers of .mcp.json that Claude may start
	rejected []string
	all      bool // Claude may start all of them

	qwen map[string]qwenDecision // by server, for the project
}

// trust reads the agents' own records.
func (s System) trust() trust {
	t := trust{folders: map[Agent][]string{Codex: nil, Copilot: nil}}
	if s.Project == "" {
		return t
	}
	dir, _ := s.moved("CODEX_HOME", ".codex")
	for _, p := range s.document(filepath.Join(dir, "config.toml"), codex()).get("projects").fields {
		if p.value.get("trust_level").text == "trusted" {
			t.folders[Codex] = append(t.folders[Codex], p.name)
		}
	}
	dir, _ = s.moved("COPILOT_HOME", ".copilot")
	for _, name := range []string{"settings.json", "config.json"} { // the older name has the older spelling
		for _, key := range []string{"trustedFolders", "trusted_folders"} {
			folders, _ := s.document(filepath.Join(dir, name), copilot()).get(key).texts()
			t.folders[Copilot] = append(t.folders[Copilot], folders...)
		}
	}
	t.qwen = s.qwenDecisions(s.document(filepath.Join(s.Home, ".qwen", "mcpApprovals.json"), qwen()))
	take := func(n node) {
		yes, _ := n.get("enabledMcpjsonServers").texts()
		no, _ := n.get("disabledMcpjsonServers").texts()
		all, _ := n.get("enableAllProjectMcpServers").bool()
		t.approved, t.rejected, t.all = append(t.approved, yes...), append(t.rejected, no...), t.all || all
	}
	dir, _ = s.moved("CLAUDE_CONFIG_DIR")
	take(s.document(s.claudeSettings(), claude()))
	projects := s.document(filepath.Join(dir, ".claude.json"), claude()).get("projects")
	for _, d := range s.upwards() {
		take(projects.get(d))
		// settings.json of the project comes with the project, so it cannot approve the project's own servers.
		take(s.document(filepath.Join(d, ".claude", "settings.local.json"), claude()))
	}
	return t
}

// claudeSettings is the user's own file of settings.
func (s System) claudeSettings() string {
	dir, rule := s.moved("CLAUDE_CONFIG_DIR")
	if rule == byDefault {
		dir = filepath.Join(dir, ".claude")
	}
	return filepath.Join(dir, "settings.json")
}

// records are the files beside those with servers from which trust is read.
func (s System) records() []string {
	copilot, _ := s.moved("COPILOT_HOME", ".copilot")
	all := []string{s.claudeSettings(), filepath.Join(copilot, "config.json"), filepath.Join(s.Home, ".qwen", "mcpApprovals.json")}
	for _, d := range s.upwards() {
		all = append(all, filepath.Join(d, ".claude", "settings.local.json"))
	}
	return all
}

// gate is the reason for which the agent ignores a whole file.
func (t trust) gate(l Location) string {
	folders, asks := t.folders[l.Agent]
	if !asks || l.File.Scope != ScopeProject {
		return ""
	}
	for _, p := range folders {
		if p == l.File.Project || strings.HasPrefix(l.File.Project, strings.TrimSuffix(p, "/")+"/") {
			return ""
		}
	}
	return "project-untrusted"
}

// approve switches off what an agent would ask about, or was told not to start.
func (t trust) approve(o *Observed) {
	if o.File.Scope != ScopeProject {
		return
	}
	var decide func(Entry) (rejected, approved bool)
	switch o.Agent { //nolint:exhaustive // the others do not ask about single servers
	case Claude:
		decide = func(e Entry) (bool, bool) {
			return slices.Contains(t.rejected, e.Name), t.all || slices.Contains(t.approved, e.Name)
		}
	case Qwen:
		decide = func(e Entry) (bool, bool) {
			d := t.qwen[e.Name]
			return d.rejects(*e.value), d.approves(*e.value)
		}
	default:
		return
	}
	for i := range o.Entries {
		e := &o.Entries[i]
		switch rejected, approved := decide(*e); {
		case rejected:
			e.switchOff()
		case !approved:
			e.switchOff()
			e.Problems = append(e.Problems, Problem{Code: "approval-pending"})
		}
	}
}
