package policy

import (
	"path"
	"slices"
	"strings"
)

// operands says what the operands of a vetted program are.
type operands string

const (
	operandsFiles operands = "files" // files that are read
	operandsText  operands = "text"  // text that is printed, compared or counted
	operandsNone  operands = "none"  // there may be none
)

// vettedProgram is one row of the tables.
type vettedProgram struct {
	name     string
	table    *optionTable
	operands operands
	raw      bool // every argument is an operand
	any      bool // a dynamic argument does no harm
	builtin  bool // the shell has it
	check    func(*script, *call, *parsed) []finding
}

// leaf judges a command that starts no other one.
func (s *script) leaf(c *call) {
	found := s.denyRules(c)
	trusted, untrusted := s.lookUp(c)
	found = append(found, untrusted...)
	base := c.base()
	if base == "printenv" {
		found = append(found, confirm("env.dump", "variables are listed with their values"))
	}
	if trusted && onlyVersion(c.args) {
		s.decideLeaf(c, vettedRule(base), nil, found)
		return
	}
	if interpreter(base) {
		s.interpreted(c, found)
		return
	}
	if base == "git" && trusted {
		s.git(c, found)
		return
	}
	v := vettedTable()[base]
	if v == nil || !trusted {
		found = append(found, s.fileArguments(c)...)
		s.decideLeaf(c, confirm("default", s.defaultReason(c)), nil, found)
		return
	}
	p := parsed{operands: c.args[1:]}
	if !v.raw {
		p = v.table.parse(c.args[1:])
	}
	found = append(found, s.vetted(c, v, &p)...)
	s.decideLeaf(c, vettedRule(base), p.words(), found)
}

// decideLeaf adds the rules of the user and of the project, which look at normalised words.
func (s *script) decideLeaf(c *call, otherwise finding, normalised []arg, found []finding) {
	words := c.args
	if normalised != nil {
		words = append([]arg{c.args[0]}, normalised...)
	}
	found = append(found, s.userFindings(c, words)...)
	if otherwise.rule == "default" {
		otherwise = s.defaultDecision(c, words, otherwise)
	}
	s.secretsGiven(c, words)
	s.decide(c, &otherwise, found...)
}

// vetted judges the words of a program of the list.
func (s *script) vetted(c *call, v *vettedProgram, p *parsed) []finding {
	var found []finding
	if v.check != nil {
		found = v.check(s, c, p)
	}
	found = append(found, p.problems(v.name)...)
	if !v.any && anyDynamic(c.args[1:]) {
		found = append(found, confirm("args.dynamic", "an argument is not known before it runs"))
	}
	for _, o := range p.options {
		if o.spec.kind == kindFile && o.given && !o.value.dynamic {
			found = append(found, s.readOperand(o.value, c.scope)...)
		}
	}
	switch v.operands {
	case operandsFiles:
		found = append(found, s.readOperands(p.operands, c.scope)...)
	case operandsNone:
		if len(p.operands) > 0 {
			found = append(found, confirm("option.excluded", v.name+" is allowed without operands only"))
		}
	case operandsText:
	}
	return found
}

// readOperand judges one operand as a file; "-" is standard input.
func (s *script) readOperand(a arg, sc scope) []finding {
	if a.dynamic || a.pipe || a.text == "-" {
		return nil
	}
	return notAllowed(s.readPath(a.text, sc))
}

// notAllowed drops what is allowed: a command is allowed by its own rule.
func notAllowed(found []finding) []finding {
	return slices.DeleteFunc(found, func(f finding) bool { return f.decision == Allow })
}

// onlyVersion tells that a common toolchain is asked for its version and nothing else.
func onlyVersion(args []arg) bool {
	if len(args) != 2 || args[1].dynamic {
		return false
	}
	base := path.Base(args[0].text)
	if base == "go" {
		return args[1].text == "version"
	}
	return args[1].text == "--version" && slices.Contains(strings.Fields(toolchains), base)
}

// toolchains are the programs whose --version is allowed.
const toolchains = `git gcc g++ cc c++ clang clang++ ld make gmake cmake ninja meson python python2 python3 pip pip3 pipx uv poetry
	node npm npx yarn pnpm bun deno tsc ruby gem bundle perl php composer java javac mvn gradle kotlin kotlinc scala rustc cargo rustup
	ghc cabal stack ocaml dune elixir mix erl julia Rscript lua luajit swift dotnet zig nim docker podman kubectl helm terraform
	gofmt golangci-lint protoc bazel sqlite3 psql mysql jq rg tmux`

func (s *script) defaultReason(c *call) string {
	if v := vettedTable()[c.base()]; v != nil || c.base() == "git" {
		return "no trusted " + quote(c.base()) + " is found for " + quote(c.name())
	}
	return "no rule allows " + quote(c.base())
}

// trustedDirs are the directories whose programs are known by their names.
var trustedDirs = []string{"/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin"}

// lookUp finds the program. trusted tells that it is the one its name says.
func (s *script) lookUp(c *call) (trusted bool, found []finding) {
	if c.applet || c.builtin() && isBuiltin(c.name()) || c.builtin() && shellBuiltin(c.name()) != nil {
		return true, nil
	}
	names := []string{c.name()}
	if !c.plain() {
		var unresolved bool
		if names, unresolved = s.absolute(c.name(), c.scope); unresolved {
			found = append(found, confirm("program.untrusted", "which program "+quote(c.name())+" is depends on the directory"))
		}
	}
	trusted = true
	for _, name := range names {
		if strings.HasPrefix(name, "/") && s.locate(s.world.File(name).Path) != outside {
			found = append(found, confirm("program.untrusted", quote(name)+" lies where the agent can write"))
			trusted = false
		}
		p := s.world.Program(name)
		if p.Path == "" {
			trusted = false
			continue
		}
		s.programs[p.Path] = p
		if p.Writable {
			found = append(found, confirm("program.untrusted", quote(p.Path)+" can be changed by the agent"))
		}
		trusted = trusted && s.trustedDir(path.Dir(p.Path)) && !p.Writable
	}
	return trusted, found
}

func (s *script) trustedDir(dir string) bool {
	return slices.Contains(trustedDirs, dir) || slices.Contains(s.rules.programDirs, dir)
}
