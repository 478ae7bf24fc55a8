package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/atomicfile"
	"mcpx/internal/fault"
)

// owner says who holds the lock of a home; the file is for people and messages, the lock alone decides.
type owner struct {
	Pid      int       `json:"pid"`
	Started  time.Time `json:"started"`
	Version  string    `json:"version"`
	Listener string    `json:"listener,omitempty"`
	Given    bool      `json:"listener_given,omitempty"` // with --listen
}

// LastListen is the address that a daemon was given with --listen which was killed; "" when it was given none, or ended in
// order. Whoever takes its place listens there, too: agents have that address.
func LastListen(paths api.Paths) string {
	data, err := os.ReadFile(paths.Owner())
	var o owner
	if err != nil || json.Unmarshal(data, &o) != nil || !o.Given || CheckListen(o.Listener) != nil {
		return ""
	}
	return o.Listener
}

// lockGrace is how long a start waits for a lock that is held: the kernel takes a moment to clear a daemon that was
// killed, and its socket may refuse before its lock is free.
const lockGrace = 200 * time.Millisecond

// takeGrace is the same for a daemon that takes over: a stranger that was started in between has the lock until it sees
// that the port is in use.
const takeGrace = 5 * time.Second

// errHeld ends the wait for a lock that somebody holds for good.
var errHeld = errors.New("held by a daemon that lives")

// own takes the lock of the home, or fails with an error that names the holder. The new holder then writes its name.
func own(ctx context.Context, paths api.Paths, grace time.Duration) (*atomicfile.Lock, error) {
	ctx, stop := context.WithTimeoutCause(ctx, grace, errHeld)
	defer stop()
	lock, err := atomicfile.WaitLock(ctx, paths.Lock())
	if errors.Is(err, errHeld) {
		return nil, heldBy(paths)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "lock-failed").Saying("the lock %s cannot be taken", paths.Lock()).
			Hinting("state must be on a local file system that you can write to").Because(err)
	}
	for _, dir := range []string{paths.State, filepath.Join(paths.State, "secrets")} {
		_ = atomicfile.Sweep(dir) // best effort: a temporary file of a daemon that was killed is in nobody's way
	}
	return lock, nil
}

func (o owner) write(paths api.Paths) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(paths.Owner(), append(data, '\n'), 0o600); err != nil {
		return fault.New(fault.Unavailable, "state-unwritable").Saying("%s cannot be written", paths.Owner()).Because(err).
			Hinting("check owner, mode and free space of its directory").Retrying(fault.AfterFix)
	}
	return nil
}

// Silent tells of a daemon that has the lock of the home although nobody answers at its socket; nil: there is none.
func Silent(ctx context.Context, paths api.Paths) error {
	lock, err := own(ctx, paths, lockGrace)
	if err == nil {
		return lock.Release()
	}
	if f := fault.From(err); f.Code == "daemon-running" {
		return f.Hinting("it does not answer: it is starting or ending, or it hangs. Try again, or end that process; its servers wait for the next daemon")
	}
	return nil
}

func heldBy(paths api.Paths) error {
	f := fault.New(fault.Unavailable, "daemon-running").Saying("another daemon runs for %s", paths.State).
		Hinting("use it, or stop it first with `mcpx daemon stop`")
	data, err := os.ReadFile(paths.Owner())
	var o owner
	if err != nil || json.Unmarshal(data, &o) != nil || o.Pid == 0 {
		return f // it took the lock a moment ago and has not written its name yet
	}
	return f.Saying("another daemon runs for %s: pid %d, started %s, version %s", paths.State, o.Pid, o.Started.Local().Format(time.DateTime), o.Version)
}
