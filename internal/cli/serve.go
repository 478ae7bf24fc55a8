package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"mcpx/internal/api"
	"mcpx/internal/daemon"
	"mcpx/internal/fault"
	"mcpx/internal/process"
	"mcpx/internal/telemetry"
)

// serve starts a daemon in this process.
func (e *Env) serve(ctx context.Context, a Args, detached bool, change func(*daemon.Config)) (*daemon.Daemon, error) {
	c, err := e.daemonConfig(a, detached)
	if err != nil {
		return nil, err
	}
	if change != nil {
		change(&c)
	}
	process.ReapAsInit() // until the process ends
	return daemon.Start(ctx, c)
}

// takeOver starts a daemon in the place of the one that started this process.
func (e *Env) takeOver(ctx context.Context, a Args, detached bool) error {
	line, err := daemon.Inherit()
	if err != nil {
		return err
	}
	c, err := e.daemonConfig(a, detached)
	if err != nil {
		line.Fail(err)
		return err
	}
	d, err := daemon.TakeOver(ctx, c, line)
	if err != nil {
		return err
	}
	e.logs = false // the terminal belongs to the process before us, which leads its signals here
	e.successor = true
	return e.untilStopped(ctx, d, false)
}

// daemonConfig is what a daemon in this process needs.
func (e *Env) daemonConfig(a Args, detached bool) (daemon.Config, error) {
	paths, err := e.Paths()
	if err != nil {
		return daemon.Config{}, err
	}
	levels, err := telemetry.ParseLevels(e.Getenv("MCPX_LOG"))
	if err != nil {
		return daemon.Config{}, err
	}
	c := daemon.Config{
		Paths: paths, Version: e.Version, Listen: a.String("listen"), Getenv: e.Getenv, Environ: os.Environ(),
		Now: e.Now, Log: telemetry.NewLogger(e.Err, e.logs, levels),
	}
	if c.Exe, err = os.Executable(); err != nil {
		return c, fault.New(fault.Internal, "self-unknown").Saying("the path of this program is not known").Because(err)
	}
	if !detached {
		return c, nil
	}
	if err := api.MakePrivate(paths.Logs()); err != nil {
		return c, err
	}
	c.LogFile = filepath.Join(paths.Logs(), "mcpx.log")
	file, err := telemetry.OpenFile(c.LogFile, telemetry.LogFileBytes, telemetry.LogFiles)
	if err != nil {
		return c, fault.New(fault.Unavailable, "state-unwritable").Saying("the log %s cannot be opened", c.LogFile).Because(err)
	}
	c.Log = telemetry.NewLogger(file, false, levels)
	if err := os.Chdir(paths.State); err != nil { // the directory of the command may be removed or unmounted
		return c, fault.New(fault.Unavailable, "state-unwritable").Saying("cannot enter %s", paths.State).Because(err)
	}
	return c, nil
}

// untilStopped lets the daemon run until a signal or a caller of the API ends it. With children the servers end too, also
// when a caller did not ask for it. After a hand-over to another process it stays as long as somebody needs this one.
func (e *Env) untilStopped(ctx context.Context, d *daemon.Daemon, children bool) error {
	e.notify("READY=1") // it listens; a unit of Type=notify has started now
	asked := false
	defer func() {
		if asked && d.About().Up {
			e.Note("mcpx up ended: somebody ran `mcpx daemon stop`")
		}
	}()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer cancel()
	var former formers
	defer former.end()
	for running := true; running; {
		select {
		case <-ctx.Done():
			running = false
		case next := <-d.HandedOver():
			former.add(ctx, d)
			if next.Daemon == nil {
				return e.handedOver(ctx, d.About(), next, hangup, &former)
			}
			d = next.Daemon
		case more := <-d.StopAsked():
			children = children || more
			running, asked = false, true
		case <-hangup:
			if e.logs { // the terminal was closed
				running = false
			} else {
				d.Reload(ctx)
			}
		}
	}
	signal.Reset(os.Interrupt, syscall.SIGTERM) // a second signal ends the process at once
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer done()
	err := d.Stop(stop, children)
	select {
	case next := <-d.HandedOver(): // just now: who takes its place is meant, too
		former.add(ctx, d)
		return errors.Join(err, next.Stop(stop, children))
	default:
		return err
	}
}

// formers are daemons of this process that let go and still have connections.
type formers struct {
	linger sync.WaitGroup
	cut    []context.CancelFunc
}

func (f *formers) add(ctx context.Context, d *daemon.Daemon) {
	ctx, cut := context.WithCancel(context.WithoutCancel(ctx))
	f.cut = append(f.cut, cut)
	f.linger.Go(func() { d.Linger(ctx) })
}

// end cuts the connections that are left.
func (f *formers) end() {
	for _, cut := range f.cut {
		cut()
	}
	f.linger.Wait()
}

// done is closed when no connection is left.
func (f *formers) done() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		f.linger.Wait()
		close(done)
	}()
	return done
}

// handedOver is the rest of the life of a process whose daemon let go. One in the background ends with its connections.
// One that a person or a service manager started in the foreground stays: whoever started it waits for its end, and it leads signals to the daemon that runs now.
func (e *Env) handedOver(ctx context.Context, old api.Daemon, next daemon.Succession, hangup <-chan os.Signal, former *formers) error {
	if next.Err != nil {
		return next.Err
	}
	if old.Detached || e.successor || e.notify("MAINPID="+strconv.Itoa(next.By.Pid)) {
		select {
		case <-former.done():
		case <-ctx.Done():
		}
		return nil
	}
	e.Note("the daemon with pid %d, version %s, has taken over; this process stays until it ends", next.By.Pid, next.By.Version)
	paths, err := e.Paths()
	if err != nil {
		return err
	}
	gone := make(chan error, 1)
	go func() { gone <- daemon.AwaitGone(context.WithoutCancel(ctx), paths) }()
	client := api.NewClient(paths.Socket())
	for {
		select {
		case err := <-gone:
			return err
		case <-hangup:
			if !e.logs {
				if _, err := client.DaemonReload(ctx, api.None{}); err != nil {
					e.Note("not reloaded: %s", err)
				}
				continue
			}
		case <-ctx.Done():
		}
		signal.Reset(os.Interrupt, syscall.SIGTERM)
		stop, done := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer done()
		_, err := client.DaemonStop(stop, api.StopDaemon{})
		if down(err) {
			return nil
		}
		return err
	}
}

// notify tells the service manager a word (sd_notify(3)). False: there is none that listens.
func (e *Env) notify(word string) bool {
	socket := e.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return false
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return false
	}
	_, err = conn.Write([]byte(word))
	return errors.Join(err, conn.Close()) == nil
}
