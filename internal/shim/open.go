//go:build unix

package shim

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"mcpx/internal/crash"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/process"
)

// startWait is how long a supervisor may take until it listens.
const startWait = 5 * time.Second

// openSupervised starts a supervisor, attaches to it, and by that starts the child.
func (b *Backend) openSupervised(ctx context.Context, o gateway.Open, c process.Command, sink gateway.Sink) (gateway.Link, error) {
	dir, err := b.newBundle()
	if err != nil {
		return nil, err
	}
	crash.Point("shim.bundle-made")
	program := b.files.examine(c.File)
	ready, err := b.startSupervisor(ctx, dir, o, c, program)
	if err != nil {
		_ = dir.remove() // swept at the next start if it fails
		if f, ok := errors.AsType[*fault.Error](err); ok {
			return nil, f
		}
		no := fault.New(fault.Unavailable, "supervisor-start").Saying("the supervisor of %s could not be started", o.Server.Name).Because(err)
		if _, err := os.Stat(b.cfg.Exe); errors.Is(err, fs.ErrNotExist) {
			return nil, no.Hinting("the daemon was started from there: put an mcpx back, or `mcpx daemon upgrade --binary PATH` with another one")
		}
		return nil, no.Hinting("see the daemon's log; `--supervised=false` runs the server without one")
	}
	crash.Point("shim.supervisor-started")
	conn, r, g, err := b.attach(ctx, dir, ready)
	if err != nil {
		process.Notify(ready.Self, sigTerm) // it has started nothing yet and leaves without a trace
		if f, ok := errors.AsType[*fault.Error](err); ok {
			return nil, f
		}
		return nil, fault.New(fault.Unavailable, "supervisor-start").
			Saying("the supervisor of %s does not answer", o.Server.Name).Because(err).
			Hinting("try again; the daemon's log has more")
	}
	crash.Point("shim.attached")
	l := newLink(b, dir, ready, g, conn)
	l.program, l.sink = program, sink
	b.join.Go(func() { l.read(r) })
	return l, nil
}

// startSupervisor fills the bundle and starts its owner.
func (b *Backend) startSupervisor(ctx context.Context, dir bundle, o gateway.Open, c process.Command, program process.Executable) (ready, error) {
	sp := spec{
		Format: formatVersion, ID: dir.id(), Server: o.Server.ID, Name: o.Server.Name, Lane: o.Lane, Process: o.Process, File: c.File, Argv: c.Argv, Dir: c.Dir,
		Env: map[string]string{}, Socket: dir.socket(b.cfg.RunDir), Ladder: b.cfg.Ladder, OrphanTTL: time.Duration(b.orphanTTL.Load()),
		Version: b.cfg.Version, Executable: program,
	}
	for _, kv := range c.Env {
		name, value, _ := strings.Cut(kv, "=")
		sp.Env[name] = digest(value)
	}
	if err := writeJSON(dir.spec(), sp); err != nil {
		return ready{}, unwritable(err)
	}
	crash.Point("shim.spec-written")
	stdin, err := json.Marshal(secrets{Env: c.Env})
	if err != nil {
		return ready{}, err
	}
	return launch(ctx, &b.scope, b.cfg.Log, b.cfg.Exe, b.cfg.Environ, dir, stdin)
}

// launch starts the owner of a directory and waits until it says that it is there.
func launch(ctx context.Context, in *scope, log *slog.Logger, exe string, environ []string, dir bundle, stdin []byte) (ready, error) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	line, err := in.start(ctx, environ, log, process.Detached{
		Exe: exe, Args: []string{Subcommand, string(dir)}, Env: process.Environ(environ, crash.Environ()), Stdin: stdin,
	})
	if err != nil {
		return ready{}, err
	}
	var rd ready
	if err := json.Unmarshal(line, &rd); err != nil {
		return ready{}, err
	}
	if rd.Error != "" {
		if err = errors.New(rd.Error); rd.State {
			err = unwritable(err)
		}
		return ready{}, err
	}
	return rd, nil
}

// dial connects to a supervisor and says who we are; the answer is in the reader.
func (b *Backend) dial(ctx context.Context, socket, token, instance, role string, want process.Identity) (*net.UnixConn, *frameReader, error) {
	return b.hello(ctx, socket, want, hello{
		Min: b.speak.min, Max: b.speak.max, Role: role, Generation: b.cfg.Epoch, Token: token, Instance: instance,
		Daemon: daemonInfo{Identity: b.self, Version: b.cfg.Version},
	})
}

// errStranger says that the record of a bundle and the process behind its socket do not belong together.
var errStranger = errors.New("another process answers on the supervisor's socket")

// hello connects to the supervisor with the given identity and sends h.
func (b *Backend) hello(ctx context.Context, socket string, want process.Identity, h hello) (*net.UnixConn, *frameReader, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, nil, errors.New("not a unix socket")
	}
	owner, err := process.PeerOf(conn)
	if err == nil && (owner.Pid != want.Pid || owner.UID != os.Geteuid()) {
		err = errStranger
	}
	if err == nil {
		err = peer{conn: conn, generation: h.Generation}.send(kindHello, h)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	_ = conn.SetDeadline(time.Time{}) // fails only on a closed connection
	size := controlBuffer
	if h.Role == roleAttach {
		size = linkBuffer
	}
	return conn, newFrameReader(conn, size), nil
}

// attach becomes the holder of a fresh supervisor, and by that starts the child. A child that could not be started is a
// *fault.Error.
func (b *Backend) attach(ctx context.Context, dir bundle, rd ready) (*net.UnixConn, *frameReader, greeted, error) {
	conn, r, err := b.dial(ctx, rd.Socket, rd.Token, dir.id(), roleAttach, rd.Self)
	if err != nil {
		return nil, nil, greeted{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	g, err := readGreeting(r)
	if err == nil {
		err = readStart(r, g)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		// For a child that never ran: without it an exit file stays until the next start.
		b.leave(conn)
		return nil, nil, g, err
	}
	return conn, r, g, nil
}

// leave takes leave from a supervisor as well as it can, and ends the connection.
func (b *Backend) leave(conn *net.UnixConn) {
	_, _ = conn.Write(header{kind: kindDetach, generation: uint32(b.cfg.Epoch)}.append(nil))
	_ = conn.Close()
}

// readStart reads whether the child was started.
func readStart(r *frameReader, g greeted) error {
	f, err := r.next()
	if err != nil || f.kind != kindReady {
		return errors.Join(err, errors.New("no READY after WELCOME"))
	}
	if g.welcome.Child != nil {
		return nil
	}
	if f, err = r.next(); err != nil {
		return err
	}
	var i exitInfo
	if f.kind != kindExit || json.Unmarshal(f.body, &i) != nil {
		return errors.New("no child, and no word why")
	}
	return spawnFault(i)
}
