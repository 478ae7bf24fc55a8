package gateway

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"mcpx/internal/era"
	"mcpx/internal/key"
)

// maxSlotWait is how long a call waits in the slot for a backoff to pass. Longer waits are told to the caller, who
// can decide; the first pauses of a backoff fit.
const maxSlotWait = 2 * time.Second

// slot is the place of one lane: it outlives the processes that fill it one after the other. Starts are single-flight:
// everyone who comes while a start runs waits for that start.
type slot struct {
	srv   *Server
	key   string
	start func(ctx context.Context) (*lane, error) // opens the link and does the handshake
	cur   atomic.Pointer[lane]

	mu     sync.Mutex // guards flight and closed
	flight *flight
	closed bool
	starts int
	join   *upstreamJoin // HTTP: what the first start goes on with
}

type flight struct {
	done   chan struct{}
	lane   *lane
	err    error
	adopts *undecided // it is no start but the adoption of a child that an earlier daemon left
}

// undecided is what an adoption tells those who wait for it.
type undecided struct {
	why    atomic.Pointer[string] // what is waited for
	drains atomic.Bool            // the child ends what it has begun, which takes as long as that
	over   chan struct{}          // closed when it is known whether the child answers to us
}

func newUndecided(why string) *undecided {
	u := &undecided{over: make(chan struct{})}
	u.why.Store(&why)
	return u
}

// usable gives the running lane, or nil.
func (s *slot) usable() *lane {
	if l := s.cur.Load(); l != nil && !l.down.Load() {
		return l
	}
	return nil
}

// submit sends a call to the lane of this slot, starting it when there is none. It does not wait.
func (s *slot) submit(c *call) {
	if l := s.usable(); l != nil {
		l.dispatch(c)
		return
	}
	s.srv.g.goes.Go(func() {
		ctx, stop := context.WithTimeout(s.srv.g.ctx, s.srv.limits().Start+maxSlotWait)
		defer stop()
		l, err := s.get(ctx)
		if err != nil && s.srv.g.ctx.Err() != nil {
			c.fail(trouble{class: NotSent, text: "the daemon is stopping; the call was not sent", stops: true})
			return
		}
		if err != nil {
			c.fail(startTrouble(err))
			return
		}
		if x, ok := c.owner.(*Session); ok && c.idKey != "" && !x.holds(c) {
			// The call of an earlier daemon with this id was found meanwhile.
			c.fail(trouble{code: era.CodeInvalidRequest, text: "a request with this id is still in flight"})
			return
		}
		l.dispatch(c)
	})
}

// get gives the running lane, or waits for a start.
func (s *slot) get(ctx context.Context) (*lane, error) {
	l, err := s.await(ctx)
	if err != nil {
		s.srv.untilMoved()
	}
	return l, err
}

func (s *slot) await(ctx context.Context) (*lane, error) {
	for {
		if l := s.usable(); l != nil {
			return l, nil
		}
		if s.srv.g.ctx.Err() != nil || s.srv.moving.Load() {
			return nil, &startError{text: "the daemon is stopping", wait: time.Second}
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, &startError{text: "the server was removed, disabled or changed"}
		}
		f := s.flight
		if f == nil {
			wait, err := s.srv.mayStart()
			if err != nil {
				s.mu.Unlock()
				return nil, err
			}
			f = &flight{done: make(chan struct{})}
			s.flight = f
			s.srv.g.goes.Go(func() { s.run(f, wait) })
		}
		s.mu.Unlock()
		if f.adopts != nil {
			if err := f.adopted(ctx); err != nil {
				return nil, err
			}
			continue // with its lane, or with an ordinary start
		}
		select {
		case <-f.done:
			return f.lane, f.err
		case <-ctx.Done():
			return nil, &startError{text: "still starting (" + s.srv.startProgress() + ")", wait: time.Second}
		}
	}
}

// maxAdoptWait is how long a call waits for an adoption (supervisor.md section 9). As long as that is undecided no
// second process is started.
const maxAdoptWait = 2 * time.Second

// adopted waits until the adoption is decided.
func (f *flight) adopted(ctx context.Context) error {
	limit := time.NewTimer(maxAdoptWait)
	defer limit.Stop()
	select {
	case <-f.done:
		return nil
	case <-limit.C:
	case <-ctx.Done():
	}
	if f.adopts.drains.Load() {
		select {
		case <-f.done:
			return nil
		case <-ctx.Done():
		}
	}
	return &startError{text: *f.adopts.why.Load(), wait: time.Second}
}

