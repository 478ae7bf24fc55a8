package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

const (
	// inTheCall is how long the call lasts in whose middle the daemon is killed: the clients of the SDK come back a second
	// after their stream broke.
	inTheCall = 4 * time.Second
	// resumable is the time after which the response to a call is a stream with an event id, and what a busy machine
	// needs on top. Before that a broken connection tells a client nothing, whatever we do.
	resumable = 1500 * time.Millisecond
)

// outlived is a daemon with one server.
type outlived struct {
	*rig.Gateway
	t      *testing.T
	record string // what the children read
}

func outlive(t *testing.T) outlived {
	t.Helper()
	g := outlived{rig.Start(t), t, ""}
	g.record = filepath.Join(g.Home, "kept.record")
	g.Add("kept", rig.Fixture(t, fakemcp.Options{Record: g.record}))
	return g
}

// next kills the daemon and starts another one.
func (g outlived) next() {
	g.t.Helper()
	g.Kill()
	g.Serve()
}

func (g outlived) reads(text string) int {
	g.t.Helper()
	raw, err := os.ReadFile(g.record)
	if err != nil && !os.IsNotExist(err) {
		g.t.Fatal(err)
	}
	return strings.Count(string(raw), text)
}

// inTheMiddle kills the daemon in the middle of the call that is under way.
func (g outlived) inTheMiddle() {
	g.t.Helper()
	rig.Until(g.t, clientWithin, "the child has the call", func() bool { return g.reads(`"name":"sleep"`) > 0 })
	time.Sleep(resumable)
	g.next()
}

// slept fails unless the answer of the long call arrived and the call ran once.
func (g outlived) slept(answer string) {
	g.t.Helper()
	if want := fmt.Sprintf("slept %d ms", inTheCall.Milliseconds()); !strings.Contains(answer, want) {
		g.t.Errorf("no %q in the answer:\n%s", want, answer)
	}
	if n := g.reads(`"name":"sleep"`); n != 1 {
		g.t.Errorf("the child read the call %d times", n)
	}
}

// TestPublishedClientsOutliveTheDaemon: what a client from npm sees of a daemon that is killed and started again: nothing
// between two calls of a session, and the true answer of a call in whose middle it happens.
func TestPublishedClientsOutliveTheDaemon(t *testing.T) {
	long := fmt.Sprintf(`{"ms":%d}`, inTheCall.Milliseconds())
	t.Run("mcp-remote", func(t *testing.T) {
		t.Parallel()
		_, env := home(t)
		g := outlive(t)
		s := speak(t, env, []string{node(t), modules(t, "mcp-remote", "dist", "proxy.js"), g.URL("kept"), "--transport", "http-only", "--allow-http"})
		call := func(id, name, arguments string) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, arguments)
		}
		counts := func(id string, want int) {
			t.Helper()
			if answer := s.ask(call(id, "counter", `{}`), id); !strings.Contains(answer, fmt.Sprintf(`"text":"%d"`, want)) {
				t.Errorf("call %s: the counter is not %d: %s", id, want, answer)
			}
		}
		counts("2", 1)
		handshakes := g.reads(`"method":"initialize"`)
		g.next()
		counts("3", 2)
		s.send(call("4", "sleep", long))
		g.inTheMiddle()
		g.slept(s.answer("4"))
		counts("5", 3)
		if n := g.reads(`"method":"initialize"`); n != handshakes {
			t.Errorf("%d handshakes after the first call", n-handshakes)
		}
	})
	for name, argv := range map[string]func(t *testing.T, dir, url string) []string{
		"inspector": func(t *testing.T, _, url string) []string {
			return []string{
				node(t), modules(t, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js"), "--cli", url, "--transport", "http",
				"--method", "tools/call", "--tool-name", "sleep", "--tool-arg", fmt.Sprintf("ms=%d", inTheCall.Milliseconds()),
			}
		},
		"mcporter": func(t *testing.T, dir, url string) []string {
			config := filepath.Join(dir, "mcporter.json")
			writeJSON(t, config, map[string]any{"mcpServers": map[string]any{"gw": map[string]any{"url": url}}})
			return []string{node(t), modules(t, "mcporter", "dist", "cli.js"), "--config", config, "call", "gw.sleep", "--args", long}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, env := home(t)
			g := outlive(t)
			command := argv(t, dir, g.URL("kept"))
			end := make(chan output, 1)
			go func() {
				defer close(end)
				end <- run(t, clientWithin, dir, env, command...)
			}()
			g.inTheMiddle()
			o := <-end
			if o.code != 0 {
				t.Errorf("exit code %d: %s", o.code, o.stderr)
			}
			g.slept(o.stdout)
		})
	}
}

