package sqlite

import (
	"context"

	"mcpx/internal/approval"
	"mcpx/internal/store"
)

// The statements of approvals.
const (
	sqlApprovals      = `SELECT body FROM approvals WHERE id > ? ORDER BY id LIMIT ?`
	sqlApprovalsIn    = `SELECT body FROM approvals WHERE state = ? AND id > ? ORDER BY id LIMIT ?`
	sqlApprovalsAbout = `SELECT body FROM approvals WHERE about = ?1 AND id > ?3 AND (?2 = '' OR state = ?2) ORDER BY id LIMIT ?4`
	sqlApprovalByID   = `SELECT body FROM approvals WHERE id >= ? AND id < ? ORDER BY id LIMIT 2`
	sqlPutApproval    = `INSERT INTO approvals (id, state, about, body) VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, about = excluded.about, body = excluded.body
		WHERE approvals.state IN ('pending', 'approved')`
)

// Approvals is one page in order of id.
func (t *tx) Approvals(ctx context.Context, p approval.ListApprovals) ([]approval.Approval, error) {
	scan := scanDocument[approval.Approval]
	switch {
	case p.About != "":
		return rows(ctx, t, scan, sqlApprovalsAbout, p.About, p.State, p.After, p.PageLimit())
	case p.State != "":
		return rows(ctx, t, scan, sqlApprovalsIn, p.State, p.After, p.PageLimit())
	}
	return rows(ctx, t, scan, sqlApprovals, p.After, p.PageLimit())
}

// ApprovalByID finds one.
func (t *tx) ApprovalByID(ctx context.Context, p approval.ByID) (approval.Approval, error) {
	return byPrefix(ctx, t, scanDocument[approval.Approval], sqlApprovalByID, p.ID, func(a approval.Approval) string { return a.ID }, approval.Unknown, approval.Ambiguous)
}

// PutApproval writes an approval whole, unless the stored one is final.
func (t *tx) PutApproval(ctx context.Context, p approval.PutApproval) error {
	a := p.Approval
	a.Requested, a.Expires, a.Used = store.CutTime(a.Requested), store.CutTime(a.Expires), store.CutTime(a.Used)
	if a.Decision != nil {
		d := *a.Decision
		d.At = store.CutTime(d.At)
		a.Decision = &d
	}
	body, err := document(a)
	if err != nil {
		return err
	}
	n, err := t.affect(ctx, sqlPutApproval, a.ID, a.State, a.About, body)
	if err != nil {
		return describe(err, t.path)
	}
	if n == 0 {
		return approval.Final(a.ID)
	}
	return nil
}
