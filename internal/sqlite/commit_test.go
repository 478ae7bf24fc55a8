package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// together runs changes in one commit: the first begins, and ends when all others wait for their turn in the order given.
// What Change did with each is in its place; a panic is an error there.
func together(t *testing.T, db *DB, all ...func(*tx) error) []error {
	t.Helper()
	errs := make([]error, len(all))
	var running sync.WaitGroup
	begun, leave := make(chan struct{}), make(chan struct{})
	for i, fn := range all {
		waiting := queued(db)
		running.Go(func() {
			errs[i] = errors.New("it ended its goroutine")
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("panic: %v", p)
				}
			}()
			errs[i] = db.change(context.WithoutCancel(t.Context()), func(tx *tx) error {
				if i == 0 {
					close(begun)
					<-leave
				}
				return fn(tx)
			})
		})
		if i == 0 {
			<-begun
		} else {
			waitFor(t, "a change that waits", func() bool { return queued(db) > waiting })
		}
	}
	close(leave)
	running.Wait()
	return errs
}

func queued(db *DB) int {
	db.turns.mu.Lock()
	defer db.turns.mu.Unlock()
	return len(db.turns.queue)
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("no sign of %s", what)
		}
	}
}

// note is a change that leaves a row.
func note(name string) func(*tx) error {
	return func(tx *tx) error {
		return tx.PutCredential(context.Background(), catalog.PutCredential{Credential: catalog.Credential{Name: name, Ref: "env:" + name}})
	}
}

