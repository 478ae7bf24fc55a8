package wire

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

const (
	// noticeWithin is how long status output may claim that a killed child lives.
	noticeWithin = 100 * time.Millisecond
	// restartWithin is how long the next call may take, its first backoff of 0.5 s ± 20 % included.
	restartWithin = time.Second
	// kills is how many children are killed at most for these times: the best of each counts, because a busy machine only
	// ever adds time. What else is claimed has to hold for every one of them.
	kills = 5
)

// killed are the times of one killed child.
type killed struct{ noticed, restarted, told time.Duration }

func (k killed) inTime() bool {
	return k.noticed <= noticeWithin && k.restarted <= restartWithin && k.told <= noticeWithin
}

// TestKilledChild kills a child with SIGKILL, idle and in the middle of a call.
func TestKilledChild(t *testing.T) {
	g := rig.Start(t)
	for _, supervised := range []bool{true, false} {
		t.Run(fmt.Sprintf("supervised-%v", supervised), func(t *testing.T) {
			best := killed{time.Hour, time.Hour, time.Hour}
			for i := 0; i < kills && !best.inTime(); i++ {
				name := fmt.Sprintf("killed-%v-%d", supervised, i) // a server of its own: a second crash waits longer
				g.Add(name, rig.Fixture(t, fakemcp.Options{}), fmt.Sprintf("--supervised=%v", supervised))
				k := killChild(t, g, lane{name: name, url: g.URL(name), stdio: true})
				t.Logf("noticed after %s, next answer after %s, call in flight ended after %s", k.noticed, k.restarted, k.told)
				best = killed{min(best.noticed, k.noticed), min(best.restarted, k.restarted), min(best.told, k.told)}
			}
			if best.noticed > noticeWithin {
				t.Errorf("ps claimed a dead child for %s, want at most %s", best.noticed, noticeWithin)
			}
			if best.restarted > restartWithin {
				t.Errorf("the next answer took %s, want at most %s", best.restarted, restartWithin)
			}
			if best.told > noticeWithin {
				t.Errorf("the call in flight ended %s after the kill, want at most %s", best.told, noticeWithin)
			}
		})
	}
}

func killChild(t *testing.T, g *rig.Gateway, l lane) (k killed) {
	t.Helper()
	c := l.client(t, `{}`)
	pid := number(t, definite(t, c, tool("1", "pid", `{}`), slack, "answer"))
	ready := func() bool {
		for _, p := range g.Processes(l.name) {
			if p.Pid == pid && p.State == "ready" {
				return true
			}
		}
		return false
	}
	if !ready() {
		t.Fatalf("ps does not show pid %d as ready: %+v", pid, g.Processes(l.name))
	}
	kill(t, pid)
	k.noticed = rig.Until(t, slack, "ps no longer claims that the killed child is ready", func() bool { return !ready() })
	if h := g.Run("health", "--json"); regexp.MustCompile(fmt.Sprintf(`\b%d\b`, pid)).MatchString(h.Stdout) {
		t.Errorf("health still names the dead child %d: %s", pid, h.Stdout)
	}
	start := time.Now()
	next := number(t, definite(t, c, tool("2", "pid", `{}`), restartWithin+slack, "answer"))
	k.restarted = time.Since(start)
	if next == pid {
		t.Errorf("the answer came from pid %d, which is dead", pid)
	}

	stream := c.Begin(tool("3", "hang", `{}`))
	rig.Until(t, slack, "the call is in flight", func() bool {
		for _, p := range g.Processes(l.name) {
			if p.InFlight > 0 {
				return true
			}
		}
		return false
	})
	start = time.Now()
	kill(t, next)
	answer := stream.Await(`"id":3`, slack)
	k.told = time.Since(start)
	if _, got := class(t, answer); got != "sent_unknown" || !strings.Contains(string(answer), "SIGKILL") {
		t.Errorf("the caller's error does not tell: %s", answer)
	}
	return k
}

func kill(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}

// TestKilledDaemon: after SIGKILL the next daemon goes on with the child of the old one and its session, which counts on,
// and serves new sessions beside it.
func TestKilledDaemon(t *testing.T) {
	g := rig.Start(t)
	record := g.Home + "/counter.record"
	g.Add("counter", rig.Fixture(t, fakemcp.Options{Record: record}))
	l := lane{url: g.URL("counter"), record: record}
	c := l.client(t, `{}`)
	for range 7 {
		definite(t, c, tool("1", "counter", `{}`), slack, "answer")
	}
	pid := number(t, definite(t, c, tool("2", "pid", `{}`), slack, "answer"))
	g.Kill()
	g.Serve()
	if got := number(t, definite(t, c, tool("3", "counter", `{}`), slack, "answer")); got != 8 {
		t.Errorf("the counter of before says %d, want 8", got)
	}
	if got := number(t, definite(t, c, tool("4", "pid", `{}`), slack, "answer")); got != pid {
		t.Errorf("pid %d answers the session of before, it was %d", got, pid)
	}

	next := l.client(t, `{}`)
	if got := number(t, definite(t, next, tool("4", "counter", `{}`), slack, "answer")); got != 1 {
		t.Errorf("the counter of the new child says %d, want 1", got)
	}
	if got := number(t, definite(t, next, tool("5", "pid", `{}`), slack, "answer")); got == pid {
		t.Errorf("pid %d answers two sessions", pid)
	}
	if ps := g.Processes("counter"); len(ps) != 2 {
		t.Errorf("ps shows %d processes, want one for each session: %+v", len(ps), ps)
	}
}
