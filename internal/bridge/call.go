package bridge

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/rpc"
)

// maxRetryAfter bounds what the daemon may ask to wait before a request is sent again.
const maxRetryAfter = 5 * time.Second

// dispatch forwards items in order until the client or the bridge ends. A request only has to be written before the
// next item goes, so that requests run side by side; initialize and notifications are waited for.
func (b *bridge) dispatch() {
	for {
		select {
		case it, open := <-b.queue:
			if !open {
				return
			}
			b.forward(it)
			b.room.Release(it.size())
		case <-b.life.Done():
			return
		}
	}
}

func (b *bridge) forward(it *item) {
	switch {
	case it.call == nil:
		b.notify(it)
	case it.method == initialize && !it.modern:
		b.mu.Lock()
		b.state = restorable{init: it.line, subs: map[string][]byte{}}
		b.mu.Unlock()
		b.run(it.call)
	default:
		b.work.Go(func() { b.run(it.call) })
		<-it.call.handed
	}
}

// run takes a request to its end.
func (b *bridge) run(c *call) {
	defer b.forget(c)
	if t := b.exchange(c); t != nil {
		b.fail(c, t)
	}
}

// exchange sends a request until it is answered. Nil: all its answers were delivered, or nobody waits for them.
func (b *bridge) exchange(c *call) *trouble {
	began := b.cfg.Now()
	for attempt := 1; ; attempt++ {
		if !c.begin() {
			return nil
		}
		s := b.sessionOf(c)
		r, proof, err := b.send(c.ctx, outgoing{
			method: http.MethodPost, body: c.body, session: s, header: c.header, sent: c.handOver,
		})
		switch {
		case err != nil && c.ctx.Err() != nil:
			return b.left(c)
		case err != nil:
			if proof == maybeSent {
				c.cut = true
				if again, t := b.broken(c, s); !again {
					return t
				}
			}
			c.notSent()
			if attempt >= maxAttempts {
				return unavailable(fault.New(fault.Unavailable, "daemon-unstable").Saying("the daemon went away %d times before it had the request", attempt).
					Hinting("look at its log: `mcpx daemon status` names the file"))
			}
			if err := b.reach(c.ctx, b.lim.grace, b.lim.outage); err != nil {
				return b.leftOr(c, unavailable(err))
			}
			if !sleep(c.ctx, b.lim.pause) { // one that can be dialled and takes nothing must not be dialled in a tight loop
				return b.left(c)
			}
			continue
		case r.StatusCode == http.StatusServiceUnavailable:
			// The daemon refuses before it reads: stopping, or too busy.
			discard(r)
			c.notSent()
			if b.cfg.Now().Sub(began) > b.lim.outage {
				return unavailable(fault.New(fault.Busy, "daemon-busy").Saying("the daemon takes no requests now"))
			}
			if !sleep(c.ctx, retryAfter(r)) {
				return b.left(c)
			}
			continue
		case r.StatusCode == http.StatusNotFound && s != nil && s.id != "":
			discard(r)
			if c.pin != nil {
				return unavailable(fault.New(fault.Unavailable, "session-lost").Saying("the new session ended at once"))
			}
			if err := b.restore(s); err != nil {
				return b.leftOr(c, unavailable(err))
			}
			continue
		}
		again, t := b.receive(c, s, r)
		if !again {
			return t
		}
	}
}

// begin marks the request as under way; false when it was cancelled before.
func (c *call) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancelled {
		return false
	}
	c.sending = true
	return true
}

// notSent takes the mark back: a cancellation only has to drop the request now.
func (c *call) notSent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sending = false
}

// left is the end of a call whose context ended: by a cancellation or with the client, which needs no answer, or with
// a bridge that cannot go on.
func (b *bridge) left(c *call) *trouble {
	if f, ok := errors.AsType[*fault.Error](context.Cause(b.life)); ok && !c.isCancelled() {
		return unavailable(f)
	}
	return nil
}

func (c *call) isCancelled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancelled
}

// receive reads the response to a POST. True: the request has to be sent again.
func (b *bridge) receive(c *call, s *session, r *http.Response) (bool, *trouble) {
	defer discard(r)
	c.session = r.Header.Get(headerSession)
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "text/event-stream" {
		b.follow(c, r.Body)
		return b.afterStream(c, s)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, rpc.MaxLine+1))
	switch {
	case c.ctx.Err() != nil:
		return false, b.left(c)
	case err != nil:
		c.cut = true
		return b.broken(c, s)
	case len(body) > rpc.MaxLine:
		return false, answeredLost("the answer is larger than a line may be")
	}
	b.take(c, body)
	switch {
	case c.unsent:
		return b.stopped(c)
	case c.complete():
		return false, nil
	case c.isCancelled():
		return false, nil
	case r.StatusCode == http.StatusNotFound && !c.hidden:
		reason := refused(b.name(), body)
		b.die(reason)
		return false, unavailable(reason)
	}
	return false, refusedCall(r.StatusCode, body)
}

