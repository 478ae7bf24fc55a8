package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/crash"
	"mcpx/internal/fault"
)

//go:embed migrations/*.sql
var files embed.FS

// migration is one numbered step of the schema. A released one is never edited: its checksum is stored.
type migration struct {
	number int
	name   string
	sql    string
}

func (m migration) checksum() string {
	sum := sha256.Sum256([]byte(m.sql))
	return hex.EncodeToString(sum[:])
}

// embedded lists the steps of this build: 0001_base.sql and so on, without a gap.
func embedded() ([]migration, error) {
	entries, err := fs.ReadDir(files, "migrations") // sorted by name
	if err != nil {
		return nil, fmt.Errorf("sqlite: embedded migrations: %w", err)
	}
	steps := make([]migration, 0, len(entries))
	for i, e := range entries {
		digits, name, ok := strings.Cut(strings.TrimSuffix(e.Name(), ".sql"), "_")
		number, err := strconv.Atoi(digits)
		if !ok || err != nil || number != i+1 {
			return nil, fmt.Errorf("sqlite: embedded migration %s, want number %d", e.Name(), i+1)
		}
		text, err := files.ReadFile("migrations/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("sqlite: embedded migrations: %w", err)
		}
		steps = append(steps, migration{number: number, name: name, sql: string(text)})
	}
	return steps, nil
}

const sqlMigrations = `
CREATE TABLE IF NOT EXISTS schema_migrations (
	number     INTEGER PRIMARY KEY,
	name       TEXT    NOT NULL,
	checksum   TEXT    NOT NULL,
	applied_us INTEGER NOT NULL
) STRICT`

// checkForeign refuses a file of another program, and a damaged one, before anything writes to it.
func checkForeign(ctx context.Context, path string) (err error) {
	look, err := lookPool(path)
	if err != nil {
		return describe(err, path)
	}
	defer func() { err = errors.Join(err, look.Close()) }()
	var app, tables int
	if err := look.QueryRowContext(ctx, "PRAGMA application_id").Scan(&app); err != nil {
		return describe(err, path)
	}
	if err := look.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return describe(err, path)
	}
	if app != applicationID && (app != 0 || tables > 0) {
		return fault.New(fault.Conflict, "store-foreign").
			Saying("%s is a database of another program", path).
			Hinting("move it away or choose another MCPX_HOME; it was not touched")
	}
	return nil
}

// migrate brings the file to the last step, each step in its own transaction, after one backup.
func migrate(ctx context.Context, w *sql.DB, c Config, steps []migration) error {
	done, err := applied(ctx, w)
	if err != nil {
		return describe(err, c.Path)
	}
	if err := known(c, steps, done); err != nil {
		return err
	}
	if len(done) == len(steps) {
		return nil
	}
	if len(done) > 0 { // a file without a step holds nothing to lose
		if err := backup(ctx, w, c, len(done)); err != nil {
			return err
		}
	}
	for _, m := range steps[len(done):] {
		if err := apply(ctx, w, c, m); err != nil {
			return err
		}
	}
	return nil
}

// applied lists the checksums of the steps that the file has, in order.
func applied(ctx context.Context, w *sql.DB) ([]string, error) {
	var n int
	err := w.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = 'schema_migrations'").Scan(&n)
	if err != nil || n == 0 {
		return nil, err
	}
	return texts(ctx, w, "SELECT checksum FROM schema_migrations ORDER BY number")
}

func apply(ctx context.Context, w *sql.DB, c Config, m migration) error {
	ctx = context.WithoutCancel(ctx) // a step is short; interrupted ones are rolled back, but need not happen
	t, err := w.BeginTx(ctx, nil)
	if err != nil {
		return describe(err, c.Path)
	}
	defer func() { _ = t.Rollback() }() // a no-op after the commit
	run := func(query string, args ...any) {
		if err == nil {
			_, err = t.ExecContext(ctx, query, args...)
		}
	}
	run(sqlMigrations)
	run(m.sql)
	run("INSERT INTO schema_migrations (number, name, checksum, applied_us) VALUES (?, ?, ?, ?)",
		m.number, m.name, m.checksum(), c.Now().UnixMicro())
	run(fmt.Sprintf("PRAGMA application_id = %d", applicationID))
	run(fmt.Sprintf("PRAGMA user_version = %d", m.number))
	if err != nil {
		return fault.New(fault.Internal, "schema-step").
			Saying("step %d (%s) of the schema failed on %s; the file is as before", m.number, m.name, c.Path).
			Hinting("report this; until then start the mcpx that wrote the file").Because(err)
	}
	if err := orphans(ctx, t, c.Path); err != nil {
		return err
	}
	crash.Point("sqlite.migrate-commit")
	err = t.Commit()
	crash.Point("sqlite.migrated")
	return describe(err, c.Path)
}

// backup writes a consistent copy, WAL included, and makes it durable before the schema changes.
func backup(ctx context.Context, w *sql.DB, c Config, from int) error {
	failed := func(err error) error {
		return fault.New(fault.Unavailable, "backup-failed").
			Saying("no backup of %s could be made in %s, so the schema was not changed", c.Path, c.Backups).
			Hinting("free some disk space or correct the permissions of the directory").Because(err)
	}
	if err := os.MkdirAll(c.Backups, 0o700); err != nil {
		return failed(err)
	}
	name := fmt.Sprintf("mcpx-schema%d-%s.db", from, c.Now().UTC().Format("20060102T150405.000000Z"))
	path := filepath.Join(c.Backups, name)
	// VACUUM INTO accepts an empty file, and keeps its mode.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return failed(err)
	}
	_, err = w.ExecContext(context.WithoutCancel(ctx), "VACUUM INTO ?", path)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return failed(errors.Join(err, os.Remove(path)))
	}
	if err := syncDir(c.Backups); err != nil {
		return failed(err)
	}
	return nil
}

// syncDir makes the name of a new file durable. Windows has no such call and does not need it.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// micros is a time as it is stored; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// fromMicros reads what micros wrote.
func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
