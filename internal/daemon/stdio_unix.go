//go:build unix

package daemon

import (
	"context"
	"crypto/rand"
	"os"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/id"
	"mcpx/internal/operation"
	"mcpx/internal/shim"
	"mcpx/internal/store"
	"mcpx/internal/telemetry"
)

// stdio starts supervised and direct children.
func (d *Daemon) stdio(epoch store.Epoch) (gateway.Backend, error) {
	if err := api.MakePrivate(d.cfg.Paths.Run); err != nil {
		return nil, err
	}
	b, err := shim.New(shim.Config{
		StateDir: d.cfg.Paths.State, RunDir: d.cfg.Paths.Run, Exe: d.cfg.Exe, Version: d.cfg.Version, Epoch: uint64(epoch),
		Environ: d.cfg.Environ, Now: d.cfg.Now, IDs: id.NewSource(d.cfg.Now, rand.Reader), Log: telemetry.For(d.cfg.Log, "shim"),
		OrphanTTL: d.settings.OrphanTTL,
		// The lock of the home says who serves. A daemon before us may still be attached: it handed over while a child read
		// nothing, and its last messages are stuck on the way.
		Steal: true,
	})
	if err != nil {
		return nil, err
	}
	d.orphans = b.SetOrphanTTL
	return b, nil
}

// sweep ends what earlier daemons of this home left running, and waits for it.
func sweep(ctx context.Context, paths api.Paths) (ended int, err error) {
	ended, err = shim.Sweep(ctx, paths.State)
	if err != nil {
		err = fault.New(fault.Unavailable, "sweep-failed").Saying("what an earlier daemon left in %s could not be ended", paths.Bundles()).
			Hinting("look at the processes with `ps`, and at that directory").Because(err)
	}
	return ended, err
}

// newRunner makes what runs the commands of agents.
func (d *Daemon) newRunner() (operation.Runner, error) {
	jobs, err := shim.NewJobs(shim.JobsConfig{
		StateDir: d.cfg.Paths.State, TempDir: os.TempDir(), Exe: d.cfg.Exe, Version: d.cfg.Version, Environ: d.cfg.Environ,
		Log: telemetry.For(d.cfg.Log, "jobs"),
	})
	if err != nil {
		return nil, err
	}
	d.jobOutput, d.jobAbove = jobs.Output, jobs.Above
	return jobs, nil
}
