package bridge

import (
	"context"
	"errors"
	"sync"
	"time"

	"mcpx/internal/rpc"
)

// item is one line of the client.
type item struct {
	line    []byte
	kind    rpc.Kind // of a batch: Request if there is one in it, else Notification
	method  string   // "" for answers and batches
	modern  bool
	header  map[string]string // modern: protocol.md section 3.3
	answers string            // an answer: rpc.IDKey of the question
	call    *call             // set for requests, and for batches with a request in them
}

// The methods whose effect on the session a bridge has to know.
const (
	initialize   = "initialize"
	initialized  = "notifications/initialized"
	cancelled    = "notifications/cancelled"
	setLevel     = "logging/setLevel"
	subscribe    = "resources/subscribe"
	unsubscribe  = "resources/unsubscribe"
	rootsChanged = "notifications/roots/list_changed"
)

// read takes lines until In or the bridge ends.
func (b *bridge) read() {
	defer close(b.queue)
	lines := rpc.NewLineReader(b.cfg.In)
	lines.Limit = b.lim.line
	for {
		line, err := lines.Next()
		if long, ok := errors.AsType[*rpc.LongLineError](err); ok {
			b.deliver(rpc.ErrorResponse(long.ID, rpc.InvalidRequest, long.Error(), nil))
			continue
		}
		if err != nil { // the end of In, or an In that broke: the client is gone in both cases
			time.AfterFunc(b.lim.finish, func() { b.stop(errDone) })
			return
		}
		if rpc.LineClass(line) == rpc.Blank {
			continue
		}
		it, bad := parse(line)
		if bad != nil {
			b.deliver(rpc.ErrorResponse(bad.ID, bad.Code, bad.Text, nil))
			continue
		}
		if !b.accept(it) {
			return
		}
	}
}

// accept takes an item into the queue. A cancellation overtakes the queue. False: the bridge is over.
func (b *bridge) accept(it *item) bool {
	if it.method == cancelled && b.cancel(it) {
		return true
	}
	if it.call != nil && !b.register(it.call) {
		b.fail(it.call, busy)
		return true
	}
	if err := b.room.Acquire(b.life, it.size()); err != nil {
		return false
	}
	select {
	case b.queue <- it:
		return true
	case <-b.life.Done():
		return false
	}
}

// size is what the item takes of the queue's room.
func (it *item) size() int64 { return int64(min(len(it.line), maxQueued)) }

// parse finds out what a line is. Its bytes are kept.
func parse(line []byte) (*item, *rpc.ScanError) {
	if rpc.IsBatch(line) {
		return parseBatch(line)
	}
	m, err := rpc.Scan(line)
	if err != nil {
		return nil, scanError(err)
	}
	it := &item{line: line, kind: m.Kind, method: m.MethodOf(line), modern: m.Version.Ok()}
	if it.modern {
		it.header = modernHeaders(line, m)
	}
	switch m.Kind {
	case rpc.Result, rpc.Error:
		it.answers, _ = rpc.IDKey(m.ID.Of(line)) // "": an error that answers nothing
	case rpc.Notification:
	case rpc.Request:
		it.call = newCall(it)
		it.call.add(m.ID.Of(line))
	}
	return it, nil
}

// parseBatch takes the batches of 2025-03-26. Whether the session allows them is the daemon's decision.
func parseBatch(line []byte) (*item, *rpc.ScanError) {
	elements, err := rpc.Batch(line)
	if err != nil {
		return nil, scanError(err)
	}
	it := &item{line: line, kind: rpc.Notification}
	for _, e := range elements {
		m, err := rpc.Scan(e.Of(line))
		if err != nil || m.Kind != rpc.Request {
			continue // a bad element is refused by the daemon, with the words of the daemon
		}
		if it.call == nil {
			it.kind, it.call = rpc.Request, newCall(it)
		}
		it.call.add(m.ID.Of(e.Of(line)))
	}
	return it, nil
}

func scanError(err error) *rpc.ScanError {
	if bad, ok := errors.AsType[*rpc.ScanError](err); ok {
		return bad
	}
	panic("bridge: rpc reported another error than a ScanError: " + err.Error())
}