// notes are the rows that changes have left.
func notes(t *testing.T, db *DB) []string {
	t.Helper()
	var names []string
	if err := db.View(t.Context(), func(r store.Reader) error {
		all, err := catalog.AllCredentials(t.Context(), r)
		for _, c := range all {
			names = append(names, c.Name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// TestTogether: changes that wait share a commit, each sees what those before it did, and nobody else sees any of it before.
func TestTogether(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "mcpx.db"))
	var lanes []*lane
	step := func(want store.Epoch) func(*tx) error {
		return func(tx *tx) error {
			lanes = append(lanes, tx.lane)
			if got, err := tx.RaiseEpoch(t.Context()); got != want || err != nil {
				t.Errorf("epoch %d, %v, want %d", got, err, want)
			}
			return db.View(t.Context(), func(r store.Reader) error {
				if got, err := r.Epoch(t.Context()); got != 0 || err != nil {
					t.Errorf("change %d has run, and the others see epoch %d, %v", want, got, err)
				}
				return nil
			})
		}
	}
	changed := db.Changed()
	if err := errors.Join(together(t, db, step(1), step(2), step(3))...); err != nil {
		t.Error(err)
	}
	<-changed
	if err := db.View(t.Context(), func(r store.Reader) error {
		if got, err := r.Epoch(t.Context()); got != 3 || err != nil {
			t.Errorf("epoch %d, %v after three changes", got, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if len(lanes) != 3 || lanes[0] != lanes[1] || lanes[1] != lanes[2] {
		t.Errorf("they ran on %v", lanes)
	}
}

// TestTogetherOneFails: whatever happens to one of the changes that share a commit, it leaves nothing, and the others are
// made. When SQLite undoes the transaction behind them, or the commit fails, none of them is, and all are told.
func TestTogetherOneFails(t *testing.T) {
	no := errors.New("no")
	full := fault.New(fault.Unavailable, "store-full").Saying("no space left")
	undone := func(tx *tx) error { return tx.exec(t.Context(), "ROLLBACK") } // as SQLite does when the disk is full
	db := mustOpen(t, filepath.Join(t.TempDir(), "mcpx.db"))
	var rows []string
	tried := 0
	for name, tc := range map[string]struct {
		breaks func(*tx) error
		want   string // its error
		others string // that of the others, "" for none
	}{
		"an error":            {func(*tx) error { return no }, "no", ""},
		"a statement":         {func(tx *tx) error { return tx.exec(t.Context(), "INSERT INTO nothing VALUES (1)") }, "store-failed", ""},
		"a panic":             {func(*tx) error { panic("a bug") }, "panic: a bug", ""},
		"a goroutine's end":   {func(*tx) error { runtime.Goexit(); return nil }, "it ended its goroutine", ""},
		"undone and ignored":  {undone, "store-failed", "store-failed"},
		"undone and an error": {func(tx *tx) error { return errors.Join(undone(tx), full) }, "store-full", "store-full"},
		"undone and a panic":  {func(tx *tx) error { _ = undone(tx); panic("a bug") }, "panic: a bug", "store-failed"},
	} {
		for place, order := range [][]int{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}} {
			t.Run(fmt.Sprint(name, " at ", place), func(t *testing.T) {
				var all []func(*tx) error
				var want []string
				for i, breaks := range order {
					row := fmt.Sprintf("row%03d", tried)
					tried++
					fn, err := note(row), tc.others
					switch {
					case breaks == 1:
						fn, err = func(tx *tx) error { return errors.Join(note("lost")(tx), tc.breaks(tx)) }, tc.want
					case i > place: // the ones after it begin anew when the transaction is gone
						err = ""
					}
					if err == "" {
						rows = append(rows, row)
					}
					all, want = append(all, fn), append(want, err)
				}
				var got []string
				for _, err := range together(t, db, all...) {
					got = append(got, brief(err))
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("what they were told (-want +got):\n%s", d)
				}
				if d := cmp.Diff(rows, notes(t, db)); d != "" {
					t.Errorf("rows (-want +got):\n%s", d)
				}
				if err := db.change(t.Context(), func(tx *tx) error {
					_, err := tx.RaiseEpoch(t.Context())
					return err
				}); err != nil {
					t.Errorf("the next change: %v", err)
				}
			})
		}
	}
}

// brief is the code of a fault, or the text of another error.
func brief(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// TestTogetherCommitFails: a commit that fails fails for all.
func TestTogetherCommitFails(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "mcpx.db"))
	orphan := func(tx *tx) error { // a rule of the schema that only the commit looks at
		if err := tx.exec(t.Context(), "PRAGMA defer_foreign_keys = 1"); err != nil {
			return err
		}
		return tx.exec(t.Context(), "INSERT INTO server_names VALUES ('lost', 'srv_none')")
	}
	for i, err := range together(t, db, note("one"), orphan, note("two"), func(*tx) error { return errors.New("no") }) {
		if brief(err) != "store-failed" {
			t.Errorf("change %d: %v, want it to have failed with the commit", i, err)
		}
	}
	if rows := notes(t, db); len(rows) != 0 {
		t.Errorf("rows %v", rows)
	}
	if err := db.change(t.Context(), note("later")); err != nil {
		t.Errorf("the next change: %v", err)
	}
}

// TestTogetherLeft: a change whose caller leaves while it waits is left out, also when it leaves in the moment in which it
// gets the turn, and the others are made.
func TestTogetherLeft(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "mcpx.db"))
	for round := range 200 {
		ctx, leave := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := db.change(t.Context(), note("first")); err != nil {
				t.Error(err)
			}
			leave()
		})
		for range 3 {
			running.Go(func() {
				if err := db.change(ctx, note("maybe")); err != nil && fault.KindOf(err) != fault.Canceled {
					t.Errorf("round %d: %v", round, err)
				}
			})
			running.Go(func() {
				if err := db.change(t.Context(), note("last")); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		running.Wait()
		if db.turns.taken || len(db.turns.queue) != 0 {
			t.Fatalf("round %d: the turn was not given back: %d wait", round, len(db.turns.queue))
		}
	}
}

// TestTogetherBounded: so many changes that wait all the time do not put the commit off for ever.
func TestTogetherBounded(t *testing.T) {
	db := mustOpen(t, filepath.Join(t.TempDir(), "mcpx.db"))
	var all []func(*tx) error
	last := store.Epoch(0)
	for range mostTogether + 2 {
		all = append(all, func(tx *tx) error {
			err := db.View(t.Context(), func(r store.Reader) (err error) {
				last, err = r.Epoch(t.Context())
				return err
			})
			if err == nil {
				_, err = tx.RaiseEpoch(t.Context())
			}
			return err
		})
	}
	if err := errors.Join(together(t, db, all...)...); err != nil {
		t.Error(err)
	}
	if last != mostTogether {
		t.Errorf("%d changes were committed before the last one ran, want %d", last, mostTogether)
	}
}
