// Package sqlite decides how the rows of mcpx lie in one SQLite file: schema, migrations, statements, durability and
// backup. It refuses to know what the rows mean and who may change them.
//
// Invariant: a Change that returned nil survives a power cut; one that returned an error left no trace.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	driver "modernc.org/sqlite"

	"mcpx/internal/fault"
	"mcpx/internal/store"
)

const (
	// applicationID marks the file as ours ("mcpx" in ASCII), so that another program's database is never migrated.
	applicationID = 0x6d637078

	// busyTimeout bounds the wait for a lock that another process holds. Only the lock holder opens the file, so a
	// wait means a backup tool or a person with a shell; longer than this the caller is told.
	busyTimeout = 5 * time.Second

	// journalLimit keeps a WAL that a long reader made large from staying large.
	journalLimit = 64 << 20

	// checkpointAfter is how many pages the WAL has before they are moved into the file. An operation writes some 17 pages,
	// most of them the same ones again: the longer this waits, the fewer are moved.
	checkpointAfter = 4000

	// maxReaders bounds the reading connections: reads are short, and each connection has its own page cache.
	maxReaders = 4
)

// Config is what Open needs.
type Config struct {
	Path    string           // the database file; its directory must exist
	Backups string           // directory for copies made before a migration; made when needed
	Now     func() time.Time // for the names of backups and the migration record
	// ReadOnly is why nothing may be changed from the start on, neither rows nor schema nor a byte of the file; nil: it may.
	ReadOnly error
}

// DB is a store.DB on one SQLite file: one connection that writes, a few that can only read.
type DB struct {
	store.Bell
	path    string
	writer  *lanes
	turns   turns // of the writer
	readers *lanes
	stopped atomic.Pointer[fault.Error] // why nothing is changed any more; nil: it is
}

var _ store.DB = (*DB)(nil)

// Open opens the file, makes it when it is absent, and migrates it to the schema of this build after a backup. A file
// of a newer build, of another program, or a damaged one is refused untouched, and so is one of an older build that may not be
// changed.
func Open(ctx context.Context, c Config) (*DB, error) {
	steps, err := embedded()
	if err != nil {
		return nil, err
	}
	return open(ctx, c, steps)
}

func open(ctx context.Context, c Config, steps []migration) (*DB, error) {
	_, _ = driver.Fdatasync(true) // as durable as fsync, and without a write for the times of the file; where there is none fsync stays
	if !filepath.IsAbs(c.Path) {
		return nil, fmt.Errorf("sqlite: Config.Path is %q, want an absolute path", c.Path)
	}
	if c.Backups == "" {
		return nil, errors.New("sqlite: Config.Backups is required")
	}
	if c.Now == nil {
		return nil, errors.New("sqlite: Config.Now is required")
	}
	if c.ReadOnly == nil {
		if err := createPrivate(c.Path); err != nil {
			return nil, err
		}
	}
	db := &DB{path: c.Path}
	if err := db.connect(ctx, c, steps); err != nil {
		return nil, errors.Join(describe(err, c.Path), db.Close())
	}
	return db, nil
}

func (db *DB) connect(ctx context.Context, c Config, steps []migration) error {
	// Before the first write (WAL mode is one) look whether the file is ours.
	if err := checkForeign(ctx, c.Path); err != nil {
		return err
	}
	if c.ReadOnly != nil {
		return db.connectReadOnly(ctx, c, steps)
	}
	writer, err := pool(c.Path, false)
	if err != nil {
		return err
	}
	db.writer = newLanes(writer, "BEGIN IMMEDIATE", 1)
	if err := migrate(ctx, writer, c, steps); err != nil {
		return err
	}
	readers, err := pool(c.Path, true)
	if err != nil {
		return err
	}
	db.readers = newLanes(readers, "BEGIN", maxReaders)
	return readers.PingContext(ctx)
}

