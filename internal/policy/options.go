package policy

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// An option table is a text: options separated by blanks, each as it is written on a command line, followed by
//
//	=    it takes a value, attached or as the next word
//	=?   it takes a value only when that is attached
//	=@   its value is a file that is read
//	=$   its value is the name of a variable
//	=2   it takes the next two words
//
// A "!" before it excludes it from what is allowed, "-#" stands for a number as an option (head -20).
type optionTable struct {
	specs  map[string]*optionSpec
	long   []string // names of long options, sorted, for abbreviations
	number bool
	exact  bool // long options are not abbreviated
}

type optionSpec struct {
	name     string
	values   int  // words it takes
	attached bool // its value is optional, and attached
	kind     valueKind
	excluded bool
}

type valueKind string

const (
	kindText valueKind = "text"
	kindFile valueKind = "file"
	kindName valueKind = "name"
)

func newTable(text string) *optionTable {
	t := &optionTable{specs: map[string]*optionSpec{}}
	for word := range strings.FieldsSeq(text) {
		spec := optionSpec{kind: kindText}
		word, spec.excluded = strings.CutPrefix(word, "!")
		name, how, valued := strings.Cut(word, "=")
		spec.name = name
		if valued {
			spec.values = 1
			switch how {
			case "?":
				spec.values, spec.attached = 0, true
			case "@":
				spec.kind = kindFile
			case "$":
				spec.kind = kindName
			case "2":
				spec.values = 2
			}
		}
		if name == "-#" {
			t.number = true
			continue
		}
		t.specs[name] = &spec
		if strings.HasPrefix(name, "--") {
			t.long = append(t.long, name)
		}
	}
	slices.Sort(t.long)
	return t
}

// lazyTable reads a table when it is first used: every process of this binary pays for what is built at its start.
func lazyTable(text string) func() *optionTable {
	return sync.OnceValue(func() *optionTable { return newTable(text) })
}

// parsed is a command line, normalised: clusters are split, abbreviations are whole, options come first.
type parsed struct {
	options  []option
	operands []arg
	unknown  []string
}

type option struct {
	spec  *optionSpec
	value arg // when it has one
	given bool
}

func (p *parsed) has(name string) bool {
	return slices.ContainsFunc(p.options, func(o option) bool { return o.spec.name == name })
}

func (p *parsed) value(names ...string) (arg, bool) {
	for _, o := range p.options {
		if slices.Contains(names, o.spec.name) && o.given {
			return o.value, true
		}
	}
	return arg{}, false
}

// words are the normalised words, without the program.
func (p *parsed) words() []arg {
	var words []arg
	for _, o := range p.options {
		w := static(o.spec.name)
		if o.given {
			w = o.value
			w.text = o.spec.name + "=" + o.value.text
		}
		words = append(words, w)
	}
	for _, u := range p.unknown {
		words = append(words, static(u))
	}
	return append(words, p.operands...)
}

// problems are the options that keep a program from being allowed.
func (p *parsed) problems(program string) []finding {
	var found []finding
	for _, o := range p.options {
		if o.spec.excluded {
			found = append(found, confirm("option.excluded", "the option "+o.spec.name+" of "+program+" can do more than read"))
		}
	}
	for _, u := range p.unknown {
		found = append(found, confirm("option.unknown", "the option "+quote(u)+" of "+program+" is not known"))
	}
	return found
}

// parse reads options wherever they stand, up to "--".
func (t *optionTable) parse(args []arg) parsed { return t.read(args, false) }

// parseUntilOperand stops at the first operand: the rest is another command.
func (t *optionTable) parseUntilOperand(args []arg) parsed { return t.read(args, true) }

func (t *optionTable) read(args []arg, stop bool) parsed {
	var p parsed
	for len(args) > 0 {
		word := args[0]
		switch {
		case word.dynamic || word.pipe || len(word.text) < 2 || word.text[0] != '-':
			if stop {
				p.operands = args
				return p
			}
			p.operands = append(p.operands, word)
			args = args[1:]
		case word.text == "--":
			p.operands = append(p.operands, args[1:]...)
			return p
		case strings.HasPrefix(word.text, "--"):
			args = t.readLong(&p, word, args[1:])
		default:
			args = t.readShort(&p, word, args[1:])
		}
	}
	return p
}

func (t *optionTable) readLong(p *parsed, word arg, rest []arg) []arg {
	name, value, attached := strings.Cut(word.text, "=")
	spec := t.find(name)
	if spec == nil || attached && spec.values == 0 && !spec.attached || spec.values > 1 && attached {
		p.unknown = append(p.unknown, name)
		return rest
	}
	return t.take(p, spec, value, attached, rest)
}

// find resolves a long option: itself, or the only one that it is the beginning of.
func (t *optionTable) find(name string) *optionSpec {
	if spec := t.specs[name]; spec != nil {
		return spec
	}
	if t.exact || len(name) < 3 {
		return nil
	}
	i, _ := slices.BinarySearch(t.long, name)
	if i == len(t.long) || !strings.HasPrefix(t.long[i], name) || i+1 < len(t.long) && strings.HasPrefix(t.long[i+1], name) {
		return nil
	}
	return t.specs[t.long[i]]
}

func (t *optionTable) readShort(p *parsed, word arg, rest []arg) []arg {
	cluster := word.text[1:]
	if t.number && cluster[0] >= '0' && cluster[0] <= '9' {
		digits := strings.TrimLeft(cluster, "0123456789")
		if digits == "" {
			p.options = append(p.options, option{spec: &optionSpec{name: "-#"}, value: static(cluster), given: true})
			return rest
		}
		cluster = digits // head -20q
	}
	for i := range len(cluster) {
		spec := t.specs["-"+cluster[i:i+1]]
		if spec == nil {
			p.unknown = append(p.unknown, "-"+cluster[i:])
			return rest
		}
		if spec.values == 0 && !spec.attached {
			p.options = append(p.options, option{spec: spec})
			continue
		}
		value := cluster[i+1:]
		if spec.values > 1 && value != "" {
			p.unknown = append(p.unknown, word.text)
			return rest
		}
		return t.take(p, spec, value, value != "", rest)
	}
	return rest
}

// take adds an option with its value.
func (t *optionTable) take(p *parsed, spec *optionSpec, value string, attached bool, rest []arg) []arg {
	o := option{spec: spec}
	switch {
	case attached:
		o.value, o.given = static(value), true
	case spec.values > 0:
		if len(rest) < spec.values {
			p.unknown = append(p.unknown, spec.name)
			return nil
		}
		o.value, o.given = rest[spec.values-1], true
		for _, w := range rest[:spec.values] {
			o.value.dynamic = o.value.dynamic || w.dynamic
		}
		rest = rest[spec.values:]
	}
	p.options = append(p.options, o)
	return rest
}

// merged is a table with the options of another one, too.
func (t *optionTable) merged(other *optionTable) *optionTable {
	m := &optionTable{specs: maps.Clone(other.specs), number: t.number || other.number, exact: t.exact || other.exact}
	maps.Copy(m.specs, t.specs)
	for name := range m.specs {
		if strings.HasPrefix(name, "--") {
			m.long = append(m.long, name)
		}
	}
	slices.Sort(m.long)
	return m
}
