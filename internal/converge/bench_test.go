package converge

import (
	"fmt"
	"testing"

	"mcpx/internal/catalog"
)

// large is a world with n servers and n/5 files of ten entries, half of which go around mcpx.
func large(n int) (World, []Entry) {
	w := World{Revision: "r", Adapter: "1", Port: "30000", Program: "/opt/mcpx", Look: Look{Home: "/h"}, Now: testNow, Agents: []AgentRecord{{Agent: "claude_code", Level: LevelManaged}}}
	var entries []Entry
	for i := range n {
		argv := []string{fmt.Sprintf("package-%d@1", i)}
		w.Servers = append(w.Servers, catalog.Server{ID: fmt.Sprintf("srv_%d", i), Name: fmt.Sprintf("s%d", i), Stdio: &catalog.Stdio{Command: "npx", Args: argv}, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled})
		w.Agents[0].Mounts = append(w.Agents[0].Mounts, Mount{Server: fmt.Sprintf("srv_%d", i), Name: fmt.Sprintf("s%d", i)})
	}
	for i := range n / 5 {
		path := fmt.Sprintf("/h/%d.json", i)
		w.Files = append(w.Files, File{Agent: "claude_code", Path: path, Real: path, Scope: "user", State: FileReadable, Entries: 10, SHA256: path})
		for j := range 10 {
			k := (i*5 + j) % n
			e := stdio(fmt.Sprintf("s%d", k), fmt.Sprintf("npx package-%d@1", k))
			if j%2 == 0 {
				e = routedTo(e.Name, RoutedHere)
			}
			e.Agent, e.File, e.Scope, e.At, e.ID = "claude_code", path, "user", []string{"mcpServers", e.Name}, path+e.Name
			entries = append(entries, e)
		}
	}
	return w, entries
}

// audit is everything that a run decides when the files were read.
func audit(w World, entries []Entry, files map[string]File) Turn {
	w.Findings = Classify(entries, w.Servers, nil)
	var plans []Plan
	s := NewSealer(w)
	for _, p := range Propose(w) {
		if plan, ok := s.Seal(p, draft(files, p), nil); ok {
			plans = append(plans, plan)
		}
	}
	w.Records = Records(w, Findings(w, Vitals{Audited: testNow}))
	return Reconcile(nil, plans, w, func(Plan) bool { return true })
}

// TestAuditIsLinear counts allocations, which do not depend on how busy the machine is.
func TestAuditIsLinear(t *testing.T) {
	allocations := func(n int) float64 {
		w, entries := large(n)
		files := filesOf(w)
		if turn := audit(w, entries, files); len(turn.Put) != n {
			t.Fatalf("%d plans, want %d", len(turn.Put), n)
		}
		return testing.AllocsPerRun(1, func() { audit(w, entries, files) })
	}
	small, big := allocations(100), allocations(1000)
	t.Logf("100 servers %.0f allocations, 1000 servers %.0f: %.1f times as many", small, big, big/small)
	if big > 11*small {
		t.Errorf("ten times as many servers and files cost %.1f times as much", big/small)
	}
}

// BenchmarkAudit: an entry costs the same however many there are.
func BenchmarkAudit(b *testing.B) {
	perEntry := map[int]float64{}
	for _, n := range []int{10, 100, 1000} {
		w, entries := large(n)
		files := filesOf(w)
		b.Run(fmt.Sprintf("%d servers, %d files", n, n/5), func(b *testing.B) {
			for b.Loop() {
				audit(w, entries, files)
			}
			perEntry[n] = float64(b.Elapsed().Microseconds()) / float64(b.N) / float64(len(entries))
			b.ReportMetric(perEntry[n], "µs/entry")
			if n == 1000 && perEntry[100] > 0 {
				b.ReportMetric(perEntry[1000]/perEntry[100], "times-100")
			}
		})
	}
}
