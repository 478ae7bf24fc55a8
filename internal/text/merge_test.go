package text

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mcpx/internal/test/gitmerge"
)

func merge(base, current, proposed string) Merged {
	return Merge(Parse([]byte(base)), Parse([]byte(current)), Parse([]byte(proposed)))
}

func TestMerge(t *testing.T) {
	for _, tt := range []struct{ name, base, current, proposed, want string }{
		{"one side alone", "a\nb\n", "a\nb\n", "a\nB\n", "a\nB\n"},
		{"the other side alone", "a\nb\n", "A\nb\n", "a\nb\n", "A\nb\n"},
		{"both alike", "a\nb\n", "A\nb\n", "A\nb\n", "A\nb\n"},
		{"apart", "a\nb\nc\nd\ne\n", "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n", "A\nb\nc\nd\nE\n"},
		{"alike and apart", "a\nb\nc\nd\ne\n", "A\nb\nC\nd\ne\n", "a\nb\nC\nd\nE\n", "A\nb\nC\nd\nE\n"},
		{"lines of both", "a\nb\nc\n", "0\na\nb\nc\n", "a\nb\nc\nd\n", "0\na\nb\nc\nd\n"},
		{"a deletion and a change", "a\nb\nc\nd\n", "b\nc\nd\n", "a\nb\nc\nD\n", "b\nc\nD\n"},
		{"no last line end", "a\nb\nc", "A\nb\nc", "a\nb\nc\nd", "A\nb\nc\nd"},
		{"line ends of the current file", "a\nb\nc\n", "A\r\nb\r\nc\r\n", "a\nb\nC\nd\n", "A\r\nb\r\nC\r\nd\r\n"},
		{"its byte order mark", "a\nb\nc\n", "\ufeffA\nb\nc\n", "a\nb\nC\n", "\ufeffA\nb\nC\n"},
		{"mixed line ends stay", "a\nb\r\nc\nd\n", "a\nb\r\nc\nD\n", "A\nb\r\nc\nd\n", "A\nb\r\nc\nD\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := merge(tt.base, tt.current, tt.proposed)
			if m.Outcome != Clean || string(m.After.Raw()) != tt.want {
				t.Errorf("got %+v, want %q", m, tt.want)
			}
		})
	}
}

func TestMergeConflicts(t *testing.T) {
	long := strings.Repeat("x", MaxMergeSize+1)
	for _, tt := range []struct {
		name, base, current, proposed string
		want                          Outcome
		marked                        string
	}{
		{"the same line", "a\nb\nc\n", "a\nB\nc\n", "a\nX\nc\n", Overlap, "a\n<<<<<<< current\nB\n||||||| base\nb\n=======\nX\n>>>>>>> proposed\nc\n"},
		{"lines that touch", "a\nb\n", "A\nb\n", "a\nB\n", Overlap, "<<<<<<< current\nA\nb\n||||||| base\na\nb\n=======\na\nB\n>>>>>>> proposed\n"},
		{"the rest is merged", "a\nb\nc\nd\n", "A\nb\nc\nd\n", "X\nb\nc\nD\n", Overlap, "<<<<<<< current\nA\n||||||| base\na\n=======\nX\n>>>>>>> proposed\nb\nc\nD\n"},
		{"two insertions at one place", "a\nb\n", "a\n1\nb\n", "a\n2\nb\n", Overlap, ""},
		{"an insertion that could be elsewhere", "a\nb\nb\nb\nc\n", "a\nb\nb\nb\nb\nc\n", "a\nX\nb\nb\nc\n", Overlap, ""},
		{"deleted and changed", "a\nb\nc\n", "a\nc\n", "a\nB\nc\n", Overlap, ""},
		{"no last line end", "a", "b", "c", Overlap, "<<<<<<< current\nb\n||||||| base\na\n=======\nc\n>>>>>>> proposed\n"},
		{"nothing but line ends differ", "a\n", "b\n", "b\r\n", EOLOnly, ""},
		{"one side changed line ends only", "a\nb\n", "A\nb\n", "a\r\nb\r\n", EOLOnly, ""},
		{"one side added a byte order mark only", "a\nb\n", "A\nb\n", "\ufeffa\nb\n", EOLOnly, ""},
		{"binary", "a\x00", "b\x00", "c\x00", NotText, ""},
		{"one is binary", "a\n", "b\n", "c\x00", NotText, ""},
		{"UTF-16", "a\n", "b\n", "\xff\xfea\x00", NotText, ""},
		{"too large", "a\n", "b\n", long, NotText, ""},
		{"too many lines", "a\n", "b\n", strings.Repeat("\n", MaxMergeLines+1), NotText, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := merge(tt.base, tt.current, tt.proposed)
			if m.Outcome != tt.want || m.After != nil {
				t.Fatalf("got %q, want %q", m.Outcome, tt.want)
			}
			if (len(m.Regions) > 0) != (tt.want == Overlap) || tt.marked != "" && m.Marked != tt.marked {
				t.Errorf("regions %v, marked:\n%s", m.Regions, m.Marked)
			}
		})
	}
}

