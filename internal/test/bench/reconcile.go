package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"mcpx/internal/test/storetest"
)

const scenarioReconcile = "reconcile"

// The bars of reconcile_project_state, in milliseconds, with so many operations behind it.
const (
	reconcileAt     = 10_000
	maxReconcile    = 10
	maxReconcileP99 = 30
)

// reconcileRow is reconcile_project_state with so many operations and a tenth as many workspaces, in milliseconds.
type reconcileRow struct {
	Operations int     `json:"operations"`
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	Growth     float64 `json:"growth"` // of the p50, to that of the first row
}

// reconcile measures how the first call of a turn grows with what has been done before.
func (b *bench) reconcile(ctx context.Context, r *report) error {
	calls := 1000
	if b.o.quick {
		calls /= 10
	}
	for _, n := range []int{1000, reconcileAt, 100_000} {
		if b.o.quick && n > reconcileAt {
			break
		}
		row, err := b.reconcileAt(ctx, n, calls)
		if err != nil {
			return err
		}
		row.Growth = 1
		if len(r.Reconcile) > 0 {
			row.Growth = row.P50 / r.Reconcile[0].P50
		}
		r.Reconcile = append(r.Reconcile, row)
	}
	return nil
}

func (b *bench) reconcileAt(ctx context.Context, operations, calls int) (row reconcileRow, err error) {
	b.say("reconcile at %d operations", operations)
	dir := filepath.Join(b.dir, fmt.Sprintf("reconcile-%d", operations))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return row, err
	}
	d, err := newDesk(ctx, dir)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.open(ctx); err != nil {
		return row, err
	}
	load := storetest.Load{Principal: "owner", Project: benchProject, State: dir, At: time.Now().Add(-time.Hour), Operations: operations, Workspaces: operations / 10}
	if err := load.Fill(ctx, d.db); err != nil {
		return row, err
	}
	took := make([]time.Duration, 0, calls)
	for range calls {
		began := time.Now()
		if _, err := d.read(ctx, "reconcile_project_state", map[string]any{"scope": benchProject}); err != nil {
			return row, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return reconcileRow{Operations: operations, P50: micro(took[calls/2]) / 1000, P99: micro(took[calls*99/100]) / 1000}, nil
}
