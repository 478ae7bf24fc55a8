package httpedge

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/rpc"
)

const (
	// upMaxFlying bounds the POSTs of one link that wait for an answer. It equals the connections to one host, so that a
	// single link cannot queue inside the HTTP layer, where its messages could not be dropped any more.
	upMaxFlying = upConnsPerHost
	// upMaxListens bounds the open subscriptions of one link. They are not calls: each stays open for hours.
	upMaxListens = upStreamsPerHost
	// upMaxQueue bounds the messages that wait for a slot, and as many that may be under way beside the calls.
	upMaxQueue = 1024
	// upMaxQueueBytes bounds the same queue by size: 1024 messages of the largest size would be 16 GiB.
	upMaxQueueBytes = 64 << 20
	// upEndWait bounds the DELETE of a session (protocol.md section 7.5).
	upEndWait = 5 * time.Second
	// upAbortWait is how long the stream of a call that was cancelled by a notification may stay open. The server ends
	// it at once; one that does not would keep a slot for ever.
	upAbortWait = 5 * time.Second
)

// The methods whose order the transport has to know.
const (
	upInitialize  = "initialize"
	upInitialized = "notifications/initialized"
	upCancelled   = "notifications/cancelled"
	upListen      = "subscriptions/listen"
)

// upMode is the protocol of a link.
type upMode uint8

const (
	upLegacy upMode = iota // Streamable HTTP, 2025-03-26 to 2025-11-25
	upModern               // Streamable HTTP, 2026-07-28: POST only
	upSSE                  // HTTP+SSE, 2024-11-05
)

// upLink is one upstream session. Requests run concurrently, each in its own POST; notifications keep their order; a
// cancellation and the answer to a question wait for nothing but the delivery of what they refer to.
//
// Every request that Send accepted ends in one of: Deliver of its answer, Failed, an Abort, or Closed. On an HTTP+SSE
// link a request whose POST was accepted is the peer's, and only its answer or Closed follow.
type upLink struct {
	up      *Upstream
	server  string // name of the entry
	entry   catalog.Server
	sink    gateway.Sink
	mode    upMode
	target  *url.URL // where messages are POSTed
	own     http.Header
	hide    []string // what must not appear in a text
	started time.Time

	life context.Context // ends with the link; kept because Send has no context of its own
	stop context.CancelFunc
	work sync.WaitGroup // every goroutine of the link but finish
	done chan struct{}  // closed behind Sink.Closed

	skipped, malformed atomic.Uint64

	stream     *upStream     // HTTP+SSE: the one stream
	beginRead  sync.Once     // HTTP+SSE: reading starts with the first Send, so that nothing is delivered before Open returned
	wantStream sync.Once     // Streamable HTTP: the standalone stream is opened once
	heard      chan struct{} // closed when the server has answered for that stream, or cannot be reached
	beginHear  sync.Once
	poke       chan struct{}

	mu        sync.Mutex // guards the fields below; no call of the sink and no I/O under it
	ending    bool
	session   string // Mcp-Session-Id, "" for none
	version   string // last MCP-Protocol-Version that was sent
	requests  []*upCall
	notes     []*upCall
	queued    int // bytes in both queues
	calls     map[uint64]*upCall
	flying    int  // requests under way that hold a slot
	listens   int  // subscriptions under way
	loose     int  // answers and cancellations under way
	greeting  bool // initialize was sent and its session id is not known yet
	announced int  // notifications/initialized accepted by Send and not answered yet
	noting    bool // a notification of the ordered queue is under way
}

var _ gateway.Link = (*upLink)(nil)

func newUpLink(u *Upstream, entry catalog.Server, target *url.URL, own http.Header, sink gateway.Sink) *upLink {
	l := &upLink{
		up: u, server: entry.Name, entry: entry, sink: sink, target: target, own: own, hide: upSecrets(target, own), started: u.cfg.Now(),
		done: make(chan struct{}), heard: make(chan struct{}), poke: make(chan struct{}, 1), calls: map[uint64]*upCall{},
	}
	l.life, l.stop = context.WithCancel(context.Background())
	return l
}

// Send takes one message. It fails with kind busy when the queue is full, unavailable when the link ends.
func (l *upLink) Send(m gateway.Outbound) error {
	if l.mode == upSSE {
		l.beginRead.Do(l.readStreamSoon)
	}
	c := newUpCall(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		return fault.New(fault.Unavailable, "link-closed").Saying("the connection to the server is closed").Retrying(fault.AfterWait)
	}
	if err := l.roomLocked(c); err != nil {
		return err
	}
	if m.Version != "" {
		l.version = m.Version
	}
	switch {
	case c.isListen():
		l.listens++
		l.startLocked(c)
	case m.Kind == rpc.Request:
		l.requests = append(l.requests, c)
		l.queued += len(m.Body)
	case m.Kind == rpc.Notification && m.Method != upCancelled:
		if m.Method == upInitialized {
			l.announced++
		}
		l.notes = append(l.notes, c)
		l.queued += len(m.Body)
	default:
		l.loose++
		l.startLocked(c)
	}
	l.pumpLocked()
	return nil
}

func (l *upLink) roomLocked(c *upCall) error {
	full := ""
	waiting := len(l.requests) + len(l.notes)
	switch {
	case c.isListen():
		if l.listens >= upMaxListens {
			full = "too many open subscriptions"
		}
	case l.loose >= upMaxQueue:
		full = "too many answers under way"
	case waiting >= upMaxQueue, waiting > 0 && l.queued+len(c.m.Body) > upMaxQueueBytes:
		full = "too many messages wait for the server"
	}
	if full == "" {
		return nil
	}
	return fault.New(fault.Busy, "upstream-busy").Saying("%s", full).
		Hinting("wait until some of the running calls have ended").Retrying(fault.AfterWait)
}

