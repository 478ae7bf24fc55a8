package gateway

import (
	"strings"
	"testing"

	"mcpx/internal/rpc"
)

// TestResumeOverCrash: a call in flight at a crash is joined by its client at the next daemon.
func TestResumeOverCrash(t *testing.T) {
	got := make(chan Outbound, 8)
	mc := newMachine(t, nil, func(c *child, m Outbound, msg rpc.Message) {
		if m.Method == "tools/call" {
			got <- m
		}
	})
	x := initialize(t, mc.s, "2025-11-25", "{}")
	send(t, x, callBody("7"))
	m := <-got
	mc.crash()
	y := mc.again(x)
	r := resume(t, y, "7", 7)
	c := mc.k.newest()
	c.result(m, scan(t, m.Body), `{"content":["late"]}`)
	if answer, _ := reply(t, r); !strings.Contains(answer, "late") || member(t, answer, "id") != 7.0 {
		t.Errorf("the resumed call got %s", answer)
	}
	if n := len(mc.k.all()); n != 1 || c.count("initialize") != 1+1 {
		t.Errorf("%d children, %d initialize", n, c.count("initialize"))
	}
}
