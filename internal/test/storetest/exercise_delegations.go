package storetest

import (
	"fmt"
	"testing"
	"time"

	"mcpx/internal/auth"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// delegationCases has one case for each method of the port of access over OAuth.
var delegationCases = map[string]func(*testing.T, Pair){
	"Delegations":          delegations,
	"DelegationByID":       delegationByID,
	"PutDelegation":        putDelegation,
	"DelegationToken":      delegationToken,
	"PutDelegationToken":   delegationToken,
	"DropDelegationTokens": dropDelegationTokens,
	"Remote":               reached,
	"PutRemote":            reached,
}

func delegation(id string) auth.Delegation {
	return auth.Delegation{
		ID: id, Principal: "owner", Client: "Ünïcode <&>", ClientID: "c", Redirect: "https://a.example/cb", Resource: "https://b.example/mcp", Scopes: auth.RemoteScopes(),
		Made: uneven, Refreshed: uneven.Add(time.Minute), Expires: uneven.Add(time.Hour), Revoked: uneven.Add(2 * time.Hour), Why: "w",
	}
}

func putDelegations(t *testing.T, p Pair, ids ...string) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, id := range ids {
			if err := tx.PutDelegation(t.Context(), auth.PutDelegation{Delegation: delegation(id)}); err != nil {
				return err
			}
		}
		return nil
	})
}

func delegations(t *testing.T, p Pair) {
	list := func(l auth.ListDelegations) (ids []string) {
		for _, d := range read(t, p.Read, func(r store.Reader) ([]auth.Delegation, error) { return r.Delegations(t.Context(), l) }) {
			ids = append(ids, d.ID)
		}
		return ids
	}
	putDelegations(t, p, "dg_c", "dg_a", "dg_b")
	same(t, "all", []string{"dg_a", "dg_b", "dg_c"}, list(auth.ListDelegations{}))
	same(t, "after", []string{"dg_c"}, list(auth.ListDelegations{After: "dg_b"}))
	same(t, "limit", []string{"dg_a"}, list(auth.ListDelegations{Limit: 1}))
	var many []string
	for i := range auth.MaxDelegationPage + 1 {
		many = append(many, fmt.Sprintf("dg_x%04d", i))
	}
	putDelegations(t, p, many...)
	if n := len(list(auth.ListDelegations{Limit: 1 << 30})); n != auth.MaxDelegationPage {
		t.Errorf("a page holds %d delegations, want at most %d", n, auth.MaxDelegationPage)
	}
	all := read(t, p.Read, func(r store.Reader) ([]auth.Delegation, error) { return auth.AllDelegations(t.Context(), r) })
	if len(all) != len(many)+3 {
		t.Errorf("AllDelegations gives %d, want %d", len(all), len(many)+3)
	}
}

func delegationByID(t *testing.T, p Pair) {
	putDelegations(t, p, "dg_abc", "dg_abd")
	get := func(id string) (d auth.Delegation, err error) {
		err = p.Read.View(t.Context(), func(r store.Reader) error {
			d, err = r.DelegationByID(t.Context(), auth.DelegationByID{ID: id})
			return err
		})
		return d, err
	}
	if d, err := get("dg_abd"); err != nil || d.ID != "dg_abd" {
		t.Errorf("got %s, %v", d.ID, err)
	}
	for id, code := range map[string]string{"dg_ab": "delegation-ambiguous", "dg_x": "delegation-unknown", "": "delegation-unknown"} {
		if _, err := get(id); fault.From(err).Code != code {
			t.Errorf("%q: %v, want %s", id, err, code)
		}
	}
}

func putDelegation(t *testing.T, p Pair) {
	putDelegations(t, p, "dg_a")
	get := func() auth.Delegation {
		return read(t, p.Read, func(r store.Reader) (auth.Delegation, error) {
			return r.DelegationByID(t.Context(), auth.DelegationByID{ID: "dg_a"})
		})
	}
	want := delegation("dg_a")
	want.Made, want.Refreshed, want.Expires, want.Revoked = store.CutTime(want.Made), store.CutTime(want.Refreshed), store.CutTime(want.Expires), store.CutTime(want.Revoked)
	same(t, "as it was written", want, get())
	want.Why, want.Revoked = "", time.Time{}
	change(t, p.Write, func(tx store.Tx) error { return tx.PutDelegation(t.Context(), auth.PutDelegation{Delegation: want}) })
	same(t, "replaced", want, get())
}

func tokenOf(t *testing.T, p Pair, digest string) *auth.DelegationToken {
	t.Helper()
	return read(t, p.Read, func(r store.Reader) (*auth.DelegationToken, error) {
		return r.DelegationToken(t.Context(), auth.DelegationTokenByDigest{Digest: digest})
	})
}

func delegationToken(t *testing.T, p Pair) {
	v := auth.DelegationToken{Digest: "d", Delegation: "dg_a", Refresh: true, Made: uneven, Expires: uneven.Add(time.Hour), Spent: uneven.Add(time.Minute)}
	put := func() {
		change(t, p.Write, func(tx store.Tx) error { return tx.PutDelegationToken(t.Context(), auth.PutDelegationToken{Token: v}) })
	}
	put()
	want := v
	want.Made, want.Expires, want.Spent = store.CutTime(v.Made), store.CutTime(v.Expires), store.CutTime(v.Spent)
	same(t, "as it was written", &want, tokenOf(t, p, "d"))
	v.Spent, want.Spent = time.Time{}, time.Time{}
	put()
	same(t, "replaced", &want, tokenOf(t, p, "d"))
	if got := tokenOf(t, p, "e"); got != nil {
		t.Errorf("a token that is not there: %v", got)
	}
}

func dropDelegationTokens(t *testing.T, p Pair) {
	change(t, p.Write, func(tx store.Tx) error {
		for i, digest := range []string{"old", "now", "new"} {
			v := auth.DelegationToken{Digest: digest, Delegation: "dg_a", Made: uneven, Expires: uneven.Add(time.Duration(i) * time.Hour)}
			if err := tx.PutDelegationToken(t.Context(), auth.PutDelegationToken{Token: v}); err != nil {
				return err
			}
		}
		return tx.DropDelegationTokens(t.Context(), auth.DropDelegationTokens{Before: store.CutTime(uneven.Add(time.Hour))})
	})
	for digest, kept := range map[string]bool{"old": false, "now": true, "new": true} {
		if got := tokenOf(t, p, digest); (got != nil) != kept {
			t.Errorf("%s: %v", digest, got)
		}
	}
}

func reached(t *testing.T, p Pair) {
	get := func() auth.Remote {
		return read(t, p.Read, func(r store.Reader) (auth.Remote, error) { return r.Remote(t.Context()) })
	}
	same(t, "before anything was written", auth.Remote{}, get())
	for _, want := range []auth.Remote{{On: true, URL: "https://a.example", Address: "x:1", Certificate: "/c", Key: "/k"}, {URL: "https://b.example"}} {
		change(t, p.Write, func(tx store.Tx) error { return tx.PutRemote(t.Context(), auth.PutRemote{Remote: want}) })
		same(t, "as it was written", want, get())
	}
}
