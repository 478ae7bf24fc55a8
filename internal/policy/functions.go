package policy

import (
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// declare looks over a text before it is judged: what it defines and assigns, and which loops may leave the shell in
// another directory.
func (s *script) declare(file *syntax.File) {
	for _, st := range file.Stmts {
		if f, ok := st.Cmd.(*syntax.FuncDecl); ok && !st.Background && !st.Negated {
			s.defines(f, true)
		}
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			s.defines(n, false)
		case *syntax.CallExpr:
			s.assignedBy(n)
		case *syntax.DeclClause:
			for _, a := range n.Args {
				s.assignment(a)
			}
		case *syntax.ForClause:
			if l, ok := n.Loop.(*syntax.WordIter); ok {
				s.values(l.Name.Value, l.Items, l.InPos.IsValid())
			}
		case *syntax.ParamExp:
			if n.Param != nil && n.Exp != nil && isAssigning(n.Exp.Op) {
				s.values(n.Param.Value, nil, false)
			}
		case *syntax.BinaryArithm:
			if assignsArithmetic(n.Op) {
				s.assignedIn(n.X)
			}
		case *syntax.UnaryArithm:
			if n.Op == syntax.Inc || n.Op == syntax.Dec {
				s.assignedIn(n.X)
			}
		case *syntax.Redirect:
			if name := redirectVariable(n); name != "" {
				s.values(name, nil, false)
			}
		}
		return true
	})
	s.markMoves(file)
}

// redirectVariable is the name in {name}>file, "" otherwise.
func redirectVariable(r *syntax.Redirect) string {
	if r.N == nil || len(r.N.Value) < 3 || r.N.Value[0] != '{' {
		return ""
	}
	return r.N.Value[1 : len(r.N.Value)-1]
}

func (s *script) defines(decl *syntax.FuncDecl, sure bool) {
	names := decl.Names
	if decl.Name != nil {
		names = append(slices.Clip(names), decl.Name)
	}
	for _, lit := range names {
		name := lit.Value
		if s.defined[decl] {
			return // seen at the top of the text
		}
		s.functions[name] = append(s.functions[name], &function{decl: decl, name: name, sure: sure, memo: map[string]called{}})
	}
	s.defined[decl] = true
}

// values records that a name is assigned, statically or not, in one more place.
func (s *script) values(name string, words []*syntax.Word, static bool) {
	if v := s.vars[name]; v != nil {
		v.unknown = true
		return
	}
	s.vars[name] = &variable{words: words, unknown: !static}
}

func (s *script) assignment(a *syntax.Assign) {
	switch {
	case a.Name == nil:
		if a.Value != nil {
			s.assignedByText(a.Value)
		}
	case a.Naked:
		s.values(a.Name.Value, nil, false)
	default:
		s.values(a.Name.Value, []*syntax.Word{a.Value}, !a.Append && a.Index == nil && a.Array == nil)
	}
}

func (s *script) assignedIn(x syntax.ArithmExpr) {
	if w, ok := x.(*syntax.Word); ok {
		s.values(w.Lit(), nil, false)
	}
}

// assigners are the builtins that assign the variables they are given names of.
func assigner(name string) bool {
	switch name {
	case "read", "printf", "mapfile", "readarray", "getopts", "unset", "wait", "let", "declare", "typeset", "local", "export",
		"readonly", "nameref":
		return true
	}
	return false
}

// assignedBy records the assignments of a simple command. A prefix of a command counts as well: the shell may keep it.
func (s *script) assignedBy(c *syntax.CallExpr) {
	for _, a := range c.Assigns {
		s.assignment(a)
	}
	for i, w := range c.Args {
		s.client = s.client || networkClient(path.Base(w.Lit()))
		if w.Lit() == "unset" { // command unset, too
			for _, name := range c.Args[i+1:] {
				s.unset[name.Lit()] = true
			}
		}
		if i > 0 && assigner(c.Args[0].Lit()) {
			s.assignedByText(w)
		}
	}
}

func (s *script) assignedByText(w *syntax.Word) {
	text := w.Lit()
	for i := range len(text) {
		if text[i] == '=' || text[i] == '[' || text[i] == '+' {
			text = text[:i]
			break
		}
	}
	if isName(text) {
		s.values(text, nil, false)
	}
}

// markMoves finds the loops that may leave the shell in another directory. Subshells keep it to themselves. A call of a
// function counts when any function of the text changes the directory, and a name that is not plain counts always.
func (s *script) markMoves(file *syntax.File) {
	moving := false
	eachCall(file, func(name *syntax.Word, around []syntax.Node) {
		moving = moving || movesShell(name.Lit()) && len(s.functions) > 0
	})
	eachCall(file, func(name *syntax.Word, around []syntax.Node) {
		text, plain := plainWord(name)
		if plain && !movesShell(text) && (!moving || s.functions[text] == nil) {
			return
		}
		for _, a := range slices.Backward(around) {
			switch n := a.(type) {
			case *syntax.WhileClause, *syntax.ForClause:
				if s.moves[n] {
					return // and so are those around it
				}
				s.moves[n] = true
			case *syntax.Subshell, *syntax.CmdSubst, *syntax.ProcSubst, *syntax.FuncDecl:
				return
			}
		}
	})
}

