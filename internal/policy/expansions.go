package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// inside judges what a word does beside being a word: the commands in its substitutions, and the expansions in which the
// shell runs code from data.
func (s *script) inside(n syntax.Node, sc scope) {
	if n == nil {
		return
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			s.substitution(n, n.Stmts, sc)
			return false
		case *syntax.ProcSubst:
			inner := sc
			if n.Op == syntax.CmdOut { // it reads what some command of the text writes
				inner.stdin = input{net: sc.stdin.net || s.client}
			}
			s.substitution(n, n.Stmts, inner)
			return false
		case *syntax.ParamExp:
			s.checkParameter(n, sc)
		case *syntax.ArithmExp:
			if !numeric(n.X) {
				s.expansion(n, "arith.name", "arithmetic with more than numbers can run code from data")
			}
		case *syntax.ExtGlob:
			s.extendedGlob(n, sc)
		}
		return true
	})
}

// expansion records an expansion that is confirm by itself.
func (s *script) expansion(n syntax.Node, rule, reason string) {
	s.record(s.at(n), s.text(n), nil, confirm(rule, reason))
}

func (s *script) substitution(n syntax.Node, stmts []*syntax.Stmt, sc scope) {
	before := s.net
	s.list(stmts, sc)
	s.taint[n] = s.net > before || sc.stdin.net
}

func (s *script) checkParameter(p *syntax.ParamExp, sc scope) {
	if p.Excl {
		s.expansion(p, "expand.indirect", "the name of the variable comes from data")
	}
	if p.Exp != nil {
		switch p.Exp.Op { //nolint:exhaustive // the other operators compute a value from text
		case syntax.OtherParamOps:
			s.expansion(p, "expand.indirect", "the operator can run code from data")
		case syntax.AssignUnset, syntax.AssignUnsetOrNull:
			if p.Param != nil {
				s.assigns(p, p.Param.Value, sc)
			}
		}
	}
	if p.Index != nil && !numericSubscript(p.Index) {
		s.expansion(p, "arith.name", "a subscript that is no number can run code from data")
	}
	if p.Slice != nil && (p.Slice.Offset != nil && !numeric(p.Slice.Offset) || p.Slice.Length != nil && !numeric(p.Slice.Length)) {
		s.expansion(p, "arith.name", "arithmetic with more than numbers can run code from data")
	}
	if p.Flags != nil || p.NestedParam != nil || len(p.Modifiers) > 0 {
		s.expansion(p, "expand.indirect", "the expansion can run code from data")
	}
}

// extendedGlob judges @(...) and its kind. The parser leaves the inside as it is, and a substitution may stand in it.
func (s *script) extendedGlob(g *syntax.ExtGlob, sc scope) {
	s.expansion(g, "glob.extended", "an extended pattern is not judged")
	inner := s.newScript(s.dialect, g.Pattern.Value, s.at(g))
	if s.nested -= len(g.Pattern.Value); s.nested < 0 || sc.depth >= maxDepth {
		s.exhausted = "the patterns hold too much"
		return
	}
	word, err := syntax.NewParser(syntax.Variant(s.dialect.variant())).Document(strings.NewReader(g.Pattern.Value))
	if err != nil {
		return // it is confirm as it is
	}
	sc.depth++
	inner.functions, inner.vars = s.functions, s.vars
	inner.inside(word, sc)
}

// arithmetic judges (( )) and let, where the shell evaluates names.
func (s *script) arithmetic(n syntax.Node, x syntax.ArithmExpr, sc scope) {
	s.inside(x, sc)
	plain := allowed("vetted.arith", "arithmetic with numbers")
	if numeric(x) {
		s.record(s.at(n), s.text(n), &plain)
		return
	}
	s.expansion(n, "arith.name", "arithmetic with more than numbers can run code from data")
}

// numeric tells that an expression holds nothing but literal numbers and operators that assign nothing.
func numeric(x syntax.ArithmExpr) bool {
	switch x := x.(type) {
	case *syntax.Word:
		return isNumber(x.Lit())
	case *syntax.ParenArithm:
		return numeric(x.X)
	case *syntax.UnaryArithm:
		return x.Op != syntax.Inc && x.Op != syntax.Dec && numeric(x.X)
	case *syntax.BinaryArithm:
		return !assignsArithmetic(x.Op) && numeric(x.X) && numeric(x.Y)
	}
	return false
}

// isNumber tells that a word of arithmetic is a constant: it begins with a digit, in any base.
func isNumber(s string) bool {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if ('0' > c || c > '9') && ('a' > c || c > 'z') && ('A' > c || c > 'Z') && c != '#' && c != '@' && c != '_' {
			return false
		}
	}
	return true
}

func numericSubscript(x syntax.ArithmExpr) bool {
	if w, ok := x.(*syntax.Word); ok && (w.Lit() == "@" || w.Lit() == "*") {
		return true
	}
	return numeric(x)
}

func assignsArithmetic(op syntax.BinAritOperator) bool {
	switch op { //nolint:exhaustive // the others only compute
	case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn, syntax.AndAssgn,
		syntax.OrAssgn, syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn:
		return true
	}
	return false
}

// test judges [[ ]].
func (s *script) test(n *syntax.TestClause, sc scope) {
	s.inside(n, sc)
	var found []finding
	syntax.Walk(n.X, func(x syntax.Node) bool {
		switch x := x.(type) {
		case *syntax.UnaryTest:
			if x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar {
				found = append(found, confirm("arith.name", "the test for a variable evaluates a subscript"))
			}
		case *syntax.BinaryTest:
			if comparesNumbers(x.Op) && (!numericWord(x.X) || !numericWord(x.Y)) {
				found = append(found, confirm("arith.name", "a comparison of more than literal numbers can run code from data"))
			}
		case *syntax.Word:
			if a := s.value(x, sc.dirs, unknownStays, false); a.dynamic {
				found = append(found, confirm("args.dynamic", "a word is not known before it runs"))
			}
			return false
		}
		return true
	})
	plain := allowed("vetted.[[", "a test reads nothing")
	s.record(s.at(n), s.text(n), &plain, found...)
}

func comparesNumbers(op syntax.BinTestOperator) bool {
	switch op { //nolint:exhaustive // the others compare text and files
	case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
		return true
	}
	return false
}

func numericWord(x syntax.TestExpr) bool {
	w, ok := x.(*syntax.Word)
	return ok && isNumber(strings.TrimPrefix(w.Lit(), "-"))
}

// carriageReturns finds what the parser and the shell read differently: the parser drops them, the shell keeps them.
func (s *script) carriageReturns() {
	if strings.ContainsRune(s.source, '\r') {
		s.record(s.base, "", nil, confirm("text.cr", "the text holds a carriage return, which the shell takes for a part of a word"))
	}
}
