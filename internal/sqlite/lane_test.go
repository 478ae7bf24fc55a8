package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// TestClose waits for what runs, refuses what comes later, and may be repeated.
func TestClose(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "mcpx.db"))
	inside, leave := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		if err := db.Change(t.Context(), func(store.Tx) error {
			close(inside)
			<-leave
			return nil
		}); err != nil {
			t.Errorf("a change that ran when the database was closed: %v", err)
		}
	})
	<-inside
	closed := make(chan error, 1)
	all.Go(func() { closed <- db.Close() })
	<-db.readers.over
	if err := db.View(t.Context(), func(store.Reader) error { return nil }); fault.KindOf(err) == "" {
		t.Errorf("a look at a closed database: %v", err)
	}
	close(leave)
	all.Wait()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// TestFailedTransaction: the next transaction on a connection sees nothing of one that failed, in whatever way.
func TestFailedTransaction(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "mcpx.db"))
	want := store.Epoch(0)
	for name, breaks := range map[string]func(t *tx) error{
		"an error of fn": func(*tx) error { return errors.New("no") },
		"a statement":    func(tx *tx) error { return tx.exec(t.Context(), "INSERT INTO nothing VALUES (1)") },
		"from below":     func(tx *tx) error { return tx.exec(t.Context(), "ROLLBACK") }, // as SQLite does when the disk is full
		"a panic":        func(*tx) error { panic("a bug") },
	} {
		err := func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("panic: %v", p)
				}
			}()
			return db.change(t.Context(), func(tx *tx) error {
				if _, err := tx.RaiseEpoch(t.Context()); err != nil {
					t.Error(err)
				}
				return breaks(tx)
			})
		}()
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		var got store.Epoch
		if err := db.Change(t.Context(), func(tx store.Tx) (err error) {
			got, err = tx.RaiseEpoch(t.Context())
			return err
		}); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
		if want++; got != want {
			t.Errorf("after %s: epoch %d, want %d", name, got, want)
		}
	}
	if len(db.writer.turns) != 0 || len(db.writer.free) != 1 {
		t.Errorf("%d connections are in use, %d are free", len(db.writer.turns), len(db.writer.free))
	}
}
