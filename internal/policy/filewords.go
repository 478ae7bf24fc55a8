package policy

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// fileRoles are the words of a command by what becomes of the files they name.
type fileRoles struct {
	reads   []string
	writes  []string
	entries []string // names that are removed or moved: a link itself, not what it leads to
}

// fileArguments judges the words of a program that is not vetted by the file policy: what it writes and reads when that is
// known, else every word that names a secret.
func (s *script) fileArguments(c *call) []finding {
	var found []finding
	if roles, ok := s.fileRoles(c); ok {
		for _, word := range roles.reads {
			found = append(found, s.judgePath(word, AccessRead, c.scope)...)
		}
		for _, word := range roles.writes {
			found = append(found, s.judgePath(word, AccessWrite, c.scope)...)
		}
		for _, word := range roles.entries {
			found = append(found, s.judgeEntry(word, c.scope)...)
		}
		return denials(found)
	}
	for _, a := range c.staticWords() {
		for _, word := range possibleFiles(a.text) {
			names, _ := s.absolute(word, c.scope)
			for _, name := range names {
				file := s.world.File(name)
				if !file.Exists {
					continue
				}
				if v := JudgeFile(file, AccessRead, s.place, s.rules.Files); v.Decision == Deny {
					found = append(found, denied(v.Rule, v.Reason))
				}
			}
		}
	}
	return found
}

// possibleFiles gives the names of files that a word may hold: itself, what follows "=", "@", a colon or a short option.
func possibleFiles(word string) []string {
	if word == "" {
		return nil
	}
	words := []string{word}
	if _, value, ok := strings.Cut(word, "="); ok && value != "" {
		words = append(words, value)
	}
	if len(word) > 2 && word[0] == '-' && word[1] != '-' {
		words = append(words, word[2:])
	}
	for _, w := range slices.Clone(words) {
		if at := strings.TrimPrefix(w, "@"); at != w && at != "" {
			words = append(words, at)
		}
		if parts := strings.Split(w, ":"); len(parts) > 1 && len(parts) < 5 {
			words = append(words, parts...)
		}
	}
	return slices.DeleteFunc(words, func(w string) bool { return w == "" })
}

// judgeEntry judges the removal of a name.
func (s *script) judgeEntry(word string, sc scope) []finding {
	var found []finding
	names, _ := s.absolute(word, sc)
	for _, name := range names {
		file := s.world.File(name)
		if entry := s.entry(name); entry != file.Path {
			file = File{Path: entry, Exists: file.Exists}
		}
		if v := JudgeFile(file, AccessWrite, s.place, s.rules.Files); v.Decision == Deny {
			found = append(found, denied(v.Rule, v.Reason))
		}
	}
	return found
}

// fileRoles tells what a program does with its operands; false for programs of which that is not known.
func (s *script) fileRoles(c *call) (fileRoles, bool) {
	switch c.base() {
	case "rm", "rmdir", "unlink":
		return fileRoles{entries: plainOperands(c)}, true
	case "tee", "mkdir", "truncate", "shred", "touch":
		return fileRoles{writes: plainOperands(c)}, true
	case "chmod", "chown", "chgrp":
		operands := plainOperands(c)
		return fileRoles{writes: operands[min(1, len(operands)):]}, true
	case "mv", "cp", "ln", "install":
		return s.copies(c), true
	case "dd":
		var roles fileRoles
		for _, a := range c.staticWords() {
			if file, ok := strings.CutPrefix(a.text, "if="); ok {
				roles.reads = append(roles.reads, file)
			} else if file, ok := strings.CutPrefix(a.text, "of="); ok {
				roles.writes = append(roles.writes, file)
			}
		}
		return roles, true
	}
	return fileRoles{}, false
}

// plainOperands are the static words that are no options. The value of an option may be among them, which does no harm.
func plainOperands(c *call) []string {
	var operands []string
	options := true
	for _, a := range c.staticWords() {
		switch {
		case options && a.text == "--":
			options = false
		case options && len(a.text) > 1 && a.text[0] == '-':
		default:
			operands = append(operands, a.text)
		}
	}
	return operands
}

var copyOptions = lazyTable(`-a -b -d -f -i -H -l -L -n -P -p -R -r -s -t= -T -u -v -x -Z -S= -c -C -D -g= -m= -o= -F -E --target-directory= --suffix=
	--mode= --owner= --group= --no-target-directory --backup=? --preserve=? --no-preserve= --recursive --archive --force --verbose`)

// copies tells sources from targets. A target that is a directory gets files by the names of the sources.
func (s *script) copies(c *call) fileRoles {
	p := copyOptions().parse(c.staticWords())
	sources := texts(p.operands)
	target, given := p.value("-t", "--target-directory")
	if !given && len(sources) > 0 && !c.args[len(c.args)-1].dynamic {
		target, given = static(sources[len(sources)-1]), true
		if c.base() != "install" || !p.has("-d") {
			sources = sources[:len(sources)-1]
		}
	}
	roles := fileRoles{reads: sources}
	if c.base() == "mv" {
		roles = fileRoles{entries: sources}
	}
	if !given {
		return roles
	}
	roles.writes = []string{target.text}
	names, _ := s.absolute(target.text, c.scope)
	if slices.ContainsFunc(names, func(name string) bool { return s.world.File(name).Dir }) {
		for _, source := range sources {
			roles.writes = append(roles.writes, strings.TrimSuffix(target.text, "/")+"/"+path.Base(source))
		}
	}
	return roles
}

// printed is what a statement gives to the next one in a pipe, as far as the text says it: echo, printf, and cat of a
// here-document.
func (s *script) printed(st *syntax.Stmt, sc scope) []string {
	n, ok := st.Cmd.(*syntax.CallExpr)
	if !ok {
		return nil
	}
	words := s.expandAll(n.Args, sc, unknownStays)
	if len(words) == 0 || anyDynamic(words) {
		return nil
	}
	args := texts(words[1:])
	switch words[0].text {
	case "echo":
		for len(args) > 0 && (args[0] == "-n" || args[0] == "-e" || args[0] == "-E") {
			args = args[1:]
		}
		return []string{strings.Join(args, " ")}
	case "printf":
		if len(args) == 0 {
			return nil
		}
		format := strings.NewReplacer(`\n`, "\n", `\t`, "\t", "%s", " ").Replace(args[0])
		return append([]string{format, strings.Join(args, " ")}, args[1:]...)
	case "cat":
		if len(args) == 0 && len(st.Redirs) == 1 && st.Redirs[0].Hdoc != nil {
			return s.hereText(st.Redirs[0].Hdoc, sc, true).texts
		}
	}
	return nil
}
