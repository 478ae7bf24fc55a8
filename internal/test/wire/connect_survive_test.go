package wire

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// ownPort makes the address of the test's daemon that of every daemon of this home, also of those that a bridge starts.
func ownPort(t *testing.T, g *rig.Gateway) {
	t.Helper()
	dir := filepath.Join(g.Home, "config")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("[listener]\naddress = %q\n", g.Addr)
	if err := os.WriteFile(filepath.Join(dir, "mcpx.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// bridged is a client of `mcpx connect` with a session of its own.
type bridged struct {
	*rig.Bridge
	t *testing.T
}

// call makes one call that may meet the death of the daemon. It must have an answer.
func (b bridged) call(id, body string) []byte {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.t.Context(), persistWithin)
	defer stop()
	o, err := b.Call(ctx, id, body)
	if err != nil || o.Class != "answer" {
		b.t.Fatalf("call %s: %v, class %q: %s", id, err, o.Class, o.Body)
	}
	return o.Body
}

// TestConnectOutlivesTheDaemon: the daemon is killed in the middle of a call of `mcpx connect`. The bridge starts the
// next one, and its client sees one true answer, some time later than without the kill.
func TestConnectOutlivesTheDaemon(t *testing.T) {
	g := rig.New(t)
	ownPort(t, g)
	g.Serve()
	record := filepath.Join(g.Home, "slow.record")
	g.Add("slow", rig.Fixture(t, fakemcp.Options{Record: record}))
	t.Cleanup(func() { g.Must("daemon", "stop", "--children") })
	b := bridged{g.ConnectStarting("slow"), t}
	b.Initialize(`{}`)
	pid := number(t, b.call("1", tool("1", "pid", `{}`)))
	first := number(t, b.call("2", tool("2", "counter", `{}`)))

	begun := time.Now()
	answer := make(chan []byte, 1)
	go func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), persistWithin)
		defer stop()
		o, err := b.Call(ctx, "3", work("3", "long", `"wait_ms":6000`))
		if err != nil {
			o.Body = []byte(err.Error())
		}
		answer <- o.Body
	}()
	k := &kept{g: g, name: "slow", record: record}
	rig.Until(t, slack, "the child has the call", func() bool { return k.count(t, `"long"`) == 1 })
	time.Sleep(time.Until(begun.Add(time.Second))) // the call is a long one and in its middle
	g.Kill()
	if got, want := string(<-answer), fmt.Sprintf("work long %d 1", pid); !strings.Contains(got, want) {
		t.Errorf("the call ended with %s, want %s", got, want)
	}
	t.Logf("a call of 6 s took %s", time.Since(begun).Round(time.Millisecond))

	if got := number(t, b.call("4", tool("4", "pid", `{}`))); got != pid {
		t.Errorf("pid %d answers, it was %d", got, pid)
	}
	if got := number(t, b.call("5", tool("5", "counter", `{}`))); got != first+1 {
		t.Errorf("the counter says %d, want %d", got, first+1)
	}
	for part, want := range map[string]int{`"method":"initialize"`: 1, `"long"`: 1, `"counter"`: 2} {
		if got := k.count(t, part); got != want {
			t.Errorf("the child read %s %d times, want %d", part, got, want)
		}
	}
	if others := b.Asked(); len(others) > 0 {
		t.Errorf("the client saw %q", others)
	}
	status, err := g.API().DaemonStatus(t.Context(), api.None{})
	if err != nil || status.Pid == g.PID() {
		t.Errorf("the daemon now: %+v %v", status, err)
	}
}

