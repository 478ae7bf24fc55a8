package wire

import (
	"fmt"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

const (
	// crowd is how many supervised servers one daemon adopts.
	crowd = 100
	// adoptGoal is the promise on two idle cores, adoptLimit what a busy machine gets before the test fails.
	adoptGoal, adoptLimit = 2 * time.Second, 10 * time.Second
)

// TestManyAdopted: a new daemon has a hundred servers again in under two seconds, none of them restarted.
func TestManyAdopted(t *testing.T) {
	if testing.Short() {
		t.Skip("skip: a hundred servers in short mode")
	}
	g := rig.Start(t)
	sessions := make([]*rig.Client, crowd)
	for i := range sessions {
		name := fmt.Sprintf("many-%d", i)
		g.Add(name, rig.Fixture(t, fakemcp.Options{}), "--no-check", "--idle-timeout", "never")
		sessions[i] = rig.Open(t, g.URL(name), "2025-11-25", `{}`)
	}
	pids := func() map[string]int {
		page, err := g.API().Processes(t.Context(), api.ProcessQuery{})
		if err != nil {
			t.Fatal(err)
		}
		ready := map[string]int{}
		for _, p := range page.Processes {
			if p.State == "ready" {
				ready[p.Server] = p.Pid
			}
		}
		return ready
	}
	before := pids()
	if len(before) != crowd {
		t.Fatalf("%d servers run, want %d", len(before), crowd)
	}
	g.Kill()
	start := time.Now()
	g.Serve()
	listening := time.Since(start)
	rig.Until(t, adoptLimit, "all are adopted", func() bool { return len(pids()) == crowd })
	took := time.Since(start)
	t.Logf("the daemon listened after %s, all %d were adopted after %s (goal %s)", listening, crowd, took, adoptGoal)
	for server, pid := range pids() {
		if before[server] != pid {
			t.Errorf("%s has pid %d, it had %d", server, pid, before[server])
		}
	}
	for i, c := range sessions {
		if got, want := number(t, definite(t, c, tool("1", "pid", `{}`), slack, "answer")), before[fmt.Sprintf("many-%d", i)]; got != want {
			t.Errorf("session %d is answered by pid %d, want %d", i, got, want)
		}
	}
	if full() {
		var all int64
		for i := range sessions {
			for _, p := range g.Processes(fmt.Sprintf("many-%d", i)) {
				_, share := rig.Memory(p.Supervisor)
				all += share
			}
		}
		t.Logf("PSS per supervisor %.2f MiB", float64(all)/crowd/(1<<20))
	}
}
