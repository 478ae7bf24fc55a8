package policy

import (
	"mvdan.cc/sh/v3/syntax"
)

// script is one text: the command itself, or a text inside of it that is given to another shell or to eval.
type script struct {
	*judge
	dialect Dialect
	source  string
	base    position // where the text stands in the outermost one, for nested texts

	functions   map[string][]*function
	defined     map[*syntax.FuncDecl]bool
	vars        map[string]*variable
	client      bool                 // a network client is named
	unset       map[string]bool      // names that unset is given
	moves       map[syntax.Node]bool // loops that may leave the shell in another directory
	taintedVars map[string]bool      // variables that hold what a network client put out
	taint       map[syntax.Node]bool // substitutions that do
}

// function is one definition in a text.
type function struct {
	decl *syntax.FuncDecl
	name string
	sure bool              // stands unconditionally at the top of the text
	memo map[string]called // by where it is called
}

// called is what one call of a function came to.
type called struct {
	flow flow
	net  bool // a network client was seen
}

// variable is what a text assigns to one name.
type variable struct {
	words   []*syntax.Word // the values, when it is assigned in one place
	unknown bool           // assigned in several places, or not with a text
}

// scope is where a command stands.
type scope struct {
	dirs      dirs
	shell     bool // builtins of the shell count
	functions bool // functions of the text count
	depth     int  // wrappers and nested texts opened so far
	level     int  // statements around
	stdin     input
	active    []*function // functions whose bodies are being judged
}

// input is what a command reads from standard input.
type input struct {
	net   bool     // may come from a network client
	job   bool     // the standard input of the job itself
	texts []string // what it holds as far as the text says; guesses included
	whole bool     // texts is one text and nothing else
}

func (j *judge) newScript(d Dialect, source string, base position) *script {
	return &script{
		judge: j, dialect: d, source: source, base: base,
		functions: map[string][]*function{}, defined: map[*syntax.FuncDecl]bool{}, vars: map[string]*variable{}, unset: map[string]bool{}, moves: map[syntax.Node]bool{},
		taintedVars: map[string]bool{}, taint: map[syntax.Node]bool{},
	}
}

// run judges a parsed text.
func (s *script) run(file *syntax.File, sc scope) flow {
	s.declare(file)
	s.forkBombs()
	s.carriageReturns()
	return s.list(file.Stmts, sc)
}

// at is where a node stands in the outermost text.
func (s *script) at(n syntax.Node) position {
	if s.base != (position{}) {
		return s.base
	}
	return position{n.Pos().Line(), n.Pos().Col()}
}

// text is a node as it was written.
func (s *script) text(n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if from >= to || to > uint(len(s.source)) {
		return ""
	}
	return s.source[from:to]
}

// list judges statements one after the other.
func (s *script) list(stmts []*syntax.Stmt, sc scope) flow {
	last := stays(sc.dirs)
	if sc.level++; sc.level > maxNesting {
		s.exhausted = "the statements are nested too deep"
		return last
	}
	for _, st := range stmts {
		if now := last.any(); !now.dead() {
			sc.dirs = now // what is not reached is judged from where it stands
		}
		last = s.stmt(st, sc)
	}
	return last
}

// stmt judges one statement with its redirections.
func (s *script) stmt(st *syntax.Stmt, sc scope) flow {
	sc.stdin = s.redirects(st, sc)
	f := s.node(st, sc)
	if st.Background || st.Coprocess || st.Disown {
		return stays(sc.dirs)
	}
	if st.Negated {
		f.ok, f.fail = f.fail, f.ok
	}
	return f
}

