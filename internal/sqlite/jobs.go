package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"mcpx/internal/operation"
	"mcpx/internal/store"
)

// The statements of the jobs.
const (
	sqlJobByID = `SELECT seq, body FROM jobs WHERE id = ?`
	sqlJobs    = `SELECT seq, body FROM jobs WHERE (?1 = '' OR principal = ?1) AND (?2 = '' OR operation = ?2) AND (?3 = '' OR session = ?3)
		AND (?4 = '' OR project = ?4) AND seq < ?5 ORDER BY seq DESC LIMIT ?6`
	sqlJobsOfOperation = `SELECT seq, body FROM jobs WHERE principal = ?1 AND operation = ?2 AND seq < ?3 ORDER BY seq DESC LIMIT ?4`
	sqlLiveJobs        = `SELECT seq, body FROM jobs WHERE state IN ('reserved', 'starting', 'running') AND (?1 = '' OR principal = ?1)
		AND (?2 = '' OR operation = ?2) AND (?3 = '' OR session = ?3) AND (?4 = '' OR project = ?4) AND seq < ?5 ORDER BY seq DESC LIMIT ?6`
	sqlPutJob = `INSERT INTO jobs (id, principal, operation, session, project, state, body) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, body = excluded.body
		WHERE jobs.state IN ('reserved', 'starting', 'running') OR jobs.state = excluded.state`
)

var scanJob = scanNumbered(func(j *operation.Job) *uint64 { return &j.Seq })

// JobByID finds one.
func (t *tx) JobByID(ctx context.Context, p operation.JobByID) (operation.Job, error) {
	j, err := scanJob(t.row(ctx, sqlJobByID, p.ID))
	if errors.Is(err, sql.ErrNoRows) {
		return operation.Job{}, operation.UnknownJob(p.ID)
	}
	return j, describe(err, t.path)
}

// Jobs is one page, the newest first.
func (t *tx) Jobs(ctx context.Context, p operation.ListJobs) ([]operation.Job, error) {
	before := beforeOr(p.Before)
	switch {
	case p.Live:
		return rows(ctx, t, scanJob, sqlLiveJobs, p.Principal, p.Operation, p.Session, p.Project, before, p.PageLimit())
	case p.Principal != "" && p.Operation != "" && p.Session == "" && p.Project == "":
		return rows(ctx, t, scanJob, sqlJobsOfOperation, p.Principal, p.Operation, before, p.PageLimit())
	}
	return rows(ctx, t, scanJob, sqlJobs, p.Principal, p.Operation, p.Session, p.Project, before, p.PageLimit())
}

// PutJob writes a job whole, unless the stored one has ended otherwise.
func (t *tx) PutJob(ctx context.Context, p operation.PutJob) error {
	j := p.Job
	j.Reserved, j.Started, j.Ended, j.Cleared = store.CutTime(j.Reserved), store.CutTime(j.Started), store.CutTime(j.Ended), store.CutTime(j.Cleared)
	body, err := document(j)
	if err != nil {
		return err
	}
	n, err := t.affect(ctx, sqlPutJob, j.ID, j.By.Namespace, j.By.ID, j.Session, j.Project, j.State, body)
	if err != nil {
		return describe(err, t.path)
	}
	if n == 0 {
		return operation.JobIsFinal(j.ID)
	}
	return nil
}
