package crashtest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"mcpx/internal/test/rig"
)

// point is a crash point of a kind of process, and which of its passes.
type point struct {
	kind, name string
	pass       int
}

func (p point) String() string { return fmt.Sprintf("%s/%s#%d", p.kind, p.name, p.pass) }

// passes is how often one process passed each point, at most: kind and name to number.
func passes(t *testing.T, record string) map[[2]string]int {
	t.Helper()
	raw, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	type pass struct {
		kind, name string
		pid        int
	}
	counts, most := map[pass]int{}, map[[2]string]int{}
	for line := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n") {
		var p pass
		if _, err := fmt.Sscan(line, &p.kind, &p.pid, &p.name); err != nil {
			t.Fatalf("record line %q: %v", line, err)
		}
		counts[p]++
		at := [2]string{p.kind, p.name}
		most[at] = max(most[at], counts[p])
	}
	return most
}

// matrix is the first and the last pass of every point of a record that a scenario is about, or each pass, in a fixed order.
func matrix(record map[[2]string]int, what scenario) []point {
	var all []point
	for at, most := range record {
		if what.only != nil && !slices.ContainsFunc(what.only, func(beginning string) bool { return strings.HasPrefix(at[1], beginning) }) {
			continue
		}
		for pass := 1; pass <= most; pass++ {
			if what.every || pass == 1 || pass == most {
				all = append(all, point{at[0], at[1], pass})
			}
		}
	}
	slices.SortFunc(all, func(a, b point) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// starts are the points that a daemon passes before it has started: where it is killed again during recovery. The first
// start of a home migrates the database, too, which later ones do not.
func starts(t *testing.T, record string) []string {
	t.Helper()
	raw, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n") {
		var kind, name string
		var pid int
		if _, err := fmt.Sscan(line, &kind, &pid, &name); err != nil {
			t.Fatalf("record line %q: %v", line, err)
		}
		if kind == "daemon" && !slices.Contains(names, name) && !strings.HasPrefix(name, "sqlite.migrat") {
			names = append(names, name)
		}
		if name == "daemon.started" {
			return names
		}
	}
	t.Fatal("no daemon in the record")
	return nil
}

// decisions are the points that a daemon passes before it has started when an apply was cut off. No record has them: a
// run without a kill has nothing to decide.
var decisions = []string{"apply.decided", "control.recover-decided", "control.recover-recorded"}

// sampled is how many points -short kills at. Which ones depends on the seed.
const sampled = 16

// TestCrashPoints enumerates the crash points by a record run, kills a process at each, and once more during recovery. Its
// scenario `built` is DW-56.
func TestCrashPoints(t *testing.T) {
	if rig.Look(os.Getpid()).Parent == 0 {
		t.Skip("skip: crash points: this system does not show its processes")
	}
	random := seeded(t)
	binary := rig.Tagged(t, "crash")
	all := &tally{points: map[string]*fate{}}
	for _, name := range registered(t) {
		all.at(name, func(*fate) {})
	}
	for _, what := range scenarios {
		t.Run(what.name, func(t *testing.T) { killEverywhere(t, binary, what, random, all) })
	}
	t.Log(all.table())
	if all.recorded == len(scenarios) {
		all.complete(t, !testing.Short() && os.Getenv("MCPX_CRASH_ONLY") == "")
	}
}

func killEverywhere(t *testing.T, binary string, what scenario, random *rand.Rand, all *tally) {
	record := filepath.Join(t.TempDir(), "points")
	t.Run("record", func(t *testing.T) { run(t, binary, what, point{}, script{"MCPX_CRASH_RECORD=" + record}, nil, nil) })
	if t.Failed() {
		t.Fatal("the scenario fails without a kill")
	}
	counts := passes(t, record)
	names := map[string]bool{}
	for at := range counts {
		names[at[1]] = true
	}
	released(t, slices.Sorted(maps.Keys(names)))
	points, again := matrix(counts, what), starts(t, record)
	for _, p := range points {
		all.at(p.name, func(f *fate) { f.passed = true })
	}
	all.recorded++
	t.Logf("%d points, %d passes are killed at, recovery is killed at %d points", len(counts), len(points), len(again))
	random.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	if testing.Short() {
		points = points[:min(sampled, len(points))]
	}
	var recoveries, killed atomic.Int64
	t.Cleanup(func() { // when the parallel tests are through
		t.Logf("%d of %d recoveries were killed, too", killed.Load(), recoveries.Load())
		if killed.Load()*2 < recoveries.Load() {
			t.Error("too few kills during recovery")
		}
	})
	for i, p := range points {
		later := again
		if strings.HasPrefix(p.name, "apply.") || strings.HasPrefix(p.name, "control.apply-") {
			later = decisions
		}
		switch {
		case strings.HasPrefix(p.name, "fs."): // what it had not done yet it does, and passes there again
			later = append(slices.Clone(ends), p.name)
		case strings.HasPrefix(p.name, "gen."), strings.HasPrefix(p.name, "audit."): // it goes on behind the start, and passes what comes after it
			later = []string{"gen.seal.each", "gen.manifest.after", "gen.validate.after", "gen.rename.after", "gen.commit.after", "audit.run.after", "audit.post.after"}
			later = later[max(slices.Index(later, p.name), 0):]
		case p.name == "op.dispatch.after" || p.name == "op.record.before":
			later = ends
		}
		second := later[(i+random.IntN(len(later)))%len(later)]
		if only := os.Getenv("MCPX_CRASH_ONLY"); only != "" { // SCENARIO/KIND/NAME#N
			if only != what.name+"/"+p.String() {
				continue
			}
			if given := os.Getenv("MCPX_CRASH_AGAIN"); given != "" {
				second = given
			}
		}
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			t.Cleanup(func() { // after everything else: what is left over counts
				if t.Failed() {
					all.at(p.name, func(f *fate) { f.broken++ })
				}
			})
			first, later := filepath.Join(dir, "first"), filepath.Join(dir, "second")
			dead := func(file string) bool {
				_, err := os.Stat(file)
				return err == nil
			}
			run(t, binary, what, p,
				script{"MCPX_CRASH_AT=" + p.String(), "MCPX_CRASH_ONCE=" + first},
				script{"MCPX_CRASH_AT=daemon/" + second + "#1", "MCPX_CRASH_ONCE=" + later},
				func() bool { return dead(first) })
			if t.Failed() {
				t.Logf("MCPX_CRASH_ONLY=%s/%s MCPX_CRASH_AGAIN=%s repeats this", what.name, p, second)
			}
			if !dead(first) && p.pass == 1 {
				t.Errorf("nobody was killed at %s", p)
			}
			if dead(first) {
				all.at(p.name, func(f *fate) { f.kills++ })
			}
			if dead(later) {
				all.at(p.name, func(f *fate) { f.again++ })
				all.at(second, func(f *fate) { f.kills++ })
			}
			if p.kind == "daemon" { // the end of another process starts no daemon, and not each start passes each point
				recoveries.Add(1)
				if dead(later) {
					killed.Add(1)
				}
			}
		})
	}
}

// released looks for the names of the points in the binary that is shipped.
func released(t *testing.T, names []string) {
	t.Helper()
	t.Run("points-are-gone", func(t *testing.T) {
		raw, err := os.ReadFile(rig.Binary(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if bytes.Contains(raw, []byte(name)) {
				t.Errorf("the release holds the name %s", name)
			}
		}
	})
}
