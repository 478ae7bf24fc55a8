package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/api"
)

const (
	// startWithin is how long a daemon may take until it is ready; a loaded CI machine needs a few seconds.
	startWithin = 20 * time.Second
	// stopWithin covers the terminate ladder of a child that ignores everything: 2 s, 3 s, SIGKILL.
	stopWithin = 20 * time.Second
	// runWithin bounds one command.
	runWithin = 60 * time.Second
)

// Gateway is one running daemon.
type Gateway struct {
	t    testing.TB
	Home string // MCPX_HOME
	Addr string // 127.0.0.1:PORT

	Binary string   // of everything that Serve and Run start
	Extra  []string // environment of the daemon beside Environ
	Alone  bool     // the daemon gets a session of its own, as from a terminal of its own

	cmd  *exec.Cmd
	log  *os.File    // what the daemon wrote, over all its lives
	done chan string // how the daemon ended, once
}

// Start runs `mcpx serve` on a port of its own and waits until it is ready. Everything is stopped when the test ends.
func Start(t testing.TB) *Gateway {
	t.Helper()
	g := New(t)
	g.Serve()
	return g
}

// New is a Gateway whose daemon does not run yet: Serve starts it.
func New(t testing.TB) *Gateway {
	t.Helper()
	// Not t.TempDir: the path of a unix socket has about 100 bytes, and test names are long.
	home, err := os.MkdirTemp("", "mx") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{t: t, Home: home, Addr: fmt.Sprintf("127.0.0.1:%d", Port(t)), Binary: Binary(t)}
	if g.log, err = os.Create(filepath.Join(home, "serve.log")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(home, "user"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.cleanup)
	return g
}

// Port is a free port below the ephemeral range: a port above it can be taken by any outgoing connection between the
// moment we looked and the moment the daemon listens.
func Port(t testing.TB) int {
	t.Helper()
	for range 200 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal("rig: no free port between 20000 and 32000")
	return 0
}

// Environ is the environment of everything that runs against this daemon: nothing of the caller's but PATH.
func (g *Gateway) Environ(extra ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(g.Home, "user"), "MCPX_HOME=" + g.Home,
		"LANG=C.UTF-8", "TERM=dumb", "NO_COLOR=1", "RIG_TOKEN=" + Canary + "environment",
		"MCPX_GOVERNANCE_WATCH=false", // crash points are counted: nothing happens that no test asked for
	}, extra...)
}

// Serve starts the daemon, again after Kill, and waits until it is ready.
func (g *Gateway) Serve() {
	g.t.Helper()
	g.Spawn()
	if how, ended := g.Await(); ended {
		g.t.Fatalf("mcpx serve ended: %s\n%s", how, g.Log())
	}
}

// Spawn starts the daemon and does not wait.
func (g *Gateway) Spawn() {
	g.t.Helper()
	g.cmd = exec.Command(g.Binary, "serve", "--listen", g.Addr)
	g.cmd.Env = g.Environ(g.Extra...)
	g.cmd.Dir = g.Home
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	if g.Alone {
		OwnSession(g.cmd)
	}
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	done := make(chan string, 1)
	go func(cmd *exec.Cmd) {
		if err := cmd.Wait(); err != nil {
			done <- err.Error()
		}
		close(done)
	}(g.cmd)
	g.done = done
}

// Await waits until the daemon is ready, or has ended.
func (g *Gateway) Await() (how string, ended bool) {
	g.t.Helper()
	for deadline := time.Now().Add(startWithin); ; {
		select {
		case how := <-g.done:
			g.done = nil
			return how, true
		default:
		}
		if g.Listens() {
			return "", false
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("mcpx serve is not ready after %s\n%s", startWithin, g.Log())
		}
		time.Sleep(5 * time.Millisecond) // readiness is polled as any client would
	}
}

// Ended says whether the daemon has ended by itself; then the next Spawn or Serve starts another one.
func (g *Gateway) Ended() bool {
	select {
	case <-g.done:
		g.done = nil
	default:
	}
	return g.done == nil
}

