package peers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpx/internal/test/rig"
)

// clientWithin bounds one run of a client: a second or two, and Node starts slowly on a loaded machine.
const clientWithin = 60 * time.Second

// published are the servers from npm, and one call of each whose answer we know.
type published struct {
	name      string
	argv      []string
	tool      string
	arguments map[string]string
	want      string
	lists     string // a tool that must be listed
}

func publishedServers(t *testing.T) []published {
	t.Helper()
	work := t.TempDir()
	file := filepath.Join(work, "note.txt")
	if err := os.WriteFile(file, []byte("words in a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	entry := func(name string) string { return modules(t, "@modelcontextprotocol", name, "dist", "index.js") }
	return []published{
		{"everything", []string{node(t), entry("server-everything"), "stdio"}, "echo", map[string]string{"message": "hello-peer"}, "Echo: hello-peer", "get-sum"},
		{"filesystem", []string{node(t), entry("server-filesystem"), work}, "read_text_file", map[string]string{"path": file}, "words in a file", "list_directory"},
		{"memory", []string{node(t), entry("server-memory")}, "read_graph", map[string]string{}, "entities", "create_entities"},
	}
}

// route is one way to a server: a URL, or the command of a stdio bridge.
type route struct {
	url     string
	command []string
}

// clients list and call through a route and return all they printed.
var clients = map[string]func(t *testing.T, r route, env []string, p published) (listed, called string){
	"inspector": func(t *testing.T, r route, env []string, p published) (string, string) {
		cli := []string{node(t), modules(t, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js"), "--cli"}
		if r.url != "" {
			cli = append(cli, r.url, "--transport", "http")
		} else {
			for _, e := range env {
				if strings.HasPrefix(e, "MCPX_HOME=") || strings.HasPrefix(e, "HOME=") {
					cli = append(cli, "-e", e)
				}
			}
			cli = append(cli, r.command...)
		}
		dir := t.TempDir()
		listed := must(t, clientWithin, dir, env, append(cli, "--method", "tools/list")...)
		call := append(cli, "--method", "tools/call", "--tool-name", p.tool)
		for key, value := range p.arguments {
			call = append(call, "--tool-arg", key+"="+value)
		}
		return listed, must(t, clientWithin, dir, env, call...)
	},
	"mcporter": func(t *testing.T, r route, env []string, p published) (string, string) {
		entry := map[string]any{"url": r.url}
		if r.url == "" {
			entry = map[string]any{"command": r.command[0], "args": r.command[1:], "env": environMap(env)}
		}
		dir := t.TempDir()
		config := filepath.Join(dir, "mcporter.json")
		writeJSON(t, config, map[string]any{"mcpServers": map[string]any{"gw": entry}})
		cli := []string{node(t), modules(t, "mcporter", "dist", "cli.js"), "--config", config}
		listed := must(t, clientWithin, dir, env, append(cli, "list", "gw", "--json")...)
		call := append(cli, "call", "gw."+p.tool)
		for key, value := range p.arguments {
			call = append(call, key+"="+value)
		}
		return listed, must(t, clientWithin, dir, env, call...)
	},
	"mcp-remote": func(t *testing.T, r route, env []string, p published) (string, string) {
		if r.url == "" {
			t.Skip("skip: mcp-remote speaks to URLs only")
		}
		arguments, err := json.Marshal(p.arguments)
		if err != nil {
			t.Fatal(err)
		}
		remote := modules(t, "mcp-remote", "dist", "proxy.js")
		s := speak(t, env, []string{node(t), remote, r.url, "--transport", "http-only", "--allow-http"})
		return s.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`, "2"),
			s.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, p.tool, arguments), "3")
	},
}

// TestPublishedClients lets each client list and call each server, over HTTP and over `mcpx connect`.
func TestPublishedClients(t *testing.T) {
	servers := publishedServers(t)
	g := rig.Start(t)
	for _, p := range servers {
		g.Add(p.name, p.argv)
	}
	for name, client := range clients {
		for _, p := range servers {
			for way, r := range map[string]route{
				"http":    {url: g.URL(p.name)},
				"connect": {command: []string{rig.Binary(t), "connect", p.name}},
			} {
				t.Run(name+"/"+p.name+"/"+way, func(t *testing.T) {
					dir, env := home(t, "MCPX_HOME="+g.Home)
					_ = dir // the client's own home
					listed, called := client(t, r, env, p)
					if !strings.Contains(listed, p.lists) || !strings.Contains(listed, p.tool) {
						t.Errorf("%s and %s are not both listed:\n%s", p.tool, p.lists, listed)
					}
					if !strings.Contains(called, p.want) {
						t.Errorf("the call did not give %q:\n%s", p.want, called)
					}
				})
			}
		}
	}
}

// speaker is a conversation with a stdio client-side proxy.
type speaker struct {
	t          *testing.T
	in         io.Writer
	lines      *bufio.Reader
	complaints *strings.Builder
	end        func()
}

// speak starts the proxy and does the handshake.
func speak(t *testing.T, env []string, argv []string) *speaker {
	t.Helper()
	s := launch(t, env, argv)
	s.handshake()
	return s
}

// launch starts the proxy. It ends with the test, and what lasts too long ends it.
func launch(t *testing.T, env []string, argv []string) *speaker {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = env, t.TempDir()
	ownGroup(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &speaker{t: t, in: in, lines: bufio.NewReader(out), complaints: &strings.Builder{}}
	cmd.Stderr = s.complaints
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(clientWithin, func() { endGroup(cmd) })
	s.end = sync.OnceFunc(func() {
		stop.Stop()
		endGroup(cmd)
		_ = cmd.Wait() // it was killed
	})
	t.Cleanup(s.end)
	return s
}

func (s *speaker) handshake() {
	s.t.Helper()
	s.ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"peers","version":"1"}}}`, "1")
	s.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (s *speaker) send(message string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, message+"\n"); err != nil {
		s.t.Fatalf("%v\n%s", err, s.complaints)
	}
}

// answer reads up to the answer with this id.
func (s *speaker) answer(id string) string {
	s.t.Helper()
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			s.t.Fatalf("no answer to %s: %v\n%s", id, err, s.complaints)
		}
		var m map[string]json.RawMessage
		if json.Unmarshal([]byte(line), &m) == nil && string(m["id"]) == id && m["method"] == nil {
			return line
		}
	}
}

func (s *speaker) ask(request, id string) string {
	s.t.Helper()
	s.send(request)
	return s.answer(id)
}

func environMap(env []string) map[string]string {
	m := map[string]string{}
	for _, e := range env {
		key, value, _ := strings.Cut(e, "=")
		m[key] = value
	}
	return m
}

func writeJSON(t *testing.T, name string, value any) {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
