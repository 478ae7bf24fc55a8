package policy

import (
	"path"
	"strings"
)

// shellBuiltin gives what judges a builtin that acts on the shell itself, nil for the others. Builtins that are programs
// as well (echo, test) are judged like those.
func shellBuiltin(name string) func(*script, *call) flow {
	switch name {
	case "cd":
		return (*script).cd
	case "pushd", "popd":
		return (*script).pushd
	case "exit", "return":
		return (*script).exit
	case "eval":
		return (*script).eval
	case "source", ".":
		return (*script).sourced
	case "exec":
		return (*script).exec
	case "command":
		return (*script).commandBuiltin
	case "builtin":
		return (*script).builtinBuiltin
	case "trap":
		return (*script).trap
	case "set":
		return (*script).set
	case "read", "unset", "wait":
		return (*script).names
	case "export", "declare", "typeset", "local", "readonly", "nameref":
		return (*script).declares
	case "let":
		return (*script).let
	case "alias", "unalias", "hash", "enable", "shopt", "bind", "complete", "compgen", "compopt", "mapfile", "readarray", "umask",
		"ulimit", "setopt", "unsetopt", "emulate", "zmodload", "autoload":
		return (*script).state
	case "caller", "dirs", "disown", "fc", "bg", "fg", "jobs", "history", "logout", "suspend", "times", "getopts", "shift", "help",
		"print", "whence":
		return (*script).other
	}
	return nil
}

// isBuiltin tells that a shell runs a command of this name without looking for a program.
func isBuiltin(name string) bool {
	switch name {
	case "echo", "pwd", "printf", "test", "[", "true", "false", ":", "type", "break", "continue", "kill":
		return true
	}
	return false
}

// finish judges a builtin with what was found: user rules count for builtins, too.
func (s *script) finish(c *call, otherwise finding, found ...finding) flow {
	s.decide(c, &otherwise, append(notAllowed(found), s.userFindings(c, c.args)...)...)
	return stays(c.dirs)
}

func vettedRule(program string) finding {
	return allowed("vetted."+program, program+" is in the list of what only reads")
}

// cd judges the change of the directory and follows it.
func (s *script) cd(c *call) flow {
	p := cdOptions().parse(c.args[1:])
	found := p.problems(c.base())
	dir := static(s.place.Home)
	if len(p.operands) > 0 {
		dir = p.operands[0]
	}
	switch {
	case dir.dynamic || anyDynamic(c.args):
		s.finish(c, vettedRule("cd"), append(found, confirm("args.dynamic", "the directory is not known before it runs"))...)
		return flow{ok: c.dirs.orUnknown(), fail: c.dirs}
	case dir.text == "-" || dir.text == "":
		s.finish(c, vettedRule("cd"), append(found, confirm("path.unresolved", "the directory depends on what ran before"))...)
		return flow{ok: c.dirs.orUnknown(), fail: c.dirs}
	}
	s.finish(c, vettedRule("cd"), append(found, s.readPath(dir.text, c.scope)...)...)
	return flow{ok: s.enter(dir.text, c.scope), fail: c.dirs}
}

// enter gives the directories that a static cd may lead to. The shell takes ".." away as text, the kernel after following
// links: both count.
func (j *judge) enter(word string, sc scope) dirs {
	names, unresolved := j.absolute(word, sc)
	after := dirs{unknown: unresolved}
	for _, name := range names {
		after = dirs{unknown: after.unknown, list: after.list}.or(dirs{list: []string{j.world.File(name).Path}})
		if strings.Contains(name, "..") {
			after = after.or(dirs{list: []string{j.world.File(path.Clean(name)).Path}})
		}
	}
	return after
}

func (s *script) pushd(c *call) flow {
	s.finish(c, confirm("default", "no rule allows "+c.base()))
	return stays(c.dirs.orUnknown())
}

// exit ends this shell, or this function: nothing is reached after it.
func (s *script) exit(c *call) flow {
	s.leaf(c)
	if c.name() == "exit" {
		return flow{}
	}
	return stays(c.dirs)
}

func (s *script) eval(c *call) flow {
	found := []finding{confirm("eval", "the shell runs a text that is put together")}
	for _, a := range c.args[1:] {
		if a.tainted || a.dynamic && c.stdin.net {
			found = append(found, denied("net.pipe", "what the network sends is run as a command"))
		}
	}
	s.finish(c, found[0], found...)
	if anyDynamic(c.args) || len(c.args) == 1 {
		return stays(c.dirs.orUnknown())
	}
	return s.nestedText(c, strings.Join(texts(c.args[1:]), " "), s.dialect, true)
}

func (s *script) sourced(c *call) flow {
	found := []finding{confirm("source", "the shell runs a file")}
	if len(c.args) > 1 {
		file := c.args[1]
		if file.tainted || c.stdin.net && (file.pipe || standardInput(file.text)) {
			found = append(found, denied("net.pipe", "what the network sends is run as a command"))
		}
		if !file.dynamic && !file.pipe {
			found = append(found, s.readPath(file.text, c.scope)...)
		}
	}
	s.finish(c, found[0], found...)
	return stays(c.dirs.orUnknown())
}

