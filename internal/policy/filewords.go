package policy

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// fileArguments judges the words of a program that is not vetted by the file policy: what it writes and reads when that is
// known, else every word that names a secret.
func (s *script) fileArguments(c *call) []finding {
	var found []finding
	if role := writer(c.base()); role != nil {
		reads, writes := role(s, c)
		for _, word := range reads {
			found = append(found, s.deniedFile(word, AccessRead, c.scope)...)
		}
		for _, word := range writes {
			found = append(found, s.deniedFile(word, AccessWrite, c.scope)...)
		}
		return found
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

// deniedFile is what the file policy denies, and a device that is written.
func (s *script) deniedFile(word string, access Access, sc scope) []finding {
	return denials(s.judgePath(word, access, sc))
}

// writer gives what tells the files a program reads from those it writes; nil for programs of which that is not known.
func writer(base string) func(*script, *call) (reads, writes []string) {
	switch base {
	case "rm", "tee", "mkdir", "rmdir", "truncate", "shred", "unlink", "touch":
		return func(_ *script, c *call) (reads, writes []string) { return nil, plainOperands(c) }
	case "chmod", "chown", "chgrp":
		return func(_ *script, c *call) (reads, writes []string) {
			operands := plainOperands(c)
			return nil, operands[min(1, len(operands)):]
		}
	case "mv", "cp", "ln", "install":
		return copies
	case "dd":
		return func(_ *script, c *call) (reads, writes []string) {
			for _, a := range c.staticWords() {
				if file, ok := strings.CutPrefix(a.text, "if="); ok {
					reads = append(reads, file)
				} else if file, ok := strings.CutPrefix(a.text, "of="); ok {
					writes = append(writes, file)
				}
			}
			return reads, writes
		}
	}
	return nil
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
func copies(s *script, c *call) (reads, writes []string) {
	p := copyOptions().parse(c.staticWords())
	sources := texts(p.operands)
	target, given := p.value("-t", "--target-directory")
	if !given && len(sources) > 0 && !c.args[len(c.args)-1].dynamic {
		target = static(sources[len(sources)-1])
		if c.base() != "install" || !p.has("-d") {
			sources = sources[:len(sources)-1]
		}
		given = true
	}
	reads = sources
	if c.base() == "mv" {
		writes = slices.Clone(sources)
	}
	if !given {
		return reads, writes
	}
	writes = append(writes, target.text)
	names, _ := s.absolute(target.text, c.scope)
	if slices.ContainsFunc(names, func(name string) bool { return s.world.File(name).Dir }) {
		for _, source := range sources {
			writes = append(writes, strings.TrimSuffix(target.text, "/")+"/"+path.Base(source))
		}
	}
	return reads, writes
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
