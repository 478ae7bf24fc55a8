//go:build unix

package shim

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"syscall"
	"time"

	"mcpx/internal/atomicfile"
	"mcpx/internal/crash"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/process"
)

const (
	// connectWait bounds the connect to a supervisor that may be gone, each time.
	connectWait = 500 * time.Millisecond
	// socketWait is how long a supervisor may take to make a socket again that somebody removed.
	socketWait = time.Second
	// socketPoll is how often that is looked at.
	socketPoll = 10 * time.Millisecond
)

var _ gateway.Keeper = (*Backend)(nil)

// greeted is what a supervisor told before it gave the first message.
type greeted struct {
	welcome welcome
	blob    []byte
	lost    counters // since the last daemon was told
	journal journalInfo
}

// refusedError is a HELLO that was refused.
type refusedError struct{ refused }

func (e refusedError) Error() string { return "refused: " + e.Reason }

// Adopt attaches to a survivor. See gateway.Keeper.
func (b *Backend) Adopt(ctx context.Context, id string, take func(gateway.Adopted) (gateway.Sink, error)) error {
	dir, r, err := b.survivor(id)
	if err != nil {
		return err
	}
	said := dir.said() // before we are attached: what comes from then on is delivered, and nothing is told twice
	conn, fr, g, err := b.reach(ctx, dir, r)
	if err != nil {
		return adoptFault(r, err)
	}
	if g.welcome.Generation >= b.cfg.Epoch {
		said = nil // this daemon was attached before and has it
	}
	l := newLink(b, dir, ready{Self: r.Supervisor, Token: r.Token, Socket: r.Socket}, g, conn)
	l.program = r.Executable
	crash.Point("shim.adopt-attached")
	a := l.adopted(r, g)
	a.Said = said
	sink, err := take(a)
	if err != nil {
		b.leave(conn)
		return err
	}
	crash.Point("shim.adopted")
	l.sink = sink
	b.join.Go(func() { l.read(fr) })
	return nil
}

// survivor reads who owns a bundle.
func (b *Backend) survivor(id string) (bundle, record, error) {
	dir := bundle(filepath.Join(b.bundles(), filepath.Base(id)))
	r, err := dir.readRecord()
	if err == nil {
		var held bool
		if held, err = atomicfile.Held(dir.lock()); err == nil && !held {
			err = process.ErrGone
		}
	}
	if err != nil {
		return "", record{}, fault.New(fault.Unavailable, "server-gone").Saying("the supervisor %s is gone", dir.id()).Because(err).
			Retrying(fault.AfterWait)
	}
	return dir, r, nil
}

