package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/era"
)

// shutAll ends every session and lane of a server that is no longer routed.
func (s *Server) shutAll(reason string) {
	s.mu.Lock()
	s.stopped = true
	slots := make([]*slot, 0, len(s.slots))
	for _, sl := range s.slots {
		slots = append(slots, sl)
	}
	sessions := make([]*Session, 0, len(s.sessions))
	for _, x := range s.sessions {
		sessions = append(sessions, x)
	}
	lanes := s.lanesLocked()
	clear(s.slots)
	clear(s.sessions)
	s.mu.Unlock()
	for _, x := range sessions {
		s.g.shelf.forget(x.ID)
		x.over()
	}
	for _, sl := range slots {
		sl.shut(reason)
	}
	for _, l := range lanes {
		l.close(reason)
	}
}

// restart ends all lanes; slots and sessions stay, so the next call starts the server again and restores its sessions.
func (s *Server) restart() {
	s.mu.Lock()
	s.history.Clear()
	s.lastErr, s.wedged = "", nil
	lanes := s.lanesLocked()
	s.mu.Unlock()
	if s.def.Load().Protocol == catalog.ProtocolAuto || s.def.Load().Protocol == "" {
		s.legacy.Store(uint32(unknown))
		s.modern.Store(uint32(unknown))
		s.sse.Store(false)
	}
	for _, l := range lanes {
		l.close("restart")
	}
}

// stop ends the server with the gateway.
func (s *Server) stop(ctx context.Context, children bool) error {
	s.mu.Lock()
	s.stopped = true
	sessions := make([]*Session, 0, len(s.sessions))
	for _, x := range s.sessions {
		sessions = append(sessions, x)
	}
	lanes := s.lanesLocked()
	s.mu.Unlock()
	for _, x := range sessions {
		x.closeStreams()
	}
	var errs []error
	for _, l := range lanes {
		l.down.Store(true)
		if children {
			l.link.Close("daemon stop")
			select {
			case <-l.ended:
			case <-ctx.Done():
				errs = append(errs, fmt.Errorf("%s: still ending when the time was over", s.name()))
			}
			continue
		}
		l.goOn()
		if err := l.link.Detach(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name(), err))
		}
		laneSink{l}.Closed(Exit{Reason: Detached})
	}
	return errors.Join(errs...)
}

// goOn ends the streams of calls that go on without us, without an answer: the next daemon has it. Only for clients that
// get an event id with the first word of a stream and can resume by it; others are told that the outcome is unknown.
func (l *lane) goOn() {
	if l.kept == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.byRef {
		if x, legacy := c.owner.(*Session); legacy && x.Version >= era.V20251125 && c.stream != nil && !c.stream.plain {
			c.stream.end()
		}
	}
}

// sweep ends idle sessions and lanes.
func (s *Server) sweep(now time.Time) {
	idle := s.limits().Idle
	s.mu.Lock()
	var over []*Session
	for _, x := range s.sessions {
		if x.idleSince(now) > sessionTTL {
			over = append(over, x)
		}
	}
	var reap []*lane
	var unused []*slot
	for name, sl := range s.slots {
		if sl.usable() == nil && (strings.HasPrefix(name, bridgePrefix) || strings.HasPrefix(name, modernPrefix+instancePrefix)) {
			unused = append(unused, sl)
		}
	}
	for l := range s.lanes {
		// A lane of one session lives as long as that session: it may hold state that cannot be rebuilt. Only an idle
		// time that a person set for this server ends it earlier.
		if !l.ready.Load() || l.down.Load() || idle < 0 || !l.shared && s.def.Load().Limits.Idle == 0 {
			continue
		}
		if !l.busy() && now.Sub(l.idleSince()) > idle {
			reap = append(reap, l)
		}
	}
	sessions := make([]*Session, 0, len(s.sessions))
	for _, x := range s.sessions {
		sessions = append(sessions, x)
	}
	s.mu.Unlock()
	for _, sl := range unused {
		if sl.isEmpty() {
			s.forgetSlot(sl) // its next client makes another
		}
	}
	for _, x := range over {
		x.Close()
	}
	for _, l := range reap {
		l.close("idle")
	}
	for _, x := range sessions {
		x.sweepStreams(now)
	}
	s.sweepParked(now)
}