// Listens says whether the daemon is ready.
func (g *Gateway) Listens() bool {
	client := http.Client{Timeout: time.Second}
	resp, err := client.Get("http://" + g.Addr + "/readyz")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// PID is the daemon's process.
func (g *Gateway) PID() int { return g.cmd.Process.Pid }

// URL is the endpoint of a server.
func (g *Gateway) URL(name string) string { return "http://" + g.Addr + "/servers/" + name + "/mcp" }

// Log is what the daemon has printed.
func (g *Gateway) Log() string {
	raw, err := os.ReadFile(g.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// Kill ends the daemon with SIGKILL and waits for its end. Serve starts the next one.
func (g *Gateway) Kill() {
	g.t.Helper()
	if err := g.cmd.Process.Kill(); err != nil {
		g.t.Fatal(err)
	}
	g.Wait()
}

// Wait waits for the end of the daemon and says how it ended, "" in order.
func (g *Gateway) Wait() (how string) {
	g.t.Helper()
	select {
	case how = <-g.done:
		g.done = nil
	case <-time.After(stopWithin):
		g.t.Errorf("mcpx serve (pid %d) is still there after %s", g.PID(), stopWithin)
		_ = g.cmd.Process.Kill() // so that the next test starts clean
		how = <-g.done
		g.done = nil
	}
	return how
}

// Result is how a command ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Run runs one mcpx command to its end.
func (g *Gateway) Run(args ...string) Result {
	g.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), runWithin)
	defer stop()
	cmd := exec.CommandContext(ctx, g.Binary, args...)
	cmd.Env, cmd.Dir = g.Environ(), g.Home
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		g.t.Fatalf("mcpx %s: %v", strings.Join(args, " "), err)
	}
	if ctx.Err() != nil {
		g.t.Fatalf("mcpx %s: no end after %s\n%s%s", strings.Join(args, " "), runWithin, &out, &complaints)
	}
	return Result{out.String(), complaints.String(), cmd.ProcessState.ExitCode()}
}

// Must runs a command that has to succeed and returns its stdout.
func (g *Gateway) Must(args ...string) string {
	g.t.Helper()
	r := g.Run(args...)
	if r.Code != 0 {
		g.t.Fatalf("mcpx %s: exit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// Add adds a stdio server; flags go before the command.
func (g *Gateway) Add(name string, command []string, flags ...string) {
	g.t.Helper()
	g.Must(append(append(append([]string{"server", "add", name}, flags...), "--"), command...)...)
}

// AddURL adds an HTTP server.
func (g *Gateway) AddURL(name, url string, flags ...string) {
	g.t.Helper()
	g.Must(append([]string{"server", "add", name, "--url", url}, flags...)...)
}

// Share makes a server global, as a person would.
func (g *Gateway) Share(name string) {
	g.t.Helper()
	g.Must("server", "edit", name, "--sharing", "global", "--yes")
}

func (g *Gateway) cleanup() {
	if g.done != nil {
		if r := g.Run("daemon", "stop", "--children"); r.Code != 0 {
			g.t.Errorf("mcpx daemon stop --children: exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
			_ = g.cmd.Process.Signal(os.Interrupt) // so that Wait does not always need the hard way
		}
		g.Wait()
	}
	if left := Survivors(g.Home); len(left) > 0 {
		g.t.Errorf("left behind after `daemon stop --children`:\n%s", strings.Join(left, "\n"))
		endSurvivors(g.Home)
	}
	for _, leak := range Leaks(g.Home) {
		g.t.Errorf("a secret was written down: %s", leak)
	}
	if log := g.Log(); strings.Contains(log, "panic:") || strings.Contains(log, "DATA RACE") {
		g.t.Errorf("the daemon's output:\n%s", log)
	} else if g.t.Failed() {
		g.t.Logf("the daemon's output:\n%s", tail(log, 8<<10))
	}
	_ = g.log.Close() // only read from here on
	if err := os.RemoveAll(g.Home); err != nil {
		g.t.Error(err)
	}
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// API is a client of the daemon's own interface, for tests that watch states faster than a command can start.
func (g *Gateway) API() *api.Client {
	g.t.Helper()
	paths, err := api.FindPaths(func(name string) string {
		if name == "MCPX_HOME" {
			return g.Home
		}
		return ""
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return api.NewClient(paths.Socket())
}

// Processes is `mcpx ps` for one server.
func (g *Gateway) Processes(server string) []api.Process {
	g.t.Helper()
	page, err := g.API().Processes(g.t.Context(), api.ProcessQuery{})
	if err != nil {
		g.t.Fatal(err)
	}
	var own []api.Process
	for _, p := range page.Processes {
		if p.Server == server {
			own = append(own, p)
		}
	}
	return own
}

// Until polls a state that has no event until it holds, and fails after the time.
func Until(t testing.TB, within time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > within {
			t.Fatalf("not within %s: %s", within, what)
		}
		time.Sleep(2 * time.Millisecond) // a poll, not a synchronisation: it ends as soon as the state holds
	}
	return time.Since(start)
}
