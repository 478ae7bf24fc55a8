//go:build unix

package shim

import (
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcpx/internal/process"
)

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
			if s.unrecorded.Load() {
				s.keepRecord()
			}
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

// relisten binds the socket again if somebody removed it, or put another thing there: run directories are emptied at
// logout, and restored from copies.
func (s *supervisor) relisten() {
	if answersAt(s.spec.Socket) {
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

// answersAt reports whether this process listens on the socket at path.
func answersAt(path string) bool {
	c, err := net.DialTimeout("unix", path, helloWait)
	if err != nil {
		return false
	}
	defer c.Close()
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return false
	}
	peer, err := process.PeerOf(conn)
	return err == nil && peer.Pid == os.Getpid()
}

// ping asks the daemon for a sign of life, and tells it the counters on the way.
func (s *supervisor) ping(a *attachment) {
	if !a.pinging.CompareAndSwap(false, true) {
		return
	}
	defer a.pinging.Store(false)
	s.mu.Lock()
	c := s.countersLocked()
	s.mu.Unlock()
	var err error
	if a.journals() {
		err = a.control(kindPing, nil)
	} else {
		err = a.json(kindPing, c)
	}
	if err != nil {
		s.leave(a) // its pump may read nothing now, because the journal is full
		return
	}
	if a.journals() {
		s.reportLost(a)
	}
}

// reportLost tells the holder what was lost since the last time anybody was told.
func (s *supervisor) reportLost(a *attachment) {
	s.mu.Lock()
	now := s.countersLocked()
	news := now.since(s.reported)
	s.mu.Unlock()
	if news == (counters{}) || a.json(kindLost, news) != nil {
		return
	}
	s.mu.Lock()
	s.reported = now
	s.mu.Unlock()
}
