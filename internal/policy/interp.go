package policy

import (
	"slices"
	"strings"
	"sync"
)

// shellDialect is the language of a shell by the name of the program.
func shellDialect(base string) (Dialect, bool) {
	switch base {
	case "bash", "rbash":
		return Bash, true
	case "sh", "dash", "ash":
		return POSIX, true
	case "ksh", "mksh", "ksh93", "lksh", "oksh":
		return Ksh, true
	case "zsh", "rzsh":
		return Zsh, true
	}
	return "", false
}

// dialects are the languages to judge a text for a shell in. What sh is depends on the machine: without knowing it, both
// count.
func (s *script) dialects(c *call) []Dialect {
	d, _ := shellDialect(c.base())
	if d != POSIX || c.base() == "dash" || c.applet {
		return []Dialect{d}
	}
	if c.plain() {
		if p := s.world.Program(c.name()); p.Shell != "" {
			return []Dialect{p.Shell}
		}
	}
	return []Dialect{POSIX, Bash}
}

var shellTable = lazyTable(`-c -s -e -u -x !-i !-l !-a !-b !-f !-h !-k !-m !-n !-p !-r !-t !-v !-B !-C !-D !-E !-H !-P !-T -o= !-O= --norc --noprofile --posix
		!--login !--rcfile= !--init-file= !--restricted !--verbose !--debugger !--debug !--dump-strings !--dump-po-strings
		--version --help`)

// shellProgram judges a shell that is started: its text, its file or its input.
func (s *script) shellProgram(c *call) {
	words, plus := plusOptions(c.args[1:])
	p := shellTable().parseUntilOperand(words)
	var found []finding
	for _, o := range p.options {
		switch {
		case o.spec.name == "--rcfile", o.spec.name == "--init-file":
			found = append(found, confirm("interp", "the shell runs a file"))
		case o.spec.excluded, o.spec.name == "-o" && !strictOption(o.value) && o.value.text != "posix":
			found = append(found, confirm("shell.state", "the option "+o.spec.name+" changes what the shell does, or makes it read files"))
		}
	}
	if plus {
		found = append(found, confirm("shell.state", "an option changes what the shell does"))
	}
	for _, u := range p.unknown {
		found = append(found, confirm("option.unknown", "the option "+quote(u)+" of "+c.base()+" is not known"))
	}
	switch {
	case p.has("--version"), p.has("--help"):
		s.leafShell(c, found)
	case p.has("-c"):
		s.shellCommand(c, p.operands, found)
	case len(p.operands) > 0 && !p.has("-s") && !standardInput(p.operands[0].text):
		s.shellFile(c, p.operands[0], found)
	default:
		s.shellInput(c, found)
	}
}

// plusOptions takes out the options that are written with a plus.
func plusOptions(args []arg) (rest []arg, found bool) {
	for i, a := range args {
		if a.dynamic || len(a.text) < 2 || a.text[0] != '+' {
			if len(a.text) == 0 || a.text[0] != '-' {
				return append(rest, args[i:]...), found
			}
			rest = append(rest, a)
			continue
		}
		found = true
	}
	return rest, found
}

// standardInput tells that the name of a file stands for standard input.
func standardInput(name string) bool {
	switch name {
	case "-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0":
		return true
	}
	return false
}

// leafShell judges a shell that is asked about itself.
func (s *script) leafShell(c *call, found []finding) {
	s.shellUnit(c, true, found)
}

// shellUnit records what was found about the shell itself. unknown tells that what it runs is not judged.
func (s *script) shellUnit(c *call, unknown bool, found []finding) {
	trusted, untrusted := s.lookUp(c)
	found = append(append(s.denyRules(c), found...), untrusted...)
	if !trusted && len(untrusted) == 0 {
		found = append(found, confirm("default", s.defaultReason(c)))
	}
	found = append(found, s.userFindings(c, c.args)...)
	s.secretsGiven(c, c.args)
	if !unknown {
		s.decide(c, nil, found...)
		return
	}
	otherwise := s.defaultDecision(c, c.args, confirm("default", s.defaultReason(c)))
	s.decide(c, &otherwise, found...)
}

// shellCommand is sh -c: a static text is judged instead of the shell.
func (s *script) shellCommand(c *call, operands []arg, found []finding) {
	if len(operands) == 0 {
		s.shellUnit(c, true, found)
		return
	}
	text := operands[0]
	if text.tainted {
		found = append(found, denied("net.pipe", "what the network sends is run as a command"))
	}
	dialects := s.dialects(c)
	if text.dynamic {
		found = append(found, confirm("interp", "the text for the shell is not known before it runs"))
	} else if slices.Contains(dialects, Ksh) || slices.Contains(dialects, Zsh) {
		found = append(found, confirm("interp", "text for this shell is not allowed: it is judged in a dialect that is only near to its own"))
	}
	s.shellUnit(c, text.dynamic, found)
	if !text.dynamic {
		s.shellText(c, text, dialects...)
	}
}

// shellText judges a static text for a shell.
func (s *script) shellText(c *call, text arg, dialects ...Dialect) {
	for _, d := range dialects {
		in := *c
		s.nestedText(&in, text.text, d, false)
	}
}

// shellFile is a shell that runs a file.
func (s *script) shellFile(c *call, file arg, found []finding) {
	if file.tainted {
		found = append(found, denied("net.pipe", "what the network sends is run as a command"))
	}
	found = append(found, confirm("interp", c.base()+" runs a file"))
	if !file.dynamic && !file.pipe {
		found = append(found, notAllowed(s.readPath(file.text, c.scope))...)
	}
	s.shellUnit(c, true, found)
}

