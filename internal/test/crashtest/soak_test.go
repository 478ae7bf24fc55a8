package crashtest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

const (
	// soakKills is how often CI kills the daemon; `make soak` sets MCPX_SOAK_KILLS.
	soakKills = 50
	// callWithin bounds every call of a soak: the daemon is away for a fraction of a second at a time.
	callWithin = 60 * time.Second
	// callWork bounds how long a server works on a call.
	callWork = 60 * time.Millisecond
	// killEvery bounds the life of a daemon. Some are killed before they listen.
	killEvery = 400 * time.Millisecond
	// One of largeEvery answers has up to largeAnswer bytes, so that kills meet it on its way.
	largeEvery, largeAnswer = 10, 300_000
	// bridgeSlack is by how many open files a bridge may have more than at its start: connections of its workers.
	bridgeSlack = 3 * workers
	// workers is how many calls one client has in flight.
	workers = 2
)

// soakClient is one client of the soak: how it calls, and where.
type soakClient struct {
	name, kind, server string
	pid                int // of a bridge
	call               func(ctx context.Context, id, arguments string) (rig.Outcome, error)
}

// soakServers are four: two with a process for each session, two with one for all; one of each speaks both eras.
var soakServers = []struct {
	name   string
	era    fakemcp.Era
	global bool
}{
	{"session-legacy", fakemcp.Legacy, false},
	{"session-dual", fakemcp.Dual, false},
	{"global-legacy", fakemcp.Legacy, true},
	{"global-dual", fakemcp.Dual, true},
}

