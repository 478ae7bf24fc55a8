//go:build unix

package shim

import (
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcpx/internal/atomicfile"
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
)

// supervisor owns one child.
type supervisor struct {
	dir     bundle
	spec    spec
	env     []string
	lock    *atomicfile.Lock
	log     *rotating
	self    process.Identity
	token   string
	started time.Time // of the supervisor; its monotonic part is the clock of all waits
	tail    tail
	count   tally

	first     chan struct{} // closed at the first attach
	delivered chan struct{} // closed when a daemon has taken leave after EXIT

	stderr chunks

	toChild sync.Mutex // held while writing to the child: one writer, and none that was superseded

	holder atomic.Pointer[attachment] // written with mu held; nil: no daemon

	mu         sync.Mutex // guards the fields below; never held while writing to a connection
	listener   *net.UnixListener
	state      string
	generation uint64 // highest one that attached
	lastDaemon process.Identity
	life       *life
	childStart time.Time
	kept       ring
	orphan     *time.Timer // runs while no daemon is attached
	exit       *exitInfo
	trim       *time.Timer
	controls   int
}

// tally counts losses; see counters.
type tally struct {
	partialIn, skipped, overlong, stderrLost atomic.Uint64
}

func (s *supervisor) ready() ready {
	return ready{Self: s.self, Token: s.token, Socket: s.spec.Socket}
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

// report tells the daemon how it ended, or leaves a file for the next one.
func (s *supervisor) report(info exitInfo) {
	s.mu.Lock()
	info.Counters = s.countersLocked()
	info.At = time.Now()
	s.exit = &info
	s.state = stateEnding
	a := s.holder.Load()
	s.mu.Unlock()
	if a != nil && a.json(kindExit, info) == nil {
		select {
		case <-s.delivered:
		case <-a.gone:
		case <-time.After(ackExit):
		}
	}
	select {
	case <-s.delivered:
		s.remove()
		return
	default:
	}
	if writeJSON(s.dir.exit(), info) != nil {
		_ = s.dir.remove() // a disk that takes no exit file: the next daemon must not find a bundle without an end
	}
	s.close()
}

// spawn starts the child, once, at the first attach. mu is held.
func (s *supervisor) spawnLocked() {
	child, err := process.Start(process.Command{
		File: s.spec.File, Argv: s.spec.Argv, Dir: s.spec.Dir, Env: s.env, Blocking: true,
	})
	if err != nil {
		f := fault.From(err)
		s.exit = &exitInfo{
			Reason: reasonSpawnFailed, Status: process.Status{Code: -1}, Text: f.Error(), Fault: f.Code, Hint: f.Hint,
		}
		s.state = stateEnding
		return
	}
	s.env = nil // the values are the child's now
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

// messages is called by the stdout pump: to the daemon, or kept until one comes.
func (s *supervisor) messages(lines [][]byte) {
	if slices.ContainsFunc(lines, func(line []byte) bool { return len(line) >= bigMessage }) {
		defer s.trimLater()
	}
	for len(lines) > 0 {
		a := s.holder.Load()
		if a == nil {
			s.mu.Lock()
			if s.holder.Load() == nil {
				for _, line := range lines {
					s.kept.add(line)
				}
				lines = nil
			}
			s.mu.Unlock()
			continue
		}
		sent, err := a.messages(lines)
		lines = lines[sent:]
		if err != nil {
			s.leave(a)
		}
	}
}

// skipped is called by the stdout pump. The first of them is told at once: it is what a person looks for.
func (s *supervisor) skipped(line []byte) {
	if s.count.skipped.Add(1) == 1 {
		if a := s.holder.Load(); a != nil {
			go s.ping(a)
		}
	}
	s.takeStderr(skippedChunk(line))
}

// ping asks the daemon for a sign of life, and tells it the counters on the way.
func (s *supervisor) ping(a *attachment) {
	s.mu.Lock()
	c := s.countersLocked()
	s.mu.Unlock()
	_ = a.json(kindPing, c) // the reader of this connection notices, too, when it is gone
}

// overlong is called by the stdout pump.
func (s *supervisor) overlong(o overlong) {
	s.count.overlong.Add(1)
	s.trimLater()
	if a := s.holder.Load(); a != nil {
		if a.json(kindOverlong, o) != nil {
			s.leave(a)
		}
	}
}

// takeStderr is called by both pumps and never blocks.
func (s *supervisor) takeStderr(chunk []byte) {
	s.tail.write(chunk)
	s.log.write(chunk)
	s.count.stderrLost.Add(s.stderr.put(chunk))
}

// sendStderr passes stderr on to the daemon, behind the pump's back: a slow daemon loses chunks, the child waits not.
func (s *supervisor) sendStderr() {
	for {
		chunk := s.stderr.take()
		a := s.holder.Load()
		if a == nil {
			s.count.stderrLost.Add(uint64(len(chunk)))
			continue
		}
		if a.control(kindStderr, chunk) != nil {
			s.leave(a)
		}
	}
}

// outputBusy reports whether the stdout pump waits for the daemon and not for the child.
func (s *supervisor) outputBusy() bool {
	a := s.holder.Load()
	if a == nil {
		return false
	}
	if a.mu.TryLock() {
		a.mu.Unlock()
		return false
	}
	return true
}

// trimLater gives the memory of the start, or of big messages, back once things are quiet.
func (s *supervisor) trimLater() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trim == nil {
		s.trim = time.AfterFunc(quiet, func() {
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
		s.armOrphanLocked()
	}
}

func (s *supervisor) armOrphanLocked() {
	if s.spec.OrphanTTL > 0 && s.life != nil {
		l := s.life
		s.orphan = time.AfterFunc(s.spec.OrphanTTL, func() { l.end(reasonTerminated, "orphan_ttl", process.Ladder{}) })
	}
}

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

// housekeeping handles signals and the slow clock.
func (s *supervisor) housekeeping(signals <-chan os.Signal) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case sig := <-signals:
			switch sig {
			case unix.SIGHUP:
				s.relisten()
			case unix.SIGCHLD:
				s.reap()
			case syscall.SIGTERM, syscall.SIGINT:
				s.end("signal", process.Ladder{})
			}
		case now := <-tick.C:
			if a := s.holder.Load(); a != nil {
				go s.ping(a) // a daemon that reads nothing must not stop the clock
			} else if now.Sub(s.started)%looksForSocket < pingEvery {
				s.relisten()
			}
		}
	}
}

