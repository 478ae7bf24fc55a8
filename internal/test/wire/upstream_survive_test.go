package wire

import (
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// TestUpstreamSessionSurvives: the session of an HTTP backend goes on in the next daemon, with its state. What became of a
// call that was in flight there nobody knows.
func TestUpstreamSessionSurvives(t *testing.T) {
	g := rig.Start(t)
	k := &kept{g: g, name: "remote", record: filepath.Join(g.Home, "remote.record")}
	g.AddURL("remote", serve(t, fakemcp.Options{Stateful: true, Record: k.record}), "--protocol", "legacy")
	k.c = rig.Open(t, g.URL("remote"), "2025-11-25", `{}`)
	counts := func(id string, want int) {
		t.Helper()
		if got := number(t, definite(t, k.c, tool(id, "counter", `{}`), slack, "answer")); got != want {
			t.Errorf("call %s: the counter says %d, want %d", id, got, want)
		}
	}
	counts("1", 1)
	handshakes := k.count(t, `"method":"initialize"`)
	end := k.begun(t, "2", "long", work("2", "long", `"wait_ms":60000`))
	g.Kill()
	g.Serve()
	if o := <-end; o.Class != "sent_unknown" {
		t.Errorf("the call in flight ended as %s: %s", o.Class, o.Body)
	}
	counts("3", 2)
	if got := k.count(t, `"method":"initialize"`); got != handshakes {
		t.Errorf("%d handshakes after the kill", got-handshakes)
	}
	for part, want := range map[string]int{`"long"`: 1, `"counter"`: 2} {
		if got := k.count(t, part); got != want {
			t.Errorf("the server read %s %d times, want %d", part, got, want)
		}
	}

	b := bridged{g.Connect("remote"), t}
	b.Initialize(`{}`)
	if answer := string(b.call("1", tool("1", "counter", `{}`))); !strings.Contains(answer, `"3"`) {
		t.Errorf("through the bridge the counter says %s", answer)
	}
	handshakes = k.count(t, `"method":"initialize"`)
	g.Kill()
	g.Serve()
	if answer := string(b.call("2", tool("2", "counter", `{}`))); !strings.Contains(answer, `"4"`) {
		t.Errorf("after the kill the counter says %s", answer)
	}
	if got := k.count(t, `"method":"initialize"`); got != handshakes {
		t.Errorf("%d handshakes of the bridge after the kill", got-handshakes)
	}
}
