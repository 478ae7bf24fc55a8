package gateway

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/key"
)

const (
	// adoptAtOnce is how many children are adopted at the same time.
	adoptAtOnce = 16
	// adoptWithin is how long a supervisor may take to answer, each time.
	adoptWithin = 3 * time.Second
	// adoptTries is how often one that does not answer is tried (supervisor.md section 9): it may be stopped, or the machine
	// be too busy. Meanwhile its callers are told to come back; afterwards another process is started in its place, without
	// what this one remembers.
	adoptTries = 3
	// adoptPause is the time between two tries. All of them take less than 30 s.
	adoptPause = 6 * time.Second
)

// Restore goes on with what an earlier daemon left: sessions of clients, and children that outlived it. It returns when
// every session is back and every child that is wanted has its place, so that no second one can be started beside it;
// the children are adopted after that, while the gateway serves. It is called once, after Apply.
func (g *Gateway) Restore(ctx context.Context) error {
	err := g.restoreSessions(ctx)
	keeper, ok := g.cfg.Stdio.(Keeper)
	if !ok {
		return err
	}
	survivors, lost, keeperErr := keeper.Survivors(ctx)
	for _, d := range lost {
		g.mourn(d)
	}
	// The youngest first: of several for one lane it has the lane.
	slices.SortFunc(survivors, func(a, b Survivor) int { return b.Started.Compare(a.Started) })
	turns := make(chan struct{}, adoptAtOnce)
	for _, one := range survivors {
		a, why := g.place(keeper, one)
		if a == nil {
			g.log.LogAttrs(ctxNone, slog.LevelInfo, "child of an earlier daemon is not wanted", slog.String(key.Server, g.nameOf(one.Server)), slog.String(key.Lane, one.Lane), slog.Int(key.Child, one.Child), slog.String(key.Cause, why))
			keeper.End(one.ID, why)
			continue
		}
		g.goes.Go(func() { a.run(turns) })
	}
	return errors.Join(err, keeperErr)
}

// restoreSessions puts the stored sessions back into their servers.
func (g *Gateway) restoreSessions(ctx context.Context) error {
	if g.cfg.Sessions == nil {
		return nil
	}
	all, err := g.cfg.Sessions.All(ctx)
	if err != nil {
		return err
	}
	now := g.now()
	for _, st := range all {
		if s := g.routed(st.Server); s == nil || !s.revive(st, now) {
			g.shelf.forget(st.ID)
		}
	}
	return nil
}

// routed finds a server by its id when it is in use.
func (g *Gateway) routed(id string) *Server {
	g.mu.Lock()
	s := g.servers[id]
	g.mu.Unlock()
	if s == nil {
		return nil
	}
	if r, ok := g.Route(s.name()); !ok || r != s {
		return nil
	}
	return s
}

// nameOf is the name of a server for the log; its id when it is in the catalog no more.
func (g *Gateway) nameOf(id string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.servers[id]; s != nil {
		return s.name()
	}
	return id
}

// mourn records a child that ended while nobody watched, and tells its sessions what became of their calls.
func (g *Gateway) mourn(d Lost) {
	s := g.routed(d.Server)
	if s == nil {
		return
	}
	if !s.learn(g.ctx) {
		d.Exit.Tail = nil // it may hold what cannot be hidden
	}
	if redact := g.cfg.Redact; redact != nil {
		d.Exit.Tail = redact(s.name(), d.Exit.Tail)
	}
	text := d.Exit.String() + " while no daemon was there"
	now := g.now()
	s.mu.Lock()
	s.lastErr, s.errAt = text, now
	sessions := s.sessionsOfLocked(d.Lane)
	s.mu.Unlock()
	s.logged([]byte("mcpx: " + text + "\n"))
	pasts := map[string]*past{}
	for _, x := range sessions {
		same := !d.Started.IsZero() && d.Started.Equal(x.home.Started)
		pasts[x.short] = s.witness(d.Complete && same, &d.Exit, now)
	}
	note := func(calls []KeptCall, told trouble) {
		told.exit = &d.Exit
		for _, k := range calls {
			if t, ok := readTag(k.Tag, k.ID); ok && pasts[t.short] != nil {
				pasts[t.short].add(t.id, k.Method, told)
			}
		}
	}
	note(d.Open, trouble{class: SentUnknown, text: d.Exit.Why() + "; the call was sent and may have run"})
	note(d.Answered, trouble{class: AnsweredLost, text: d.Exit.String() + "; the call was answered, but the answer is lost"})
	for _, x := range sessions {
		x.mu.Lock()
		x.past = pasts[x.short]
		x.mu.Unlock()
	}
}

// sessionsOfLocked gives the sessions of a lane.
func (s *Server) sessionsOfLocked(laneKey string) []*Session {
	var all []*Session
	for _, x := range s.sessions {
		if x.slot.key == laneKey {
			all = append(all, x)
		}
	}
	return all
}

