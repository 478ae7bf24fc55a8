package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"mcpx/internal/operation"
	"mcpx/internal/store"
)

// The statements of the ledger.
const (
	sqlOperationByName = `SELECT seq, body FROM operations WHERE namespace = ? AND id = ?`
	sqlOperations      = `SELECT seq, body FROM operations WHERE (?1 = '' OR namespace = ?1) AND (?2 = '' OR session = ?2)
		AND (?3 = '[]' OR state IN (SELECT value FROM json_each(?3))) AND seq < ?4 ORDER BY seq DESC LIMIT ?5`
	sqlOperationsOfPrint = `SELECT seq, body FROM operations WHERE print = ?1 AND (?2 = '' OR namespace = ?2) AND (?3 = '' OR session = ?3)
		AND (?4 = '[]' OR state IN (SELECT value FROM json_each(?4))) AND seq < ?5 ORDER BY seq DESC LIMIT ?6`
	sqlOpenOperations = `SELECT seq, body FROM operations WHERE state NOT IN ('succeeded', 'failed') AND (?1 = '' OR namespace = ?1) AND (?2 = '' OR session = ?2)
		AND (?3 = '[]' OR state IN (SELECT value FROM json_each(?3))) AND (?4 = '' OR print = ?4) AND seq < ?5 ORDER BY seq DESC LIMIT ?6`
	sqlWholeOperations = `SELECT seq, body FROM operations WHERE state IN ('succeeded', 'failed') AND NOT shrunk AND seq > ? ORDER BY seq LIMIT ?`
	sqlPutOperation    = `INSERT INTO operations (namespace, id, session, print, state, shrunk, body) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (namespace, id) DO UPDATE SET session = excluded.session, print = excluded.print, state = excluded.state, shrunk = excluded.shrunk, body = excluded.body
		WHERE operations.state NOT IN ('succeeded', 'failed') OR operations.state = excluded.state AND operations.print = excluded.print`
	sqlReleaseOperation = `DELETE FROM operations WHERE namespace = ? AND id = ? AND state = 'claimed'`

	sqlKeptResult = `SELECT media, sha256, made_us, bytes FROM results WHERE principal = ? AND ref = ?`
	sqlKeepResult = `INSERT INTO results (principal, ref, media, sha256, made_us, bytes) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (principal, ref) DO UPDATE SET made_us = excluded.made_us`
	sqlKeptBefore = `SELECT principal, ref, made_us, length(bytes) FROM results
		WHERE made_us < ?1 AND (made_us, principal, ref) > (?2, ?3, ?4) ORDER BY made_us, principal, ref LIMIT ?5`
	sqlDropResult = `DELETE FROM results WHERE principal = ? AND ref = ?`
)

var scanOperation = scanNumbered(func(o *operation.Operation) *uint64 { return &o.Seq })

// OperationByName finds one.
func (t *tx) OperationByName(ctx context.Context, p operation.ByName) (operation.Operation, error) {
	o, err := scanOperation(t.row(ctx, sqlOperationByName, p.Namespace, p.ID))
	if errors.Is(err, sql.ErrNoRows) {
		return operation.Operation{}, operation.UnknownName(p.Name)
	}
	return o, describe(err, t.path)
}

// Operations is one page, the newest first.
func (t *tx) Operations(ctx context.Context, p operation.ListOperations) ([]operation.Operation, error) {
	in, err := stateList(p.States)
	if err != nil {
		return nil, err
	}
	before := beforeOr(p.Before)
	if p.Open {
		return rows(ctx, t, scanOperation, sqlOpenOperations, p.Namespace, p.Session, in, p.Print, before, p.PageLimit())
	}
	if p.Print != "" {
		return rows(ctx, t, scanOperation, sqlOperationsOfPrint, p.Print, p.Namespace, p.Session, in, before, p.PageLimit())
	}
	return rows(ctx, t, scanOperation, sqlOperations, p.Namespace, p.Session, in, before, p.PageLimit())
}

// WholeOperations is one page, the oldest first.
func (t *tx) WholeOperations(ctx context.Context, p operation.ListWhole) ([]operation.Operation, error) {
	return rows(ctx, t, scanOperation, sqlWholeOperations, p.After, p.PageLimit())
}

// PutOperation writes an operation whole, unless the stored one has ended otherwise.
func (t *tx) PutOperation(ctx context.Context, p operation.PutOperation) error {
	o := p.Operation
	o.Claimed, o.Begun, o.Ended = store.CutTime(o.Claimed), store.CutTime(o.Begun), store.CutTime(o.Ended)
	o.Purged, o.Shrunk = store.CutTime(o.Purged), store.CutTime(o.Shrunk)
	body, err := document(o)
	if err != nil {
		return err
	}
	n, err := t.affect(ctx, sqlPutOperation, o.Namespace, o.ID, o.Session, o.Print, o.State, !o.Whole(), body)
	if err != nil {
		return describe(err, t.path)
	}
	if n == 0 {
		return operation.IsFinal(o.Name)
	}
	return nil
}

// ReleaseOperation removes a claim.
func (t *tx) ReleaseOperation(ctx context.Context, p operation.ByName) error {
	n, err := t.affect(ctx, sqlReleaseOperation, p.Namespace, p.ID)
	if err != nil || n > 0 {
		return describe(err, t.path)
	}
	if _, err := t.OperationByName(ctx, p); err == nil {
		return operation.IsFinal(p.Name)
	}
	return nil
}

// KeptResult finds one.
func (t *tx) KeptResult(ctx context.Context, p operation.KeptByRef) (operation.Kept, error) {
	k := operation.Kept{Ref: p.Ref, Principal: p.Principal}
	var made int64
	err := t.row(ctx, sqlKeptResult, p.Principal, p.Ref).Scan(&k.Media, &k.SHA256, &made, &k.Bytes)
	if errors.Is(err, sql.ErrNoRows) {
		return operation.Kept{}, operation.UnknownResult(p.Ref)
	}
	k.Made = fromMicros(made)
	return k, describe(err, t.path)
}

// KeepResult writes one.
func (t *tx) KeepResult(ctx context.Context, p operation.KeepResult) error {
	r := p.Result
	return t.exec(ctx, sqlKeepResult, r.Principal, r.Ref, r.Media, r.SHA256, micros(r.Made), r.Bytes)
}

// KeptBefore is one page, the oldest first.
func (t *tx) KeptBefore(ctx context.Context, p operation.ListKept) ([]operation.KeptSize, error) {
	return rows(ctx, t, func(row scanner) (k operation.KeptSize, err error) {
		var made int64
		err = row.Scan(&k.Principal, &k.Ref, &made, &k.Size)
		k.Made = fromMicros(made)
		return k, err
	}, sqlKeptBefore, micros(p.Before), micros(p.After.Made), p.After.Principal, p.After.Ref, p.PageLimit())
}

// DropResult removes one.
func (t *tx) DropResult(ctx context.Context, p operation.KeptByRef) error {
	return t.exec(ctx, sqlDropResult, p.Principal, p.Ref)
}
