//go:build unix

package shim

import (
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"mcpx/internal/crash"
	"mcpx/internal/fault"
	"mcpx/internal/process"
)

const (
	// attachWait is how long a fresh supervisor waits for its daemon before it leaves without having started anything.
	attachWait = 10 * time.Second
	// ackExit is how long the supervisor waits for the daemon to take leave after EXIT.
	ackExit = 5 * time.Second
	// pingEvery and deafAfter: a daemon that shows no life for deafAfter loses its claim to a newer one.
	pingEvery = 10 * time.Second
	deafAfter = 30 * time.Second
	// looksForSocket is how often an unattached supervisor looks whether its socket is still there.
	looksForSocket = 30 * time.Second
	// bigMessage is the size from which memory is given back to the system once things are quiet.
	bigMessage = 256 << 10
	// quiet is how long no big message may come before that.
	quiet = time.Second
	// lateWait is how long a supervisor whose child has ended waits for a daemon to fetch the answers that it still holds.
	lateWait = 60 * time.Second
	// callLimit is the hard maximum of a call: so long an orphan may work on. orphanLook is how often that is looked at.
	callLimit  = 30 * time.Minute
	orphanLook = time.Second
)

// supervisor owns one child.
type supervisor struct {
	taken
	spec    spec
	log     *rotating
	token   string
	started time.Time // of the supervisor; its monotonic part is the clock of all waits
	tail    tail
	count   tally

	first     chan struct{} // closed at the first attach
	delivered chan struct{} // closed when a daemon has taken leave after EXIT

	stderr chunks

	toChild sync.Mutex // held while writing to the child: one writer, and none that was superseded

	unrecorded atomic.Bool // the disk did not take the record with the child; tried again with the slow clock

	holder atomic.Pointer[attachment] // written with mu held; nil: no daemon

	held []bool // of the stdout pump: which of its lines the journal has taken

	mu         sync.Mutex // guards the fields below; never held while writing to a connection
	room       sync.Cond  // signalled when a pump that waits for the journal should look again
	listener   *net.UnixListener
	state      string
	generation uint64 // highest one that attached
	lastDaemon process.Identity
	life       *life
	childStart time.Time
	journal    journal
	blob       []byte        // of the daemon; opaque
	reported   counters      // what daemons were told last
	lastNumber uint64        // of the last request that was registered
	left       time.Duration // when the last daemon left
	orphan     *time.Timer   // runs while no daemon is attached
	exit       *exitInfo
	shut       bool // nobody may attach any more
	trim       *time.Timer
	controls   int
}

// tally counts losses; see counters.
type tally struct {
	partialIn, superseded, skipped, overlong, stderrLost atomic.Uint64
}

func (s *supervisor) ready() ready {
	return ready{Self: s.self, Token: s.token, Socket: s.spec.Socket}
}

// unwanted clears the directory away: nothing was started.
func (s *supervisor) unwanted() bool {
	s.remove()
	return true
}

// run serves until the child has ended and that was told, and returns the exit code.
func (s *supervisor) run() int {
	go s.accept(s.listener)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGCHLD)
	go s.housekeeping(signals)

	within(s.first, attachWait)
	s.mu.Lock()
	if s.state == stateWaiting {
		s.state = stateEnding // from now on nobody can attach
	}
	l, exit := s.life, s.exit
	s.mu.Unlock()
	switch {
	case l != nil:
		s.report(l.wait(s.outputBusy))
	case exit != nil:
		s.report(*exit)
	default: // nobody came, or a stop came first: nothing was started
		s.remove()
	}
	return 0
}

// spawn starts the child, once, at the first attach. mu is held.
func (s *supervisor) spawnLocked() {
	child, err := process.Start(process.Command{
		File: s.spec.File, Argv: s.spec.Argv, Dir: s.spec.Dir, Env: s.secrets.Env, Blocking: true,
	})
	if err != nil {
		f := fault.From(err)
		s.exit = &exitInfo{
			Reason: reasonSpawnFailed, Status: process.Status{Code: -1}, Text: f.Error(), Fault: f.Code, Hint: f.Hint,
		}
		s.state = stateEnding
		return
	}
	s.secrets.Env = nil // the values are the child's now
	s.state, s.childStart = stateRunning, time.Now()
	// Closing blocks nobody: a write that is under way keeps the descriptor until it returns.
	s.life = newLife(child, s.spec.Ladder, &s.tail, func() { _ = child.Stdin.Close() })
	l := s.life
	go func() {
		pumpOutput(eagerly(child.Stdout, nil), s)
		close(l.out)
	}()
	go func() {
		pumpStderr(child.Stderr, s.takeStderr)
		close(l.errs)
	}()
	go s.sendStderr()
}

