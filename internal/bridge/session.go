package bridge

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/rpc"
)

// session is one legacy session of the daemon. The client has one session all the time; the daemon may have several
// after each other.
type session struct {
	id      string
	version string             // negotiated revision
	ctx     context.Context    // ends with the session; kept for the standalone stream
	stop    context.CancelFunc // ends ctx
}

// restorable is what a lost session is made from again. The lines are the client's.
type restorable struct {
	init        []byte
	initialized []byte
	level       []byte            // the last logging/setLevel
	subs        map[string][]byte // resources/subscribe by raw uri
	made        int               // sessions that were restored, for the ids of the repeated lines
}

// maxSubs bounds what is kept of subscriptions. A client with more loses the surplus when a session is restored.
const maxSubs = 1024

// current is the session of the client, nil before initialize.
func (b *bridge) current() *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

// sessionOf is the session in which a request belongs; nil for modern requests and initialize.
func (b *bridge) sessionOf(c *call) *session {
	switch {
	case c.pin != nil:
		return c.pin
	case c.modern || c.method == initialize:
		return nil
	}
	return b.current()
}

// learn keeps what a result says about the session.
func (b *bridge) learn(c *call, message []byte, m rpc.Message) {
	if c.modern {
		return
	}
	if c.method == initialize {
		s := b.newSession(c.session, versionOf(message, m))
		b.mu.Lock()
		old := b.session
		b.session = s
		b.mu.Unlock()
		b.asked.reset()
		if old != nil {
			old.stop() // a client that initializes twice has left its first session
		}
		return
	}
	sent, err := rpc.Scan(c.body)
	if err != nil {
		return // cannot be: it was scanned when it came
	}
	uri := string(sent.URI.Of(c.body))
	b.mu.Lock()
	defer b.mu.Unlock()
	switch c.method {
	case setLevel:
		b.state.level = c.body
	case subscribe:
		if len(b.state.subs) < maxSubs {
			b.state.subs[uri] = c.body
		}
	case unsubscribe:
		delete(b.state.subs, uri)
	}
}

func (b *bridge) newSession(id, version string) *session {
	s := &session{id: id, version: version}
	s.ctx, s.stop = context.WithCancel(b.life)
	return s
}

// versionOf is the revision that an initialize result names.
func versionOf(message []byte, m rpc.Message) string {
	version, _ := rpc.Unquote(rpc.Find(message, m.Result, "protocolVersion").Of(message)) // "": the header is left out
	return version
}

// restore makes a new session in place of one that the daemon does not know any more. Callers that find the same
// session lost share one restoration.
func (b *bridge) restore(old *session) error {
	_, err, _ := b.renew.Do(old.id, func() (any, error) {
		if b.current() != old {
			return nil, nil //nolint:nilnil // the value is not used
		}
		return nil, b.reopen(old)
	})
	return err
}

// reopen repeats the client's own lines under ids of the bridge: the client sees no second handshake.
func (b *bridge) reopen(old *session) error {
	b.mu.Lock()
	b.state.made++
	state := b.state
	var subs [][]byte
	for _, line := range b.state.subs {
		subs = append(subs, line)
	}
	b.mu.Unlock()

	answer, id, err := b.repeat(nil, state.init, state.made, 0)
	if err != nil {
		return err
	}
	m, err := rpc.Scan(answer)
	if err != nil || m.Kind != rpc.Result {
		return fault.New(fault.Unavailable, "session-not-restored").
			Saying("the server refused to begin again after the restart of the daemon: %s", errorText(answer, m))
	}
	s := b.newSession(id, versionOf(answer, m))
	if s.version != old.version {
		s.stop()
		reason := fault.New(fault.Unavailable, "session-changed").
			Saying("after the restart of the daemon the server speaks %s instead of %s", s.version, old.version).
			Hinting("connect again")
		b.die(reason)
		return reason
	}
	if state.initialized != nil {
		r, _, err := b.send(b.life, outgoing{method: http.MethodPost, body: state.initialized, session: s})
		if err != nil {
			return err
		}
		discard(r)
	}
	if state.level != nil {
		subs = append(subs, state.level)
	}
	for i, line := range subs {
		if _, _, err := b.repeat(s, line, state.made, i+1); err != nil {
			return err
		}
	}
	b.mu.Lock()
	b.session = s
	b.mu.Unlock()
	b.asked.reset()
	old.stop()
	b.say("the session was restored")
	if state.initialized != nil {
		b.listen(s)
	}
	return nil
}

