package daemon

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"mcpx/internal/clientfile"
	"mcpx/internal/converge"
	"mcpx/internal/key"
	"mcpx/internal/watch"
)

const (
	// lookAfter is how long the loop leaves the machine to what matters more: the start of the daemon, or more changes of
	// the catalog that belong together.
	lookAfter = 500 * time.Millisecond
	// lookEvery is how often everything is looked at though nothing is known to have changed.
	lookEvery = 6 * time.Hour
)

// loop looks at the files of agents for as long as the daemon serves.
type loop struct {
	end  context.CancelFunc
	done chan struct{}
}

// startLoop starts the loop. What changes after it returned is noticed.
func (d *Daemon) startLoop() *loop {
	ctx, end := context.WithCancel(d.ending)
	l := &loop{end: end, done: make(chan struct{})}
	watcher := watch.New(watch.Config{Files: d.watched, Dirs: d.grown, Log: d.log})
	d.watcher.Store(watcher)
	hints := make(chan []string)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		watcher.Run(ctx, func(changed []string) {
			select {
			case hints <- changed:
			case <-ctx.Done():
			}
		})
	}()
	go func() {
		defer close(l.done)
		defer func() { <-watching }()
		d.converge(ctx, hints)
	}()
	return l
}

// stop ends the loop, and waits a while for an apply that is in work. Nil: there is none.
func (l *loop) stop(ctx context.Context) {
	if l == nil {
		return
	}
	l.end()
	ctx, late := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer late()
	select {
	case <-l.done:
	case <-ctx.Done(): // the receipt of the apply stays open: the next start decides it
	}
}

// converge takes one turn after the other.
func (d *Daemon) converge(ctx context.Context, hints <-chan []string) {
	next := time.NewTimer(lookAfter)
	defer next.Stop()
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	projects := d.control.KnownProjects()
	for {
		select {
		case <-ctx.Done():
			return
		case changed := <-hints:
			d.log.LogAttrs(ctx, slog.LevelDebug, "files of agents changed", slog.Int(key.Count, len(changed)))
		case <-d.control.Stirred():
			next.Reset(lookAfter)
			continue
		case <-next.C:
		case <-every.C:
		}
		if err := d.control.Turn(ctx); err != nil && ctx.Err() == nil {
			d.log.LogAttrs(ctx, slog.LevelWarn, "the files of agents were not looked at", slog.Any(key.Cause, err))
		}
		d.rewatch(&projects)
	}
}

// rewatch lets the files of projects be watched that became known. What changed in them since they were looked at is told
// as soon as they are.
func (d *Daemon) rewatch(known *[]string) {
	if now := d.control.KnownProjects(); !slices.Equal(now, *known) {
		*known = now
		d.watcher.Load().Refresh()
	}
}

// watched are the files in which agents look for servers, in every project and in those that are known.
func (d *Daemon) watched() []string {
	system, err := clientfile.SystemOf(d.look(), d.cfg.Getenv)
	if err != nil {
		return nil // no home: an audit says so
	}
	return system.Watched(d.control.KnownProjects())
}

// grown are the directories in which more of them may appear.
func (d *Daemon) grown() []string {
	system, err := clientfile.SystemOf(d.look(), d.cfg.Getenv)
	if err != nil {
		return nil
	}
	return system.Grown(d.control.KnownProjects())
}

// watching says how soon changes are noticed.
func (d *Daemon) watching() converge.Watching {
	w := d.watcher.Load()
	if w == nil {
		return converge.Watching{}
	}
	s := w.State()
	return converge.Watching{Dirs: s.Dirs, Polled: s.Polled, Why: s.Why}
}