// history is a text and two changes of it, with lines that are often equal to one another.
type history struct{ base, current, proposed string }

func histories(few int) *rapid.Generator[history] {
	return rapid.Custom(func(t *rapid.T) history {
		line := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("%c\n", 'a'+rapid.IntRange(0, few-1).Draw(t, "line")) })
		base := rapid.SliceOfN(line, 0, 40).Draw(t, "base")
		change := func(name string) string {
			lines := append([]string{}, base...)
			for range rapid.IntRange(1, 3).Draw(t, name) {
				from := rapid.IntRange(0, len(lines)).Draw(t, "from")
				to := rapid.IntRange(from, min(len(lines), from+3)).Draw(t, "to")
				lines = append(append(append([]string{}, lines[:from]...), rapid.SliceOfN(line, 0, 3).Draw(t, "new")...), lines[to:]...)
			}
			text := strings.Join(lines, "")
			if rapid.IntRange(0, 4).Draw(t, "open") == 0 {
				text = strings.TrimSuffix(text, "\n")
			}
			return text
		}
		return history{strings.Join(base, ""), change("current"), change("proposed")}
	})
}

// TestMergeAgainstGit: DW-38. What both merge has the same text, and both orders of the sides agree. git may describe a change
// with other lines, which is why either of the two may see a conflict alone.
func TestMergeAgainstGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("skip: git is not installed")
	}
	dir := t.TempDir()
	clean, both, alone := 0, 0, 0
	rapid.Check(t, func(r *rapid.T) {
		h := histories(rapid.SampledFrom([]int{3, 8, 26}).Draw(r, "alphabet")).Draw(r, "history")
		m, turned := merge(h.base, h.current, h.proposed), merge(h.base, h.proposed, h.current)
		if m.Outcome != turned.Outcome {
			r.Fatalf("%q one way, %q the other way", m.Outcome, turned.Outcome)
		}
		want, ok := gitmerge.File(r, git, dir, h.base, h.current, h.proposed)
		if m.Outcome != Clean {
			return
		}
		clean++
		got := string(m.After.Raw())
		switch {
		case got != string(turned.After.Raw()):
			r.Fatalf("%q one way, %q the other way", got, turned.After.Raw())
		case !ok:
			alone++
		case got != want:
			r.Fatalf("%q, git: %q", got, want)
		default:
			both++
		}
	})
	t.Logf("%d clean merges, %d of them in git, too", clean, both)
	if both == 0 || alone > both/10 {
		t.Errorf("%d merges are clean in both, %d here alone", both, alone)
	}
}

// TestMergeDisjoint: DW-38. Changes with a line between them that is nowhere else always merge.
func TestMergeDisjoint(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(4, 60).Draw(r, "lines")
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(r, "end")
		text := func(changed map[int]string) string {
			var out strings.Builder
			for i := range n {
				line, ok := changed[i]
				if !ok {
					line = fmt.Sprint("line ", i, end)
				}
				out.WriteString(line)
			}
			return out.String()
		}
		cut := rapid.IntRange(1, n-2).Draw(r, "cut")
		side := func(name string, from, to int) map[int]string {
			changed := map[int]string{}
			for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(from, to-1), 1, 3, rapid.ID[int]).Draw(r, name) {
				changed[i] = strings.Repeat(fmt.Sprint(name, i, end), rapid.IntRange(0, 2).Draw(r, "times"))
			}
			return changed
		}
		if cut < 3 || n-cut-1 < 3 {
			return
		}
		mine, its := side("current", 0, cut), side("proposed", cut+1, n)
		all := map[int]string{}
		for _, side := range []map[int]string{mine, its} {
			maps.Copy(all, side)
		}
		if m := merge(text(nil), text(mine), text(its)); m.Outcome != Clean || string(m.After.Raw()) != text(all) {
			r.Fatalf("%q %v, want %q", m.Outcome, m.Regions, text(all))
		}
	})
}

