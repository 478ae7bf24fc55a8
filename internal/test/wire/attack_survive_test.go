package wire

import (
	"fmt"
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
