package wire

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// TestRestartWhileAChildReadsNothing: a server that works on one thing at a time does not read what is sent meanwhile. The
// next daemon goes on with it all the same, and no call fails or runs twice.
func TestRestartWhileAChildReadsNothing(t *testing.T) {
	linux(t)
	g := rig.Start(t)
	k := keep(t, g, "busy", fakemcp.Options{})
	rig.Pause(t, k.child)
	ends := make(chan rig.Outcome, 4)
	for i := range cap(ends) {
		go func() {
			id := fmt.Sprint(100 + i)
			ends <- k.persist(t, id, work(id, "big-"+id, `"filler":`+quote(strings.Repeat("f", 300_000))))
		}()
	}
	rig.Until(t, slack, "the calls are in flight", func() bool { ps := g.Processes("busy"); return len(ps) == 1 && ps[0].InFlight == 4 })
	g.Must("daemon", "restart")
	rig.Continue(t, k.child)
	for range cap(ends) {
		o := <-ends
		if o.Class != "answer" {
			t.Errorf("a call ended as %s: %s", o.Class, clip(string(o.Body)))
		}
	}
	for i := range cap(ends) {
		if n := k.count(t, quote(fmt.Sprintf("big-%d", 100+i))); n != 1 {
			t.Errorf("call %d ran %d times", i, n)
		}
	}
	k.unchanged(t, "6")
}

// TestFailedStartEndsNobody: a daemon that finds the servers of the one before it and then cannot start leaves them to the
// next one.
func TestFailedStartEndsNobody(t *testing.T) {
	linux(t)
	g := rig.Start(t)
	k := keep(t, g, "kept", fakemcp.Options{})
	for i := range 3 {
		end := k.begun(t, fmt.Sprint(10+i), fmt.Sprint("long-", i), work(fmt.Sprint(10+i), fmt.Sprint("long-", i), `"wait_ms":1500`))
		g.Kill()
		socket := filepath.Join(g.Home, "run", "daemon.sock")
		if err := os.RemoveAll(socket); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(socket, "in", "the", "way"), 0o700); err != nil {
			t.Fatal(err)
		}
		g.Spawn()
		if how, ended := g.Await(); !ended || how == "" {
			t.Fatalf("a daemon without a socket started: %q", how)
		}
		if err := os.RemoveAll(socket); err != nil {
			t.Fatal(err)
		}
		g.Serve()
		if o := <-end; o.Class != "answer" {
			t.Errorf("the call ended as %s: %s", o.Class, o.Body)
		}
	}
	k.unchanged(t, "9")
}

// TestStopEndsWhatWasNotAdopted: `daemon stop --children` ends a server that its daemon could not go on with, too.
func TestStopEndsWhatWasNotAdopted(t *testing.T) {
	linux(t)
	g := rig.Start(t)
	k := keep(t, g, "lost", fakemcp.Options{})
	g.Kill()
	record := filepath.Join(bundles(t, g)[0], "record")
	raw, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(raw), `"token":"`, `"token":"x`, 1)
	if err := os.WriteFile(record, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	g.Serve()
	rig.Until(t, slack, "the server is not adopted", func() bool { return strings.Contains(g.Log(), "not adopted") })
	if !rig.Alive(k.child) || !rig.Alive(k.supervisor) {
		t.Error("somebody ended what could not be adopted")
	}
	g.Must("daemon", "stop", "--children")
	g.Wait()
	if rig.Alive(k.child) || rig.Alive(k.supervisor) {
		t.Errorf("child %v, supervisor %v live on", rig.Alive(k.child), rig.Alive(k.supervisor))
	}
}
