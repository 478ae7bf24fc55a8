package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"mcpx/internal/fault"
	"mcpx/internal/store"
	"mcpx/internal/test/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(path string) Config {
	return Config{
		Path: path, Backups: filepath.Join(filepath.Dir(path), "backups"),
		Now: func() time.Time { return time.Date(2026, 11, 29, 1, 2, 3, 4000, time.UTC) },
	}
}

func mustOpen(t *testing.T, path string) *DB {
	t.Helper()
	db, err := Open(t.Context(), config(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestExercise(t *testing.T) {
	migrated := filepath.Join(t.TempDir(), "mcpx.db")
	db, err := Open(t.Context(), config(migrated))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	empty, err := os.ReadFile(migrated)
	if err != nil {
		t.Fatal(err)
	}
	// fresh is the path of a file that has all steps and no row: making one anew for each case takes most of the time.
	fresh := func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "mcpx.db")
		if err := os.WriteFile(path, empty, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Run("file", func(t *testing.T) {
		storetest.Exercise(t, func(t *testing.T) storetest.Pair {
			db := mustOpen(t, fresh(t))
			return storetest.Pair{Write: db, Read: db}
		})
	})
	t.Run("second handle", func(t *testing.T) {
		storetest.Exercise(t, func(t *testing.T) storetest.Pair {
			path := fresh(t)
			return storetest.Pair{Write: mustOpen(t, path), Read: mustOpen(t, path)}
		})
	})
}

// TestStatements explains every statement constant of the package: a misspelt column fails here and not in a rare
// branch. It also refuses a scan of a whole table where an index should serve, and a sort of more than a page.
func TestStatements(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "mcpx.db"))
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "sql") || len(spec.Values) != 1 {
				return true
			}
			found++
			query, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := explain(t, db, query, make([]any, parameters(query)))
			if err != nil {
				t.Errorf("%s: %v", spec.Names[0].Name, err)
			}
			for _, step := range plan {
				// json_each reads the few values of a parameter.
				if strings.HasPrefix(step, "SCAN") && !strings.Contains(step, "VIRTUAL TABLE") && step != "SCAN CONSTANT ROW" || strings.Contains(step, "TEMP B-TREE") {
					t.Errorf("%s reads or sorts a whole table: %s", spec.Names[0].Name, step)
				}
			}
			return true
		})
	}
	if found < 50 {
		t.Errorf("found %d statements; the test no longer sees them", found)
	}
}

// parameters is the number of arguments of a statement, ? or ?1, ?2 and so on.
func parameters(query string) int {
	n := 0
	for i := 1; strings.Contains(query, "?"+strconv.Itoa(i)); i++ {
		n = i
	}
	if n == 0 {
		n = strings.Count(query, "?")
	}
	return n
}

func explain(t *testing.T, db *DB, query string, args []any) (plan []string, err error) {
	rows, err := db.writer.pool.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			return nil, err
		}
		plan = append(plan, detail)
	}
	return plan, rows.Err()
}

func TestPragmas(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "mcpx.db"))
	for _, tc := range []struct {
		pool         *sql.DB
		pragma, want string
	}{
		{db.writer.pool, "journal_mode", "wal"},
		{db.writer.pool, "synchronous", "2"}, // FULL
		{db.writer.pool, "foreign_keys", "1"},
		{db.writer.pool, "busy_timeout", "5000"},
		{db.writer.pool, "journal_size_limit", fmt.Sprint(journalLimit)},
		{db.writer.pool, "wal_autocheckpoint", fmt.Sprint(checkpointAfter)},
		{db.writer.pool, "temp_store", "2"}, // MEMORY
		{db.writer.pool, "application_id", fmt.Sprint(applicationID)},
		{db.writer.pool, "query_only", "0"},
		{db.readers.pool, "query_only", "1"},
		{db.readers.pool, "foreign_keys", "1"},
	} {
		got, err := texts(t.Context(), tc.pool, "PRAGMA "+tc.pragma)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{tc.want}, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.pragma, d)
		}
	}
	if err := Damage(t.Context(), db.path); err != nil {
		t.Errorf("Check of a fresh database: %v", err)
	}
}

func TestFileModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits on Windows")
	}
	// A path that would be cut or decoded if it were pasted into a URI.
	path := filepath.Join(t.TempDir(), "a?b#c%41 d.db")
	db := mustOpen(t, path)
	if err := db.Change(t.Context(), func(tx store.Tx) error {
		_, err := tx.RaiseEpoch(t.Context())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s has mode %04o, want 0600", filepath.Base(p), got)
		}
	}

	open := filepath.Join(t.TempDir(), "open.db")
	if err := os.WriteFile(open, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), config(open))
	wantCode(t, err, fault.Denied, "store-permissions")
}

func wantCode(t *testing.T, err error, kind fault.Kind, code string) {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != kind || f.Code != code || f.Hint == "" {
		t.Errorf("error %v, want %s %s with a hint", err, kind, code)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.db")
	if err := os.WriteFile(garbage, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign.db")
	raw(t, foreign, "CREATE TABLE theirs (a)")
	marked := filepath.Join(dir, "marked.db")
	raw(t, marked, "PRAGMA application_id = 7")
	changed := filepath.Join(dir, "changed.db")
	newer := filepath.Join(dir, "newer.db")
	for _, p := range []string{changed, newer} {
		if err := mustOpen(t, p).Close(); err != nil {
			t.Fatal(err)
		}
	}
	raw(t, changed, "UPDATE schema_migrations SET checksum = 'x' WHERE number = 1")
	raw(t, newer, "INSERT INTO schema_migrations VALUES (1000, 'future', 'x', 0)")

	for _, tc := range []struct {
		path string
		kind fault.Kind
		code string
	}{
		{garbage, fault.Unavailable, "store-corrupt"},
		{foreign, fault.Conflict, "store-foreign"},
		{marked, fault.Conflict, "store-foreign"},
		{changed, fault.Conflict, "schema-changed"},
		{newer, fault.Conflict, "schema-newer"},
		{filepath.Join(dir, "no", "dir.db"), fault.Unavailable, "store-open"},
	} {
		t.Run(filepath.Base(tc.path), func(t *testing.T) {
			before, _ := os.ReadFile(tc.path) // absent in one case: nil before and after
			_, err := Open(t.Context(), config(tc.path))
			wantCode(t, err, tc.kind, tc.code)
			if after, _ := os.ReadFile(tc.path); !bytes.Equal(before, after) {
				t.Error("the refused file was changed")
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "backups")); err == nil {
		t.Error("a backup was made although nothing was migrated")
	}
}

// raw changes a file behind the package's back.
func raw(t *testing.T, path, statement string) {
	t.Helper()
	if err := createPrivate(path); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", dsn(path, nil))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), statement)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestMigrateWithBackup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcpx.db")
	db := mustOpen(t, path)
	if err := db.Change(t.Context(), func(tx store.Tx) error {
		_, err := tx.RaiseEpoch(t.Context())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	steps, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	n := len(steps)
	good := migration{number: n + 1, name: "more", sql: "CREATE TABLE more (a INTEGER) STRICT; UPDATE meta SET value = 40 WHERE name = 'epoch'"}
	bad := migration{number: n + 2, name: "bad", sql: "CREATE TABLE half (a INTEGER) STRICT; SELECT nonsense"}
	orphan := migration{number: n + 2, name: "orphan", sql: "PRAGMA defer_foreign_keys = 1; INSERT INTO server_names VALUES ('x', 'srv_none')"}

	for _, last := range []migration{bad, orphan} {
		c := config(path)
		c.Backups = filepath.Join(t.TempDir(), "backups")
		_, err = open(t.Context(), c, append(steps[:n:n], good, last))
		if err == nil {
			t.Fatalf("a schema with the step %q was opened", last.name)
		}
	}
	// The good step stays, the failed ones left nothing, and the file is refused by the build that lacks the step.
	_, err = Open(t.Context(), config(path))
	wantCode(t, err, fault.Conflict, "schema-newer")
	again, err := open(t.Context(), config(path), append(steps[:n:n], good))
	if err != nil {
		t.Fatal(err)
	}
	tables, err := texts(t.Context(), again.readers.pool, "SELECT name FROM sqlite_schema WHERE name IN ('more', 'half')")
	if err := errors.Join(err, Damage(t.Context(), again.path), again.Close()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"more"}, tables); d != "" {
		t.Errorf("tables (-want +got):\n%s", d)
	}
}

func TestBackupHoldsTheOldRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcpx.db")
	db := mustOpen(t, path)
	if err := db.Change(t.Context(), func(tx store.Tx) error {
		_, err := tx.RaiseEpoch(t.Context())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	steps, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	more := migration{number: len(steps) + 1, name: "more", sql: "UPDATE meta SET value = 40 WHERE name = 'epoch'"}
	second, err := open(t.Context(), config(path), append(steps, more)) // the first handle still holds the WAL open
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	copies, err := filepath.Glob(filepath.Join(filepath.Dir(path), "backups", "*.db"))
	if err != nil || len(copies) != 1 {
		t.Fatalf("backups %v, %v; want one", copies, err)
	}
	old := mustOpen(t, copies[0]) // a backup is a database of this build as it stands
	if err := old.View(t.Context(), func(r store.Reader) error {
		e, err := r.Epoch(t.Context())
		if e != 1 {
			t.Errorf("the backup has epoch %d, want 1", e)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}

	// Without a place for the backup nothing is migrated.
	c := config(path)
	c.Backups = filepath.Join(path, "below a file")
	last := migration{number: len(steps) + 2, name: "last", sql: "DELETE FROM meta"}
	_, err = open(t.Context(), c, append(steps, more, last))
	wantCode(t, err, fault.Unavailable, "backup-failed")
	if err := db.View(t.Context(), func(r store.Reader) error {
		_, err := r.Epoch(t.Context())
		return err
	}); err != nil {
		t.Errorf("the rows are gone although no backup was made: %v", err)
	}
}

func TestCheckFindsOrphans(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcpx.db")
	db := mustOpen(t, path)
	raw(t, path, "INSERT INTO server_names VALUES ('lost', 'srv_none')") // foreign keys are off in a plain handle
	wantCode(t, Damage(t.Context(), db.path), fault.Unavailable, "store-corrupt")
}

func TestViewCannotWrite(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "mcpx.db"))
	err := db.View(t.Context(), func(r store.Reader) error {
		_, err := r.(store.Tx).RaiseEpoch(t.Context()) // a caller that tricks the types still meets query_only
		return err
	})
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a write in a View gives %v, want it refused", err)
	}
}

func TestBusyIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the busy timeout")
	}
	path := filepath.Join(t.TempDir(), "mcpx.db")
	one, two := mustOpen(t, path), mustOpen(t, path)
	err := one.Change(t.Context(), func(store.Tx) error {
		err := two.Change(t.Context(), func(store.Tx) error {
			t.Error("two writers at once")
			return nil
		})
		wantCode(t, err, fault.Busy, "store-busy")
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestConfigFailsLoudly(t *testing.T) {
	ok := config(filepath.Join(t.TempDir(), "mcpx.db"))
	for want, spoil := range map[string]func(*Config){
		"Config.Path":    func(c *Config) { c.Path = "relative.db" },
		"Config.Backups": func(c *Config) { c.Backups = "" },
		"Config.Now":     func(c *Config) { c.Now = nil },
	} {
		c := ok
		spoil(&c)
		if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to name %s", err, want)
		}
	}
}

func BenchmarkChange(b *testing.B) {
	db, err := Open(b.Context(), config(filepath.Join(b.TempDir(), "mcpx.db")))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for b.Loop() {
		if err := db.Change(b.Context(), func(tx store.Tx) error {
			_, err := tx.RaiseEpoch(b.Context())
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
}