// connectReadOnly opens a file that is not changed: there is no connection that could.
func (db *DB) connectReadOnly(ctx context.Context, c Config, steps []migration) error {
	readers, err := lookPool(c.Path)
	if err != nil {
		return err
	}
	db.readers = newLanes(readers, "BEGIN", maxReaders)
	done, err := applied(ctx, readers)
	if err != nil {
		return err
	}
	if err := known(c, steps, done); err != nil {
		return err
	}
	if len(done) < len(steps) {
		why := fault.From(c.ReadOnly)
		return fault.New(fault.Unavailable, "schema-older").
			Saying("%s has schema %d of %d, and nothing in it is changed: %s", c.Path, len(done), len(steps), why.Message).
			Hinting("%s", why.Hint).Retrying(fault.AfterFix).Because(c.ReadOnly)
	}
	db.ReadOnly(c.ReadOnly)
	return nil
}

// lookPool opens connections that change no byte of the file: not even what is left in the WAL is moved into it at their end.
// Without a WAL nobody has it open, and a look leaves nothing beside it either.
func lookPool(path string) (*sql.DB, error) {
	q := url.Values{"mode": {"ro"}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "query_only(1)"}}
	if !hasWAL(path) {
		q.Set("immutable", "1")
	}
	return sql.Open("sqlite", dsn(path, q))
}

func hasWAL(path string) bool {
	_, err := os.Stat(path + "-wal")
	return !errors.Is(err, fs.ErrNotExist)
}

// pool opens connections with the pragmas in the order that matters: the timeout first, since the switch to WAL can
// already meet a lock.
func pool(path string, readOnly bool) (*sql.DB, error) {
	pragmas := []string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		"journal_mode(WAL)",
		"synchronous(FULL)",
		"foreign_keys(1)",
		fmt.Sprintf("journal_size_limit(%d)", journalLimit),
		fmt.Sprintf("wal_autocheckpoint(%d)", checkpointAfter),
	}
	if runtime.GOOS == "darwin" { // fsync does not reach the platter there
		pragmas = append(pragmas, "fullfsync(1)", "checkpoint_fullfsync(1)")
	}
	q := url.Values{}
	if readOnly {
		pragmas = append(pragmas, "query_only(1)")
	} else {
		q.Set("_txlock", "immediate")
		pragmas = append(pragmas, "temp_store(MEMORY)") // savepoints keep pages, which need no file
	}
	q["_pragma"] = pragmas
	return sql.Open("sqlite", dsn(path, q))
}

func dsn(path string, q url.Values) string {
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p // a drive letter
	}
	return (&url.URL{Scheme: "file", Path: p, RawQuery: q.Encode()}).String()
}

// createPrivate makes the file with mode 0600 before SQLite can make it with the umask's; WAL and shared memory take
// the mode of the database.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fault.New(fault.Unavailable, "store-open").
			Saying("cannot open the database %s", path).
			Hinting("make sure that its directory exists and belongs to you").Because(err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return fault.New(fault.Unavailable, "store-open").Saying("cannot look at the database %s", path).Because(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return fault.New(fault.Denied, "store-permissions").
			Saying("the database %s can be read by others (mode %04o)", path, info.Mode().Perm()).
			Hinting("run `chmod 600 %s`", path)
	}
	return nil
}

// View runs fn on one snapshot.
func (db *DB) View(ctx context.Context, fn func(store.Reader) error) error {
	l, err := db.readers.take(ctx)
	if err != nil {
		return describe(err, db.path)
	}
	if err := l.exec(db.readers.begin); err != nil {
		db.readers.give(l, false)
		return describe(err, db.path)
	}
	defer func() { db.readers.give(l, l.exec("ROLLBACK") == nil) }()
	return db.spoilt(fn(&tx{lane: l, path: db.path}))
}

// Change runs fn as the only writer.
func (db *DB) Change(ctx context.Context, fn func(store.Tx) error) error {
	if err := db.Stopped(); err != nil {
		return err
	}
	return db.spoilt(db.change(ctx, func(t *tx) error { return fn(t) }))
}

// Close ends all connections; the last one moves the WAL into the file.
func (db *DB) Close() error {
	var errs []error
	for _, p := range []*lanes{db.readers, db.writer} {
		if p != nil {
			errs = append(errs, p.close())
		}
	}
	return errors.Join(errs...)
}
