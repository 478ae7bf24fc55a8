package crashtest

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
)

// elsewhere are the beginnings of the points that no scenario need pass, and what kills at them instead.
var elsewhere = map[string]string{
	"apply.":                  "the tests of atomicfile and clientfile, where somebody else is in the way, too",
	"control.recover-":        "the second kill of the scenario governed",
	"secret.":                 "TestRealKills in secret",
	"retention.":              "TestPruneKilled",
	"supervisor.exit-written": "TestLastWordKilled",
}

func isElsewhere(name string) bool {
	for beginning := range elsewhere {
		if strings.HasPrefix(name, beginning) {
			return true
		}
	}
	return false
}

// tally is what became of each crash point.
type tally struct {
	mu       sync.Mutex // guards the fields below
	points   map[string]*fate
	recorded int // scenarios that were recorded without a kill
}

// fate is what happened at one point, over all kinds of processes and passes.
type fate struct {
	passed bool // a scenario plans to kill at it
	kills  int  // processes that were killed there, also as the second one of a run
	again  int  // runs in which the recovery from a kill there was killed, too
	broken int  // runs after which something was not as promised
}

// verdict says how the point stands.
func (f fate) verdict() string {
	switch {
	case f.broken > 0:
		return fmt.Sprintf("BROKEN in %d runs", f.broken)
	case f.kills == 0:
		return "never killed"
	}
	return "holds"
}

// at changes what is known of a point.
func (l *tally) at(name string, note func(*fate)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.points[name] == nil {
		l.points[name] = &fate{}
	}
	note(l.points[name])
}

// table shows the points that were to be killed at.
func (l *tally) table() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\npoint\tkills\trecoveries killed\tverdict")
	for _, name := range slices.Sorted(maps.Keys(l.points)) {
		f := *l.points[name]
		if !f.passed && f.kills == 0 {
			continue // of a scenario that did not run, or, as those of a vault, of another test
		}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", name, f.kills, f.again, f.verdict())
	}
	_ = w.Flush() // all of it goes to memory
	return out.String()
}

// complete fails when a point is passed by no scenario, or was not killed at by a run that kills everywhere.
func (l *tally) complete(t *testing.T, everywhere bool) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, f := range l.points {
		switch {
		case isElsewhere(name):
		case !f.passed:
			t.Errorf("no scenario passes %s: add what passes it to one in scenario_test.go", name)
		case f.kills == 0 && everywhere:
			t.Errorf("nothing was killed at %s", name)
		}
	}
}

// pointCall finds the points in a source file.
var pointCall = regexp.MustCompile(`crash\.Point\(("([^"]*)")?`)

// registered are the names of all points in the sources.
func registered(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range pointCall.FindAllSubmatch(source, -1) {
			if len(m[1]) == 0 {
				t.Errorf("%s: a crash point whose name is no constant", path)
				continue
			}
			names = append(names, string(m[2]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestElsewhere: what is killed at elsewhere is there.
func TestElsewhere(t *testing.T) {
	names := registered(t)
	for beginning, by := range elsewhere {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, beginning) }) {
			t.Errorf("no crash point begins with %s, at which %s kills", beginning, by)
		}
	}
}
