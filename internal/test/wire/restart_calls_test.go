package wire

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// through is how long a call takes that runs through two restarts. The calls of direct children are given 10 s.
func through() time.Duration {
	if full() {
		return 20 * time.Second
	}
	return 4 * time.Second
}

// TestLongCallThroughRestarts: in every lane a call that runs while the daemon is replaced twice gets its one true answer,
// and the child is the same afterwards.
func TestLongCallThroughRestarts(t *testing.T) {
	takes := through()
	g := rig.Start(t)
	type running struct {
		lane
		client *rig.Client
		pid    int
		end    chan error
	}
	var calls []*running
	for _, p := range plans() {
		o := fakemcp.Options{Era: p.era}
		if p.stdio {
			g.Add(p.name, rig.Fixture(t, o), p.flags...)
		} else {
			o.Stateful = true
			g.AddURL(p.name, serve(t, o), p.flags...)
		}
		if p.global {
			g.Share(p.name)
		}
		l := p.lane
		l.url = g.URL(p.name)
		r := &running{lane: l, client: l.client(t, `{}`), end: make(chan error, 1)}
		r.pid = number(t, definite(t, r.client, workless(l, "1", "pid"), persistWithin, "answer"))
		calls = append(calls, r)
	}
	b := g.Connect("ll-global-supervised")
	b.Initialize(`{}`)
	start := time.Now()
	bridged := make(chan error, 1)
	go func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), takes+persistWithin)
		defer stop()
		o, err := b.Call(ctx, "7", workCall(7, "bridged", takes, false))
		if err == nil {
			err = trueAnswer(rig.Reply{Status: 200, Messages: [][]byte{o.Body}}, "bridged")
		}
		bridged <- err
	}()
	for _, r := range calls {
		go func() {
			ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), takes+persistWithin)
			defer stop()
			reply, err := r.client.Try(ctx, workCall(7, r.name, takes, r.modern))
			if err == nil {
				err = trueAnswer(reply, r.name)
			}
			r.end <- err
		}()
	}
	for i := range 2 {
		time.Sleep(time.Until(start.Add(takes * time.Duration(i+1) / 4))) // when things happen is what this test is about
		g.Must("daemon", "restart")
	}
	if time.Since(start) > takes {
		t.Logf("the machine was so busy that the restarts took longer than the calls")
	}
	if err := <-bridged; err != nil {
		t.Errorf("mcpx connect: %v", err)
	}
	if odd := b.Odd(); len(odd) > 0 {
		t.Errorf("mcpx connect printed %q", odd)
	}
	for _, r := range calls {
		err := <-r.end
		direct := strings.Contains(r.name, "direct")
		if direct && takes > 10*time.Second {
			if err == nil || !strings.Contains(err.Error(), "sent_unknown") {
				t.Errorf("%s: a call on a direct child beyond its time: %v", r.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", r.name, err)
			continue
		}
		if direct {
			continue // its child ends with its daemon
		}
		if got := number(t, definite(t, r.client, workless(r.lane, "8", "pid"), persistWithin, "answer")); got != r.pid {
			t.Errorf("%s: pid %d answers, it was %d", r.name, got, r.pid)
		}
	}
}

// workless calls a tool without arguments in the era of the lane.
func workless(l lane, id, name string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":%s}`, id, l.params(`"name":`+quote(name), `"arguments":{}`))
}

// trueAnswer wants "work KEY PID 1": of the call that was made, run once.
func trueAnswer(r rig.Reply, key string) error {
	if r.Status != 200 || len(r.Messages) == 0 {
		return fmt.Errorf("HTTP %d: %s", r.Status, r.Body)
	}
	text, err := sayOf(r.Messages[len(r.Messages)-1])
	if err != nil {
		return err
	}
	if word := strings.Fields(text); len(word) != 4 || word[1] != key || word[3] != "1" {
		return fmt.Errorf("%q answers %s", text, key)
	}
	return nil
}

// TestQuestionThroughRestarts: a question that a client was shown before the restarts is not shown again, and its answer
// reaches the server.
func TestQuestionThroughRestarts(t *testing.T) {
	g := rig.Start(t)
	k := keep(t, g, "s", fakemcp.Options{})
	stream := k.c.Begin(tool("5", "ask", `{"method":"elicitation/create","mark":"mark"}`))
	question := stream.Await("elicitation/create", slack)
	g.Must("daemon", "restart")
	g.Must("daemon", "restart")
	reply(t, k.c, question, `{"action":"accept","content":{"name":"n"}}`)
	for {
		e, ok := stream.Next(10 * time.Second)
		if !ok {
			t.Fatal("the stream ended without the answer")
		}
		if strings.Contains(string(e.Data), "elicitation/create") {
			t.Errorf("the question came once more: %s", e.Data)
		}
		if strings.Contains(string(e.Data), `"id":5`) {
			if !strings.Contains(string(e.Data), "mark=mark") {
				t.Errorf("the call was answered with %s", e.Data)
			}
			break
		}
	}
	k.unchanged(t, "6")
}

// TestListenThroughRestart: the subscription of a modern client goes on, without a second acknowledgement, whoever owns the
// server.
func TestListenThroughRestart(t *testing.T) {
	g := rig.Start(t)
	for _, p := range plans() {
		if !p.modern || !p.stdio {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			g.Add(p.name, rig.Fixture(t, fakemcp.Options{Era: p.era}), p.flags...)
			if p.global {
				g.Share(p.name)
			}
			l := p.lane
			l.url = g.URL(p.name)
			c := l.client(t, everything)
			const changed = "notifications/tools/list_changed"
			stream := c.Begin(`{"jsonrpc":"2.0","id":"listen","method":"subscriptions/listen","params":` + l.params(`"notifications":{"toolsListChanged":true}`) + `}`)
			stream.Await("notifications/subscriptions/acknowledged", 10*time.Second)
			if l.backendModern() {
				stream.Await(changed, 10*time.Second) // it tells at the beginning of each listen
			}
			g.Must("daemon", "restart")
			if !l.backendModern() {
				trigger := `{"jsonrpc":"2.0","method":"` + changed + `"}`
				rig.Until(t, slack, "the next daemon listens", func() bool { return len(g.Processes(p.name)) > 0 && g.Processes(p.name)[0].State == "ready" })
				c.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + l.params(`"name":"raw","arguments":{"lines":[`+quote(trigger)+`,`+quote(done)+`]}`) + `}`)
			}
			for {
				e, ok := stream.Next(10 * time.Second)
				if !ok {
					t.Fatal("the stream ended")
				}
				if strings.Contains(string(e.Data), "acknowledged") {
					t.Errorf("acknowledged again: %s", e.Data)
				}
				if strings.Contains(string(e.Data), changed) {
					break
				}
			}
		})
	}
}

