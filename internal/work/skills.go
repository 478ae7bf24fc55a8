package work

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"mcpx/internal/lazyregexp"
	"mcpx/internal/tree"
)

// The files that make a folder a skill.
const (
	skillText = "SKILL.md"   // instructions, after a front matter with name and description
	skillRun  = "skill.yaml" // what can be run, and how
)

const (
	// maxSkills bounds the skills of one directory: all of them are read whenever somebody looks.
	maxSkills = 100
	// maxAbout bounds a description, in bytes.
	maxAbout = 2 << 10
	// maxEntryWords bounds the words of an entry.
	maxEntryWords = 64
)

var skillName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// skill is a folder that tells agents how to do something, and may have a program that does it.
type skill struct {
	name         string
	about        string
	global       bool
	root         string // absolute: the directory that folder.path is below
	entry        []string
	schema       json.RawMessage
	permissions  json.RawMessage
	instructions string
	folder       folder
	broken       string // what is wrong with its own files
	hidden       bool   // another one of this name comes first
}

// yamlReader reads a document as values.
type yamlReader = func(data []byte) (map[string]any, error)

// skillFile is skill.yaml.
type skillFile struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Entry       []string        `json:"entry"`
	Schema      json.RawMessage `json:"arguments_schema"`
	Permissions json.RawMessage `json:"permissions"`
}

// revision is over every file of the skill.
func (k skill) revision() string { return k.folder.digest }

// problem says why the skill can neither be read nor run; "" it can.
func (k skill) problem() string {
	if k.folder.problem != "" {
		return k.folder.problem
	}
	return k.broken
}

// id names the skill also where another one has its name.
func (k skill) id() string {
	if k.global {
		return "global:" + k.name
	}
	return "project:" + k.name
}

// dir is the absolute directory of the skill.
func (k skill) dir() string { return path.Join(k.root, k.folder.path) }

// has says whether the folder has a file with this path.
func (k skill) has(file string) bool {
	return slices.ContainsFunc(k.folder.files, func(f folderFile) bool { return f.Path == file })
}

// readSkills reads the skills in these directories below a root.
func (s *Service) readSkills(ctx context.Context, x *target, dirs []string) []skill {
	var all []skill
	read := map[string]bool{} // by canonical directory: one may be a link to another
	for _, dir := range dirs {
		at, err := x.root.Resolve(dir, tree.List)
		if err != nil {
			if tree.CodeOf(err) != tree.NotFound && tree.CodeOf(err) != tree.NotADirectory {
				all = append(all, skill{name: path.Base(dir), root: x.root.Path(), folder: folder{path: dir, digest: digest([]byte(problemText(err))), problem: problemText(err)}})
			}
			continue
		}
		if !read[at.Path] {
			read[at.Path] = true
			for _, name := range childrenOf(ctx, at) {
				if k, ok := s.readSkill(ctx, x, name); ok {
					all = append(all, k)
				}
			}
		}
		_ = at.Close() // it was only read from
	}
	for i := range all {
		all[i].hidden = slices.ContainsFunc(all[:i], func(k skill) bool { return k.name == all[i].name })
		if all[i].hidden && all[i].broken == "" {
			all[i].broken = "another skill has this name"
		}
	}
	return all
}

// childrenOf lists the directories and links in a directory.
func childrenOf(ctx context.Context, at *tree.Place) (names []string) {
	// A directory that cannot be read has no skills.
	_ = at.Walk(ctx, tree.WalkOptions{Depth: 1, Ignored: true}, func(v tree.Visit) error {
		if v.Kind == tree.Directory || v.Kind == tree.Link {
			names = append(names, v.Path)
		}
		if len(names) == maxSkills {
			return fs.SkipAll
		}
		return nil
	})
	return names
}

// readSkill reads one folder; false: it is no skill.
func (s *Service) readSkill(ctx context.Context, x *target, dir string) (skill, bool) {
	k := skill{name: path.Base(dir), root: x.root.Path(), folder: readFolder(ctx, x.root, dir, skillText, skillRun)}
	text, told := k.folder.kept[skillText]
	run, runs := k.folder.kept[skillRun]
	if !told && !runs {
		return k, k.folder.problem != "" // what cannot be read to its end may be one
	}
	if err := errors.Join(k.readText(text, told, s.cfg.YAML), k.readRun(run, runs, s.cfg.YAML)); err != nil {
		k.broken = err.Error()
	}
	if !skillName().MatchString(k.name) { // also of a broken one: it is listed, and comes before those of the user
		k.name, k.broken = path.Base(dir), cmp.Or(k.broken, "its name is none that can be called")
	}
	if k.broken == "" && k.about == "" {
		k.broken = "it has no description"
	}
	k.about = head([]byte(k.about), maxAbout)
	return k, true
}

// readText takes SKILL.md over.
func (k *skill) readText(data []byte, there bool, yaml yamlReader) error {
	if !there {
		return nil
	}
	front, rest, ok := frontMatter(data)
	if !ok {
		return errors.New(skillText + " does not begin with a front matter between lines of ---")
	}
	values, err := yaml(front)
	if err != nil {
		return errors.New("the front matter of " + skillText + " is no YAML: " + err.Error())
	}
	if name, ok := values["name"].(string); ok && name != "" {
		k.name = name
	}
	k.about, _ = values["description"].(string)
	k.instructions = string(rest)
	return nil
}

// frontMatter cuts a document at the end of its front matter.
func frontMatter(data []byte) (front, rest []byte, ok bool) {
	data = bytes.ReplaceAll(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), []byte("\r\n"), []byte("\n"))
	data, ok = bytes.CutPrefix(data, []byte("---\n"))
	if !ok {
		return nil, nil, false
	}
	if rest, empty := bytes.CutPrefix(data, []byte("---\n")); empty {
		return nil, rest, true
	}
	front, rest, ok = bytes.Cut(data, []byte("\n---\n"))
	if !ok {
		front, ok = bytes.CutSuffix(bytes.TrimRight(data, "\n"), []byte("\n---"))
	}
	return front, rest, ok
}

// readRun takes skill.yaml over.
func (k *skill) readRun(data []byte, there bool, yaml yamlReader) error {
	if !there {
		return nil
	}
	values, err := yaml(data)
	if err != nil {
		return errors.New(skillRun + " is no YAML: " + err.Error())
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return errors.New(skillRun + " has what JSON has not")
	}
	var f skillFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return errors.New(skillRun + " has a field of another type than it should have")
	}
	if f.Name != "" {
		k.name = f.Name
	}
	if f.Description != "" {
		k.about = f.Description
	}
	k.entry, k.schema, k.permissions = f.Entry, f.Schema, f.Permissions
	return k.checkEntry()
}

// checkEntry says what is wrong with the program that is run.
func (k *skill) checkEntry() error {
	switch {
	case len(k.entry) == 0:
		return nil
	case len(k.entry) > maxEntryWords || k.entry[0] == "" || slices.ContainsFunc(k.entry, func(w string) bool { return strings.ContainsRune(w, 0) }):
		return errors.New("its entry is none that can be started")
	case strings.Contains(k.entry[0], "/") && !k.has(path.Clean(k.entry[0])):
		return errors.New("its entry is no file of the folder")
	}
	return nil
}

// argv is what is started: words of the entry that name files of the folder lead there, wherever it is started.
func (k skill) argv() []string {
	words := slices.Clone(k.entry)
	for i, word := range words {
		if file := path.Clean(word); (i > 0 || strings.Contains(word, "/")) && k.has(file) {
			words[i] = path.Join(k.dir(), file)
		}
	}
	return words
}