// TestConnectManyKills: eight clients call while the daemon is killed ten times in a row. No call fails, none runs
// twice.
func TestConnectManyKills(t *testing.T) {
	const clients, kills = 8, 60
	g := rig.Start(t)
	var bridges []bridged
	for i := range clients {
		name := fmt.Sprintf("kill-%d", i)
		g.Add(name, rig.Fixture(t, fakemcp.Options{Record: filepath.Join(g.Home, name+".record")}))
		b := bridged{g.Connect(name), t}
		b.Initialize(`{}`)
		bridges = append(bridges, b)
	}
	var running sync.WaitGroup
	over := make(chan struct{})
	counts := make([]int, clients)
	for i, b := range bridges {
		running.Go(func() {
			for n := 1; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				id := fmt.Sprint(n)
				body := tool(id, "work", fmt.Sprintf(`{"key":"c%d","wait_ms":%d}`, i, 5+n*7%40))
				ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), persistWithin)
				o, err := b.Call(ctx, id, body)
				stop()
				// The tool says how often it ran with this key: each call once, in order.
				if err != nil || o.Class != "answer" || !strings.Contains(string(o.Body), fmt.Sprintf(" %d\"", n)) {
					t.Errorf("call %d of client %d: %v, class %q: %s", n, i, err, o.Class, o.Body)
					return
				}
				counts[i] = n
			}
		})
	}
	for kk := range kills {
		time.Sleep(time.Duration(7*kk%90) * time.Millisecond) // the clients call meanwhile
		g.Kill()
		g.Serve()
	}
	close(over)
	running.Wait()
	for i, n := range counts {
		k := &kept{g: g, record: filepath.Join(g.Home, fmt.Sprintf("kill-%d.record", i))}
		if got := k.count(t, `"work"`); got != n {
			t.Errorf("client %d made %d calls, its child read %d", i, n, got)
		}
		if got := k.count(t, `"method":"initialize"`); got != 1 {
			t.Errorf("the child of client %d read initialize %d times", i, got)
		}
	}
	t.Logf("calls of each client: %v", counts)
}

// TestConnectQuestionSurvives: a question of the server that the client has on its screen while the daemon dies is not
// shown again, and its answer arrives.
func TestConnectQuestionSurvives(t *testing.T) {
	g := rig.Start(t)
	record := filepath.Join(g.Home, "asks.record")
	g.Add("asks", rig.Fixture(t, fakemcp.Options{Record: record}))
	b := bridged{g.Connect("asks"), t}
	b.Initialize(`{"elicitation":{"form":{}}}`)
	answer := make(chan []byte, 1)
	go func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), persistWithin)
		defer stop()
		o, err := b.Call(ctx, "5", tool("5", "ask", `{"mark":"mark"}`))
		if err != nil {
			o.Body = []byte(err.Error())
		}
		answer <- o.Body
	}()
	rig.Until(t, slack, "the client is asked", func() bool { return len(b.Asked()) > 0 })
	g.Kill()
	g.Serve()
	again := b.call("6", tool("6", "pid", `{}`)) // the next daemon serves the session
	number(t, again)
	if asked := b.Asked(); len(asked) != 1 {
		t.Errorf("the client was asked %d times: %q", len(asked), asked)
	}
	if err := b.Send(answerTo(t, b.Asked()[0], `{"action":"accept","content":{"name":"n"}}`)); err != nil {
		t.Fatal(err)
	}
	if got := string(<-answer); !strings.Contains(got, "mark=mark") || !strings.Contains(got, `\"accept\"`) {
		t.Errorf("the call ended with %s", got)
	}
	k := &kept{g: g, record: record}
	if got := k.count(t, `"accept"`); got != 1 {
		t.Errorf("the child read the answer %d times", got)
	}
	if asked := b.Asked(); len(asked) != 1 {
		t.Errorf("the client was asked %d times: %q", len(asked), asked)
	}
}

// TestConnectPlannedRestart: the call of a bridge goes on over a planned restart, and so does its session.
func TestConnectPlannedRestart(t *testing.T) {
	g := rig.New(t)
	ownPort(t, g)
	g.Serve()
	record := filepath.Join(g.Home, "slow.record")
	g.Add("slow", rig.Fixture(t, fakemcp.Options{Record: record}))
	t.Cleanup(func() { g.Must("daemon", "stop", "--children") })
	b := bridged{g.Connect("slow"), t}
	b.Initialize(`{}`)
	pid := number(t, b.call("1", tool("1", "pid", `{}`)))
	k := &kept{g: g, name: "slow", record: record}
	answer := make(chan []byte, 1)
	go func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), persistWithin)
		defer stop()
		o, err := b.Call(ctx, "3", work("3", "long", `"wait_ms":3000`))
		if err != nil {
			o.Body = []byte(err.Error())
		}
		answer <- o.Body
	}()
	rig.Until(t, slack, "the child has the call", func() bool { return k.count(t, `"long"`) == 1 })
	g.Must("daemon", "restart")
	b.call("4", tool("4", "counter", `{}`))
	if got, want := string(<-answer), fmt.Sprintf("work long %d 1", pid); !strings.Contains(got, want) {
		t.Errorf("the call ended with %s, want %s", got, want)
	}
	if got := number(t, b.call("5", tool("5", "pid", `{}`))); got != pid {
		t.Errorf("pid %d answers, it was %d", got, pid)
	}
	if got := k.count(t, `"method":"initialize"`); got != 1 {
		t.Errorf("the child read initialize %d times", got)
	}
}

