package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"mcpx/internal/key"
	"mcpx/internal/store"
)

// SessionStore keeps legacy sessions over the life of the daemon. A nil store keeps nothing.
type SessionStore interface {
	// Save writes one session durably, new or in place of what was stored under its id.
	Save(ctx context.Context, s store.Session) error
	// Forget removes a session; one that is not there is no error.
	Forget(ctx context.Context, id string) error
	// All gives every session that was kept, in order of creation.
	All(ctx context.Context) ([]store.Session, error)
}

// saveWithin bounds one write: a database that does not answer must not hold up clients for longer.
const saveWithin = 5 * time.Second

// shelf writes sessions to the store, one at a time, in a goroutine of its own: a session whose set-up changes often
// is written once for many changes, and what is forgotten is never written again.
type shelf struct {
	to  SessionStore
	log *slog.Logger

	wake chan struct{} // cap 1
	quit chan struct{}
	once sync.Once
	over chan struct{} // closed when the writer has ended

	mu    sync.Mutex // guards the fields below; never held while the store works
	dirty map[string]*pending
}

// pending is what has to happen to one stored session.
type pending struct {
	x       *Session // nil: forget it
	waiting []chan struct{}
}

func newShelf(to SessionStore, log *slog.Logger) *shelf {
	if to == nil {
		return nil
	}
	h := &shelf{to: to, log: log, wake: make(chan struct{}, 1), quit: make(chan struct{}), over: make(chan struct{}), dirty: map[string]*pending{}}
	go h.run()
	return h
}

// save has the session written as it is at that moment, soon.
func (h *shelf) save(x *Session) {
	if h != nil {
		h.put(x.ID, x, nil)
	}
}

// saveNow is save that waits until it is written, or has failed, or ctx is over.
func (h *shelf) saveNow(ctx context.Context, x *Session) {
	if h == nil {
		return
	}
	written := make(chan struct{})
	h.put(x.ID, x, written)
	select {
	case <-written:
	case <-ctx.Done():
	case <-h.over:
	}
}

// forget has the session removed.
func (h *shelf) forget(id string) {
	if h != nil {
		h.put(id, nil, nil)
	}
}

func (h *shelf) put(id string, x *Session, written chan struct{}) {
	h.mu.Lock()
	p := h.dirty[id]
	if p == nil {
		p = &pending{x: x}
		h.dirty[id] = p
	}
	if x == nil {
		p.x = nil
	}
	if written != nil {
		p.waiting = append(p.waiting, written)
	}
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *shelf) run() {
	defer close(h.over)
	for {
		select {
		case <-h.wake:
			h.write()
		case <-h.quit:
			h.write()
			return
		}
	}
}

// write does all that waits.
func (h *shelf) write() {
	for {
		h.mu.Lock()
		var id string
		var p *pending
		for id, p = range h.dirty {
			break
		}
		delete(h.dirty, id)
		h.mu.Unlock()
		if p == nil {
			return
		}
		ctx, stop := context.WithTimeout(context.Background(), saveWithin)
		var err error
		if p.x == nil || p.x.isOver() {
			err = h.to.Forget(ctx, id)
		} else {
			err = h.to.Save(ctx, p.x.stored())
		}
		stop()
		if err != nil {
			// The session goes on; it would not outlive the daemon as it is now.
			h.log.LogAttrs(ctxNone, slog.LevelWarn, "session not stored", slog.String(key.Cause, err.Error()))
		}
		for _, w := range p.waiting {
			close(w)
		}
	}
}

// stop writes what waits and ends the writer. Safe to call twice.
func (h *shelf) stop(ctx context.Context) {
	if h == nil {
		return
	}
	h.once.Do(func() { close(h.quit) })
	select {
	case <-h.over:
	case <-ctx.Done():
	}
}
