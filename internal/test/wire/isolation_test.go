package wire

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

const (
	// neighbours is how many hung servers stand beside the healthy one.
	neighbours = 10
	// samples of one measurement, and how many measurements of each kind: the best of each is compared, because a busy
	// machine only ever adds time. A machine that is busy all the time needs more of them to have a quiet moment of each
	// kind; what really delays adds its time to every one of them.
	samples, rounds, maxRounds = 1000, 6, 40
	// isolationRatio is the promise: a hung server never delays another one.
	isolationRatio = 1.5
)

// TestIsolation compares the p99 of a healthy server alone with the same beside ten servers that hang in calls and ten
// clients that wait for them.
func TestIsolation(t *testing.T) {
	g := rig.Start(t)
	g.Add("healthy", rig.Fixture(t, fakemcp.Options{}))
	c := lane{url: g.URL("healthy")}.client(t, `{}`)
	var hung []*rig.Client
	for i := range neighbours {
		name := fmt.Sprintf("hung-%d", i)
		g.Add(name, rig.Fixture(t, fakemcp.Options{}), "--call-timeout", "5m")
		hung = append(hung, lane{url: g.URL(name)}.client(t, `{}`))
	}
	p99(t, c) // warm: connections, caches, code
	alone, beside := time.Hour, time.Hour
	ratio := func() float64 { return float64(beside) / float64(alone) }
	for round := 0; round < rounds || round < maxRounds && ratio() >= isolationRatio; round++ { // interleaved: a change of the machine meets both
		alone = min(alone, p99(t, c))
		var waiting sync.WaitGroup
		streams := make([]*rig.Stream, neighbours)
		for i, h := range hung {
			waiting.Go(func() { streams[i] = h.Begin(tool("1", "hang", `{}`)) })
		}
		waiting.Wait() // all streams have begun: what follows measures hung servers, not how they came to hang
		rig.Until(t, slack, "all of them hang in a call", func() bool {
			n := 0
			for i := range neighbours {
				for _, p := range g.Processes(fmt.Sprintf("hung-%d", i)) {
					n += min(p.InFlight, 1)
				}
			}
			return n == neighbours
		})
		beside = min(beside, p99(t, c))
		for i, h := range hung { // the same id is free again for the next round
			h.Post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			streams[i].Close()
		}
	}
	t.Logf("p99 alone %s, beside %d hung servers %s, ratio %.2f", alone, neighbours, beside, ratio())
	if ratio() >= isolationRatio {
		t.Errorf("p99 %s beside hung servers, %s alone: ratio %.2f, want below %.1f", beside, alone, ratio(), isolationRatio)
	}
}

func p99(t *testing.T, c *rig.Client) time.Duration {
	t.Helper()
	body := tool("1", "counter", `{}`)
	all := make([]time.Duration, samples)
	for i := range all {
		start := time.Now()
		c.Post(body)
		all[i] = time.Since(start)
	}
	slices.Sort(all)
	return all[samples*99/100]
}
