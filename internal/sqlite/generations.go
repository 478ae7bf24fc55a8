package sqlite

import (
	"context"

	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// The statements of generations.
const (
	sqlGenerationByCandidate = `SELECT seq, body FROM generations WHERE candidate = ?`
	sqlGenerationByBuild     = `SELECT seq, body FROM generations WHERE build = ?`
	sqlGenerations           = `SELECT seq, body FROM generations WHERE (?1 = '' OR principal = ?1) AND (?2 = '' OR project = ?2)
		AND (?3 = '' OR workspace = ?3) AND (?4 = '' OR producer = ?4) AND (?5 = '[]' OR state IN (SELECT value FROM json_each(?5)))
		AND seq < ?6 ORDER BY seq DESC LIMIT ?7`
	sqlGenerationAt  = `SELECT state FROM generations WHERE candidate = ?`
	sqlPutGeneration = `INSERT INTO generations (candidate, build, principal, project, workspace, producer, state, body) VALUES (?, NULLIF(?, ''), ?, ?, ?, ?, ?, ?)
		ON CONFLICT (candidate) DO UPDATE SET build = excluded.build, principal = excluded.principal, project = excluded.project,
		workspace = excluded.workspace, producer = excluded.producer, state = excluded.state, body = excluded.body`
	sqlAuditByID = `SELECT seq, body FROM audits WHERE id = ?`
	sqlAudits    = `SELECT seq, body FROM audits WHERE (?1 = '' OR build = ?1) AND (?2 = '[]' OR state IN (SELECT value FROM json_each(?2)))
		AND seq < ?3 ORDER BY seq DESC LIMIT ?4`
	sqlAuditAt  = `SELECT state FROM audits WHERE id = ?`
	sqlPutAudit = `INSERT INTO audits (id, build, state, body) VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET build = excluded.build, state = excluded.state, body = excluded.body`
)

var (
	scanGeneration = scanNumbered(func(g *workspace.Generation) *uint64 { return &g.Seq })
	scanAudit      = scanNumbered(func(a *workspace.Audit) *uint64 { return &a.Seq })
)

// GenerationByID finds one by the id of its candidate or of its build.
func (t *tx) GenerationByID(ctx context.Context, p workspace.ByID) (workspace.Generation, error) {
	for _, query := range []string{sqlGenerationByCandidate, sqlGenerationByBuild} {
		found, err := rows(ctx, t, scanGeneration, query, p.ID)
		if err != nil {
			return workspace.Generation{}, err
		}
		if len(found) == 1 {
			return found[0], nil
		}
	}
	return workspace.Generation{}, workspace.UnknownGeneration(p.ID)
}

// Generations is one page, the newest first.
func (t *tx) Generations(ctx context.Context, p workspace.ListGenerations) ([]workspace.Generation, error) {
	in, err := stateList(p.States)
	if err != nil {
		return nil, err
	}
	return rows(ctx, t, scanGeneration, sqlGenerations, p.Principal, p.Project, p.Workspace, p.Producer, in, beforeOr(p.Before), p.PageLimit())
}

// PutGeneration writes a generation whole, unless the stored one has ended otherwise.
func (t *tx) PutGeneration(ctx context.Context, p workspace.PutGeneration) error {
	g := p.Generation
	g.Created, g.Sealed, g.Ready, g.Corrupted = store.CutTime(g.Created), store.CutTime(g.Sealed), store.CutTime(g.Ready), store.CutTime(g.Corrupted)
	var state workspace.GenerationState
	if err := t.one(ctx, sqlGenerationAt, g.Candidate, &state); err != nil {
		return err
	}
	if state.Final() && g.State != state {
		return workspace.FinalGeneration(g.Candidate)
	}
	body, err := document(g)
	if err != nil {
		return err
	}
	return t.exec(ctx, sqlPutGeneration, g.Candidate, g.ID, g.Principal, g.Project, g.Workspace, g.Producer, g.State, body)
}

// AuditByID finds one.
func (t *tx) AuditByID(ctx context.Context, p workspace.ByID) (workspace.Audit, error) {
	found, err := rows(ctx, t, scanAudit, sqlAuditByID, p.ID)
	if err != nil {
		return workspace.Audit{}, err
	}
	if len(found) == 0 {
		return workspace.Audit{}, workspace.UnknownAudit(p.ID)
	}
	return found[0], nil
}

// Audits is one page, the newest first.
func (t *tx) Audits(ctx context.Context, p workspace.ListAudits) ([]workspace.Audit, error) {
	in, err := stateList(p.States)
	if err != nil {
		return nil, err
	}
	return rows(ctx, t, scanAudit, sqlAudits, p.Build, in, beforeOr(p.Before), p.PageLimit())
}

// PutAudit writes an audit whole, unless the stored one has ended.
func (t *tx) PutAudit(ctx context.Context, p workspace.PutAudit) error {
	a := p.Audit
	a.Created, a.Ended = store.CutTime(a.Created), store.CutTime(a.Ended)
	var state workspace.AuditState
	if err := t.one(ctx, sqlAuditAt, a.ID, &state); err != nil {
		return err
	}
	if state != "" && state.Final() {
		return workspace.FinalAudit(a.ID)
	}
	body, err := document(a)
	if err != nil {
		return err
	}
	return t.exec(ctx, sqlPutAudit, a.ID, a.Build, a.State, body)
}
