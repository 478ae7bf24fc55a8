//go:build unix

package shim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcpx/internal/crash"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/process"
	"mcpx/internal/secret"
)

const (
	// orphanDrain is how long the output of what a command left behind is waited for before the end of the command is
	// written. Output of the command itself is always read to its end.
	orphanDrain = 200 * time.Millisecond
	// lookAgain is how often a supervisor looks for requests that it was not woken for, and whether descendants live.
	lookAgain = time.Second
	// timeoutGrace is how long a command may take to end when its time is over.
	timeoutGrace = 5 * time.Second
	// goneEvery is how often the end of processes is looked for during a stop.
	goneEvery = 20 * time.Millisecond
	// outputChunk is the size of one read of output. A full pipe holds 64 KiB.
	outputChunk = 64 << 10
	// byTimeout and bySignal stand where an operation is named that stopped the job.
	byTimeout = "timeout"
	bySignal  = "signal"
)

// job owns one command.
type job struct {
	taken
	dir      jobDir
	spec     jobSpec
	child    *process.Child // nil: it could not be started
	out, err *segments
	pumps    sync.WaitGroup
	pumped   chan struct{} // closed when both streams are read to their ends
	storing  atomic.Int32  // pumps that hold bytes
	wake     chan struct{}
	ends     sync.WaitGroup // stops that are under way

	mu   sync.Mutex // guards by and last
	by   string     // who stopped it first, "" nobody
	last jobStop    // the wish that is carried out
}

// startJob takes a job over and starts its command, up to the moment where it runs or is known not to. Nothing is left
// to decide for the daemon: the directory says what happened.
func startJob(t taken) (*job, error) {
	j := &job{
		taken: t, dir: jobDir{t.dir}, out: &segments{dir: string(t.dir), stream: operation.Stdout}, err: &segments{dir: string(t.dir), stream: operation.Stderr},
		pumped: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	crash.Point("job.lock.taken")
	if err := readJSON(j.dir.spec(), &j.spec); err != nil {
		return nil, err
	}
	// Whoever decided that this attempt was not started held the lock while deciding, so one of the two came first.
	for _, path := range []string{j.dir.void(), j.dir.started(), j.dir.exit()} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(fmt.Errorf("%s is there: this attempt is over", path), err)
		}
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGCHLD)
	if err := writeJSON(j.dir.record(), jobRecord{Format: jobFormat, Supervisor: j.self, Version: j.spec.Version}); err != nil {
		return nil, err
	}
	if err := j.spawn(); err != nil {
		f := fault.From(err)
		return j, j.failed(f.Message)
	}
	go j.housekeeping(signals)
	return j, nil
}

// spawn starts the stub, makes the start durable, and opens the gate.
func (j *job) spawn() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	gateR, gateW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer gateW.Close()
	reportR, reportW, err := os.Pipe()
	if err != nil {
		return errors.Join(err, gateR.Close())
	}
	defer reportR.Close()
	child, err := process.Start(process.Command{
		File: exe, Argv: []string{exe, Subcommand, string(j.dir.bundle), stubArg}, Dir: j.spec.Dir,
		Env: slices.Concat(j.secrets.Env, crash.Environ()), Blocking: true, Extra: []*os.File{gateR, reportW},
	})
	_, _ = gateR.Close(), reportW.Close() // the stub has its own copies
	if err != nil {
		return err
	}
	j.secrets.Env = nil // the values are the child's now
	sum := sha256.Sum256([]byte(strings.Join(j.spec.Argv, "\x00")))
	started := jobStarted{Format: jobFormat, At: time.Now(), Child: child.ID, Argv: hex.EncodeToString(sum[:])}
	if err := writeJSON(j.dir.started(), started); err != nil {
		_ = gateW.Close() // the stub reads the end of its gate and leaves
		<-child.Done()
		return err
	}
	crash.Point("job.started.fsynced")
	if _, err := gateW.Write([]byte{1}); err != nil {
		<-child.Done()
		return fmt.Errorf("it ended before it became the command: %w", err)
	}
	crash.Point("job.gate.opened")
	report, err := io.ReadAll(io.LimitReader(reportR, maxReport)) // ends with the exec
	if err != nil || !bytes.HasPrefix(report, []byte{released}) || len(report) > 1 {
		<-child.Done()
		if len(report) > 1 {
			return errors.New(string(report[1:]))
		}
		return errors.New("it ended before it became the command")
	}
	j.child = child
	j.pump(child.Stdout, j.out)
	j.pump(child.Stderr, j.err)
	go func() {
		j.pumps.Wait()
		close(j.pumped)
	}()
	go j.write()
	return nil
}

