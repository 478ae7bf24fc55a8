package control

import (
	"context"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/retention"
	"mcpx/internal/store"
)

// fakeRetention removes nothing, and notes what it was asked for.
type fakeRetention struct {
	by   event.Actor
	at   time.Time
	hold retention.Hold
}

func (f *fakeRetention) Prune(_ context.Context, by event.Actor, at time.Time, dryRun bool) (retention.Report, retention.Hold, error) {
	f.by, f.at = by, at
	return retention.Report{At: at, DryRun: dryRun, Removed: []retention.Removed{{Data: retention.Bodies, Removed: 2}}}, f.hold, nil
}

func TestPrune(t *testing.T) {
	b, ctx := newBench(t)
	b.keeper.hold = retention.Hold{By: time.Hour, Left: time.Minute}
	out, err := b.Prune(ctx, api.PruneData{DryRun: true, At: "2100-01-01T00:00:00Z"})
	if err != nil || !out.DryRun || out.HeldSeconds != 60 || out.JumpSeconds != 3600 || out.Removed[0].Removed != 2 || b.keeper.at.Year() != 2100 || b.keeper.by.Principal != "owner" {
		t.Errorf("%+v, %v; asked with %+v", out, err, b.keeper)
	}
	if _, err := b.Prune(ctx, api.PruneData{}); err != nil || !b.keeper.at.Equal(b.now) {
		t.Errorf("now: %v, %v", b.keeper.at, err)
	}
	for _, in := range []api.PruneData{{At: "2100-01-01T00:00:00Z"}, {DryRun: true, At: "soon"}} {
		if _, err := b.Prune(ctx, in); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", in, err)
		}
	}
	if _, err := b.Prune(t.Context(), api.PruneData{}); err == nil {
		t.Error("nobody asks, and it is done")
	}
}

// TestHeldIsTold: a clock that jumped is a finding, and a night without a daemon is none.
func TestHeldIsTold(t *testing.T) {
	b, ctx := newBench(t)
	for _, off := range []bool{true, false} {
		err := b.cfg.DB.Change(ctx, func(tx store.Tx) error {
			return tx.PutRetentionState(ctx, retention.PutState{State: retention.State{Hold: retention.Hold{By: 14 * time.Hour, Left: time.Hour, Off: off}}})
		})
		if err != nil {
			t.Fatal(err)
		}
		all, err := b.heldFindings(ctx)
		if err != nil || (len(all) == 0) != off {
			t.Errorf("off %t: %+v, %v", off, all, err)
		}
	}
}
