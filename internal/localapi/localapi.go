// Package localapi decides how the local API travels over the unix socket: who the peer is, which HTTP status an error
// kind gets, how a stream ends. It refuses to know what an operation does: it calls the api.Service with the row's
// request and writes the answer.
//
// Invariant: no request of another user, and none that a web page made, reaches the Service.
package localapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/auth"
	"mcpx/internal/fault"
	"mcpx/internal/key"
)

// Config is what a Server needs.
type Config struct {
	Service  api.Service
	SameUser func(net.Conn) (bool, error) // is the peer of the connection our own user, by the kernel's word
	Stranger func(context.Context)        // hears of another user who was refused; nil: nobody does
	Routes   http.Handler                 // the routes of the loopback listener, for mcpx connect; nil: none
	// ConnContext adds what Routes wants to know of a connection; nil: nothing.
	ConnContext func(context.Context, net.Conn) context.Context
	// Relayed says that the daemon before this one passes the request on: the peer is that daemon, and which program asks
	// is not known. nil: none is passed on.
	Relayed func(*http.Request) bool
	// Token refuses a request that presents a token, whatever it is worth, and tells of it: a token is a program's, and the API
	// is for the person who is proved by the socket. nil: a token is not looked at.
	Token func(ctx context.Context, text string) error
	// Gate stands before what is served to our own user, for a hand-over; nil: nothing does. ConnState hears of every
	// connection; nil: nobody does.
	Gate      func(http.Handler) http.Handler
	ConnState func(net.Conn, http.ConnState)
	Log       *slog.Logger
}

// Server serves the local API on one listener.
type Server struct {
	cfg   Config
	http  *http.Server
	ended chan struct{} // closed by Close: lets go the callers that wait for the end of the process

	leave    context.Context // done when Stop begins: ends log streams
	stopping context.CancelFunc
	busy     sync.WaitGroup // requests that Stop waits for
	gate     sync.RWMutex   // held for reading while a request registers in busy or ops; guards stopped and settled
	stopped  bool
	settled  bool
	ops      sync.WaitGroup // those of them that use the Service
	serving  accepting
	close    sync.Once

	beat time.Duration // between the lines that say that the daemon is there
}

// beatEvery is how long a stream that was asked for beats is silent: shorter than what anything in between takes for dead.
const beatEvery = 15 * time.Second

// New makes a server; Serve starts it.
func New(c Config) (*Server, error) {
	switch {
	case c.Service == nil:
		return nil, errors.New("localapi: Config.Service is required")
	case c.SameUser == nil:
		return nil, errors.New("localapi: Config.SameUser is required")
	case c.Log == nil:
		return nil, errors.New("localapi: Config.Log is required")
	}
	s := &Server{cfg: c, ended: make(chan struct{}), beat: beatEvery}
	s.leave, s.stopping = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler:           s.handler(),
		ConnContext:       s.identify,
		ReadHeaderTimeout: 10 * time.Second, // a local client sends its headers at once
		MaxHeaderBytes:    64 << 10,         // mcpx connect carries passed variables in headers
		ConnState:         c.ConnState,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Serve accepts connections until Stop; it returns at once.
func (s *Server) Serve(l net.Listener) {
	s.serving.start(s.http, l, func(err error) {
		s.cfg.Log.LogAttrs(context.Background(), slog.LevelError, "local api stopped accepting", slog.Any(key.Cause, err))
	})
}

// StopAccepting closes the listener; the connections that are there are served on. Another process that has the
// listener, too, accepts the next ones.
func (s *Server) StopAccepting() { s.serving.stop() }

// Settle ends the streams of the API and waits until the operations in work are answered, or ctx is done. The caller
// has made sure that no new one comes.
func (s *Server) Settle(ctx context.Context) error {
	s.gate.Lock()
	s.settled = true
	s.gate.Unlock()
	s.stopping()
	return settled(ctx, &s.ops)
}

// settled waits for the group, or until ctx is done.
func settled(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stop refuses new requests, ends streams and waits until the requests in work are answered, or ctx is done. Callers of
// daemon.stop stay connected until Close. Safe to call twice.
func (s *Server) Stop(ctx context.Context) error {
	s.gate.Lock()
	s.stopped = true
	s.gate.Unlock()
	s.stopping()
	return settled(ctx, &s.busy)
}

// Close cuts every connection. A daemon process does not call it: its callers see the end of the connection when the
// process has really ended.
func (s *Server) Close() {
	s.close.Do(func() {
		s.stopping()
		close(s.ended)
		_ = s.http.Close() // the listener may be closed already; nothing is left to do about it
		s.serving.wait()
	})
}

// enter counts a request, or refuses it because the daemon is stopping.
func (s *Server) enter() bool {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.stopped {
		return false
	}
	s.busy.Add(1)
	return true
}

// enterOp counts an operation that Settle waits for.
func (s *Server) enterOp() bool {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.stopped || s.settled {
		return false
	}
	s.ops.Add(1)
	return true
}

type peer struct {
	same bool
	err  error
}

type peerKey struct{}

func (s *Server) identify(ctx context.Context, conn net.Conn) context.Context {
	same, err := s.cfg.SameUser(conn)
	ctx = context.WithValue(ctx, peerKey{}, peer{same, err})
	if s.cfg.ConnContext != nil {
		ctx = s.cfg.ConnContext(ctx, conn)
	}
	return ctx
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, op := range api.Ops {
		h, ok := handlers[op.Name]
		if !ok {
			panic("localapi: no handler for " + op.Name)
		}
		mux.HandleFunc(op.Method+" "+op.Path, func(w http.ResponseWriter, r *http.Request) {
			if err := s.tokenless(r); err != nil {
				fail(w, err)
				return
			}
			h(s, op, w, r)
		})
	}
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, fault.New(fault.NotFound, "op-unknown").Saying("this daemon has no operation %s %s", r.Method, r.URL.Path).
			Hinting("see docs/api.md for the operations of API level %d", api.Level))
	})
	if s.cfg.Routes != nil {
		mux.HandleFunc("/servers/", s.route)
		mux.HandleFunc("/mcp", s.route)
	}
	var inside http.Handler = mux
	if s.cfg.Gate != nil {
		inside = s.cfg.Gate(mux)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(api.HeaderLevel, strconv.Itoa(api.Level))
		if err := s.admit(r); err != nil {
			fail(w, err)
			return
		}
		ctx := api.As(r.Context(), api.Owner)
		if s.cfg.Relayed != nil && s.cfg.Relayed(r) {
			ctx = api.CalledBy(ctx, api.Caller{})
		}
		inside.ServeHTTP(w, r.WithContext(ctx))
	})
}

