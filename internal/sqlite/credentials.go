package sqlite

import (
	"context"

	"mcpx/internal/catalog"
	"mcpx/internal/store"
)

// The statements of credentials.
const (
	sqlCredentials      = `SELECT body FROM credentials WHERE name > ? ORDER BY name LIMIT ?`
	sqlCredentialByName = `SELECT body FROM credentials WHERE name = ?`
	sqlPutCredential    = `INSERT INTO credentials (name, body) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET body = excluded.body`
	sqlDeleteCredential = `DELETE FROM credentials WHERE name = ?`
)

// Credentials is one page in order of name.
func (t *tx) Credentials(ctx context.Context, p catalog.ListCredentials) ([]catalog.Credential, error) {
	return rows(ctx, t, scanDocument[catalog.Credential], sqlCredentials, p.After, p.PageLimit())
}

// CredentialByName finds one.
func (t *tx) CredentialByName(ctx context.Context, p catalog.CredentialByName) (catalog.Credential, error) {
	found, err := rows(ctx, t, scanDocument[catalog.Credential], sqlCredentialByName, p.Name)
	if err != nil {
		return catalog.Credential{}, err
	}
	if len(found) == 0 {
		return catalog.Credential{}, catalog.CredentialUnknown(p.Name)
	}
	return found[0], nil
}

// PutCredential writes a credential whole.
func (t *tx) PutCredential(ctx context.Context, p catalog.PutCredential) error {
	c := p.Credential
	c.Expires, c.CheckedAt = store.CutTime(c.Expires), store.CutTime(c.CheckedAt)
	c.Created, c.Updated = store.CutTime(c.Created), store.CutTime(c.Updated)
	body, err := document(c)
	if err != nil {
		return err
	}
	return t.exec(ctx, sqlPutCredential, c.Name, body)
}

// DeleteCredential removes a credential.
func (t *tx) DeleteCredential(ctx context.Context, p catalog.DeleteCredential) error {
	n, err := t.affect(ctx, sqlDeleteCredential, p.Name)
	switch {
	case err != nil:
		return describe(err, t.path)
	case n == 0:
		return catalog.CredentialUnknown(p.Name)
	}
	return nil
}
