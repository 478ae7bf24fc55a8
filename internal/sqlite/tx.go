package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// tx is one running transaction. It implements every Store port; which of them fn can see is decided by View and
// Change.
type tx struct {
	lane *lane
	path string
	last event.Event // the end of the chain, once this transaction has added to it
}

var _ store.Tx = (*tx)(nil)

// The statements. TestStatements explains each of them on a fresh schema.
const (
	sqlServers      = `SELECT entry, created_us, updated_us FROM servers WHERE name > ? ORDER BY name LIMIT ?`
	sqlServerByID   = `SELECT entry, created_us, updated_us FROM servers WHERE id = ?`
	sqlServerByName = `SELECT s.entry, s.created_us, s.updated_us FROM server_names n JOIN servers s ON s.id = n.server_id WHERE n.name = ?`
	sqlPutServer    = `INSERT INTO servers (id, name, entry, created_us, updated_us) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, entry = excluded.entry,
		created_us = excluded.created_us, updated_us = excluded.updated_us`
	sqlDeleteServer = `DELETE FROM servers WHERE id = ?`
	sqlNameOwner    = `SELECT s.id, s.name FROM server_names n JOIN servers s ON s.id = n.server_id WHERE n.name = ?`
	sqlFreeNames    = `DELETE FROM server_names WHERE server_id = ?`
	sqlTakeName     = `INSERT INTO server_names (name, server_id) VALUES (?, ?)`

	sqlSessions = `SELECT seq, id, server_id, principal, agent, workspace, instance, version, lane, initial, answer, setup, created_us
		FROM sessions WHERE seq > ? ORDER BY seq LIMIT ?`
	sqlSessionsOf = `SELECT seq, id, server_id, principal, agent, workspace, instance, version, lane, initial, answer, setup, created_us
		FROM sessions WHERE server_id = ? AND seq > ? ORDER BY seq LIMIT ?`
	sqlUpdateSession = `UPDATE sessions SET server_id = ?, principal = ?, agent = ?, workspace = ?, instance = ?, version = ?, lane = ?,
		initial = ?, answer = ?, setup = ? WHERE id = ?`
	sqlInsertSession = `INSERT INTO sessions (server_id, principal, agent, workspace, instance, version, lane, initial, answer, setup, id, created_us)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlDeleteSession = `DELETE FROM sessions WHERE id = ?`

	sqlEpoch      = `SELECT value FROM meta WHERE name = 'epoch'`
	sqlRaiseEpoch = `UPDATE meta SET value = value + 1 WHERE name = 'epoch' RETURNING value`
)

type scanner interface{ Scan(dest ...any) error }

func scanServer(row scanner) (catalog.Server, error) {
	var (
		entry            []byte
		created, updated int64
		s                catalog.Server
	)
	if err := row.Scan(&entry, &created, &updated); err != nil {
		return s, err
	}
	if err := json.Unmarshal(entry, &s); err != nil {
		return s, fmt.Errorf("stored server entry: %w", err)
	}
	s.Created, s.Updated = fromMicros(created), fromMicros(updated)
	return s, nil
}

// Servers is one page sorted by name.
func (t *tx) Servers(ctx context.Context, p catalog.ListServers) ([]catalog.Server, error) {
	return rows(ctx, t, scanServer, sqlServers, p.After, p.PageLimit())
}

// ServerByName finds an entry by name or alias.
func (t *tx) ServerByName(ctx context.Context, p catalog.ServerByName) (catalog.Server, error) {
	return t.server(ctx, p.Name, sqlServerByName, p.Name)
}

// ServerByID finds an entry by id.
func (t *tx) ServerByID(ctx context.Context, p catalog.ServerByID) (catalog.Server, error) {
	return t.server(ctx, p.ID, sqlServerByID, p.ID)
}

func (t *tx) server(ctx context.Context, what, query, arg string) (catalog.Server, error) {
	s, err := scanServer(t.row(ctx, query, arg))
	if errors.Is(err, sql.ErrNoRows) {
		return catalog.Server{}, catalog.Unknown(what)
	}
	return s, describe(err, t.path)
}

// PutServer writes an entry and takes its names.
func (t *tx) PutServer(ctx context.Context, p catalog.PutServer) error {
	s := p.Server
	created, updated := micros(s.Created), micros(s.Updated)
	s.Created, s.Updated = fromMicros(0), fromMicros(0)
	names := append([]string{s.Name}, s.Aliases...)
	for _, name := range names {
		var id, owner string
		err := t.row(ctx, sqlNameOwner, name).Scan(&id, &owner)
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return describe(err, t.path)
		case id != s.ID:
			return catalog.Taken(name, owner)
		}
	}
	entry, err := json.Marshal(s)
	if err != nil {
		return fault.New(fault.Internal, "store-failed").Saying("the entry %s cannot be stored", s.Name).Because(err)
	}
	if err := t.exec(ctx, sqlPutServer, s.ID, s.Name, entry, created, updated); err != nil {
		return err
	}
	if err := t.exec(ctx, sqlFreeNames, s.ID); err != nil {
		return err
	}
	for _, name := range names {
		if err := t.exec(ctx, sqlTakeName, name, s.ID); err != nil {
			return err
		}
	}
	return nil
}

// DeleteServer removes an entry, its names and its sessions.
func (t *tx) DeleteServer(ctx context.Context, p catalog.DeleteServer) error {
	n, err := t.affect(ctx, sqlDeleteServer, p.ID)
	if err != nil {
		return describe(err, t.path)
	}
	if n == 0 {
		return catalog.Unknown(p.ID)
	}
	return nil
}

func scanSession(row scanner) (store.Session, error) {
	var s store.Session
	var created int64
	err := row.Scan(&s.Seq, &s.ID, &s.Server, &s.Principal, &s.Agent, &s.Workspace, &s.Instance, &s.Version, &s.Lane, &s.Initial,
		&s.Answer, &s.Setup, &created)
	s.Created = fromMicros(created)
	return s, err
}

// Sessions is one page in order of creation.
func (t *tx) Sessions(ctx context.Context, p store.ListSessions) ([]store.Session, error) {
	if p.Server != "" {
		return rows(ctx, t, scanSession, sqlSessionsOf, p.Server, p.After, p.PageLimit())
	}
	return rows(ctx, t, scanSession, sqlSessions, p.After, p.PageLimit())
}

// PutSession writes a session; the first put gives Seq and Created.
func (t *tx) PutSession(ctx context.Context, p store.PutSession) error {
	s := p.Session
	// A nil slice would be NULL; the ports know only bytes.
	args := []any{
		s.Server, s.Principal, s.Agent, s.Workspace, s.Instance, s.Version, s.Lane, append([]byte{}, s.Initial...),
		append([]byte{}, s.Answer...), append([]byte{}, s.Setup...), s.ID,
	}
	n, err := t.affect(ctx, sqlUpdateSession, args...)
	if err == nil && n == 0 {
		_, err = t.affect(ctx, sqlInsertSession, append(args, micros(s.Created))...)
	}
	if isConstraint(err) { // the only rule of the row that a value can break
		return catalog.Unknown(s.Server).Because(err)
	}
	return describe(err, t.path)
}

// DeleteSession removes a session if it is there.
func (t *tx) DeleteSession(ctx context.Context, p store.DeleteSession) error {
	return t.exec(ctx, sqlDeleteSession, p.ID)
}

// Epoch reads the start counter.
func (t *tx) Epoch(ctx context.Context) (store.Epoch, error) { return t.epoch(ctx, sqlEpoch) }

// RaiseEpoch adds one to the start counter.
func (t *tx) RaiseEpoch(ctx context.Context) (store.Epoch, error) { return t.epoch(ctx, sqlRaiseEpoch) }

func (t *tx) epoch(ctx context.Context, query string) (store.Epoch, error) {
	var e store.Epoch
	err := t.row(ctx, query).Scan(&e)
	return e, describe(err, t.path)
}

// row reads one row at most; its Scan gives every error, and sql.ErrNoRows for none.
func (t *tx) row(ctx context.Context, query string, args ...any) scanner {
	s, err := t.lane.prepared(ctx, query) //nolint:sqlclosecheck // it is closed with the lane
	if err != nil {
		return noRow{err}
	}
	return s.QueryRowContext(context.WithoutCancel(ctx), args...)
}

// noRow is the row of a statement that could not be compiled.
type noRow struct{ err error }

func (r noRow) Scan(...any) error { return r.err }

// affect runs a statement and gives the number of rows it touched; its error is the driver's.
func (t *tx) affect(ctx context.Context, query string, args ...any) (int64, error) {
	s, err := t.lane.prepared(ctx, query) //nolint:sqlclosecheck // it is closed with the lane
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(context.WithoutCancel(ctx), args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (t *tx) exec(ctx context.Context, query string, args ...any) error {
	_, err := t.affect(ctx, query, args...)
	return describe(err, t.path)
}

// rows reads one page.
func rows[T any](ctx context.Context, t *tx, scan func(scanner) (T, error), query string, args ...any) (_ []T, err error) {
	s, err := t.lane.prepared(ctx, query) //nolint:sqlclosecheck // it is closed with the lane
	if err != nil {
		return nil, describe(err, t.path)
	}
	r, err := s.QueryContext(context.WithoutCancel(ctx), args...)
	if err != nil {
		return nil, describe(err, t.path)
	}
	defer func() { err = describe(errors.Join(err, r.Close()), t.path) }()
	var all []T
	for r.Next() {
		v, err := scan(r)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, r.Err()
}