// trimLater gives the memory of the start, or of big messages, back once things are quiet.
func (s *supervisor) trimLater() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trim == nil {
		s.trim = time.AfterFunc(quiet, func() {
			s.mu.Lock()
			s.journal.ring.settle()
			s.mu.Unlock()
			debug.FreeOSMemory()
			dropCode()
		})
		return
	}
	s.trim.Reset(quiet)
}

// leave lets a holder go; the child does not notice.
func (s *supervisor) leave(a *attachment) {
	s.vacate(a)
	a.close()
}

// vacate frees the place of a holder whose connection is still open.
func (s *supervisor) vacate(a *attachment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder.Load() == a {
		s.holder.Store(nil)
		s.left = s.now()
		s.room.Broadcast()
		if s.spec.OrphanTTL > 0 && s.life != nil {
			s.orphan = time.AfterFunc(s.spec.OrphanTTL, s.orphaned)
		}
	}
}

// orphaned ends a child that no daemon came for. A call that runs may end first, as long as calls may take.
func (s *supervisor) orphaned() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder.Load() != nil || s.life == nil {
		return
	}
	if left := callLimit - (s.now() - s.left); s.journal.running > 0 && left > 0 {
		s.orphan = time.AfterFunc(min(orphanLook, left), s.orphaned)
		return
	}
	s.life.end(reasonTerminated, "orphan_ttl", process.Ladder{})
}

// countAwayLocked adds the time without a daemon to what the journal does not count: a daemon that comes after an hour
// still has to know what the one before it had sent in its last minutes.
func (s *supervisor) countAwayLocked() {
	if now := s.now(); s.holder.Load() == nil && s.left > 0 {
		s.journal.away += now - s.left
		s.left = now
	}
}

// now reads the clock of all waits.
func (s *supervisor) now() time.Duration { return time.Since(s.started) }

// end begins the ladder on somebody's wish.
func (s *supervisor) end(reason string, steps process.Ladder) {
	s.mu.Lock()
	l := s.life
	if s.state == stateWaiting {
		close(s.first)
	}
	s.state = stateEnding
	s.mu.Unlock()
	if l != nil {
		l.end(reasonTerminated, reason, steps)
	}
}

func (s *supervisor) countersLocked() counters {
	return counters{
		DroppedFrames: s.journal.ring.droppedFrames, DroppedBytes: s.journal.ring.droppedBytes, Refused: s.journal.refused,
		PartialIn: s.count.partialIn.Load(), Superseded: s.count.superseded.Load(), Skipped: s.count.skipped.Load(),
		Overlong: s.count.overlong.Load(), StderrLost: s.count.stderrLost.Load(),
	}
}

// keepRecord writes the record with the child. A disk that does not take it does not stop the child, but without the
// record a later daemon cannot prove whose process it is: it is written when the disk has room again.
func (s *supervisor) keepRecord() { s.unrecorded.Store(s.writeRecord() != nil) }

func (s *supervisor) writeRecord() error {
	s.mu.Lock()
	r := record{
		Format: formatVersion, ID: s.dir.id(), Kind: kindStdio, Server: s.spec.Server, Name: s.spec.Name, Lane: s.spec.Lane,
		Process: s.spec.Process, Executable: s.spec.Executable,
		Token: s.token, Socket: s.spec.Socket, Supervisor: s.self, Version: s.spec.Version, Min: spoken.min, Max: spoken.max,
		State: s.state,
	}
	if s.life != nil {
		id := s.life.child.ID
		r.Child, r.Started = &id, s.childStart
	}
	s.mu.Unlock()
	return writeJSON(s.dir.record(), r)
}

// close ends listening and frees the lock.
func (s *supervisor) close() {
	s.mu.Lock()
	l := s.listener
	s.mu.Unlock()
	_ = l.Close() // this removes the socket
	if s.log != nil {
		s.log.close()
	}
	_ = s.lock.Release() // the kernel would do the same a moment later
}

// remove deletes everything that told of this supervisor, then closes. The bundle goes last, because it is what the next
// daemon looks for: whatever else is left of a supervisor that was killed here is found by it.
func (s *supervisor) remove() {
	s.mu.Lock()
	l := s.listener
	s.mu.Unlock()
	_ = l.Close() // this removes the socket
	crash.Point("supervisor.socket-removed")
	_ = s.dir.remove() // what is left is swept by the next daemon: the lock is free
	crash.Point("supervisor.bundle-removed")
	s.close()
}
