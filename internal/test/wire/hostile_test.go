package wire

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

const (
	// startLimit is the gateway's own deadline for spawn, probe and handshake, and what the test allows on top.
	startLimit = 60*time.Second + 10*time.Second
	// callLimit is the --call-timeout of the hostile servers; an answer must come within it and a little. It is longer than
	// graceLimit, so that a class tells whether the loss was seen or only waited for.
	callLimit = 5 * time.Second
	// graceLimit is how long stdout may be held by a grandchild, or closed by a child that lives, before the loss counts.
	graceLimit = 3*time.Second + time.Second
	slack      = 2 * time.Second
	// neighbourLimit is how fast a healthy server answers whatever happens beside it.
	neighbourLimit = time.Second
)

// neighbour is a healthy server in the same daemon, asked all the time while run runs. It must never be slow.
func neighbour(t *testing.T, g *rig.Gateway, run func()) {
	t.Helper()
	c := rig.Open(t, g.URL("neighbour"), "2025-11-25", `{}`)
	ctx, stop := context.WithCancel(t.Context())
	slowest := make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for ctx.Err() == nil {
			start := time.Now()
			if _, err := c.Try(t.Context(), raw("1", "", done)); err != nil {
				most = time.Hour // the test below reports it
				break
			}
			most = max(most, time.Since(start))
		}
		slowest <- most
	}()
	run()
	stop()
	if most := <-slowest; most > neighbourLimit {
		t.Errorf("a healthy server beside it needed %s", most)
	}
	c.Delete() // its process would count as a leak of the misbehaving server
}

