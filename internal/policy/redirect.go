package policy

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// redirects judges the redirections of a statement and says what its command reads.
func (s *script) redirects(st *syntax.Stmt, sc scope) input {
	in := sc.stdin
	for _, r := range st.Redirs {
		s.inside(r.Word, sc)
		if name := redirectVariable(r); name != "" {
			s.assigns(r, name, sc)
		}
		if r.Hdoc != nil {
			s.inside(r.Hdoc, sc)
		}
		next := s.redirect(r, sc)
		if readsInput(r) {
			in = next
		}
	}
	return in
}

// readsInput tells that a redirection replaces standard input.
func readsInput(r *syntax.Redirect) bool {
	switch r.Op { //nolint:exhaustive // the others are for output
	case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return r.N == nil || r.N.Value == "0"
	}
	return r.N != nil && r.N.Value == "0"
}

func (s *script) redirect(r *syntax.Redirect, sc scope) input {
	plain := allowed("redirect.fd", "nothing but descriptors and text of the command")
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		return s.hereText(r.Hdoc, sc, true)
	case syntax.WordHdoc:
		return s.hereText(r.Word, sc, false)
	case syntax.DplIn, syntax.DplOut:
		if isDescriptor(r.Word.Lit()) {
			s.record(s.at(r), s.text(r), &plain)
			return input{}
		}
	case syntax.RdrIn, syntax.RdrInOut, syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.AppClob, syntax.RdrAll, syntax.RdrAllClob,
		syntax.AppAll, syntax.AppAllClob:
	}
	var found []finding
	words := s.globbed(s.expand(r.Word, sc.dirs, unknownStays), sc)
	in := input{}
	for _, a := range words {
		in.net = in.net || a.tainted
		if a.pipe {
			continue
		}
		if a.dynamic {
			found = append(found, confirm("args.dynamic", "where the redirection leads is not known before it runs"))
			continue
		}
		found = append(found, s.redirectTo(a.text, r.Op, sc)...)
		in.net = in.net || networkFile(a.text)
	}
	if anyDynamic(words) {
		for _, g := range s.guesses() {
			for _, a := range s.globbed(s.expand(r.Word, sc.dirs, g), sc) {
				found = append(found, denials(s.redirectTo(a.text, r.Op, sc))...)
			}
		}
	}
	s.record(s.at(r), s.text(r), &plain, found...)
	return in
}

// isDescriptor is the word after >& that names a descriptor: a number, "-", or a number that is moved.
func isDescriptor(word string) bool {
	word = strings.TrimSuffix(word, "-")
	for i := range len(word) {
		if word[i] < '0' || word[i] > '9' {
			return false
		}
	}
	return true
}

// hereText is what a here-document or here-string gives to its command.
func (s *script) hereText(w *syntax.Word, sc scope, document bool) input {
	if w == nil {
		return input{}
	}
	a := s.value(w, sc.dirs, unknownStays, document)
	in := input{net: a.tainted, texts: []string{a.text}, whole: !a.dynamic}
	if a.dynamic {
		in.texts = nil
		for _, g := range s.guesses() {
			in.texts = append(in.texts, s.value(w, sc.dirs, g, document).text)
		}
	}
	return in
}

// redirectTo judges a redirection to a file. An allowed one is a finding, too.
func (s *script) redirectTo(word string, op syntax.RedirOperator, sc scope) []finding {
	if networkFile(word) {
		found := []finding{confirm("net.redirect", "the shell opens a network connection")}
		if s.reachesDaemon(strings.Split(word, "/")) {
			found = append(found, denied("self.control", "this is the address of the control plane"))
		}
		return found
	}
	if op == syntax.RdrIn || op == syntax.DplIn {
		return s.readPath(word, sc)
	}
	found := s.writePath(word, sc)
	if op == syntax.RdrInOut {
		found = append(found, s.readPath(word, sc)...)
	}
	return found
}

// networkFile is a name that bash opens as a connection.
func networkFile(word string) bool {
	return strings.HasPrefix(word, "/dev/tcp/") || strings.HasPrefix(word, "/dev/udp/")
}

// harmlessDevice is a device that everything may be written to and read from: it leads to nothing or to what is open.
func harmlessDevice(name string) bool {
	if strings.Contains(name, "..") {
		return false // a link on the way could lead somewhere else
	}
	switch clean := path.Clean(name); clean {
	case "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty":
		return true
	default:
		rest, ok := strings.CutPrefix(clean, "/dev/fd/")
		return ok && isDescriptor(rest)
	}
}
