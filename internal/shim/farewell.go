//go:build unix

package shim

import (
	"time"

	"mcpx/internal/crash"
)

// report tells the daemon how it ended, or leaves a file for the next one.
func (s *supervisor) report(info exitInfo) {
	s.mu.Lock()
	info.Counters = s.countersLocked()
	info.At = time.Now()
	s.exit = &info
	s.state = stateEnding
	a := s.holder.Load()
	s.room.Broadcast()
	s.mu.Unlock()
	crash.Point("supervisor.exited")
	if a != nil && a.json(kindExit, info) == nil {
		s.awaitLeave(a)
	}
	crash.Point("supervisor.exit-told")
	if s.told() {
		s.remove()
		return
	}
	s.mu.Lock()
	file, late := s.lastWordLocked(info), s.lateLocked(info)
	s.mu.Unlock()
	written := writeJSON(s.dir.exit(), file) == nil
	crash.Point("supervisor.exit-written")
	if late {
		within(s.delivered, lateWait)
	}
	s.mu.Lock()
	s.shut = true
	a = s.holder.Load()
	s.mu.Unlock()
	if a != nil {
		s.awaitLeave(a)
	}
	switch {
	case s.told():
		s.remove()
	case written:
		s.close()
	default: // a disk that takes no exit file: the next daemon must not find a bundle without an end
		s.remove()
	}
}

// awaitLeave waits until a holder that was sent EXIT has taken leave, or will not.
func (s *supervisor) awaitLeave(a *attachment) {
	select {
	case <-s.delivered:
	case <-a.gone:
	case <-time.After(ackExit):
	}
}

// told reports whether a daemon has taken leave after EXIT.
func (s *supervisor) told() bool {
	select {
	case <-s.delivered:
		return true
	default:
		return false
	}
}

// lastWordLocked adds to an exit what no daemon was told of.
func (s *supervisor) lastWordLocked(info exitInfo) exitInfo {
	s.countAwayLocked()
	j := s.journal.info(s.now())
	for _, c := range j.Entries {
		c.Request = nil // nothing can be rebuilt from it any more
		if c.State == running.String() {
			info.Open = append(info.Open, c)
		} else {
			info.Answered = append(info.Answered, c)
		}
	}
	info.Finished, info.Complete = j.Finished, j.Complete
	return info
}

// lateLocked says whether answers are worth waiting for a daemon: not those of a child that somebody wanted to end.
func (s *supervisor) lateLocked(info exitInfo) bool {
	if info.Reason != reasonExited && info.Reason != reasonStdoutClosed {
		return false
	}
	for e := s.journal.asked.first; e != nil; e = e.next {
		if e.state == answered {
			return true
		}
	}
	return false
}