func tool(id, name, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}`
}

// definite fails unless the call ends with one of the classes within the time. "answer" stands for a good result.
func definite(t *testing.T, c *rig.Client, body string, within time.Duration, classes ...string) []byte {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), within+10*time.Second)
	defer stop()
	start := time.Now()
	reply, err := c.Try(ctx, body)
	if err != nil {
		t.Fatalf("no definite end: %v", err)
	}
	answer := reply.Answer(t)
	if took := time.Since(start); took > within {
		t.Errorf("it took %s, want at most %s", took.Round(time.Millisecond), within)
	}
	_, got := class(t, answer)
	if got == "" && strings.Contains(string(answer), `"result"`) {
		got = "answer"
	}
	if !slices.Contains(classes, got) {
		t.Errorf("it ended as %q, want one of %v: %s", got, classes, clip(string(answer)))
	}
	return answer
}

// TestHostileChildren runs each misbehaviour of a stdio server, supervised and direct, beside a healthy server.
func TestHostileChildren(t *testing.T) {
	g := rig.Start(t)
	g.Add("neighbour", rig.Fixture(t, fakemcp.Options{}))
	before, threads := rig.Descriptors(g.PID()), goroutines(t, g)
	for _, supervised := range []bool{true, false} {
		for _, x := range []struct {
			name string
			o    fakemcp.Options
			run  func(t *testing.T, name string, l lane)
		}{
			{"exit-in-call", fakemcp.Options{}, func(t *testing.T, _ string, l lane) {
				c := l.client(t, `{}`)
				answer := string(definite(t, c, tool("1", "exit", `{"stderr":"last words: no API key"}`), slack, "sent_unknown"))
				if !strings.Contains(answer, `"code":7`) || !strings.Contains(answer, "last words: no API key") {
					t.Errorf("the error does not carry the exit code and the last words: %s", answer)
				}
				definite(t, c, tool("2", "counter", `{}`), 5*time.Second, "answer")
			}},
			{"exit-in-handshake", fakemcp.Options{ExitOn: "initialize", Tail: "cannot start: missing key"}, func(t *testing.T, name string, l lane) {
				c := rig.NewClient(t, l.url)
				body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"rig","version":"1"}}}`
				for range 3 { // backoff, later a crash loop: always an answer, never a session
					answer := string(definite(t, c, body, startLimit, "unavailable"))
					if !strings.Contains(answer, "missing key") {
						t.Errorf("the error does not carry the last words: %s", answer)
					}
				}
				for _, p := range g.Processes(name) {
					if p.State == "ready" {
						t.Errorf("ps claims that a dead server is ready: %+v", p)
					}
				}
			}},
			{"stdout-closed", fakemcp.Options{}, func(t *testing.T, _ string, l lane) {
				c := l.client(t, `{}`)
				definite(t, c, tool("1", "close_stdout", `{}`), graceLimit, "sent_unknown")
				definite(t, c, tool("2", "counter", `{}`), 10*time.Second, "answer")
			}},
			{"hang-in-call", fakemcp.Options{}, func(t *testing.T, _ string, l lane) {
				c := l.client(t, `{}`)
				definite(t, c, tool("1", "hang", `{}`), callLimit+slack, "timeout")
				definite(t, c, tool("2", "counter", `{}`), slack, "answer")
			}},
			{"ignores-sigterm", fakemcp.Options{IgnoreTerm: true, IgnoreEOF: true}, func(t *testing.T, name string, l lane) {
				c := l.client(t, `{}`)
				pid := number(t, definite(t, c, tool("1", "pid", `{}`), slack, "answer"))
				g.Must("server", "restart", name)
				rig.Until(t, 8*time.Second, fmt.Sprintf("pid %d is gone", pid), func() bool { return !rig.Alive(pid) })
			}},
			{"grandchild", fakemcp.Options{}, func(t *testing.T, name string, l lane) {
				c := l.client(t, `{}`)
				pid := number(t, definite(t, c, tool("1", "grandchild", `{}`), slack, "answer"))
				g.Must("server", "restart", name)
				rig.Until(t, 8*time.Second, fmt.Sprintf("the grandchild %d is gone", pid), func() bool { return !rig.Alive(pid) })
			}},
			{"grandchild-holds-stdout", fakemcp.Options{}, func(t *testing.T, _ string, l lane) {
				c := l.client(t, `{}`)
				pid := number(t, definite(t, c, tool("1", "grandchild", `{"hold_stdout":true}`), slack, "answer"))
				definite(t, c, tool("2", "exit", `{}`), graceLimit, "sent_unknown")
				definite(t, c, tool("3", "counter", `{}`), 10*time.Second, "answer")
				rig.Until(t, 8*time.Second, fmt.Sprintf("the grandchild %d is gone", pid), func() bool { return !rig.Alive(pid) })
			}},
			{"flood", fakemcp.Options{}, func(t *testing.T, _ string, l lane) {
				c := l.client(t, `{}`)
				c.Post(`{"jsonrpc":"2.0","id":9,"method":"logging/setLevel","params":{"level":"debug"}}`)
				stream := c.Begin(tool("1", "flood", `{"per_second":10000,"ms":1000}`))
				for i := range 20 { // the same session keeps working meanwhile
					definite(t, c, tool(strconv.Itoa(100+i), "counter", `{}`), slack, "answer")
				}
				stream.Await("flooded", 10*time.Second)
			}},
			{"flood-unread", fakemcp.Options{}, func(t *testing.T, _ string, l lane) {
				c := l.client(t, `{}`)
				listener := c.Listen() // opened and never read: it loses its own stream, nothing else
				defer listener.Close()
				definite(t, c, tool("1", "flood", `{"per_second":10000,"ms":1000}`), 10*time.Second, "answer")
				definite(t, c, tool("2", "counter", `{}`), slack, "answer")
			}},
		} {
			name := fmt.Sprintf("%s-%v", x.name, supervised)
			t.Run(name, func(t *testing.T) {
				g.Add(name, rig.Fixture(t, x.o), fmt.Sprintf("--supervised=%v", supervised), "--call-timeout", callLimit.String())
				neighbour(t, g, func() { x.run(t, name, lane{name: name, url: g.URL(name)}) })
				g.Must("server", "remove", name)
			})
		}
	}
	t.Logf("descriptors of the daemon: %d before, %d after", before, rig.Descriptors(g.PID()))
	rig.Until(t, 10*time.Second, fmt.Sprintf("the daemon is back at %d descriptors", before), func() bool {
		return rig.Descriptors(g.PID()) <= before+4 // connections of this test that are kept alive
	})
	t.Logf("goroutines of the daemon: %d before, %d after", threads, goroutines(t, g))
	rig.Until(t, 10*time.Second, fmt.Sprintf("the daemon is back at %d goroutines", threads), func() bool {
		return goroutines(t, g) <= threads+16 // four for each of those connections
	})
}

