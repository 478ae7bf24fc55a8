package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// The statements of plans, receipts, agents and observations.
const (
	sqlPlans    = `SELECT body FROM plans WHERE seq < ? ORDER BY seq DESC LIMIT ?`
	sqlPlansIn  = `SELECT body FROM plans WHERE state = ?1 AND seq < ?3 AND (?2 = '' OR agent = ?2) ORDER BY seq DESC LIMIT ?4`
	sqlPlansOf  = `SELECT body FROM plans WHERE agent = ? AND seq < ? ORDER BY seq DESC LIMIT ?`
	sqlPlanSeq  = `SELECT seq FROM plans WHERE id = ?`
	sqlPlanByID = `SELECT body FROM plans WHERE id >= ? AND id < ? ORDER BY id LIMIT 2`
	sqlPutPlan  = `INSERT INTO plans (id, state, agent, body) VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, agent = excluded.agent, body = excluded.body`

	sqlReceipts       = `SELECT body FROM receipts WHERE seq < ? ORDER BY seq DESC LIMIT ?`
	sqlReceiptsIn     = `SELECT body FROM receipts WHERE state = ?1 AND seq < ?3 AND (?2 = '' OR plan = ?2) ORDER BY seq DESC LIMIT ?4`
	sqlReceiptsOf     = `SELECT body FROM receipts WHERE plan = ? AND seq < ? ORDER BY seq DESC LIMIT ?`
	sqlReceiptsOfPath = `SELECT r.body FROM receipt_paths p CROSS JOIN receipts r ON r.seq = p.seq
		WHERE p.path = ?1 AND p.seq < ?4 AND (?2 = '' OR r.state = ?2) AND (?3 = '' OR r.plan = ?3) ORDER BY p.seq DESC LIMIT ?5`
	sqlReceiptSeq  = `SELECT seq FROM receipts WHERE id = ?`
	sqlReceiptByID = `SELECT body FROM receipts WHERE id >= ? AND id < ? ORDER BY id LIMIT 2`
	sqlPutReceipt  = `INSERT INTO receipts (id, state, plan, body) VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, plan = excluded.plan, body = excluded.body`
	sqlFreePaths = `DELETE FROM receipt_paths WHERE seq = ?`
	sqlTakePath  = `INSERT OR IGNORE INTO receipt_paths (path, seq) VALUES (?, ?)`

	sqlAgents   = `SELECT body FROM agents WHERE agent >= '' ORDER BY agent`
	sqlPutAgent = `INSERT INTO agents (agent, body) VALUES (?, ?) ON CONFLICT (agent) DO UPDATE SET body = excluded.body`

	sqlFiles   = `SELECT body FROM observed_files WHERE agent >= '' ORDER BY agent, path`
	sqlFilesOf = `SELECT body FROM observed_files WHERE agent = ? ORDER BY path`
	sqlPutFile = `INSERT INTO observed_files (agent, path, body) VALUES (?, ?, ?)
		ON CONFLICT (agent, path) DO UPDATE SET body = excluded.body`
	sqlDeleteFile = `DELETE FROM observed_files WHERE agent = ? AND path = ?`
)

// before gives the seq of the row that a page ends at, newest for the first page.
func (t *tx) before(ctx context.Context, query, id string, unknown func(string) *fault.Error) (int64, error) {
	if id == "" {
		return newest, nil
	}
	var seq int64
	err := t.row(ctx, query, id).Scan(&seq)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, unknown(id)
	}
	return seq, describe(err, t.path)
}

// Plans is one page, the newest first.
func (t *tx) Plans(ctx context.Context, p converge.ListPlans) ([]converge.Plan, error) {
	before, err := t.before(ctx, sqlPlanSeq, p.Before, converge.PlanUnknown)
	if err != nil {
		return nil, err
	}
	scan := scanDocument[converge.Plan]
	switch {
	case p.State != "":
		return rows(ctx, t, scan, sqlPlansIn, p.State, p.Agent, before, p.PageLimit())
	case p.Agent != "":
		return rows(ctx, t, scan, sqlPlansOf, p.Agent, before, p.PageLimit())
	}
	return rows(ctx, t, scan, sqlPlans, before, p.PageLimit())
}

// PlanByID finds one.
func (t *tx) PlanByID(ctx context.Context, p converge.PlanByID) (converge.Plan, error) {
	return byPrefix(ctx, t, scanDocument[converge.Plan], sqlPlanByID, p.ID, func(p converge.Plan) string { return p.ID }, converge.PlanUnknown, converge.PlanAmbiguous)
}

