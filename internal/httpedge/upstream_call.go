package httpedge

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"mcpx/internal/gateway"
	"mcpx/internal/rpc"
)

const (
	// upNoteWait bounds the POST of a notification or an answer; the server has nothing to do but to say 202.
	upNoteWait = 30 * time.Second
	// upOrderWait bounds how long a notification waits for the delivery of the requests before it, and the first calls
	// for the standalone stream. A server that does not read must not hold back the cancellation of that very call.
	upOrderWait = time.Second
	// upSettle is how long a cancellation waits when a call is younger than that. Two POSTs travel on two connections, so
	// "delivered first" does not mean "seen first"; measured with the SDK's server, whose late call then ran to its end.
	upSettle = 100 * time.Millisecond
	// upTailWait is how long a response may go on behind its answer. Reading it to its end keeps the connection usable;
	// a stream that stays open only holds it.
	upTailWait = time.Second
	// upMaxBody bounds one message of a server, like the line limit of stdio (protocol.md section 7.6).
	upMaxBody = 64 << 20
	// upMaxErrorBody bounds the body of an HTTP error: a JSON-RPC error with its data, or a page of which we quote a line.
	upMaxErrorBody = 1 << 20
)

// upCall is one message under way.
type upCall struct {
	m      gateway.Outbound
	id     string // rpc.IDKey of a request, "" when it has none
	ctx    context.Context
	cancel context.CancelFunc
	after  []<-chan struct{} // delivery of what must arrive first
	settle time.Duration     // further wait behind after
	handed chan struct{}     // closed when the peer has the message, or will never have it
	began  time.Time

	session  string // the session id that was sent
	released bool   // guarded by the link's lock

	reports sync.WaitGroup // Sink.Written is running
	mu      sync.Mutex     // guards the fields below; ranks below the link's lock
	reading bool           // the HTTP layer has begun to take the body
	written bool           // the peer has all of it
	aborted bool
	over    bool
	grace   *time.Timer
	onceOff sync.Once
}

func newUpCall(m gateway.Outbound) *upCall {
	c := &upCall{m: m, handed: make(chan struct{})}
	if m.Kind == rpc.Request {
		if s, err := rpc.Scan(m.Body); err == nil {
			c.id, _ = rpc.IDKey(s.ID.Of(m.Body))
		}
	}
	return c
}

func (c *upCall) isRequest() bool { return c.m.Kind == rpc.Request }
func (c *upCall) isListen() bool  { return c.isRequest() && c.m.Method == upListen }

// abort ends the exchange when closing it is enough: byClose says that the protocol takes it for a cancellation, and a
// body that nobody has begun to read was not sent. Otherwise the stream gets the time grace to end by itself.
func (c *upCall) abort(byClose bool, grace time.Duration) bool {
	c.mu.Lock()
	c.aborted = true
	enough := byClose || !c.reading
	if !enough && !c.over && c.grace == nil {
		c.grace = time.AfterFunc(grace, c.cancel)
	}
	c.mu.Unlock()
	if enough {
		c.cancel()
	}
	return enough
}

// arrived reports once that the peer has the whole request. It returns when the report was made.
func (c *upCall) arrived(sink gateway.Sink) {
	c.mu.Lock()
	first := !c.written && !c.over
	if first {
		c.written = true
		c.reports.Add(1)
	}
	c.mu.Unlock()
	if !first {
		return
	}
	c.handOver()
	if c.isRequest() {
		sink.Written(c.m.Ref)
	}
	c.reports.Done()
}

func (c *upCall) handOver() { c.onceOff.Do(func() { close(c.handed) }) }

// state says what became of the body.
func (c *upCall) state() (written, aborted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written, c.aborted
}

// finish joins what the HTTP layer may still call.
func (c *upCall) finish() {
	c.cancel()
	c.mu.Lock()
	c.over = true
	if c.grace != nil {
		c.grace.Stop()
	}
	c.mu.Unlock()
	c.reports.Wait()
}

