package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"syscall"

	"mcpx/internal/api"
	"mcpx/internal/atomicfile"
	"mcpx/internal/crash"
	"mcpx/internal/fault"
	"mcpx/internal/process"
	"mcpx/internal/sqlite"
)

// Taken are the listeners of a daemon that let go.
type Taken struct {
	TCP  net.Listener
	Unix net.Listener
}

// listeners is how many descriptors one daemon gives the next.
const listeners = 2

// Line is the connection of a process that takes over to the daemon that started it.
type Line struct {
	in process.Inherited
}

// Inherit finds the line; it fails in a process that was not started to take over.
func Inherit() (*Line, error) {
	in, err := process.Inherit(listeners)
	if err != nil {
		return nil, fault.New(fault.Invalid, "usage").Saying("--take-over is for mcpx itself").
			Hinting("use `mcpx daemon restart`").Because(err)
	}
	return &Line{in}, nil
}

// Fail tells the old daemon why this process will not take over.
func (l *Line) Fail(err error) {
	problem := api.ProblemOf(err)
	_ = l.say(report{State: stateFailed, Problem: &problem}) // one that has ended needs no answer
}

func (l *Line) say(r report) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = l.in.Reports.Write(append(data, '\n'))
	return err
}

// TakeOver starts a daemon in the place of the one at the other end of the line: it makes sure that it can start, waits
// until the old one has let go, and says when it serves.
func TakeOver(ctx context.Context, c Config, l *Line) (d *Daemon, err error) {
	defer func() {
		if err != nil {
			l.Fail(err)
		}
	}()
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Take, err = takeFiles(l.in.Files); err != nil {
		return nil, err
	}
	if err := c.rehearse(ctx); err != nil {
		return nil, err
	}
	crash.Point("daemon.prepared")
	if err := l.say(report{State: statePrepared}); err != nil {
		return nil, err
	}
	if err := l.awaitGo(); err != nil {
		return nil, err
	}
	crash.Point("daemon.ordered")
	if d, err = Start(ctx, c); err != nil {
		return nil, err
	}
	crash.Point("daemon.taken-over")
	about := d.About()
	if err := l.say(report{State: stateServing, Daemon: &about}); err != nil {
		// The old daemon died this moment. We have the lock and serve: that is what matters.
		d.log.WarnContext(ctx, "the old daemon does not hear that its place is taken")
	}
	_, _ = l.in.Orders.Close(), l.in.Reports.Close() // all was said
	return d, nil
}

func (l *Line) awaitGo() error {
	line, err := bufio.NewReaderSize(l.in.Orders, maxReport).ReadSlice('\n')
	var o order
	if err != nil || json.Unmarshal(line, &o) != nil || !o.Go {
		return fault.New(fault.Canceled, "canceled").Saying("the old daemon goes on").Because(err)
	}
	return nil
}

// takeFiles makes listeners of inherited descriptors, and closes those: an address is let go of when its listener closes.
func takeFiles(files []*os.File) (*Taken, error) {
	var found []net.Listener
	for _, f := range files {
		l, err := net.FileListener(f)
		_ = f.Close() // the listener has a copy
		if err != nil {
			for _, l := range found {
				_ = l.Close() // a copy
			}
			return nil, fault.New(fault.Internal, "listener-lost").Saying("a listener cannot be taken over").Because(err)
		}
		found = append(found, l)
	}
	if len(found) != listeners {
		return nil, errors.New("daemon: want two listeners")
	}
	return &Taken{TCP: found[0], Unix: found[1]}, nil
}

// fileOf gives a copy of the descriptor of a listener.
func fileOf(l net.Listener) (*os.File, error) {
	socket, ok := l.(syscall.Conn)
	if !ok {
		return nil, errors.New("daemon: a listener without a descriptor")
	}
	return process.Duplicate(socket)
}

// startRoom is what the state directory must have room for when one daemon takes the place of another: the journal that is
// written into the database when it closes, its next journal, names. On a disk that has filled up neither could start.
const startRoom = 1 << 20

// rehearse says why a daemon could not start in the place of the one whose listeners it has. It changes nothing, except
// that it listens on a new address when the settings say so, and writes for a moment what startRoom measures.
func (c *Config) rehearse(ctx context.Context) error {
	settings, err := LoadSettings(c.Paths.Settings(), c.Getenv)
	if err != nil {
		return err
	}
	if c.Listen != "" {
		if err := settings.Override("listener.address", "--listen", c.Listen); err != nil {
			return err
		}
	}
	if err := sqlite.Check(ctx, sqlite.Config{Path: c.Paths.Database(), Backups: backups(c.Paths), Now: c.Now}); err != nil {
		return err
	}
	if err := atomicfile.Room(c.Paths.State, startRoom); err != nil {
		return fault.New(fault.Unavailable, "state-unwritable").Saying("%s cannot be written", c.Paths.State).Because(err).
			Hinting("check owner, mode and free space of the state directory").Retrying(fault.AfterFix)
	}
	if Serves(c.Take.TCP.Addr().String(), settings.ListenerAddress) {
		return nil
	}
	moved, err := listenLoopback(settings.ListenerAddress)
	if err != nil {
		return err
	}
	old := c.Take.TCP
	c.Take.TCP = moved
	return old.Close()
}
