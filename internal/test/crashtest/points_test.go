package crashtest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// matrix is the first and the last pass of every point of a record, in a fixed order.
func matrix(record map[[2]string]int) []point {
	var all []point
	for at, most := range record {
		all = append(all, point{at[0], at[1], 1})
		if most > 1 {
			all = append(all, point{at[0], at[1], most})
		}
	}
	slices.SortFunc(all, func(a, b point) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// starts are the points that a daemon passes before it has started: where it is killed again during recovery.
func starts(t *testing.T, record string) []string {
	t.Helper()
	raw, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	seen := map[string]bool{}
	first := 0
	for line := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n") {
		var kind, name string
		var pid int
		if _, err := fmt.Sscan(line, &kind, &pid, &name); err != nil {
			t.Fatalf("record line %q: %v", line, err)
		}
		if kind != "daemon" {
			continue
		}
		if first == 0 {
			first = pid
		}
		if pid == first { // a first start makes more than later ones do
			continue
		}
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
		if name == "daemon.started" {
			return names
		}
	}
	t.Fatal("no second daemon in the record")
	return nil
}

// sampled is how many points -short kills at. Which ones depends on the seed.
const sampled = 16

// TestCrashPoints enumerates the crash points by a record run, kills a process at each, and once more during recovery.
func TestCrashPoints(t *testing.T) {
	if rig.Survivors(t.TempDir()) == nil && rig.Look(os.Getpid()).Parent == 0 {
		t.Skip("skip: crash points: this system does not show its processes")
	}
	random := seeded(t)
	binary := rig.Tagged(t, "crash")
	record := filepath.Join(t.TempDir(), "points")
	t.Run("record", func(t *testing.T) { run(t, binary, script{"MCPX_CRASH_RECORD=" + record}, nil, nil) })
	if t.Failed() {
		t.Fatal("the scenario fails without a kill")
	}
	counts := passes(t, record)
	names := map[string]bool{}
	for at := range counts {
		names[at[1]] = true
	}
	released(t, slices.Sorted(maps.Keys(names)))
	points, again := matrix(counts), starts(t, record)
	t.Logf("%d points, %d of them killed at a pass, recovery killed at %d points", len(names), len(points), len(again))
	random.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	if testing.Short() {
		points = points[:min(sampled, len(points))]
	}
	if only := os.Getenv("MCPX_CRASH_ONLY"); only != "" { // KIND/NAME#N of a failure, without a shuffle of its second kill
		var p point
		kind, rest, _ := strings.Cut(only, "/")
		name, n, _ := strings.Cut(rest, "#")
		p.kind, p.name = kind, name
		if _, err := fmt.Sscan(n, &p.pass); err != nil {
			t.Fatalf("MCPX_CRASH_ONLY=%s: %v", only, err)
		}
		points = []point{p}
	}
	for i, p := range points {
		second := again[(i+int(random.Uint64()%uint64(len(again))))%len(again)]
		if given := os.Getenv("MCPX_CRASH_AGAIN"); given != "" {
			second = given
		}
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			first, later := filepath.Join(dir, "first"), filepath.Join(dir, "second")
			run(t, binary,
				script{"MCPX_CRASH_AT=" + p.String(), "MCPX_CRASH_ONCE=" + first},
				script{"MCPX_CRASH_AT=daemon/" + second + "#1", "MCPX_CRASH_ONCE=" + later}, func() bool {
					_, err := os.Stat(first)
					return err == nil
				})
			if t.Failed() {
				t.Logf("second kill at daemon/%s#1: MCPX_CRASH_ONLY=%s MCPX_CRASH_AGAIN=%s repeats this", second, p, second)
			}
			if _, err := os.Stat(first); err != nil && p.pass == 1 {
				t.Errorf("nobody was killed at %s", p)
			}
			if _, err := os.Stat(later); err != nil && p.kind == "daemon" { // after the end of a supervisor no daemon may start
				t.Errorf("nobody was killed at %s during recovery", second)
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
