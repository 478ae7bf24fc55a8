package sqlite

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// TestCheck: a file that Open takes is fine, also while it is open elsewhere; one that Open refuses is refused for the
// same reason. Nothing is written.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ours.db")
	if err := Check(t.Context(), config(path)); err != nil {
		t.Errorf("no file yet: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the check made a file")
	}
	db := mustOpen(t, path)
	if err := Check(t.Context(), config(path)); err != nil {
		t.Errorf("a file that is open: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	changed, newer, foreign := filepath.Join(dir, "changed.db"), filepath.Join(dir, "newer.db"), filepath.Join(dir, "foreign.db")
	for _, p := range []string{changed, newer} {
		if err := mustOpen(t, p).Close(); err != nil {
			t.Fatal(err)
		}
	}
	raw(t, changed, "UPDATE schema_migrations SET checksum = 'x' WHERE number = 1")
	raw(t, newer, "INSERT INTO schema_migrations VALUES (1000, 'future', 'x', 0)")
	raw(t, foreign, "CREATE TABLE theirs (a)")
	for path, code := range map[string]string{changed: "schema-changed", newer: "schema-newer", foreign: "store-foreign"} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, Check(t.Context(), config(path)), fault.Conflict, code)
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s was changed: %v", path, err)
		}
	}
}

// TestReadOnly: I22. Once changes are stopped each says why, what is stored is read, and a file that turns out to be damaged
// stops them by itself.
// TestOpenReadOnly: a file that may not be changed is read with what its WAL holds, and no byte of it changes, neither at the
// start nor at the end; one of an older schema is refused, because it would have to be changed.
func TestOpenReadOnly(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, filepath.Join(dir, "live.db"))
	var epoch store.Epoch
	if err := db.Change(t.Context(), func(tx store.Tx) (err error) {
		epoch, err = tx.RaiseEpoch(t.Context())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "copy.db")
	was := map[string][]byte{}
	for _, suffix := range []string{"", "-wal"} { // as after a crash: nothing of the WAL is in the file yet
		raw, err := os.ReadFile(filepath.Join(dir, "live.db"+suffix))
		if err != nil || len(raw) == 0 {
			t.Fatalf("%d bytes, %v", len(raw), err)
		}
		if err := os.WriteFile(path+suffix, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		was[suffix] = raw
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	untouched := func(what string) {
		t.Helper()
		for suffix, want := range was {
			if got, err := os.ReadFile(path + suffix); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: copy.db%s has %d bytes, %v, want %d as before", what, suffix, len(got), err, len(want))
			}
		}
	}
	c := config(path)
	if err := errors.Join(Check(t.Context(), c), Damage(t.Context(), path)); err != nil {
		t.Fatal(err)
	}
	untouched("looked at")
	c.ReadOnly = fault.New(fault.Unavailable, "store-elsewhere").Saying("it is of another machine").Hinting("rehome it")
	look, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := look.View(t.Context(), func(r store.Reader) error {
		now, err := r.Epoch(t.Context())
		if now != epoch {
			t.Errorf("epoch %d, want %d", now, epoch)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	wantCode(t, look.Change(t.Context(), func(store.Tx) error { return nil }), fault.Unavailable, "store-degraded")
	if err := look.Close(); err != nil {
		t.Fatal(err)
	}
	untouched("opened and closed")

	old := filepath.Join(dir, "old.db")
	steps, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	older, err := open(t.Context(), config(old), steps[:len(steps)-1])
	if err != nil {
		t.Fatal(err)
	}
	if err := older.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	c.Path = old
	_, err = Open(t.Context(), c)
	wantCode(t, err, fault.Unavailable, "schema-older")
	if after, err := os.ReadFile(old); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a refused file was changed, %v", err)
	}
	if _, err := Open(t.Context(), Config{Path: filepath.Join(dir, "none.db"), Backups: c.Backups, Now: c.Now, ReadOnly: c.ReadOnly}); err == nil {
		t.Error("a file that is not there was opened to be read")
	}
}

func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ours.db")
	db := mustOpen(t, path)
	change := func(store.Tx) error { return nil }
	if err := db.Change(t.Context(), change); err != nil || db.Stopped() != nil {
		t.Fatalf("before: %v, %v", err, db.Stopped())
	}
	if err := db.spoilt(corrupt(path)); fault.From(err).Code != "store-corrupt" {
		t.Errorf("what a reader is told: %v", err)
	}
	db.ReadOnly(fault.New(fault.Unavailable, "later").Saying("another reason"))
	f := fault.From(db.Change(t.Context(), change))
	if f.Code != "store-degraded" || f.Retry != fault.AfterFix || !strings.Contains(f.Message, "is damaged") || !strings.Contains(f.Hint, "backups") {
		t.Errorf("a change: %+v", f)
	}
	if err := db.View(t.Context(), func(r store.Reader) error {
		_, err := r.Epoch(t.Context())
		return err
	}); err != nil {
		t.Errorf("a look: %v", err)
	}
	if err := Damage(t.Context(), path); err != nil {
		t.Errorf("a sound file: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
