package policy

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// wordsOf expands the words after printf of a text, as simple does.
func wordsOf(t *testing.T, d Dialect, text string) ([]arg, bool) {
	t.Helper()
	j, err := newJudge(Command{Shell: text, Dialect: d}, newShop(), Rules{})
	if err != nil {
		return nil, false
	}
	s := j.newScript(d, text, position{})
	file, err := s.parse()
	if err != nil || len(file.Stmts) != 1 {
		return nil, false
	}
	call, ok := file.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) > 0 || len(file.Stmts[0].Redirs) > 0 || file.Stmts[0].Background || file.Stmts[0].Negated {
		return nil, false
	}
	return s.expandAll(call.Args, scope{dirs: j.start}, unknownStays), true
}

// shellWords asks a real shell what words it makes.
func shellWords(t *testing.T, shell []string, text string) ([]string, bool) {
	t.Helper()
	cmd := exec.Command(shell[0], append(slices.Clone(shell[1:]), text)...)
	cmd.Dir = t.TempDir() // nothing there for a pattern to match
	cmd.Env = []string{"PATH=/nonexistent", "HOME=/home/dev", "LC_ALL=C.UTF-8"}
	out, err := cmd.Output()
	if err != nil {
		return nil, false
	}
	words := strings.Split(string(out), "\x01")
	return words[:len(words)-1], true
}

// TestQuoteRemoval compares what is made of words with what the real shell makes of them: made by hand, and at random from
// what quoting is made of. It has to be the same whenever the words are called static.
func TestQuoteRemoval(t *testing.T) {
	byHand := []string{
		`r\m`, `"rm"`, `$'\x72m'`, `{rm,-rf,/}`, `'a'"b"\c`, `$'\''`, `"\$x\"\\\a"`, `\\`, `a\ b`, `""`, `''`, `$''`, `~`, `~/x`, `"~"`, `\~`, `~"/x"`,
		`a=~`, `a=~/x`, `a:~`, `=~`, `-x=~`, `{a}`, `{a,b`, `a,b}`, `{a,{b,c}}`, `{,a}`, `{a..e}`, `{e..a..2}`, `{1..3}`, `{01..10..3}`, `{-1..1}`, `{1..2,3}`,
		`{a,b}{c,d}`, `x{a,b}y`, `\{a,b}`, `{a\,b,c}`, `{"a,b",c}`, `{a,b}$'c'`, `$'a\tb\n'`, `$'\101\x41\u0041\cB'`, `$'a\0b'c`, `$'\x{41}'`, `$'\q'`, `$'\x'`,
		`$"a b"`, `a"$(:)"b`, `[a]`, `"*"`, `\*`, `a\*b`, `[`, `]`, `!`, `#a`, `a#b`, `%`, `^`, `+`, `@`, `-`, `a{b}c`, `{}`, `{,}`, `{a,b}{`, `}{a,b}`, `$`, `"$"`,
		`a\` + "\n" + `b`, `"a\` + "\n" + `b"`, `'a\` + "\n" + `b'`, "\"a`echo`b\"", `é`, `$'\xc3\xa9'`, `"é"`, `{é,è}`, `{0..0}`, `{a..a}`, `{1..1000000}`,
	}
	pieces := []string{
		"a", "b", "m", " ", " ", "\\", "'", "'", `"`, `"`, "$'", `$"`, "{", "}", ",", "..", "1", "3", "~", "/", "=", "\\\n", "\\n", `\x4`, `\'`, `\"`, "-", "*", "?", "[", "]", "!", "é", "$",
	}
	random := rand.New(rand.NewPCG(7, 9))
	texts := byHand
	for range 500 {
		var b strings.Builder
		for range 1 + random.IntN(9) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		texts = append(texts, b.String())
	}
	shells := map[Dialect][]string{Bash: {"bash", "--noprofile", "--norc", "-c"}, POSIX: {"dash", "-c"}}
	for dialect, shell := range shells {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(shell[0]); err != nil {
				t.Skip(err)
			}
			compared := 0
			for _, text := range texts {
				line := `printf '%s\001' ` + text
				args, ok := wordsOf(t, dialect, line)
				pattern := slices.ContainsFunc(args, func(a arg) bool { return a.src != "" })
				if !ok || len(args) < 3 || anyDynamic(args) || pattern {
					continue
				}
				want, ok := shellWords(t, shell, line)
				if !ok {
					continue
				}
				compared++
				var got []string
				for _, a := range args[2:] {
					got = append(got, a.text)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%q: %q, the shell says %q", text, got, want)
				}
			}
			if compared < 100 {
				t.Errorf("only %d words were compared", compared)
			}
			t.Logf("%d of %d compared", compared, len(texts))
		})
	}
}

// TestNothingRuns judges texts that would leave a trace.
func TestNothingRuns(t *testing.T) {
	dir := t.TempDir()
	w := newShop()
	w.place.Target, w.place.Roots = dir, []string{dir}
	for _, text := range []string{"touch " + dir + "/x", "echo $(touch " + dir + "/x)", "cat <<< `touch " + dir + "/x`", "a[$(touch " + dir + "/x)]=1"} {
		judged(t, text, w, Rules{})
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}
