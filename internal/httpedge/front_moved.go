package httpedge

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"mcpx/internal/gateway"
	"mcpx/internal/key"
	"mcpx/internal/rpc"
)

// After a planned restart (supervisor.md section 9) the old process still has the connections of its clients. It has no
// state any more: what comes in is led to the daemon that serves now, over the unix socket.

const (
	// hdrRejoin names, on the unix socket only, the id by which a server knows a modern request that was in flight at a
	// hand-over: the body is that request again, and its answer is wanted.
	hdrRejoin = "Mcpx-Rejoin"
	// hdrRelayed says, on the unix socket only, that a process without state passes on what its client sent.
	hdrRelayed = "Mcpx-Relayed"
	// relayAsks is its value when that process itself asks what became of a request, and sends it when nobody did: its client
	// is not told that it was not sent.
	relayAsks = "asks"
	// hdrFor names, on a relayed request of a session, the daemon that it is for, by epoch. What a client was told of its
	// request is known to the daemon that said so and to no later one. So a daemon takes the request only when it was meant
	// for it, and answers 503 with its own epoch in hdrServes otherwise: then who relays looks whether its client is still
	// there, and has therefore asked nobody, and sends the request to this one.
	hdrFor    = "Mcpx-For"
	hdrServes = "Mcpx-Serves"
	// relayIdle is how long a connection without work is kept after a hand-over. Ending it sooner could meet a request
	// on its way; pools of clients end theirs within 60 to 90 s.
	relayIdle = 75 * time.Second
	// relayDial is how long a relay tries to reach the next daemon, which may just be starting.
	relayDial = 30 * time.Second
	// relayRetry is the pause between two tries.
	relayRetry = 20 * time.Millisecond
	// relayLook is how often Linger looks whether it is over.
	relayLook = 50 * time.Millisecond
)

// Gate stands before everything that a daemon serves. Until Move it lets requests in, then it leads them to the next
// daemon.
type Gate struct {
	dial  func(context.Context) (net.Conn, error)
	log   *slog.Logger
	wait  time.Duration // for a daemon that does not answer
	next  *http.Client  // for what was in flight
	relay *httputil.ReverseProxy

	moved atomic.Bool
	work  atomic.Int64 // requests that nobody may cut
	conns atomic.Int64
	last  atomic.Int64 // when the last of them ended, in Unix nanoseconds
}

// NewGate makes a gate; dial reaches the socket of the daemon that serves the home now.
func NewGate(dial func(context.Context) (net.Conn, error), log *slog.Logger) *Gate {
	g := &Gate{dial: dial, log: log, wait: relayDial}
	way := &addressed{way: &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return g.reach(ctx) },
		DisableKeepAlives:  true, // the next daemon may hand over, too
		DisableCompression: true,
	}}
	g.next = &http.Client{Transport: way}
	g.relay = &httputil.ReverseProxy{
		Transport: way, FlushInterval: -1, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", "mcpx", "mcpx"
			mark := "1"
			if relayAsking(p.In) { // it asks for itself also by way of us
				mark = relayAsks
			}
			p.Out.Header.Set(hdrRelayed, mark) // always: a client can let the proxy drop its own by a Connection header
		},
		ModifyResponse: func(res *http.Response) error {
			res.Header.Set("Connection", "close") // its client then connects to the next daemon
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				return // the client left
			}
			log.LogAttrs(r.Context(), slog.LevelWarn, "request not relayed", slog.Any(key.Cause, err))
			if _, dial := errors.AsType[*unreached](err); !dial {
				// The next daemon may have the request: no answer may invite the client to repeat it. It sees what it would
				// have seen without us, a connection that breaks, and resumes.
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusServiceUnavailable, -32603, "mcpx restarted and does not answer; repeat the request")
		},
	}
	return g
}

// WasRelayed reports whether a process without state passed the request on. Its client may have given it up and asked here
// for its outcome.
func WasRelayed(r *http.Request) bool { return r.Header.Get(hdrRelayed) != "" && fromUnix(r) }

// relayAsking reports whether such a process asks for itself.
func relayAsking(r *http.Request) bool { return r.Header.Get(hdrRelayed) == relayAsks && fromUnix(r) }

// forAnother answers a relayed request that was meant for another daemon. False: it is for this one.
func forAnother(w http.ResponseWriter, r *http.Request, epoch uint64) bool {
	own := strconv.FormatUint(epoch, 10)
	if meant := r.Header.Get(hdrFor); meant == "" || meant == own || !WasRelayed(r) { // an older release names none
		return false
	}
	w.Header().Set(hdrServes, own)
	w.Header().Set("Retry-After", "1")
	refuse(w, http.StatusServiceUnavailable, -32603, "the request was meant for an earlier daemon; repeat it")
	return true
}

// addressed sends the requests of sessions to the daemon that serves now, and to no other; see hdrFor.
type addressed struct {
	way   http.RoundTripper
	epoch atomic.Uint64 // of the daemon that served last; 0: not known yet
}

