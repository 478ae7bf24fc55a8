package sqlite

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"mcpx/internal/fault"
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
