package daemon

import (
	"context"
	"errors"

	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// sessions keeps the transport sessions of the gateway in the database.
type sessions struct{ db store.DB }

// Save writes one session durably. One on a server that is in no catalog (`mcpx up` offers such) is not kept: the next
// daemon would not know the server.
func (s sessions) Save(ctx context.Context, one store.Session) error {
	err := s.db.Change(ctx, func(tx store.Tx) error { return tx.PutSession(ctx, store.PutSession{Session: one}) })
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind == fault.NotFound {
		return nil
	}
	return err
}

// Forget removes a session; one that is not there is no error.
func (s sessions) Forget(ctx context.Context, id string) error {
	return s.db.Change(ctx, func(tx store.Tx) error { return tx.DeleteSession(ctx, store.DeleteSession{ID: id}) })
}

// All gives every session that was kept, in order of creation.
func (s sessions) All(ctx context.Context) (all []store.Session, err error) {
	err = s.db.View(ctx, func(r store.Reader) error {
		all, err = store.AllSessions(ctx, r)
		return err
	})
	return all, err
}
