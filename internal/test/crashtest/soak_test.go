package crashtest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

const (
	// soakKills is how often CI kills the daemon; `make soak` sets MCPX_SOAK_KILLS.
	soakKills = 50
	// mixedRounds is how often TestSoakMixed does something in CI; MCPX_SOAK_ROUNDS sets it.
	mixedRounds = 25
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

// soak is one daemon, four servers, sixteen clients, and what they were like before anything was killed.
type soak struct {
	t       *testing.T
	g       *rig.Gateway
	random  *rand.Rand
	files   []string // records of the servers
	clients []soakClient
	ledger  ledger

	before      map[int]int // child to supervisor
	handshakes  int
	descriptors map[int]int // highest number allowed, by pid
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{t: t, random: seeded(t), g: rig.Start(t), descriptors: map[int]int{}}
	for _, server := range soakServers {
		file := filepath.Join(s.g.Home, server.name+".record")
		s.files = append(s.files, file)
		s.g.Add(server.name, rig.Fixture(t, fakemcp.Options{Era: server.era, Record: file}))
		if server.global {
			s.g.Share(server.name)
		}
	}
	s.clients = soakClients(t, s.g)
	for i, c := range s.clients { // every child runs
		key := fmt.Sprintf("c%d-first", i)
		o, err := c.call(t.Context(), "999999999", fmt.Sprintf(`{"key":%q}`, key))
		s.ledger.note(c.name, key, 0, o, err)
	}
	s.before, s.handshakes = children(t, s.g), readRecords(t, s.files...).handshakes
	for _, supervisor := range s.before {
		s.descriptors[supervisor] = rig.Descriptors(supervisor)
	}
	for _, c := range s.clients {
		if c.pid != 0 {
			s.descriptors[c.pid] = rig.Descriptors(c.pid) + bridgeSlack
		}
	}
	return s
}

// under runs what is done to the daemon while all clients call.
func (s *soak) under(what string, harm func()) {
	s.t.Helper()
	load, stop := context.WithCancel(s.t.Context())
	defer stop()
	start := time.Now()
	work := hammer(load, s.clients, &s.ledger, s.random)
	harm()
	stop()
	work.Wait()
	took := time.Since(start)

	r := readRecords(s.t, s.files...)
	s.ledger.check(s.t, r)
	resumed, kinds := 0, map[string]int{}
	for _, e := range s.ledger.entries {
		kind, _, _ := strings.Cut(e.client, " ")
		kinds[kind+" "+e.class]++
		if e.resumes > 0 {
			resumed++
		}
	}
	n := len(s.ledger.entries)
	s.t.Logf("%s in %s, %d calls (%.0f/s), %d of them resumed: %s", what, took.Round(time.Millisecond), n, float64(n)/took.Seconds(), resumed, summary(kinds))
	for _, kind := range []string{"legacy", "modern", "connect"} {
		if kinds[kind+" answer"] < len(s.clients) {
			s.t.Errorf("hardly any call of a %s client was answered", kind)
		}
	}
	var slower, unknown []string
	for _, e := range s.ledger.entries {
		kind, _, _ := strings.Cut(e.client, " ")
		if told := fmt.Sprintf("%s, key %s: %.300s", e.client, e.key, e.body); kind == "connect" && e.class != "answer" {
			slower = append(slower, told)
		} else if kind == "legacy" && e.class == "sent_unknown" {
			unknown = append(unknown, told)
		}
	}
	complain(s.t, "answers of mcpx connect, whose clients see nothing but slower ones", slower)
	if len(unknown) > 0 {
		s.t.Logf("unknown outcomes are allowed, but why were there %d: %s", len(unknown), unknown[0])
	}
	s.unchanged(r)
}

// unchanged compares the processes with those of the beginning.
func (s *soak) unchanged(r records) {
	t := s.t
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !maps.Equal(s.before, children(t, s.g)) && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond) // ps has no event
	}
	if after := children(t, s.g); !maps.Equal(s.before, after) {
		t.Errorf("children (child: supervisor) were %v and are %v", s.before, after)
	}
	if r.handshakes != s.handshakes {
		t.Errorf("%d handshakes, after the first calls there were %d", r.handshakes, s.handshakes)
	}
	for _, e := range s.ledger.entries {
		if _, pid, _, _ := worked(e.body); e.class == "answer" && s.before[pid] == 0 {
			t.Errorf("%s: an answer of pid %d, which was not there at the beginning", e.client, pid)
			break
		}
	}
	for pid, n := range s.descriptors {
		// A supervisor opens a file for a moment when it gives memory back: only what stays is left over.
		for deadline := time.Now().Add(10 * time.Second); rig.Descriptors(pid) > n && time.Now().Before(deadline); {
			time.Sleep(20 * time.Millisecond) // nor do descriptors
		}
		if now := rig.Descriptors(pid); now > n {
			t.Errorf("%s has %d open files, want at most %d:\n%s", rig.Naming(s.g.Home)[pid], now, n, strings.Join(rig.Opened(pid), "\n"))
		}
	}
	var most int64
	for _, supervisor := range s.before {
		own, _ := rig.Memory(supervisor)
		most = max(most, own)
	}
	t.Logf("the largest supervisor has %.1f MiB of its own", float64(most)/(1<<20))
}

