package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"mcpx/internal/session"
	"mcpx/internal/store"
)

// The statements of projects, remote sessions, grants, hand-overs and work plans and artifacts.
const (
	sqlProjects    = `SELECT body FROM projects WHERE id > ?1 AND (?2 OR state <> 'removed') ORDER BY id LIMIT ?3`
	sqlProjectByID = `SELECT body FROM projects WHERE id >= ? AND id < ? ORDER BY id LIMIT 2`
	sqlPutProject  = `INSERT INTO projects (id, name, state, body) VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, state = excluded.state, body = excluded.body`

	sqlRemoteSessions = `SELECT body FROM remote_sessions s WHERE use_seq < ?1 AND (?3 = '' OR project = ?3) AND (?4 = '' OR state = ?4)
		AND (?2 = '' OR principal = ?2 OR EXISTS (SELECT 1 FROM grants g WHERE g.principal = ?2 AND g.about = s.id))
		ORDER BY use_seq DESC LIMIT ?5`
	sqlRemoteSessionByID = `SELECT body FROM remote_sessions WHERE id >= ? AND id < ? ORDER BY id LIMIT 2`
	sqlRemoteSessionUse  = `SELECT use_seq, used_us, state FROM remote_sessions WHERE id = ?`
	sqlNextUse           = `SELECT COALESCE(MAX(use_seq), 0) + 1 FROM remote_sessions`
	sqlPutRemoteSession  = `INSERT INTO remote_sessions (id, use_seq, principal, project, state, used_us, body) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET use_seq = excluded.use_seq, principal = excluded.principal, project = excluded.project,
		state = excluded.state, used_us = excluded.used_us, body = excluded.body`

	sqlGrantsOf = `SELECT body FROM grants WHERE principal = ?1 AND about > ?3 AND (?2 = '' OR about = ?2) ORDER BY about LIMIT ?4`
	sqlGrants   = `SELECT body FROM grants WHERE about = ?1 AND principal > ?2 ORDER BY principal LIMIT ?3`
	sqlPutGrant = `INSERT INTO grants (principal, about, body) VALUES (?, ?, ?)
		ON CONFLICT (principal, about) DO UPDATE SET body = excluded.body`
	sqlDeleteGrant = `DELETE FROM grants WHERE principal = ? AND about = ?`

	sqlHandoffByID = `SELECT body FROM handoffs WHERE id = ?`
	sqlPutHandoff  = `INSERT INTO handoffs (id, used, body) VALUES (?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET used = excluded.used, body = excluded.body WHERE handoffs.used = 0`

	sqlWorkPlans    = `SELECT body FROM work_plans WHERE session = ?1 AND id > ?3 AND (?2 = '' OR state = ?2) ORDER BY id LIMIT ?4`
	sqlWorkPlanByID = `SELECT body FROM work_plans WHERE id >= ? AND id < ? ORDER BY id LIMIT 2`
	sqlWorkPlanAt   = `SELECT state, version FROM work_plans WHERE id = ?`
	sqlPutWorkPlan  = `INSERT INTO work_plans (id, session, state, version, body) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET session = excluded.session, state = excluded.state, version = excluded.version, body = excluded.body`

	sqlArtifactsOfSession = `SELECT body FROM artifacts WHERE session = ?1 AND (?2 = '' OR id < ?2) ORDER BY id DESC LIMIT ?3`
	sqlArtifactsOfProject = `SELECT body FROM artifacts WHERE project = ?1 AND (?2 = '' OR id < ?2) ORDER BY id DESC LIMIT ?3`
	sqlArtifactByID       = `SELECT body FROM artifacts WHERE id = ?`
	sqlPutArtifact        = `INSERT INTO artifacts (id, project, session, body) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`
)

// Projects is one page in order of id.
func (t *tx) Projects(ctx context.Context, p session.ListProjects) ([]session.Project, error) {
	return rows(ctx, t, scanDocument[session.Project], sqlProjects, p.After, p.Removed, p.PageLimit())
}