// PutPlan writes a plan whole; its place among the plans is that of the first put.
func (t *tx) PutPlan(ctx context.Context, p converge.PutPlan) error {
	v := p.Plan
	v.Made = store.CutTime(v.Made)
	body, err := document(v)
	if err != nil {
		return err
	}
	return t.exec(ctx, sqlPutPlan, v.ID, v.State, v.Agent, body)
}

// Receipts is one page, the newest first.
func (t *tx) Receipts(ctx context.Context, p converge.ListReceipts) ([]converge.Receipt, error) {
	before, err := t.before(ctx, sqlReceiptSeq, p.Before, converge.ReceiptUnknown)
	if err != nil {
		return nil, err
	}
	scan := scanDocument[converge.Receipt]
	switch {
	case p.Path != "":
		return rows(ctx, t, scan, sqlReceiptsOfPath, p.Path, p.State, p.Plan, before, p.PageLimit())
	case p.State != "":
		return rows(ctx, t, scan, sqlReceiptsIn, p.State, p.Plan, before, p.PageLimit())
	case p.Plan != "":
		return rows(ctx, t, scan, sqlReceiptsOf, p.Plan, before, p.PageLimit())
	}
	return rows(ctx, t, scan, sqlReceipts, before, p.PageLimit())
}

// ReceiptByID finds one.
func (t *tx) ReceiptByID(ctx context.Context, p converge.ReceiptByID) (converge.Receipt, error) {
	return byPrefix(ctx, t, scanDocument[converge.Receipt], sqlReceiptByID, p.ID, func(r converge.Receipt) string { return r.ID }, converge.ReceiptUnknown, converge.ReceiptAmbiguous)
}

// PutReceipt writes a receipt whole, and the paths by which it is found.
func (t *tx) PutReceipt(ctx context.Context, p converge.PutReceipt) error {
	v := p.Receipt
	v.Started, v.Ended = store.CutTime(v.Started), store.CutTime(v.Ended)
	body, err := document(v)
	if err != nil {
		return err
	}
	if err := t.exec(ctx, sqlPutReceipt, v.ID, v.State, v.Plan, body); err != nil {
		return err
	}
	seq, err := t.before(ctx, sqlReceiptSeq, v.ID, converge.ReceiptUnknown)
	if err != nil {
		return err
	}
	if err := t.exec(ctx, sqlFreePaths, seq); err != nil {
		return err
	}
	for _, f := range v.Files {
		if err := t.exec(ctx, sqlTakePath, f.Real, seq); err != nil {
			return err
		}
	}
	return nil
}

// AgentRecords are all agents that something is decided about.
func (t *tx) AgentRecords(ctx context.Context) ([]converge.AgentRecord, error) {
	return rows(ctx, t, scanDocument[converge.AgentRecord], sqlAgents)
}

// PutAgentRecord writes what is decided about an agent.
func (t *tx) PutAgentRecord(ctx context.Context, p converge.PutAgentRecord) error {
	v := p.Record
	v.Since = store.CutTime(v.Since)
	body, err := document(v)
	if err != nil {
		return err
	}
	return t.exec(ctx, sqlPutAgent, v.Agent, body)
}

// FileRecords are the observations of one agent, or of all.
func (t *tx) FileRecords(ctx context.Context, p converge.ListFileRecords) ([]converge.FileRecord, error) {
	if p.Agent == "" {
		return rows(ctx, t, scanDocument[converge.FileRecord], sqlFiles)
	}
	return rows(ctx, t, scanDocument[converge.FileRecord], sqlFilesOf, p.Agent)
}

// PutFileRecord writes the observation of a file.
func (t *tx) PutFileRecord(ctx context.Context, p converge.PutFileRecord) error {
	v := p.Record
	v.Seen = store.CutTime(v.Seen)
	v.Gone = append([]converge.Tombstone(nil), v.Gone...)
	for i := range v.Gone {
		v.Gone[i].LastSeen = store.CutTime(v.Gone[i].LastSeen)
	}
	body, err := document(v)
	if err != nil {
		return err
	}
	return t.exec(ctx, sqlPutFile, v.File.Agent, v.File.Path, body)
}

// DeleteFileRecord forgets a file if it is there.
func (t *tx) DeleteFileRecord(ctx context.Context, p converge.DeleteFileRecord) error {
	return t.exec(ctx, sqlDeleteFile, p.Agent, p.Path)
}