// failed writes that the command did not run.
func (j *job) failed(why string) error {
	defer j.tidy()
	return writeJSON(j.dir.exit(), jobExit{Format: jobFormat, JobExit: operation.JobExit{
		At: time.Now(), State: operation.JobFailed, Code: -1, Reason: operation.SpawnFailed, Text: why,
	}})
}

// pump stores a stream. Secrets are taken out before anything reaches the disk.
func (j *job) pump(from io.Reader, to *segments) {
	var r secret.Redactor
	for name, value := range j.secrets.Redact {
		r.Add(name, value)
	}
	stream := r.Stream()
	j.pumps.Go(func() {
		buf := make([]byte, outputChunk)
		for {
			n, err := from.Read(buf)
			j.storing.Add(1)
			to.write(stream.Write(buf[:n]))
			if err != nil {
				to.write(stream.Flush())
			}
			j.storing.Add(-1)
			if err != nil {
				return
			}
		}
	})
}

// write feeds standard input.
func (j *job) write() {
	switch j.spec.Stdin {
	case operation.StdinText:
		_, _ = io.WriteString(j.child.Stdin, j.secrets.Stdin) // a command that does not read it loses nothing
	case operation.StdinOpen:
		tick := time.NewTicker(lookAgain)
		defer tick.Stop()
		for j.feed() {
			select {
			case <-j.wake:
			case <-tick.C:
			case <-j.child.Done():
			}
			if isDone(j.child.Done()) {
				break
			}
		}
	case operation.StdinNone:
	}
	_ = j.child.Stdin.Close() // what was written is in the pipe
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// housekeeping handles signals, requests and the clock.
func (j *job) housekeeping(signals <-chan os.Signal) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	over := time.NewTimer(j.spec.Timeout)
	defer over.Stop()
	j.look() // for what was asked for before we listened
	for {
		select {
		case sig := <-signals:
			switch sig {
			case unix.SIGCHLD:
				process.ReapOrphans(j.child.ID.Pid)
			case unix.SIGUSR1:
				j.look()
				select {
				case j.wake <- struct{}{}:
				default:
				}
			case syscall.SIGTERM, syscall.SIGINT:
				j.end(jobStop{By: bySignal, Signal: "TERM", Grace: timeoutGrace})
			}
		case <-over.C:
			j.end(jobStop{By: byTimeout, Signal: "TERM", Grace: timeoutGrace})
		case <-tick.C:
			j.look()
		}
	}
}

// look reads whether the daemon wants an end.
func (j *job) look() {
	var s jobStop
	if err := readJSON(j.dir.stop(), &s); err == nil {
		j.end(s)
	}
}

// signals are those that a stop may send.
var signals = map[string]syscall.Signal{
	"TERM": unix.SIGTERM, "INT": unix.SIGINT, "HUP": unix.SIGHUP, "QUIT": unix.SIGQUIT, "KILL": unix.SIGKILL,
}

