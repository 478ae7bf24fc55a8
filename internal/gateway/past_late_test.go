package gateway

import (
	"testing"
	"time"

	"mcpx/internal/rpc"
)

// TestLateRequests: what a client was told about a request that an old process still carries is kept.
func TestLateRequests(t *testing.T) {
	key := func(id string) string {
		k, _ := rpc.IDKey([]byte(id))
		return k
	}
	now := time.Now()
	unsent := trouble{class: NotSent}
	unknown := trouble{class: SentUnknown}
	p := &past{rest: unsent, later: unknown, until: now.Add(witnessFor)}

	if k, ok := p.of("r", []byte("1"), false, now); !ok || k.told.class != NotSent {
		t.Fatalf("a request that nobody sent is %q", k.told.class)
	}
	if !p.toldUnsent(key("1")) {
		t.Error("it runs although its client was told that it was not sent")
	}
	if p.toldUnsent(key("2")) {
		t.Error("a late request that nobody asked for does not run")
	}
	p.made(key("2"), now)
	if k, _ := p.of("r", []byte("2"), false, now); k.told.class != SentUnknown {
		t.Errorf("a late request that runs is said to be %q", k.told.class)
	}
}
