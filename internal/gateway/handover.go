package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"mcpx/internal/rpc"
)

// A planned restart (supervisor.md section 9): another daemon goes on with the supervised servers while this one still
// has connections of clients. HandOver lets go of those servers; what then happens to a request that was in flight is
// told to its reader by ReadMoved, and the edge asks the next daemon for the rest.

const (
	// openingWithin is how long HandOver waits for initialize requests that are being answered: their sessions must be
	// stored before the database closes.
	openingWithin = time.Second
	// directFor is how long calls of direct children may go on after a hand-over. The next daemon starts its own child
	// of the same server, and two of them should not overlap for long.
	directFor = 10 * time.Second
	// lingerStop bounds the end of what is left then.
	lingerStop = 5 * time.Second
	// lookEvery is how often Linger looks whether the calls that stayed here have ended.
	lookEvery = 50 * time.Millisecond
)

// HandOver leaves the supervised servers to the next daemon: their children go on, and no answer for their callers is
// made here any more. Servers behind a URL and direct children keep what is in flight (Linger), but not their listens;
// standalone streams are closed, so that their clients come back to the next daemon. The caller has made sure that nothing
// new comes in.
func (g *Gateway) HandOver(ctx context.Context) error {
	servers := g.all()
	for _, s := range servers {
		s.settleUp()
	}
	g.handed.Store(true)
	errs := make([]error, len(servers))
	var leaving sync.WaitGroup
	for i, s := range servers {
		leaving.Go(func() { errs[i] = s.handOver(ctx) })
	}
	leaving.Wait()
	g.shelf.stop(ctx)
	return errors.Join(errs...)
}

// Linger ends what HandOver left here: it returns when every call has ended, or with ctx.
func (g *Gateway) Linger(ctx context.Context) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	over := time.After(directFor)
	for waits := true; waits; {
		select {
		case <-ctx.Done():
			waits = false
		case <-over:
			for _, s := range g.all() {
				s.endDirect()
			}
		case <-look.C:
			waits = g.inFlight() > 0
		}
	}
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), lingerStop)
	defer done()
	return g.Stop(stop, false)
}

func (g *Gateway) all() []*Server {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*Server, 0, len(g.servers))
	for _, s := range g.servers {
		all = append(all, s)
	}
	return all
}

// inFlight counts the calls that Linger waits for.
func (g *Gateway) inFlight() int {
	n := 0
	for _, s := range g.all() {
		s.mu.Lock()
		lanes := s.lanesLocked()
		s.mu.Unlock()
		for _, l := range lanes {
			l.mu.Lock()
			n += len(l.waiting)
			for _, c := range l.calls {
				if !c.isListen {
					n++
				}
			}
			l.mu.Unlock()
		}
	}
	return n
}

// Longest is how long a call of any server may take.
func (g *Gateway) Longest() time.Duration {
	var longest time.Duration
	for _, s := range g.all() {
		longest = max(longest, s.limits().Max)
	}
	return longest + directFor
}

// supervised reports whether the children of the server outlive the daemon.
func (s *Server) supervised() bool {
	e := s.def.Load()
	return e.Stdio != nil && !e.Direct
}

// errMoving ends an adoption that a hand-over or a stop overtook. The child is the next daemon's.
var errMoving = errors.New("gateway: the server is handed over")

func (s *Server) handOver(ctx context.Context) error {
	supervised := s.supervised()
	s.moving.Store(supervised)
	s.mu.Lock()
	s.stopped = s.stopped || supervised
	sessions := make([]*Session, 0, len(s.sessions))
	for _, x := range s.sessions {
		sessions = append(sessions, x)
	}
	lanes := s.lanesLocked()
	s.mu.Unlock()
	defer func() {
		for _, x := range sessions {
			x.get.end()
		}
	}()
	if !supervised {
		close(s.handed) // after the last message of a listen, as far as there is one
		return nil
	}
	errs := make([]error, len(lanes))
	var leaving sync.WaitGroup
	for i, l := range lanes {
		l.down.Store(true)
		if !l.ready.Load() && !l.adopted {
			l.link.Close("mcpx restarts while the server starts") // without a handshake there is nothing to go on with
			continue
		}
		leaving.Go(func() {
			if err := l.link.Detach(ctx); err != nil {
				errs[i] = fmt.Errorf("%s: %w", s.name(), err)
			}
		})
	}
	leaving.Wait()
	close(s.moved)
	close(s.handed)
	for _, l := range lanes {
		if l.ready.Load() || l.adopted {
			laneSink{l}.Closed(Exit{Reason: Detached})
		}
	}
	s.awaitOpening()
	return errors.Join(errs...)
}

