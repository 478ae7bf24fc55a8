//go:build unix

package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"mcpx/internal/atomicfile"
	"mcpx/internal/crash"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/process"
)

// JobsConfig holds what Jobs needs. All fields are required.
type JobsConfig struct {
	StateDir string   // directories lie in jobs/ below it
	TempDir  string   // temporary directories lie in a private directory below it
	Exe      string   // this binary, started again as a supervisor
	Version  string   // of this binary
	Environ  []string // our own environment, for the supervisors
	Log      *slog.Logger
}

// Jobs runs commands, each under a supervisor of its own that outlives the daemon.
type Jobs struct {
	cfg   JobsConfig
	self  process.Identity
	scope scope

	input sync.Mutex // held while a chunk is appended
}

var _ operation.Runner = (*Jobs)(nil)

// NewJobs makes Jobs. Nothing is read or started.
func NewJobs(c JobsConfig) (*Jobs, error) {
	switch {
	case !filepath.IsAbs(c.StateDir), !filepath.IsAbs(c.TempDir), !filepath.IsAbs(c.Exe):
		return nil, fmt.Errorf("shim: JobsConfig.StateDir, TempDir and Exe are %q, %q and %q, want absolute paths", c.StateDir, c.TempDir, c.Exe)
	case c.Log == nil:
		return nil, errors.New("shim: JobsConfig.Log is required")
	}
	self, err := process.Identify(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("shim: who am I: %w", err)
	}
	return &Jobs{cfg: c, self: self}, nil
}

func (s *Jobs) dirs() string { return filepath.Join(s.cfg.StateDir, "jobs") }

func (s *Jobs) dir(ref operation.JobRef) jobDir { return jobDirOf(s.dirs(), ref) }

func (s *Jobs) temps() string {
	return filepath.Join(s.cfg.TempDir, process.JobTemps())
}

// Temp is the temporary directory of an attempt.
func (s *Jobs) Temp(ref operation.JobRef) string {
	return filepath.Join(s.temps(), ref.ID+"."+strconv.Itoa(ref.Attempt))
}

// Reserve makes the directories of an attempt. An attempt that was reserved before is fine as long as it is empty.
func (s *Jobs) Reserve(_ context.Context, ref operation.JobRef) error {
	d := s.dir(ref)
	for _, parent := range []string{s.dirs(), s.temps()} {
		if err := makePrivate(parent); err != nil {
			return unwritable(err)
		}
	}
	for _, dir := range []string{string(d.bundle), s.Temp(ref)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return unwritable(err)
		}
	}
	if err := atomicfile.SyncDir(s.dirs()); err != nil {
		return unwritable(err)
	}
	crash.Point("job.mkdir.after")
	return nil
}

// Start starts the command of an attempt. It returns when the command runs, or is known not to run.
func (s *Jobs) Start(ctx context.Context, o operation.StartJob) (operation.JobEvidence, error) {
	d := s.dir(o.JobRef)
	sp := jobSpec{
		Format: jobFormat, Kind: kindJob, ID: o.ID, File: o.File, Argv: o.Argv, Dir: o.Dir, Env: map[string]string{}, Stdin: o.Stdin,
		Timeout: o.Timeout, Temp: s.Temp(o.JobRef), Version: s.cfg.Version,
	}
	for _, kv := range o.Env {
		name, value, _ := strings.Cut(kv, "=")
		sp.Env[name] = digest(value)
	}
	if o.Stdin == operation.StdinOpen {
		if err := os.Mkdir(d.input(), 0o700); err != nil {
			return operation.JobEvidence{}, unwritable(err)
		}
	}
	if err := writeJSON(d.spec(), sp); err != nil {
		return operation.JobEvidence{}, unwritable(err)
	}
	stdin, err := json.Marshal(secrets{Env: o.Env, Stdin: o.Text, Redact: o.Secrets})
	if err != nil {
		return operation.JobEvidence{}, err
	}
	if _, err := launch(ctx, &s.scope, s.cfg.Log, s.cfg.Exe, s.cfg.Environ, d.bundle, stdin); err != nil {
		return operation.JobEvidence{}, fault.New(fault.Unavailable, "supervisor-start").Saying("the supervisor of the command could not be started").
			Because(err).Hinting("see the daemon's log")
	}
	crash.Point("job.supervisor.spawned")
	return s.Look(ctx, o.JobRef)
}

