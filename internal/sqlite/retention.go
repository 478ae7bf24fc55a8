package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"mcpx/internal/retention"
	"mcpx/internal/store"
)

// The statements of the state of retention. It is one row.
const (
	sqlRetentionState    = `SELECT body FROM retention WHERE id = 1`
	sqlPutRetentionState = `INSERT INTO retention (id, body) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body`
)

// RetentionState reads it.
func (t *tx) RetentionState(ctx context.Context) (retention.State, error) {
	s, err := scanDocument[retention.State](t.row(ctx, sqlRetentionState))
	if errors.Is(err, sql.ErrNoRows) {
		return retention.State{}, nil
	}
	return s, describe(err, t.path)
}

// PutRetentionState writes it.
func (t *tx) PutRetentionState(ctx context.Context, p retention.PutState) error {
	p.State.Last.At = store.CutTime(p.State.Last.At)
	body, err := document(p.State)
	if err != nil {
		return err
	}
	return t.exec(ctx, sqlPutRetentionState, body)
}