// TestConnectRevisions: the daemon is killed as soon as the child has the call, before and after the response has begun,
// in sessions whose streams have no priming event or no event ids at all.
func TestConnectRevisions(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			g := rig.Start(t)
			k := &kept{g: g, name: "old", record: filepath.Join(g.Home, "old.record")}
			g.Add("old", rig.Fixture(t, fakemcp.Options{Record: k.record}))
			b := bridged{g.Connect("old"), t}
			b.call(`"init"`, `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"rig","version":"1"}}}`)
			if err := b.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
				t.Fatal(err)
			}
			pid := number(t, b.call("1", tool("1", "pid", `{}`)))
			long := `"` + strings.Repeat("i", 100) + `"` // an id whose stream has a hash for a name
			for i, id := range []string{"2", long, `"zwölf"`} {
				key := fmt.Sprintf("key-%d", i)
				answer := make(chan []byte, 1)
				go func() {
					ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), persistWithin)
					defer stop()
					o, err := b.Call(ctx, id, work(id, key, `"wait_ms":600`))
					if err != nil {
						o.Body = []byte(err.Error())
					}
					answer <- o.Body
				}()
				rig.Until(t, slack, "the child has the call", func() bool { return k.count(t, quote(key)) == 1 })
				time.Sleep(time.Duration(i) * 200 * time.Millisecond) // before, at and after the 250 ms of a response
				g.Kill()
				g.Serve()
				if got, want := string(<-answer), fmt.Sprintf("work %s %d 1", key, pid); !strings.Contains(got, want) {
					t.Errorf("call %s ended with %s, want %s", id, got, want)
				}
			}
			if got := k.count(t, `"work"`); got != 3 {
				t.Errorf("the child read %d calls, want 3", got)
			}
		})
	}
}

// TestConnectBatch: the requests of a batch that is in flight are answered one by one.
func TestConnectBatch(t *testing.T) {
	g := rig.Start(t)
	k := &kept{g: g, name: "batch", record: filepath.Join(g.Home, "batch.record")}
	g.Add("batch", rig.Fixture(t, fakemcp.Options{Record: k.record}))
	b := bridged{g.Connect("batch"), t}
	b.call(`"init"`, `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"rig","version":"1"}}}`)
	if err := b.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		t.Fatal(err)
	}
	two := make(chan []byte, 1)
	go func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), persistWithin)
		defer stop()
		o, err := b.Call(ctx, "2", "["+work("1", "one", `"wait_ms":800`)+","+work("2", "two", `"wait_ms":800`)+"]")
		if err != nil {
			o.Body = []byte(err.Error())
		}
		two <- o.Body
	}()
	one := b.Waits("1")
	rig.Until(t, slack, "the child has both", func() bool { return k.count(t, `"work"`) == 2 })
	g.Kill()
	g.Serve()
	for key, answer := range map[string]<-chan []byte{"one": one, "two": two} {
		if got := string(<-answer); !strings.Contains(got, "work "+key+" ") || !strings.Contains(got, ` 1"`) {
			t.Errorf("%s was answered with %s", key, got)
		}
	}
}

// TestConnectCancelAfterKill: a cancellation reaches a call that an earlier daemon sent, and the client gets no answer to
// what it cancelled.
func TestConnectCancelAfterKill(t *testing.T) {
	g := rig.Start(t)
	k := &kept{g: g, name: "cancel", record: filepath.Join(g.Home, "cancel.record")}
	g.Add("cancel", rig.Fixture(t, fakemcp.Options{Record: k.record}))
	b := bridged{g.Connect("cancel"), t}
	b.Initialize(`{}`)
	b.call("1", tool("1", "pid", `{}`))
	if err := b.Send(tool("2", "hang", `{}`)); err != nil {
		t.Fatal(err)
	}
	rig.Until(t, slack, "the child has the call", func() bool { return k.count(t, `"name":"hang"`) == 1 })
	g.Kill()
	g.Serve()
	if err := b.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`); err != nil {
		t.Fatal(err)
	}
	rig.Until(t, 5*time.Second, "the child was told", func() bool { return k.count(t, "notifications/cancelled") == 1 })
	b.call("3", tool("3", "pid", `{}`)) // an answer to 2 would be odd, which Connect reports
}
