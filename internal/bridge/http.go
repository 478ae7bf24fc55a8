package bridge

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"mcpx/internal/fault"
)

// The headers of a bridge. The daemon honours those that begin with Mcpx- on its own socket only.
const (
	headerSession   = "Mcp-Session-Id"
	headerVersion   = "MCP-Protocol-Version"
	headerLast      = "Last-Event-ID"
	headerAgent     = "Mcpx-Agent"
	headerWorkspace = "Mcpx-Workspace"
	headerPass      = "Mcpx-Pass"
	// headerInstance names this bridge: clients without sessions share a process only with themselves.
	headerInstance = "Mcpx-Instance"
	// headerStdio says that the headers of a modern request were computed from its body, so that comparing the two
	// would prove nothing.
	headerStdio = "Mcpx-Stdio"
)

// outgoing is one HTTP request.
type outgoing struct {
	method  string
	body    []byte
	session *session          // nil for none
	last    string            // Last-Event-ID, "" for none
	header  map[string]string // of a modern message
	sent    func()            // called when the request was written; may be nil
}

// proof says what is known about a request that failed.
type proof uint8

const (
	unsent    proof = iota + 1 // the daemon cannot have read it whole
	maybeSent                  // it may have, and may have acted
)

// traceWait bounds the wait for the transport's word on a write that failed with its connection: the report comes from
// another goroutine, and without it an unsent request would count as sent.
const traceWait = 100 * time.Millisecond

// send makes one HTTP request. On an error it says whether the request can have been read: only a body that was
// written whole can, since the daemon forwards nothing before it has read a body to its end.
func (b *bridge) send(ctx context.Context, o outgoing) (*http.Response, proof, error) {
	var on atomic.Pointer[attempt]
	written := make(chan error, 8) // one report for each connection that the transport tries; more are dropped
	trace := &httptrace.ClientTrace{
		GetConn: func(string) { on.Store(nil) },
		GotConn: func(i httptrace.GotConnInfo) { on.Store(attemptOn(i.Conn)) },
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			if w.Err == nil && o.sent != nil {
				o.sent()
			}
			select {
			case written <- w.Err:
			default:
			}
		},
	}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), o.method, b.target, bytes.NewReader(o.body))
	if err != nil {
		return nil, unsent, err
	}
	b.setHeaders(r.Header, o)
	response, err := b.client.Do(r)
	if err == nil {
		return response, 0, nil
	}
	if a := on.Load(); a == nil || a.wroteNothing() {
		return nil, unsent, err
	}
	limit := time.NewTimer(traceWait)
	defer limit.Stop()
	for failed := false; ; {
		select {
		case err := <-written:
			if failed = err != nil; !failed {
				return nil, maybeSent, errors.New("the connection broke")
			}
			if len(written) == 0 {
				return nil, unsent, err
			}
		case <-limit.C:
			return nil, maybeSent, err
		}
	}
}

// countedConn counts what was written to it.
type countedConn struct {
	net.Conn
	written atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// attempt is one request on one connection. The transport reports no write that it did not begin, because the peer had
// closed the connection before.
type attempt struct {
	conn *countedConn
	from int64
}

func attemptOn(conn net.Conn) *attempt {
	c, ok := conn.(*countedConn)
	if !ok {
		panic("bridge: a connection that was not dialled here")
	}
	return &attempt{conn: c, from: c.written.Load()}
}

func (a *attempt) wroteNothing() bool { return a.conn.written.Load() == a.from }

func (b *bridge) setHeaders(h http.Header, o outgoing) {
	h.Set("Accept", "application/json, text/event-stream")
	h.Set(headerStdio, "1")
	h.Set(headerInstance, b.instance)
	if o.method == http.MethodPost {
		h.Set("Content-Type", "application/json")
	}
	if b.cfg.Bearer != nil {
		if token := b.cfg.Bearer(); token != "" {
			h.Set("Authorization", "Bearer "+token)
		}
	}
	if b.cfg.Agent != "" {
		h.Set(headerAgent, b.cfg.Agent)
	}
	if b.cfg.Cwd != "" {
		h.Set(headerWorkspace, b.cfg.Cwd)
	}
	for name, value := range b.cfg.Pass {
		h.Add(headerPass, name+"="+base64.RawURLEncoding.EncodeToString([]byte(value)))
	}
	for name, value := range o.header {
		h.Set(name, value)
	}
	if o.last != "" {
		h.Set(headerLast, o.last)
	}
	if s := o.session; s != nil {
		if s.id != "" {
			h.Set(headerSession, s.id)
		}
		if s.version != "" {
			h.Set(headerVersion, s.version)
		}
	}
}

// reach returns when the daemon can be dialled. It waits for a daemon that restarts, starts one after grace, and gives
// up after limit.
func (b *bridge) reach(ctx context.Context, grace, limit time.Duration) error {
	began, pause, started := b.cfg.Now(), b.lim.pause, false
	for {
		err := b.dial(ctx)
		if err == nil {
			return nil
		}
		waited := b.cfg.Now().Sub(began)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case b.cfg.Start != nil && !started && waited >= grace:
			started = true
			if err := b.start(); err != nil {
				return err
			}
			continue
		case waited >= limit:
			return fault.New(fault.Unavailable, "daemon-down").Saying("no daemon of mcpx is running").
				Hinting("start it with `mcpx daemon start`").Retrying(fault.AfterFix).Because(err)
		}
		sleep(ctx, pause)
		pause = min(2*pause, 16*b.lim.pause)
	}
}

// await returns when the daemon can be dialled or ctx ends. It never starts one and never gives up.
func (b *bridge) await(ctx context.Context) {
	pause := b.lim.pause
	for ctx.Err() == nil && b.dial(ctx) != nil {
		sleep(ctx, pause)
		pause = min(2*pause, 16*b.lim.pause)
	}
}

// dial looks whether the daemon listens, and tells a change to people once.
func (b *bridge) dial(ctx context.Context) error {
	conn, err := b.cfg.Dial(ctx)
	if ctx.Err() == nil {
		b.mu.Lock()
		changed := b.away != (err != nil)
		b.away = err != nil
		b.mu.Unlock()
		switch {
		case changed && err != nil:
			b.say("the daemon cannot be reached; waiting for it (%v)", err)
		case changed:
			b.say("the daemon can be reached")
		}
	}
	if err != nil {
		return err
	}
	return conn.Close()
}

// start starts the daemon, once for all calls that wait.
func (b *bridge) start() error {
	_, err, _ := b.wake.Do("", func() (any, error) { return nil, b.cfg.Start(b.life) })
	return err
}

// maxRefusal bounds the text of a refusal that is read.
const maxRefusal = 64 << 10

func readSome(r io.Reader) []byte {
	text, _ := io.ReadAll(io.LimitReader(r, maxRefusal)) // a refusal that cannot be read has no words
	return text
}

// discard lets the connection be used again.
func discard(r *http.Response) {
	_, _ = io.CopyN(io.Discard, r.Body, maxRefusal) // what is longer costs its connection
	_ = r.Body.Close()
}
