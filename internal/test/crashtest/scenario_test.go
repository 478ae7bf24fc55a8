package crashtest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

const (
	// stepWithin bounds one step of the scenario, kills, restarts and the backoff of a server included.
	stepWithin = 30 * time.Second
	// settleWithin is how long what belongs to nobody may live: a supervisor that nobody attached to leaves after 10 s.
	settleWithin = 15 * time.Second
	// pollEvery is how often a killed daemon is looked for.
	pollEvery = 5 * time.Millisecond
	// maxStarts is more than the scripts can kill in a row.
	maxStarts = 10
)

// script is the environment that tells a process where to die.
type script []string

// play is one run of the scenario.
type play struct {
	t      *testing.T
	g      *rig.Gateway
	record string
	ledger ledger

	client *rig.Client // the session that lives through the whole scenario
	keys   int

	stop chan struct{} // closed when nobody starts daemons any more
	kept sync.WaitGroup

	ready  atomic.Int64 // daemons that started here
	at     point        // where the first script kills; none in a record run
	later  script
	killed func() bool // whether the first script has done its work; nil: it kills nobody
}

// scenario is what people and agents do while processes are killed.
type scenario struct {
	name     string
	steps    func(p *play)
	servers  []string // that are there in the end
	only     []string // beginnings of the points that it is about, nil for all
	every    bool     // kills at each pass of a point, not at the first and the last: several operations pass it
	settings script   // environment of every daemon
	policy   string   // what policy.toml holds
}

// run plays a scenario with a script for the daemons until somebody was killed at a point, and another for those after
// that. What has been acknowledged must be there in the end, and nothing else.
func run(t *testing.T, binary string, what scenario, at point, first, later script, killed func() bool) {
	g := rig.New(t)
	first, later = slices.Concat(what.settings, first), slices.Concat(what.settings, later)
	g.Binary, g.Extra = binary, first
	writePolicy(t, g, what.policy)
	p := &play{t: t, g: g, record: filepath.Join(g.Home, "alpha.record"), stop: make(chan struct{}), at: at, later: later, killed: killed}
	if !p.start() {
		return
	}
	p.kept.Go(p.keep)
	over := sync.OnceFunc(func() {
		close(p.stop)
		p.kept.Wait()
	})
	defer over() // a failed step: cleanup stops what runs then
	what.steps(p)
	p.whole(what.servers)
	over()
	p.end()
}

