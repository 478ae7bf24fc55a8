//go:build !unix

package daemon

import (
	"context"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/operation"
	"mcpx/internal/store"
)

// stdio refuses: there is no daemon on this platform.
func (d *Daemon) stdio(store.Epoch) (gateway.Backend, error) {
	return nil, fault.New(fault.Unavailable, "platform-unsupported").Saying("the daemon does not run on this system yet")
}

// sweep has nothing to end.
func sweep(context.Context, api.Paths) (int, error) { return 0, nil }

// newRunner has nothing: on this platform no commands are run.
func (d *Daemon) newRunner() (operation.Runner, error) { return nil, nil }
