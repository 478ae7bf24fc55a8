package crashtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
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
	// stormKills is how many things are killed or stopped; MCPX_STORM_KILLS is another number.
	stormKills = 40
	// stormEvery bounds the time between two of them: the next one often meets the recovery of the one before.
	stormEvery = 250 * time.Millisecond
	// stormLimit is the time limit of a call without progress. Some calls take longer.
	stormLimit = time.Second
	// stormPause bounds for how long a process is stopped.
	stormPause = 300 * time.Millisecond
)

// stormServers are three: a process for each session, one for all, and one for all that speaks both eras.
var stormServers = []struct {
	name   string
	era    fakemcp.Era
	global bool
}{
	{"one", fakemcp.Legacy, false},
	{"all", fakemcp.Legacy, true},
	{"dual", fakemcp.Dual, true},
}

// stormClient calls with everything that happens to calls: they take too long, they are cancelled, their clients leave.
type stormClient struct {
	name string
	c    *rig.Client
}

// calls runs one worker of a client until the context ends.
func (s stormClient) calls(until context.Context, worker string, first int, l *ledger, own *rand.Rand) {
	for n := first; until.Err() == nil; n++ {
		key := fmt.Sprintf("%s-%d", worker, n)
		id := strconv.Itoa(n)
		wait := own.Int64N(80)
		if own.IntN(25) == 0 {
			wait = stormLimit.Milliseconds() * 2 // it times out
		}
		ctx, stop := context.WithTimeout(context.WithoutCancel(until), callWithin)
		if own.IntN(4) == 0 {
			after, says := time.Duration(own.Int64N(60))*time.Millisecond, own.IntN(2) == 0
			timer := time.AfterFunc(after, func() {
				if says {
					_, _ = s.c.Try(ctx, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`) // it may not get there
				}
				stop()
			})
			o, err := s.c.Persist(ctx, id, workCall(id, fmt.Sprintf(`{"key":%q,"wait_ms":%d}`, key, wait), ""))
			timer.Stop()
			if err != nil && (ctx.Err() != nil || says) {
				o, err = rig.Outcome{Class: "broken"}, nil // its client left, or wants no answer any more
			}
			l.note(s.name, key, 0, o, err)
			stop()
			continue
		}
		o, err := s.c.Persist(ctx, id, workCall(id, fmt.Sprintf(`{"key":%q,"wait_ms":%d}`, key, wait), ""))
		stop()
		l.note(s.name, key, 0, o, err)
		if err != nil {
			return
		}
	}
}

// respawn starts a daemon that can be killed by us, in the place of whoever serves.
func respawn(t *testing.T, g *rig.Gateway) {
	t.Helper()
	serving := func() int {
		ctx, cancel := context.WithTimeout(t.Context(), stepWithin)
		defer cancel()
		d, err := g.API().DaemonStatus(ctx, api.None{})
		if err != nil {
			return 0
		}
		return d.Pid
	}
	for range maxStarts {
		if pid := serving(); pid > 0 {
			rig.KillHard(t, pid)
			rig.Until(t, stepWithin, "the daemon has ended", func() bool { return !rig.Alive(pid) })
		}
		g.Spawn()
		if _, ended := g.Await(); ended {
			continue
		}
		if serving() == g.PID() {
			return
		}
		g.Kill()
	}
	t.Fatalf("no daemon of ours after %d starts", maxStarts)
}

// TestStorm kills and stops daemons, supervisors and children at random while calls are cancelled, time out and are left:
// no call that ran is told to be safe to repeat, and no answer reaches another call.
func TestStorm(t *testing.T) {
	random := seeded(t)
	kills := amount(t, "MCPX_STORM_KILLS", stormKills)
	g := rig.Start(t)
	var files []string
	for _, s := range stormServers {
		file := filepath.Join(g.Home, s.name+".record")
		files = append(files, file)
		g.Add(s.name, rig.Fixture(t, fakemcp.Options{Era: s.era, Record: file}), "--call-timeout", stormLimit.String())
		if s.global {
			g.Share(s.name)
		}
	}
	var clients []stormClient
	for _, s := range stormServers {
		for i := range 2 {
			clients = append(clients, stormClient{name: fmt.Sprintf("client %d on %s", i, s.name), c: rig.Open(t, g.URL(s.name), "2025-11-25", `{}`)})
		}
	}
	l := &ledger{}
	load, stop := context.WithCancel(t.Context())
	defer stop()
	var work sync.WaitGroup
	for i, c := range clients {
		for w := range workers {
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			work.Go(func() { c.calls(load, fmt.Sprintf("c%d-w%d", i, w), (w+1)*1_000_000, l, own) })
		}
	}
	did := map[string]int{}
	for range kills {
		time.Sleep(time.Duration(random.Int64N(int64(stormEvery)))) // the moment is what is random here
		what := random.IntN(11)
		var ps []api.Process
		if what >= 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			page, err := g.API().Processes(ctx, api.ProcessQuery{})
			cancel()
			if err == nil {
				ps = page.Processes
			}
		}
		if what >= 5 && what < 10 && len(ps) == 0 {
			what = 0
		}
		var p api.Process
		if len(ps) > 0 {
			p = ps[random.IntN(len(ps))]
		}
		switch {
		case what < 5:
			did["daemon killed"]++
			g.Kill()
			g.Spawn()
		case what == 5 && p.Supervisor > 0 && rig.Alive(p.Supervisor):
			did["supervisor killed"]++
			rig.KillHard(t, p.Supervisor)
		case what == 6 && p.Pid > 0 && rig.Alive(p.Pid):
			did["child and daemon killed"]++
			rig.KillHard(t, p.Pid)
			g.Kill()
			g.Spawn()
		case what == 7 && p.Supervisor > 0 && rig.Alive(p.Supervisor):
			did["supervisor stopped, daemon killed"]++
			rig.Pause(t, p.Supervisor)
			g.Kill()
			g.Spawn()
			time.Sleep(time.Duration(random.Int64N(int64(stormPause))))
			rig.Continue(t, p.Supervisor)
		case what == 8 && p.Pid > 0 && rig.Alive(p.Pid):
			did["child stopped, daemon killed"]++
			rig.Pause(t, p.Pid)
			time.Sleep(time.Duration(random.Int64N(int64(stormPause))))
			g.Kill()
			g.Spawn()
			rig.Continue(t, p.Pid)
		case what == 10:
			// The daemon is killed while it hands over: before, in the middle, or when it only relays any more.
			did["daemon killed in a hand-over"]++
			restart := make(chan struct{})
			go func() {
				defer close(restart)
				ctx, cancel := context.WithTimeout(t.Context(), stepWithin)
				defer cancel()
				_, _ = g.API().DaemonRestart(ctx, api.RestartDaemon{}) // whatever comes of it: somebody serves, or nobody
			}()
			time.Sleep(time.Duration(random.Int64N(int64(stormPause))))
			g.Kill()
			<-restart
			respawn(t, g)
		case what == 9:
			did["daemon stopped"]++
			pid := g.PID()
			rig.Pause(t, pid)
			time.Sleep(time.Duration(random.Int64N(int64(stormPause))))
			rig.Continue(t, pid)
		}
	}
	if how, ended := g.Await(); ended {
		t.Fatalf("the last daemon ended: %s", how)
	}
	stop()
	work.Wait()
	rig.Until(t, settleWithin, "supervisors that nobody came for have left", func() bool {
		page, err := g.API().Processes(t.Context(), api.ProcessQuery{})
		if err != nil {
			return false
		}
		known := map[int]bool{}
		for _, p := range page.Processes {
			known[p.Supervisor] = true
		}
		for pid, command := range rig.Naming(g.Home) {
			if strings.Contains(command, " supervise ") && !known[pid] {
				return false
			}
		}
		return true
	})
	r := readRecords(t, files...)
	classes := l.check(t, r)
	t.Logf("%s; %d calls: %s", summary(did), len(l.entries), summary(classes))
}
