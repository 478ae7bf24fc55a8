package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

const (
	// loadClients call all the time while the daemon is restarted loadRestarts times.
	loadClients  = 32
	loadRestarts = 10
	// loadPause is the time between two restarts, in which the callers measure the usual latency.
	loadPause = 100 * time.Millisecond
)

// workCall is a call that can be told from every other one.
func workCall(id int, key string, wait time.Duration, modern bool) string {
	meta := ""
	if modern {
		meta = `,"_meta":{` + rig.Envelope(`{}`) + `}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"work","arguments":{"key":%q,"wait_ms":%d}%s}}`, id, key, wait.Milliseconds(), meta)
}

// sayOf is the text of a tool's answer; an answer that is none is an error.
func sayOf(raw []byte) (string, error) {
	var answer struct {
		Result *struct {
			Content []struct{ Text string }
		}
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Result == nil || len(answer.Result.Content) == 0 {
		return "", fmt.Errorf("no answer of the tool: %s", raw)
	}
	return answer.Result.Content[0].Text, nil
}

// caller calls until it is told to stop, one call after the other, and checks each answer.
type caller struct {
	client *rig.Client
	name   string
	modern bool
	pid    string // of its server, by the first answer
	any    bool   // the process may change

	took   []time.Duration
	during []time.Duration // calls that a restart touched
	failed error
}

func (c *caller) run(stop <-chan struct{}, restarts *atomic.Int64) {
	for n := 1; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		key := fmt.Sprintf("%s-%d", c.name, n)
		before := restarts.Load()
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		reply, err := c.client.Try(ctx, workCall(n, key, time.Duration(n%7)*time.Millisecond, c.modern))
		cancel()
		took := time.Since(began)
		if err == nil {
			err = c.check(reply, key)
		}
		if err != nil {
			c.failed = fmt.Errorf("%s, call %d, after %s: %w", c.name, n, took, err)
			return
		}
		if before%2 == 1 || restarts.Load() != before {
			c.during = append(c.during, took)
		} else {
			c.took = append(c.took, took)
		}
	}
}

// check wants the one true answer: "work KEY PID 1" of the process that answered before.
func (c *caller) check(r rig.Reply, key string) error {
	if err := trueAnswer(r, key); err != nil {
		return err
	}
	text, err := sayOf(r.Messages[len(r.Messages)-1])
	if err != nil {
		return err
	}
	word := strings.Fields(text)
	if c.pid == "" || c.any {
		c.pid = word[2]
	}
	if c.pid != word[2] {
		return fmt.Errorf("pid %s answers, it was %s", word[2], c.pid)
	}
	return nil
}

// TestRestartUnderLoad: ten restarts while 32 clients of both eras call, and not one call fails.
func TestRestartUnderLoad(t *testing.T) {
	g := rig.Start(t)
	g.Add("own", rig.Fixture(t, fakemcp.Options{}))
	g.Add("shared", rig.Fixture(t, fakemcp.Options{}))
	g.Share("shared")
	g.Add("modern", rig.Fixture(t, fakemcp.Options{Era: fakemcp.Modern}))
	g.Share("modern")
	g.AddURL("remote", serve(t, fakemcp.Options{Stateful: true}))
	callers := make([]*caller, loadClients)
	for i := range callers {
		c := &caller{name: fmt.Sprintf("client%d", i)}
		switch i % 5 {
		case 0:
			c.client = rig.Open(t, g.URL("own"), "2025-11-25", `{}`)
		case 1:
			c.client = rig.Open(t, g.URL("shared"), "2025-06-18", `{}`)
		case 2:
			c.client, c.modern = rig.NewClient(t, g.URL("modern")), true
		case 3:
			c.client, c.modern = rig.NewClient(t, g.URL("shared")), true
		case 4:
			c.client = rig.Open(t, g.URL("remote"), "2025-11-25", `{}`)
		}
		callers[i] = c
		if err := trueAnswer(c.client.Post(workCall(0, c.name, 0, c.modern)), c.name); err != nil { // the servers run
			t.Fatal(err)
		}
	}
	var restarts atomic.Int64 // odd while one runs
	stop := make(chan struct{})
	var running sync.WaitGroup
	for _, c := range callers {
		running.Go(func() { c.run(stop, &restarts) })
	}
	for range loadRestarts {
		time.Sleep(loadPause)
		restarts.Add(1)
		g.Must("daemon", "restart")
		restarts.Add(1)
	}
	time.Sleep(loadPause)
	close(stop)
	running.Wait()
	var usual, during []time.Duration
	for _, c := range callers {
		if c.failed != nil {
			t.Error(c.failed)
		}
		usual, during = append(usual, c.took...), append(during, c.during...)
	}
	slices.Sort(usual)
	slices.Sort(during)
	if len(usual) == 0 || len(during) == 0 {
		t.Fatalf("%d calls beside and %d during restarts", len(usual), len(during))
	}
	t.Logf("%d calls: beside restarts p50 %s, p99 %s; during restarts (%d calls) p50 %s, p99 %s, max %s", len(usual)+len(during),
		at(usual, 50), at(usual, 99), len(during), at(during, 50), at(during, 99), during[len(during)-1])
}

// noRestarts counts for callers whose latency nobody asks for.
var noRestarts atomic.Int64

// at is a percentile of sorted times.
func at(sorted []time.Duration, percent int) time.Duration {
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}
