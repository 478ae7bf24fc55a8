package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Dialect is the language of a shell.
type Dialect string

// The dialects that can be judged. Text for another shell is judged in the nearest one and never allowed.
const (
	Bash  Dialect = "bash"  // bash --noprofile --norc -c
	POSIX Dialect = "posix" // sh -c, where there is no bash
	Ksh   Dialect = "ksh"
	Zsh   Dialect = "zsh"
)

func (d Dialect) variant() syntax.LangVariant {
	switch d {
	case Bash:
		return syntax.LangBash
	case POSIX:
		return syntax.LangPOSIX
	case Ksh:
		return syntax.LangMirBSDKorn
	case Zsh:
		return syntax.LangZsh
	}
	return syntax.LangBash
}

// Command is what would be started: exactly one of Argv and Shell.
type Command struct {
	Argv    []string // one program and its arguments, as they are
	Shell   string   // text for a shell
	Dialect Dialect  // of the shell that runs Shell; Bash when empty
	Dir     string   // absolute and canonical; the target when empty
	Env     []string // names of the variables that the call sets
	Secrets []string // names of the secrets that the call asks for
	// Receivers are the programs that a secret is for, by its name; one without an entry is for every program.
	Receivers map[string][]string
	Stdin     *string // text for standard input, nil when there is none
	Project   string  // name, for rules about secrets
}

// Codes of Problem.
const (
	CodeSyntax = "COMMAND_SYNTAX"
	CodeLimit  = "LIMIT_EXCEEDED"
)

// MaxShell and MaxArgv bound a command, in bytes (runtime.md section 11).
const (
	MaxShell = 64 << 10
	MaxArgv  = 128 << 10
)

// Problem is why a command cannot be judged: it is refused, and nothing is stored.
type Problem struct {
	Code    string
	Message string
	Details map[string]any // line and column (1-based, in bytes) of COMMAND_SYNTAX in a text; limit and value of LIMIT_EXCEEDED
}

func (p *Problem) Error() string { return p.Message }

func syntaxProblem(line, column uint, message string) *Problem {
	return &Problem{Code: CodeSyntax, Message: message, Details: map[string]any{"line": line, "column": column}}
}

// check refuses what no shell and no program could take as it is.
func (c *Command) check() error {
	if (len(c.Argv) == 0) == (c.Shell == "") {
		return &Problem{Code: CodeSyntax, Message: "a command is either argv, with at least the program, or shell"}
	}
	size := len(c.Shell)
	limit := MaxShell
	if len(c.Argv) > 0 {
		limit = MaxArgv
		for _, word := range c.Argv {
			size += len(word) + 1
		}
	}
	if size > limit {
		return &Problem{
			Code: CodeLimit, Message: fmt.Sprintf("the command has %d bytes, more than %d", size, limit),
			Details: map[string]any{"limit": limit, "value": size},
		}
	}
	if what, n, most := tooNested(c.Shell); what != "" {
		return &Problem{
			Code: CodeLimit, Message: fmt.Sprintf("the text has %d of %s, more than %d", n, what, most),
			Details: map[string]any{"limit": most, "value": n},
		}
	}
	for i, word := range append(slices.Clone(c.Argv), c.Shell) {
		at := strings.IndexByte(word, 0)
		what := "a NUL byte"
		if at < 0 && !utf8.ValidString(word) {
			at = strings.IndexFunc(word, func(r rune) bool { return r == utf8.RuneError })
			what = "text that is not UTF-8"
		}
		if at < 0 {
			continue
		}
		if i < len(c.Argv) {
			return &Problem{Code: CodeSyntax, Message: fmt.Sprintf("argv[%d] holds %s", i, what), Details: map[string]any{"argument": i}}
		}
		before := word[:at]
		return syntaxProblem(uint(strings.Count(before, "\n")+1), uint(at-strings.LastIndexByte(before, '\n')), "the text holds "+what)
	}
	return nil
}

// Judge decides about a command. The error is a *Problem. Nothing of the command is run.
func Judge(c Command, w World, rules Rules) (Verdict, error) {
	j, err := newJudge(c, w, rules)
	if err != nil {
		return Verdict{}, err
	}
	if err := j.command(); err != nil {
		return Verdict{}, err
	}
	return j.verdict(), nil
}

// judge is one judgement.
type judge struct {
	world    *remembering
	place    Place
	rules    Rules
	cmd      Command
	start    dirs
	units    []Unit
	recorded map[Unit]bool
	programs map[string]Program
	given    map[string]bool   // secrets that a program gets which a rule names
	ungiven  map[string]bool   // secrets that a program would get which no rule names
	foreign  map[string]string // secrets that a program would get which they are not for, with that program

	fed    bool // a shell or interpreter reads the job's standard input as its program
	silent bool // JudgeInput: only what the standard input runs is recorded

	net    int // network clients seen so far
	words  int // words from braces and patterns that are left
	nested int // bytes of nested text that are left
	extra  int // words of commands that are judged once more that are left

	guessing  bool   // the words are guesses: only denials count
	exhausted string // why something was not judged
}

// What one judgement may cost, so that none takes longer than a second (TestRT83Cost). What does not fit is confirm; every
// command of the text itself is judged once, whatever else there is.
const (
	maxWords   = 1 << 14 // words from braces and patterns
	maxNested  = 1 << 18 // bytes of text for other shells, parsed
	maxExtra   = 1 << 17 // words of commands in functions, in wrappers and with guessed values
	maxNesting = 200     // statements inside of statements

	// What the parser itself takes long for: at each "((" it may read the rest of the text again, and subscripts in
	// subscripts cost it much stack.
	maxParentheses = 1000
	maxSubscripts  = 500
)

