package localapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/key"
)

// LoopbackConfig is what the loopback listener needs.
type LoopbackConfig struct {
	Routes      http.Handler // /servers/<name>/mcp
	ConnContext func(context.Context, net.Conn) context.Context
	Guard       func(http.Handler) http.Handler // checks Host and Origin before a handler reads anything
	Health      func(context.Context) api.HealthState
	Gate        func(http.Handler) http.Handler // as in Config
	ConnState   func(net.Conn, http.ConnState)  // as in Config
	Log         *slog.Logger
}

// Loopback serves the loopback listener: the routes of the servers and one word about health.
type Loopback struct {
	cfg     LoopbackConfig
	http    *http.Server
	serving accepting
}

// NewLoopback makes the server of the loopback listener; Serve starts it.
func NewLoopback(c LoopbackConfig) (*Loopback, error) {
	switch {
	case c.Routes == nil:
		return nil, errors.New("localapi: LoopbackConfig.Routes is required")
	case c.Guard == nil || c.ConnContext == nil:
		return nil, errors.New("localapi: LoopbackConfig.Guard and ConnContext are required")
	case c.Health == nil:
		return nil, errors.New("localapi: LoopbackConfig.Health is required")
	case c.Log == nil:
		return nil, errors.New("localapi: LoopbackConfig.Log is required")
	}
	l := &Loopback{cfg: c}
	mux := http.NewServeMux()
	mux.Handle("/servers/", c.Routes)
	mux.Handle("/mcp", c.Routes)
	mux.HandleFunc("GET /healthz", l.healthz)
	mux.HandleFunc("GET /readyz", l.readyz)
	mux.HandleFunc("/", elsewhere)
	handler := c.Guard(mux)
	if c.Gate != nil {
		handler = c.Gate(handler)
	}
	l.http = &http.Server{
		Handler:           handler,
		ConnContext:       c.ConnContext,
		ConnState:         c.ConnState,
		ReadHeaderTimeout: 10 * time.Second, // a slow header must not hold a connection for ever
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return l, nil
}

// Serve accepts connections until Stop; it returns at once.
func (l *Loopback) Serve(listener net.Listener) {
	l.serving.start(l.http, listener, func(err error) {
		l.cfg.Log.LogAttrs(context.Background(), slog.LevelError, "loopback listener stopped accepting", slog.Any(key.Cause, err))
	})
}

// StopAccepting is Server.StopAccepting.
func (l *Loopback) StopAccepting() { l.serving.stop() }

// Stop closes the listener, waits for the requests in work until ctx is done, then cuts what is left. Safe to call
// twice.
func (l *Loopback) Stop(ctx context.Context) {
	if err := l.http.Shutdown(ctx); err != nil {
		_ = l.http.Close() // what is still open now is cut: its clients see the end and come back
	}
	l.serving.wait()
}

// healthz answers with one word from live state. The status is 200 for degraded too: a server of the user that fails is
// no reason for a service manager to end the daemon.
func (l *Loopback) healthz(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, string(l.cfg.Health(r.Context()))+"\n") // a caller that left needs no answer
}

// elsewhere answers who guessed an address: a person in a browser, or an agent that was told the wrong path.
func elsewhere(w http.ResponseWriter, _ *http.Request) {
	fail(w, fault.New(fault.NotFound, "path-unknown").Saying("nothing is here: every server has a URL of its own, /servers/<name>/mcp").
		Hinting("`mcpx server list` shows the URLs"))
}

// readyz says that the routes are loaded; before that nothing listens.
func (l *Loopback) readyz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, "ready\n") // as above
}