// reach becomes the holder of a supervisor that was there before us.
func (b *Backend) reach(ctx context.Context, dir bundle, r record) (*net.UnixConn, *frameReader, greeted, error) {
	h := hello{
		Min: b.speak.min, Max: b.speak.max, Role: roleAttach, Generation: b.cfg.Epoch, Token: r.Token, Instance: dir.id(),
		Daemon: daemonInfo{Identity: b.self, Version: b.cfg.Version}, Steal: b.cfg.Steal,
	}
	conn, fr, err := b.knock(ctx, r, h)
	if err != nil {
		return nil, nil, greeted{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	g, err := readGreeting(fr)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close() // the end of a connection is a detach, too
		return nil, nil, greeted{}, err
	}
	return conn, fr, g, nil
}

// knock connects and says who we are. A supervisor whose socket was removed is asked to make it again.
func (b *Backend) knock(ctx context.Context, r record, h hello) (*net.UnixConn, *frameReader, error) {
	asked := false
	for limit := time.Now().Add(socketWait); ; time.Sleep(socketPoll) {
		once, cancel := context.WithTimeout(ctx, connectWait)
		conn, fr, err := b.hello(once, r.Socket, r.Supervisor, h)
		cancel()
		missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
		switch {
		case !missing, ctx.Err() != nil, time.Now().After(limit):
			return conn, fr, err
		case !asked:
			if !process.Notify(r.Supervisor, syscall.SIGHUP) {
				return nil, nil, errors.Join(err, process.ErrGone)
			}
			asked = true
		}
	}
}

// readGreeting reads the answer to HELLO up to the first message, or READY. The error may be a refusedError.
func readGreeting(r *frameReader) (g greeted, err error) {
	f, err := r.next()
	if err != nil {
		return g, err
	}
	switch f.kind {
	case kindWelcome:
		if err := json.Unmarshal(f.body, &g.welcome); err != nil {
			return g, err
		}
	case kindRefused:
		var no refused
		if err := json.Unmarshal(f.body, &no); err != nil {
			return g, err
		}
		return g, refusedError{no}
	default:
		return g, errors.New("an unexpected answer to HELLO")
	}
	for g.welcome.Protocol >= protoJournal && f.kind != kindJournal {
		if f, err = r.next(); err != nil {
			return g, err
		}
		switch f.kind {
		case kindBlob:
			g.blob = append([]byte{}, f.body...)
		case kindLost:
			err = json.Unmarshal(f.body, &g.lost)
		case kindJournal:
			err = json.Unmarshal(f.body, &g.journal)
		case kindMsg, kindReady:
			err = errors.New("no JOURNAL after WELCOME")
		}
		if err != nil {
			return g, err
		}
	}
	if g.welcome.Protocol < protoJournal {
		g.lost = g.welcome.Counters
	}
	return g, nil
}

// adopted is the survivor as the gateway takes it over. The requests of earlier daemons get refs.
func (l *link) adopted(r record, g greeted) gateway.Adopted {
	a := gateway.Adopted{
		Survivor: leftover{dir: l.dir, record: r}.survivor(), Link: l, Blob: g.blob, Complete: g.journal.Complete,
		Dropped: g.lost.DroppedFrames, DropBytes: g.lost.DroppedBytes, Finished: keptCalls(g.journal.Finished, ""),
	}
	a.Version, a.Started = g.welcome.Version, g.welcome.Started
	if g.welcome.Child != nil {
		a.Child = g.welcome.Child.Pid
	}
	a.Executable = l.File()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range g.journal.Entries {
		ref := uint64(i + 1)
		l.entries[ref] = c.Number
		a.Calls = append(a.Calls, gateway.KeptCall{
			Ref: ref, ID: c.ID, Method: c.Method, Tag: c.Tag, State: gateway.CallState(c.State),
			Age: time.Duration(c.Age) * time.Millisecond, Request: c.Request,
		})
	}
	return a
}

// adoptFault says why a survivor could not be attached to.
func adoptFault(r record, err error) error {
	if no, ok := errors.AsType[refusedError](err); ok && no.Reason == refusedBusy {
		return fault.New(fault.Busy, "server-held").
			Saying("another daemon holds this server: process %d, version %s", no.Holder.Pid, no.Holder.Version).
			Hinting("stop that daemon").Retrying(fault.AfterWait)
	}
	return fault.New(fault.Unavailable, "supervisor-unreachable").
		Saying("the supervisor of a running server, process %d, does not let this daemon in", r.Supervisor.Pid).Because(err).
		Hinting("`mcpx ps` shows supervisors that do not answer").Retrying(fault.AfterWait)
}

// End begins the ladder of a survivor. See gateway.Keeper.
func (b *Backend) End(id, reason string) {
	dir, r, err := b.survivor(id)
	if err != nil {
		return // it is gone already; its bundle is looked at with the next start
	}
	b.join.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), controlWait)
		defer cancel()
		err := b.terminate(ctx, r.Socket, r.Token, dir, r.Supervisor, reason)
		switch {
		case errors.Is(err, errStranger):
			return // whoever the record names has nothing to do with it
		case err != nil:
			process.Notify(r.Supervisor, sigTerm) // means the same to a supervisor
		}
		waitGone(r.Supervisor, b.cfg.Ladder.Total()+drainWait+overtime)
		if r.Supervisor.Alive() {
			process.Kill(r.Supervisor)
			if r.Child != nil {
				waitGone(*r.Child, orphanWait)
				process.KillOrphans(*r.Child)
			}
			removeSocket(r.Socket)
		}
		_ = dir.remove() // what is left is looked at with the next start
	})
}