// settleUp is that of all lanes.
func (s *Server) settleUp() {
	s.mu.Lock()
	lanes := s.lanesLocked()
	s.mu.Unlock()
	for _, l := range lanes {
		l.settleUp()
	}
}

// awaitOpening waits until no initialize is being answered. Starts fail at once by now, so this takes no time unless a
// session is just being stored.
func (s *Server) awaitOpening() {
	for end := time.Now().Add(openingWithin); s.opening.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// endDirect ends the direct children of the server.
func (s *Server) endDirect() {
	e := s.def.Load()
	if e.Stdio == nil || !e.Direct {
		return
	}
	s.mu.Lock()
	lanes := s.lanesLocked()
	s.mu.Unlock()
	for _, l := range lanes {
		l.close("mcpx restarted; a server without supervisor ends with its daemon")
	}
}

// leaving reports whether the server is just being handed over.
func (s *Server) leaving() bool {
	if !s.moving.Load() {
		return false
	}
	select {
	case <-s.moved:
		return false
	default:
		return true
	}
}

// untilMoved keeps who failed because the server is being handed over from saying so: the next daemon takes the request.
func (s *Server) untilMoved() {
	if s.moving.Load() {
		<-s.moved
	}
}

// Moved reports whether the server was handed over to the next daemon, or is just being.
func (s *Server) Moved() bool {
	s.untilMoved()
	return s.moving.Load()
}

// Unknown is the answer to a request that was in flight at a hand-over when the next daemon does not say what became
// of it.
func (s *Server) Unknown(id []byte, method, text string) []byte {
	return trouble{class: SentUnknown, text: text}.body(id, s.name(), method)
}

// callNext is the end of a call of our own whose server went to the next daemon.
func (g *Gateway) callNext(ctx context.Context, s *Server, st *Stream, body []byte) ([]byte, error) {
	if g.cfg.Next == nil {
		return nil, &RPCError{Code: CodeSentUnknown, Message: "the daemon restarted; the call may have run"}
	}
	raw := g.cfg.Next(ctx, s, st, body)
	if raw == nil {
		return nil, context.Cause(ctx)
	}
	return ownResult(raw)
}

// IsNotSent reports whether an answer says that the request never reached the server, so that it may be sent again.
func IsNotSent(code []byte) bool { return string(code) == fmt.Sprint(CodeNotSent) }

// Moved is closed when the server of the stream went to the next daemon; nil when it never does.
func (r *Reader) Moved() <-chan struct{} { return r.s.moved }

// Wire is the id by which the server knows the request of a modern client, nil before it has one.
func (s *Stream) Wire() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wire
}

// Sent reports whether the request of the stream was handed to a link: it may have reached the server.
func (s *Stream) Sent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// Asked are the ids of the questions that the stream still holds, by rpc.IDKey: its reader has seen them.
func (s *Stream) Asked() map[string]bool {
	s.mu.Lock()
	events := slices.Clone(s.events)
	s.mu.Unlock()
	asked := map[string]bool{}
	for _, e := range events {
		m, err := rpc.Scan(e.Data)
		if err != nil || m.Kind != rpc.Request {
			continue
		}
		if idKey, ok := rpc.IDKey(m.ID.Of(e.Data)); ok {
			asked[idKey] = true
		}
	}
	return asked
}

// onWire notes the id that the request of a modern client has towards the server.
func (s *Stream) onWire(id []byte) {
	s.mu.Lock()
	s.wire = id
	s.mu.Unlock()
}

// inherited makes the stream one of a request that an earlier daemon sent.
func (s *Stream) inherited(c *call) {
	s.moved = c.srv.moved
	s.onWire(c.upID)
	s.onLink()
}

// onLink notes that the request is on its way to the server.
func (s *Stream) onLink() {
	s.mu.Lock()
	s.sent = true
	s.mu.Unlock()
}

// hasMoved reports whether the server of the stream went to the next daemon.
func (s *Stream) hasMoved() bool {
	select {
	case <-s.moved:
		return true
	default:
		return false
	}
}
