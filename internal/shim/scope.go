//go:build unix

package shim

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"mcpx/internal/key"
	"mcpx/internal/process"
)

// scopeWait bounds the talk with systemd about one scope: it takes a few milliseconds, and the start needs the rest of
// startWait when systemd does not answer.
const scopeWait = 2 * time.Second

// scope starts supervisors so that stopping a systemd unit that the daemon is part of does not end them.
type scope struct {
	off atomic.Bool // it was tried and does not work here: that was told, and is not tried again
}

// start is process.StartDetached, in a scope where one is needed and can be had.
func (s *scope) start(ctx context.Context, environ []string, log *slog.Logger, d process.Detached) ([]byte, error) {
	if s.off.Load() {
		return process.StartDetached(ctx, d)
	}
	via, err := process.ScopeCommand(environ)
	if via == nil && err == nil {
		return process.StartDetached(ctx, d)
	}
	if err == nil {
		var ready []byte
		d.Via = via
		within, cancel := context.WithTimeout(ctx, scopeWait)
		ready, err = process.StartDetached(within, d)
		cancel()
		if err == nil || ctx.Err() != nil {
			return ready, err
		}
	}
	if !s.off.Swap(true) {
		log.Warn("servers get no systemd scope of their own: unless the unit of the daemon has KillMode=process, stopping it ends them",
			slog.String(key.Cause, err.Error()))
	}
	d.Via = nil
	return process.StartDetached(ctx, d)
}
