package crashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/event"
)

const (
	// manyMemory is what a daemon that integrates many paths may have in memory, in kB.
	manyMemory = 200 << 10
	// manyCommit is how many paths have one commit of progress.
	manyCommit = 500
)

// TestDW75ManyPaths: DW-75. The daemon is killed after seven tenths of the paths of an integration, and the next one carries it to its
// end: each has less than 200 MB in memory, and commits progress once for every 500 paths, which operation_status tells. With
// MCPX_TEST_FULL there are 10,000 paths, and the recovery is held against that of a quarter of them; without it there are 2,000.
// That a recovery takes as many steps for each path is shown by TestRecoveryIsLinear in tree.
func TestDW75ManyPaths(t *testing.T) {
	if os.Getenv("MCPX_TEST_FULL") == "" {
		many(t, 2_000)
		return
	}
	quarter := many(t, 2_500)
	if took := many(t, 10_000); took > 10*quarter { // 16 times as long if it were quadratic
		t.Errorf("the recovery of 10,000 paths took %v, that of 2,500 %v", took, quarter)
	}
}

// many integrates so many paths over a kill after seven tenths of them, and says how long the recovery took.
func many(t *testing.T, paths int) time.Duration {
	t.Helper()
	at := paths * 7 / 10
	w := cut(t, fmt.Sprintf("fs.exchange.after#%d", at), nil, "")
	name := func(dir string, i int) string {
		return filepath.Join(dir, fmt.Sprintf("d%02d", i%50), fmt.Sprintf("f%05d", i))
	}
	for i := range 50 {
		if err := os.Mkdir(filepath.Join(w.dir, fmt.Sprintf("d%02d", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i := range paths {
		if i%2 == 1 {
			write(t, name(w.dir, i), fmt.Sprintf("old %d\n", i))
		}
	}
	w.register()
	handle, dir := w.workspace("create-1")
	for i := range paths {
		write(t, name(dir, i), fmt.Sprintf("new %d\n", i))
	}
	body, err := w.body("integrate_agent_workspace", "integrate-1", map[string]any{"handle": handle})
	if err != nil {
		t.Fatal(err)
	}
	go w.post(body) //nolint:errcheck // its daemon does not survive it
	peak, told := 0, 0
	for deadline := time.Now().Add(2 * stepWithin); !w.g.Ended(); time.Sleep(pollEvery) {
		if time.Now().After(deadline) {
			t.Fatalf("the integration killed nobody\n%s", w.g.Log())
		}
		peak = max(peak, peakMemory(w.g.PID()))
		told = max(told, w.progress("integrate-1"))
	}
	if told == 0 || told%manyCommit != 0 || told > at {
		t.Errorf("operation_status told of %d paths", told)
	}
	began := time.Now()
	w.g.Serve() // it listens when it has recovered
	took := time.Since(began)
	last := w.do("integrate_agent_workspace", "integrate-1", map[string]any{"handle": handle}, nil)
	if !last.OK || !last.Operation.Recovered {
		t.Fatalf("integrate-1: %+v", last)
	}
	second := peakMemory(w.g.PID())
	t.Logf("%d paths: the first daemon had %d MB, the second %d MB, and its recovery took %v", paths, peak>>10, second>>10, took)
	if peak == 0 || max(peak, second) > manyMemory {
		t.Errorf("in memory were %d kB and %d kB, want less than %d kB", peak, second, manyMemory)
	}
	for i := range paths {
		if raw, err := os.ReadFile(name(w.dir, i)); err != nil || string(raw) != fmt.Sprintf("new %d\n", i) {
			t.Fatalf("%s holds %q: %v", name(w.dir, i), raw, err)
		}
	}
	w.committed(at/manyCommit, paths/manyCommit)
	w.looked()
	return took
}

// committed fails unless the log has so many commits of progress of the first daemon, and so many of the second.
func (w *worker) committed(first, second int) {
	w.t.Helper()
	var applied []int
	w.change("", func(ctx context.Context, c *api.Client) error {
		applied = nil
		return c.Events(ctx, api.EventsQuery{Kind: string(event.OperationProgress)}, func(e event.Event) error {
			var p struct{ Applied int }
			err := json.Unmarshal(e.Body, &p)
			applied = append(applied, p.Applied)
			return err
		})
	})
	var want []int
	for _, n := range []int{first, second} {
		for i := range n {
			want = append(want, (i+1)*manyCommit)
		}
	}
	// The commit of the path at which the daemon was killed may be missing: it comes after the path.
	if fmt.Sprint(applied) != fmt.Sprint(want) && fmt.Sprint(applied) != fmt.Sprint(append(want[:first-1:first-1], want[first:]...)) {
		w.t.Errorf("progress was committed at %v, want %v", applied, want)
	}
}

// progress is what operation_status tells of an operation; 0 when it tells nothing.
func (w *worker) progress(operation string) int {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
		"name": "operation_status", "arguments": map[string]any{"operation_id": operation},
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := w.post(body)
	var is struct {
		Progress struct{ Applied, Of int } `json:"progress"`
	}
	if err != nil || json.Unmarshal(r.Data, &is) != nil {
		return 0
	}
	return is.Progress.Applied
}

// peakMemory is the most that a process has had in memory, in kB; 0 when it has ended.
func peakMemory(pid int) int {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // of one that has ended there is none
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			return n
		}
	}
	return 0
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
