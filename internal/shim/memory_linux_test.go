package shim_test

import (
	"fmt"
	"testing"
	"time"

	"mcpx/internal/process"
	"mcpx/internal/shim"
)

// TestMemory holds the budget of supervisor.md section 2: PSS under 6 MB beside three other supervisors. After a big
// message most of its memory is given back; the runtime keeps some idle pages for itself.
func TestMemory(t *testing.T) {
	if shim.Raced {
		t.Skip("the race detector multiplies memory")
	}
	const (
		budget   = 6_000_000
		afterBig = 16_000_000
		bigOne   = 3
	)
	r := newRig(t, nil)
	var pids []int
	for n := range 4 {
		l, s := r.open(t, false)
		for i := range 300 {
			send(t, l, uint64(i+1), fmt.Sprintf(`{"id":%d,"pad":"%0400d"}`, i, i))
		}
		s.answer(t, 299, nil)
		if n == bigOne {
			do(t, l, s, 1000, "big", "8000000", nil)
		}
		pids = append(pids, l.Info().Supervisor)
	}
	for n, pid := range pids {
		var m process.Memory
		allowed := int64(budget)
		if n == bigOne {
			allowed = afterBig
		}
		for limit := time.Now().Add(5 * time.Second); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
			var err error
			if m, err = process.MemoryOf(pid); err != nil {
				t.Fatal(err)
			}
			if m.PSS < allowed {
				break
			}
		}
		if m.PSS >= allowed {
			t.Errorf("supervisor %d: PSS %.1f MB, RSS %.1f MB", n, float64(m.PSS)/1e6, float64(m.RSS)/1e6)
		}
		t.Logf("supervisor %d: PSS %.1f MB, RSS %.1f MB", n, float64(m.PSS)/1e6, float64(m.RSS)/1e6)
	}
}