// TestCommandThroughRestart: `mcpx server call` waits for its answer through a restart, too.
func TestCommandThroughRestart(t *testing.T) {
	g := rig.Start(t)
	for _, era := range []fakemcp.Era{fakemcp.Legacy, fakemcp.Modern} {
		name := string(era)
		g.Add(name, rig.Fixture(t, fakemcp.Options{Era: era}))
		end := make(chan rig.Result, 1)
		go func() { end <- g.Run("server", "call", name, "work", fmt.Sprintf(`{"key":%q,"wait_ms":1500}`, name)) }()
		rig.Until(t, slack, "the call is in flight", func() bool {
			ps := g.Processes(name)
			return len(ps) > 0 && ps[0].InFlight > 0
		})
		g.Must("daemon", "restart")
		r := <-end
		if word := strings.Fields(r.Stdout); r.Code != 0 || len(word) != 4 || word[1] != name || word[3] != "1" {
			t.Errorf("%s: exit code %d\n%s%s", name, r.Code, r.Stdout, r.Stderr)
		}
	}
}

// TestIdleConnectionIsServed: a request on a connection that was idle over a restart is answered, and the connection ends
// with it. An abrupt end would fail a request that is just on its way.
func TestIdleConnectionIsServed(t *testing.T) {
	g := rig.Start(t)
	k := keep(t, g, "s", fakemcp.Options{})
	conn, err := net.Dial("tcp", g.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	closes := func(id int) bool {
		t.Helper()
		body := tool(fmt.Sprint(id), "pid", `{}`)
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "POST /servers/s/mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", g.Addr, k.c.Session, len(body), body); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 || number(t, lastMessage(raw)) != k.child {
			t.Errorf("request %d: HTTP %d %s, %v", id, res.StatusCode, raw, err)
		}
		return res.Close
	}
	if closes(10) {
		t.Error("a connection ends without a restart")
	}
	g.Must("daemon", "restart")
	if !closes(11) {
		t.Error("the connection goes on with the old process")
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("the connection is open still")
	}
}

// lastMessage is the last message of a body, JSON or events.
func lastMessage(body []byte) []byte {
	if at := bytes.LastIndex(body, []byte("data: {")); at >= 0 {
		body = body[at+len("data: "):]
	}
	return bytes.TrimSpace(body)
}

