package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"mcpx/internal/fault"
)

// Check says why Open would refuse the file: it is of another program, of a newer build, or damaged. It changes nothing
// and may be called while another process has the file open. A file that does not exist is fine.
func Check(ctx context.Context, c Config) (err error) {
	if _, err := os.Stat(c.Path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	steps, err := embedded()
	if err != nil {
		return err
	}
	if err := checkForeign(ctx, c.Path); err != nil {
		return err
	}
	look, err := lookPool(c.Path)
	if err != nil {
		return describe(err, c.Path)
	}
	defer func() { err = errors.Join(err, look.Close()) }()
	done, err := applied(ctx, look)
	if err != nil {
		return describe(err, c.Path)
	}
	return known(c, steps, done)
}

// known refuses a schema that this build does not know.
func known(c Config, steps []migration, done []string) error {
	if len(done) > len(steps) {
		return fault.New(fault.Conflict, "schema-newer").
			Saying("%s has schema %d; this mcpx knows schema %d", c.Path, len(done), len(steps)).
			Hinting("start the newer mcpx that wrote it, or put back a copy from %s", c.Backups)
	}
	for i, sum := range done {
		if sum != steps[i].checksum() {
			return fault.New(fault.Conflict, "schema-changed").
				Saying("%s was made by another build: step %d (%s) of its schema differs", c.Path, i+1, steps[i].name).
				Hinting("start the mcpx that wrote it, or put back a copy from %s", c.Backups)
		}
	}
	return nil
}
