package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arg is one word of a command after expansion.
type arg struct {
	text    string // without quotes; of a dynamic word the parts that are known
	src     string // the pattern it comes from, quoted characters escaped; "" when it is no pattern
	dynamic bool   // holds an expansion whose value is not known
	tainted bool   // holds what a network client put out
	pipe    bool   // a process substitution, judged by its commands
	loose   bool   // an unquoted expansion stands in it: it may become several words, or none
	lead    int    // bytes of text before the first part that is not known
}

// static makes the word of a text that is known.
func static(text string) arg { return arg{text: text, lead: len(text)} }

func statics(texts ...string) []arg {
	args := make([]arg, len(texts))
	for i, text := range texts {
		args[i] = static(text)
	}
	return args
}

func texts(args []arg) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a.text
	}
	return out
}

func anyDynamic(args []arg) bool {
	for _, a := range args {
		if a.dynamic {
			return true
		}
	}
	return false
}

// guess says what stands for an expansion whose value is not known.
type guess struct {
	open bool // nothing: the word is dynamic
	pick int  // -1: no value at all; n: the n-th value the text assigns, for the deny rules
}

var (
	unknownStays = guess{open: true}
	noValues     = guess{pick: -1}
)

// expander turns the words of one script into args.
type expander struct {
	*script
	dirs  dirs
	guess guess
	depth int // of values of variables in values of variables

	done    []arg
	cur     arg
	pattern strings.Builder
	text    strings.Builder
	globs   bool // an unquoted pattern stands in cur
	bracket bool // an unquoted "[" does, which is a pattern once it is closed
	started bool // a quoted part or a character: the word exists even when it is empty
	known   bool // nothing unknown so far
}

// maxValueDepth bounds how far values of variables are followed into other variables.
const maxValueDepth = 4

// expand gives what a word becomes: none, one or many args. Patterns are not matched with files yet.
func (s *script) expand(w *syntax.Word, d dirs, g guess) []arg {
	return s.expandDeep(w, d, g, 0)
}

func (s *script) expandDeep(w *syntax.Word, d dirs, g guess, depth int) []arg {
	if w == nil {
		return nil
	}
	alternatives := [][]syntax.WordPart{w.Parts}
	if s.dialect != POSIX {
		var complete bool
		if alternatives, complete = s.braces(w); !complete {
			return []arg{{dynamic: true}}
		}
	}
	var all []arg
	for _, parts := range alternatives {
		e := expander{script: s, dirs: d, guess: g, depth: depth}
		e.reset()
		e.word(parts, true)
		e.finish()
		all = append(all, e.done...)
	}
	return all
}

// value is a word where it is not split, and braces are not expanded: the value of an assignment, a here-document.
func (s *script) value(w *syntax.Word, d dirs, g guess, hereDoc bool) arg {
	if w == nil {
		return static("")
	}
	e := expander{script: s, dirs: d, guess: g}
	e.reset()
	e.started = true
	if hereDoc {
		e.quoted(w.Parts, true)
	} else {
		e.word(w.Parts, false)
	}
	e.finish()
	if len(e.done) == 0 {
		return static("")
	}
	joined := e.done[0]
	for _, more := range e.done[1:] { // a value that holds spaces was split: it is one here
		joined.text += " " + more.text
		joined.tainted = joined.tainted || more.tainted
	}
	joined.src = ""
	return joined
}

func (e *expander) reset() {
	e.cur = arg{}
	e.pattern.Reset()
	e.text.Reset()
	e.globs, e.bracket, e.started, e.known = false, false, false, true
}

// finish ends the current word. A word of nothing but unquoted empty expansions does not exist.
func (e *expander) finish() {
	if e.started || e.cur.dynamic {
		a := e.cur
		a.text = e.text.String()
		if e.known {
			a.lead = len(a.text)
		}
		if e.globs {
			a.src = e.pattern.String()
		}
		e.done = append(e.done, a)
	}
	e.reset()
}

func (e *expander) put(s string, quoted bool) {
	if s == "" {
		return
	}
	e.started = true
	e.text.WriteString(s)
	for i := range len(s) {
		switch s[i] {
		case '*', '?', '[', ']', '\\', '-', '!', '^':
			if quoted {
				e.pattern.WriteByte('\\')
				break
			}
			e.bracket = e.bracket || s[i] == '['
			e.globs = e.globs || s[i] == '*' || s[i] == '?' || s[i] == ']' && e.bracket
		}
		e.pattern.WriteByte(s[i])
	}
}

