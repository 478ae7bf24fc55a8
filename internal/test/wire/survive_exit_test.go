package wire

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// delivered is after how long a supervisor has heard that an answer reached its client, and forgets it. One that still
// has answers stays for a minute after the end of its child, to deliver them.
const delivered = 2500 * time.Millisecond

// drained is how long output is read on when a grandchild holds it, and what a busy machine needs on top.
const drained = 3*time.Second + slack

// TestB3S11Exits: however a child ends in a call, the error is byte for byte the same with a supervisor and without.
func TestB3S11Exits(t *testing.T) {
	g := rig.Start(t)
	for _, x := range []struct{ name, arguments string }{
		{"code-0", `{"code":0}`},
		{"code-1", `{"code":1,"stderr":"last words"}`},
		{"code-3", `{"code":3,"stderr":"first\nsecond"}`},
		{"code-255", `{"code":255}`},
		{"segv", `{"signal":11,"stderr":"going down"}`},
		{"kill", `{"signal":9,"stderr":"killed"}`},
		{"grandchild", `{"code":4,"hold_stdout":true,"stderr":"a grandchild holds stdout"}`},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			texts := map[bool]string{}
			for _, supervised := range []bool{true, false} {
				name := fmt.Sprintf("%s-%v", x.name, supervised)
				g.Add(name, rig.Fixture(t, fakemcp.Options{}), fmt.Sprintf("--supervised=%v", supervised))
				c := rig.Open(t, g.URL(name), "2025-11-25", `{}`)
				pid := number(t, definite(t, c, tool("1", "pid", `{}`), slack, "answer"))
				answer := definite(t, c, tool("2", "die", x.arguments), drained, "sent_unknown")
				texts[supervised] = strings.ReplaceAll(string(answer), name, "NAME")
				rig.Until(t, slack, "the child is gone", func() bool { return !rig.Alive(pid) })
			}
			if texts[true] != texts[false] {
				t.Errorf("with a supervisor:\n%s\nwithout:\n%s", texts[true], texts[false])
			}
		})
	}
	t.Cleanup(func() {
		rig.Until(t, drained, "no bundle and no socket is left", func() bool { return len(bundles(t, g)) == 0 })
	})
}

// bundles are the bundles and the sockets of supervisors.
func bundles(t *testing.T, g *rig.Gateway) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"state/bundles/*", "run/shim/*"} {
		some, err := filepath.Glob(filepath.Join(g.Home, pattern))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
	}
	return all
}

// TestS11ExitUnattached: a child that ends while no daemon runs leaves word; the caller gets its exit status once, and
// the next call a new process.
func TestS11ExitUnattached(t *testing.T) {
	g := rig.Start(t)
	k := keep(t, g, "left", fakemcp.Options{})
	end := k.begun(t, "5", "wait", tool("5", "die", fmt.Sprintf(`{"wait_ms":%d,"code":5,"stderr":"alone","mark":"wait"}`, (delivered+time.Second).Milliseconds())))
	time.Sleep(delivered)
	g.Kill()
	rig.Until(t, 5*time.Second, "child and supervisor are gone", func() bool { return !rig.Alive(k.child) && !rig.Alive(k.supervisor) })
	left := bundles(t, g)
	g.Serve()
	o := <-end
	var m struct {
		Error struct {
			Message string
			Data    struct {
				Mcpx struct {
					Stderr string
					Exit   struct{ Code *int }
				}
			}
		}
	}
	if err := json.Unmarshal(o.Body, &m); err != nil {
		t.Fatalf("%s: %v: %s", o.Class, err, o.Body)
	}
	if exit := m.Error.Data.Mcpx.Exit.Code; o.Class != "sent_unknown" || exit == nil || *exit != 5 || !strings.Contains(m.Error.Data.Mcpx.Stderr, "alone") {
		t.Errorf("it ended as %s: %s", o.Class, o.Body)
	}
	if got := number(t, definite(t, k.c, tool("6", "pid", `{}`), 5*time.Second, "answer")); got == k.child {
		t.Errorf("pid %d answers, which is dead", got)
	}
	if len(left) == 0 {
		t.Error("the supervisor left no bundle behind; the test proves nothing")
	}
	for _, old := range left {
		for _, now := range bundles(t, g) {
			if old == now {
				t.Errorf("%s was consumed and is still there", old)
			}
		}
	}
}