// call is one POST that will be answered: a request, or a batch with requests in it.
type call struct {
	body   []byte
	method string // "" for a batch
	modern bool
	header map[string]string
	hidden bool     // the bridge's own: answers are kept in answer and not delivered
	pin    *session // the bridge's own: the session to use
	keys   []string // of all its ids, for the bridge's table

	ctx    context.Context // ends with the call; kept because the reader cancels it
	stop   context.CancelFunc
	handed chan struct{} // closed when the request was written, or will never be
	once   sync.Once     // closes handed

	mu        sync.Mutex        // guards the fields below
	waiting   map[string][]byte // raw ids without an answer, by their comparison key
	sending   bool              // handed to the HTTP client: from now on it may arrive
	cancelled bool              // by the client: no answer is expected

	// The rest belongs to the goroutine that runs the call.
	answer  []byte        // of a hidden call
	session string        // Mcp-Session-Id of the response to initialize
	last    string        // id of the last event on its stream
	retry   time.Duration // what the stream asked to wait before it is continued
	cut     bool          // the response broke; false: the daemon ended it
	told    int           // messages that were delivered: more than none, and a second copy would be noticed
	copies  int           // how often it was sent again
	rejoins bool          // what comes now is the outcome of a copy that was sent before
	unsent  bool          // the outcome: no copy was handed on
}

func newCall(it *item) *call {
	return &call{
		body: it.line, method: it.method, modern: it.modern, header: it.header,
		handed: make(chan struct{}), waiting: map[string][]byte{},
	}
}

func (c *call) add(id []byte) {
	key, ok := rpc.IDKey(id)
	if !ok {
		panic("bridge: a scanned id has no key")
	}
	c.waiting[key] = id
}

func (c *call) handOver() { c.once.Do(func() { close(c.handed) }) }

func (c *call) waits(id []byte) bool {
	key, ok := rpc.IDKey(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	return ok && c.waiting[key] != nil
}

// answered takes an id off the list; false when it was not on it.
func (c *call) answered(id []byte) bool {
	key, ok := rpc.IDKey(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, waits := c.waiting[key]; !ok || !waits {
		return false
	}
	delete(c.waiting, key)
	return true
}

func (c *call) complete() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) == 0
}

// register makes the call known to cancellations. False: too many are under way.
func (b *bridge) register(c *call) bool {
	c.ctx, c.stop = context.WithCancel(b.life)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.calls)+len(c.waiting) > maxCalls {
		return false
	}
	for key := range c.waiting {
		c.keys = append(c.keys, key)
		b.calls[key] = c
	}
	return true
}

// forget ends the call.
func (b *bridge) forget(c *call) {
	c.stop()
	c.handOver()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range c.keys {
		if b.calls[key] == c { // a client may have used the id again meanwhile
			delete(b.calls, key)
		}
	}
}

// cancel carries out a cancellation, ahead of everything that waits. False: it names no call under way, and goes to
// the daemon like any notification.
func (b *bridge) cancel(it *item) bool {
	m, err := rpc.Scan(it.line)
	if err != nil {
		return false
	}
	key, ok := rpc.IDKey(m.RequestID.Of(it.line))
	b.mu.Lock()
	c := b.calls[key]
	b.mu.Unlock()
	if !ok || c == nil || c.method == initialize || c.method == "" {
		return false
	}
	c.mu.Lock()
	c.cancelled = true
	sending := c.sending
	c.mu.Unlock()
	if c.modern || !sending {
		// For a modern request over HTTP the end of its stream is the cancellation (protocol.md section 6.2). A legacy
		// one that was not sent is dropped instead.
		c.stop()
		return true
	}
	b.work.Go(func() { b.cancelSent(c, key, it) })
	return true
}

// cancelSent sends the cancellation of a legacy request that is on its way. Two connections to one daemon have no
// common order: a cancellation that arrived first would cancel nothing, so it waits a moment behind the request. The
// request's own exchange may be over by then, because its daemon died: the next daemon has to be told all the same. Only
// its answer makes the word needless, or another request under its id, which must not be cancelled in its place.
func (b *bridge) cancelSent(c *call, key string, it *item) {
	select {
	case <-c.handed:
	case <-b.life.Done():
		return
	}
	if !sleep(b.life, b.lim.lead) || c.complete() {
		return
	}
	b.mu.Lock()
	other := b.calls[key]
	b.mu.Unlock()
	if other == nil || other == c {
		b.notify(it)
	}
}