// writePolicy says what agents may do without a person.
func writePolicy(t *testing.T, g *rig.Gateway, policy string) {
	t.Helper()
	if policy == "" {
		return
	}
	if err := os.MkdirAll(filepath.Join(g.Home, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(g.Home, "config", "policy.toml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
}

// scenarios are ten: changes with their acknowledgements and an orderly stop, planned restarts, changes to the files of
// agents, and what an agent does at /mcp with files, with the trash, with workspaces that it integrates and such that it comes
// back to, with commands, with builds and with the tools of other servers.
var scenarios = []scenario{
	{name: "changes", steps: (*play).changes, servers: []string{"alpha"}},
	{name: "restarts", steps: (*play).restarts, servers: []string{"alpha"}},
	{name: "governed", steps: (*play).governed, servers: []string{"alpha"}},
	{name: "worked", steps: (*play).worked, only: []string{"op.", "fs."}},
	{name: "removed", steps: (*play).removed, only: []string{"op.", "fs."}, every: true},
	{name: "integrated", steps: (*play).integrated, only: []string{"op.", "fs.", "ws."}},
	{name: "paused", steps: (*play).paused, only: []string{"ws.", "op."}, every: true},
	{name: "called", steps: (*play).called, servers: []string{"alpha"}, only: []string{"op.", "gateway.", "supervisor."}, settings: extensions, policy: allowAlpha},
	{name: "jobs", steps: (*play).jobs, only: []string{"op.", "job."}, settings: commands, policy: allowTee},
	{name: "built", steps: (*play).built, only: []string{"gen.", "audit."}, every: true, settings: builds, policy: allowCopies},
}

func (p *play) changes() {
	p.add("alpha")
	p.add("beta")
	p.open()
	p.call(0)
	p.call(0)
	p.call(150 * time.Millisecond) // another daemon may answer it
	p.change("", func(ctx context.Context, c *api.Client) error {
		limit := edited
		_, err := c.EditServer(ctx, api.EditServer{Name: "alpha", Call: &limit})
		return err
	})
	p.call(0)
	p.change("", func(ctx context.Context, c *api.Client) error {
		_, err := c.RestartServer(ctx, api.ServerRef{Name: "alpha"})
		return err
	})
	p.call(0)
	p.change("", func(ctx context.Context, c *api.Client) error { // the next one comes by itself
		_, err := c.DaemonStop(ctx, api.StopDaemon{})
		return err
	})
	p.call(0)
	p.change("server-unknown", func(ctx context.Context, c *api.Client) error {
		_, err := c.RemoveServer(ctx, api.ServerRef{Name: "beta"})
		return err
	})
	p.call(0)
	for _, s := range p.servers() {
		if s.Name == "alpha" && s.Limits.Call != edited {
			p.t.Errorf("the edit of alpha was acknowledged and is not there: %+v", s)
		}
	}
}

// restarts replaces the daemon twice, the second time while a call runs.
func (p *play) restarts() {
	p.add("alpha")
	p.open()
	p.call(0)
	p.restart()
	p.call(0)
	var meanwhile sync.WaitGroup
	meanwhile.Go(p.restart)
	p.call(150 * time.Millisecond)
	meanwhile.Wait()
	p.call(0)
}

// restart asks for a planned restart until one daemon after another says that it was done. It may be called beside call.
func (p *play) restart() {
	p.change("", func(ctx context.Context, c *api.Client) error {
		_, err := c.DaemonRestart(ctx, api.RestartDaemon{})
		return err
	})
}

func (p *play) add(name string) {
	p.t.Helper()
	p.change("server-exists", func(ctx context.Context, c *api.Client) error {
		_, err := c.AddServer(ctx, api.AddServer{Server: p.server(name)})
		return err
	})
}

// edited is the call timeout that alpha is given.
const edited = 97 * time.Second

// servers lists them; a daemon that is killed meanwhile is asked again.
func (p *play) servers() (all []api.Server) {
	p.t.Helper()
	p.change("", func(ctx context.Context, c *api.Client) error {
		page, err := c.Servers(ctx, api.ServersQuery{})
		all = page.Servers
		return err
	})
	return all
}

func (p *play) server(name string) catalog.Server {
	command := rig.Fixture(p.t, fakemcp.Options{Record: filepath.Join(p.g.Home, name+".record")})
	return catalog.Server{Name: name, Stdio: &catalog.Stdio{Command: command[0], Args: command[1:]}}
}

// start starts daemons until one is ready; false: none is, and it is not the script. A daemon that finds another one
// ready, which has just taken over from one that was killed, is as good.
func (p *play) start() bool {
	p.t.Helper()
	for range maxStarts {
		if p.killed != nil && p.killed() {
			p.g.Extra = p.later
		}
		p.g.Spawn()
		_, ended := p.g.Await()
		if !ended {
			p.ready.Add(1)
		}
		if !ended || p.g.Listens() {
			return true
		}
	}
	p.t.Errorf("%d daemons in a row ended before they were ready", maxStarts)
	return false
}

// keep starts the next daemon whenever one has ended.
func (p *play) keep() {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			if p.g.Ended() && !p.g.Listens() && !p.start() {
				return
			}
		}
	}
}

// change asks for a change until it is acknowledged. One whose answer was lost may have been carried out: then the next
// attempt fails with the code fine, which counts as an acknowledgement. No command is used, because a command starts a
// daemon when it finds none.
func (p *play) change(fine string, ask func(context.Context, *api.Client) error) {
	p.t.Helper()
	var err error
	for deadline := time.Now().Add(stepWithin); time.Now().Before(deadline); time.Sleep(pollEvery) {
		ctx, stop := context.WithDeadline(p.t.Context(), deadline)
		err = ask(ctx, p.g.API())
		stop()
		if err == nil || fine != "" && fault.From(err).Code == fine {
			return
		}
	}
	p.t.Fatalf("a change is not acknowledged: %v", err)
}

// open initialises the session. An answer that is lost leaves a session that nobody knows; the next attempt makes one.
func (p *play) open() {
	p.t.Helper()
	var why string
	for deadline := time.Now().Add(stepWithin); time.Now().Before(deadline); time.Sleep(pollEvery) {
		ctx, stop := context.WithTimeout(p.t.Context(), stepWithin)
		c := rig.NewClient(p.t, p.g.URL("alpha"))
		reply, err := c.Try(ctx, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"crashtest","version":"1"}}}`)
		if err == nil && reply.Status == http.StatusOK && len(reply.Messages) > 0 && rig.ClassOf(reply.Answer(p.t)) == "answer" {
			c.Session, c.Version = reply.Header.Get("Mcp-Session-Id"), "2025-11-25"
			for err = nil; ; time.Sleep(pollEvery) {
				if reply, err = c.Try(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err == nil || ctx.Err() != nil {
					break
				}
			}
			stop()
			if err != nil || reply.Status != http.StatusAccepted {
				p.t.Fatalf("notifications/initialized: %v, HTTP %d %s", err, reply.Status, reply.Body)
			}
			p.client = c
			return
		}
		stop()
		why = fmt.Sprintf("%v, HTTP %d %s", err, reply.Status, reply.Body)
	}
	p.t.Fatalf("no session: %s", why)
}

// call makes one call on the session and notes how it ended; one that was not sent, or could not be, is made again.
func (p *play) call(work time.Duration) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.t.Context(), stepWithin)
	defer stop()
	for {
		p.keys++
		key := fmt.Sprintf("k%d", p.keys)
		id := fmt.Sprintf(`"call-%d"`, p.keys)
		arguments := fmt.Sprintf(`{"key":%q,"wait_ms":%d}`, key, work.Milliseconds())
		o, err := p.client.Persist(ctx, id, workCall(id, arguments, ""))
		p.ledger.note("the session", key, 0, o, err)
		switch {
		case err != nil:
			p.t.Fatalf("call %s: %v", key, err)
		case o.Class == "answer":
			return
		case ctx.Err() != nil:
			p.t.Fatalf("call %s: %s", key, o.Body)
		}
		time.Sleep(50 * time.Millisecond) // what a client does that is told to wait
	}
}

// whole checks the invariants while the daemon runs.
func (p *play) whole(want []string) {
	t := p.t
	t.Helper()
	p.ledger.check(t, readRecords(t, p.record))
	var names []string
	for _, s := range p.servers() {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("servers are %v, acknowledged are %v", names, want)
	}
	ready := p.ready.Load() // before the epoch is read: another daemon may start now
	p.change("", func(ctx context.Context, c *api.Client) error {
		status, err := c.Status(ctx, api.None{})
		if err == nil && int64(status.Daemon.Epoch) < ready {
			t.Errorf("epoch %d after %d daemons were ready", status.Daemon.Epoch, ready)
		}
		return err
	})
	p.owned()
}

// owned waits until every fixture of this home is a child of a supervisor that ps knows, and every supervisor has a
// bundle.
func (p *play) owned() {
	t := p.t
	t.Helper()
	var why string
	for deadline := time.Now().Add(settleWithin); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		known, err := childrenOf(t.Context(), p.g)
		if err != nil {
			why = err.Error()
			continue
		}
		found, supervisors := map[int]int{}, map[int]bool{}
		for pid, args := range rig.Naming(p.g.Home) {
			switch {
			case strings.Contains(args, " supervise "):
				supervisors[pid] = true
			case strings.Contains(args, "run-fakemcp"):
				found[pid] = rig.Look(pid).Parent
			}
		}
		bundles, err := filepath.Glob(filepath.Join(p.g.Home, "state", "bundles", "*"))
		if err != nil {
			t.Fatal(err)
		}
		if maps.Equal(found, known) && len(supervisors) == len(known) && len(bundles) == len(known) {
			return
		}
		why = fmt.Sprintf("ps knows %v (child: supervisor), there are children %v, supervisors %v, bundles %v", known, found, supervisors, bundles)
	}
	t.Errorf("after %s: %s", settleWithin, why)
}

// end stops everything, as often as it takes when a process dies of it, and looks for what is left.
func (p *play) end() {
	t := p.t
	t.Helper()
	// A supervisor that was killed when nobody was there any more leaves its bundle to the next daemon, and a daemon that
	// is killed while it stops leaves everything.
	for range 3 {
		if p.g.Ended() && !p.g.Listens() && !p.start() {
			return
		}
		alive := p.killed != nil && !p.killed()
		r := p.g.Run("daemon", "stop", "--children")
		if r.Code != 0 {
			if !alive || !p.killed() {
				t.Fatalf("mcpx daemon stop --children: exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
			}
			for deadline := time.Now().Add(settleWithin); !p.g.Ended() && time.Now().Before(deadline); time.Sleep(pollEvery) {
			}
			continue // it was killed before its answer was out
		}
		if len(leftovers(t, p.g.Home)) == 0 {
			break
		}
	}
	var left []string
	for deadline := time.Now().Add(settleWithin); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		left = leftovers(t, p.g.Home)
		for pid, args := range rig.Naming(p.g.Home) {
			left = append(left, fmt.Sprintf("pid %d: %s", pid, args))
		}
		if len(left) == 0 {
			return
		}
	}
	complain(t, "left over", left)
}
