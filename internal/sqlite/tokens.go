package sqlite

import (
	"context"

	"mcpx/internal/auth"
	"mcpx/internal/store"
)

// The statements of tokens.
const (
	sqlTokens    = `SELECT body FROM tokens WHERE id > ? ORDER BY id LIMIT ?`
	sqlTokensOf  = `SELECT body FROM tokens WHERE agent = ? AND id > ? ORDER BY id LIMIT ?`
	sqlTokenByID = `SELECT body FROM tokens WHERE id >= ? AND id < ? ORDER BY id LIMIT 2`
	sqlPutToken  = `INSERT INTO tokens (id, agent, digest, body) VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET agent = excluded.agent, digest = excluded.digest, body = excluded.body`
)

// Tokens is one page in order of id.
func (t *tx) Tokens(ctx context.Context, p auth.ListTokens) ([]auth.Token, error) {
	scan := scanDocument[auth.Token]
	if p.Agent != "" {
		return rows(ctx, t, scan, sqlTokensOf, p.Agent, p.After, p.PageLimit())
	}
	return rows(ctx, t, scan, sqlTokens, p.After, p.PageLimit())
}

// TokenByID finds one.
func (t *tx) TokenByID(ctx context.Context, p auth.TokenByID) (auth.Token, error) {
	return byPrefix(ctx, t, scanDocument[auth.Token], sqlTokenByID, p.ID, func(v auth.Token) string { return v.ID }, auth.Unknown, auth.Ambiguous)
}

// PutToken writes a record whole.
func (t *tx) PutToken(ctx context.Context, p auth.PutToken) error {
	v := p.Token
	v.Created, v.Used, v.Expires, v.Revoked = store.CutTime(v.Created), store.CutTime(v.Used), store.CutTime(v.Expires), store.CutTime(v.Revoked)
	body, err := document(v)
	if err != nil {
		return err
	}
	_, err = t.affect(ctx, sqlPutToken, v.ID, v.Agent, v.Digest, body)
	if isConstraint(err) { // the digest is the only rule that it can break
		return auth.Taken(v.ID).Because(err)
	}
	return describe(err, t.path)
}
