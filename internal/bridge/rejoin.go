package bridge

import (
	"encoding/json"
	"net/http"
	"time"

	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

const (
	// maxAttempts bounds the attempts in a row that bring no message. Each is a daemon that took a connection and went
	// away again, or a stream that it ended: no service manager restarts that often without giving up.
	maxAttempts = 256
	// steady is how long a stream has to last to count as much as a message: a long call may have nothing to say.
	steady = 5 * time.Second
	// maxCopies bounds how often one request is sent again, although each earlier copy is proved unsent or harmless: a
	// request that kills the daemon must not do so for ever.
	maxCopies = 16
)

// harmless are the methods that may be sent a second time although the first copy may have arrived: they only read
// (protocol.md section 5.2), or, like initialize, leave nothing behind but a session that ends when it is idle.
var harmless = map[string]bool{
	initialize: true, setLevel: true, "server/discover": true, "tools/list": true, "prompts/list": true, "resources/list": true,
	"resources/templates/list": true, "resources/read": true, "ping": true,
}

// mayRepeat allows one more copy of a harmless request of which nothing has come back. With once every request is harmless:
// whoever serves it makes sure that its effect happens once.
func (c *call) mayRepeat(once bool) bool {
	if c.told > 0 || c.copies >= maxCopies || !harmless[c.method] && !c.hidden && !once {
		return false
	}
	c.copies++
	return true
}

// broken decides what follows when the response to a request broke before it was complete. True: it has to be sent
// again.
func (b *bridge) broken(c *call, s *session) (again bool, t *trouble) {
	b.asked.broke(b.cfg.Now())
	switch {
	case c.modern || s == nil || s.id == "":
		return b.lost(c, "the daemon went away")
	case c.method == "":
		return false, b.rejoinBatch(c, s)
	}
	return b.rejoin(c, s)
}

// lost is the end of a request of which nobody knows more.
func (b *bridge) lost(c *call, text string) (again bool, t *trouble) {
	switch {
	case c.isCancelled():
		return false, nil
	case c.mayRepeat(b.cfg.Server == ""): // the tools of mcpx take an operation_id
		return true, nil
	}
	return false, sentUnknown(text)
}

// rejoin asks a daemon, which may be another process by now, for the outcome of a request: the answer, or an error that
// says how far it came. True: no copy of it ran, or it only reads, and it has to be sent again.
func (b *bridge) rejoin(c *call, s *session) (again bool, t *trouble) {
	c.rejoins = true
	defer func() { c.rejoins = false }()
	for idle := 0; idle < maxAttempts; idle++ {
		if !sleep(c.ctx, b.rejoinPause(c, idle)) || c.isCancelled() {
			return false, b.left(c)
		}
		began, before := b.cfg.Now(), c.told
		r, _, err := b.send(c.ctx, outgoing{method: http.MethodGet, session: s, last: c.cursor()})
		if err != nil {
			if b.reach(c.ctx, b.lim.grace, b.lim.outage) != nil {
				return false, b.leftOr(c, sentUnknown("the daemon went away and did not come back"))
			}
			continue
		}
		switch r.StatusCode {
		case http.StatusOK:
			b.follow(c, r.Body)
		case http.StatusServiceUnavailable:
			c.retry, c.cut = retryAfter(r), false
		case http.StatusNotFound:
			discard(r)
			return b.lost(c, "the daemon restarted and the session is gone")
		default: // 400: nothing is known of the request
			discard(r)
			return b.lost(c, "the daemon restarted")
		}
		discard(r)
		switch {
		case c.unsent:
			c.sendAgain()
			return true, nil
		case c.complete() || c.isCancelled():
			return false, nil
		case c.ctx.Err() != nil:
			return false, b.left(c)
		case c.told != before, b.cfg.Now().Sub(began) >= steady:
			idle = -1
		}
		b.asked.broke(b.cfg.Now())
	}
	return false, sentUnknown("the stream of the answer ended again and again")
}

// rejoinPause is the time before an attempt. The first follows a broken stream at once: its daemon is dead, and the
// sooner that is noticed, the sooner there is another. A stream that the daemon ended waits as long as it asked for.
func (b *bridge) rejoinPause(c *call, idle int) time.Duration {
	pause := time.Duration(0)
	if idle > 0 {
		pause = b.lim.pause << min(idle-1, 4)
	}
	if !c.cut {
		pause = max(pause, c.retry)
	}
	return pause
}

// cursor is the event behind which the stream of a request goes on.
func (c *call) cursor() string {
	if c.last != "" {
		return c.last
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.waiting { // one: a batch is rejoined by its elements
		return era.RejoinID(id)
	}
	return ""
}

// rejoinBatch asks for the outcome of each request of a batch. The answers come one by one: the array that they would
// have made is gone with the response.
func (b *bridge) rejoinBatch(c *call, s *session) *trouble {
	elements, err := rpc.Batch(c.body)
	if err != nil {
		return sentUnknown("the daemon went away") // cannot be: it was split when it came
	}
	for _, e := range elements {
		it, bad := parse(e.Of(c.body))
		if bad != nil || it.call == nil || !c.answeredBy(it.call) {
			continue
		}
		part := it.call
		part.ctx, part.cut = c.ctx, true
		again, t := b.rejoin(part, s)
		if again {
			t = b.exchange(part)
		}
		if t != nil {
			b.fail(part, t)
		}
	}
	return nil
}

// answeredBy leaves the ids of part to it; false when they had their answer.
func (c *call) answeredBy(part *call) bool {
	left := false
	for _, id := range part.waiting {
		left = c.answered(id) || left
	}
	return left
}

// isUnsent says whether a message says that the request was never handed on, so that the bridge may send it again itself:
// its client still waits. A rejoined stream says that of a copy of an earlier daemon. In answer to a POST it counts only
// when nothing is wrong but that the daemon ends: other causes are for the client to know.
func (c *call) isUnsent(message []byte, m rpc.Message) bool {
	if c.copies >= maxCopies || m.Kind != rpc.Error || string(m.Code.Of(message)) != codeNotSent || !c.waits(m.ID.Of(message)) {
		return false
	}
	return c.rejoins || c.method != "" && isStopping(message, m)
}

// isStopping says whether an error of the daemon has no other cause than the end of that daemon.
func isStopping(message []byte, m rpc.Message) bool {
	var data struct {
		Mcpx struct {
			Cause string `json:"cause"`
		} `json:"mcpx"`
	}
	return json.Unmarshal(rpc.Find(message, m.Error, "data").Of(message), &data) == nil && data.Mcpx.Cause == causeRestart
}

// sendAgain prepares another copy of a request that was not handed on. That one has a stream of its own: what came of this
// one is no cursor for it.
func (c *call) sendAgain() {
	c.unsent, c.last = false, ""
	c.copies++
}
