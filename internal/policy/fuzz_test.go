package policy

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// judgeAnything judges a text in every dialect and checks what holds for every verdict.
func judgeAnything(t *testing.T, text string) {
	for _, d := range []Dialect{Bash, POSIX} {
		v, err := Judge(Command{Shell: text, Dialect: d}, newShop(), Rules{})
		if err != nil {
			if p, ok := errors.AsType[*Problem](err); !ok || p.Code == "" || p.Message == "" {
				t.Fatalf("%q: %v", text, err)
			}
			continue
		}
		strictest := Allow
		for _, u := range v.Units {
			strictest = Strictest(strictest, u.Decision)
			if u.Decision.rank() == 0 || u.Reason == "" || !shipped(u.Rule) || len(u.Text) > maxUnitText || !utf8.ValidString(u.Text) {
				t.Fatalf("%q: unit %+v", text, u)
			}
		}
		if v.Decision != strictest {
			t.Fatalf("%q: %s, but the strictest unit is %s", text, v.Decision, strictest)
		}
	}
}

// seeds are the lines of the table and some more.
func seeds(f testing.TB) []string {
	f.Helper()
	var texts []string
	for _, name := range []string{"testdata/commands.txt", "testdata/more.txt"} {
		table, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for row := range strings.Lines(string(table)) {
			if _, text, ok := strings.Cut(row, "`"); ok {
				text, _, _ = strings.Cut(text, "` |")
				texts = append(texts, strings.NewReplacer(`\|`, "|", "⏎", "\n").Replace(text))
			}
		}
	}
	return texts
}

func FuzzJudge(f *testing.F) {
	for _, text := range seeds(f) {
		f.Add(text)
	}
	f.Fuzz(judgeAnything)
}

// TestRT83Mutated judges texts that are put together at random from the pieces of the table.
func TestRT83Mutated(t *testing.T) {
	n := 2000
	if os.Getenv("MCPX_TEST_FULL") != "" {
		n = 100_000
	}
	texts := seeds(t)
	random := rand.New(rand.NewPCG(1, 2))
	glue := []string{"", " ", ";", "|", "&", "\n", "'", `"`, "`", "$(", ")", "{", "}", "<<a\n", "\\", "((", "[[ ", "\r"}
	for range n {
		var b strings.Builder
		for range 1 + random.IntN(4) {
			text := texts[random.IntN(len(texts))]
			from := random.IntN(len(text) + 1)
			b.WriteString(text[from : from+random.IntN(len(text)-from+1)])
			b.WriteString(glue[random.IntN(len(glue))])
		}
		judgeAnything(t, b.String())
	}
}

// FuzzFile checks that a rule about files never loosens another one, and that a name is judged like its other spellings.
func FuzzFile(f *testing.F) {
	f.Add("/srv/shop/.env", "*.txt", true)
	f.Add("/srv/shop/a/b", "**/b", false)
	f.Add("/home/dev/.ssh/x", "~/.ssh", true)
	f.Add("/srv/shop/.g\u200bit/\xff", "[a-z]*", false)
	f.Fuzz(func(t *testing.T, name, glob string, folds bool) {
		if !strings.HasPrefix(name, "/") {
			return
		}
		place := newShop().place
		file := File{Path: name, Folds: folds}
		user, err := ParseUser(map[string]any{"files": map[string]any{"deny": []any{glob}}})
		if err != nil {
			return
		}
		for _, access := range []Access{AccessRead, AccessWrite} {
			before := JudgeFile(file, access, place, FileRules{})
			after := JudgeFile(file, access, place, Combine(user, Policy{}, "").Files)
			if after.Decision.rank() < before.Decision.rank() {
				t.Errorf("%q with the glob %q: %+v, without %+v", name, glob, after, before)
			}
			again := JudgeFile(File{Path: fold(name), Folds: folds}, access, place, FileRules{})
			if again.Decision.rank() < before.Decision.rank() {
				t.Errorf("%q is %s, folded it is %s", name, before.Decision, again.Decision)
			}
		}
		if twice := fold(fold(name)); twice != fold(name) {
			t.Errorf("%q folds to %q and then to %q", name, fold(name), twice)
		}
	})
}