// reap takes the exit status of orphans that became our children; the child has a waiter of its own.
func (s *supervisor) reap() {
	s.mu.Lock()
	l := s.life
	s.mu.Unlock()
	if l != nil {
		process.ReapOrphans(l.child.ID.Pid)
	}
}

// relisten binds the socket again if somebody removed it: run directories are emptied at logout.
func (s *supervisor) relisten() {
	if _, err := os.Lstat(s.spec.Socket); err == nil {
		return
	}
	l, err := listen(s.spec.Socket)
	if err != nil {
		return // tried again in a while; the record names the path
	}
	s.mu.Lock()
	old := s.listener
	s.listener = l
	s.mu.Unlock()
	old.SetUnlinkOnClose(false) // the name is the new listener's
	_ = old.Close()
	go s.accept(l)
}

func (s *supervisor) countersLocked() counters {
	return counters{
		DroppedFrames: s.kept.droppedFrames, DroppedBytes: s.kept.droppedBytes,
		PartialIn: s.count.partialIn.Load(), Skipped: s.count.skipped.Load(),
		Overlong: s.count.overlong.Load(), StderrLost: s.count.stderrLost.Load(),
	}
}

func (s *supervisor) writeRecord() error {
	s.mu.Lock()
	r := record{
		Format: formatVersion, ID: s.dir.id(), Kind: kindStdio, Server: s.spec.Server, Lane: s.spec.Lane,
		Process: s.spec.Process, Executable: s.spec.Executable,
		Token: s.token, Socket: s.spec.Socket, Supervisor: s.self, Version: s.spec.Version, Min: protoMin, Max: protoMax,
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

// remove deletes everything that told of this supervisor, then closes.
func (s *supervisor) remove() {
	_ = s.dir.remove() // what is left is swept by the next daemon: the lock is free
	s.close()
}
