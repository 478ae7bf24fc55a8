// Command bench decides how much time and memory the gateway costs, as ratios to a floor that was measured in the same
// run: a bare net/http handler in front of the same child. It refuses to compare numbers of different runs or machines.
//
// Invariant: the targets of one scenario take turns within each round, so that a machine that gets slower meanwhile
// slows all of them.
//
//	go run ./internal/test/bench [--quick] [--check] [--json] [--peers DIR] [--node PATH]
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// The roles in which the program starts itself.
const (
	roleChild = "run-child"
	roleFloor = "run-floor"
)

// options are the flags.
type options struct {
	mcpx, peers, node string
	quick, check      bool
	asJSON            bool
	rounds            int
	only              string

	url              string
	clients, payload int
	span             time.Duration
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case roleChild:
			exit(runChild(os.Stdin, os.Stdout))
		case roleFloor:
			exit(runFloor(os.Args[2:], os.Stdout))
		}
	}
	var o options
	peers, node := installed()
	if dir := os.Getenv("MCPX_BENCH_PEERS"); dir != "" {
		peers = dir
	}
	flag.StringVar(&o.mcpx, "mcpx", "", "the program to measure; built from this module when empty")
	flag.StringVar(&o.peers, "peers", peers, "directory with node_modules of supergateway and mcp-proxy; empty: they are skipped")
	flag.StringVar(&o.node, "node", cmp.Or(node, "node"), "the Node to run them with")
	flag.BoolVar(&o.quick, "quick", false, "one short round: does everything run?")
	flag.BoolVar(&o.check, "check", false, "exit 1 when a bar is missed")
	flag.BoolVar(&o.asJSON, "json", false, "print one JSON document")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of the timed scenarios")
	flag.StringVar(&o.only, "only", "", "comma-separated scenarios: latency, load, payload, servers, flat, restart, ledger, search, read, command, jobs, workspace, verify, reconcile, subscriber")
	flag.StringVar(&o.url, "url", "", "only put load on this URL, under a profiler for example")
	flag.IntVar(&o.clients, "clients", 1, "clients of --url")
	flag.IntVar(&o.payload, "payload", small, "bytes of the payload of --url")
	flag.DurationVar(&o.span, "for", 10*time.Second, "how long to load --url")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, o, os.Stdout))
}

func exit(err error) {
	switch {
	case err == nil:
		os.Exit(0)
	case errors.Is(err, errMissed):
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(70)
}

// errMissed says that a bar was missed; the report names it.
var errMissed = errors.New("a bar was missed")

func run(ctx context.Context, o options, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "mb")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if o.quick {
		o.rounds = 1
	}
	b := &bench{o: o, dir: dir, progress: os.Stderr}
	if o.url != "" {
		return b.load(ctx, out)
	}
	if b.o.mcpx == "" {
		b.o.mcpx = filepath.Join(dir, "mcpx")
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", b.o.mcpx, "mcpx")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, text)
		}
	}
	defer b.close()
	report, err := b.measure(ctx)
	if err != nil {
		return err
	}
	if o.asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(report); err != nil {
			return err
		}
	} else {
		report.print(out)
	}
	if o.check && !report.passed() {
		return errMissed
	}
	return nil
}

// load puts load on a URL and says what came back.
func (b *bench) load(ctx context.Context, out io.Writer) error {
	u, err := url.Parse(b.o.url)
	if err != nil {
		return err
	}
	t := &target{name: b.o.url, pids: func() []int { return nil }}
	s := scenario{clients: b.o.clients, payload: b.o.payload, span: b.o.span, minCalls: 1}
	var callers []caller
	for range s.clients {
		c, err := dialHTTP(u.Host, u.Path, true)
		if err != nil {
			return err
		}
		defer c.close()
		callers = append(callers, c)
	}
	got, err := b.round(ctx, s, t, callers)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "p50 %v, p99 %v, %.0f calls/s\n", got.p50, got.p99, got.perSec)
	return err
}

// bench is one run.
type bench struct {
	o        options
	dir      string
	progress io.Writer
	open     []*target
}

func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.progress, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...) // progress only
}

func (b *bench) close() {
	for _, t := range b.open {
		t.stop()
	}
}