// goroutines is how many the daemon has.
func goroutines(t *testing.T, g *rig.Gateway) int {
	t.Helper()
	s, err := g.API().Status(t.Context(), api.None{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Goroutines
}

func number(t *testing.T, answer []byte) int {
	t.Helper()
	_, rest, _ := strings.Cut(string(answer), `"text":"`)
	digits, _, _ := strings.Cut(rest, `"`)
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatalf("no number in %s", answer)
	}
	return n
}

// TestSilentServers waits for the gateway's own limits, so its cases run side by side.
func TestSilentServers(t *testing.T) {
	g := rig.Start(t)
	g.Add("neighbour", rig.Fixture(t, fakemcp.Options{}))
	g.Add("silent-probe", rig.Fixture(t, fakemcp.Options{SilentProbe: true}))
	g.Add("silent", rig.Fixture(t, fakemcp.Options{Hang: true}))
	g.AddURL("http-hang", serve(t, fakemcp.Options{Behave: fakemcp.Hanging}), "--no-check")
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"rig","version":"1"}}}`
	discover := `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{` + rig.Envelope(`{}`) + `}}}`
	t.Run("group", func(t *testing.T) {
		t.Run("a probe without an answer means legacy", func(t *testing.T) {
			t.Parallel()
			definite(t, rig.NewClient(t, g.URL("silent-probe")), discover, 10*time.Second, "answer")
		})
		for _, server := range []string{"silent", "http-hang"} {
			for era, body := range map[string]string{"legacy": initialize, "modern": discover} {
				t.Run(server+" "+era, func(t *testing.T) {
					t.Parallel()
					definite(t, rig.NewClient(t, g.URL(server)), body, startLimit, "unavailable", "timeout", "sent_unknown")
				})
			}
		}
		t.Run("neighbour", func(t *testing.T) {
			t.Parallel()
			neighbour(t, g, func() { time.Sleep(5 * time.Second) }) // the window in which the others hang
		})
	})
}

// TestHostileHTTP calls HTTP servers that answer nonsense, cut the connection, or forget the session.
func TestHostileHTTP(t *testing.T) {
	g := rig.Start(t)
	g.Add("neighbour", rig.Fixture(t, fakemcp.Options{}))
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"rig","version":"1"}}}`
	for _, behave := range []fakemcp.Behaviour{fakemcp.HTML, fakemcp.Unavailable} {
		t.Run(string(behave), func(t *testing.T) {
			g.AddURL(string(behave), serve(t, fakemcp.Options{Behave: behave}), "--no-check")
			neighbour(t, g, func() {
				definite(t, rig.NewClient(t, g.URL(string(behave))), initialize, 15*time.Second, "unavailable")
			})
		})
	}
	t.Run("drops the stream", func(t *testing.T) {
		g.AddURL("drop", serve(t, fakemcp.Options{Behave: fakemcp.Dropping, Stateful: true}), "--no-check", "--call-timeout", callLimit.String())
		neighbour(t, g, func() {
			c := lane{url: g.URL("drop")}.client(t, `{}`)
			definite(t, c, tool("1", "echo", `{}`), callLimit+slack, "sent_unknown")
			if got := string(c.Post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`).Answer(t)); !strings.Contains(got, `"result"`) {
				t.Errorf("the session did not survive: %s", got)
			}
		})
	})
	t.Run("forgets the session", func(t *testing.T) {
		g.AddURL("gone", serve(t, fakemcp.Options{Behave: fakemcp.Gone, Stateful: true}), "--no-check", "--call-timeout", callLimit.String())
		neighbour(t, g, func() {
			c := lane{url: g.URL("gone")}.client(t, `{}`)
			// 404 proves that the call did not run: it may be sent once more in a new session, which forgets it again.
			definite(t, c, tool("1", "echo", `{}`), callLimit+slack, "not_sent", "sent_unknown", "unavailable")
			if got := string(c.Post(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`).Answer(t)); !strings.Contains(got, `"tools"`) {
				t.Errorf("the client's session did not survive its upstream session: %s", clip(got))
			}
		})
	})
	t.Run("nobody listens", func(t *testing.T) {
		g.AddURL("refused", fmt.Sprintf("http://127.0.0.1:%d/mcp", rig.Port(t)), "--no-check")
		answer := string(definite(t, rig.NewClient(t, g.URL("refused")), initialize, 5*time.Second, "unavailable"))
		if !strings.Contains(answer, "refused") {
			t.Errorf("the error does not say why: %s", answer)
		}
	})
}
