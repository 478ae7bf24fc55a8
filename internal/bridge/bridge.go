// Package bridge decides how one client that speaks MCP on stdio is connected to one route of the daemon: which line
// becomes which HTTP request, what is sent again after the daemon restarted, and what the client is told when an
// outcome is unknown. It refuses to know servers, processes and policy, and it changes no line: headers are computed
// from the bytes, the bytes stay.
//
// Invariant: every request that was read gets at most one final answer, and none is sent twice unless the first copy
// is proved unsent or its method has no effect.
package bridge

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"mcpx/internal/fault"
	"mcpx/internal/rpc"
)

// Bounds of one bridge.
const (
	// maxCalls bounds the requests under way. Each has a connection to the daemon, and a process may often open only
	// 1024 descriptors on a default system.
	maxCalls = 512
	// maxQueue bounds the lines read ahead, so that a cancellation is seen before the call in front of it was sent.
	maxQueue = 256
	// maxQueued bounds the same lines in bytes: twice the longest line.
	maxQueued = 2 * rpc.MaxLine
)

// limits are values so that tests need neither wait nor move 64 MiB.
type limits struct {
	line   int           // bytes of one line of the client
	outage time.Duration // a daemon that is away longer than this makes the waiting requests fail
	grace  time.Duration // how long a restarting daemon may be away before a request starts one
	lead   time.Duration // how long a cancellation waits behind the request it cancels, see cancel
	pause  time.Duration // between two looks for the daemon at first; it doubles up to 16 times that
	finish time.Duration // for what is under way when the client closed its end; with bye below one second
	bye    time.Duration // DELETE of the session
	first  time.Duration // how long a failed start waits for the first request, to answer it with the reason
	notice time.Duration // how long the daemon may take to accept a notification
}

var defaults = limits{
	line:   rpc.MaxLine,
	outage: 30 * time.Second, grace: 2 * time.Second, lead: 20 * time.Millisecond, pause: 20 * time.Millisecond,
	finish: 600 * time.Millisecond, bye: 300 * time.Millisecond, first: 2 * time.Second, notice: 30 * time.Second,
}

// Config says what to connect with what. Dial, In, Out and Err are required.
type Config struct {
	Server string            // name of the server in the catalog; "" are the tools of mcpx itself
	Agent  string            // name of the agent, "" unknown
	Cwd    string            // canonical absolute directory of the client, "" unknown
	Pass   map[string]string // variables for the entry's env_pass

	// Bearer gives the token that every request carries, "" for none; nil: none does. It is asked each time, so that a
	// token that took another's place is used at once.
	Bearer func() string

	Dial  func(context.Context) (net.Conn, error) // connects to the daemon's socket
	Start func(context.Context) error             // starts the daemon and returns when it listens; nil: never

	In  io.Reader // lines of the client
	Out io.Writer // nothing but protocol
	Err io.Writer // what happens meanwhile, for people

	Now func() time.Time // nil is time.Now
}

// errDone ends a bridge whose client closed its end.
var errDone = errors.New("bridge: the client closed its end")

// Run serves the client until In ends, ctx ends, or nothing can be done any more. The first two are clean ends: the
// session is ended and the error is nil. Every other end is an error for the caller to print: the bridge has told the
// client, and has written nothing of it to Err. The goroutine that reads In ends with In.
func Run(ctx context.Context, c Config) error { return run(ctx, c, defaults) }

func run(ctx context.Context, c Config, l limits) error {
	switch {
	case c.Dial == nil:
		return errors.New("bridge: Config.Dial is required")
	case c.In == nil || c.Out == nil || c.Err == nil:
		return errors.New("bridge: Config.In, Out and Err are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	b := &bridge{
		cfg: c, lim: l, target: targetOf(c.Server),
		queue: make(chan *item, maxQueue), room: semaphore.NewWeighted(maxQueued),
		instance: newInstance(), calls: map[string]*call{}, out: output{w: c.Out}, state: restorable{subs: map[string][]byte{}},
	}
	b.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := c.Dial(ctx)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: conn}, nil
		},
		DisableCompression: true, MaxIdleConnsPerHost: 64,
		ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10,
	}
	b.client = &http.Client{Transport: b.transport}
	b.life, b.stop = context.WithCancelCause(ctx)
	return b.serve()
}

// targetOf is where requests go.
func targetOf(server string) string {
	if server == "" {
		return "http://localhost/mcp"
	}
	return "http://localhost/servers/" + url.PathEscape(server) + "/mcp"
}