// afterStream decides what follows when the stream of a request ended.
func (b *bridge) afterStream(c *call, s *session) (bool, *trouble) {
	switch {
	case c.unsent:
		return b.stopped(c)
	case c.complete() || c.isCancelled():
		return false, nil
	case c.ctx.Err() != nil:
		return false, b.left(c)
	}
	return b.broken(c, s)
}

// stopped goes on with a request that its daemon did not hand on because it ends: the next one gets it.
func (b *bridge) stopped(c *call) (again bool, t *trouble) {
	c.notSent()
	c.sendAgain()
	if !sleep(c.ctx, b.lim.pause<<min(c.copies-1, 4)) {
		return false, b.left(c)
	}
	return true, nil
}

func (b *bridge) leftOr(c *call, t *trouble) *trouble {
	if c.ctx.Err() != nil {
		return b.left(c)
	}
	return t
}

// follow delivers the events of a stream until it ends.
func (b *bridge) follow(c *call, body io.Reader) {
	events := newEventReader(body)
	c.retry, c.cut = 0, false
	for {
		e, err := events.next()
		if err != nil {
			c.cut = !errors.Is(err, io.EOF)
			return // whether it is complete is told by what is still missing
		}
		if e.id != "" {
			c.last = e.id
		}
		if e.hasRetry {
			c.retry = e.retry
		}
		if len(e.data) > 0 {
			b.take(c, e.data)
		}
	}
}

// take delivers one message that came for a request, or a batch of them.
func (b *bridge) take(c *call, message []byte) {
	if rpc.IsBatch(message) {
		b.takeBatch(c, message)
		return
	}
	m, err := rpc.Scan(message)
	if err != nil {
		return // no message: the caller sees that the answer is missing
	}
	if m.Kind == rpc.Result || m.Kind == rpc.Error {
		if c.isUnsent(message, m) {
			c.unsent = true
			return
		}
		if !m.ID.Ok() || !c.answered(m.ID.Of(message)) {
			return // an error without id is told under the id of the request, by the caller
		}
		if c.hidden {
			c.answer = message
			return
		}
		if m.Kind == rpc.Result {
			b.learn(c, message, m)
		}
	} else if !b.show(message, m) {
		return
	}
	c.told++
	b.deliver(message)
}

func (b *bridge) takeBatch(c *call, batch []byte) {
	elements, err := rpc.Batch(batch)
	if err != nil {
		return
	}
	for _, e := range elements {
		if m, err := rpc.Scan(e.Of(batch)); err == nil && m.ID.Ok() && m.Kind != rpc.Request {
			c.answered(m.ID.Of(e.Of(batch)))
		}
	}
	c.told++
	b.deliver(batch)
}

// notify sends a notification or an answer, and waits until the daemon has accepted it, so that what follows cannot
// overtake it.
func (b *bridge) notify(it *item) {
	ctx, stop := context.WithTimeout(b.life, b.lim.notice)
	defer stop()
	switch {
	case it.method == initialized && !it.modern:
		b.mu.Lock()
		b.state.initialized = it.line
		b.mu.Unlock()
	case it.answers != "":
		b.asked.answered(it.answers, it.line)
	}
	for ctx.Err() == nil {
		s := b.current()
		if it.modern {
			s = nil
		}
		r, proof, err := b.send(ctx, outgoing{method: http.MethodPost, body: it.line, session: s, header: it.header})
		if err != nil {
			if proof == maybeSent && !it.mayRepeat() || b.reach(ctx, b.lim.grace, b.lim.outage) != nil {
				return
			}
			continue
		}
		discard(r)
		switch {
		case r.StatusCode == http.StatusServiceUnavailable:
			if !sleep(ctx, retryAfter(r)) {
				return
			}
			continue
		case r.StatusCode == http.StatusNotFound && s != nil && s.id != "":
			if b.restore(s) != nil || it.kind != rpc.Notification || it.method == initialized {
				return // the question of an answer is gone with its session; initialized was repeated by restore
			}
			continue
		case r.StatusCode >= http.StatusBadRequest:
			b.say("the daemon refused %s: %s", nameOf(it), r.Status)
		case it.method == initialized && s != nil:
			b.listen(s)
		case it.answers != "":
			b.asked.accepted(it.answers, b.cfg.Now())
		}
		return
	}
}

// mayRepeat says whether a second copy changes nothing: the daemon drops a second answer, and these notifications say
// what is, not what happened.
func (it *item) mayRepeat() bool {
	return !it.modern && (it.answers != "" || it.method == initialized || it.method == cancelled || it.method == rootsChanged)
}

func nameOf(it *item) string {
	if it.method == "" {
		return "an answer"
	}
	return it.method
}

// retryAfter is how long the daemon asks to wait, at least a moment.
func retryAfter(r *http.Response) time.Duration {
	seconds, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		return time.Second
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}