// ProjectByID finds one.
func (t *tx) ProjectByID(ctx context.Context, p session.ByID) (session.Project, error) {
	return byPrefix(ctx, t, scanDocument[session.Project], sqlProjectByID, p.ID, func(v session.Project) string { return v.ID }, session.ProjectUnknown, session.ProjectAmbiguous)
}

// PutProject writes a project whole.
func (t *tx) PutProject(ctx context.Context, p session.PutProject) error {
	v := p.Project
	v.Added, v.Removed = store.CutTime(v.Added), store.CutTime(v.Removed)
	body, err := document(v)
	if err != nil {
		return err
	}
	_, err = t.affect(ctx, sqlPutProject, v.ID, v.Name, v.State, body)
	if isConstraint(err) { // the name is the only rule that it can break
		return session.ProjectExists(v.Name).Because(err)
	}
	return describe(err, t.path)
}

// RemoteSessions is one page, the last used first.
func (t *tx) RemoteSessions(ctx context.Context, p session.ListSessions) ([]session.Session, error) {
	return rows(ctx, t, scanDocument[session.Session], sqlRemoteSessions, beforeOr(p.Before), p.Principal, p.Project, p.State, p.PageLimit())
}

// RemoteSessionByID finds one.
func (t *tx) RemoteSessionByID(ctx context.Context, p session.ByID) (session.Session, error) {
	return byPrefix(ctx, t, scanDocument[session.Session], sqlRemoteSessionByID, p.ID, func(v session.Session) string { return v.ID }, session.Unknown, session.Ambiguous)
}

// PutRemoteSession writes a session whole; another time of use gives it the next place in the order.
func (t *tx) PutRemoteSession(ctx context.Context, p session.PutSession) error {
	v := p.Session
	v.Created, v.Used, v.Closed = store.CutTime(v.Created), store.CutTime(v.Used), store.CutTime(v.Closed)
	var (
		used  int64
		state session.State
	)
	v.Use = 0
	err := t.one(ctx, sqlRemoteSessionUse, v.ID, &v.Use, &used, &state)
	switch {
	case err != nil:
		return err
	case state == session.Closed && v.State != session.Closed:
		return session.Final(v.ID)
	case v.Use == 0 || used != micros(v.Used):
		if err := t.row(ctx, sqlNextUse).Scan(&v.Use); err != nil {
			return describe(err, t.path)
		}
	}
	body, err := document(v)
	if err != nil {
		return err
	}
	return t.exec(ctx, sqlPutRemoteSession, v.ID, v.Use, v.Principal, v.Project, v.State, micros(v.Used), body)
}

// one reads the columns of the row that a statement finds by an id, and leaves dest as it is when there is none.
func (t *tx) one(ctx context.Context, query, id string, dest ...any) error {
	err := t.row(ctx, query, id).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return describe(err, t.path)
}

// Grants is one page in order of principal and of what they are about.
func (t *tx) Grants(ctx context.Context, p session.ListGrants) ([]session.Grant, error) {
	scan := scanDocument[session.Grant]
	if p.Principal != "" {
		return rows(ctx, t, scan, sqlGrantsOf, p.Principal, p.About, p.After.About, p.PageLimit())
	}
	return rows(ctx, t, scan, sqlGrants, p.About, p.After.Principal, p.PageLimit())
}

// PutGrant writes a grant.
func (t *tx) PutGrant(ctx context.Context, p session.PutGrant) error {
	v := p.Grant
	v.At = store.CutTime(v.At)
	body, err := document(v)
	if err != nil {
		return err
	}
	return t.exec(ctx, sqlPutGrant, v.Principal, v.About, body)
}

// DeleteGrant takes a grant away if it is there.
func (t *tx) DeleteGrant(ctx context.Context, p session.DeleteGrant) error {
	return t.exec(ctx, sqlDeleteGrant, p.Principal, p.About)
}