// RoundTrip is that of http.RoundTripper. The body is read to its end first: only then is it noticed when the client leaves.
func (a *addressed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || r.Header.Get(hdrSession) == "" || r.Header.Get(hdrRelayed) == "" {
		return a.way.RoundTrip(r)
	}
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(io.LimitReader(r.Body, maxBody+1)) // one byte too many is refused there
		_ = r.Body.Close()                                        // read as far as it counts
		if err != nil {
			return nil, err
		}
	}
	for {
		if err := context.Cause(r.Context()); err != nil {
			return nil, err
		}
		meant := strconv.FormatUint(a.epoch.Load(), 10)
		out := r.Clone(r.Context())
		out.Body, out.ContentLength, out.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		out.Header.Set(hdrFor, meant)
		res, err := a.way.RoundTrip(out)
		if err != nil {
			return nil, err
		}
		serves, err := strconv.ParseUint(res.Header.Get(hdrServes), 10, 64)
		if err != nil || res.StatusCode != http.StatusServiceUnavailable {
			return res, nil
		}
		_ = res.Body.Close() // refused: there is nothing to read
		a.epoch.Store(serves)
	}
}

// unreached says that there was no connection to the next daemon: nothing was sent.
type unreached struct{ error }

func (u *unreached) Unwrap() error { return u.error }

// reach connects to the next daemon. One that starts has bound its socket already; only its queue may be full.
func (g *Gate) reach(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, g.wait)
	defer cancel()
	for {
		conn, err := g.dial(ctx)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, &unreached{err}
		case <-time.After(relayRetry):
		}
	}
}

// door puts the gate before own. Moved serves in its place after Move.
func (g *Gate) door(own, moved http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.moved.Load() && r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/servers/") {
			moved.ServeHTTP(w, r) // a stream that its client opens again when it is cut
			return
		}
		g.work.Add(1)
		defer func() {
			g.last.Store(time.Now().UnixNano())
			g.work.Add(-1)
		}()
		if g.moved.Load() {
			moved.ServeHTTP(w, r)
			return
		}
		own.ServeHTTP(w, r)
	})
}

// Local puts the gate before what the unix socket serves to our own user. Its requests go to the next daemon as they are:
// their peer was checked, and the next daemon sees the same user.
func (g *Gate) Local(own http.Handler) http.Handler {
	return g.door(own, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		clear(w.Header()) // the next daemon sets its own
		g.relay.ServeHTTP(w, r)
	}))
}

// ConnState is for http.Server.ConnState.
func (g *Gate) ConnState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		g.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		g.conns.Add(-1)
	case http.StateActive, http.StateIdle:
	}
}

// Move leads everything to the next daemon from now on. The caller has stopped accepting connections.
func (g *Gate) Move() {
	g.last.Store(time.Now().UnixNano())
	g.moved.Store(true)
}

// HasMoved reports whether Move was called.
func (g *Gate) HasMoved() bool { return g.moved.Load() }

// Linger returns when no client needs this process any more: nothing is in work, and every connection is closed or was
// idle for relayIdle.
func (g *Gate) Linger(ctx context.Context) {
	look := time.NewTicker(relayLook)
	defer look.Stop()
	for {
		if g.work.Load() == 0 && (g.conns.Load() == 0 || time.Since(time.Unix(0, g.last.Load())) > relayIdle) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// Loopback puts the gate before what the loopback listener serves. Its requests for servers arrive at the next daemon
// over the unix socket, as those of our own user: so what makes them that is checked here, and what only the unix socket
// may carry is taken off. The rest own knows itself.
func (f *Front) Loopback(own http.Handler) http.Handler {
	routes := f.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, bad := f.admit(r); bad != nil {
			refuse(w, bad.Status, bad.Code, bad.Message)
			return
		}
		f.relay(w, r)
	}))
	return f.cfg.Gate.door(own, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		if strings.HasPrefix(r.URL.Path, "/servers/") {
			routes.ServeHTTP(w, r)
			return
		}
		own.ServeHTTP(w, r)
	}))
}

// relay leads an admitted request on.
func (f *Front) relay(w http.ResponseWriter, r *http.Request) {
	if peer, _ := r.Context().Value(connKey{}).(*connPeer); peer == nil || !peer.unix {
		r = r.Clone(r.Context())
		plainHeaders(r.Header)
	}
	f.cfg.Gate.relay.ServeHTTP(w, r)
}

// replay leads a request on whose body was read already.
func (f *Front) replay(v view) {
	r := v.r.Clone(v.r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(v.body)), int64(len(v.body))
	f.relay(v.w, r)
}

// accepted answers what has no answer of its own. When its server was just moving, it may have been lost with the link:
// the next daemon gets it, too.
func (f *Front) accepted(v view) {
	if v.srv.Moved() {
		f.replay(v)
		return
	}
	v.w.WriteHeader(http.StatusAccepted)
}

// rejoin gives the rest of a modern request that the daemon before this one sent.
func (f *Front) rejoin(v view, srv *gateway.Server, wire string) {
	st, ok := srv.Rejoin(v.r.Context(), []byte(wire))
	if srv.Moved() {
		f.replay(v) // to the one after this
		return
	}
	if !ok {
		writeJSON(v.w, http.StatusGone, rpc.ErrorResponse(v.msg.ID.Of(v.body), -32600, "no such request is in flight", nil))
		return
	}
	v.modern(st)
}

// plainHeaders removes what the unix socket would believe or refuse.
func plainHeaders(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "Mcpx-") || name == "Origin" || name == "Referer" {
			delete(h, name)
		}
	}
}