// Look reads the directory of an attempt.
func (s *Jobs) Look(_ context.Context, ref operation.JobRef) (operation.JobEvidence, error) {
	d := s.dir(ref)
	if err := checkOwned(string(d.bundle), fs.ModeDir); errors.Is(err, fs.ErrNotExist) {
		return operation.JobEvidence{Gone: true}, nil
	} else if err != nil {
		return operation.JobEvidence{}, err
	}
	// The lock comes first: when it is free, nobody writes any more.
	held, err := atomicfile.Held(d.lock())
	if err != nil {
		return operation.JobEvidence{}, err
	}
	e := operation.JobEvidence{Held: held}
	record, err := readJob(d.record(), func(r *jobRecord) int { return r.Format })
	if err == nil {
		e.Version = record.Version
	} else if !errors.Is(err, fs.ErrNotExist) {
		return operation.JobEvidence{}, err
	}
	exit, err := readJob(d.exit(), func(e *jobExit) int { return e.Format })
	if err == nil {
		e.Exit = &exit.JobExit
	} else if !errors.Is(err, fs.ErrNotExist) {
		return operation.JobEvidence{}, err
	}
	started, err := readJob(d.started(), func(s *jobStarted) int { return s.Format })
	if err == nil {
		e.Started = &operation.JobStarted{At: started.At, Pid: started.Child.Pid}
		e.Rebooted = started.Child.Boot != s.self.Boot
	} else if !errors.Is(err, fs.ErrNotExist) {
		return operation.JobEvidence{}, err
	}
	if !held && e.Started != nil && !e.Rebooted && (e.Exit == nil || e.Exit.Descendants) {
		left, err := d.remains()
		if err != nil {
			return operation.JobEvidence{}, err
		}
		e.Survivors = pids(left)
	}
	if e.Exit != nil {
		e.Exit.Descendants = e.Exit.Descendants && (held || len(e.Survivors) > 0)
	}
	return e, nil
}

// remains are the processes of a command whose supervisor has ended.
func (d jobDir) remains() ([]process.Identity, error) {
	started, err := readJob(d.started(), func(s *jobStarted) int { return s.Format })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sp, err := readJob(d.spec(), func(s *jobSpec) int { return s.Format })
	if err != nil {
		return nil, err
	}
	r, err := readJob(d.record(), func(r *jobRecord) int { return r.Format })
	if err != nil {
		return nil, err
	}
	// The supervisor leads the session of the command. No other command has this directory, nor does a daemon
	// that is started within this one (process.DaemonEnviron).
	return process.Remains(started.Child, r.Supervisor.Pid, "TMPDIR="+sp.Temp), nil
}

func pids(ids []process.Identity) (all []int) {
	for _, id := range ids {
		all = append(all, id.Pid)
	}
	return all
}

// Fence makes sure that an attempt that was not started never is.
func (s *Jobs) Fence(_ context.Context, ref operation.JobRef) error {
	d := s.dir(ref)
	lock, err := atomicfile.TryLock(d.lock())
	if errors.Is(err, atomicfile.ErrLocked) {
		return fault.New(fault.Busy, "job-held").Saying("a supervisor of %s lives", ref.ID).Retrying(fault.AfterWait)
	}
	if err != nil {
		return err
	}
	for _, path := range []string{d.started(), d.exit()} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fault.New(fault.Conflict, "job-started").Saying("%s was started after all", ref.ID), err, lock.Release())
		}
	}
	// Only then the lock is given back: a supervisor that comes late finds the file, and starts nothing.
	return errors.Join(atomicfile.Write(d.void(), nil, 0o600), lock.Release())
}

// Discard removes the directories of an attempt that never ran.
func (s *Jobs) Discard(_ context.Context, ref operation.JobRef) error {
	return errors.Join(os.RemoveAll(string(s.dir(ref).bundle)), os.RemoveAll(s.Temp(ref)))
}

// Stop asks for the end of a job.
func (s *Jobs) Stop(_ context.Context, o operation.StopJob) error {
	if _, known := signals[o.Signal]; !known {
		return fault.New(fault.Invalid, "signal-unknown").Saying("%.16q is no signal that can be sent", o.Signal).Hinting("TERM, INT, HUP, QUIT and KILL are")
	}
	d := s.dir(o.JobRef)
	if err := writeJSON(d.stop(), jobStop{By: o.By, Signal: o.Signal, Grace: o.Grace}); err != nil {
		return unwritable(err)
	}
	held, err := atomicfile.Held(d.lock())
	if err != nil {
		return err
	}
	if held {
		s.wake(d)
		return nil
	}
	left, err := d.remains()
	for _, id := range left {
		process.Notify(id, signals[o.Signal])
	}
	return err
}

