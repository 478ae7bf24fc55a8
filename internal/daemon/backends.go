package daemon

import (
	"context"
	"crypto/rand"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/httpedge"
	"mcpx/internal/process"
	"mcpx/internal/store"
	"mcpx/internal/telemetry"
)

// newGateway joins the data path with its backends.
func (d *Daemon) newGateway(epoch store.Epoch, tails *telemetry.Tails, tools gateway.Tools) (*gateway.Gateway, error) {
	if hide := d.cfg.Overlay.hide; hide != nil {
		hide(&d.redact)
	}
	stdio, err := d.stdio(epoch)
	if err != nil {
		return nil, err
	}
	if d.secrets, err = d.newSecrets(); err != nil {
		return nil, err
	}
	http, err := d.http()
	if err != nil {
		return nil, err
	}
	seal, err := stateKey(d.cfg.Paths)
	if err != nil {
		return nil, err
	}
	var rejoin time.Duration
	if d.cfg.Take != nil {
		rejoin = rejoinWithin
	}
	return gateway.New(gateway.Config{
		Sessions: sessions{d.db}, Rejoin: rejoin, Tools: tools,
		Next: func(ctx context.Context, s *gateway.Server, st *gateway.Stream, body []byte) []byte {
			return d.front.Rest(ctx, s, st, body)
		},
		StateKey: seal, Stdio: stdio, HTTP: http, Resolve: d.resolve, Now: d.cfg.Now, Random: rand.Reader,
		Log: telemetry.For(d.cfg.Log, "gateway"), Epoch: uint64(epoch), Version: d.cfg.Version,
		Output: func(server string, chunk []byte) {
			_, _ = tails.Writer(server).Write(chunk) // it never fails
		},
		Learn: func(ctx context.Context, s catalog.Server) bool {
			return s.Stdio == nil || d.secrets.Learn(ctx, s.Stdio.Env)
		},
		Redact: func(_ string, text []byte) []byte { return []byte(d.redact.Text(string(text))) },
	})
}

// resolve gives an entry the values behind its references, for one start.
func (d *Daemon) resolve(ctx context.Context, s catalog.Server, c gateway.Caller) (gateway.Resolved, error) {
	var out gateway.Resolved
	if s.HTTP != nil {
		values, err := d.secrets.Bindings(ctx, s.HTTP.Headers)
		if err != nil {
			return gateway.Resolved{}, err
		}
		out.Headers = make(map[string]string, len(values))
		for name, v := range values {
			out.Headers[name] = v.Reveal()
		}
		return out, nil
	}
	values, err := d.secrets.Bindings(ctx, s.Stdio.Env)
	if err != nil {
		return gateway.Resolved{}, err
	}
	for name, v := range values {
		out.Env = append(out.Env, name+"="+v.Reveal())
	}
	for _, name := range s.Stdio.EnvPass {
		if v, ok := c.Passed[name]; ok {
			out.Env = append(out.Env, name+"="+v)
		}
	}
	slices.Sort(out.Env) // the order is part of the identity of a process
	out.Cwd, err = d.directory(s, c.Workspace)
	return out, err
}

// directory is where the program of an entry starts.
func (d *Daemon) directory(s catalog.Server, workspace string) (string, error) {
	switch s.Directory() {
	case catalog.CwdFixed:
		return s.Stdio.Cwd, nil
	case catalog.CwdNone:
		dir := filepath.Join(d.cfg.Paths.Cache, "cwd", s.ID)
		return dir, api.MakePrivate(dir)
	case catalog.CwdWorkspace:
		if workspace != "" {
			return workspace, nil
		}
	case catalog.CwdHome:
	}
	return d.home(), nil
}

func (d *Daemon) lookup(name string) (string, bool) {
	v := d.cfg.Getenv(name)
	return v, v != ""
}

// home is the directory of children without one of their own: where the user's shell would start them.
func (d *Daemon) home() string {
	if home := d.cfg.Getenv("HOME"); home != "" {
		if info, err := os.Stat(home); err == nil && info.IsDir() {
			return home
		}
	}
	return os.TempDir()
}

// Startable says why the command of a server cannot be found, or nil. Remote servers are not tried.
func (d *Daemon) Startable(ctx context.Context, s catalog.Server) error {
	if s.Stdio == nil {
		return nil
	}
	return d.reach(ctx, s)
}

// dialWithin bounds the look whether a URL answers.
const dialWithin = 3 * time.Second

// reach says whether a server could be started or connected to. It starts nothing and sends nothing.
func (d *Daemon) reach(ctx context.Context, s catalog.Server) error {
	if s.HTTP != nil {
		return d.reachURL(ctx, s.HTTP.URL)
	}
	cwd := s.Stdio.Cwd
	if cwd == "" {
		cwd = d.home()
	}
	var own []string
	if path, ok := s.Stdio.Env["PATH"]; ok && path.Literal != "" {
		own = []string{"PATH=" + path.Literal}
	}
	_, err := process.Resolve(s.Stdio.Command, cwd, process.Environ(d.cfg.Environ, own))
	return err
}

func (d *Daemon) reachURL(ctx context.Context, raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return fault.New(fault.Invalid, "server-invalid").Saying("%q is no URL", raw).Because(err)
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		if d.cfg.Getenv(name) != "" && !catalog.IsLoopback(u.Hostname()) {
			return nil // the way may go through a proxy: a direct connection would prove nothing
		}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return fault.New(fault.Unavailable, "url-unreachable").Saying("%s cannot be reached", catalog.RedactURL(raw)).
			Hinting("nothing was written. Is it running, and is the address right? --no-check adds it all the same").Retrying(fault.AfterFix).Because(err)
	}
	return conn.Close()
}

// http connects to remote servers, and signs in at them.
func (d *Daemon) http() (up *httpedge.Upstream, err error) {
	log := telemetry.For(d.cfg.Log, "httpedge")
	d.signIns, err = httpedge.NewSignIns(httpedge.SignInsConfig{
		Store: d.secrets, Now: d.cfg.Now, Log: log, Version: d.cfg.Version,
		Ended: func(s catalog.Server, was auth.SignIn) { d.control.SignInEnded(s, was) },
	})
	if err != nil {
		return nil, err
	}
	return httpedge.NewUpstream(httpedge.UpstreamConfig{Now: d.cfg.Now, Log: log, Version: d.cfg.Version, SignIns: d.signIns, Redact: d.redact.Text})
}
