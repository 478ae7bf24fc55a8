package policy

import (
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call is one simple command, or the command inside of a wrapper.
type call struct {
	scope
	args   []arg // the program and its arguments; at least one
	text   string
	at     position
	offset uint // in its text, to know which functions are defined before it
	applet bool // of a program that was looked up (busybox ls): it is not looked up itself
}

func (c *call) name() string { return c.args[0].text }

// base is the name that rules look at.
func (c *call) base() string { return path.Base(c.name()) }

// plain tells that the name has no directory: functions, builtins and the PATH count.
func (c *call) plain() bool { return !strings.Contains(c.name(), "/") }

// builtin tells that the shell runs the command itself when it has one of this name.
func (c *call) builtin() bool { return c.shell && c.plain() }

// maxDepth bounds how many wrappers are opened, one inside of the other.
const maxDepth = 8

// maxGuesses bounds the values of a variable that are tried for the deny rules: those of a loop over a list.
const maxGuesses = 8

// guesses are the ways in which expansions without a known value are filled in for the deny rules.
func (s *script) guesses() []guess {
	all := []guess{noValues}
	most := 0
	for _, v := range s.vars {
		if !v.unknown {
			most = max(most, min(len(v.words), maxGuesses))
		}
	}
	for i := range most {
		all = append(all, guess{pick: i})
	}
	return all
}

// simple judges a simple command.
func (s *script) simple(n *syntax.CallExpr, sc scope) flow {
	for _, w := range n.Args {
		s.inside(w, sc)
	}
	for _, a := range n.Assigns {
		s.assign(a, len(n.Args) > 0, sc)
	}
	if len(n.Args) == 0 {
		return stays(sc.dirs)
	}
	c := call{scope: sc, text: s.text(n), at: s.at(n), offset: n.Pos().Offset()}
	words := s.expandAll(n.Args, sc, unknownStays)
	if len(words) == 0 { // nothing but expansions that are known to be empty: nothing is started
		return stays(sc.dirs)
	}
	c.args = s.globbed(words, sc)
	f := s.call(&c)
	if !anyDynamic(words) {
		return f
	}
	defer s.guess()()
	seen := map[string]bool{}
	for _, g := range s.guesses() {
		words := s.expandAll(n.Args, sc, g)
		key := strings.Join(texts(words), "\x00")
		if len(words) == 0 || seen[key] {
			continue
		}
		seen[key] = true
		c.args = s.globbed(words, sc)
		s.call(&c)
	}
	return f
}

func (s *script) expandAll(words []*syntax.Word, sc scope, g guess) []arg {
	var args []arg
	for _, w := range words {
		args = append(args, s.expand(w, sc.dirs, g)...)
	}
	return args
}

// call judges a command by its name.
func (s *script) call(c *call) flow {
	if c.depth > 0 || s.guessing || len(c.active) > 0 {
		if s.extra -= len(c.args); s.extra < 0 {
			s.exhausted = "too many commands are judged again: with other values, in functions, or inside of other commands"
			return stays(c.dirs)
		}
	}
	name := c.args[0]
	switch {
	case name.tainted:
		s.decide(c, nil, denied("net.pipe", "what the network sends is run as a command"))
		return stays(c.dirs)
	case name.dynamic, name.src != "" && !s.guessing:
		s.decide(c, nil, confirm("name.dynamic", "which program is started is not known before it runs"))
		if name.dynamic {
			s.secretsGiven(c, c.args)
		} else {
			defer s.guess()()
			s.call(c)
		}
		return stays(c.dirs.orUnknown())
	case c.depth > maxDepth:
		s.decide(c, nil, confirm("wrapper.depth", "more than "+strconv.Itoa(maxDepth)+" programs that start programs, one inside of the other"))
		return stays(c.dirs)
	}
	if c.functions && c.plain() && s.functions[c.name()] != nil {
		f, external := s.callFunction(c)
		if !external {
			return f
		}
		outer := *c
		outer.functions = false
		return f.or(s.call(&outer))
	}
	if c.builtin() {
		if judge := shellBuiltin(c.name()); judge != nil {
			return judge(s, c)
		}
	}
	if opens := opener(c.base()); opens != nil {
		opens(s, c)
		return stays(c.dirs)
	}
	s.leaf(c)
	return stays(c.dirs)
}

// functionIsSpecial tells that a shell may prefer its builtin to a function of the same name.
func (c *call) functionIsSpecial() bool {
	switch c.name() {
	case ".", ":", "break", "continue", "eval", "exec", "exit", "export", "readonly", "return", "set", "shift", "source", "times", "trap",
		"unset":
		return true
	}
	return false
}

// decide records what was found about a command.
func (s *script) decide(c *call, otherwise *finding, found ...finding) {
	s.record(c.at, c.text, otherwise, found...)
}

// guess begins a part in which the words are guesses: only a denial is recorded. The result ends it.
func (j *judge) guess() func() {
	before := j.guessing
	j.guessing = true
	return func() { j.guessing = before }
}

func denials(found []finding) []finding {
	var out []finding
	for _, f := range found {
		if f.decision == Deny {
			out = append(out, f)
		}
	}
	return out
}

// inner is the command that a wrapper starts.
func (c *call) inner(args []arg) *call {
	in := *c
	in.args = args
	in.depth++
	in.shell, in.functions, in.applet = false, false, false
	in.text = joined(args)
	return &in
}

// joined shows words that have no text of their own.
func joined(args []arg) string {
	shown := make([]string, len(args))
	for i, a := range args {
		shown[i] = a.text
		if a.dynamic {
			shown[i] += "…"
		}
	}
	return strings.Join(shown, " ")
}

// nestedText judges a text that another shell runs, or this one again: eval and trap share its functions and variables.
func (s *script) nestedText(c *call, text string, d Dialect, shares bool) flow {
	if s.nested -= len(text); s.nested < 0 {
		s.exhausted = "the texts for other shells are too long"
		return stays(c.dirs)
	}
	if c.depth >= maxDepth {
		s.decide(c, nil, confirm("wrapper.depth", "more than "+strconv.Itoa(maxDepth)+" shells, one inside of the other"))
		return stays(c.dirs)
	}
	inner := s.newScript(d, text, c.at)
	if shares {
		inner.functions, inner.vars, inner.taintedVars = s.functions, s.vars, s.taintedVars
	}
	file, err := inner.parse()
	if err != nil {
		s.decide(c, nil, confirm("interp", "the text for the shell cannot be judged: "+err.Error()))
		return stays(c.dirs)
	}
	sc := c.scope
	sc.depth++
	sc.shell, sc.functions = true, true
	return inner.run(file, sc)
}
