package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/crash"
	"mcpx/internal/fault"
	"mcpx/internal/key"
	"mcpx/internal/process"
)

// A planned restart: the running daemon starts the next one with its listeners (TakeOver is that side), lets it prove
// that it can start, and only then lets go. Until the next one serves nothing is given up for good: when it fails, a
// daemon is started again in this process. Afterwards this process is without state and leads what still arrives on its
// connections to the next daemon.

// Bounds of a hand-over.
const (
	// probeWithin is how long a program may take to say its version.
	probeWithin = 5 * time.Second
	// prepareWithin is how long the next daemon may take to say that it could start. Nothing stands still meanwhile.
	prepareWithin = 20 * time.Second
	// serveWithin is how long it may take from then until it serves; callers wait. A migration of the database is the
	// slow part.
	serveWithin = 20 * time.Second
	// settleWithin is how long operations of the local API that use the database may go on.
	settleWithin = 2 * time.Second
	// drainWithin is how long changes of files may take to end. While one goes on, no other daemon may start: it would carry out
	// the same one.
	drainWithin = 10 * time.Second
	// detachWithin bounds leaving the supervisors. One whose child reads nothing cannot take what is on the way to it; the
	// next daemon sends that anew.
	detachWithin = 2 * time.Second
	// rejoinWithin is how long a daemon that took over keeps calls of 2026-07-28 for the old one, which joins them again
	// for its clients as soon as the socket answers.
	rejoinWithin = 10 * time.Second
	// maxReport bounds one line between the two daemons, in bytes.
	maxReport = 64 << 10
)

// report is one line of the next daemon.
type report struct {
	State   string       `json:"state"` // prepared, serving, failed
	Daemon  *api.Daemon  `json:"daemon,omitempty"`
	Problem *api.Problem `json:"problem,omitempty"`
}

// The states of a report.
const (
	statePrepared = "prepared"
	stateServing  = "serving"
	stateFailed   = "failed"
)

// order is the one line that the old daemon writes: it has let go.
type order struct {
	Go bool `json:"go"`
}

// Succession is what became of a daemon that let go.
type Succession struct {
	By     api.Daemon // who serves now
	Daemon *Daemon    // that daemon when it runs in this process, because the new one failed; nil: another process
	Err    error      // nobody serves: the new one failed, and so did the attempt to go on here
}

// Stop ends the daemon that serves now.
func (s Succession) Stop(ctx context.Context, children bool) error {
	switch {
	case s.Err != nil:
		return s.Err
	case s.Daemon != nil:
		return s.Daemon.Stop(ctx, children)
	}
	_, err := api.NewClient(s.By.Socket).DaemonStop(ctx, api.StopDaemon{Children: children})
	return err
}

// HandedOver gives a value when this daemon has let go. Linger must be called then.
func (d *Daemon) HandedOver() <-chan Succession { return d.succeeded }

// Restart starts the next daemon in a process of its own, from another program when in says so, and returns when it
// serves. When it fails nothing is lost: this daemon goes on, or starts again in this process.
func (d *Daemon) Restart(ctx context.Context, in api.RestartDaemon) (api.Restarted, error) {
	if len(d.cfg.Overlay.Servers) > 0 {
		return api.Restarted{}, fault.New(fault.Conflict, "daemon-foreground").
			Saying("the daemon is `mcpx up` (pid %d), which runs in a terminal", d.about.Pid).Hinting("end it there with Ctrl-C, then run it again")
	}
	if !d.hand.TryLock() {
		return api.Restarted{}, fault.New(fault.Conflict, "restart-running").Saying("the daemon is being restarted").
			Hinting("wait until that has ended").Retrying(fault.AfterWait)
	}
	defer d.hand.Unlock()
	if d.letgo {
		return api.Restarted{}, fault.New(fault.Conflict, "restart-running").Saying("another process has taken the place of this daemon already").
			Hinting("repeat the command").Retrying(fault.AfterWait)
	}
	prepare, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ending, cancel)()
	next, err := d.prepareNext(prepare, in)
	if err != nil {
		return api.Restarted{}, err
	}
	if err := d.drain(prepare); err != nil {
		next.end()
		next.closeFiles()
		return api.Restarted{}, err
	}
	d.letgo = true
	// From here on the caller may leave: half of a hand-over would be worse than any outcome.
	by, err := d.letGo(context.WithoutCancel(ctx), next)
	return api.Restarted{Daemon: by, OldPid: d.about.Pid, OldVersion: d.cfg.Version}, err
}

// successor is the next daemon as this one sees it.
type successor struct {
	*process.Successor
	reports *bufio.Reader
	files   []*os.File // our copies of the listeners
}

// end makes an end of a successor that failed; the listeners are kept.
func (s *successor) end() { s.End() }

func (s *successor) closeFiles() {
	for _, f := range s.files {
		_ = f.Close() // a copy; the listener itself lives in the process that serves
	}
}

