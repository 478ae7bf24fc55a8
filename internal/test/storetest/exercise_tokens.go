package storetest

import (
	"fmt"
	"testing"
	"time"

	"mcpx/internal/auth"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// tokenCases has one case for each method of the port of tokens.
var tokenCases = map[string]func(*testing.T, Pair){
	"Tokens":    tokens,
	"TokenByID": tokenByID,
	"PutToken":  putToken,
}

func token(id, agent string) auth.Token {
	return auth.Token{
		ID: id, Agent: agent, Scopes: []auth.Scope{auth.HubRead, "servers:use:gh"}, Digest: "sha-" + id, Line: "tok_0", Next: "tok_9",
		Created: uneven, Used: uneven.Add(time.Minute), Expires: uneven.Add(time.Hour), Revoked: uneven.Add(2 * time.Hour),
	}
}

func putTokens(t *testing.T, p Pair, all ...auth.Token) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, v := range all {
			if err := tx.PutToken(t.Context(), auth.PutToken{Token: v}); err != nil {
				return err
			}
		}
		return nil
	})
}

func listTokens(t *testing.T, p Pair, l auth.ListTokens) (ids []string) {
	t.Helper()
	for _, v := range read(t, p.Read, func(r store.Reader) ([]auth.Token, error) { return r.Tokens(t.Context(), l) }) {
		ids = append(ids, v.ID)
	}
	return ids
}

func tokens(t *testing.T, p Pair) {
	putTokens(t, p, token("tok_c", "codex"), token("tok_a", "codex"), token("tok_b", "gemini"))
	same(t, "all", []string{"tok_a", "tok_b", "tok_c"}, listTokens(t, p, auth.ListTokens{}))
	same(t, "of an agent", []string{"tok_a", "tok_c"}, listTokens(t, p, auth.ListTokens{Agent: "codex"}))
	same(t, "after", []string{"tok_c"}, listTokens(t, p, auth.ListTokens{Agent: "codex", After: "tok_a"}))
	same(t, "limit", []string{"tok_a"}, listTokens(t, p, auth.ListTokens{Limit: 1}))
	putTokens(t, p, token("tok_aa", "gemini")) // between pages
	same(t, "a page after a change", []string{"tok_b", "tok_c"}, listTokens(t, p, auth.ListTokens{After: "tok_aa"}))
	var many []auth.Token
	for i := range auth.MaxTokenPage + 1 {
		many = append(many, token(fmt.Sprintf("tok_x%04d", i), "qwen"))
	}
	putTokens(t, p, many...)
	if n := len(listTokens(t, p, auth.ListTokens{Limit: 1 << 30})); n != auth.MaxTokenPage {
		t.Errorf("a page holds %d tokens, want at most %d", n, auth.MaxTokenPage)
	}
	all := read(t, p.Read, func(r store.Reader) ([]auth.Token, error) { return auth.AllTokens(t.Context(), r, "qwen") })
	if len(all) != len(many) {
		t.Errorf("AllTokens gives %d, want %d", len(all), len(many))
	}
}

func tokenByID(t *testing.T, p Pair) {
	putTokens(t, p, token("tok_abc", "codex"), token("tok_abd", "codex"))
	get := func(id string) (v auth.Token, err error) {
		err = p.Read.View(t.Context(), func(r store.Reader) error {
			v, err = r.TokenByID(t.Context(), auth.TokenByID{ID: id})
			return err
		})
		return v, err
	}
	if v, err := get("tok_abd"); err != nil || v.ID != "tok_abd" {
		t.Errorf("got %s, %v", v.ID, err)
	}
	_, err := get("tok_ab")
	wantFault(t, err, fault.Conflict, "token-id-ambiguous")
	for _, id := range []string{"", "tok_z"} {
		_, err := get(id)
		wantFault(t, err, fault.NotFound, "token-id-unknown")
	}
}

func putToken(t *testing.T, p Pair) {
	want := token("tok_a", "codex")
	putTokens(t, p, want)
	want.Created, want.Used, want.Expires, want.Revoked = store.CutTime(want.Created), store.CutTime(want.Used), store.CutTime(want.Expires), store.CutTime(want.Revoked)
	get := func() auth.Token {
		return read(t, p.Read, func(r store.Reader) (auth.Token, error) { return r.TokenByID(t.Context(), auth.TokenByID{ID: "tok_a"}) })
	}
	same(t, "every field", want, get())
	plain := auth.Token{ID: "tok_a", Agent: "gemini", Scopes: []auth.Scope{auth.HubRead}, Digest: "other", Line: "tok_a", Created: want.Created}
	putTokens(t, p, plain)
	same(t, "written again", plain, get())
	same(t, "its old agent", []string(nil), listTokens(t, p, auth.ListTokens{Agent: "codex"}))
	err := p.Write.Change(t.Context(), func(tx store.Tx) error {
		twin := token("tok_b", "codex")
		twin.Digest = "other"
		return tx.PutToken(t.Context(), auth.PutToken{Token: twin})
	})
	wantFault(t, err, fault.Conflict, "token-taken")
}