// HandoffByID finds one by its whole id.
func (t *tx) HandoffByID(ctx context.Context, p session.ByID) (session.Handoff, error) {
	found, err := rows(ctx, t, scanDocument[session.Handoff], sqlHandoffByID, p.ID)
	if err != nil {
		return session.Handoff{}, err
	}
	if len(found) == 0 {
		return session.Handoff{}, session.HandoffUnknown(p.ID)
	}
	return found[0], nil
}

// PutHandoff writes a hand-over whole, unless the stored one is used.
func (t *tx) PutHandoff(ctx context.Context, p session.PutHandoff) error {
	v := p.Handoff
	v.Made, v.Expires, v.Used = store.CutTime(v.Made), store.CutTime(v.Expires), store.CutTime(v.Used)
	body, err := document(v)
	if err != nil {
		return err
	}
	n, err := t.affect(ctx, sqlPutHandoff, v.ID, v.UsedBy != "", body)
	if err != nil {
		return describe(err, t.path)
	}
	if n == 0 {
		return session.HandoffUsed(v.ID)
	}
	return nil
}

// WorkPlans is one page in order of id.
func (t *tx) WorkPlans(ctx context.Context, p session.ListWorkPlans) ([]session.WorkPlan, error) {
	return rows(ctx, t, scanDocument[session.WorkPlan], sqlWorkPlans, p.Session, p.State, p.After, p.PageLimit())
}

// WorkPlanByID finds one.
func (t *tx) WorkPlanByID(ctx context.Context, p session.ByID) (session.WorkPlan, error) {
	return byPrefix(ctx, t, scanDocument[session.WorkPlan], sqlWorkPlanByID, p.ID, func(v session.WorkPlan) string { return v.ID }, session.WorkPlanUnknown, session.WorkPlanAmbiguous)
}

// PutWorkPlan writes a plan whole, if it is the next version of one that is open.
func (t *tx) PutWorkPlan(ctx context.Context, p session.PutWorkPlan) error {
	v := p.Plan
	v.Created, v.Changed = store.CutTime(v.Created), store.CutTime(v.Changed)
	var (
		state   session.PlanState
		version int
	)
	err := t.one(ctx, sqlWorkPlanAt, v.ID, &state, &version)
	switch {
	case err != nil:
		return err
	case state != "" && state != session.PlanOpen:
		return session.WorkPlanFinal(v.ID)
	case v.Version != version+1:
		return session.WorkPlanStale(v.ID)
	}
	body, err := document(v)
	if err != nil {
		return err
	}
	return t.exec(ctx, sqlPutWorkPlan, v.ID, v.Session, v.State, v.Version, body)
}

// Artifacts is one page, the newest first.
func (t *tx) Artifacts(ctx context.Context, p session.ListArtifacts) ([]session.Artifact, error) {
	if p.Session != "" {
		return rows(ctx, t, scanDocument[session.Artifact], sqlArtifactsOfSession, p.Session, p.Before, p.PageLimit())
	}
	return rows(ctx, t, scanDocument[session.Artifact], sqlArtifactsOfProject, p.Project, p.Before, p.PageLimit())
}

// ArtifactByID finds one.
func (t *tx) ArtifactByID(ctx context.Context, p session.ByID) (session.Artifact, error) {
	v, err := scanDocument[session.Artifact](t.row(ctx, sqlArtifactByID, p.ID))
	if errors.Is(err, sql.ErrNoRows) {
		return v, session.ArtifactUnknown(p.ID)
	}
	return v, describe(err, t.path)
}

// PutArtifact writes an artifact, which then stays as it is.
func (t *tx) PutArtifact(ctx context.Context, p session.PutArtifact) error {
	v := p.Artifact
	v.Registered = store.CutTime(v.Registered)
	body, err := document(v)
	if err != nil {
		return err
	}
	n, err := t.affect(ctx, sqlPutArtifact, v.ID, v.Project, v.Session, body)
	if err != nil {
		return describe(err, t.path)
	}
	if n == 0 {
		return session.ArtifactFinal(v.ID)
	}
	return nil
}
