package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/sqlite"
)

// CheckDatabase says why a daemon would refuse the database, or change nothing in it: it is of a newer build, damaged, or of
// another machine. It changes nothing and may be called while a daemon runs.
func CheckDatabase(ctx context.Context, paths api.Paths, now func() time.Time) error {
	if _, err := os.Stat(paths.Database()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := sqlite.Check(ctx, sqlite.Config{Path: paths.Database(), Backups: backups(paths), Now: now}); err != nil {
		return err
	}
	if err := sqlite.Damage(ctx, paths.Database()); err != nil {
		return err
	}
	return checkHost(paths)
}