// splitIn puts the value of an unquoted variable: it is split at blanks, and patterns in it count.
func (e *expander) splitIn(value string) {
	const blanks = " \t\n"
	for i, field := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(blanks, r) }) {
		if i > 0 || strings.IndexAny(value, blanks) == 0 {
			e.finish()
		}
		e.put(field, false)
	}
	if value != "" && strings.ContainsRune(blanks, rune(value[len(value)-1])) {
		e.finish()
	}
}

// unknown puts an expansion without a known value.
func (e *expander) unknown(quoted, tainted bool) {
	if e.known {
		e.cur.lead, e.known = e.text.Len(), false
	}
	e.cur.tainted = e.cur.tainted || tainted
	if e.guess.open {
		e.cur.dynamic = true
		e.cur.loose = e.cur.loose || !quoted
	}
	e.started = e.started || quoted
}

// word puts the parts of a word outside of quotes.
func (e *expander) word(parts []syntax.WordPart, tilde bool) {
	for i, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			e.literal(p.Value, i == 0 && tilde, i == len(parts)-1)
		case *syntax.SglQuoted:
			e.started = true
			if p.Dollar {
				e.put(ansiC(p.Value), true)
			} else {
				e.put(p.Value, true)
			}
		case *syntax.DblQuoted:
			e.started = e.started || !onlyAllParameters(p.Parts)
			e.quoted(p.Parts, false)
		case *syntax.ParamExp:
			e.parameter(p, false)
		case *syntax.CmdSubst:
			e.unknown(false, e.taint[p])
		case *syntax.ArithmExp:
			e.unknown(false, false)
		case *syntax.ProcSubst:
			if len(parts) == 1 {
				e.put(substituted, true)
				e.cur.pipe, e.cur.tainted = true, e.taint[p]
			} else {
				e.unknown(true, e.taint[p])
			}
		case *syntax.ExtGlob:
			e.unknown(true, false)
		default:
			e.unknown(false, false)
		}
	}
}

// substituted is the name that a process substitution is replaced with.
const substituted = "/dev/fd/63"

// quoted puts the parts of a word in double quotes, or of a here-document.
func (e *expander) quoted(parts []syntax.WordPart, hereDoc bool) {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			e.put(unescapeQuoted(p.Value, hereDoc), true)
		case *syntax.SglQuoted: // of a default: "${x:-'a'}" keeps its quotes
			if p.Dollar {
				e.put(ansiC(p.Value), true)
			} else {
				e.put("'"+p.Value+"'", true)
			}
		case *syntax.DblQuoted:
			e.quoted(p.Parts, hereDoc)
		case *syntax.ParamExp:
			e.parameter(p, true)
		case *syntax.CmdSubst:
			e.unknown(true, e.taint[p])
		case *syntax.ArithmExp:
			e.unknown(true, false)
		default:
			e.unknown(true, false)
		}
	}
}

// onlyAllParameters tells that a quoted part is "$@", which is no word at all when there are no parameters.
func onlyAllParameters(parts []syntax.WordPart) bool {
	if len(parts) != 1 {
		return false
	}
	p, ok := parts[0].(*syntax.ParamExp)
	return ok && p.Param != nil && (p.Param.Value == "@" || p.Index != nil)
}

