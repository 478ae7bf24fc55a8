package sqlite

import (
	"context"

	"mcpx/internal/session"
	"mcpx/internal/store"
)

// The statements of what people agreed to of repositories.
const (
	sqlTrusts   = `SELECT body FROM trusts WHERE project > '' ORDER BY project`
	sqlTrustOf  = `SELECT body FROM trusts WHERE project = ?`
	sqlPutTrust = `INSERT INTO trusts (project, body) VALUES (?, ?) ON CONFLICT (project) DO UPDATE SET body = excluded.body`
)

// AllTrusts is what people agreed to of every project.
func (t *tx) AllTrusts(ctx context.Context) ([]session.Trust, error) {
	return rows(ctx, t, scanDocument[session.Trust], sqlTrusts)
}

// TrustOf is what a person agreed to of one project.
func (t *tx) TrustOf(ctx context.Context, p session.TrustOf) (session.Trust, error) {
	found, err := rows(ctx, t, scanDocument[session.Trust], sqlTrustOf, p.Project)
	if err != nil || len(found) == 0 {
		return session.Trust{}, err
	}
	return found[0], nil
}

// PutTrust writes what a person agreed to of a project whole.
func (t *tx) PutTrust(ctx context.Context, p session.PutTrust) error {
	v := p.Trust
	v.At = store.CutTime(v.At)
	body, err := document(v)
	if err != nil {
		return err
	}
	return t.exec(ctx, sqlPutTrust, v.Project, body)
}
