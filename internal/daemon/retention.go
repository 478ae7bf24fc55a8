package daemon

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"mcpx/internal/control"
	"mcpx/internal/event"
	"mcpx/internal/key"
	"mcpx/internal/retention"
	"mcpx/internal/store"
	"mcpx/internal/work"
)

const (
	// pruneAfter is how long the start of the daemon is left alone by retention.
	pruneAfter = 10 * time.Minute
	pruneEvery = 24 * time.Hour
	// clockEvery is how often the wall clock is compared with the time that has passed.
	clockEvery = 10 * time.Minute
)

// keeper removes old data, and keeps that from happening while the clock of the machine is not to be believed.
type keeper struct {
	db      store.DB
	log     *slog.Logger
	periods func() retention.Periods
	prune   func(context.Context, work.Prune) (retention.Report, error)
	wall    func() time.Time     // the clock of the machine
	ran     func() time.Duration // how long this daemon has run; no change of the clock changes it

	mu       sync.Mutex // guards what follows
	lastWall time.Time
	lastRan  time.Duration
}

var _ control.Retention = (*keeper)(nil)

// newKeeper makes a keeper. newest is the time of the last event of the daemon before.
func (d *Daemon) newKeeper(ctx context.Context, newest time.Time) (*keeper, error) {
	since := time.Now() // has a reading of the clock that never jumps, whatever Config.Now has
	k := &keeper{
		db: d.db, log: d.log, periods: d.periods, prune: d.worker.Prune,
		wall: func() time.Time { return d.cfg.Now().Round(0) }, ran: func() time.Duration { return time.Since(since) },
	}
	k.lastWall = k.wall()
	_, err := k.hold(ctx, func(h retention.Hold) retention.Hold { return h.Started(k.lastWall, newest) })
	return k, err
}

// periods are those of the settings in force.
func (d *Daemon) periods() retention.Periods {
	d.reloads.Lock()
	defer d.reloads.Unlock()
	return d.settings.Periods
}

// hold changes the stored hold. That one begins is an event.
func (k *keeper) hold(ctx context.Context, next func(retention.Hold) retention.Hold) (now retention.Hold, err error) {
	var was retention.Hold
	err = k.db.View(ctx, func(r store.Reader) error {
		s, err := r.RetentionState(ctx)
		was = s.Hold
		return err
	})
	if now = next(was); err != nil || now == was || k.db.Stopped() != nil { // a store that is stopped loses nothing
		return now, err
	}
	err = k.db.Change(ctx, func(tx store.Tx) error {
		s, err := tx.RetentionState(ctx)
		if err != nil {
			return err
		}
		s.Hold = now
		if err := tx.PutRetentionState(ctx, retention.PutState{State: s}); err != nil || now.By <= was.By {
			return err
		}
		body, err := json.Marshal(now)
		if err != nil {
			return err
		}
		_, err = tx.AppendEvent(ctx, event.Draft{
			At: k.wall(), Kind: event.RetentionHeld, Actor: event.Actor{Principal: "owner", Channel: "loop"}, Body: body,
			Summary: now.Cause() + ": nothing is removed for " + now.Left.String(),
		})
		return err
	})
	return now, err
}

// pass is the hold after the time that has passed since it was asked last.
func (k *keeper) pass(ctx context.Context) (retention.Hold, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	wall, ran := k.wall(), k.ran()
	h, err := k.hold(ctx, func(h retention.Hold) retention.Hold { return h.Passed(ran-k.lastRan, wall.Sub(k.lastWall)) })
	if err == nil {
		k.lastWall, k.lastRan = wall, ran
	}
	return h, err
}

// Prune removes what is old, unless the clock is held.
func (k *keeper) Prune(ctx context.Context, by event.Actor, at time.Time, dryRun bool) (retention.Report, retention.Hold, error) {
	h, err := k.pass(ctx)
	if err == nil && h.Held() && !dryRun {
		err = h.Refusal()
	}
	if err != nil {
		return retention.Report{}, h, err
	}
	report, err := k.prune(ctx, work.Prune{Periods: k.periods(), At: at, DryRun: dryRun, By: by})
	if err != nil || dryRun {
		return report, h, err
	}
	return report, h, k.db.Change(ctx, func(tx store.Tx) error {
		s, err := tx.RetentionState(ctx)
		if err != nil {
			return err
		}
		s.Last = report
		return tx.PutRetentionState(ctx, retention.PutState{State: s})
	})
}

// startKeeper removes old data from time to time, for as long as the daemon serves.
func (d *Daemon) startKeeper() *loop {
	ctx, end := context.WithCancel(d.ending)
	l := &loop{end: end, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		clock := time.NewTicker(clockEvery)
		defer clock.Stop()
		next := time.NewTimer(pruneAfter)
		defer next.Stop()
		for {
			var err error
			select {
			case <-ctx.Done():
				return
			case <-clock.C:
				_, err = d.keeper.pass(ctx)
			case <-next.C:
				next.Reset(pruneEvery)
				var h retention.Hold
				_, h, err = d.keeper.Prune(ctx, event.Actor{Principal: "owner", Channel: "loop"}, d.cfg.Now(), false)
				if h.Held() {
					next.Reset(h.Left)
				}
			}
			if err != nil && ctx.Err() == nil {
				d.log.LogAttrs(ctx, slog.LevelWarn, "old data were not removed", slog.Any(key.Cause, err))
			}
		}
	}()
	return l
}
