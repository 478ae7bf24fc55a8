package daemon

import (
	"context"

	"mcpx/internal/catalog"
	"mcpx/internal/id"
)

// Observe reads the servers that the agents of this user have in their configuration. It writes nothing.
func Observe(_ context.Context, _ func(string) string, _ *id.Source) ([]catalog.Server, []string) {
	return nil, nil
}