// TestS10SupervisorKilled: its callers get a class within a second, its child ends, and the server comes back.
func TestS10SupervisorKilled(t *testing.T) {
	linux(t)
	g := rig.Start(t)
	k := keep(t, g, "lost", fakemcp.Options{})
	grandchild := number(t, definite(t, k.c, tool("4", "grandchild", `{}`), slack, "answer"))
	stream := k.c.Begin(tool("5", "hang", `{}`))
	rig.Until(t, slack, "the call is in flight", func() bool { return k.count(t, `"name":"hang"`) > 0 })
	start := time.Now()
	rig.KillHard(t, k.supervisor)
	answer := stream.Await(`"id":5`, slack)
	took := time.Since(start)
	if code, got := class(t, answer); code != -31902 || got != "sent_unknown" {
		t.Errorf("code %d, class %q: %s", code, got, answer)
	}
	if took > time.Second {
		t.Errorf("the caller waited %s, want at most a second", took)
	}
	rig.Until(t, 5*time.Second, "the orphans are gone", func() bool { return !rig.Alive(k.child) && !rig.Alive(grandchild) })
	if got := number(t, definite(t, k.c, tool("6", "pid", `{}`), 5*time.Second, "answer")); got == k.child {
		t.Errorf("pid %d answers, which is dead", got)
	}
}

// TestS12Ladder: what ends a server ends it by EOF, SIGTERM and SIGKILL, in this order and in time; what only ends the
// daemon leaves it alone.
func TestS12Ladder(t *testing.T) {
	for _, x := range []struct {
		name     string
		o        fakemcp.Options
		from, to time.Duration
	}{
		{"eof", fakemcp.Options{}, 0, time.Second},
		{"term", fakemcp.Options{IgnoreEOF: true}, 2 * time.Second, 3 * time.Second},
		{"kill", fakemcp.Options{IgnoreEOF: true, IgnoreTerm: true}, 5 * time.Second, 6 * time.Second},
	} {
		for _, how := range []string{"idle", "restart", "remove", "stop-children"} {
			t.Run(x.name+"-"+how, func(t *testing.T) {
				t.Parallel()
				g := rig.Start(t)
				var flags []string
				if how == "idle" {
					flags = []string{"--idle-timeout", "1s"}
				}
				k := keep(t, g, "ladder", x.o, flags...)
				start := time.Now()
				done := make(chan struct{})
				go func() {
					defer close(done)
					command := map[string][]string{
						"restart": {"server", "restart", "ladder"}, "remove": {"server", "remove", "ladder"}, "stop-children": {"daemon", "stop", "--children"},
					}[how]
					if command == nil {
						return // it ends by itself
					}
					if r := g.Run(command...); r.Code != 0 {
						t.Errorf("mcpx %v: exit code %d %s", command, r.Code, r.Stderr)
					}
				}()
				idle := time.Duration(0)
				if how == "idle" {
					idle = 2 * time.Second // one second, and the tick that looks
				}
				rig.Until(t, x.to+idle+slack, "the child is gone", func() bool { return !rig.Alive(k.child) })
				if took := time.Since(start); took < x.from || took > x.to+idle+slack {
					t.Errorf("it lived for %s, want %s to %s", took, x.from, x.to)
				}
				<-done
				if how == "stop-children" {
					g.Wait()
				}
			})
		}
	}
	t.Run("daemon-only", func(t *testing.T) {
		g := rig.Start(t)
		k := keep(t, g, "ladder", fakemcp.Options{})
		g.Must("daemon", "stop")
		g.Wait()
		if !rig.Alive(k.child) || !rig.Alive(k.supervisor) {
			t.Fatal("a plain stop of the daemon ended the child")
		}
		g.Serve()
		k.unchanged(t, "5")
	})
}

// orphanTTL is how long a child waits for a daemon in TestS13OrphanTTL.
const orphanTTL = 2 * time.Second

// TestS13OrphanTTL: a child that no daemon comes back for is ended in order; how is kept for the next daemon, once.
func TestS13OrphanTTL(t *testing.T) {
	g := rig.New(t)
	g.Extra = []string{"MCPX_SUPERVISOR_ORPHAN_TTL=" + orphanTTL.String()}
	g.Serve()
	k := keep(t, g, "orphan", fakemcp.Options{})
	idle := rig.Open(t, g.URL("orphan"), "2025-11-25", `{}`)
	time.Sleep(delivered)
	start := time.Now() // its time begins with the end of the daemon, which Kill waits for
	g.Kill()
	rig.Until(t, orphanTTL+slack, "child and supervisor have ended", func() bool { return !rig.Alive(k.child) && !rig.Alive(k.supervisor) })
	if took := time.Since(start); took < orphanTTL {
		t.Errorf("the child was ended after %s, it has %s", took, orphanTTL)
	}
	left, err := filepath.Glob(filepath.Join(g.Home, "state", "bundles", "*", "exit"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) == 0 {
		t.Fatalf("no exit file among %v", bundles(t, g))
	}
	g.Serve()
	rig.Until(t, slack, "the exit was consumed", func() bool {
		now, err := filepath.Glob(left[0])
		return err == nil && len(now) == 0
	})
	for _, c := range []*rig.Client{k.c, idle} { // their sessions go on with a new process
		if got := number(t, definite(t, c, tool("6", "pid", `{}`), 5*time.Second, "answer")); got == k.child {
			t.Errorf("pid %d answers, which is dead", got)
		}
	}
}