// TestS20Soak kills the daemon at random moments under the load of 16 clients on 4 servers (supervisor.md S20).
func TestS20Soak(t *testing.T) {
	s := newSoak(t)
	kills, early := amount(t, "MCPX_SOAK_KILLS", soakKills), 0
	s.under(fmt.Sprintf("%d kills", kills), func() {
		for range kills {
			time.Sleep(time.Duration(s.random.Int64N(int64(killEvery)))) // the moment of the kill is what is random here
			if !s.g.Listens() {
				early++
			}
			s.g.Kill()
			s.g.Spawn()
		}
		if how, ended := s.g.Await(); ended {
			t.Fatalf("the last daemon ended: %s", how)
		}
	})
	t.Logf("%d kills met a daemon that did not listen yet", early)
}

// TestSoakMixed does to the daemon whatever happens to one in a random order: kills, planned restarts, kills in the middle
// of a planned restart, and orderly stops.
func TestSoakMixed(t *testing.T) {
	s := newSoak(t)
	rounds := amount(t, "MCPX_SOAK_ROUNDS", mixedRounds)
	p := &play{t: t, g: s.g, stop: make(chan struct{})}
	done := map[string]int{}
	s.under(fmt.Sprintf("%d rounds", rounds), func() {
		p.kept.Go(p.keep)
		for range rounds {
			time.Sleep(time.Duration(s.random.Int64N(int64(killEvery)))) // as above
			switch s.random.IntN(4) {
			case 0:
				done["kill"]++
				killDaemons(s.g, nil)
			case 1:
				done["restart"]++
				p.restart()
			case 2:
				done["kill in a restart"]++
				var restart sync.WaitGroup
				restart.Go(p.restart)
				time.Sleep(time.Duration(s.random.Int64N(int64(killEvery / 4))))
				killDaemons(s.g, s.random)
				restart.Wait()
			case 3:
				done["stop"]++
				p.change("", func(ctx context.Context, c *api.Client) error {
					_, err := c.DaemonStop(ctx, api.StopDaemon{})
					return err
				})
			}
		}
		p.change("", func(ctx context.Context, c *api.Client) error { // a daemon is there
			_, err := c.Status(ctx, api.None{})
			return err
		})
	})
	close(p.stop)
	p.kept.Wait()
	t.Log(summary(done))
	s.g.Must("daemon", "stop", "--children")
}

// killDaemons ends all daemons of a home by SIGKILL, old ones that only lead connections on among them, or with a random
// number one of them.
func killDaemons(g *rig.Gateway, random *rand.Rand) {
	var pids []int
	for pid, args := range rig.Naming(g.Home) {
		if strings.Contains(args, "mcpx serve") {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	if random != nil && len(pids) > 0 {
		pids = []int{pids[random.IntN(len(pids))]}
	}
	for _, pid := range pids {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill() // it may have ended by itself
		}
	}
}