// route hands a request of mcpx connect on.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		w.Header().Set("Retry-After", "1") // the bridge waits for the next daemon
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.busy.Done()
	s.cfg.Routes.ServeHTTP(w, r)
}

// admit lets in what our own user sent, and nothing that a web page made: browsers always add Origin or Referer to a
// request that can change something.
func (s *Server) admit(r *http.Request) error {
	if r.Header.Get("Origin") != "" || r.Header.Get("Referer") != "" {
		return fault.New(fault.Denied, "origin-refused").Saying("the local API does not answer web pages")
	}
	p, _ := r.Context().Value(peerKey{}).(peer)
	if p.err != nil {
		return fault.New(fault.Denied, "peer-unknown").Saying("the system does not tell who is connected").Because(p.err)
	}
	if !p.same {
		if s.cfg.Stranger != nil {
			s.cfg.Stranger(r.Context())
		}
		return fault.New(fault.Denied, "peer-refused").Saying("this daemon belongs to another user")
	}
	return nil
}

// tokenless refuses an operation that is asked for with a token. The routes of mcpx connect take them.
func (s *Server) tokenless(r *http.Request) error {
	given := r.Header.Get("Authorization")
	if given == "" || s.cfg.Token == nil {
		return nil
	}
	text, _ := auth.Bearer(given)
	return s.cfg.Token(r.Context(), text)
}

// statuses is the table from kinds to statuses of the local API.
var statuses = map[fault.Kind]int{
	fault.Invalid:         http.StatusBadRequest,
	fault.Unauthenticated: http.StatusUnauthorized,
	fault.Denied:          http.StatusForbidden,
	fault.NeedsApproval:   http.StatusPreconditionRequired,
	fault.NotFound:        http.StatusNotFound,
	fault.Conflict:        http.StatusConflict,
	fault.Stale:           http.StatusPreconditionFailed,
	fault.Busy:            http.StatusTooManyRequests,
	fault.Unavailable:     http.StatusServiceUnavailable,
	fault.UnknownOutcome:  http.StatusInternalServerError, // HTTP layers retry 502 to 504
	fault.Canceled:        499,                            // nobody reads it: the caller has left
	fault.Internal:        http.StatusInternalServerError,
}

func fail(w http.ResponseWriter, err error) {
	problem := api.ProblemOf(err)
	status, ok := statuses[problem.Kind]
	if !ok {
		status = http.StatusInternalServerError
	}
	reply(w, status, api.Failure{Error: problem})
}

func reply(w http.ResponseWriter, status int, body any) {
	data, err := api.Marshal(body)
	if err != nil {
		status = http.StatusInternalServerError
		data = []byte(`{"error":{"kind":"internal","code":"answer-unwritable","message":"the answer cannot be written as JSON"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // a caller that left needs no answer
}
