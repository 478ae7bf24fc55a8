package daemon

import (
	"context"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/sqlite"
)

// CheckDatabase says why a daemon would refuse the database: it is of a newer build, or damaged. It changes nothing and
// may be called while a daemon runs.
func CheckDatabase(ctx context.Context, paths api.Paths, now func() time.Time) error {
	return sqlite.Check(ctx, sqlite.Config{Path: paths.Database(), Backups: backups(paths), Now: now})
}
