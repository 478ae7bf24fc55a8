package control

import (
	"testing"
	"time"

	"mcpx/internal/auth"
	"mcpx/internal/store"
)

// TestAccessTaken: what takes access away from a call in work is the person, not the clock; and looking tells nobody.
func TestAccessTaken(t *testing.T) {
	b, ctx := newBench(t)
	d := auth.Delegation{ID: "dg_1", Principal: "owner", Client: "chat", ClientID: "c", Resource: "https://mcp.example.org/mcp", Made: b.now, Expires: b.now.Add(time.Minute)}
	put := func() {
		t.Helper()
		if err := b.cfg.DB.Change(ctx, func(tx store.Tx) error { return tx.PutDelegation(ctx, auth.PutDelegation{Delegation: d}) }); err != nil {
			t.Fatal(err)
		}
	}
	put()
	on := auth.Remote{On: true, URL: "https://mcp.example.org", Since: b.now}
	b.remote.set(on)
	check := func(when string, d auth.Delegation, want bool) {
		t.Helper()
		if got := b.AccessTaken(ctx, d, on.Since); got != want {
			t.Errorf("%s: taken %v, want %v", when, got, want)
		}
	}
	check("at once", d, false)
	b.now = b.now.Add(time.Hour)
	check("when its time is over", d, false)
	check("nobody knows it", auth.Delegation{ID: "dg_2"}, true)
	b.remote.set(auth.Remote{URL: on.URL, Since: on.Since})
	check("remote access is off", d, true)
	b.remote.set(auth.Remote{On: true, URL: on.URL, Since: b.now})
	check("it was off and is on again", d, true)
	b.remote.set(on)
	check("as it was", d, false)
	d.Revoked = b.now
	put()
	check("it was revoked", d, true)
	if kinds := b.kindsOf(ctx, t, "remote"); len(kinds) != 0 {
		t.Errorf("events: %v", kinds)
	}
}
