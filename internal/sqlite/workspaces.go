package sqlite

import (
	"context"

	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// The statements of workspaces.
const (
	sqlWorkspaceByID = `SELECT seq, body FROM workspaces WHERE id >= ? AND id < ? ORDER BY id LIMIT 2`
	sqlWorkspaces    = `SELECT seq, body FROM workspaces WHERE (?1 = '' OR principal = ?1) AND (?2 = '' OR project = ?2)
		AND (?3 = '[]' OR state IN (SELECT value FROM json_each(?3))) AND seq < ?4 ORDER BY seq DESC LIMIT ?5`
	sqlWorkspaceAt  = `SELECT state, rev FROM workspaces WHERE id = ?`
	sqlPutWorkspace = `INSERT INTO workspaces (id, principal, project, state, rev, body) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET principal = excluded.principal, project = excluded.project, state = excluded.state, rev = excluded.rev, body = excluded.body`
	sqlIntegrations   = `SELECT seq, body FROM integrations WHERE (?1 = '' OR project = ?1) AND seq > ?2 AND seq < ?3 ORDER BY seq DESC LIMIT ?4`
	sqlPutIntegration = `INSERT INTO integrations (id, project, body) VALUES (?, ?, ?)`
)

var (
	scanWorkspace   = scanNumbered(func(w *workspace.Workspace) *uint64 { return &w.Seq })
	scanIntegration = scanNumbered(func(i *workspace.Integration) *uint64 { return &i.Seq })
)

// WorkspaceByID finds one.
func (t *tx) WorkspaceByID(ctx context.Context, p workspace.ByID) (workspace.Workspace, error) {
	return byPrefix(ctx, t, scanWorkspace, sqlWorkspaceByID, p.ID, func(w workspace.Workspace) string { return w.ID }, workspace.Unknown, workspace.Ambiguous)
}

// Workspaces is one page, the newest first.
func (t *tx) Workspaces(ctx context.Context, p workspace.ListWorkspaces) ([]workspace.Workspace, error) {
	in, err := stateList(p.States)
	if err != nil {
		return nil, err
	}
	return rows(ctx, t, scanWorkspace, sqlWorkspaces, p.Principal, p.Project, in, beforeOr(p.Before), p.PageLimit())
}

// PutWorkspace writes a workspace whole, unless the stored one is retired or newer.
func (t *tx) PutWorkspace(ctx context.Context, p workspace.PutWorkspace) error {
	w := p.Workspace
	w.Created, w.Changed, w.Base.At = store.CutTime(w.Created), store.CutTime(w.Changed), store.CutTime(w.Base.At)
	var (
		state workspace.State
		rev   int
	)
	err := t.one(ctx, sqlWorkspaceAt, w.ID, &state, &rev)
	switch {
	case err != nil:
		return err
	case state == workspace.Retired && w.State != workspace.Retired:
		return workspace.Final(w.ID)
	case rev > w.Rev:
		return workspace.Stale(w.ID)
	}
	body, err := document(w)
	if err != nil {
		return err
	}
	return t.exec(ctx, sqlPutWorkspace, w.ID, w.Principal, w.Project, w.State, w.Rev, body)
}

// Integrations is one page, the newest first.
func (t *tx) Integrations(ctx context.Context, p workspace.ListIntegrations) ([]workspace.Integration, error) {
	return rows(ctx, t, scanIntegration, sqlIntegrations, p.Project, int64(p.After), beforeOr(p.Before), p.PageLimit())
}

// PutIntegration writes an integration.
func (t *tx) PutIntegration(ctx context.Context, p workspace.PutIntegration) error {
	i := p.Integration
	i.At = store.CutTime(i.At)
	body, err := document(i)
	if err != nil {
		return err
	}
	return t.exec(ctx, sqlPutIntegration, i.ID, i.Project, body)
}
