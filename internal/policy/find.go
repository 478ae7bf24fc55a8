package policy

import (
	"slices"
	"strings"
	"sync"
)

// The words of an expression of find. Those that take a value are followed by "=", one whose value is a file by "=@";
// excluded ones have a "!". Words that narrow what is found have a "+" before them.
const findWords = `-daystart -depth -d -follow -ignore_readdir_race -noignore_readdir_race -maxdepth= -mindepth= -mount -noleaf -nowarn
	-regextype= -warn -xautofs -xdev +-amin= +-anewer=@ +-atime= +-cmin= +-cnewer=@ +-ctime= +-empty -executable -false -fstype= +-gid=
	+-group= +-ilname= +-iname= -inum= +-ipath= +-iregex= +-iwholename= -links= +-lname= +-mmin= +-mtime= +-name= +-newer=@
	+-nogroup +-nouser +-path= -perm= -readable +-regex= -samefile=@ +-size= -true -type= +-uid= +-used= +-user= +-wholename= -writable
	-xtype= -context= -print -print0 -printf= -ls -prune -quit !-delete !-fls= !-fprint= !-fprint0= !-fprintf=2 !-files0-from=`

type findWord struct {
	values   int
	file     bool
	narrows  bool
	excluded bool
}

var findTable = sync.OnceValue(func() map[string]findWord {
	table := map[string]findWord{}
	for word := range strings.FieldsSeq(findWords) {
		var w findWord
		word, w.excluded = strings.CutPrefix(word, "!")
		word, w.narrows = strings.CutPrefix(word, "+")
		name, how, valued := strings.Cut(word, "=")
		if valued {
			w.values = 1
		}
		if how == "2" {
			w.values = 2
		}
		w.file = how == "@"
		table[name] = w
	}
	return table
})

// findCommand is one judgement of find.
type findCommand struct {
	*script
	call   *call
	starts []arg
	words  []arg
	found  []finding
	depth  int
}

// maxFindDepth bounds the parentheses of an expression.
const maxFindDepth = 64

// find judges find, opens -exec, and denies that everything below a protected directory is removed.
func (s *script) find(c *call) {
	f := findCommand{script: s, call: c, words: c.args[1:]}
	f.options()
	for len(f.words) > 0 && !f.expression() {
		f.starts = append(f.starts, f.words[0])
		f.words = f.words[1:]
	}
	if len(f.starts) == 0 {
		f.starts = statics(".")
	}
	f.found = append(f.found, s.readOperands(f.starts, c.scope)...)
	if anyDynamic(c.args) {
		f.found = append(f.found, confirm("args.dynamic", "an argument is not known before it runs"))
	}
	for len(f.words) > 0 {
		before := len(f.words)
		f.any(false)
		if len(f.words) == before { // a ")" too many
			f.words = f.words[1:]
		}
	}
	trusted, untrusted := s.lookUp(c)
	f.found = append(f.found, untrusted...)
	otherwise := vettedRule("find")
	if !trusted {
		otherwise = confirm("default", s.defaultReason(c))
	}
	s.decideLeaf(c, otherwise, nil, f.found)
}

// options are those that stand before the directories.
func (f *findCommand) options() {
	for len(f.words) > 0 {
		word := f.words[0].text
		switch {
		case f.words[0].dynamic:
			return
		case word == "-H" || word == "-L" || word == "-P" || strings.HasPrefix(word, "-O"):
		case word == "-D":
			f.words = f.words[min(1, len(f.words)-1):]
		default:
			return
		}
		f.words = f.words[1:]
	}
}

// expression tells that the expression begins.
func (f *findCommand) expression() bool {
	w := f.words[0]
	if w.dynamic {
		return w.lead > 0 && w.text[0] == '-'
	}
	return w.text == "(" || w.text == ")" || w.text == "!" || w.text == "," || len(w.text) > 1 && w.text[0] == '-'
}

func (f *findCommand) next() (string, bool) {
	if len(f.words) == 0 {
		return "", false
	}
	return f.words[0].text, true
}

// any reads alternatives: a -o b, and a , b. narrow tells that a test stands before them; so does the result that all of
// them narrow.
func (f *findCommand) any(narrow bool) bool {
	all := f.every(narrow)
	for {
		word, ok := f.next()
		switch {
		case ok && (word == "-o" || word == "-or"):
			f.words = f.words[1:]
			one := f.every(narrow)
			all = all && one
		case ok && word == ",":
			f.words = f.words[1:]
			all = f.every(narrow)
		default:
			return all
		}
	}
}

// every reads tests and actions of which each comes after those before it held.
func (f *findCommand) every(narrow bool) bool {
	for {
		word, ok := f.next()
		switch {
		case !ok, word == ")", word == "-o", word == "-or", word == ",":
			return narrow
		case word == "-a", word == "-and":
			f.words = f.words[1:]
		default:
			narrow = f.primary(narrow) || narrow
		}
	}
}