// prepareNext starts the next daemon and waits until it says that it could start.
func (d *Daemon) prepareNext(ctx context.Context, in api.RestartDaemon) (*successor, error) {
	exe := d.cfg.Exe
	if in.Binary != "" {
		exe = in.Binary
	}
	environ := d.cfg.Environ
	if len(in.Environ) > 0 {
		environ = process.DaemonEnviron(in.Environ)
	}
	if err := d.probe(ctx, exe, environ); err != nil {
		if in.Binary == "" {
			err = fault.From(err).Hinting("this daemon was started from there: put an mcpx back, or `mcpx daemon upgrade --binary PATH` with another one")
		}
		return nil, err
	}
	next := &successor{}
	for _, l := range []net.Listener{d.tcp, d.unix} {
		f, err := fileOf(l)
		if err != nil {
			next.closeFiles()
			return nil, err
		}
		next.files = append(next.files, f)
	}
	args := []string{"serve", "--take-over"}
	if d.about.Detached {
		args = append(args, "--detached")
	}
	if listen := d.listenNext(in.Listen); listen != "" {
		args = append(args, "--listen", listen)
	}
	var err error
	next.Successor, err = process.StartSuccessor(process.Succession{Exe: exe, Args: args, Env: environ, Log: os.Stderr, Files: next.files})
	if err != nil {
		next.closeFiles()
		return nil, err
	}
	next.reports = bufio.NewReaderSize(next.Reports, maxReport)
	if _, err := next.await(ctx, statePrepared, prepareWithin); err != nil {
		next.end()
		next.closeFiles()
		return nil, failedNext(err, d.about.Pid)
	}
	return next, nil
}

// listenNext is the value of --listen for the next daemon: a new one, or the address that a flag gave this one.
func (d *Daemon) listenNext(asked string) string {
	if asked == "" && d.about.ListenFlag {
		return d.about.Listener
	}
	return asked
}

func failedNext(err error, pid int) error {
	f := fault.From(err)
	return fault.New(f.Kind, "restart-failed").Saying("the new daemon could not start: %s", f.Error()).
		Hinting("%s", hintAfter(f.Hint, pid)).Retrying(fault.AfterFix)
}

func hintAfter(hint string, pid int) string {
	text := fmt.Sprintf("the daemon with pid %d goes on as before", pid)
	if hint != "" {
		text += "; " + hint
	}
	return text
}

// probe makes sure that a file is an mcpx before anything is tried with it.
func (d *Daemon) probe(ctx context.Context, exe string, environ []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeWithin, fmt.Errorf("no answer within %s", probeWithin))
	defer cancel()
	bad := fault.New(fault.Invalid, "binary-invalid").Saying("%s is no mcpx that runs here", exe).
		Hinting("give the path of an mcpx for this system; try it with `%s version`", exe)
	out, err := runner{home: d.home(), environ: environ}.Output(ctx, []string{exe, "version", "--json"}, maxReport)
	if err != nil {
		return bad.Because(err)
	}
	var said struct {
		Version string `json:"version"`
		Level   int    `json:"api_level"`
	}
	if err := json.Unmarshal(out, &said); err != nil || said.Version == "" || said.Level == 0 {
		return bad.Because(errors.New("`version --json` does not answer as mcpx does"))
	}
	return nil
}

// await reads the next report, which must say state.
func (s *successor) await(ctx context.Context, state string, within time.Duration) (report, error) {
	if err := s.Reports.SetReadDeadline(time.Now().Add(within)); err != nil {
		return report{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = s.Reports.SetReadDeadline(time.Now()) })()
	line, err := s.reports.ReadSlice('\n')
	switch {
	case ctx.Err() != nil:
		return report{}, fault.New(fault.Canceled, "canceled").Saying("canceled before the new daemon was ready").Because(context.Cause(ctx))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return report{}, fault.New(fault.Unavailable, "start-failed").Saying("it said nothing for %s", within)
	case err != nil:
		return report{}, fault.New(fault.Unavailable, "start-failed").Saying("it ended before it said %q", state).Hinting("look at its log")
	}
	var r report
	if err := json.Unmarshal(line, &r); err != nil {
		return report{}, fault.New(fault.Internal, "start-failed").Saying("what it said is not understood").Because(err)
	}
	if r.State == stateFailed && r.Problem != nil {
		return r, r.Problem.Fault()
	}
	if r.State != state {
		return r, fault.New(fault.Internal, "start-failed").Saying("it said %q, not %q", r.State, state)
	}
	return r, nil
}

// drain lets nobody change files any more. When that takes too long, this daemon goes on.
func (d *Daemon) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	return d.worker.Drain(ctx)
}

