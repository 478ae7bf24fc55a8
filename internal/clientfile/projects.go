package clientfile

import (
	"path/filepath"
	"slices"
)

// listed are the directories that agents keep a record of as projects: those of Claude Code, then those of Codex, each in
// the order of its file. They may be gone.
func (s System) listed() []string {
	claudeDir, _ := s.moved("CLAUDE_CONFIG_DIR")
	codexDir, _ := s.moved("CODEX_HOME", ".codex")
	var all []string
	for _, doc := range []node{s.document(filepath.Join(claudeDir, ".claude.json"), claude()), s.document(filepath.Join(codexDir, "config.toml"), codex())} {
		for _, p := range doc.get("projects").fields {
			if filepath.IsAbs(p.name) && filepath.Clean(p.name) == p.name && !slices.Contains(all, p.name) {
				all = append(all, p.name)
			}
		}
	}
	return all
}

// ObserveProjects reads the files that count everywhere once, and those of each project beside them. Choose gets the
// projects that agents list themselves and gives those that are looked at. What is seen in each of them is what Observe of
// a system with that project gives; the first one is that of none.
func (s System) ObserveProjects(hub Hub, choose func(listed []string) []string) (projects []string, seen [][]Observed) {
	s.documents = map[filed]node{}
	projects = choose(s.listed())
	s.Project = ""
	shared := map[filed]Observed{}
	for _, o := range s.read(hub, nil) {
		shared[filed{o.Agent, o.File.Path}] = o
	}
	for _, p := range append([]string{""}, projects...) {
		s.Project = p
		one := s.read(hub, shared)
		applyOff(one)
		seen = append(seen, one)
	}
	return projects, seen
}

// document reads a record of an agent; one that cannot be read says nothing: the observation of the same file says what is
// wrong with it. While several projects are observed it is read once.
func (s System) document(path string, d dialect) node {
	at := filed{path: path}
	if root, known := s.documents[at]; known {
		return root
	}
	var root node
	if data, p := load(path); p == nil {
		if parsed, err := d.parse(data); err == nil {
			root = parsed
		}
	}
	if s.documents != nil {
		s.documents[at] = root
	}
	return root
}

// Watched lists what is worth another look when it changes, that of every project first: the files in which agents look for
// servers, and the records of what a person allowed an agent to start.
func (s System) Watched(projects []string) []string {
	var all []string
	known := map[string]bool{}
	add := func(path string) {
		if filepath.IsAbs(path) && !known[path] {
			known[path] = true
			all = append(all, path)
		}
	}
	for _, p := range append([]string{""}, projects...) {
		s.Project = p
		for _, l := range s.Locate() {
			add(l.File.Path)
		}
		for _, path := range s.records() {
			add(path)
		}
	}
	return all
}

// Grown lists the directories in which more files of agents may appear, under names of their own.
func (s System) Grown(projects []string) []string {
	var all []string
	for _, p := range projects {
		s.Project = p
		for _, d := range s.upwards() {
			if dir := blocksOf(d); !slices.Contains(all, dir) {
				all = append(all, dir)
			}
		}
	}
	return all
}