// eachCall visits the names of all simple commands with the nodes around them, the outermost first.
func eachCall(file *syntax.File, visit func(name *syntax.Word, around []syntax.Node)) {
	var around []syntax.Node
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			around = around[:len(around)-1]
			return true
		}
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			visit(c.Args[0], around)
		}
		around = append(around, n)
		return true
	})
}

// plainWord gives the text of a word without quotes and expansions; false for every other word.
func plainWord(w *syntax.Word) (string, bool) {
	text := w.Lit()
	for i := range len(text) {
		switch text[i] {
		case '\\', '*', '?', '[', '{', '~':
			return "", false
		}
	}
	return text, text != ""
}

func movesShell(name string) bool {
	switch name {
	case "cd", "pushd", "popd", "command", "builtin", "eval", ".", "source":
		return true
	}
	return false
}

// body judges the body of a function where it is defined, called or not.
func (s *script) body(decl *syntax.FuncDecl, sc scope) {
	sc.stdin = input{}
	s.stmt(decl.Body, sc)
}

// callFunction judges a call of a function of this text. external tells that the name may also mean something else.
func (s *script) callFunction(c *call) (f flow, external bool) {
	bodies := s.functions[c.args[0].text]
	external = c.functionIsSpecial() || s.unset[c.name()]
	if len(bodies) > maxBodies {
		s.exhausted = "the function " + quote(c.name()) + " is defined too often"
		bodies = bodies[:maxBodies]
	}
	key := c.dirs.key() + c.stdin.key()
	if s.guessing {
		key += "\x00d"
	}
	for _, body := range bodies {
		external = external || !body.sure || c.offset < body.decl.Pos().Offset()
		f = f.or(s.callBody(body, c, key))
	}
	return f, external
}

// maxBodies bounds the definitions of one name that a call is judged by.
const maxBodies = 8

func (s *script) callBody(f *function, c *call, key string) flow {
	sc := c.scope
	if slices.Contains(sc.active, f) {
		return stays(sc.dirs.orUnknown()) // it calls itself: the body is being judged
	}
	if known, ok := f.memo[key]; ok {
		if known.net {
			s.net++
		}
		return known.flow
	}
	before := s.net
	sc.active = append(slices.Clip(sc.active), f)
	if len(sc.active) > maxDepth {
		s.exhausted = "the functions call each other too deep"
		return stays(sc.dirs.orUnknown())
	}
	result := called{flow: s.stmt(f.decl.Body, sc)}
	result.net = s.net > before
	f.memo[key] = result
	return result.flow
}

// key tells inputs apart that are judged differently.
func (in input) key() string {
	var k strings.Builder
	k.WriteString("\x00")
	if in.net {
		k.WriteString("n")
	}
	if in.job {
		k.WriteString("j")
	}
	for _, text := range in.texts {
		k.WriteString("\x00" + text)
	}
	return k.String()
}

// forkBombs finds functions that call themselves, over others too, in a pipeline or in the background.
func (s *script) forkBombs() {
	calls := map[string]map[string]bool{}   // who calls whom
	forking := map[string]map[string]bool{} // who starts whom beside itself
	for name, bodies := range s.functions {
		calls[name], forking[name] = map[string]bool{}, map[string]bool{}
		for _, f := range bodies {
			s.callsOf(f.decl.Body, false, calls[name], forking[name])
		}
	}
	group := cycles(calls)
	for _, name := range slices.Sorted(maps.Keys(forking)) {
		for next := range forking[name] {
			if group[next] == group[name] && (next != name || calls[name][name]) {
				decl := s.functions[name][0].decl
				s.record(s.at(decl), s.text(decl), nil, denied("fork.bomb", "the function "+name+" starts itself again and again"))
			}
		}
	}
}

// cycles gives the functions that call each other, over others too, the same number (Tarjan's components).
func cycles(calls map[string]map[string]bool) map[string]int {
	index, low, group := map[string]int{}, map[string]int{}, map[string]int{}
	var stack []string
	var visit func(string)
	visit = func(name string) {
		index[name] = len(index) + 1
		low[name] = index[name]
		stack = append(stack, name)
		for next := range calls[name] {
			if index[next] == 0 {
				visit(next)
				low[name] = min(low[name], low[next])
			} else if group[next] == 0 {
				low[name] = min(low[name], index[next])
			}
		}
		if low[name] != index[name] {
			return
		}
		for {
			top := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			group[top] = index[name]
			if top == name {
				return
			}
		}
	}
	for name := range calls {
		if index[name] == 0 {
			visit(name)
		}
	}
	return group
}

// callsOf collects the functions that a body calls, and those it calls in a pipeline or in the background.
func (s *script) callsOf(n syntax.Node, beside bool, calls, forking map[string]bool) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			return false
		case *syntax.BinaryCmd:
			if !beside && (n.Op == syntax.Pipe || n.Op == syntax.PipeAll) {
				s.callsOf(n, true, calls, forking)
				return false
			}
		case *syntax.Stmt:
			if !beside && (n.Background || n.Coprocess || n.Disown) {
				s.callsOf(n, true, calls, forking)
				return false
			}
		case *syntax.CoprocClause, *syntax.ProcSubst:
			if !beside {
				s.callsOf(n, true, calls, forking)
				return false
			}
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				return true
			}
			args := s.expand(n.Args[0], s.start, unknownStays)
			if len(args) == 0 || s.functions[args[0].text] == nil {
				return true
			}
			calls[args[0].text] = true
			if beside {
				forking[args[0].text] = true
			}
		}
		return true
	})
}