// TestRestartEndsStreams: the GET stream of a session ends, and opens again at the next daemon, with notifications.
func TestRestartEndsStreams(t *testing.T) {
	g := rig.Start(t)
	g.Add("s", rig.Fixture(t, fakemcp.Options{}))
	c := rig.Open(t, g.URL("s"), "2025-11-25", `{}`)
	open := c.Listen()
	g.Must("daemon", "restart")
	if e, ok := open.Next(slack); ok {
		t.Errorf("the stream goes on with %s", e.Data)
	}
	again := c.Listen()
	if again.Status != 200 {
		t.Errorf("the stream opens again with HTTP %d", again.Status)
	}
	definite(t, c, tool("2", "counter", `{}`), slack, "answer")
}

// otherBinary is a script that says that it is an mcpx; what it does when it is to take over is up to the test. REAL is
// the mcpx of the test.
func otherBinary(t *testing.T, g *rig.Gateway, serve string) string {
	t.Helper()
	file := filepath.Join(g.Home, "other-mcpx")
	script := "#!/bin/sh\nREAL=" + g.Binary + "\n[ \"$1\" = version ] && exec $REAL \"$@\"\n" + serve + "\n"
	if err := os.WriteFile(file, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestFailedUpgrade: whatever is wrong with the next daemon, the old one goes on, with its sessions and children, while a
// client calls; the command says why.
func TestFailedUpgrade(t *testing.T) {
	g := rig.Start(t)
	k := keep(t, g, "s", fakemcp.Options{})
	for _, c := range []struct {
		name, serve string // serve "": no script at all
		full        bool   // takes its time
		want        string
	}{
		{name: "it ends at once", serve: "exit 1", want: "ended before it said"},
		{name: "it says something else", serve: "echo hello >&4; exit 1", want: "not understood"},
		{name: "it ends when it is its turn", serve: `echo '{"state":"prepared"}' >&4; read -r go <&3; exit 1`, want: `ended before it said "serving"`},
		{name: "it cannot take its turn", serve: `echo '{"state":"prepared"}' >&4; read -r go <&3; echo '{"state":"failed","problem":{"kind":"unavailable","code":"x","message":"the disk is full"}}' >&4; exit 1`, want: "the disk is full"},
		{name: "it dies before its turn", serve: `echo '{"state":"prepared"}' >&4; exec 3<&-; exit 1`, want: "could not start"},
		{name: "it hangs", serve: "exec sleep 1000", full: true, want: "said nothing for"},
		{name: "it hangs when it is its turn", serve: `echo '{"state":"prepared"}' >&4; read -r go <&3; exec sleep 1000`, full: true, want: "said nothing for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.full && !full() {
				t.Skip("skip: 20 s of waiting only with MCPX_TEST_FULL")
			}
			bin := otherBinary(t, g, c.serve)
			load := &caller{client: k.c.On(t), name: strings.ReplaceAll(c.name, " ", "-")}
			stop := make(chan struct{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				load.run(stop, &noRestarts)
			}()
			r := g.Run("daemon", "upgrade", "--binary", bin)
			close(stop)
			<-ended
			if load.failed != nil {
				t.Error(load.failed)
			}
			if r.Code == 0 || !strings.Contains(r.Stderr, c.want) || !strings.Contains(r.Stderr, "goes on as before") {
				t.Errorf("exit code %d, want an error with %q\n%s", r.Code, c.want, r.Stderr)
			}
			k.unchanged(t, "9")
			if d := g.Must("daemon", "status", "--json"); !strings.Contains(d, fmt.Sprintf(`"pid": %d`, g.PID())) {
				t.Errorf("another process is the daemon now: %s", d)
			}
		})
	}
	t.Run("no mcpx", func(t *testing.T) {
		plain := filepath.Join(g.Home, "plain")
		if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, bin := range []string{plain, filepath.Join(g.Home, "absent"), g.Home, "/bin/true"} {
			if r := g.Run("daemon", "upgrade", "--binary", bin); r.Code == 0 || !strings.Contains(r.Stderr, "no mcpx that runs here") {
				t.Errorf("%s: exit code %d\n%s", bin, r.Code, r.Stderr)
			}
		}
		k.unchanged(t, "10")
	})
	t.Run("broken settings", func(t *testing.T) {
		settings := filepath.Join(g.Home, "config", "mcpx.toml")
		if err := os.MkdirAll(filepath.Dir(settings), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(settings, []byte("[listener\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := g.Run("daemon", "restart"); r.Code == 0 || !strings.Contains(r.Stderr, "mcpx.toml, line 1") {
			t.Errorf("exit code %d\n%s", r.Code, r.Stderr)
		}
		k.unchanged(t, "11")
		if err := os.Remove(settings); err != nil {
			t.Fatal(err)
		}
		g.Must("daemon", "restart")
		k.unchanged(t, "12")
	})
}