// wake makes the supervisor look at once; without it, it looks with the slow clock.
func (s *Jobs) wake(d jobDir) {
	if r, err := readJob(d.record(), func(r *jobRecord) int { return r.Format }); err == nil {
		process.Notify(r.Supervisor, unix.SIGUSR1)
	}
}

// Stopped says what outlived a stop.
func (s *Jobs) Stopped(_ context.Context, ref operation.JobRef, by string) (survivors []int, done bool, err error) {
	d := s.dir(ref)
	held, err := atomicfile.Held(d.lock())
	if err != nil {
		return nil, false, err
	}
	var stopped jobStopped
	err = readJSON(d.stopped(), &stopped)
	switch {
	case err == nil && stopped.By == by:
		return stopped.Survivors, true, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, false, err
	case held:
		return nil, false, nil
	}
	return d.unwatched()
}

// unwatched carries on a stop that no supervisor carries out any more: what lives on after its grace is killed, and
// what that does not end in time has outlived the stop.
func (d jobDir) unwatched() (survivors []int, done bool, err error) {
	left, err := d.remains()
	if err != nil || len(left) == 0 {
		return nil, err == nil, err
	}
	var wish jobStop
	if err := readJSON(d.stop(), &wish); err != nil {
		return nil, false, err
	}
	info, err := os.Stat(d.stop())
	if err != nil {
		return nil, false, err
	}
	// The clock of files may have been set back since: then nobody waits for it for longer than the grace.
	if time.Since(info.ModTime()).Abs() < wish.Grace {
		return nil, false, nil
	}
	for limit := time.Now().Add(groupWait); len(left) > 0 && time.Now().Before(limit); {
		for _, id := range left {
			process.Kill(id)
		}
		time.Sleep(goneEvery)
		if left, err = d.remains(); err != nil {
			return nil, false, err
		}
	}
	return pids(left), true, nil
}

// Feed appends to the standard input of a job.
func (s *Jobs) Feed(_ context.Context, c operation.Chunk) (operation.JobInput, error) {
	s.input.Lock()
	defer s.input.Unlock()
	d := s.dir(c.JobRef)
	in, err := appendChunk(d.input(), c)
	if err != nil {
		return in, err
	}
	s.wake(d)
	return in, nil
}

// Fed tells whether a chunk was appended.
func (s *Jobs) Fed(_ context.Context, ref operation.JobRef, by string) (bool, error) {
	all, _, err := readSpool(s.dir(ref).input())
	return slices.ContainsFunc(all, func(c spooled) bool { return c.by == chunkOf(by) }), err
}

// Input says how much of the standard input waits.
func (s *Jobs) Input(_ context.Context, ref operation.JobRef) (operation.JobInput, error) {
	all, closed, err := readSpool(s.dir(ref).input())
	return standing(all, closed), err
}

// Output is a window of what a job wrote.
func (s *Jobs) Output(_ context.Context, w operation.OutputAt) (operation.JobOutput, error) {
	return readSegments(string(s.dir(w.JobRef).bundle), w.Stream, w.Offset, w.Max)
}

// Above finds the job that a process belongs to, by the process and its ancestors; "" none. Its supervisor is among them for
// as long as it lives, also when those in between have ended: it is the subreaper. An error says that nobody knows.
func (s *Jobs) Above(line []int) (job string, err error) {
	refs, err := s.Attempts(context.Background())
	if err != nil {
		return "", err
	}
	for _, ref := range refs {
		d := s.dir(ref)
		held, err := atomicfile.Held(d.lock())
		if err != nil {
			return "", err
		}
		if !held {
			continue // without its supervisor the number may be that of any process by now
		}
		r, err := readJob(d.record(), func(r *jobRecord) int { return r.Format })
		if errors.Is(err, os.ErrNotExist) {
			continue // it has started nothing yet
		}
		if err != nil {
			return "", err
		}
		if slices.Contains(line, r.Supervisor.Pid) {
			return ref.ID, nil
		}
	}
	return "", nil
}

// Attempts are the directories that are there.
func (s *Jobs) Attempts(context.Context) ([]operation.JobRef, error) {
	entries, err := os.ReadDir(s.dirs())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var refs []operation.JobRef
	for _, e := range entries {
		if ref, ok := refOf(e.Name()); ok {
			refs = append(refs, ref)
		}
	}
	return refs, err
}