func (s *script) node(st *syntax.Stmt, sc scope) flow {
	switch n := st.Cmd.(type) {
	case nil:
		return stays(sc.dirs)
	case *syntax.CallExpr:
		return s.simple(n, sc)
	case *syntax.BinaryCmd:
		return s.binary(n, sc)
	case *syntax.Subshell:
		s.list(n.Stmts, sc)
		return stays(sc.dirs)
	case *syntax.Block:
		return s.list(n.Stmts, sc)
	case *syntax.IfClause:
		return s.branch(n, sc)
	case *syntax.WhileClause:
		return s.while(n, sc)
	case *syntax.ForClause:
		return s.loop(n, sc)
	case *syntax.CaseClause:
		return s.cases(n, sc)
	case *syntax.FuncDecl:
		s.body(n, sc)
	case *syntax.ArithmCmd:
		s.arithmetic(n, n.X, sc)
	case *syntax.LetClause:
		for _, x := range n.Exprs {
			s.arithmetic(n, x, sc)
		}
	case *syntax.TestClause:
		s.test(n, sc)
	case *syntax.DeclClause:
		s.declaration(n, sc)
	case *syntax.TimeClause:
		if n.Stmt != nil {
			return s.stmt(n.Stmt, sc)
		}
	case *syntax.CoprocClause:
		if n.Name != nil {
			s.assigns(n, n.Name.Lit(), sc)
		}
		s.stmt(n.Stmt, sc)
	case *syntax.TestDecl:
		s.stmt(n.Body, sc)
	}
	return stays(sc.dirs)
}

func (s *script) binary(n *syntax.BinaryCmd, sc scope) flow {
	switch n.Op {
	case syntax.AndStmt:
		x := s.stmt(n.X, sc)
		y := s.stmt(n.Y, sc.in(x.ok))
		return flow{y.ok, x.fail.or(y.fail)}
	case syntax.OrStmt:
		x := s.stmt(n.X, sc)
		y := s.stmt(n.Y, sc.in(x.fail))
		return flow{x.ok.or(y.ok), y.fail}
	case syntax.Pipe, syntax.PipeAll:
		before := s.net
		s.stmt(n.X, sc)
		sc.stdin = input{net: sc.stdin.net || s.net > before, texts: s.printed(n.X, sc)}
		s.stmt(n.Y, sc)
	}
	return stays(sc.dirs)
}

// in is the same place with other directories; what is not reached is judged from where it stands.
func (sc scope) in(d dirs) scope {
	if !d.dead() {
		sc.dirs = d
	}
	return sc
}

func (s *script) branch(n *syntax.IfClause, sc scope) flow {
	cond := stays(sc.dirs) // an else has no condition
	if len(n.Cond) > 0 {
		cond = s.list(n.Cond, sc)
	}
	then := s.list(n.Then, sc.in(cond.ok))
	switch {
	case n.Else != nil:
		return then.or(s.branch(n.Else, sc.in(cond.fail)))
	case len(n.Cond) == 0:
		return then
	}
	return then.or(stays(cond.fail))
}

func (s *script) while(n *syntax.WhileClause, sc scope) flow {
	if s.moves[n] {
		sc.dirs = sc.dirs.orUnknown()
	}
	cond := s.list(n.Cond, sc)
	do := s.list(n.Do, sc.in(cond.any()))
	return stays(sc.dirs.or(cond.any()).or(do.any()))
}

func (s *script) loop(n *syntax.ForClause, sc scope) flow {
	if s.moves[n] {
		sc.dirs = sc.dirs.orUnknown()
	}
	switch l := n.Loop.(type) {
	case *syntax.WordIter:
		s.assigns(n, l.Name.Value, sc)
		for _, w := range l.Items {
			s.inside(w, sc)
			if s.holdsTaint(w) {
				s.taintedVars[l.Name.Value] = true
			}
		}
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
			if x != nil {
				s.arithmetic(l, x, sc)
			}
		}
	}
	return stays(sc.dirs.or(s.list(n.Do, sc).any()))
}

func (s *script) cases(n *syntax.CaseClause, sc scope) flow {
	s.inside(n.Word, sc)
	after := sc.dirs
	falling := dirs{}
	for _, item := range n.Items {
		for _, w := range item.Patterns {
			s.inside(w, sc)
		}
		f := s.list(item.Stmts, sc.in(sc.dirs.or(falling)))
		after = after.or(f.any())
		falling = dirs{}
		if item.Op != syntax.Break {
			falling = f.any()
		}
	}
	return stays(after)
}
