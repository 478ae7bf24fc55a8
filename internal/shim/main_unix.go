//go:build unix

package shim

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"mcpx/internal/atomicfile"
	"mcpx/internal/crash"
	"mcpx/internal/process"
)

// Subcommand is the hidden first argument that makes this binary a supervisor.
const Subcommand = "supervise"

// own is the second argument of the process that really supervises; the first one only starts it and leaves.
const own = "own"

const (
	// gcPercent and memoryLimit keep a supervisor small: its live heap is a few hundred kilobytes, and a big message
	// is a rare guest. The limit leaves room for the largest message twice.
	gcPercent   = 40
	memoryLimit = 192 << 20
	// lockWait is how long a start waits for the bundle's lock: a daemon that looks at it holds it for a moment.
	lockWait = time.Second
	// maxSecrets bounds the environment that arrives on stdin; the kernel's own limit is about 2 MiB.
	maxSecrets = 4 << 20
)

// Main is the hidden mode `supervise <bundle>`: it must be dispatched before anything else happens in the program.
// args are the arguments after the subcommand. The result is the exit code.
func Main(args []string) int {
	pipe := os.NewFile(process.ReadyFD, "ready")
	var err error
	switch {
	case len(args) == 1:
		// The daemon is our parent. A process that it did not start itself has init as its parent, so nothing that
		// happens to the daemon reaches it.
		if err = handOver(args[0]); err == nil {
			return 0
		}
	case len(args) == 2 && args[1] == own:
		var o owner
		if o, err = prepare(bundle(args[0])); err == nil {
			if err = answer(pipe, o.ready()); err == nil || !o.unwanted() {
				crash.Point("supervisor.ready-told")
				return o.run()
			}
		}
	case len(args) == 2 && args[1] == stubArg:
		return stub(bundle(args[0]))
	default:
		err = fmt.Errorf("usage: %s BUNDLE (internal; started by the daemon)", Subcommand)
	}
	if answer(pipe, ready{Error: err.Error(), State: isUnwritable(err)}) != nil {
		fmt.Fprintln(os.Stderr, err) // nobody waits on a ready pipe: a person called this by hand
	}
	return 1
}

func handOver(dir string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return process.HandOver(exe, []string{Subcommand, dir, own})
}

// answer writes the one line of the ready pipe and closes it.
func answer(pipe *os.File, r ready) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = pipe.Write(append(b, '\n'))
	return errors.Join(err, pipe.Close())
}

// processors is how many of the scheduler's processors a supervisor has, one for each pump: a third would show no
// difference in BenchmarkHop, and each keeps half-empty spans of its own. While both pumps wait eagerly everything else
// waits too, for eagerFor at most.
const processors = 2

// owner is what a process of the second kind does with its directory.
type owner interface {
	ready() ready
	// unwanted tells what nobody waits for any more. True: it has ended without a trace.
	unwanted() bool
	run() int
}

// taken is a directory that is ours: we hold its lock.
type taken struct {
	dir     bundle
	secrets secrets
	lock    *atomicfile.Lock
	self    process.Identity
}

// prepare takes the bundle over, and does what comes before anybody is told.
func prepare(b bundle) (owner, error) {
	runtime.MemProfileRate = 0 // nobody asks a supervisor for a profile, and its table takes some 70 KB
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
	runtime.GOMAXPROCS(processors)
	unix.Umask(0o077)

	if err := checkOwned(string(b), fs.ModeDir); err != nil {
		return nil, err
	}
	var what struct {
		Kind string `json:"kind"`
	}
	if err := readJSON(b.spec(), &what); err != nil {
		return nil, err
	}
	var sec secrets
	in, err := io.ReadAll(io.LimitReader(os.Stdin, maxSecrets))
	if err == nil {
		err = json.Unmarshal(in, &sec)
	}
	if err != nil {
		return nil, fmt.Errorf("the environment on stdin: %w", err)
	}
	lock, err := takeLock(b.lock())
	if err != nil {
		return nil, err
	}
	crash.Point("supervisor.locked")
	// Orphans of the child become ours, so the ladder finds them.
	if err := process.BecomeSubreaper(); err != nil {
		return nil, err
	}
	self, err := process.Identify(os.Getpid())
	if err != nil {
		return nil, err
	}
	t := taken{dir: b, secrets: sec, lock: lock, self: self}
	if what.Kind == kindJob {
		return startJob(t)
	}
	return newSupervisor(t)
}

// newSupervisor makes socket and record of a server. Nothing is started yet.
func newSupervisor(t taken) (*supervisor, error) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	s := &supervisor{
		taken: t, token: hex.EncodeToString(random),
		started: time.Now(), first: make(chan struct{}), delivered: make(chan struct{}), state: stateWaiting,
		journal: newJournal(bounds{maxEntries, maxKept}),
	}
	s.room.L = &s.mu
	if err := readJSON(s.dir.spec(), &s.spec); err != nil {
		return nil, err
	}
	var err error
	if s.listener, err = listen(s.spec.Socket); err != nil {
		return nil, err
	}
	crash.Point("supervisor.socket-bound")
	if s.log, err = openRotating(s.dir.stderr(), stderrLogSize); err != nil {
		s.remove()
		return nil, err
	}
	if err := s.writeRecord(); err != nil {
		s.remove()
		return nil, err
	}
	crash.Point("supervisor.recorded")
	return s, nil
}

func takeLock(path string) (*atomicfile.Lock, error) {
	for limit := time.Now().Add(lockWait); ; time.Sleep(10 * time.Millisecond) {
		lock, err := atomicfile.TryLock(path)
		if !errors.Is(err, atomicfile.ErrLocked) || time.Now().After(limit) {
			return lock, err
		}
	}
}

// listen binds the socket. The bundle's lock is held, so what lies there is the leftover of a dead owner.
func listen(path string) (*net.UnixListener, error) {
	if err := makePrivate(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}
