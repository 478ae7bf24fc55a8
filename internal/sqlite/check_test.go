package sqlite

import (
	"bytes"
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