// await lets the messages before this one arrive first.
func (c *upCall) await() {
	if len(c.after) == 0 {
		return
	}
	limit := time.NewTimer(upOrderWait)
	defer limit.Stop()
	for _, handed := range c.after {
		select {
		case <-handed:
		case <-limit.C:
			return
		case <-c.ctx.Done():
			return
		}
	}
	if c.settle > 0 {
		upPause(c.ctx, c.settle)
	}
}

// upBody is the body of a POST. Its first Read decides between "never sent" and "may have arrived", so that Abort can
// give an exact answer: after an Abort that returned true not one byte of the body leaves.
type upBody struct {
	c *upCall
	r *bytes.Reader
}

func (c *upCall) body() io.ReadCloser { return &upBody{c: c, r: bytes.NewReader(c.m.Body)} }

func (b *upBody) Read(p []byte) (int, error) {
	b.c.mu.Lock()
	stop := b.c.aborted && !b.c.reading
	b.c.reading = b.c.reading || !stop
	b.c.mu.Unlock()
	if stop {
		return 0, context.Canceled
	}
	return b.r.Read(p)
}

func (b *upBody) Close() error { return nil }

// newRequest builds a request from the allow-list of headers. c is nil for requests without a message.
func (l *upLink) newRequest(ctx context.Context, method string, c *upCall) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, l.target.String(), nil)
	if err != nil {
		return nil, err
	}
	h := l.own.Clone()
	req.Header = h
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "mcpx/"+l.up.cfg.Version)
	}
	session, version := l.sessionNow()
	if c == nil {
		if method == http.MethodGet {
			h.Set("Accept", "text/event-stream")
		}
	} else {
		h.Set("Accept", "application/json, text/event-stream")
		h.Set("Content-Type", "application/json")
		for name, value := range c.m.Headers {
			if k := http.CanonicalHeaderKey(name); strings.HasPrefix(k, "Mcp-") {
				h.Set(k, value)
			}
		}
		version = c.m.Version
		if c.m.Method == upInitialize {
			session = ""
		}
		c.session = session
		req.Body, req.ContentLength = c.body(), int64(len(c.m.Body))
		req.GetBody = func() (io.ReadCloser, error) { return c.body(), nil }
	}
	if version != "" {
		h.Set("Mcp-Protocol-Version", version)
	}
	h.Del("Mcp-Session-Id")
	if session != "" {
		h.Set("Mcp-Session-Id", session)
	}
	return req, nil
}

// exchange is the life of one message: its POST, the response, and what the response says.
func (l *upLink) exchange(c *upCall) {
	defer c.finish()
	defer l.release(c)
	client := l.up.calls
	switch {
	case c.isListen():
		client = l.up.streams
	case !c.isRequest():
		client = l.up.notes
		limit := time.AfterFunc(upNoteWait, c.cancel)
		defer limit.Stop()
	}
	c.await()
	traced := httptrace.WithClientTrace(c.ctx, &httptrace.ClientTrace{
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			if w.Err == nil {
				c.arrived(l.sink)
			}
		},
	})
	resp, err := l.do(client, func() (*http.Request, error) { return l.newRequest(traced, http.MethodPost, c) })
	if err != nil {
		l.lost(c, err)
		return
	}
	defer resp.Body.Close()
	c.arrived(l.sink)
	c.reports.Wait() // Written is seen before anything the response causes
	l.responded(c, resp)
}

// responded reads the response to c.
func (l *upLink) responded(c *upCall, resp *http.Response) {
	accepted := resp.StatusCode/100 == 2
	if accepted && c.m.Method == upInitialize && l.mode == upLegacy {
		l.greeted(resp.Header.Get("Mcp-Session-Id"))
	}
	switch {
	case accepted && (!c.isRequest() || l.mode == upSSE):
		if c.m.Method == upInitialized && l.mode == upLegacy {
			l.openStandalone()
			l.awaitStandalone(c)
		}
		l.release(c)
		l.drain(c, resp.Body)
	case accepted && upMediaType(resp) == "text/event-stream":
		l.readPostStream(c, resp)
	default:
		l.readBody(c, resp)
	}
	l.nudge()
}

