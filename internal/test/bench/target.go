package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// startWithin bounds the start of one target; a Node gateway takes a second or two on a slow machine.
const startWithin = 30 * time.Second

// target is something that answers calls.
type target struct {
	name string
	dial func() (caller, error)
	pids func() []int // all its processes, the child included
	stop func()

	daemon int // pid of the daemon of mcpx, 0 for others
}

// The names of the targets in the report.
const (
	nameDirect  = "child directly"
	nameFloor   = "floor"
	nameShared  = "mcpx"
	nameSession = "mcpx, session"
	nameBare    = "mcpx, unsupervised"
)

// targets starts everything that is compared.
func (b *bench) targets(ctx context.Context) ([]*target, error) {
	direct, err := b.direct()
	if err != nil {
		return nil, err
	}
	floor, err := b.floor()
	if err != nil {
		return nil, err
	}
	g, err := b.gateway(ctx, "main")
	if err != nil {
		return nil, err
	}
	if err := g.add(ctx, "shared", "--sharing", "global", "--yes"); err != nil {
		return nil, err
	}
	if err := g.add(ctx, "session"); err != nil {
		return nil, err
	}
	if err := g.add(ctx, "bare", "--sharing", "global", "--yes", "--supervised=false"); err != nil {
		return nil, err
	}
	all := []*target{
		direct, floor, g.target(nameShared, "shared"), g.target(nameBare, "bare"), g.target(nameSession, "session"),
	}
	for _, start := range []func() (*target, error){b.supergateway, b.mcpProxy} {
		t, err := start()
		if err != nil {
			return nil, err
		}
		if t != nil {
			all = append(all, t)
		}
	}
	return all, nil
}

// self is the command line of the child.
func self() ([]string, error) {
	exe, err := os.Executable()
	return []string{exe, roleChild}, err
}

// direct is the child on pipes of this process.
func (b *bench) direct() (*target, error) {
	argv, err := self()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := newPipe(in, out)
	t := &target{
		name: nameDirect,
		dial: func() (caller, error) { return p, nil },
		pids: func() []int { return []int{cmd.Process.Pid} },
		stop: sync.OnceFunc(func() { _ = in.Close(); _ = cmd.Wait() }),
	}
	b.open = append(b.open, t)
	return t, nil
}

// process starts a program whose output goes to a file of its own.
func (b *bench) process(name string, env []string, argv ...string) (*exec.Cmd, func(), error) {
	log, err := os.Create(filepath.Join(b.dir, strings.ReplaceAll(name, " ", "-")+".log"))
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, log, log
	if env != nil {
		cmd.Env = env
	}
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ends is of no interest after the numbers were taken
		close(done)
	}()
	return cmd, sync.OnceFunc(func() {
		interrupt(cmd)
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			killGroup(cmd)
			<-done
		}
		_ = log.Close()
	}), nil
}

func (b *bench) floor() (*target, error) {
	argv, err := self()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(argv[0], append([]string{roleFloor}, argv...)...)
	ownGroup(cmd)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the floor did not start: %w", err)
	}
	t := &target{
		name: nameFloor,
		dial: func() (caller, error) { return dialHTTP(strings.TrimSpace(addr), "/", true) },
		pids: func() []int { return tree([]int{cmd.Process.Pid}) },
		stop: sync.OnceFunc(func() { killGroup(cmd); _ = cmd.Wait() }),
	}
	b.open = append(b.open, t)
	return t, nil
}

// supergateway runs with one child for each session: without sessions it starts a process for each call.
func (b *bench) supergateway() (*target, error) {
	argv, err := self()
	if err != nil {
		return nil, err
	}
	return b.npm("supergateway", "dist/index.js", "/mcp", func(port string) []string {
		return []string{
			"--stdio", strings.Join(argv, " "), "--outputTransport", "streamableHttp", "--stateful",
			"--port", port, "--streamableHttpPath", "/mcp", "--logLevel", "none",
		}
	})
}

func (b *bench) mcpProxy() (*target, error) {
	argv, err := self()
	if err != nil {
		return nil, err
	}
	return b.npm("mcp-proxy", "dist/bin/mcp-proxy.mjs", "/mcp", func(port string) []string {
		return append([]string{"--host", "127.0.0.1", "--port", port, "--server", "stream", "--"}, argv...)
	})
}