// letGo freezes this daemon, gives its place to the next one and tells who serves in the end.
func (d *Daemon) letGo(ctx context.Context, next *successor) (api.Daemon, error) {
	defer next.closeFiles()
	began := d.cfg.Now()
	if err := d.freeze(ctx); err != nil {
		d.log.LogAttrs(ctx, slog.LevelWarn, "not everything was let go in order", slog.Any(key.Cause, err))
	}
	by, err := next.takes(ctx)
	if err == nil {
		crash.Point("daemon.handed-over")
		next.Release()
		d.log.LogAttrs(ctx, slog.LevelInfo, "handed over", slog.Int(key.Pid, by.Pid), slog.String(key.Version, by.Version), slog.Duration(key.Took, d.cfg.Now().Sub(began)))
		d.succeeded <- Succession{By: by}
		return by, nil
	}
	next.end()
	again, goOn := d.revive(ctx, next.files)
	if goOn != nil {
		d.succeeded <- Succession{Err: errors.Join(err, goOn)}
		return api.Daemon{}, fault.New(fault.Unavailable, "restart-failed").
			Saying("the new daemon could not start, and neither could the old one again: %s", fault.From(goOn).Error()).
			Hinting("start one with `mcpx daemon start`; the servers wait").Because(err)
	}
	d.log.LogAttrs(ctx, slog.LevelError, "hand-over failed; the old daemon goes on", slog.Any(key.Cause, err))
	d.succeeded <- Succession{By: again.About(), Daemon: again}
	return again.About(), failedNext(err, d.about.Pid)
}

// takes gives the next daemon its turn and waits until it serves.
func (s *successor) takes(ctx context.Context) (api.Daemon, error) {
	data, err := json.Marshal(order{Go: true})
	if err != nil {
		return api.Daemon{}, err
	}
	if _, err := s.Orders.Write(append(data, '\n')); err != nil {
		return api.Daemon{}, fault.New(fault.Unavailable, "start-failed").Saying("it ended before it was its turn").Because(err)
	}
	r, err := s.await(ctx, stateServing, serveWithin)
	if err == nil && r.Daemon == nil {
		err = fault.New(fault.Internal, "start-failed").Saying("it does not say who it is")
	}
	if err != nil {
		return api.Daemon{}, err
	}
	return *r.Daemon, nil
}

// freeze lets go of everything that only one daemon may have: nothing new is begun here, supervised servers are left,
// the database is closed and the lock is free. What arrives on open connections waits for the daemon that comes.
func (d *Daemon) freeze(ctx context.Context) error {
	crash.Point("daemon.freezing")
	d.catalog.stop(ctx)
	d.loop.stop(ctx)
	d.pruning.stop(ctx)
	d.loopback.StopAccepting()
	d.local.StopAccepting()
	d.gate.Move()
	settle, settled := context.WithTimeout(ctx, settleWithin)
	defer settled()
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		d.public.Shut() // clients of other machines come back
		d.worker.Stop() // what has begun is recorded before the database closes
	}()
	errs := []error{d.local.Settle(settle)}
	detach, detached := context.WithTimeout(ctx, detachWithin)
	defer detached()
	errs = append(errs, d.gateway.HandOver(detach))
	select {
	case <-worked:
	case <-settle.Done(): // no file is changed by what is left: the next daemon finds its operations as after a crash
		errs = append(errs, fmt.Errorf("operations are not recorded: %w", context.Cause(settle)))
	}
	crash.Point("daemon.detached")
	d.heads.stop(ctx)
	errs = append(errs, d.db.Close(), d.lock.Release())
	crash.Point("daemon.frozen")
	return errors.Join(errs...)
}

// revive starts a daemon in this process with the listeners of the one that let go.
func (d *Daemon) revive(ctx context.Context, files []*os.File) (*Daemon, error) {
	c := d.cfg
	var err error
	if c.Take, err = takeFiles(files); err != nil {
		return nil, err
	}
	if d.about.ListenFlag {
		c.Listen = d.about.Listener
	}
	return Start(ctx, c)
}

// Linger serves the connections of a daemon that let go until no client needs them, at most as long as a call may take.
func (d *Daemon) Linger(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, d.gateway.Longest())
	defer cancel()
	watch, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		awaitGone(watch, d.cfg.Paths)
		cancel() // without a daemon there is nobody to lead to
	}()
	if err := d.gateway.Linger(ctx); err != nil {
		d.log.LogAttrs(ctx, slog.LevelWarn, "the old connections did not end in order", slog.Any(key.Cause, err))
	}
	d.gate.Linger(ctx)
	cut, now := context.WithCancel(ctx)
	now()
	d.loopback.Stop(cut)
	d.local.Close()
}

// redial is the pause before a daemon that does not answer is taken for gone.
const redial = 100 * time.Millisecond

// awaitGone returns when no daemon listens for the home any more, or ctx is done. It keeps a connection open, whose end
// is the sign to look again.
func awaitGone(ctx context.Context, paths api.Paths) {
	for missed := 0; missed < 2; {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", paths.Socket())
		if err == nil {
			missed = 0
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			_, _ = conn.Read(make([]byte, 1)) // nothing is ever said; the server ends idle connections
			stop()
			_ = conn.Close()
		} else {
			missed++
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(redial):
		}
	}
}

// AwaitGone returns when no daemon runs for the home any more, or ctx is done. The error says that the last one did not
// end in order.
func AwaitGone(ctx context.Context, paths api.Paths) error {
	awaitGone(ctx, paths)
	if ctx.Err() != nil {
		return nil
	}
	if _, err := os.Stat(paths.Owner()); err == nil {
		return fault.New(fault.Unavailable, "daemon-gone").Saying("the daemon that took over has ended without a word").
			Hinting("look at the log above; the next start goes on with its servers")
	}
	return nil
}
