package gateway

import (
	"fmt"
	"testing"
	"time"

	"mcpx/internal/rpc"
)

// TestShelf: many changes of a session are few writes, what ends is forgotten for good, and a slow store holds up nobody
// but those who open a session.
func TestShelf(t *testing.T) {
	mc := newMachine(t, nil, func(c *child, m Outbound, msg rpc.Message) {
		if m.Kind == rpc.Request {
			c.result(m, msg, `{}`)
		}
	})
	x := initialize(t, mc.s, "2025-11-25", "{}")
	if mc.store.count() != 1 {
		t.Fatal("a session whose client knows its id is not stored")
	}
	mc.store.slow = make(chan struct{})
	const changes = 200
	for i := range changes {
		reply(t, send(t, x, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"file:///%d"}}`, i, i)))
	}
	opened := make(chan *Session)
	go func() { opened <- initialize(t, mc.s, "2025-11-25", "{}") }()
	select {
	case <-opened:
		t.Error("a client learned its session before that was stored")
	case <-time.After(50 * time.Millisecond):
	}
	close(mc.store.slow)
	second := <-opened
	second.Close()
	mc.stop(false)
	if mc.store.writes > changes/2 || mc.store.count() != 1 {
		t.Errorf("%d writes, %d sessions are stored", mc.store.writes, mc.store.count())
	}
	mc.start()
	if y := mc.again(x); len(y.subs) != changes {
		t.Errorf("%d subscriptions came back", len(y.subs))
	}
}