// shellInput is a shell that runs what it reads.
func (s *script) shellInput(c *call, found []finding) {
	if c.stdin.net {
		found = append(found, denied("net.pipe", "what the network sends is run as a command"))
	}
	s.shellUnit(c, true, append(found, confirm("interp", c.base()+" runs what it reads from standard input")))
	if c.stdin.job {
		defer s.feed()()
	}
	if !c.stdin.whole {
		defer s.guess()()
	}
	for _, text := range c.stdin.texts {
		in := *c
		in.stdin = input{}
		for _, d := range s.dialects(c) {
			s.nestedText(&in, text, d, false)
		}
	}
}

// interpreters are the other programs that run code, with the options that are followed by code and those that take
// another value.
type interpreterOptions struct {
	code  string // letters and long options that bring the code
	value string // letters and long options that take a value
}

var interpreters = sync.OnceValue(func() map[string]interpreterOptions {
	python := interpreterOptions{code: "c m", value: "W X --check-hash-based-pycs"}
	node := interpreterOptions{code: "e p --eval --print", value: "r C --require --import --loader --experimental-loader --input-type"}
	perl := interpreterOptions{code: "e E", value: "I M m"}
	lua := interpreterOptions{code: "e", value: "l"}
	return map[string]interpreterOptions{
		"python": python, "pypy": python, "node": node, "nodejs": node, "perl": perl, "lua": lua, "luajit": lua,
		"ruby": {code: "e", value: "I r C E"}, "php": {code: "r B R E", value: "d c z"}, "deno": {}, "bun": {code: "e p --eval --print"},
		"tclsh": {}, "wish": {}, "Rscript": {code: "e"}, "R": {code: "e"}, "julia": {code: "e E --eval --print", value: "L --load"},
		"osascript": {code: "e", value: "l"}, "expect": {code: "c", value: "f"}, "pwsh": {code: "--Command c"}, "powershell": {code: "c"},
		"fish": {code: "c", value: "C"}, "csh": {code: "c"}, "tcsh": {code: "c"}, "elvish": {code: "c"}, "nu": {code: "c"}, "groovy": {code: "e"},
		"guile": {code: "c", value: "l"}, "scala": {code: "e"}, "ghci": {}, "irb": {}, "elixir": {code: "e"}, "erl": {}, "ocaml": {}, "sbcl": {}, "gdb": {}, "m4": {}, "bc": {}, "dc": {}, "jshell": {},
	}
})

func interpreter(base string) bool {
	_, ok := interpreters()[interpreterName(base)]
	return ok
}

// interpreterName takes away the version: python3.12 is python.
func interpreterName(base string) string {
	if name := strings.TrimRight(base, "0123456789."); name != "" {
		return name
	}
	return base
}

// interpreted judges an interpreter: what it runs cannot be judged.
func (s *script) interpreted(c *call, found []finding) {
	o := interpreters()[interpreterName(c.base())]
	code, file := programOf(c.args[1:], o)
	found = append(found, confirm("interp", c.base()+" runs code that is not judged"))
	switch {
	case code != nil:
		if code.tainted {
			found = append(found, denied("net.pipe", "what the network sends is run as a program"))
		}
	case file == nil, standardInput(file.text):
		if c.stdin.net {
			found = append(found, denied("net.pipe", "what the network sends is run as a program"))
		}
		if c.stdin.job {
			s.feed()()
		}
	case file.tainted:
		found = append(found, denied("net.pipe", "what the network sends is run as a program"))
	}
	found = append(found, s.fileArguments(c)...)
	s.decideLeaf(c, confirm("default", s.defaultReason(c)), nil, found)
}

// programOf finds the code or the file that an interpreter is given; neither means standard input.
func programOf(args []arg, o interpreterOptions) (code, file *arg) {
	for i := 0; i < len(args); i++ {
		a := &args[i]
		if a.dynamic || len(a.text) < 2 || a.text[0] != '-' {
			return nil, a
		}
		if a.text == "--" {
			if i+1 < len(args) {
				return nil, &args[i+1]
			}
			return nil, nil
		}
		name, letters := a.text, ""
		if !strings.HasPrefix(name, "--") {
			letters = name[1:]
		}
		switch kind, attached := optionKind(name, letters, o); kind {
		case 'c':
			if attached || i+1 == len(args) {
				return a, nil
			}
			return &args[i+1], nil
		case 'v':
			if !attached {
				i++
			}
		}
	}
	return nil, nil
}

// optionKind tells whether an option brings code (c) or takes a value (v), and whether that is attached.
func optionKind(name, letters string, o interpreterOptions) (kind byte, attached bool) {
	long, _, attached := strings.Cut(name, "=")
	if letters == "" {
		switch {
		case slices.Contains(strings.Fields(o.code), long):
			return 'c', attached
		case slices.Contains(strings.Fields(o.value), long):
			return 'v', attached
		}
		return 0, false
	}
	for i := range len(letters) {
		letter := letters[i : i+1]
		if slices.Contains(strings.Fields(o.code), letter) {
			return 'c', i+1 < len(letters)
		}
		if slices.Contains(strings.Fields(o.value), letter) {
			return 'v', i+1 < len(letters)
		}
	}
	return 0, false
}