// exec replaces the shell, or only its descriptors.
func (s *script) exec(c *call) flow {
	w := wrapperOptions("exec").parseUntilOperand(c.args[1:])
	found := w.problems("exec")
	if len(w.operands) == 0 {
		return s.finish(c, vettedRule("exec"), found...)
	}
	s.decide(c, nil, found...)
	s.call(c.inner(w.operands))
	return stays(c.dirs)
}

// commandBuiltin is command, which runs a program or builtin and no function, or says where one is.
func (s *script) commandBuiltin(c *call) flow {
	w := wrapperOptions("command").parseUntilOperand(c.args[1:])
	found := w.problems("command")
	if w.has("-v") || w.has("-V") || len(w.operands) == 0 {
		if anyDynamic(c.args) {
			found = append(found, confirm("args.dynamic", "a word is not known before it runs"))
		}
		return s.finish(c, vettedRule("command"), found...)
	}
	s.decide(c, nil, found...)
	in := c.inner(w.operands)
	in.shell = true
	return s.call(in)
}

func (s *script) builtinBuiltin(c *call) flow {
	if len(c.args) == 1 {
		return s.finish(c, confirm("default", "no rule allows builtin alone"))
	}
	in := c.inner(c.args[1:])
	in.shell = true
	if shellBuiltin(in.name()) == nil && !isBuiltin(in.name()) {
		return s.finish(c, confirm("default", quote(in.name())+" is no builtin"))
	}
	return s.call(in)
}

func (s *script) trap(c *call) flow {
	s.finish(c, confirm("shell.state", "trap changes what the shell does later"))
	if len(c.args) > 2 && !c.args[1].dynamic {
		in := *c
		in.stdin = input{}
		s.nestedText(&in, c.args[1].text, s.dialect, true)
	}
	return stays(c.dirs)
}

// set is harmless for the options that only make a shell stricter or louder.
func (s *script) set(c *call) flow {
	if len(c.args) == 1 {
		return s.finish(c, vettedRule("set"), confirm("env.dump", "variables are listed with their values"))
	}
	var found []finding
	state := confirm("shell.state", "set changes more than -e, -u, -x and pipefail")
	for i := 1; i < len(c.args); i++ {
		a := c.args[i]
		if a.dynamic || len(a.text) < 2 || a.text[0] != '-' && a.text[0] != '+' || a.text == "--" {
			found = append(found, state)
			break
		}
		for k, letter := range a.text[1:] {
			switch letter {
			case 'e', 'u', 'x':
			case 'o':
				i++
				if k != len(a.text)-2 || i >= len(c.args) || !strictOption(c.args[i]) {
					found = append(found, state)
				}
			default:
				found = append(found, state)
			}
		}
	}
	return s.finish(c, vettedRule("set"), found...)
}

func strictOption(a arg) bool {
	switch a.text {
	case "errexit", "nounset", "xtrace", "pipefail":
		return !a.dynamic
	}
	return false
}

// names judges read, unset and wait: their operands are names that are assigned.
func (s *script) names(c *call) flow {
	p := namingOptions(c.name()).parse(c.args[1:])
	found := p.problems(c.base())
	names := p.operands
	if c.name() == "wait" {
		names = nil
		if anyDynamic(c.args) {
			found = append(found, confirm("args.dynamic", "what is waited for is not known before it runs"))
		}
	}
	for _, o := range p.options {
		if o.spec.kind == kindName {
			names = append(names, o.value)
		}
	}
	for _, a := range names {
		if a.dynamic || !isName(a.text) {
			found = append(found, confirm("arith.name", "the name of the variable is not plain, and can run code from data"))
			continue
		}
		found = append(found, s.assigning(a.text, false)...)
		if c.stdin.net {
			s.taintedVars[a.text] = true
		}
	}
	return s.finish(c, vettedRule(c.name()), found...)
}

// declares is export and its kind where it is written so that the parser takes it for a program.
func (s *script) declares(c *call) flow {
	d := declared{variant: c.name()}
	for _, a := range c.args[1:] {
		d.word(a)
	}
	found := d.found()
	for _, a := range c.args[1:] {
		name, _, _ := strings.Cut(a.text, "=")
		if name = strings.TrimSuffix(name, "+"); isName(name) {
			found = append(found, s.assigning(name, d.exports())...)
		}
	}
	return s.finish(c, *d.plain(), found...)
}

func (s *script) let(c *call) flow {
	for _, a := range c.args[1:] {
		if a.dynamic || !isNumber(a.text) {
			return s.finish(c, vettedRule("let"), confirm("arith.name", "arithmetic with more than numbers can run code from data"))
		}
	}
	return s.finish(c, vettedRule("let"))
}

func (s *script) state(c *call) flow {
	return s.finish(c, confirm("shell.state", c.name()+" changes what the shell does later"))
}

func (s *script) other(c *call) flow {
	return s.finish(c, confirm("default", "no rule allows "+c.name()))
}