// newInstance is a name that no other bridge has and that nobody can guess.
func newInstance() string {
	var name [16]byte
	_, _ = rand.Read(name[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(name[:])
}

// bridge is one client and its connection to the daemon.
type bridge struct {
	cfg       Config
	lim       limits
	target    string
	instance  string // value of headerInstance, for the life of the bridge
	client    *http.Client
	transport *http.Transport
	out       output

	life context.Context // ends with the bridge; kept because reader and streams are no callees of one caller
	stop context.CancelCauseFunc

	queue chan *item          // lines in order; closed at the end of In
	room  *semaphore.Weighted // bytes of the queue
	work  sync.WaitGroup      // calls and notices of the client
	aside sync.WaitGroup      // the standalone stream
	renew singleflight.Group  // one restoration of a lost session
	wake  singleflight.Group  // one start of the daemon
	asked questions           // of the server to the client

	mu      sync.Mutex // guards the fields below; no I/O under it
	calls   map[string]*call
	session *session // nil before initialize and for modern clients
	state   restorable
	away    bool // the last look for the daemon failed, and that was reported
}

// serve runs the bridge. The reader starts at once, so that even a client whose daemon cannot be reached gets an
// answer to its first request.
func (b *bridge) serve() error {
	defer b.transport.CloseIdleConnections()
	go b.read()
	err := b.greet()
	if err == nil {
		b.dispatch()
		b.work.Wait() // bounded: the reader stops the bridge a moment after the end of In
		if f, ok := errors.AsType[*fault.Error](context.Cause(b.life)); ok {
			err = f // found out by a call; those under way have been answered
		}
	}
	if err != nil {
		b.refuse(err)
	}
	b.stop(errDone)
	b.work.Wait()
	b.aside.Wait()
	b.goodbye()
	if _, ok := errors.AsType[*fault.Error](err); !ok {
		return nil // the client or the caller ended it
	}
	return err
}

// die ends the bridge for a reason that the client is told: calls under way are answered with it.
func (b *bridge) die(reason *fault.Error) { b.stop(reason) }

// greet makes sure that a daemon listens and that it knows the server, before the client says anything.
func (b *bridge) greet() error {
	if err := b.reach(b.life, 0, b.lim.first); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(b.life, b.lim.notice)
	defer stop()
	r, _, err := b.send(ctx, outgoing{method: http.MethodGet})
	if err != nil {
		return nil //nolint:nilerr // a daemon that goes away now is met again by the first request
	}
	defer discard(r)
	if r.StatusCode == http.StatusNotFound {
		return refused(b.name(), readSome(r.Body))
	}
	return nil // 405: the route exists, and there is no session yet
}

// refuse answers the requests that wait with the reason why there is no service. When there is none yet it waits a
// moment for the first: a client shows the answer to a person, and not every client shows stderr.
func (b *bridge) refuse(reason error) {
	limit := time.NewTimer(b.lim.first)
	defer limit.Stop()
	next := func(wait bool) *item { // nil: there is none, or the client closed its end
		if !wait {
			select {
			case it := <-b.queue:
				return it
			default:
				return nil
			}
		}
		select {
		case it := <-b.queue:
			return it
		case <-limit.C:
		case <-b.life.Done():
		}
		return nil
	}
	wait := b.life.Err() == nil
	for it := next(wait); it != nil; it = next(wait) {
		if it.call != nil {
			b.fail(it.call, unavailable(reason))
			b.forget(it.call)
			wait = false
		}
	}
}

// say writes one line for people.
func (b *bridge) say(format string, args ...any) {
	// Best effort: a client that closed stderr loses the reason and nothing else.
	_, _ = fmt.Fprintf(b.cfg.Err, "mcpx connect %s: %s\n", b.name(), fmt.Sprintf(format, args...))
}

// name is what people are told about the other end.
func (b *bridge) name() string { return cmp.Or(b.cfg.Server, "(its own tools)") }

// output writes whole lines.
type output struct {
	mu   sync.Mutex // guards w, so that lines do not mix; a slow client makes the streams wait, which is back-pressure
	w    io.Writer
	line []byte
}

// smallLine is what is copied together with its newline, to be written at once; larger lines are not copied.
const smallLine = 64 << 10

// write puts out one message as a line. Line feeds between its tokens become spaces.
func (o *output) write(message []byte) error {
	message = rpc.OneLine(message)
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(message) < smallLine {
		o.line = append(append(o.line[:0], message...), '\n')
		_, err := o.w.Write(o.line)
		return err
	}
	if _, err := o.w.Write(message); err != nil {
		return err
	}
	_, err := o.w.Write([]byte{'\n'})
	return err
}

// deliver gives one message to the client. A client that does not read any more ends the bridge.
func (b *bridge) deliver(message []byte) {
	if err := b.out.write(message); err != nil {
		b.stop(errDone)
	}
}

// sleep waits, or less when ctx ends; false then.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// sentence is an error for people in one line: message, cause and next step.
func sentence(err error) string {
	f := fault.From(err)
	if f.Hint == "" {
		return f.Error()
	}
	return f.Error() + "; " + f.Hint
}