// decided waits until it is known whether the child of an earlier daemon answers to us.
func (s *slot) decided(ctx context.Context) {
	s.mu.Lock()
	f := s.flight
	s.mu.Unlock()
	if f == nil || f.adopts == nil {
		return
	}
	select {
	case <-f.adopts.over:
	case <-ctx.Done():
	}
}

// starter gives the way to start a process. A slot that was made for an adoption gets it from its first client.
func (s *slot) starter() func(context.Context) (*lane, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.start == nil {
		return func(context.Context) (*lane, error) {
			return nil, &startError{text: "the process of an earlier daemon ended; the next request starts another", wait: time.Second}
		}
	}
	return s.start
}

// startsWith sets the way to start a process when there is none yet.
func (s *slot) startsWith(start func(*slot) func(context.Context) (*lane, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.start == nil && start != nil {
		s.start = start(s)
	}
}

// run is one start. It has its own deadline: a caller who leaves does not end it.
func (s *slot) run(f *flight, wait time.Duration) {
	defer func() {
		s.mu.Lock()
		s.flight = nil
		closed := s.closed
		if f.err == nil && !closed {
			s.cur.Store(f.lane)
		}
		s.mu.Unlock()
		if closed && f.lane != nil {
			f.lane.close("server changed while starting")
			f.lane, f.err = nil, &startError{text: "the server was removed, disabled or changed"}
		}
		close(f.done)
		if f.err == nil {
			s.srv.restarted(s)
		}
	}()
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.srv.g.ctx.Done():
			f.err = &startError{text: "the daemon is stopping"}
			return
		}
	}
	ctx, stop := context.WithTimeout(s.srv.g.ctx, s.srv.limits().Start)
	defer stop()
	s.srv.starting.Add(1)
	began := s.srv.g.now()
	f.lane, f.err = s.begin(ctx)
	s.srv.starting.Add(-1)
	if f.err != nil {
		s.srv.startFailed(f.err)
		return
	}
	s.mu.Lock()
	s.starts++
	again := s.starts > 1
	s.mu.Unlock()
	if again {
		s.srv.restarts.Add(1)
	}
	if exit, dead := f.lane.open(); dead {
		f.lane, f.err = nil, &startError{text: exit.String() + " right after the handshake", exit: &exit, wait: time.Second}
		s.srv.startFailed(f.err)
		return
	}
	s.srv.g.log.LogAttrs(ctxNone, slog.LevelInfo, "server started", slog.String(key.Server, s.srv.name()), slog.String(key.Lane, s.key),
		slog.String(key.Era, string(f.lane.era)), slog.Duration(key.Took, s.srv.g.now().Sub(began)), slog.Int(key.Child, f.lane.link.Info().Pid))
}

// lost notes that the lane ended. Its place stays for the next one.
func (s *slot) lost(l *lane, e Exit) {
	s.cur.CompareAndSwap(l, nil)
	s.srv.laneEnded(l, e)
}

// resubmit sends a call once more that provably was not sent. A second loss is told to the caller.
func (s *slot) resubmit(c *call, e Exit) {
	if c.ended.Load() {
		return
	}
	if s.isClosed() || !c.retried.CompareAndSwap(false, true) {
		c.fail(trouble{class: NotSent, text: e.String() + "; the call was not sent", exit: &e})
		return
	}
	s.submit(c)
}

// relisten opens a listen again after its lane ended; the client keeps its stream and is told that lists may have
// changed meanwhile.
func (s *slot) relisten(c *call, e Exit) {
	if c.ended.Load() {
		return
	}
	if !s.isClosed() {
		switch o := c.owner.(type) {
		case *modernCall:
			o.reopened.Store(true)
			s.submit(c)
			return
		case *Session:
			o.relistenBridged()
			return
		}
	}
	c.fail(trouble{class: SentUnknown, text: e.String(), exit: &e})
}

func (s *slot) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// isEmpty reports whether nothing runs and nothing starts.
func (s *slot) isEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flight == nil && s.usable() == nil
}

// shut ends the lane and refuses new ones.
func (s *slot) shut(reason string) {
	s.mu.Lock()
	s.closed = true
	l := s.cur.Load()
	s.mu.Unlock()
	if l != nil {
		l.close(reason)
	}
}