// place finds out whether a child is still wanted, and if so gives it the start of its lane: whoever needs the lane
// waits for the adoption. Otherwise the reason is returned.
func (g *Gateway) place(keeper Keeper, one Survivor) (*adoption, string) {
	s := g.routed(one.Server)
	switch {
	case s == nil:
		return nil, "its server is not in use any more"
	case one.Process != s.def.Load().Process():
		return nil, "its server was changed"
	case one.Child == 0:
		return nil, "it was never started"
	}
	if forOne := strings.HasPrefix(one.Lane, sessionPrefix) || strings.HasPrefix(one.Lane, modernPrefix+sessionPrefix); forOne {
		s.mu.Lock()
		known := s.slots[one.Lane] != nil
		s.mu.Unlock()
		if !known {
			return nil, "its session is over"
		}
	}
	sl, err := s.slotFor(one.Lane, nil)
	if err != nil {
		return nil, err.Error()
	}
	f := &flight{done: make(chan struct{}), adopts: newUndecided("mcpx restarted and is about to go on with the running server")}
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.flight != nil || sl.closed || sl.usable() != nil {
		return nil, "its place is taken"
	}
	sl.flight = f
	s.adopting.Add(1)
	return &adoption{keeper: keeper, one: one, slot: sl, flight: f}, ""
}

// adoption is how one child of an earlier daemon becomes a lane again.
type adoption struct {
	keeper Keeper
	one    Survivor
	slot   *slot
	flight *flight

	state   laneState // what the earlier daemon left
	lane    *lane
	owed    []uint64 // entries that nobody needs
	after   []func() // what follows when the child answers to us
	known   bool     // its credentials are, so that what it said before can be shown
	waiting []string // requests of modern clients that may still be joined
	drain   bool     // its program was replaced: it only ends what it has begun
}

// errUnfinished is a child whose handshake had not ended, or whose state cannot be read.
var errUnfinished = fault.New(fault.Unavailable, "lane-unfinished").Saying("its handshake was not over when the daemon ended")

// errUnwanted is a child whose server was changed while it was being adopted.
var errUnwanted = fault.New(fault.Unavailable, "lane-unwanted").Saying("its server was removed, disabled or changed")

// attempt attaches to the child once, when it has its turn. Again: nothing answered, and that may change.
func (a *adoption) attempt(turns chan struct{}) (again bool, err error) {
	turns <- struct{}{}
	defer func() { <-turns }()
	ctx, stop := context.WithTimeout(a.slot.srv.g.ctx, adoptWithin)
	defer stop()
	a.known = a.slot.srv.learn(ctx)
	err = a.keeper.Adopt(ctx, a.one.ID, a.take)
	return err != nil && a.lane == nil && errors.Is(ctx.Err(), context.DeadlineExceeded), err
}

// persist attempts until there is an answer, or often enough.
func (a *adoption) persist(turns chan struct{}) error {
	for try := 1; ; try++ {
		again, err := a.attempt(turns)
		// Who was not answered in time may have been let in all the same: that is noticed when it is gone.
		again = again || try > 1 && fault.KindOf(err) == fault.Busy
		if !again || try == adoptTries || a.slot.srv.moving.Load() {
			return err
		}
		select {
		case <-time.After(adoptPause):
		case <-a.slot.srv.g.ctx.Done():
			return err
		case <-a.slot.srv.moved:
			return err
		}
	}
}

// run adopts the child and opens its lane. A child that cannot be adopted leaves its place to an ordinary start.
func (a *adoption) run(turns chan struct{}) {
	s := a.slot.srv
	began := s.g.now()
	err := a.persist(turns)
	attrs := []slog.Attr{
		slog.String(key.Server, s.name()), slog.String(key.Lane, a.slot.key), slog.Int(key.Child, a.one.Child), slog.Duration(key.Took, s.g.now().Sub(began)),
	}
	if err != nil {
		a.failed(err)
		if errors.Is(err, errMoving) {
			a.decided()
			a.slot.land(a.flight)
			return
		}
		s.g.log.LogAttrs(ctxNone, slog.LevelWarn, "child of an earlier daemon not adopted", append(attrs, slog.String(key.Cause, err.Error()))...)
		a.decided()
		a.slot.land(a.flight)
		return
	}
	a.lane.done(a.owed...)
	for _, f := range a.after {
		f()
	}
	s.g.log.LogAttrs(ctxNone, slog.LevelInfo, "child of an earlier daemon adopted", attrs...)
	a.decided()
	if a.drain {
		a.lane.drain(s.g.ctx)
	}
	a.slot.land(a.flight)
}

// decided lets those go on who only want to know what outlived the earlier daemon.
func (a *adoption) decided() {
	close(a.flight.adopts.over)
	a.slot.srv.adopting.Add(-1)
}

// failed says what becomes of a child that was not adopted.
func (a *adoption) failed(err error) {
	s := a.slot.srv
	switch {
	case s.moving.Load(): // it is the next daemon's
	case a.lane != nil:
		laneSink{a.lane}.Closed(Exit{Reason: SupervisorLost, Text: "the supervisor did not answer any more"})
	case s.g.ctx.Err() != nil: // we end in the middle of it: its server looks unwanted, but it is the next daemon's
	case errors.Is(err, errUnfinished) || errors.Is(err, errUnwanted):
		a.keeper.End(a.one.ID, err.Error())
	default:
		s.mu.Lock()
		if s.wedged == nil {
			s.wedged = map[string]string{}
		}
		s.wedged[a.slot.key] = err.Error()
		s.mu.Unlock()
	}
}
