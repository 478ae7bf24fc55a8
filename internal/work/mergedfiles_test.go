//go:build linux || darwin

package work

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/test/gitmerge"
	"mcpx/internal/workspace"
)

// TestDW38Integrate: DW-38 on its whole way. Files with random texts and edits on both sides, some with CRLF, a byte order mark or no end
// of the last line, are integrated at once. What is merged is what `git merge-file` makes of it; what overlaps is a conflict, of
// which nothing reaches the project. TestMergeLarge in text has the line of 8 MiB.
func TestDW38Integrate(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("skip: git is not installed")
	}
	rounds := 2
	if os.Getenv("MCPX_TEST_FULL") != "" {
		rounds = 40
	}
	r := rand.New(rand.NewPCG(1, 38))
	both, alone, clashes := 0, 0, 0
	for range rounds {
		b, a, c := mergedAtOnce(t, r, git)
		both, alone, clashes = both+b, alone+a, clashes+c
	}
	t.Logf("%d merges are clean in both, %d here alone, and %d files are in conflict", both, alone, clashes)
	if both == 0 || clashes == 0 || alone > both/100 {
		t.Errorf("%d merges are clean in both, %d here alone, and %d files are in conflict", both, alone, clashes)
	}
}

// sidesOf are the three texts of a file.
type sidesOf struct{ base, current, proposed string }

// mergedAtOnce integrates a workspace of many files that both sides have changed.
func mergedAtOnce(t *testing.T, r *rand.Rand, git string) (both, alone, clashes int) {
	t.Helper()
	const files = 60
	s := newShop(t)
	all := map[string]sidesOf{}
	for i := range files {
		name := fmt.Sprintf("docs/f%02d.txt", i)
		all[name] = randomSides(r)
		s.save(t, name, all[name].base)
	}
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	for name, one := range all {
		s.save(t, name, one.current)
		w.write(t, name, one.proposed)
	}
	plan := read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"mode":"plan"`, handle))
	seen, accept := map[string]string{}, map[string]string{}
	for _, c := range plan.Conflicts {
		seen[c.Path], accept[c.Path] = c.Current, "current"
		if c.Kind != workspace.ConflictText && c.Kind != workspace.ConflictEOL {
			t.Errorf("%s is a conflict of the kind %s", c.Path, c.Kind)
		}
	}
	if len(seen) > 0 {
		a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
		if a.Refusal == nil || a.Refusal.Code != workspace.Conflicts {
			t.Fatalf("with %d conflicts: %+v", len(seen), a.Refusal)
		}
		for name, one := range all {
			if s.file(t, name) != one.current {
				t.Fatalf("%s was changed by an integration in conflict", name)
			}
		}
	}
	choice, err := json.Marshal(map[string]any{"seen_current": seen, "accept": accept})
	if err != nil {
		t.Fatal(err)
	}
	read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-2",%s`, handle, choice[1:len(choice)-1]))
	dir := t.TempDir()
	for name, one := range all {
		got := s.file(t, name)
		if seen[name] != "" {
			clashes++
			if got != one.current {
				t.Errorf("%s: CURRENT was chosen, and it holds %q", name, got)
			}
			continue
		}
		want, ok := gitMerged(t, git, dir, one)
		switch {
		case !ok:
			alone++
		case got != want:
			t.Errorf("%s holds %q, git makes %q of %+v", name, got, want, one)
		default:
			both++
		}
	}
	return both, alone, clashes
}

// gitMerged is what git makes of three texts; false: a conflict. To git a byte order mark is a part of the first line: it merges what
// follows it.
func gitMerged(t *testing.T, git, dir string, h sidesOf) (string, bool) {
	t.Helper()
	const mark = "\ufeff"
	if rest, marked := strings.CutPrefix(h.base, mark); marked { // and so are the others
		text, ok := gitMerged(t, git, dir, sidesOf{rest, strings.TrimPrefix(h.current, mark), strings.TrimPrefix(h.proposed, mark)})
		return mark + text, ok
	}
	return gitmerge.File(t, git, dir, h.base, h.current, h.proposed)
}

// randomSides is a text, and what two sides make of it: some lines are changed, some go, some come.
func randomSides(r *rand.Rand) sidesOf {
	end := []string{"\n", "\n", "\r\n"}[r.IntN(3)]
	lines := make([]string, 5+r.IntN(30))
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d %d", i, r.IntN(1000))
	}
	edited := func(who string) []string {
		now := slices.Clone(lines)
		for n := range 1 + r.IntN(2) {
			at := r.IntN(len(now))
			switch text := fmt.Sprintf("%s %d %d", who, n, r.IntN(1000)); r.IntN(3) {
			case 0:
				now[at] = text
			case 1:
				now = slices.Insert(now, at, text)
			case 2:
				now = slices.Delete(now, at, at+1)
			}
		}
		return now
	}
	mark, last := "", end
	if r.IntN(5) == 0 {
		mark = "\ufeff"
	}
	if r.IntN(5) == 0 {
		last = ""
	}
	text := func(lines []string) string { return mark + strings.Join(lines, end) + last }
	return sidesOf{text(lines), text(edited("theirs")), text(edited("mine"))}
}