func workCall(id, arguments, meta string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"work","arguments":` + arguments + meta + `}}`
}

func legacyClient(t *testing.T, g *rig.Gateway, server string) soakClient {
	c := rig.Open(t, g.URL(server), "2025-11-25", `{}`)
	return soakClient{kind: "legacy", server: server, call: func(ctx context.Context, id, arguments string) (rig.Outcome, error) {
		return c.Persist(ctx, id, workCall(id, arguments, ""))
	}}
}

func modernClient(t *testing.T, g *rig.Gateway, server string) soakClient {
	c := rig.NewClient(t, g.URL(server))
	return soakClient{kind: "modern", server: server, call: func(ctx context.Context, id, arguments string) (rig.Outcome, error) {
		return c.Persist(ctx, id, workCall(id, arguments, `,"_meta":{`+rig.Envelope(`{}`)+`}`))
	}}
}

func connectClient(_ *testing.T, g *rig.Gateway, server string) soakClient {
	b := g.Connect(server)
	b.Initialize(`{}`)
	return soakClient{kind: "connect", server: server, pid: b.PID(), call: func(ctx context.Context, id, arguments string) (rig.Outcome, error) {
		return b.Call(ctx, id, workCall(id, arguments, ""))
	}}
}

// soakClients are sixteen.
func soakClients(t *testing.T, g *rig.Gateway) []soakClient {
	t.Helper()
	var all []soakClient
	for i, s := range []struct {
		server string
		make   func(*testing.T, *rig.Gateway, string) soakClient
	}{
		{"session-legacy", legacyClient},
		{"session-legacy", legacyClient},
		{"session-legacy", connectClient},
		{"session-legacy", connectClient},
		{"session-dual", legacyClient},
		{"session-dual", connectClient},
		{"session-dual", modernClient},
		{"session-dual", modernClient},
		{"global-legacy", legacyClient},
		{"global-legacy", legacyClient},
		{"global-legacy", connectClient},
		{"global-legacy", connectClient},
		{"global-dual", legacyClient},
		{"global-dual", connectClient},
		{"global-dual", modernClient},
		{"global-dual", modernClient},
	} {
		c := s.make(t, g, s.server)
		c.name = fmt.Sprintf("%s client %d on %s", c.kind, i, s.server)
		all = append(all, c)
	}
	return all
}

// hammer lets every client call until the context ends; calls that have begun get their time to end.
func hammer(until context.Context, clients []soakClient, l *ledger, random *rand.Rand) *sync.WaitGroup {
	var work sync.WaitGroup
	for i, c := range clients {
		for w := range workers {
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			work.Go(func() {
				for n := 0; until.Err() == nil; n++ {
					key := fmt.Sprintf("c%d-w%d-%d", i, w, n)
					// The same ids at all clients: a shared process must not mix them up.
					id := strconv.Itoa(w*1_000_000 + n + 1)
					pad := 0
					if own.IntN(largeEvery) == 0 {
						pad = own.IntN(largeAnswer)
					}
					arguments := fmt.Sprintf(`{"key":%q,"wait_ms":%d,"pad":%d}`, key, own.Int64N(callWork.Milliseconds()), pad)
					ctx, stop := context.WithTimeout(context.WithoutCancel(until), callWithin)
					o, err := c.call(ctx, id, arguments)
					stop()
					l.note(c.name, key, pad, o, err)
					if err != nil {
						return // the next call would only wait as long
					}
				}
			})
		}
	}
	return &work
}

// TestSoak kills the daemon at random moments under the load of 16 clients on 4 servers (supervisor.md S20).
func TestSoak(t *testing.T) {
	random := seeded(t)
	kills := amount(t, "MCPX_SOAK_KILLS", soakKills)
	g := rig.Start(t)
	var files []string
	for _, s := range soakServers {
		file := filepath.Join(g.Home, s.name+".record")
		files = append(files, file)
		g.Add(s.name, rig.Fixture(t, fakemcp.Options{Era: s.era, Record: file}))
		if s.global {
			g.Share(s.name)
		}
	}
	clients := soakClients(t, g)
	l := &ledger{}
	for i, c := range clients { // every child runs
		key := fmt.Sprintf("c%d-first", i)
		o, err := c.call(t.Context(), "999999999", fmt.Sprintf(`{"key":%q}`, key))
		l.note(c.name, key, 0, o, err)
	}
	before, shaken := children(t, g), readRecords(t, files...).handshakes
	descriptors := map[int]int{} // highest number allowed, by pid
	for _, supervisor := range before {
		descriptors[supervisor] = rig.Descriptors(supervisor)
	}
	for _, c := range clients {
		if c.pid != 0 {
			descriptors[c.pid] = rig.Descriptors(c.pid) + bridgeSlack
		}
	}

	load, stop := context.WithCancel(t.Context())
	defer stop()
	start := time.Now()
	work := hammer(load, clients, l, random)
	early := 0
	for range kills {
		time.Sleep(time.Duration(random.Int64N(int64(killEvery)))) // the moment of the kill is what is random here
		if !g.Listens() {
			early++
		}
		g.Kill()
		g.Spawn()
	}
	if how, ended := g.Await(); ended {
		t.Fatalf("the last daemon ended: %s", how)
	}
	stop()
	work.Wait()
	took := time.Since(start)

	r := readRecords(t, files...)
	classes := l.check(t, r)
	resumed, kinds := 0, map[string]int{}
	for _, e := range l.entries {
		kind, _, _ := strings.Cut(e.client, " ")
		kinds[kind+" "+e.class]++
		if e.resumes > 0 {
			resumed++
		}
	}
	t.Logf("%d kills in %s (%d before the daemon listened), %d calls (%.0f/s), %d of them resumed: %s",
		kills, took.Round(time.Millisecond), early, len(l.entries), float64(len(l.entries))/took.Seconds(), resumed, summary(kinds))
	for what, n := range kinds {
		if strings.HasPrefix(what, "connect ") && what != "connect answer" {
			t.Errorf("%s: %d times; a client of mcpx connect sees nothing but slower answers", what, n)
		}
	}
	if classes["answer"] < len(clients) {
		t.Errorf("hardly anything was answered")
	}
	settled := func() bool { return maps.Equal(before, children(t, g)) }
	deadline := time.Now().Add(10 * time.Second)
	for !settled() && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond) // ps has no event
	}
	if after := children(t, g); !maps.Equal(before, after) {
		t.Errorf("children (child: supervisor) were %v and are %v", before, after)
	}
	if r.handshakes != shaken {
		t.Errorf("%d handshakes, after the first calls there were %d", r.handshakes, shaken)
	}
	for _, e := range l.entries {
		if _, pid, _, _ := worked(e.body); e.class == "answer" && before[pid] == 0 {
			t.Errorf("%s: an answer of pid %d, which was not there at the beginning", e.client, pid)
			break
		}
	}
	for pid, n := range descriptors {
		if now := rig.Descriptors(pid); now > n {
			t.Errorf("process %d has %d open files, want at most %d", pid, now, n)
		}
	}
	var most int64
	for _, supervisor := range before {
		own, _ := rig.Memory(supervisor)
		most = max(most, own)
	}
	t.Logf("the largest supervisor has %.1f MiB of its own", float64(most)/(1<<20))
}
