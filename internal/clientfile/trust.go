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
	read := func(path string, d dialect) node {
		data, p := load(path)
		if p != nil {
			return node{}
		}
		root, err := d.parse(data)
		if err != nil {
			return node{} // the observation of the same file says what is wrong with it
		}
		return root
	}
	dir, _ := s.moved("CODEX_HOME", ".codex")
	for _, p := range read(filepath.Join(dir, "config.toml"), codex()).get("projects").fields {
		if p.value.get("trust_level").text == "trusted" {
			t.folders[Codex] = append(t.folders[Codex], p.name)
		}
	}
	dir, _ = s.moved("COPILOT_HOME", ".copilot")
	for _, name := range []string{"settings.json", "config.json"} { // the older name has the older spelling
		for _, key := range []string{"trustedFolders", "trusted_folders"} {
			folders, _ := read(filepath.Join(dir, name), copilot()).get(key).texts()
			t.folders[Copilot] = append(t.folders[Copilot], folders...)
		}
	}
	t.qwen = s.qwenDecisions(read(filepath.Join(s.Home, ".qwen", "mcpApprovals.json"), qwen()))
	take := func(n node) {
		yes, _ := n.get("enabledMcpjsonServers").texts()
		no, _ := n.get("disabledMcpjsonServers").texts()
		all, _ := n.get("enableAllProjectMcpServers").bool()
		t.approved, t.rejected, t.all = append(t.approved, yes...), append(t.rejected, no...), t.all || all
	}
	dir, rule := s.moved("CLAUDE_CONFIG_DIR")
	settings := dir
	if rule == byDefault {
		settings = filepath.Join(dir, ".claude")
	}
	take(read(filepath.Join(settings, "settings.json"), claude()))
	projects := read(filepath.Join(dir, ".claude.json"), claude()).get("projects")
	for _, d := range s.upwards() {
		take(projects.get(d))
		// settings.json of the project comes with the project, so it cannot approve the project's own servers.
		take(read(filepath.Join(d, ".claude", "settings.local.json"), claude()))
	}
	return t
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
