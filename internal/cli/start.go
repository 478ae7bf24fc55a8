package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/atomicfile"
	"mcpx/internal/daemon"
	"mcpx/internal/fault"
	"mcpx/internal/process"
)

// startWithin bounds a start of the daemon: opening the database after a crash with a long journal is the slow part.
const startWithin = 30 * time.Second

// ready is the first byte on the ready pipe of a daemon that listens; everything else is a Problem as JSON.
const ready = '+'

// API gives a client of the daemon, and starts one when none runs.
func (e *Env) API(ctx context.Context) (api.Service, error) {
	client, err := e.Daemon()
	if err != nil {
		return nil, err
	}
	if _, err := client.DaemonStatus(ctx, api.None{}); !away(err) {
		return client, err
	}
	_, err = e.startDaemon(ctx, nil)
	return client, err
}

func down(err error) bool { return err != nil && fault.From(err).Code == "daemon-down" }

// away reports whether no daemon answers. A daemon that went away while it was asked is dead or nearly so; the next one
// waits a moment for its lock.
func away(err error) bool {
	return down(err) || err != nil && fault.From(err).Code == "daemon-gone"
}

// startDaemon starts a daemon in the background, unless one runs. One command at a time starts one: the others wait for
// the lock and then find it running.
func (e *Env) startDaemon(ctx context.Context, flags []string) (started bool, err error) {
	paths, err := e.Paths()
	if err != nil {
		return false, err
	}
	if err := api.MakePrivate(paths.State); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	lock, err := atomicfile.WaitLock(ctx, paths.StartLock())
	if err != nil && ctx.Err() == nil {
		return false, fault.New(fault.Unavailable, "lock-failed").Saying("the lock %s cannot be taken", paths.StartLock()).
			Hinting("state must be on a local file system that you can write to").Because(err).Retrying(fault.AfterFix)
	}
	if err != nil {
		return false, fault.New(fault.Unavailable, "start-busy").Saying("another command has been starting the daemon for %s", startWithin).
			Hinting("look at %s", filepath.Join(paths.Logs(), "mcpx.log")).Because(err)
	}
	defer func() { _ = lock.Release() }() // the kernel frees it with the process anyway

	if _, err := api.NewClient(paths.Socket()).DaemonStatus(ctx, api.None{}); !away(err) {
		return false, err
	}
	if last := daemon.LastListen(paths); last != "" && len(flags) == 0 {
		flags = []string{"--listen", last}
	}
	return true, e.spawn(ctx, paths, flags)
}

func (e *Env) spawn(ctx context.Context, paths api.Paths, flags []string) error {
	exe, err := os.Executable()
	if err != nil {
		return fault.New(fault.Internal, "self-unknown").Saying("the path of this program is not known").Because(err)
	}
	if err := api.MakePrivate(paths.Logs()); err != nil {
		return err
	}
	// The log proper is written by the daemon itself; this file gets what the runtime prints when it dies.
	last := filepath.Join(paths.Logs(), "stderr.log")
	_ = os.Rename(last, last+".1") // the last words of the daemon before; without them only this copy is lost
	out, err := os.OpenFile(last, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fault.New(fault.Unavailable, "state-unwritable").Saying("%s cannot be written", last).Because(err).
			Hinting("check owner, mode and free space of its directory").Retrying(fault.AfterFix)
	}
	defer out.Close()
	answer, err := process.StartDetached(ctx, process.Detached{
		Exe: exe, Args: append([]string{"serve", "--detached"}, flags...), Env: process.DaemonEnviron(os.Environ()), Log: out,
	})
	if err != nil {
		f := fault.New(fault.Unavailable, "start-failed").Saying("the daemon did not start").Hinting("look at %s", paths.Logs()).Because(err)
		if text, readErr := os.ReadFile(last); readErr == nil && len(text) > 0 {
			f = f.Saying("the daemon did not start: %s", strings.TrimSpace(string(text[max(0, len(text)-500):])))
		}
		return f
	}
	if answer[0] == ready {
		return nil
	}
	var problem api.Problem
	if err := json.Unmarshal(answer, &problem); err != nil {
		return fault.New(fault.Unavailable, "start-failed").Saying("the daemon did not start: %s", answer).Hinting("look at %s", paths.Logs())
	}
	return problem.Fault()
}

// signalReady tells the command that started this daemon how the start went.
func signalReady(startErr error) error {
	pipe := os.NewFile(process.ReadyFD, "ready")
	message := []byte{ready}
	if startErr != nil {
		var err error
		if message, err = json.Marshal(api.ProblemOf(startErr)); err != nil {
			return err
		}
	}
	if _, err := pipe.Write(message); err != nil {
		return err
	}
	return pipe.Close()
}
