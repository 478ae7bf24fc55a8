package gateway

import (
	"context"
	"log/slog"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/key"
)

// What happens when the file changes that a running child was started from (supervisor.md section 9): a server that keeps
// no state is replaced, after it has ended what it has begun. Whoever needs it meanwhile waits.

const (
	// lookAtPrograms is how often the file of a running child is looked at. Where a look takes long, because the file has
	// to be read, the next one follows after lookPart times that.
	lookAtPrograms = 10 * time.Second
	lookPart       = 200
	// drainLook is how often a child that is being drained is looked at.
	drainLook = 50 * time.Millisecond
)

const textReplaced = "its program was replaced; it starts again when its running calls have ended"

// lookAtPrograms replaces the lanes whose program changed.
func (s *Server) lookAtPrograms(now time.Time) {
	s.mu.Lock()
	lanes := s.lanesLocked()
	s.mu.Unlock()
	for _, l := range lanes {
		p, ok := l.link.(Program)
		if !ok || !l.ready.Load() || l.down.Load() || now.Before(l.nextLook) {
			continue
		}
		began := time.Now()
		changed := l.programChanged(p.File())
		l.nextLook = now.Add(max(lookAtPrograms, lookPart*time.Since(began)))
		if changed {
			l.slot.replace(l)
		}
	}
}

// programChanged decides what the state of the program means: true, the child has to go. Only housekeeping and the adoption
// of the lane, which comes before, call it.
func (l *lane) programChanged(f FileState) bool {
	if f == FileChanged && l.srv.replaces() {
		return true
	}
	if f == FileSame || l.warned {
		return false
	}
	l.warned = true
	attrs := []slog.Attr{slog.String(key.Server, l.srv.name()), slog.String(key.Lane, l.key), slog.Int(key.Child, l.link.Info().Pid)}
	if f == FileChanged {
		l.srv.g.log.LogAttrs(ctxNone, slog.LevelWarn, "the program of a running server was replaced; the server goes on with the old one", attrs...)
	} else {
		l.srv.g.log.LogAttrs(ctxNone, slog.LevelWarn, "the program of a running server was removed; the server goes on", attrs...)
	}
	return false
}

// replaces is the policy of the entry: a server with state of its own is kept unless a person said otherwise.
func (s *Server) replaces() bool {
	e := s.def.Load()
	if e.OnChange == "" {
		return !e.Stateful
	}
	return e.OnChange == catalog.OnChangeReplace
}

// replace takes a lane out of its slot. Until it has ended what it has begun, no other is started.
func (s *slot) replace(l *lane) {
	f := &flight{done: make(chan struct{}), adopts: newUndecided(textReplaced)}
	f.adopts.drains.Store(true)
	close(f.adopts.over)
	s.mu.Lock()
	if s.closed || s.flight != nil || !s.cur.CompareAndSwap(l, nil) {
		s.mu.Unlock()
		return
	}
	s.flight = f
	s.mu.Unlock()
	s.srv.g.log.LogAttrs(ctxNone, slog.LevelInfo, "the program of a running server was replaced", slog.String(key.Server, s.srv.name()), slog.String(key.Lane, s.key), slog.Int(key.Child, l.link.Info().Pid))
	s.srv.g.goes.Go(func() {
		l.drain(s.srv.g.ctx)
		s.land(f)
	})
}

// land ends the wait of those who need the lane.
func (s *slot) land(f *flight) {
	s.mu.Lock()
	s.flight = nil
	s.mu.Unlock()
	close(f.done)
}

// drain ends the lane when nothing is in work on it any more.
func (l *lane) drain(ctx context.Context) {
	look := time.NewTicker(drainLook)
	defer look.Stop()
	for !l.retire() {
		select {
		case <-look.C:
		case <-l.ended:
			return
		case <-ctx.Done():
			return
		}
	}
	l.close("its program was replaced")
	select {
	case <-l.ended:
	case <-ctx.Done():
	}
}

// retire lets nobody in any more when nothing is in work. False: somebody waits for something that the lane does now.
// Listens and subscriptions go to the next lane.
func (l *lane) retire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if !c.isListen {
			return false
		}
	}
	if len(l.waiting) > 0 || len(l.asks) > 0 || l.liveTasksLocked() {
		return false
	}
	l.down.Store(true) // dispatch looks at it under the same lock
	return true
}