// primary reads one test or action and tells whether it narrows. A negated test leaves nearly everything.
func (f *findCommand) primary(narrow bool) bool {
	word := f.words[0]
	f.words = f.words[1:]
	switch word.text {
	case "!", "-not":
		if len(f.words) > 0 && f.depth < maxFindDepth {
			f.depth++
			f.primary(narrow)
			f.depth--
		}
		return false
	case "(":
		if f.depth >= maxFindDepth {
			f.found = append(f.found, confirm("option.unknown", "the expression of find is nested too deep"))
			return false
		}
		f.depth++
		inner := f.any(narrow)
		f.depth--
		if text, ok := f.next(); ok && text == ")" {
			f.words = f.words[1:]
		}
		return inner
	case "-exec", "-execdir", "-ok", "-okdir":
		f.exec(word.text, narrow)
		return false
	}
	return f.test(word, narrow)
}

func (f *findCommand) test(word arg, narrow bool) bool {
	w, known := findTable()[word.text]
	if !known {
		w, known = newerTest(word.text)
	}
	if !known {
		if !word.dynamic {
			f.found = append(f.found, confirm("option.unknown", "the word "+quote(word.text)+" of find is not known"))
		}
		return false
	}
	values := f.words[:min(w.values, len(f.words))]
	f.words = f.words[len(values):]
	if w.file {
		f.found = append(f.found, f.readOperands(values, f.call.scope)...)
	}
	if w.excluded {
		f.found = append(f.found, confirm("option.excluded", word.text+" of find does more than read"))
	}
	if word.text == "-delete" && !narrow {
		for _, start := range f.starts {
			f.found = append(f.found, f.removes(start, f.call.scope, false)...)
		}
	}
	return w.narrows && !slices.ContainsFunc(values, func(v arg) bool { return v.dynamic || coversAll(v.text) })
}

// newerTest is -newerXY.
func newerTest(word string) (findWord, bool) {
	letters, ok := strings.CutPrefix(word, "-newer")
	if !ok || len(letters) != 2 || strings.IndexByte("aBcm", letters[0]) < 0 || strings.IndexByte("aBcmt", letters[1]) < 0 {
		return findWord{}, false
	}
	return findWord{values: 1, file: letters[1] != 't', narrows: true}, true
}

// exec opens the command of -exec. What stands for {} is not known; without a narrowing test it is each start, too.
func (f *findCommand) exec(action string, narrow bool) {
	end := slices.IndexFunc(f.words, func(w arg) bool { return !w.dynamic && (w.text == ";" || w.text == "+") })
	if end < 0 {
		end = len(f.words)
	}
	args := f.words[:end]
	f.words = f.words[min(end+1, len(f.words)):]
	if len(args) == 0 {
		return
	}
	found := arg{dynamic: true}
	in := f.call.inner(filled(args, "{}", found, f.guessing))
	if strings.HasSuffix(action, "dir") {
		in.dirs = in.dirs.orUnknown()
	}
	f.script.call(in)
	if narrow {
		return
	}
	defer f.guess()()
	for _, start := range f.starts {
		if !start.dynamic {
			in.args = started(args, start.text)
			f.script.call(in)
		}
	}
}

// started puts a start directory in the place of {}.
func started(args []arg, start string) []arg {
	out := make([]arg, len(args))
	for i, a := range args {
		if strings.Contains(a.text, "{}") {
			a = static(strings.ReplaceAll(a.text, "{}", start))
		}
		out[i] = a
	}
	return out
}

// fd opens -x and -X of fd. A pattern narrows what is found.
func (s *script) fd(c *call) {
	at := slices.IndexFunc(c.args, func(a arg) bool {
		return !a.dynamic && (a.text == "-x" || a.text == "-X" || a.text == "--exec" || a.text == "--exec-batch")
	})
	s.leaf(c)
	if at < 0 || at+1 >= len(c.args) {
		return
	}
	args := c.args[at+1:]
	if end := slices.IndexFunc(args, func(a arg) bool { return a.text == ";" }); end >= 0 {
		args = args[:end]
	}
	if len(args) == 0 {
		return
	}
	s.call(c.inner(filled(args, "{}", arg{dynamic: true}, s.guessing)))
	starts := fdStarts(c.args[1:at])
	defer s.guess()()
	for _, start := range starts {
		s.call(c.inner(started(args, start)))
	}
}

// fdStarts gives the start directories of fd, none when a pattern narrows what is found.
func fdStarts(args []arg) []string {
	var operands []string
	for _, a := range args {
		if !a.dynamic && !strings.HasPrefix(a.text, "-") {
			operands = append(operands, a.text)
		}
	}
	switch {
	case len(operands) == 0:
		return []string{"."}
	case operands[0] != "" && operands[0] != "." && operands[0] != ".*":
		return nil
	case len(operands) == 1:
		return []string{"."}
	}
	return operands[1:]
}
