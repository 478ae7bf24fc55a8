package sqlite

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/store"
)

// TestReleasedSchema: a database that a release wrote is brought to this schema with all its rows, and then is what a
// fresh one is. Each released schema has its dump in testdata.
func TestReleasedSchema(t *testing.T) {
	fresh := mustOpen(t, filepath.Join(t.TempDir(), "mcpx.db"))
	schema := func(db *DB) []string {
		all, err := texts(t.Context(), db.readers.pool, "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY type, name")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	dump, err := os.ReadFile(filepath.Join("testdata", "schema2.sql"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mcpx.db")
	raw(t, path, string(dump))
	db := mustOpen(t, path)
	if d := cmp.Diff(schema(fresh), schema(db)); d != "" {
		t.Errorf("schema (-fresh +migrated):\n%s", d)
	}
	if err := Damage(t.Context(), db.path); err != nil {
		t.Error(err)
	}
	if copies, err := filepath.Glob(filepath.Join(filepath.Dir(path), "backups", "mcpx-schema2-*.db")); err != nil || len(copies) != 1 {
		t.Errorf("backups %v, %v; want one of schema 2", copies, err)
	}
	if err := db.View(t.Context(), func(r store.Reader) error {
		servers, err := catalog.All(t.Context(), r)
		if err != nil {
			return err
		}
		var names []string
		for _, s := range servers {
			names = append(names, s.Name)
		}
		if d := cmp.Diff([]string{"fake", "git", "remote"}, names); d != "" {
			t.Errorf("servers (-want +got):\n%s", d)
		}
		sessions, err := r.Sessions(t.Context(), store.ListSessions{})
		if err != nil {
			return err
		}
		if len(sessions) != 1 || !json.Valid(sessions[0].Answer) || len(sessions[0].Setup) == 0 {
			t.Errorf("sessions %+v, want the one that was there", sessions)
		}
		epoch, err := r.Epoch(t.Context())
		if epoch != 2 {
			t.Errorf("epoch %d, want 2", epoch)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func fill(tb testing.TB, db *DB, n int) {
	tb.Helper()
	if err := db.Change(tb.Context(), func(tx store.Tx) error {
		for i := range n {
			if _, err := tx.AppendEvent(tb.Context(), anEvent(i)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		tb.Fatal(err)
	}
}

func anEvent(i int) event.Draft {
	return event.Draft{
		At: time.Date(2026, 11, 29, 1, 2, 3, i*1000, time.UTC), Kind: event.PlanMade, Actor: event.Actor{Principal: "owner", Channel: "loop"},
		Refs:    event.Refs{event.RefAgent: "codex", event.RefPlan: fmt.Sprint("plan_", i), event.RefPath: "/home/ada/.codex/config.toml"},
		Summary: "route git in codex", Body: json.RawMessage(fmt.Sprintf(`{"n":%d,"reasons":["not-routed","exact"],"risk":"normal"}`, i)),
	}
}

func verdict(tb testing.TB, db *DB) event.Verdict {
	tb.Helper()
	var v event.Verdict
	if err := db.View(tb.Context(), func(r store.Reader) (err error) {
		v, err = event.VerifyLog(tb.Context(), r, 0, 0)
		return err
	}); err != nil {
		tb.Fatal(err)
	}
	return v
}

// TestLogOnlyGrows: the schema itself refuses to change or remove an envelope, and somebody who takes the triggers away
// is found by the chain. Bodies may go.
func TestLogOnlyGrows(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "mcpx.db"))
	fill(t, db, 5)
	for _, statement := range []string{
		"UPDATE events SET summary = 'x' WHERE seq = 2", "UPDATE events SET seq = 9 WHERE seq = 2", "DELETE FROM events",
	} {
		if _, err := db.writer.pool.ExecContext(t.Context(), statement); err == nil {
			t.Errorf("%s: not refused", statement)
		}
	}
	tamper := func(statement string) {
		t.Helper()
		if _, err := db.writer.pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	tamper("DELETE FROM event_bodies WHERE seq IN (1, 5)")
	if v := verdict(t, db); v.Bad != nil || v.Count != 5 || v.Purged != 2 {
		t.Errorf("after a purge of two bodies: %+v", v)
	}
	tamper("DROP TRIGGER events_never_change; DROP TRIGGER events_never_go")
	for _, step := range []struct {
		statement string
		want      event.Bad
	}{ // from the end to the beginning: the first bad one is found
		{"DELETE FROM event_bodies WHERE seq = 4; INSERT INTO event_bodies VALUES (4, x'7b7d')", event.Bad{Seq: 4, Why: event.BodyDiffers}},
		{"DELETE FROM events WHERE seq = 3", event.Bad{Seq: 3, Why: event.SeqGap}},
		{"UPDATE events SET refs = '{' WHERE seq = 2", event.Bad{Seq: 2, Why: event.HashDiffers}},
		{"UPDATE events SET prev = hash WHERE seq = 2", event.Bad{Seq: 2, Why: event.HashDiffers}},
		{"UPDATE events SET at_us = at_us + 1 WHERE seq = 1", event.Bad{Seq: 1, Why: event.HashDiffers}},
	} {
		tamper(step.statement)
		if d := cmp.Diff(&step.want, verdict(t, db).Bad); d != "" {
			t.Errorf("%s (-want +got):\n%s", step.statement, d)
		}
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	db, err := Open(b.Context(), config(filepath.Join(b.TempDir(), "mcpx.db")))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	i := 0
	for b.Loop() {
		i++
		if err := db.Change(b.Context(), func(tx store.Tx) error {
			_, err := tx.AppendEvent(b.Context(), anEvent(i))
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerifyLog looks at 10,000 events.
func BenchmarkVerifyLog(b *testing.B) {
	db, err := Open(b.Context(), config(filepath.Join(b.TempDir(), "mcpx.db")))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	fill(b, db, 10_000)
	for b.Loop() {
		if v := verdict(b, db); v.Bad != nil || v.Count != 10_000 {
			b.Fatal(v)
		}
	}
}
