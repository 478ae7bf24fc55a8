package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/event"
)

// scenarioSubscriber is a daemon that somebody watches who does not keep up.
const scenarioSubscriber = "subscriber"

// maxSlowed is the time of a call that somebody watches who does not keep up, to that of one that nobody watches.
const maxSlowed = 1.1

// errUnwatched says that the subscriber saw nothing of the calls: what was measured has no meaning.
var errUnwatched = errors.New("the subscriber got no event")

// subscriber measures calls of a daemon whose events somebody reads, one a second, against calls of one that nobody watches.
func (b *bench) subscriber(ctx context.Context, r *report) (err error) {
	plans := func(name string) (func(context.Context) error, func(), error) {
		a, stop, err := b.agent(ctx, name, filepath.Join(b.dir, name, "project"), "none")
		return func(context.Context) error {
			var made struct{}
			return a.tool("plan", map[string]any{"action": "create", "summary": "x", "tasks": []any{map[string]any{"key": "one", "title": "one"}}}, &made)
		}, stop, err
	}
	watched, stop, err := plans("watched")
	if err != nil {
		return err
	}
	defer stop()
	alone, stopAlone, err := plans("alone")
	if err != nil {
		return err
	}
	defer stopAlone()
	paths, err := api.FindPaths(func(name string) string {
		return map[string]string{"MCPX_HOME": filepath.Join(b.dir, "watched")}[name]
	})
	if err != nil {
		return err
	}
	watching, leave := context.WithCancel(ctx)
	var reads sync.WaitGroup
	got := 0
	reads.Go(func() { got = readSlowly(watching, api.NewClient(paths.Socket())) })
	defer func() {
		leave()
		if reads.Wait(); err == nil && got == 0 {
			err = errUnwatched
		}
	}()
	return b.pair(ctx, r, scenarioSubscriber, 1, opPlan+", somebody reads one event a second", "nobody watches", watched, alone)
}

// readSlowly reads one event a second until ctx ends, and comes back where it was cut off. It gives how many it got.
func readSlowly(ctx context.Context, c *api.Client) (got int) {
	after := 0
	for ctx.Err() == nil {
		_ = c.Events(ctx, api.EventsQuery{After: after, Follow: true}, func(e event.Event) error { // it is cut off when it is too slow
			got, after = got+1, int(e.Seq)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			return ctx.Err()
		})
	}
	return got
}
