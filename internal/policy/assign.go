package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// harmlessVariable tells that a program may be given this variable: it changes language, time zone or looks.
func harmlessVariable(name string) bool {
	switch name {
	case "LANG", "TZ", "TERM", "NO_COLOR", "CLICOLOR", "FORCE_COLOR", "COLUMNS", "LINES", "CI":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}

// sensitiveVariable tells that the shell itself, or a program that gets it, finds or runs something by this variable.
func sensitiveVariable(name string) bool {
	switch name {
	case "PATH", "HOME", "PWD", "OLDPWD", "TMPDIR", "TMP", "TEMP", "SHELL", "IFS", "ENV", "SHELLOPTS", "BASHOPTS", "PS0", "PS1",
		"PS2", "PS3", "PS4", "PROMPT_COMMAND", "CDPATH", "GLOBIGNORE", "EXECIGNORE", "FIGNORE", "FPATH", "ZDOTDIR", "KSH_ENV", "POSIXLY_CORRECT",
		"HISTFILE", "INPUTRC", "MAILPATH", "MAIL", "TIMEFORMAT", "EDITOR", "VISUAL", "PAGER", "BROWSER", "LESS", "MORE", "CC", "CXX", "CPP",
		"LD", "AR", "AS", "MAKE", "MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "MAKEFILES", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "FC",
		"CLASSPATH", "TAR_OPTIONS", "GREP_OPTIONS", "WGETRC", "NETRC", "GCONV_PATH", "LOCPATH", "NLSPATH", "HOSTALIASES",
		"LOCALDOMAIN", "RES_OPTIONS", "MANPATH", "USER", "LOGNAME", "DISPLAY", "XAUTHORITY", "AWKPATH", "AWKLIBPATH", "MANPAGER",
		"HOSTFILE", "COMSPEC", "TERMCAP", "BC_ENV_ARGS", "GZIP", "XZ_OPT", "ZIPOPT", "UNZIP", "RSYNC_RSH", "CVS_RSH", "BLOCKSIZE":
		return true
	}
	for _, prefix := range []string{
		"LD_", "DYLD_", "BASH_", "GIT_", "SSH_", "PYTHON", "PERL", "RUBY", "NODE_", "NPM_", "npm_", "JAVA_", "_JAVA_", "JDK_", "GO",
		"CGO_", "CARGO_", "RUST", "LESS", "MALLOC_", "OPENSSL_", "SSL_", "CURL_", "XDG_", "TERMINFO", "RIPGREP_", "FZF_", "SUDO_",
		"DOCKER_", "KUBE", "AWS_", "GTK_", "QT_", "LUA_", "TCL", "PHP", "JQ_", "COMPLUS_", "DOTNET_", "DBUS_", "SYSTEMD_",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	for _, suffix := range []string{"_PROXY", "_proxy", "_PAGER", "_EDITOR", "_OPTIONS", "_FLAGS", "FLAGS", "_SHELL", "_COMMAND", "_PRELOAD"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// assigning gives what is wrong with assigning a variable; nil when nothing is. exported tells that a program gets it.
func (s *script) assigning(name string, exported bool) []finding {
	switch {
	case harmlessVariable(name):
		return nil
	case exported:
		return []finding{confirm("env.sensitive", "a program is given the variable "+name)}
	case sensitiveVariable(name), slices.Contains(s.place.Environment, name), slices.Contains(s.cmd.Env, name):
		return []finding{confirm("env.sensitive", "the variable "+name+" changes what programs do")}
	}
	return nil
}

// assigns judges a name that the shell assigns without an assignment: the variable of a loop, of a default.
func (s *script) assigns(n syntax.Node, name string, sc scope) {
	if strings.ContainsAny(name, "[$`") {
		s.expansion(n, "arith.name", "a subscript that is no number can run code from data")
		return
	}
	if sc.stdin.net {
		s.taintedVars[name] = true
	}
	s.record(s.at(n), s.text(n), nil, s.assigning(name, false)...)
}

// assign judges one name=value.
func (s *script) assign(a *syntax.Assign, exported bool, sc scope) {
	if a.Value != nil {
		s.inside(a.Value, sc)
		if s.holdsTaint(a.Value) && a.Name != nil {
			s.taintedVars[a.Name.Value] = true
		}
	}
	if a.Array != nil {
		for _, elem := range a.Array.Elems {
			if elem.Value != nil {
				s.inside(elem.Value, sc)
			}
			if elem.Index != nil {
				s.inside(elem.Index, sc)
			}
		}
	}
	if a.Index != nil {
		s.inside(a.Index, sc)
	}
	if a.Name == nil {
		return
	}
	found := s.assigning(a.Name.Value, exported)
	if a.Index != nil && !numeric(a.Index) || a.Array != nil && !numericIndexes(a.Array) {
		found = append(found, confirm("arith.name", "a subscript that is no number can run code from data"))
	}
	plain := allowed("assign", "a variable of the shell")
	s.record(s.at(a), s.text(a), &plain, found...)
}

func numericIndexes(x *syntax.ArrayExpr) bool {
	for _, elem := range x.Elems {
		if elem.Index != nil && !numeric(elem.Index) {
			return false
		}
	}
	return true
}

// holdsTaint tells that a word holds what a network client put out. Its substitutions have been judged.
func (s *script) holdsTaint(w *syntax.Word) bool {
	found := false
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			found = found || s.taint[n]
			return false
		case *syntax.ParamExp:
			found = found || n.Param != nil && s.taintedVars[n.Param.Value]
		}
		return true
	})
	return found
}

// declaration judges declare, export and their kind, where the parser has read their arguments.
func (s *script) declaration(n *syntax.DeclClause, sc scope) {
	d := declared{variant: n.Variant.Value}
	for _, a := range n.Args {
		if a.Name != nil {
			continue
		}
		s.inside(a.Value, sc)
		for _, word := range s.expand(a.Value, sc.dirs, unknownStays) {
			d.word(word)
		}
	}
	for _, a := range n.Args {
		if a.Name == nil {
			continue
		}
		d.names++
		s.assign(a, d.exports(), sc)
	}
	s.record(s.at(n), s.text(n), d.plain(), d.found()...)
}

// declared collects the words of declare, export and their kind.
type declared struct {
	variant string
	options string
	names   int
	wrong   []finding
}

// word takes a word that is an option or a name, as text.
func (d *declared) word(a arg) {
	name, _, _ := strings.Cut(strings.TrimSuffix(a.text, "+"), "=")
	switch {
	case a.dynamic:
		d.wrong = append(d.wrong, confirm("arith.name", "what is declared is not known before it runs"))
	case len(a.text) > 1 && (a.text[0] == '-' || a.text[0] == '+'):
		d.options += a.text[1:]
	case !isName(strings.TrimSuffix(name, "+")):
		d.wrong = append(d.wrong, confirm("arith.name", "what is declared is no plain name"))
	default:
		d.names++
	}
}

func (d *declared) exports() bool { return d.variant == "export" || strings.Contains(d.options, "x") }

func (d *declared) plain() *finding {
	plain := allowed("assign", "a declaration of the shell")
	return &plain
}

func (d *declared) found() []finding {
	found := d.wrong
	for _, letter := range d.options {
		switch letter {
		case 'a', 'A', 'g', 'l', 'u', 'r', 'x', 'f', 'F', 't':
		case 'n':
			found = append(found, confirm("expand.indirect", "the name of the variable comes from data"))
		case 'i':
			found = append(found, confirm("arith.name", "values are evaluated as arithmetic, which can run code from data"))
		case 'p':
			found = append(found, confirm("env.dump", "variables are listed with their values"))
		default:
			found = append(found, confirm("option.unknown", "the option -"+string(letter)+" of "+d.variant+" is not known"))
		}
	}
	if d.names == 0 && len(d.wrong) == 0 && !strings.ContainsAny(d.options, "fFp") {
		found = append(found, confirm("env.dump", "variables are listed with their values"))
	}
	return found
}