// drain reads what is left of a response so that its connection can be used again, but not for long.
func (l *upLink) drain(c *upCall, body io.Reader) {
	limit := time.AfterFunc(upTailWait, c.cancel)
	defer limit.Stop()
	_, _ = io.CopyN(io.Discard, body, upMaxErrorBody) // an error only means that the connection is not used again
}

// readBody reads a response that is one document.
func (l *upLink) readBody(c *upCall, resp *http.Response) {
	limit := upMaxErrorBody
	accepted := resp.StatusCode/100 == 2
	if accepted {
		limit = l.up.bounds.body
	}
	body, whole, err := upReadAll(resp.Body, limit, resp.ContentLength)
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound && c.session != "" && !c.isAnswer(body):
		l.fail(c, gateway.Failure{Class: gateway.NotSent, Status: status, Text: "the server does not know the session any more", Gone: true})
		l.gone()
	case err == nil && whole && c.isRequest() && status != http.StatusUnauthorized && status != http.StatusForbidden &&
		l.deliverAll(c, body, c.m.Ref, status):
	case accepted && err != nil:
		l.lost(c, err)
	case accepted && !whole:
		l.fail(c, gateway.Failure{Class: gateway.AnsweredLost, Status: resp.StatusCode, Text: upTooLarge})
	default:
		l.fail(c, l.refusal(resp, body))
	}
}

// isAnswer says whether a body is the answer to exactly this request. A 404 for the session has an error without an id.
func (c *upCall) isAnswer(body []byte) bool {
	m, err := rpc.Scan(body)
	if err != nil || !m.ID.Ok() || m.Method.Ok() {
		return false
	}
	id, _ := rpc.IDKey(m.ID.Of(body))
	return c.isRequest() && id == c.id
}

// upReadAll reads at most limit bytes; whole is false when there were more.
func upReadAll(r io.Reader, limit int, size int64) (body []byte, whole bool, err error) {
	var buf bytes.Buffer
	if size > 0 && size <= int64(limit) {
		buf.Grow(int(size) + bytes.MinRead)
	}
	_, err = buf.ReadFrom(io.LimitReader(r, int64(limit)+1))
	return buf.Bytes(), buf.Len() <= limit, err
}

// deliverAll hands over the messages of one body or one event and says whether the answer to c was among them. c is nil
// for messages that belong to no request.
func (l *upLink) deliverAll(c *upCall, body []byte, via uint64, status int) bool {
	body = bytes.Trim(body, " \t\r\n")
	switch {
	case len(body) == 0:
		return false
	case !rpc.IsBatch(body):
		return l.deliver(c, body, via, status)
	}
	parts, err := rpc.Batch(body)
	if err != nil {
		l.malformed.Add(1)
		return false
	}
	answered := false
	for _, p := range parts {
		if l.deliver(c, bytes.Clone(p.Of(body)), via, status) {
			answered = true
		}
	}
	return answered
}

func (l *upLink) deliver(c *upCall, body []byte, via uint64, status int) bool {
	m, err := rpc.Scan(body)
	if err != nil {
		if body[0] == '{' {
			l.malformed.Add(1)
		} else {
			l.skipped.Add(1)
		}
		return false
	}
	answered := false
	if c != nil && (m.Kind == rpc.Result || m.Kind == rpc.Error) {
		id, _ := rpc.IDKey(m.ID.Of(body))
		answered = id == c.id || m.Kind == rpc.Error && !m.ID.Ok()
	}
	l.sink.Deliver(gateway.Inbound{Body: body, Via: via, Status: status})
	return answered
}
