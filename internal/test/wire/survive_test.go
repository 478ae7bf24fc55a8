package wire

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// The tests of survive_*_test.go are named after the numbers of the acceptance criteria of the process model: B1 to B6
// and S1 to S22.

const (
	// takeover is how long the next daemon may take until the first call on an old session is answered (S2).
	takeover = time.Second
	// tries is how often a time is measured at most; the best counts, because a busy machine only ever adds.
	tries = 5
	// persistWithin bounds a call that meets a restart.
	persistWithin = time.Minute
)

// kept is one server with a session, and the process behind it.
type kept struct {
	g                 *rig.Gateway
	name, record      string
	c                 *rig.Client
	child, supervisor int
}

// keep adds a server, opens a session and makes the first call.
func keep(t *testing.T, g *rig.Gateway, name string, o fakemcp.Options, flags ...string) *kept {
	t.Helper()
	o.Record = filepath.Join(g.Home, name+".record")
	g.Add(name, rig.Fixture(t, o), flags...)
	k := &kept{g: g, name: name, record: o.Record, c: rig.Open(t, g.URL(name), "2025-11-25", `{"elicitation":{"form":{}},"sampling":{},"roots":{}}`)}
	definite(t, k.c, tool("1", "counter", `{}`), slack, "answer")
	ps := g.Processes(name)
	if len(ps) != 1 || ps[0].Pid == 0 {
		t.Fatalf("ps shows %+v", ps)
	}
	k.child, k.supervisor = ps[0].Pid, ps[0].Supervisor
	return k
}

// work is a call of the tool work.
func work(id, key string, more ...string) string {
	return tool(id, "work", `{`+strings.Join(append([]string{`"key":` + quote(key)}, more...), ",")+`}`)
}

// persist makes a call that may meet the death of the daemon.
func (k *kept) persist(t *testing.T, id, body string) rig.Outcome {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), persistWithin)
	defer stop()
	o, err := k.c.Persist(ctx, id, body)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// begun starts a call in the background and returns when the child has read it.
func (k *kept) begun(t *testing.T, id, key, body string) <-chan rig.Outcome {
	t.Helper()
	end := make(chan rig.Outcome, 1)
	go func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), persistWithin)
		defer stop()
		o, err := k.c.Persist(ctx, id, body)
		if err != nil {
			o = rig.Outcome{Class: err.Error()}
		}
		end <- o
	}()
	rig.Until(t, slack, "the child has the call", func() bool { return k.count(t, quote(key)) > 0 })
	return end
}

