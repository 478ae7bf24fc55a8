package wire

import (
	"fmt"
	"net/http"
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

// TestKilledDaemon is F-9 as far as it goes today: after SIGKILL the next daemon ends the child that the old one left
// behind, says 404 for its session, and serves a new one. Survival (F-10) will change the middle of this test: there the
// child lives on, and call 3 of the old session is answered with 8 by the same pid.
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
	old := c.Post(tool("3", "counter", `{}`))
	if old.Status != http.StatusNotFound || !strings.Contains(string(old.Body), "initialize again") {
		t.Errorf("the session of before: HTTP %d\n%s\nwant 404 and what to do", old.Status, old.Body)
	}
	rig.Until(t, slack, "the child of before is gone", func() bool { return !rig.Alive(pid) })

	next := l.client(t, `{}`)
	if got := number(t, definite(t, next, tool("4", "counter", `{}`), slack, "answer")); got != 1 {
		t.Errorf("the counter of the new child says %d, want 1", got)
	}
	if got := number(t, definite(t, next, tool("5", "pid", `{}`), slack, "answer")); got == pid {
		t.Errorf("pid %d, which is dead, answers", pid)
	}
	if ps := g.Processes("counter"); len(ps) != 1 {
		t.Errorf("ps shows %d processes, want the new one alone: %+v", len(ps), ps)
	}
}
