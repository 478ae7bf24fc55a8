package policy

import (
	"slices"
	"strings"
)

func checkPrintf(s *script, c *call, p *parsed) []finding {
	if len(c.args) < 2 {
		return nil
	}
	if format := c.args[1]; strings.HasPrefix(format.text, "-v") && !format.dynamic {
		return []finding{confirm("option.excluded", "the option -v of printf assigns a variable")}
	} else if format.dynamic && (format.lead == 0 || format.text[0] == '-') {
		return []finding{confirm("args.dynamic", "the format may become the option -v, which runs code from data")}
	}
	return nil
}

// checkTest looks for the tests of variables, which evaluate a subscript: -v and -R, written or possible. A word that is
// expanded outside of quotes may become any number of words.
func checkTest(s *script, c *call, p *parsed) []finding {
	words := c.args[1:]
	if c.base() == "[" && len(words) > 0 {
		words = words[:len(words)-1]
	}
	for i, a := range words {
		switch {
		case !a.dynamic && (a.text == "-v" || a.text == "-R"):
			return []finding{confirm("arith.name", "the test for a variable evaluates a subscript")}
		case a.dynamic && s.dialect != POSIX && (a.loose || i == 0 && len(words) == 2):
			return []finding{confirm("arith.name", "a word may become the test for a variable, which can run code from data")}
		}
	}
	return nil
}

func checkDate(s *script, c *call, p *parsed) []finding {
	for _, a := range p.operands {
		if !strings.HasPrefix(a.text, "+") {
			return []finding{confirm("option.excluded", "date sets the clock with an operand that is no format")}
		}
	}
	return nil
}

func checkUniq(s *script, c *call, p *parsed) []finding {
	if len(p.operands) > 1 {
		return []finding{confirm("option.excluded", "uniq writes to its second operand")}
	}
	return nil
}

func checkRecursiveDiff(s *script, c *call, p *parsed) []finding {
	if !p.has("-r") && !p.has("--recursive") {
		return nil
	}
	return s.readTree(p.operands, c.scope)
}

// readTree finds secrets below what is read as a whole.
func (s *script) readTree(trees []arg, sc scope) []finding {
	for _, a := range trees {
		if a.dynamic || a.pipe || a.text == "-" {
			continue
		}
		names, _ := s.absolute(a.text, sc)
		for _, name := range names {
			if f := s.world.File(name); f.Dir && s.world.SecretsBelow(f.Path) {
				return []finding{confirm("read.recursive", "a file of the list of secrets lies below "+quote(f.Path))}
			}
		}
	}
	return nil
}

// patternOperands gives the files among the operands of a search: the first operand is the pattern unless an option is.
func patternOperands(p *parsed, options ...string) []arg {
	if slices.ContainsFunc(options, p.has) {
		return p.operands
	}
	if len(p.operands) == 0 {
		return nil
	}
	return p.operands[1:]
}

func checkGrep(s *script, c *call, p *parsed) []finding {
	files := patternOperands(p, "-e", "-f", "--regexp", "--file")
	found := s.readOperands(files, c.scope)
	how, _ := p.value("-d", "--directories")
	if !p.has("-r") && !p.has("-R") && !p.has("--recursive") && !p.has("--dereference-recursive") && how.text != "recurse" {
		return found
	}
	if len(files) == 0 {
		files = statics(".")
	}
	return append(found, s.readTree(files, c.scope)...)
}

func checkRipgrep(s *script, c *call, p *parsed) []finding {
	files := patternOperands(p, "-e", "-f", "--regexp", "--file", "--files", "--type-list")
	found := s.readOperands(files, c.scope)
	if len(files) == 0 {
		files = statics(".")
	}
	return append(found, s.readTree(files, c.scope)...)
}

func (s *script) readOperands(files []arg, sc scope) []finding {
	var found []finding
	for _, a := range files {
		found = append(found, s.readOperand(a, sc)...)
	}
	return found
}

var tarOptions = lazyTable("-t -v -z -j -J -f= --list --verbose --gzip --bzip2 --xz --file= --help --version")

// checkTar allows listing, in the old way of writing options (tar tf x) too.
func checkTar(s *script, c *call, p *parsed) []finding {
	beyond := confirm("option.excluded", "tar is allowed to list only: -t with -v, -z, -j, -J and -f")
	if len(c.args) > 1 && !c.args[1].dynamic && !strings.HasPrefix(c.args[1].text, "-") {
		args := append([]arg{static("-" + c.args[1].text)}, c.args[2:]...)
		*p = tarOptions().parse(args)
		if len(p.problems("tar")) > 0 {
			return []finding{beyond}
		}
	}
	var found []finding
	if len(p.unknown) > 0 || !p.has("-t") && !p.has("--list") {
		p.unknown = nil
		found = append(found, beyond)
	}
	for _, o := range p.options {
		if o.spec.name != "-f" && o.spec.name != "--file" || o.value.dynamic {
			continue
		}
		if strings.Contains(o.value.text, ":") {
			found = append(found, confirm("option.excluded", "tar takes a name with a colon for another machine"))
		}
		found = append(found, s.readOperand(o.value, c.scope)...)
	}
	return found
}

func checkSed(s *script, c *call, p *parsed) []finding {
	var scripts []string
	for _, o := range p.options {
		if o.spec.name == "-e" || o.spec.name == "--expression" {
			scripts = append(scripts, o.value.text)
		}
	}
	files := patternOperands(p, "-e", "--expression", "-f", "--file")
	if len(scripts) == 0 && len(p.operands) > 0 && len(files) < len(p.operands) {
		scripts = append(scripts, p.operands[0].text)
	}
	found := s.readOperands(files, c.scope)
	if !harmlessSed(strings.Join(scripts, "\n")) {
		found = append(found, confirm("program.text", "the script of sed does more than print, delete, quit and substitute"))
	}
	return found
}

func checkAwk(s *script, c *call, p *parsed) []finding {
	files := patternOperands(p, "-f", "--file", "-e", "--source", "-E", "--exec")
	found := s.readOperands(files, c.scope)
	if len(p.operands) > 0 && !harmlessAwk(p.operands[0].text) {
		found = append(found, confirm("program.text", "the program of awk can write, run programs or read what it is not given"))
	}
	return found
}

// harmlessAwk tells that a program holds none of the words that reach beyond its input.
func harmlessAwk(text string) bool {
	for _, word := range []string{"system", "|", "<", ">", "getline", "close", "@", "ARGV", "ENVIRON", "SYMTAB", "FUNCTAB", "PROCINFO"} {
		if strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func checkJq(s *script, c *call, p *parsed) []finding {
	files := patternOperands(p, "-f", "--from-file")
	found := s.readOperands(files, c.scope)
	if len(p.operands) > 0 {
		for _, word := range []string{"env", "$ENV", "import", "include", "modulemeta"} {
			if strings.Contains(p.operands[0].text, word) {
				return append(found, confirm("program.text", "the filter of jq reads the environment or other files"))
			}
		}
	}
	return found
}
