//go:build unix

package shim

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"mcpx/internal/atomicfile"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/process"
)

// Survivors looks at what earlier daemons left. See gateway.Keeper.
func (b *Backend) Survivors(ctx context.Context) ([]gateway.Survivor, []gateway.Lost, error) {
	y := yard{state: b.cfg.StateDir, run: b.cfg.RunDir, now: b.cfg.Now(), log: b.cfg.Log}
	alive, lost, _, err := y.tidy(ctx)
	survivors := make([]gateway.Survivor, len(alive))
	var work errgroup.Group
	work.SetLimit(lookers)
	for i, l := range alive {
		work.Go(func() error {
			survivors[i] = l.survivor()
			survivors[i].Executable = b.files.compare(l.record.Executable)
			return nil
		})
	}
	_ = work.Wait() // it has no errors
	if err != nil {
		err = fault.New(fault.Unavailable, "bundles-unreadable").
			Saying("what earlier daemons left in %s cannot all be looked at", y.bundles()).Because(err).
			Hinting("check its owner and mode; running servers of earlier daemons are not used").
			Retrying(fault.AfterFix)
	}
	return survivors, lost, err
}

// Sweep ends what earlier daemons left below stateDir when no daemon is to use it: supervisors that live are asked to
// carry out their ladder, everything else is cleared as by Backend.Survivors. It returns when the supervisors have ended, or
// ctx is over. Only the holder of the owner lock calls it.
func Sweep(ctx context.Context, stateDir string) (ended int, err error) {
	y := yard{state: stateDir, log: slog.New(slog.DiscardHandler)}
	alive, _, ended, err := y.tidy(ctx)
	errs := []error{err}
	var leaving []leftover
	for _, l := range alive {
		if process.Notify(l.record.Supervisor, sigTerm) {
			ended++
			leaving = append(leaving, l)
		}
	}
	for _, l := range leaving {
		// The supervisor holds its lock until it has ended, and removes socket and bundle before that, unless it was killed.
		lock, err := atomicfile.WaitLock(ctx, l.dir.lock())
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			errs = append(errs, err)
		default:
			removeSocket(l.record.Socket)
			errs = append(errs, lock.Release(), l.dir.remove())
		}
	}
	return ended, errors.Join(errs...)
}
