package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/atomicfile"
	"mcpx/internal/fault"
	"mcpx/internal/key"
	"mcpx/internal/sqlite"
	"mcpx/internal/store"
)

// maxInspected bounds a database that is read whole at every start, which takes some 5 ms for each MB. Damage of a larger one
// is found when somebody comes upon it, and by doctor.
const maxInspected = 64 << 20

// looks and lookAgain are how often and after how long a database that somebody else holds is looked at.
const (
	looks     = 3
	lookAgain = 2 * time.Second
)

// inspect looks whether what is stored may be changed, before anything of it is: it is sound, and of this machine. why is the
// reason for which it is served to be read alone; an error, that nobody can say.
func (d *Daemon) inspect(ctx context.Context) (why, err error) {
	path := d.cfg.Paths.Database()
	why = checkHost(d.cfg.Paths)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) { // there is nothing to be read either
		if why == nil {
			why = d.nameHost()
		}
		return nil, why
	}
	for n := 1; why == nil && err == nil && info.Size() <= maxInspected; n++ {
		if why = sqlite.Damage(ctx, path); fault.KindOf(why) != fault.Busy || n == looks {
			break
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		why = nil
	}
	if why == nil {
		return nil, d.nameHost()
	}
	switch fault.From(why).Code {
	case "store-corrupt", "store-elsewhere", "state-unreadable":
		d.log.LogAttrs(ctx, slog.LevelError, "what is stored is only read", slog.Any(key.Cause, why))
		return why, nil
	}
	return nil, why
}

// nameHost writes down which machine the state is of: at the first start, or the first one of a machine with a name.
func (d *Daemon) nameHost() error {
	raw, err := os.ReadFile(hostFile(d.cfg.Paths))
	if unnamed := err == nil && len(bytes.TrimSpace(raw)) == 0; thisHost() == "" || !unnamed && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return Rehome(d.cfg.Paths)
}

// nextEpoch is the epoch of this start. What cannot be written stays what it was: its daemon is gone.
func nextEpoch(ctx context.Context, db *sqlite.DB) (epoch store.Epoch, err error) {
	if db.Stopped() != nil {
		err = db.View(ctx, func(r store.Reader) (err error) {
			epoch, err = r.Epoch(ctx)
			return err
		})
		return epoch, err
	}
	err = db.Change(ctx, func(tx store.Tx) (err error) {
		epoch, err = tx.RaiseEpoch(ctx)
		return err
	})
	return epoch, err
}

// machineID is where the system keeps the name of this machine. Where there is none, no state directory is of another one.
const machineID = "/etc/machine-id"

func hostFile(paths api.Paths) string { return filepath.Join(paths.State, "host") }

// thisHost is a hash of the name of this machine; "" it has none.
func thisHost() string {
	raw, err := os.ReadFile(machineID)
	if err != nil || len(strings.TrimSpace(string(raw))) == 0 {
		return ""
	}
	sum := sha256.Sum256(append([]byte("mcpx host 1\n"), raw...))
	return hex.EncodeToString(sum[:])
}

// checkHost refuses a state directory that was copied from another machine: there its daemon may run, and its jobs.
func checkHost(paths api.Paths) error {
	here := thisHost()
	if here == "" {
		return nil
	}
	raw, err := os.ReadFile(hostFile(paths))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no daemon has been here yet
	}
	if err != nil {
		return fault.New(fault.Unavailable, "state-unreadable").Saying("%s cannot be read", hostFile(paths)).
			Hinting("check owner and mode of it and of its directory").Because(err)
	}
	if home := strings.TrimSpace(string(raw)); home != "" && home != here {
		return fault.New(fault.Unavailable, "store-elsewhere").Saying("%s was copied from another machine", paths.State).
			Hinting("when no daemon uses it there any more, run `mcpx doctor --rehome`, then `mcpx daemon restart`").Retrying(fault.AfterFix)
	}
	return nil
}

// Rehome makes this machine the one that a state directory belongs to. A daemon that runs takes it from its next start on.
func Rehome(paths api.Paths) error {
	if err := atomicfile.Write(hostFile(paths), []byte(thisHost()+"\n"), 0o600); err != nil {
		return fault.New(fault.Unavailable, "state-unwritable").Saying("%s cannot be written", hostFile(paths)).
			Hinting("check owner, mode and free space of its directory").Retrying(fault.AfterFix).Because(err)
	}
	return nil
}
