//go:build unix

package shim

import (
	"encoding/json"
	"errors"
	"net"

	"mcpx/internal/crash"
)

// greeting is what a new holder reads before READY.
type greeting struct {
	welcome welcome
	blob    []byte
	journal journalInfo
	lost    counters
	frames  [][]byte
	exit    *exitInfo // of a child that has ended: it follows READY
}

// attach makes the daemon the holder and starts the child at the first time. A nil answer means that the connection
// was taken over.
func (s *supervisor) attach(c *net.UnixConn, h hello) *refused {
	s.mu.Lock()
	if no := s.mayAttachLocked(h); no != nil {
		s.mu.Unlock()
		return no
	}
	a, err := newAttachment(c, h.Generation, h.Daemon)
	if err != nil {
		s.mu.Unlock()
		return &refused{Reason: refusedExiting}
	}
	a.protocol = min(h.Max, spoken.max)
	before := s.generation
	s.generation, s.lastDaemon = h.Generation, h.Daemon.Identity
	if s.orphan != nil {
		s.orphan.Stop()
	}
	s.countAwayLocked()
	fresh := s.state == stateWaiting
	if fresh {
		s.spawnLocked()
		crash.Point("supervisor.spawned")
	}
	g := s.greetingLocked(a, before)
	if !fresh {
		g.exit = s.exit
	}
	counted := s.countersLocked()
	a.pong.Store(int64(s.now()))
	a.mu.Lock() // before anything that the child says now, the daemon reads the greeting
	old := s.holder.Swap(a)
	s.room.Broadcast()
	s.mu.Unlock()

	if old != nil {
		old.supersede(h.Daemon)
	}
	err = a.greetLocked(g)
	a.mu.Unlock()
	if err == nil && g.exit != nil {
		err = a.json(kindExit, g.exit)
	}
	if err != nil {
		s.leave(a)
		return nil
	}
	s.mu.Lock()
	s.reported = counted
	s.mu.Unlock()
	if fresh {
		s.keepRecord()
		crash.Point("supervisor.child-recorded")
		close(s.first)
	}
	s.trimLater()
	crash.Point("supervisor.greeted")
	s.pumpInput(a)
	return nil
}

func (s *supervisor) greetingLocked(a *attachment, before uint64) greeting {
	g := greeting{
		welcome: welcome{
			Protocol: a.protocol, Version: s.spec.Version, State: s.state, Started: s.childStart, Generation: before,
			Counters: s.countersLocked(), Handshake: s.journal.handshake,
		},
		blob: s.blob, frames: s.journal.takeFrames(),
	}
	g.lost = g.welcome.Counters.since(s.reported)
	if s.life != nil {
		id := s.life.child.ID
		g.welcome.Child = &id
	}
	if !a.journals() {
		return g
	}
	g.journal = s.journal.info(s.now())
	g.journal.Next = number(a.generation, 1)
	if s.lastNumber >= g.journal.Next {
		g.journal.Next = s.lastNumber + 1 // the same daemon comes back
	}
	return g
}

// mayAttachLocked applies the rules of generations; nil means yes.
func (s *supervisor) mayAttachLocked(h hello) *refused {
	same := h.Generation == s.generation && h.Daemon.Identity == s.lastDaemon
	old := s.holder.Load()
	switch {
	case s.shut || s.state == stateEnding && s.life == nil:
		return &refused{Reason: refusedExiting}
	case h.Generation < s.generation, h.Generation == s.generation && s.generation != 0 && !same:
		return &refused{Reason: refusedStale, Generation: s.generation}
	case old == nil:
		return nil
	case h.Generation > s.generation && (h.Steal || s.deaf(old) || !old.daemon.Alive()):
		return nil
	}
	return &refused{Reason: refusedBusy, Holder: old.daemon, Generation: s.generation}
}

func (a *attachment) greetLocked(g greeting) error {
	if err := a.jsonLocked(kindWelcome, g.welcome); err != nil {
		return err
	}
	if a.journals() {
		if g.blob != nil {
			a.frameLocked(kindBlob, 0, g.blob)
		}
		if err := errors.Join(a.jsonLocked(kindLost, g.lost), a.jsonLocked(kindJournal, g.journal)); err != nil {
			return err
		}
	}
	for _, line := range g.frames {
		if _, err := a.lineLocked(line, flagKept); err != nil {
			return err
		}
	}
	a.frameLocked(kindReady, 0, nil)
	return a.flushLocked()
}

// jsonLocked appends one document to what goes out.
func (a *attachment) jsonLocked(k kind, value any) error {
	b, err := json.Marshal(value)
	if err == nil {
		a.frameLocked(k, 0, b)
	}
	return err
}
