package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcpx/internal/api"
)

const (
	// restartClients call all the time while the daemon is replaced.
	restartClients = 8
	// restartPause is the time between two restarts, in which the usual latency is measured.
	restartPause = 500 * time.Millisecond
	// settled is how long a hundred supervisors get for a flood and the second of quiet after which they give back what
	// they can.
	settled = 6 * time.Second
)

// supervisors are the mean proportional and anonymous memory of the supervisors.
func (g *gateway) supervisors() (count int, share, own int64) {
	for _, pid := range naming(g.home) {
		if pss := proportional(pid); pid != g.pid && pss > 0 {
			count++
			share += pss
			own += anonymous(pid)
		}
	}
	if count > 0 {
		share /= int64(count)
		own /= int64(count)
	}
	return count, share, own
}

// kill ends the daemon with SIGKILL and waits for its end.
func (g *gateway) kill() {
	killPid(g.pid)
	g.end()
}

// adopted kills the daemon and starts the next one, and says how many milliseconds after its start all n servers were
// ready again, in the processes of before.
func (g *gateway) adopted(ctx context.Context, n int) (float64, error) {
	before, err := g.running(ctx)
	if err != nil {
		return 0, err
	}
	if len(before) != n {
		return 0, fmt.Errorf("%d servers run, want %d", len(before), n)
	}
	g.kill()
	start := time.Now()
	if err := g.serve(); err != nil {
		return 0, err
	}
	for {
		now, err := g.running(ctx)
		if err == nil && len(now) == n {
			took := time.Since(start)
			for pid := range before {
				if !now[pid] {
					return 0, fmt.Errorf("the child %d was not adopted", pid)
				}
			}
			return float64(took) / float64(time.Millisecond), g.ready(ctx)
		}
		if time.Since(start) > startWithin {
			return 0, fmt.Errorf("%d of %d servers after %s: %w", len(now), n, startWithin, err)
		}
		time.Sleep(2 * time.Millisecond) // a poll of another program's state
	}
}

// running are the pids of the children that are ready.
func (g *gateway) running(ctx context.Context) (map[int]bool, error) {
	paths, err := api.FindPaths(func(name string) string {
		if name == "MCPX_HOME" {
			return g.home
		}
		return os.Getenv(name)
	})
	if err != nil {
		return nil, err
	}
	page, err := api.NewClient(paths.Socket()).Processes(ctx, api.ProcessQuery{})
	if err != nil {
		return nil, err
	}
	pids := map[int]bool{}
	for _, p := range page.Processes {
		if p.State == "ready" {
			pids[p.Pid] = true
		}
	}
	return pids, nil
}

// full is the memory of supervisors without a daemon, whose children said more than they keep. A daemon runs again
// afterwards.
func (g *gateway) full(ctx context.Context, callers []*httpCaller) (share, own int64, err error) {
	for _, c := range callers {
		c.moved()
		if err := c.call(floodText); err != nil {
			return 0, 0, err
		}
	}
	g.kill()
	time.Sleep(floodAfter + settled)
	_, share, own = g.supervisors()
	if err := g.serve(); err != nil {
		return 0, 0, err
	}
	return share, own, g.ready(ctx)
}

// restarts replaces the daemon while clients call. Each call belongs to a restart that it met, or is a usual one.
func (b *bench) restarts(ctx context.Context, r *report) error {
	b.say("restarts under %d clients", restartClients)
	g, err := b.gateway(ctx, "restart")
	if err != nil {
		return err
	}
	defer g.stop()
	if err := g.add(ctx, "s0", "--sharing", "global", "--yes"); err != nil {
		return err
	}
	var phase atomic.Int64 // odd while a restart runs
	var stopped atomic.Bool
	var wg sync.WaitGroup
	usual, during, failed := make([][]time.Duration, restartClients), make([][]time.Duration, restartClients), make([]error, restartClients)
	payload := make([]byte, small)
	for i := range payload {
		payload[i] = 'x'
	}
	for i := range restartClients {
		c, err := g.dial("s0")
		if err != nil {
			stopped.Store(true)
			wg.Wait()
			return err
		}
		wg.Go(func() {
			defer c.close()
			for !stopped.Load() {
				before, at := phase.Load(), time.Now()
				if failed[i] = c.call(payload); failed[i] != nil {
					return
				}
				took := time.Since(at)
				if before%2 == 1 || phase.Load() != before {
					during[i] = append(during[i], took)
				} else {
					usual[i] = append(usual[i], took)
				}
			}
		})
	}
	x := &restartRow{Clients: restartClients}
	var commands []float64
	for range b.o.rounds {
		time.Sleep(restartPause)
		phase.Add(1)
		at := time.Now()
		err = g.cli(ctx, nil, "daemon", "restart")
		commands = append(commands, micro(time.Since(at)))
		phase.Add(1)
		if err != nil {
			break
		}
		x.Restarts++
	}
	time.Sleep(restartPause)
	stopped.Store(true)
	wg.Wait()
	if err == nil {
		err = g.ready(ctx)
	}
	if err != nil {
		return err
	}
	for _, err := range failed {
		if err != nil {
			x.Failed++
			b.say("a call failed: %v", err)
		}
	}
	all, met := slices.Concat(usual...), slices.Concat(during...)
	slices.Sort(all)
	slices.Sort(met)
	if len(all) == 0 || len(met) == 0 {
		return fmt.Errorf("%d calls beside and %d during restarts", len(all), len(met))
	}
	x.Calls, x.During = len(all), len(met)
	x.P99, x.P99During, x.Slowest = micro(all[len(all)*99/100]), micro(met[len(met)*99/100]), micro(met[len(met)-1])
	x.Took = median(commands)
	r.Restart = x
	return nil
}