// TestMergeLarge: DW-38. A line of 8 MiB, and texts in which nothing is unique, take no time that grows with their square.
func TestMergeLarge(t *testing.T) {
	line := strings.Repeat("x", 4<<20)
	if m := merge(line+"\na\nb\nc\n", line+"\na\nb\nC\n", line+line[:100]+"\na\nb\nc\n"); m.Outcome != Clean {
		t.Error(m.Outcome)
	}
	same := strings.Repeat("a\n", 90_000)
	small, large := time.Duration(0), time.Duration(0)
	for _, n := range []int{40_000, 160_000} {
		begun := time.Now()
		merge(same[:n], "b\n"+same[:n/2]+"c\n"+same[:n/3], same[:n/4]+"d\n"+same[:n/2]+"e\n")
		if small, large = large, time.Since(begun); small > 0 && large > 64*small+time.Second {
			t.Errorf("%v, and %v for four times as much", small, large)
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), []byte("A\nb\nc\n"), []byte("a\nb\nC\n"))
	f.Add([]byte("a\r\nb"), []byte("\ufeffa\nb\n"), []byte("a\rb\r"))
	f.Fuzz(func(t *testing.T, base, current, proposed []byte) {
		b, c, p := Parse(base), Parse(current), Parse(proposed)
		m := Merge(b, c, p)
		switch m.Outcome {
		case Clean:
			if again := Merge(c, m.After, c); again.Outcome != Clean || !bytes.Equal(again.After.Raw(), m.After.Raw()) {
				t.Errorf("the merge is no change of the current file: %+v", again)
			}
		case Overlap:
			if len(m.Regions) == 0 || m.Marked == "" {
				t.Errorf("%+v", m)
			}
		case EOLOnly, NotText:
		}
	})
}

// TestMergeRealHistories: DW-38. Every change of the files of this repository that change most, taken back in the version after the next
// change: what both merge has the same text, and hardly anything is merged here alone. MCPX_TEST_FULL makes it more files, and changes
// that are further apart.
func TestMergeRealHistories(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("skip: git is not installed")
	}
	files, spans := 8, 1
	if os.Getenv("MCPX_TEST_FULL") != "" {
		files, spans = 60, 4
	}
	run := func(args ...string) string {
		out, err := exec.Command(git, append([]string{"-C", "../.."}, args...)...).Output()
		if err != nil {
			t.Skipf("skip: no history of this repository: %v", err)
		}
		return string(out)
	}
	times := map[string]int{}
	for name := range strings.Lines(run("log", "-n", "1000", "--diff-filter=AM", "--name-only", "--format=")) {
		if name = strings.TrimSpace(name); strings.HasSuffix(name, ".go") || strings.HasSuffix(name, ".md") {
			times[name]++
		}
	}
	names := slices.SortedFunc(maps.Keys(times), func(a, b string) int { return cmp.Or(times[b]-times[a], strings.Compare(a, b)) })
	dir := t.TempDir()
	clean, both, alone, of := 0, 0, 0, 0
	for _, file := range names[:min(len(names), files)] {
		commits := strings.Fields(run("log", "--diff-filter=AM", "--format=%H", "-n", "40", "--", file))
		var versions []string // the newest one first
		for _, c := range commits {
			versions = append(versions, run("show", c+":"+file))
		}
		for span := 1; span <= spans; span++ {
			for i := 0; i+2*span < len(versions); i++ {
				h := history{base: versions[i+span], current: versions[i], proposed: versions[i+2*span]}
				want, ok := gitmerge.File(t, git, dir, h.base, h.current, h.proposed)
				m := merge(h.base, h.current, h.proposed)
				if of++; ok {
					both++
				}
				if m.Outcome != Clean {
					continue
				}
				clean++
				switch got := string(m.After.Raw()); {
				case ok && got != want:
					t.Errorf("%s at %s: not the text of git", file, commits[i])
				case !ok:
					alone++
				}
			}
		}
	}
	if of == 0 {
		t.Skip("skip: no history of this repository")
	}
	t.Logf("of %d histories %d merge, %d in git, %d here alone", of, clean, both, alone)
	if alone > 1+both/100 { // what lies between two changes can be read in two ways
		t.Errorf("%d merges are clean in git, %d here alone", both, alone)
	}
}
