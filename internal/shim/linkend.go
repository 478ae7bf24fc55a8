//go:build unix

package shim

import (
	"context"
	"log/slog"
	"time"

	"mcpx/internal/atomicfile"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/key"
	"mcpx/internal/process"
)

// terminate asks for the ladder over a control connection, because a child that reads nothing blocks the other one.
func (l *link) terminate(reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), controlWait)
	defer cancel()
	if err := l.backend.terminate(ctx, l.super.Socket, l.super.Token, l.dir, l.super.Self, reason); err != nil {
		process.Notify(l.super.Self, sigTerm) // means the same to a supervisor
	}
	if !within(l.done, l.backend.cfg.Ladder.Total()+drainWait+overtime) {
		process.Kill(l.super.Self) // the reader sees a lost supervisor and clears what is left
	}
}

// terminate begins the ladder of any supervisor.
func (b *Backend) terminate(ctx context.Context, socket, token string, dir bundle, self process.Identity, reason string) error {
	conn, r, err := b.dial(ctx, socket, token, dir.id(), roleControl, self)
	if err != nil {
		return err
	}
	defer conn.Close()
	if limit, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(limit) // fails only on a closed connection
	}
	if f, err := r.next(); err != nil || f.kind != kindReady {
		return fault.New(fault.Unavailable, "supervisor-refused").Saying("the supervisor refused a control connection").Because(err)
	}
	p := peer{conn: conn, generation: b.cfg.Epoch}
	if err := p.send(kindTerminate, terminate{Reason: reason, Ladder: b.cfg.Ladder}); err != nil {
		return err
	}
	_, err = r.next() // understood
	return err
}

// maybeRun tells of requests that a lost supervisor may have passed on: all that it was handed completely. It had no time
// to acknowledge them. Nobody writes any more.
func (l *link) maybeRun() {
	l.mu.Lock()
	flight := l.flight
	l.flight = nil
	l.mu.Unlock()
	for _, m := range flight {
		if m.ref != 0 && m.end <= l.taken {
			l.sink.Written(m.ref)
		}
	}
}

// lost decides what the end of the connection without EXIT means.
func (l *link) lost() gateway.Exit {
	if l.detaching.Load() {
		return gateway.Exit{Reason: gateway.Detached}
	}
	exit := gateway.Exit{Reason: gateway.SupervisorLost, Text: "the supervisor ended without a word; exit status unknown"}
	held := true
	for limit := time.Now().Add(lostWait); held && time.Now().Before(limit); time.Sleep(lostPoll) {
		held, _ = atomicfile.Held(l.dir.lock())
	}
	l.backend.join.Go(func() { l.clear(held) })
	return exit
}

// clear ends what a lost supervisor left behind.
func (l *link) clear(held bool) {
	b := l.backend
	if held { // it lives, but the connection is gone: it cannot be used any more
		process.Kill(l.super.Self)
	}
	var child process.Identity // none was started
	if l.welcome.Child != nil {
		child = *l.welcome.Child
	}
	waitGone(child, orphanWait)
	killed := process.KillOrphans(child)
	waitGone(child, groupWait)
	removeSocket(l.super.Socket)
	if err := l.dir.remove(); err != nil {
		b.cfg.Log.Warn("bundle not removed", slog.String(key.Path, string(l.dir)), slog.String(key.Cause, err.Error()))
	}
	b.cfg.Log.Warn("supervisor lost", slog.String(key.Shim, l.dir.id()), slog.Int(key.Pid, l.super.Self.Pid),
		slog.Int(key.Child, child.Pid), slog.Bool(key.Orphans, killed))
}

// waitGone waits at most d for the end of a process that is not our child.
func waitGone(id process.Identity, d time.Duration) {
	for limit := time.Now().Add(d); id.Alive() && time.Now().Before(limit); {
		time.Sleep(lostPoll)
	}
}