// repeat sends a line of the client once more under an id of the bridge. It returns the answer and the session that
// the daemon named with it.
func (b *bridge) repeat(s *session, line []byte, made, n int) (answer []byte, id string, err error) {
	m, err := rpc.Scan(line)
	if err != nil {
		return nil, "", err
	}
	own := rpc.Quote("mcpx-connect." + strconv.Itoa(made) + "." + strconv.Itoa(n))
	it, bad := parse(rpc.Splice(line, rpc.Edit{At: m.ID, With: own}))
	if bad != nil {
		return nil, "", bad
	}
	c := it.call
	c.hidden, c.pin = true, s
	c.ctx, c.stop = context.WithCancel(b.life)
	defer c.stop()
	if t := b.exchange(c); t != nil {
		return nil, "", fault.New(fault.Unavailable, "session-not-restored").
			Saying("the session could not be restored after the restart of the daemon: %s", t.text)
	}
	if c.answer == nil {
		return nil, "", context.Cause(c.ctx)
	}
	return c.answer, c.session, nil
}

// listenPause is the first pause between two standalone streams that brought nothing; it doubles up to maxListenPause.
const (
	listenPause    = 100 * time.Millisecond
	maxListenPause = 10 * time.Second
)

// listen keeps the standalone stream of a session open.
func (b *bridge) listen(s *session) {
	b.aside.Go(func() {
		last, pause := "", listenPause
		for s.ctx.Err() == nil {
			r, _, err := b.send(s.ctx, outgoing{method: http.MethodGet, session: s, last: last})
			if err != nil {
				b.asked.broke(b.cfg.Now())
				// A stream alone is no reason to start a daemon that somebody stopped.
				b.await(s.ctx)
				pause = listenPause
				continue
			}
			c := &call{waiting: map[string][]byte{}, last: last}
			began := b.cfg.Now()
			switch r.StatusCode {
			case http.StatusOK:
				b.follow(c, r.Body)
			case http.StatusServiceUnavailable:
				c.retry = retryAfter(r)
			case http.StatusBadRequest:
				c.last = "" // the events behind it are gone; go on with what comes
			case http.StatusNotFound:
				discard(r)
				if err := b.restore(s); err != nil && s.ctx.Err() == nil {
					b.say("%s; the next request tries again", sentence(err))
				}
				return
			default: // 405: this server sends nothing by itself
				discard(r)
				return
			}
			discard(r)
			b.asked.broke(b.cfg.Now())
			if pause = min(2*pause, maxListenPause); c.told > 0 || b.cfg.Now().Sub(began) >= steady {
				pause = listenPause
			}
			last = c.last
			sleep(s.ctx, max(c.retry, pause))
		}
	})
}

// goodbye ends the session. The life of the bridge is over by now, so it has a time of its own.
func (b *bridge) goodbye() {
	s := b.current()
	if s == nil || s.id == "" {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(b.life), b.lim.bye)
	defer stop()
	r, _, err := b.send(ctx, outgoing{method: http.MethodDelete, session: s})
	if err != nil {
		return // the daemon ends it when it has been idle
	}
	discard(r)
}

// errorText is the message of an error answer.
func errorText(answer []byte, m rpc.Message) string {
	text, ok := rpc.Unquote(rpc.Find(answer, m.Error, "message").Of(answer))
	if !ok {
		return fmt.Sprintf("%d bytes that are no answer", len(answer))
	}
	return text
}