// npm starts a gateway of the peers directory; nil when there is none.
func (b *bench) npm(name, script, path string, args func(port string) []string) (*target, error) {
	if b.o.peers == "" {
		b.say("skip: %s: no --peers directory", name)
		return nil, nil //nolint:nilnil // nil is the target that is not there
	}
	file := filepath.Join(b.o.peers, "node_modules", name, script)
	if _, err := os.Stat(file); err != nil {
		b.say("skip: %s is not installed in %s", name, b.o.peers)
		return nil, nil //nolint:nilnil // as above
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd, stop, err := b.process(name, nil, append([]string{b.o.node, file}, args(port)...)...)
	if err != nil {
		return nil, err
	}
	t := &target{
		name: name,
		dial: func() (caller, error) { return dialHTTP("127.0.0.1:"+port, path, true) },
		pids: func() []int { return tree([]int{cmd.Process.Pid}) },
		stop: stop,
	}
	b.open = append(b.open, t)
	return t, waitFor("127.0.0.1:" + port)
}

// freePort is a port below the ephemeral range, where no outgoing connection takes it before the target does.
func freePort() (string, error) {
	for port := 21000; port < 32000; port += 7 {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return strconv.Itoa(port), l.Close()
		}
	}
	return "", fmt.Errorf("no free port below 32000")
}

func waitFor(addr string) error {
	deadline := time.Now().Add(startWithin)
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("nothing listens on %s after %s: %w", addr, startWithin, err)
		}
		time.Sleep(10 * time.Millisecond) // another program's start has no event for us
	}
}

// gateway is one daemon of mcpx.
type gateway struct {
	b    *bench
	name string
	home string
	env  []string
	pid  int
	addr string
	end  func() // of the process that was started last
	stop func() // of everything
}

func (b *bench) gateway(ctx context.Context, name string, env ...string) (*gateway, error) {
	g := &gateway{b: b, name: name, home: filepath.Join(b.dir, name), addr: "127.0.0.1:0"}
	g.env = append(append(os.Environ(), "MCPX_HOME="+g.home, "HOME="+b.dir), env...)
	if err := g.serve(); err != nil {
		return nil, err
	}
	g.stop = sync.OnceFunc(func() {
		// The supervisors outlive a daemon that is only signalled.
		_ = g.cli(context.WithoutCancel(ctx), nil, "daemon", "stop", "--children")
		g.end()
		for _, pid := range g.pids() {
			killPid(pid)
		}
	})
	b.open = append(b.open, &target{name: name, stop: g.stop})
	return g, g.ready(ctx)
}

// serve starts the daemon, again after kill.
func (g *gateway) serve() error {
	cmd, end, err := g.b.process("mcpx-"+g.name, g.env, g.b.o.mcpx, "serve", "--listen", g.addr)
	if err != nil {
		return err
	}
	g.pid, g.end = cmd.Process.Pid, end
	return nil
}

// ready waits until the daemon answers, and reads where it listens and which process it is: a restart changes that.
func (g *gateway) ready(ctx context.Context) error {
	deadline := time.Now().Add(startWithin)
	for {
		var status struct {
			Listener string `json:"listener"`
			Daemon   struct {
				Listener string `json:"listener"`
				PID      int    `json:"pid"`
			} `json:"daemon"`
		}
		err := g.cli(ctx, &status, "daemon", "status")
		if addr := status.Listener + status.Daemon.Listener; err == nil && addr != "" {
			g.addr = addr
			if status.Daemon.PID != 0 {
				g.pid = status.Daemon.PID
			}
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("mcpx serve is not ready: %w", err)
		}
		time.Sleep(20 * time.Millisecond) // readiness is polled as any caller would
	}
}

// cli runs one command and decodes its JSON into out, unless out is nil.
func (g *gateway) cli(ctx context.Context, out any, args ...string) error {
	at := len(args)
	for i, a := range args {
		if a == "--" {
			at = i
			break
		}
	}
	args = append(append(append([]string{}, args[:at]...), "--json"), args[at:]...)
	cmd := exec.CommandContext(ctx, g.b.o.mcpx, args...)
	cmd.Env = g.env
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("mcpx %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// add adds the child under a name.
func (g *gateway) add(ctx context.Context, name string, flags ...string) error {
	argv, err := self()
	if err != nil {
		return err
	}
	args := append([]string{"server", "add", name, "--idle-timeout", "never"}, flags...)
	return g.cli(ctx, nil, append(append(args, "--"), argv...)...)
}

func (g *gateway) dial(server string) (*httpCaller, error) {
	return dialHTTP(g.addr, "/servers/"+server+"/mcp", true)
}

func (g *gateway) target(name, server string) *target {
	return &target{name: name, dial: func() (caller, error) { return g.dial(server) }, pids: g.pids, stop: g.stop, daemon: g.pid}
}

// pids are the daemon, the supervisors, which are nobody's children, and what they have started.
func (g *gateway) pids() []int { return tree(append(naming(g.home), g.pid)) }