// tooNested names what a text has too much of for the parser, "" when it can be parsed. Quotes are not looked at.
func tooNested(text string) (what string, n, most int) {
	open, deepest, double := 0, 0, 0
	for i := range len(text) {
		switch text[i] {
		case '[':
			open++
			deepest = max(deepest, open)
		case ']':
			open = max(open-1, 0)
		case '(':
			if i > 0 && text[i-1] == '(' {
				double++
			}
		}
	}
	switch {
	case double > maxParentheses:
		return "((", double, maxParentheses
	case deepest > maxSubscripts:
		return "[ inside of [", deepest, maxSubscripts
	}
	return "", 0, 0
}

func newJudge(c Command, w World, rules Rules) (*judge, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Dialect == "" {
		c.Dialect = Bash
	}
	remembered := remember(w)
	place := w.Place()
	if c.Dir == "" {
		c.Dir = place.Target
	}
	return &judge{
		world: remembered, place: place, rules: rules, cmd: c, start: dirs{list: []string{c.Dir}},
		recorded: map[Unit]bool{}, programs: map[string]Program{}, given: map[string]bool{}, ungiven: map[string]bool{}, foreign: map[string]string{},
		words: maxWords, nested: maxNested, extra: maxExtra,
	}, nil
}

func (j *judge) command() error {
	sc := scope{dirs: j.start}
	if j.cmd.Stdin != nil {
		sc.stdin = input{texts: []string{*j.cmd.Stdin}, whole: true, job: true}
	} else {
		sc.stdin.job = true
	}
	if len(j.cmd.Argv) > 0 {
		s := j.newScript(j.cmd.Dialect, "", position{})
		s.call(&call{scope: sc, args: statics(j.cmd.Argv...), text: strings.Join(j.cmd.Argv, " ")})
	} else {
		s := j.newScript(j.cmd.Dialect, j.cmd.Shell, position{})
		file, err := s.parse()
		if err != nil {
			return err
		}
		sc.shell, sc.functions = true, true
		s.run(file, sc)
	}
	j.frame()
	return nil
}

// frame judges what stands around the text: the directory, the variables and secrets of the call, a broken policy.
func (j *judge) frame() {
	if j.locate(j.cmd.Dir) == outside {
		j.record(position{}, j.cmd.Dir, nil, confirm("path.outside", "the command starts outside of the target"))
	}
	for _, name := range j.cmd.Env {
		if !harmlessVariable(name) {
			j.record(position{}, name+"=", nil, confirm("env.sensitive", "the call sets the variable "+name))
		}
	}
	for _, name := range j.cmd.Secrets {
		if program, ok := j.foreign[name]; ok {
			j.record(position{}, name, nil, denied("secret.program", "the secret "+name+" is not for "+program))
		}
		if j.ungiven[name] || !j.given[name] {
			j.record(position{}, name, nil, confirm("secret.use", "no rule names the secret "+name+" with this program and project"))
		}
	}
	if j.exhausted != "" {
		j.record(position{}, "", nil, confirm("wrapper.depth", j.exhausted))
	}
	if why := j.rules.broken; why != "" {
		j.record(position{}, "", nil, confirm("policy.broken", "the policy file of the project does not load: "+why))
	}
}

func (j *judge) verdict() Verdict {
	v := Verdict{Decision: Allow, Units: j.units}
	slices.SortStableFunc(v.Units, func(a, b Unit) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for _, u := range v.Units {
		v.Decision = Strictest(v.Decision, u.Decision)
	}
	for _, path := range slices.Sorted(maps.Keys(j.programs)) {
		v.Programs = append(v.Programs, j.programs[path])
	}
	return Join(v)
}

// position is where a unit stands in the outermost text.
type position struct{ line, column uint }

// record keeps a unit: the strictest finding of those that are not lifted, else what it is when nothing was found. Without
// a finding and with nothing to fall back to there is no unit.
func (j *judge) record(at position, text string, otherwise *finding, findings ...finding) Decision {
	if j.silent {
		return ""
	}
	if j.guessing {
		findings, otherwise = denials(findings), nil
	}
	var best *finding
	for i := range findings {
		f := &findings[i]
		if j.rules.lifted(f.rule) {
			if otherwise != nil && otherwise.decision == Allow {
				otherwise = &finding{Allow, f.rule, "the user's policy lifts this rule"}
			}
			continue
		}
		if best == nil || f.decision.rank() > best.decision.rank() {
			best = f
		}
	}
	if best == nil {
		if best = otherwise; best == nil {
			return ""
		}
	}
	u := Unit{Text: shorten(text), Decision: best.decision, Rule: best.rule, Reason: shorten(best.reason), Line: at.line, Column: at.column}
	if !j.recorded[u] {
		j.recorded[u] = true
		j.units = append(j.units, u)
	}
	return best.decision
}

// shorten cuts a text at a character.
func shorten(text string) string {
	if len(text) <= maxUnitText {
		return text
	}
	cut := maxUnitText - len("…")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// parse reads the text of a script.
func (s *script) parse() (*syntax.File, error) {
	file, err := syntax.NewParser(syntax.Variant(s.dialect.variant())).Parse(strings.NewReader(s.source), "")
	if err == nil {
		return file, nil
	}
	if wrong, ok := errors.AsType[syntax.ParseError](err); ok {
		return nil, syntaxProblem(wrong.Pos.Line(), wrong.Pos.Col(), "the text is no valid command: "+wrong.Text)
	}
	if wrong, ok := errors.AsType[syntax.LangError](err); ok {
		return nil, syntaxProblem(wrong.Pos.Line(), wrong.Pos.Col(), "the shell that would run this does not know "+wrong.Feature)
	}
	return nil, syntaxProblem(1, 1, "the text is no valid command: "+err.Error())
}