// pumpLocked starts what may start. Nothing passes an initialize whose session is unknown, and no request passes
// notifications/initialized: a server may refuse it.
func (l *upLink) pumpLocked() {
	for len(l.notes) > 0 && !l.noting && !l.greeting {
		c := l.notes[0]
		l.notes = l.notes[1:]
		l.queued -= len(c.m.Body)
		l.noting = true
		l.startLocked(c)
	}
	for len(l.requests) > 0 && l.flying < upMaxFlying && !l.greeting && l.announced == 0 {
		c := l.requests[0]
		l.requests = l.requests[1:]
		l.queued -= len(c.m.Body)
		l.flying++
		l.greeting = c.m.Method == upInitialize
		l.startLocked(c)
	}
}

// startLocked runs the exchange of one message. Messages that are no requests first wait for the delivery of the
// requests before them: a cancellation that arrives before its call cancels nothing.
func (l *upLink) startLocked(c *upCall) {
	if l.ending {
		return
	}
	c.ctx, c.cancel = context.WithCancel(l.life)
	c.began = l.up.cfg.Now()
	if c.isRequest() {
		l.calls[c.m.Ref] = c
	} else {
		for _, before := range l.calls {
			c.after = append(c.after, before.handed)
			if c.m.Method == upCancelled {
				c.settle = max(c.settle, upSettle-c.began.Sub(before.began))
			}
		}
	}
	l.work.Go(func() { l.exchange(c) })
}

// release gives the slot of a message back. Safe to call twice.
func (l *upLink) release(c *upCall) {
	c.handOver()
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.released {
		return
	}
	c.released = true
	switch {
	case c.isListen():
		l.listens--
		delete(l.calls, c.m.Ref)
	case c.isRequest():
		l.flying--
		delete(l.calls, c.m.Ref)
		if c.m.Method == upInitialize {
			l.greeting = false
		}
	case c.m.Kind == rpc.Notification && c.m.Method != upCancelled:
		l.noting = false
		if c.m.Method == upInitialized {
			l.announced--
		}
	default:
		l.loose--
	}
	l.pumpLocked()
}

// greeted stores the session that a successful initialize opened.
func (l *upLink) greeted(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = session
	l.greeting = false
	l.pumpLocked()
}

// join goes on with the session of an earlier daemon: its initialize and notifications/initialized were then.
func (l *upLink) join(session, version string) {
	l.mu.Lock()
	l.session, l.version = session, version
	l.mu.Unlock()
	l.openStandalone()
}

// sessionNow is the session id and the protocol version for requests of the transport itself.
func (l *upLink) sessionNow() (session, version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session, l.version
}

// Abort drops a queued request, or ends its POST where closing the stream is the cancellation: on modern links, and
// before a connection was found. Nothing is reported for a request for which Abort returned true.
func (l *upLink) Abort(ref uint64) bool {
	l.mu.Lock()
	for i, c := range l.requests {
		if c.m.Ref == ref {
			l.requests = append(l.requests[:i:i], l.requests[i+1:]...)
			l.queued -= len(c.m.Body)
			l.mu.Unlock()
			return true
		}
	}
	c := l.calls[ref]
	l.mu.Unlock()
	if c == nil {
		return l.mode == upModern // it ended; a notification would mean nothing
	}
	return c.abort(l.mode == upModern, l.up.bounds.abort)
}

// Close ends the session with DELETE and then the link.
func (l *upLink) Close(reason string) {
	l.end(gateway.Exit{Reason: gateway.Terminated, Text: reason}, true)
}

// Detach ends the link and leaves the session, so that a later daemon may join it.
func (l *upLink) Detach(ctx context.Context) error {
	l.end(gateway.Exit{Reason: gateway.Detached}, false)
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// end begins the end of the link; the first caller decides why.
func (l *upLink) end(e gateway.Exit, withDelete bool) {
	l.mu.Lock()
	if l.ending {
		l.mu.Unlock()
		return
	}
	l.ending = true
	l.requests, l.notes, l.queued = nil, nil, 0
	l.mu.Unlock()
	l.stop()
	go l.finish(e, withDelete) // its own end is what Sink.Closed and done report
}

func (l *upLink) finish(e gateway.Exit, withDelete bool) {
	l.beginRead.Do(l.dropStream)
	l.work.Wait()
	if withDelete {
		l.deleteSession()
	}
	l.sink.Closed(e)
	close(l.done)
}

// deleteSession tells a legacy server that nobody will come back. Best effort: a server may refuse (405), and one that
// cannot be reached expires the session by itself.
func (l *upLink) deleteSession() {
	session, _ := l.sessionNow()
	if session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), upEndWait)
	defer cancel()
	resp, err := l.do(l.up.notes, func() (*http.Request, error) { return l.newRequest(ctx, http.MethodDelete, nil) })
	if err != nil {
		return
	}
	resp.Body.Close()
}

// Info says what is known about the link. The query of the URL is left out: it may hold a key.
func (l *upLink) Info() gateway.LinkInfo {
	session, _ := l.sessionNow()
	return gateway.LinkInfo{
		Started: l.started, URL: upShow(l.target), Session: session,
		Skipped: l.skipped.Load(), Malformed: l.malformed.Load(),
	}
}