// end carries out a stop; the same one twice is one. The command is given its grace, then everything that came from it is
// killed.
func (j *job) end(s jobStop) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last == s || s.By == bySignal && j.by != "" {
		return
	}
	j.last = s
	if j.by == "" && !isDone(j.child.Done()) {
		j.by = s.By
	}
	j.ends.Go(func() {
		if j.child.Alive() {
			j.child.Signal(signals[s.Signal])
		} else {
			j.eachStray(func(id process.Identity) { process.Notify(id, signals[s.Signal]) })
		}
		if !j.gone(s.Grace) {
			for limit := time.Now().Add(groupWait); ; {
				j.child.Signal(unix.SIGKILL)
				j.eachStray(func(id process.Identity) { process.Kill(id) })
				if j.gone(goneEvery) || time.Now().After(limit) {
					break
				}
			}
		}
		_ = writeJSON(j.dir.stopped(), jobStopped{By: s.By, Survivors: j.survivors()}) // without it the end of the lock tells
	})
}

// eachStray visits what left the group of the command.
func (j *job) eachStray(visit func(process.Identity)) {
	for _, id := range j.child.Strays(j.self.Pid) {
		visit(id)
	}
}

// gone waits for the end of everything that came from the command.
func (j *job) gone(within time.Duration) bool {
	for limit := time.Now().Add(within); j.alive(); time.Sleep(goneEvery) {
		if !time.Now().Before(limit) {
			return false
		}
	}
	return true
}

func (j *job) alive() bool { return j.child.Alive() || len(j.child.Strays(j.self.Pid)) > 0 }

func (j *job) survivors() []int {
	pids := []int{}
	j.eachStray(func(id process.Identity) { pids = append(pids, id.Pid) })
	if j.child.Alive() {
		pids = append(pids, j.child.EndGroup(0)...)
	}
	return pids
}

// run waits for the end of the command, writes it down, and stays while something of it lives: as long as somebody may
// ask for that to be stopped.
func (j *job) run() int {
	if j.child == nil {
		return 0
	}
	<-j.child.Done()
	j.drain()
	for ended := time.Now(); ; time.Sleep(lookAgain) { // a full disk: while we live it is known that the end is not lost
		if err := j.writeExit(ended); err == nil || errors.Is(err, fs.ErrNotExist) { // nobody can ask without the directory
			break
		}
	}
	crash.Point("job.exit.written")
	for j.alive() {
		time.Sleep(orphanDrain)
	}
	<-j.pumped
	j.ends.Wait()
	j.tidy()
	return 0
}

// drain waits until the output of the command is stored.
func (j *job) drain() {
	for !within(j.pumped, orphanDrain) {
		if j.storing.Load() == 0 && !unread(j.child.Stdout) && !unread(j.child.Stderr) {
			return // only something that it left behind could still write
		}
	}
}

// unread tells that bytes wait in a pipe.
func unread(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1 && fds[0].Revents&unix.POLLIN != 0
}

func (j *job) writeExit(ended time.Time) error {
	j.mu.Lock()
	by := j.by
	j.mu.Unlock()
	status := j.child.Status()
	e := jobExit{Format: jobFormat, Usage: j.child.Usage(), JobExit: operation.JobExit{
		At: ended, State: operation.JobExited, Code: status.Code, Descendants: j.alive(),
	}}
	if status.Signal != 0 {
		e.Signal = status.Name
	}
	switch by {
	case "":
	case byTimeout:
		e.State = operation.JobTimedOut
	default:
		e.State, e.By = operation.JobKilled, by
	}
	var errs [2]error
	e.Stdout, errs[0] = j.out.sync()
	e.Stderr, errs[1] = j.err.sync()
	if lost := e.Stdout.Lost + e.Stderr.Lost; lost > 0 || errs[0] != nil || errs[1] != nil {
		e.Text = fmt.Sprintf("%d bytes of output could not be stored", lost)
	}
	return writeJSON(j.dir.exit(), e)
}

// tidy removes what is needed no more.
func (j *job) tidy() { _ = os.RemoveAll(j.spec.Temp) } // what is left lies among the temporary files

func (j *job) ready() ready { return ready{Self: j.self} }

// unwanted is never true: the command runs, or its end is written, whoever waits for that.
func (j *job) unwanted() bool { return false }