// count is in how many lines the child read the text.
func (k *kept) count(t *testing.T, part string) int {
	t.Helper()
	raw, err := os.ReadFile(k.record)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.SplitSeq(string(raw), "\n") {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// unchanged fails unless the same child, after one handshake, answers the session.
func (k *kept) unchanged(t *testing.T, id string) {
	t.Helper()
	if got := number(t, definite(t, k.c, tool(id, "pid", `{}`), 5*time.Second, "answer")); got != k.child {
		t.Errorf("pid %d answers, it was %d", got, k.child)
	}
	if n := k.count(t, `"method":"initialize"`); n != 1 {
		t.Errorf("the child saw %d times initialize", n)
	}
	for _, p := range k.g.Processes(k.name) {
		if p.Pid != k.child || p.Supervisor != k.supervisor {
			t.Errorf("ps shows child %d of supervisor %d, they were %d and %d", p.Pid, p.Supervisor, k.child, k.supervisor)
		}
	}
}

// linux skips what looks into the process table.
func linux(t *testing.T) {
	t.Helper()
	if rig.Look(os.Getpid()).Parent == 0 {
		t.Skip("skip: process table: this system does not show it in files")
	}
}

// TestB1S1ProcessTree: the child belongs to its supervisor, and nothing of both to the daemon.
func TestB1S1ProcessTree(t *testing.T) {
	linux(t)
	g := rig.New(t)
	g.Alone = true
	g.Serve()
	k := keep(t, g, "tree", fakemcp.Options{})
	daemon, supervisor, child := rig.Look(g.PID()), rig.Look(k.supervisor), rig.Look(k.child)
	if child.Parent != k.supervisor {
		t.Errorf("the child's parent is %d, want its supervisor %d", child.Parent, k.supervisor)
	}
	if supervisor.Parent == g.PID() {
		t.Error("the supervisor's parent is the daemon")
	}
	if up := rig.Look(supervisor.Parent); up.Parent == g.PID() {
		t.Errorf("the supervisor's parent %d is a child of the daemon", supervisor.Parent)
	}
	if supervisor.Session != k.supervisor || supervisor.Session == daemon.Session {
		t.Errorf("the supervisor (pid %d) is in session %d, the daemon in %d", k.supervisor, supervisor.Session, daemon.Session)
	}
	if child.Session != supervisor.Session || child.Group != k.child {
		t.Errorf("the child (pid %d) is in group %d of session %d", k.child, child.Group, child.Session)
	}
}

// TestTerminalCloses: a hang-up of the daemon's session, and the end of its whole process group, leave child and session
// alone.
func TestTerminalCloses(t *testing.T) {
	linux(t)
	g := rig.New(t)
	g.Alone = true
	g.Serve()
	k := keep(t, g, "terminal", fakemcp.Options{})
	rig.HangUp(t, g.PID())
	k.unchanged(t, "10")
	rig.KillGroup(t, g.PID())
	g.Wait()
	g.Serve()
	k.unchanged(t, "11")
}

// TestB2S2DaemonKilled is the defining test: SIGKILL, a new daemon, the same child, no second handshake, the old session.
func TestB2S2DaemonKilled(t *testing.T) {
	g := rig.Start(t)
	k := keep(t, g, "kept", fakemcp.Options{})
	best := time.Hour
	for i := 0; i < tries && best > takeover; i++ {
		g.Kill()
		start := time.Now()
		g.Serve()
		got := number(t, definite(t, k.c, tool(fmt.Sprint(100+i), "counter", `{}`), persistWithin, "answer"))
		best = min(best, time.Since(start))
		if got != 2+i {
			t.Errorf("the counter says %d, want %d: its state is lost", got, 2+i)
		}
		k.unchanged(t, fmt.Sprint(200+i))
	}
	t.Logf("from the start of the new daemon to the first answer: %s", best)
	if best > takeover {
		t.Errorf("the first answer came %s after the start, want %s", best, takeover)
	}
}

// TestB2Direct: without a supervisor the child is gone, and its session is told why.
func TestB2Direct(t *testing.T) {
	g := rig.Start(t)
	k := keep(t, g, "direct", fakemcp.Options{}, "--supervised=false")
	g.Kill()
	g.Serve()
	rig.Until(t, slack, "the direct child is gone", func() bool { return !rig.Alive(k.child) })
	reply := k.c.Post(tool("2", "counter", `{}`))
	body := string(reply.Body)
	if strings.Contains(body, `"result"`) {
		t.Fatalf("a session whose process is gone got a result: %s", body)
	}
	if !strings.Contains(body, "supervised") || !strings.Contains(body, "daemon") {
		t.Errorf("HTTP %d, and the error does not say why the process is gone: %s", reply.Status, body)
	}
	next := rig.Open(t, g.URL("direct"), "2025-11-25", `{}`)
	if got := number(t, definite(t, next, tool("1", "counter", `{}`), slack, "answer")); got != 1 {
		t.Errorf("the counter of a new session says %d", got)
	}
}

// TestRestartIsInvisible: an HTTP client and one of `mcpx connect` go on through a planned restart and through a kill.
func TestRestartIsInvisible(t *testing.T) {
	g := rig.Start(t)
	k := keep(t, g, "shared", fakemcp.Options{})
	g.Share("shared")
	k.c = rig.Open(t, g.URL("shared"), "2025-11-25", `{}`)
	definite(t, k.c, tool("1", "pid", `{}`), persistWithin, "answer")
	b := g.Connect("shared")
	b.Initialize(`{}`)
	pids := map[int]bool{}
	round := func(n int) {
		t.Helper()
		pids[number(t, k.persist(t, fmt.Sprint(n), tool(fmt.Sprint(n), "pid", `{}`)).Body)] = true
		ctx, stop := context.WithTimeout(t.Context(), persistWithin)
		defer stop()
		o, err := b.Call(ctx, fmt.Sprint(n), tool(fmt.Sprint(n), "pid", `{}`))
		if err != nil || o.Class != "answer" {
			t.Fatalf("round %d: %v %s %s", n, err, o.Class, o.Body)
		}
		pids[number(t, o.Body)] = true
	}
	round(10)
	g.Must("daemon", "stop")
	if how := g.Wait(); how != "" {
		t.Errorf("the daemon ended with %s", how)
	}
	g.Serve()
	round(20)
	g.Kill()
	g.Serve()
	round(30)
	if len(pids) != 1 {
		t.Errorf("pids %v answered, want one", pids)
	}
	if status := k.c.Delete(); status != http.StatusOK && status != http.StatusNoContent {
		t.Errorf("DELETE of the session that lived through it: HTTP %d", status)
	}
}