// literal puts text outside of quotes: backslashes go, a tilde at the beginning is a home directory.
func (e *expander) literal(s string, first, last bool) {
	if first {
		if home, rest, ok := e.tilde(s, last); ok {
			e.home(home)
			s = rest
		} else if e.dialect != POSIX {
			// bash expands a tilde in words that look like assignments, too: dd of=~/x.
			if name, rest, found := strings.Cut(s, "="); found && isName(name) && strings.HasPrefix(rest, "~") {
				if home, after, ok := e.tilde(rest, last); ok {
					e.put(name+"=", true)
					e.home(home)
					s = after
				}
			}
		}
	}
	for s != "" {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			e.put(s, false)
			return
		}
		e.put(s[:i], false)
		e.started = true
		if i+1 == len(s) {
			e.put(`\`, true)
			return
		}
		e.put(s[i+1:i+2], true)
		s = s[i+2:]
	}
}

func (e *expander) home(dir string) {
	if dir == "" {
		e.unknown(true, false)
		return
	}
	e.put(dir, true)
}

// tilde finds the home directory that a literal begins with; "" when it is not known. last tells that the literal ends the
// word: a prefix that runs into a quoted or expanded part is none.
func (e *expander) tilde(s string, last bool) (home, rest string, ok bool) {
	if !strings.HasPrefix(s, "~") {
		return "", s, false
	}
	user, _, found := strings.Cut(s[1:], "/")
	if !found && !last || strings.ContainsAny(user, `\`) {
		return "", s, false
	}
	rest = s[1+len(user):]
	switch user {
	case "":
		value, _ := e.builtinValue("HOME")
		return value, rest, true
	case "+":
		value, _ := e.builtinValue("PWD")
		return value, rest, true
	case "-":
		return "", rest, true
	}
	if home := e.world.HomeOf(user); home != "" {
		return home, rest, true
	}
	return "", s, false // no such user: the tilde stays
}

// builtinValue is the value of the variables that are known unless the text assigns them.
func (e *expander) builtinValue(name string) (string, bool) {
	if _, assigned := e.vars[name]; assigned {
		return "", false
	}
	switch name {
	case "HOME":
		return e.place.Home, e.place.Home != ""
	case "TMPDIR":
		return e.place.Temp, e.place.Temp != ""
	case "PWD":
		if len(e.dirs.list) == 1 && !e.dirs.unknown {
			return e.dirs.list[0], true
		}
	}
	return "", false
}

// parameter puts $x or ${x...}.
func (e *expander) parameter(p *syntax.ParamExp, quoted bool) {
	name := ""
	if p.Param != nil {
		name = p.Param.Value
	}
	plain := !p.Excl && !p.Length && !p.Width && !p.IsSet && p.Index == nil && p.Slice == nil && p.Repl == nil &&
		p.Names == 0 && p.Flags == nil && p.NestedParam == nil && len(p.Modifiers) == 0
	if !plain {
		e.unknown(quoted, e.taintedVars[name])
		return
	}
	op := syntax.ParExpOperator(0)
	if p.Exp != nil {
		op = p.Exp.Op
	}
	value, known := e.builtinValue(name)
	if known && (op == 0 || isDefault(op) || isRequired(op)) {
		e.put(value, true)
		return
	}
	whole := quoted && name != "@" // one word, even when it is empty
	if e.guess.open || op != 0 && !isDefault(op) && !isAlternate(op) && !isRequired(op) {
		e.unknown(whole, e.taintedVars[name])
		return
	}
	value, known = e.assigned(name)
	switch {
	case op == syntax.ErrorUnsetOrNull && !known:
		e.put(something, true)
	case isDefault(op) && !known, isAlternate(op) && known:
		if p.Exp.Word == nil {
			return
		}
		if quoted {
			e.quoted(p.Exp.Word.Parts, false)
		} else {
			e.word(p.Exp.Word.Parts, false)
		}
	case !known || isAlternate(op):
		e.unknown(whole, e.taintedVars[name])
	case quoted:
		e.put(value, true)
	default:
		e.splitIn(value)
	}
}

// something stands for a value that is not known and cannot be empty: ${x:?} ends the shell instead.
const something = "_"

func isRequired(op syntax.ParExpOperator) bool {
	return op == syntax.ErrorUnset || op == syntax.ErrorUnsetOrNull
}

func isDefault(op syntax.ParExpOperator) bool {
	return op == syntax.DefaultUnset || op == syntax.DefaultUnsetOrNull || isAssigning(op)
}

func isAssigning(op syntax.ParExpOperator) bool {
	return op == syntax.AssignUnset || op == syntax.AssignUnsetOrNull
}

func isAlternate(op syntax.ParExpOperator) bool {
	return op == syntax.AlternateUnset || op == syntax.AlternateUnsetOrNull
}

// assigned is the value that the text gives a variable, where it gives one statically and in one place.
func (e *expander) assigned(name string) (string, bool) {
	v := e.vars[name]
	if e.guess.pick < 0 || v == nil || v.unknown || len(v.words) == 0 || e.depth >= maxValueDepth {
		return "", false
	}
	w := v.words[min(e.guess.pick, len(v.words)-1)]
	if w == nil {
		return "", true
	}
	args := e.expandDeep(w, e.dirs, e.guess, e.depth+1)
	return strings.Join(texts(args), " "), true
}

// unescapeQuoted takes away the backslashes that are none in double quotes, or in a here-document.
func unescapeQuoted(s string, hereDoc bool) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			switch s[i+1] {
			case '$', '`', '\\':
				i++
			case '"':
				if !hereDoc {
					i++
				}
			case '\n':
				i++
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// isName tells that s is the name of a variable.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
