package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The sizes of a payload.
const (
	small  = 400
	medium = 64 << 10
	large  = 8 << 20
)

// scenario is one way to load the targets.
type scenario struct {
	name     string
	clients  int
	payload  int
	span     time.Duration // of one round of one target
	minCalls int           // at least, whatever the span says
}

var scenarios = map[string][]scenario{
	"latency": {{"latency, 1 client", 1, small, time.Second, 50}},
	"load":    {{"load, 32 clients", 32, small, 2 * time.Second, 50}},
	"payload": {{"64 KiB, 1 client", 1, medium, time.Second, 20}, {"8 MiB, 1 client", 1, large, time.Second, 3}},
}

// sample is what one round of one target gave.
type sample struct {
	calls    int
	p50, p99 time.Duration
	perSec   float64
	cpu      time.Duration // of all its processes, for one call
}

// measure runs the scenarios that were asked for.
func (b *bench) measure(ctx context.Context) (*report, error) {
	r := &report{Quick: b.o.quick}
	wanted := func(name string) bool {
		return b.o.only == "" || slices.Contains(strings.Split(b.o.only, ","), name)
	}
	if wanted("latency") || wanted("load") || wanted("payload") || wanted("flat") {
		targets, err := b.targets(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range []string{"latency", "load", "payload"} {
			for _, s := range scenarios[name] {
				if wanted(name) {
					if err := b.compare(ctx, r, s, targets); err != nil {
						return nil, err
					}
				}
			}
		}
		if wanted("flat") {
			if err := b.flat(ctx, r, targets); err != nil {
				return nil, err
			}
		}
		for _, t := range targets {
			t.stop()
		}
	}
	if wanted("servers") {
		for _, n := range []int{1, 20, 100} {
			if err := b.servers(ctx, r, n); err != nil {
				return nil, err
			}
		}
	}
	if wanted("restart") {
		if err := b.restarts(ctx, r); err != nil {
			return nil, err
		}
	}
	for _, one := range []struct {
		name string
		run  func(context.Context, *report) error
	}{
		{scenarioLedger, b.ledger},
		{scenarioSearch, b.search},
		{scenarioRead, b.read},
		{scenarioCommand, b.commands},
		{scenarioJobs, b.jobs},
		{scenarioWorkspace, b.workspaces},
		{scenarioVerify, b.verify},
		{scenarioReconcile, b.reconcile},
		{scenarioSubscriber, b.subscriber},
	} {
		if wanted(one.name) {
			if err := one.run(ctx, r); err != nil {
				return nil, err
			}
		}
	}
	r.judge()
	return r, ctx.Err()
}

// compare measures one scenario on all targets, in turns.
func (b *bench) compare(ctx context.Context, r *report, s scenario, targets []*target) error {
	if b.o.quick {
		s.span /= 5
	}
	b.say("%s", s.name)
	callers := make([][]caller, len(targets))
	failed := make([]error, len(targets))
	samples := make([][]sample, len(targets))
	defer func() {
		for _, list := range callers {
			for _, c := range list {
				c.close()
			}
		}
	}()
	for i, t := range targets {
		for range s.clients {
			c, err := t.dial()
			if err != nil {
				failed[i] = err
				break
			}
			callers[i] = append(callers[i], c)
		}
		if failed[i] == nil { // once without counting: connections, caches, just-in-time compilers
			_, failed[i] = b.round(ctx, scenario{clients: s.clients, payload: s.payload, span: s.span / 4, minCalls: 2}, t, callers[i])
		}
	}
	for round := range b.o.rounds {
		for k := range targets {
			i := (k + round) % len(targets) // no target always comes after the same one
			if failed[i] != nil {
				continue
			}
			got, err := b.round(ctx, s, targets[i], callers[i])
			if err != nil {
				failed[i] = err
				continue
			}
			samples[i] = append(samples[i], got)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	floor := slices.IndexFunc(targets, func(t *target) bool { return t.name == nameFloor })
	for i, t := range targets {
		if failed[i] != nil {
			r.Rows = append(r.Rows, row{Scenario: s.name, Target: t.name, Error: failed[i].Error()})
			continue
		}
		r.Rows = append(r.Rows, summarize(s.name, t.name, samples[i], samples[floor]))
	}
	return nil
}

// round makes calls with all callers for a span of time.
func (b *bench) round(ctx context.Context, s scenario, t *target, callers []caller) (sample, error) {
	payload := bytes.Repeat([]byte("x"), s.payload)
	each := (s.minCalls + len(callers) - 1) / len(callers)
	var wg sync.WaitGroup
	var failure atomic.Pointer[error]
	took := make([][]time.Duration, len(callers))
	pids := t.pids()
	before, began := cpu(pids), time.Now()
	for i, c := range callers {
		wg.Go(func() {
			for ctx.Err() == nil && failure.Load() == nil && (time.Since(began) < s.span || len(took[i]) < each) {
				at := time.Now()
				if err := c.call(payload); err != nil {
					err = fmt.Errorf("%s: %w", t.name, err)
					failure.CompareAndSwap(nil, &err)
					return
				}
				took[i] = append(took[i], time.Since(at))
			}
		})
	}
	wg.Wait()
	span := time.Since(began)
	spent := cpu(pids) - before
	if err := failure.Load(); err != nil {
		return sample{}, *err
	}
	all := slices.Concat(took...)
	if len(all) == 0 {
		return sample{}, ctx.Err()
	}
	slices.Sort(all)
	return sample{
		calls: len(all), p50: all[len(all)/2], p99: all[len(all)*99/100],
		perSec: float64(len(all)) / span.Seconds(), cpu: spent / time.Duration(len(all)),
	}, nil
}

// servers measures a daemon with n servers that all run, one of them used.
func (b *bench) servers(ctx context.Context, r *report, n int) error {
	b.say("%d servers", n)
	g, err := b.gateway(ctx, fmt.Sprintf("n%d", n))
	if err != nil {
		return err
	}
	defer g.stop()
	empty := resident(g.pid)
	var callers []*httpCaller
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		if err := g.add(ctx, name); err != nil {
			return err
		}
		c, err := g.dial(name)
		if err != nil {
			return err
		}
		defer c.close()
		callers = append(callers, c)
		if err := c.call([]byte("x")); err != nil {
			return err
		}
	}
	time.Sleep(2 * time.Second) // what is measured is a daemon at rest
	m := memoryRow{Servers: n, Empty: empty, Daemon: resident(g.pid)}
	m.Supervisors, m.Supervisor, m.Own = g.supervisors()
	if m.Adopted, err = g.adopted(ctx, n); err != nil {
		return err
	}
	if m.FullSupervisor, m.FullOwn, err = g.full(ctx, callers); err != nil {
		return err
	}
	r.Memory = append(r.Memory, m)
	floor, err := b.floor()
	if err != nil {
		return err
	}
	defer floor.stop()
	s := scenario{name: fmt.Sprintf("latency, 1 of %d servers", n), clients: 1, payload: small, span: time.Second, minCalls: 50}
	return b.compare(ctx, r, s, []*target{floor, g.target(nameShared, "s0")})
}

// flatCalls is how many calls must leave the memory of the daemon as it was.
const flatCalls = 100_000

// flat makes many calls and looks at the memory of the daemon on the way.
func (b *bench) flat(ctx context.Context, r *report, targets []*target) error {
	i := slices.IndexFunc(targets, func(t *target) bool { return t.name == nameShared })
	t := targets[i]
	total, step := flatCalls, flatCalls/5
	if b.o.quick {
		total, step = 10_000, 2_000
	}
	b.say("memory over %d calls", total)
	var callers []caller
	defer func() {
		for _, c := range callers {
			c.close()
		}
	}()
	for range 32 {
		c, err := t.dial()
		if err != nil {
			return err
		}
		callers = append(callers, c)
	}
	for done := 0; done < total; done += step {
		if _, err := b.round(ctx, scenario{clients: len(callers), payload: small, minCalls: step}, t, callers); err != nil {
			return err
		}
		r.Flat = append(r.Flat, flatPoint{Calls: done + step, Resident: resident(t.daemon)})
	}
	return nil
}