// sdkCall lets the client of the TypeScript SDK make one call and stay for some seconds.
func sdkCall(t *testing.T, dir string, env []string, url, tool, arguments string, seconds int) string {
	t.Helper()
	script := filepath.Join(rig.Root(t), "internal", "test", "peers", "testdata", "sdkcall.mjs")
	return must(t, clientWithin, dir, env, node(t), script, modules(t, "@modelcontextprotocol", "sdk"), url, tool, arguments, strconv.Itoa(seconds))
}

// TestErrorEndsItsStream: clients of the SDK take no error for the response of a resumable stream. They come back for
// it, once; when that stream only ends, they take it for a standalone one and open those again and again.
func TestErrorEndsItsStream(t *testing.T) {
	dir, env := home(t)
	g := outlive(t)
	gateway, err := url.Parse("http://" + g.Addr)
	if err != nil {
		t.Fatal(err)
	}
	var streams atomic.Int32
	proxy := httputil.NewSingleHostReverseProxy(gateway)
	proxy.FlushInterval = -1
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			streams.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		between.CloseClientConnections()
		between.Close()
	})
	// What must not happen happens every second: the client stays for four.
	answer := sdkCall(t, dir, env, between.URL+"/servers/kept/mcp", "die", `{"code":1,"wait_ms":1000}`, 4)
	if !strings.Contains(answer, "-31902") {
		t.Fatalf("the call whose server died was answered with %s", answer)
	}
	if n := streams.Load(); n > 2 {
		t.Errorf("the client opened %d streams, want the standalone one and at most one that is resumed", n)
	}
}

// TestTwoKillsInOneCall: the clients of both SDKs keep their place on a stream on which nothing happens, however often
// the daemon is killed meanwhile, and a session without a word outlives many daemons.
func TestTwoKillsInOneCall(t *testing.T) {
	long := map[string]any{"ms": (2 * inTheCall).Milliseconds()}
	want := fmt.Sprintf("slept %d ms", (2 * inTheCall).Milliseconds())
	kills := func(g outlived) {
		g.inTheMiddle()
		time.Sleep(resumable) // the client is back
		g.next()
	}
	t.Run("typescript", func(t *testing.T) {
		t.Parallel()
		dir, env := home(t)
		g := outlive(t)
		args, err := json.Marshal(long)
		if err != nil {
			t.Fatal(err)
		}
		answer := make(chan string, 1)
		go func() {
			defer close(answer)
			answer <- sdkCall(t, dir, env, g.URL("kept"), "sleep", string(args), 0)
		}()
		kills(g)
		if got := <-answer; !strings.Contains(got, want) {
			t.Errorf("the call ended with %s", got)
		}
	})
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		g := outlive(t)
		ctx, stop := context.WithTimeout(t.Context(), clientWithin)
		defer stop()
		client := mcp.NewClient(&mcp.Implementation{Name: "peers", Version: "1"}, nil)
		session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: g.URL("kept")}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		answer := make(chan string, 1)
		go func() {
			result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "sleep", Arguments: long})
			text, _ := json.Marshal(result)
			answer <- fmt.Sprint(string(text), err)
		}()
		kills(g)
		if got := <-answer; !strings.Contains(got, want) {
			t.Errorf("the call ended with %s", got)
		}
		for range 8 { // more than the client's own bound for streams that bring nothing
			g.next()
			time.Sleep(resumable)
		}
		if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "counter"}); err != nil {
			t.Errorf("after eight more kills: %v", err)
		}
		if err := session.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}
