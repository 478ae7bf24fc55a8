package daemon

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/retention"
	"mcpx/internal/store"
)

// TestWildClock: DW-48, what retention does of it. Ten years later by the clock alone, nothing is removed, and the hold is
// told; it ends with the time that the daemon runs. Directories of workspaces are removed by nobody on account of their age.
func TestWildClock(t *testing.T) {
	for _, restarts := range []bool{true, false} {
		var shift atomic.Int64
		c := config(t)
		c.Now = func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
		d := run(t, c)
		err := d.db.Change(t.Context(), func(tx store.Tx) error {
			_, err := tx.AppendEvent(t.Context(), event.Draft{At: d.cfg.Now(), Kind: event.OperationEnded, Actor: event.Actor{Principal: "owner"}, Summary: "x", Body: []byte(`{}`)})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		shift.Store(int64(10 * 365 * retention.Day))
		if restarts {
			if err := d.Stop(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			d = run(t, c)
		}
		by := event.Actor{Principal: "owner", Channel: "cli"}
		if _, h, err := d.keeper.Prune(t.Context(), by, d.cfg.Now(), false); fault.From(err).Code != "retention-held" || !h.Held() {
			t.Fatalf("with a clock that jumped: %+v, %v", h, err)
		}
		told := func() bool {
			t.Helper()
			health, err := d.control.Health(api.As(t.Context(), api.Owner), api.HealthQuery{})
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(health.Findings, func(f api.Finding) bool { return f.Code == "retention-held" && f.Subject == "clock" })
		}
		if !told() {
			t.Error("the health does not tell of the hold")
		}
		if r, h, err := d.keeper.Prune(t.Context(), by, d.cfg.Now(), true); err != nil || !h.Held() || r.Removed[len(r.Removed)-1].Removed == 0 {
			t.Errorf("a dry run: %+v, %+v, %v", r, h, err)
		}
		var kinds []event.Event
		if err := d.db.View(t.Context(), func(r store.Reader) error {
			all, err := r.Events(t.Context(), event.ListEvents{})
			for _, e := range all {
				if e.Pruned() {
					t.Errorf("the body of %d is gone", e.Seq)
				}
				if e.Kind == event.RetentionHeld {
					kinds = append(kinds, e)
				}
			}
			return err
		}); err != nil || len(kinds) != 1 {
			t.Errorf("the hold is told %d times, %v", len(kinds), err)
		}
		// Two days in which the daemon runs.
		d.keeper.mu.Lock()
		ran := d.keeper.ran
		d.keeper.ran = func() time.Duration { return ran() + retention.Rest }
		d.keeper.mu.Unlock()
		shift.Add(int64(retention.Rest))
		if r, h, err := d.keeper.Prune(t.Context(), by, d.cfg.Now(), false); err != nil || h.Held() || r.Removed[len(r.Removed)-1].Removed == 0 {
			t.Errorf("after the wait: %+v, %+v, %v", r, h, err)
		}
		if told() {
			t.Error("the health still tells of the hold")
		}
	}
}
