package sqlite

import (
	"context"

	"mcpx/internal/auth"
	"mcpx/internal/store"
)

// The statements of access over OAuth.
const (
	sqlDelegations        = `SELECT body FROM delegations WHERE id > ? ORDER BY id LIMIT ?`
	sqlDelegationByID     = `SELECT body FROM delegations WHERE id >= ? AND id < ? ORDER BY id LIMIT 2`
	sqlPutDelegation      = `INSERT INTO delegations (id, body) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body`
	sqlDelegationToken    = `SELECT body FROM delegation_tokens WHERE digest = ?`
	sqlPutDelegationToken = `INSERT INTO delegation_tokens (digest, expires, body) VALUES (?, ?, ?)
		ON CONFLICT (digest) DO UPDATE SET expires = excluded.expires, body = excluded.body`
	sqlRemote               = `SELECT body FROM remote WHERE one = 1`
	sqlPutRemote            = `INSERT INTO remote (one, body) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET body = excluded.body`
	sqlDropDelegationTokens = `DELETE FROM delegation_tokens WHERE expires < ?`
)

// Delegations is one page in order of id.
func (t *tx) Delegations(ctx context.Context, p auth.ListDelegations) ([]auth.Delegation, error) {
	return rows(ctx, t, scanDocument[auth.Delegation], sqlDelegations, p.After, p.PageLimit())
}

// DelegationByID finds one.
func (t *tx) DelegationByID(ctx context.Context, p auth.DelegationByID) (auth.Delegation, error) {
	return byPrefix(ctx, t, scanDocument[auth.Delegation], sqlDelegationByID, p.ID, func(d auth.Delegation) string { return d.ID }, auth.UnknownDelegation, auth.AmbiguousDelegation)
}

// PutDelegation writes a delegation whole.
func (t *tx) PutDelegation(ctx context.Context, p auth.PutDelegation) error {
	d := p.Delegation
	d.Made, d.Refreshed, d.Expires, d.Revoked = store.CutTime(d.Made), store.CutTime(d.Refreshed), store.CutTime(d.Expires), store.CutTime(d.Revoked)
	body, err := document(d)
	if err != nil {
		return err
	}
	_, err = t.affect(ctx, sqlPutDelegation, d.ID, body)
	return describe(err, t.path)
}

// DelegationToken finds the record of a token; nil: there is none.
func (t *tx) DelegationToken(ctx context.Context, p auth.DelegationTokenByDigest) (*auth.DelegationToken, error) {
	found, err := rows(ctx, t, scanDocument[auth.DelegationToken], sqlDelegationToken, p.Digest)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// PutDelegationToken writes the record of a token.
func (t *tx) PutDelegationToken(ctx context.Context, p auth.PutDelegationToken) error {
	v := p.Token
	v.Made, v.Expires, v.Spent = store.CutTime(v.Made), store.CutTime(v.Expires), store.CutTime(v.Spent)
	body, err := document(v)
	if err != nil {
		return err
	}
	_, err = t.affect(ctx, sqlPutDelegationToken, v.Digest, v.Expires.UnixNano(), body)
	return describe(err, t.path)
}

// DropDelegationTokens removes what is over.
func (t *tx) DropDelegationTokens(ctx context.Context, p auth.DropDelegationTokens) error {
	_, err := t.affect(ctx, sqlDropDelegationTokens, p.Before.UnixNano())
	return describe(err, t.path)
}

// Remote is how other machines reach this one.
func (t *tx) Remote(ctx context.Context) (auth.Remote, error) {
	found, err := rows(ctx, t, scanDocument[auth.Remote], sqlRemote)
	if err != nil || len(found) == 0 {
		return auth.Remote{}, err
	}
	return found[0], nil
}

// PutRemote writes it.
func (t *tx) PutRemote(ctx context.Context, p auth.PutRemote) error {
	body, err := document(p.Remote)
	if err != nil {
		return err
	}
	_, err = t.affect(ctx, sqlPutRemote, body)
	return describe(err, t.path)
}
