package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"mcpx/internal/auth"
	"mcpx/internal/control"
	"mcpx/internal/httpedge"
	"mcpx/internal/key"
	"mcpx/internal/tools"
)

// publicRetry is how long the listener for other machines waits for an address that is taken: by the daemon whose place this
// one takes, mostly.
const publicRetry = 500 * time.Millisecond

// public is the listener for clients of other machines. It is not handed over: such clients come back.
type public struct {
	log *slog.Logger
	// server makes what serves an address; set before the first Open.
	server func(auth.Remote) (*httpedge.Public, error)

	change sync.Mutex // held by Open, Close and Shut; guards the fields below
	end    func()     // of what listens now; nil: nothing does
	shut   bool       // for good

	mu        sync.Mutex // guards the fields below
	listening bool
	problem   string
}

var _ control.RemoteListener = (*public)(nil)

// Open listens as r says, in place of what it listened at before. An address that is taken is tried again until it is free.
func (p *public) Open(r auth.Remote) {
	p.change.Lock()
	defer p.change.Unlock()
	if p.closeLocked(); p.shut {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	tried := make(chan struct{})
	go func() {
		defer close(done)
		p.serve(ctx, r, sync.OnceFunc(func() { close(tried) }))
	}()
	<-tried // whoever opens it is told whether it listens
	p.end = func() {
		cancel()
		<-done
	}
}

// serve listens until ctx is done.
func (p *public) serve(ctx context.Context, r auth.Remote, tried func()) {
	defer tried()
	for {
		l, err := listenPublic(r)
		var server *httpedge.Public
		if err == nil {
			if server, err = p.server(r); err != nil {
				err = errors.Join(err, l.Close())
			}
		}
		if err != nil {
			p.say(false, err.Error())
			tried()
			select {
			case <-ctx.Done():
				return
			case <-time.After(publicRetry):
				continue
			}
		}
		p.say(true, "")
		tried()
		done := make(chan struct{})
		stopped := context.AfterFunc(ctx, func() {
			defer close(done)
			within, cancel := context.WithTimeout(context.Background(), linger)
			defer cancel()
			server.Stop(within)
		})
		err = server.Serve(l)
		if stopped() { // nobody ended it
			p.say(false, fmt.Sprint("it stopped accepting: ", err))
			p.log.LogAttrs(ctx, slog.LevelError, "the listener for other machines stopped accepting", slog.Any(key.Cause, err))
			continue
		}
		<-done // the requests in work have their answers
		if err != nil {
			p.log.LogAttrs(ctx, slog.LevelWarn, "the listener for other machines ended", slog.Any(key.Cause, err))
		}
		return
	}
}

// listenPublic opens the listener, with TLS when there is a certificate. The files are read anew for each connection: they
// are renewed while we run.
func listenPublic(r auth.Remote) (net.Listener, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.Certificate != "" {
		load := func() (*tls.Certificate, error) {
			c, err := tls.LoadX509KeyPair(r.Certificate, r.Key)
			return &c, err
		}
		if _, err := load(); err != nil {
			return nil, fmt.Errorf("the certificate cannot be used: %w", err)
		}
		config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return load() }
	}
	l, err := net.Listen("tcp", r.Address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use by another program", r.Address)
	}
	if err != nil || r.Certificate == "" {
		return l, err
	}
	return tls.NewListener(l, config), nil
}

func (p *public) say(listening bool, problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listening, p.problem = listening, problem
}

// Close ends it; requests in work have a moment.
func (p *public) Close() {
	p.change.Lock()
	defer p.change.Unlock()
	p.closeLocked()
}

// Shut is Close, and nothing is opened after it: the daemon lets go.
func (p *public) Shut() {
	p.change.Lock()
	defer p.change.Unlock()
	p.shut = true
	p.closeLocked()
}

func (p *public) closeLocked() {
	if p.end != nil {
		p.end()
		p.end = nil
	}
	p.say(false, "")
}

// State says whether it listens, and why not.
func (p *public) State() (listening bool, problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listening, p.problem
}

// publicServer makes what serves the public address.
func (d *Daemon) publicServer(runtime tools.Handler) func(auth.Remote) (*httpedge.Public, error) {
	return func(r auth.Remote) (*httpedge.Public, error) {
		return httpedge.NewPublic(httpedge.PublicConfig{
			Authority: d.control, MCP: runtime, Foreign: d.control.OriginDenied, Now: d.cfg.Now, Log: d.public.log,
		}, r)
	}
}
