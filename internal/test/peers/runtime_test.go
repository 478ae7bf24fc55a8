package peers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"mcpx/internal/certify"
	"mcpx/internal/test/rig"
)

// answered is what the tests read of an answer of a tool at /mcp.
type answered struct {
	OK     bool   `json:"ok"`
	Status string `json:"status"`
	Data   struct {
		Session struct {
			ID   string `json:"remote_session_id"`
			Root string `json:"root"`
		} `json:"session"`
		Plan struct {
			ID      string `json:"plan_id"`
			Version int    `json:"version"`
			Tasks   []struct {
				Key   string `json:"key"`
				State string `json:"state"`
			} `json:"tasks"`
		} `json:"plan"`
		Files []struct {
			After string `json:"after_sha256"`
		} `json:"files"`
		Job    string `json:"job_id"`
		State  string `json:"state"`
		Exit   *int   `json:"exit_code"`
		Stdout struct {
			Text string `json:"text"`
		} `json:"stdout"`
	} `json:"data"`
	Operation struct {
		Replayed bool `json:"replayed"`
	} `json:"operation"`
}

// answerOf reads the answer out of the result of a call.
func answerOf(t *testing.T, result string) (a answered) {
	t.Helper()
	var r struct {
		Result     json.RawMessage `json:"result"`
		Structured *answered       `json:"structuredContent"`
	}
	err := json.Unmarshal([]byte(result), &r)
	if err == nil && r.Result != nil { // a whole message
		err = json.Unmarshal(r.Result, &r)
	}
	if err != nil || r.Structured == nil {
		t.Fatalf("no structured answer in %s (%v)", result, err)
	}
	return *r.Structured
}

// asker makes calls of one client, and gives each result as it came.
type asker func(t *testing.T, tool string, args map[string]any) string

// call makes a call of a tool of the runtime itself.
func (ask asker) call(t *testing.T, tool string, args map[string]any) answered {
	t.Helper()
	return answerOf(t, ask(t, tool, args))
}

// runtimeClients are clients from npm at the URL of the runtime, in one era. Each call of the Inspector is a process of
// its own; mcp-remote keeps its connection.
var runtimeClients = map[string]func(t *testing.T, url, era string) asker{
	"inspector": func(t *testing.T, url, era string) asker {
		return func(t *testing.T, tool string, args map[string]any) string {
			t.Helper()
			dir, env := home(t)
			return must(t, clientWithin, dir, env, node(t), modules(t, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js"),
				"--cli", url, "--transport", "http", "--protocol-era", era, "--method", "tools/call", "--tool-name", tool, "--tool-args-json", encoded(t, args))
		}
	},
	"mcp-remote": func(t *testing.T, url, era string) asker {
		_, env := home(t)
		protocol := map[string]string{"legacy": "legacy", "modern": "auto"}[era]
		s := speak(t, env, []string{node(t), modules(t, "mcp-remote", "dist", "proxy.js"), url, "--transport", "http-only", "--allow-http", "--protocol", protocol})
		last := 1
		return func(t *testing.T, tool string, args map[string]any) string {
			t.Helper()
			last++
			id := fmt.Sprint(last)
			return s.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, encoded(t, args)), id)
		}
	},
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// allowed is the policy of a person who lets agents run the test of the project.
const allowed = `[[commands.rule]]
id = "own-test"
decision = "allow"
program = "make"
subcommand = "test"
`

// commanding is a daemon with a project, whose agents may run commands.
func commanding(t *testing.T) (g *rig.Gateway, dir string) {
	t.Helper()
	g = rig.New(t)
	g.Extra = []string{"MCPX_RUNTIME_COMMANDS=true"}
	config := filepath.Join(g.Home, "config")
	if err := os.MkdirAll(config, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(config, "policy.toml"), []byte(allowed), 0o600); err != nil {
		t.Fatal(err)
	}
	g.Serve()
	dir = filepath.Join(t.TempDir(), "shop")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	g.Must("project", "add", dir)
	return g, dir
}

// put writes a file of the project.
func put(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSessionOverClients: a person changes from one client to another in the middle of the work, and the daemon is killed
// in between. The session, its plan, its job and the record of what was done are there for the other client.
func TestSessionOverClients(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		for first, second := range map[string]string{"inspector": "mcp-remote", "mcp-remote": "inspector"} {
			t.Run(era+"/"+first+" then "+second, func(t *testing.T) {
				g, dir := commanding(t)
				put(t, dir, "Makefile", "test:\n\t@echo begun; sleep 3; echo ended; exit 7\n")
				url, spoken := tapped(t, g)
				call := runtimeClients[first](t, url, era).call
				opened := call(t, "session", map[string]any{"action": "open", "project": "shop", "operation_id": "open-shop-1"})
				session := opened.Data.Session.ID
				if !opened.OK || session == "" {
					t.Fatalf("open: %+v", opened)
				}
				planned := call(t, "plan", map[string]any{
					"action": "create", "remote_session_id": session, "operation_id": "plan-shop-1", "summary": "greet",
					"tasks": []map[string]any{{"key": "write", "title": "write the greeting"}},
				})
				if len(planned.Data.Plan.Tasks) != 1 {
					t.Fatalf("plan: %+v", planned)
				}
				edit := map[string]any{
					"remote_session_id": session, "operation_id": "edit-shop-1",
					"edits": []map[string]any{{"op": "create", "path": "greeting.txt", "content": "hello\n"}},
				}
				written := call(t, "edit_files", edit)
				if len(written.Data.Files) != 1 {
					t.Fatalf("edit: %+v", written)
				}

				started := call(t, "start_command", map[string]any{"remote_session_id": session, "operation_id": "test-shop-1", "argv": []string{"make", "test"}})
				if !started.OK || started.Data.Job == "" {
					t.Fatalf("start: %+v", started)
				}

				g.Kill()
				g.Serve()

				call = runtimeClients[second](t, url, era).call
				if a := call(t, "session", map[string]any{"action": "attach", "remote_session_id": session}); a.Data.Session.ID != session || a.Data.Plan.ID != planned.Data.Plan.ID {
					t.Errorf("attach: %+v", a)
				}
				if a := call(t, "edit_files", edit); !a.OK || !a.Operation.Replayed || a.Data.Files[0].After != written.Data.Files[0].After {
					t.Errorf("the edit, again: %+v", a)
				}
				var job answered
				rig.Until(t, clientWithin, "the job has ended", func() bool {
					job = call(t, "command_status", map[string]any{"job_id": started.Data.Job, "wait_ms": 10000})
					return job.Data.State != "running"
				})
				// make says 2 for whatever its recipe ended with
				if job.Data.State != "exited" || job.Data.Exit == nil || *job.Data.Exit != 2 || job.Data.Stdout.Text != "begun\nended\n" {
					t.Errorf("the job over the kill: %+v", job)
				}
				update := func(id, to string, more map[string]any) answered {
					args := map[string]any{"action": "update", "remote_session_id": session, "operation_id": id, "task": "write", "state": to}
					maps.Copy(args, more)
					return call(t, "plan", args)
				}
				update("move-1-start", "in_progress", nil)
				done := update("move-2-end", "completed", map[string]any{"evidence": []map[string]any{{"kind": "edit", "ref": "edit-shop-1"}}})
				if len(done.Data.Plan.Tasks) != 1 || done.Data.Plan.Tasks[0].State != "completed" || done.Data.Plan.Version != 3 {
					t.Errorf("the plan goes on: %+v", done)
				}
				for version := range spoken() {
					if (version >= "2026") != (era == "modern") {
						t.Errorf("a call was made in revision %q", version)
					}
				}
			})
		}
	}
}

// TestUpstreamAtTheRuntime: a client from npm finds a tool of a server from npm, calls it, and has what the server said, in both
// eras.
func TestUpstreamAtTheRuntime(t *testing.T) {
	g := rig.New(t)
	g.Extra = []string{"MCPX_RUNTIME_EXTENSIONS=true"}
	config := filepath.Join(g.Home, "config")
	if err := os.MkdirAll(config, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(config, "policy.toml"), []byte("[tools]\nallow = [\"everything/echo\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.Serve()
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	g.Must("project", "add", dir)
	p := publishedServers(t)[0]
	g.Add(p.name, p.argv)
	n := 0
	for _, era := range []string{"legacy", "modern"} {
		for name, client := range runtimeClients {
			t.Run(era+"/"+name, func(t *testing.T) {
				n++
				ask := client(t, "http://"+g.Addr+"/mcp", era)
				session := ask.call(t, "session", map[string]any{"action": "open", "project": "shop", "operation_id": fmt.Sprintf("open-shop-%d", n)}).Data.Session.ID
				call := func(tool string, arguments map[string]any) string {
					return ask(t, "call_tool", map[string]any{
						"remote_session_id": session, "operation_id": fmt.Sprintf("%s-%05d", tool, n), "id": p.name + "/" + tool, "arguments": arguments,
					})
				}
				said := fmt.Sprintf("hello from %s, %s", name, era)
				if result := call("echo", map[string]any{"message": said}); !strings.Contains(result, "Echo: "+said) || !strings.Contains(result, "mcpx/operation") {
					t.Errorf("the call: %s", result)
				}
				if again := call("echo", map[string]any{"message": said}); !strings.Contains(again, "Echo: "+said) || !strings.Contains(again, "replayed") {
					t.Errorf("the call again: %s", again)
				}
				found := ask(t, "find_tools", map[string]any{"remote_session_id": session, "query": "sum", "detail": "full"})
				if !strings.Contains(found, p.name+"/get-sum") || !strings.Contains(found, "First number") {
					t.Errorf("found: %s", found)
				}
				if sum := call("get-sum", map[string]any{"a": 1, "b": 2}); !strings.Contains(sum, "is 3") {
					t.Errorf("a tool that says of itself that it only reads: %s", sum)
				}
			})
		}
	}
}

// tapped is the URL of the runtime behind a proxy that remembers in which revisions calls were made.
func tapped(t *testing.T, g *rig.Gateway) (at string, spoken func() map[string]int) {
	t.Helper()
	target, err := url.Parse("http://" + g.Addr)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	var mu sync.Mutex
	seen := map[string]int{}
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if strings.Contains(string(body), `"tools/call"`) {
			mu.Lock()
			seen[r.Header.Get("Mcp-Protocol-Version")]++
			mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(between.Close)
	return between.URL + "/mcp", func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		if len(seen) == 0 {
			t.Error("no call came by")
		}
		return maps.Clone(seen)
	}
}

// TestAgentsAtTheRuntime: real agents from npm, with a stub in place of the model, open a session, read a file, edit it by
// what they read, and run the test of the project.
func TestAgentsAtTheRuntime(t *testing.T) {
	for name, agent := range map[string]func(t *testing.T, model, url, prompt string) output{"claude code": claude, "codex": codex} {
		t.Run(name, func(t *testing.T) {
			g, dir := commanding(t)
			put(t, dir, "Makefile", "test:\n\t@grep -qx 'apples 4' price.txt && echo the price is right\n")
			put(t, dir, "price.txt", "apples 3\n")
			m := &certify.Model{}
			step := func(tool, args string, values ...any) {
				m.Plan = append(m.Plan, certify.Call{Tool: regexp.MustCompile(`\b\w*` + tool + `$`), Args: json.RawMessage(fmt.Sprintf(args, values...))})
			}
			step("session", `{"action":"open","project":"shop","operation_id":"open-shop-1"}`)
			step("read_file", `{}`)
			step("edit_files", `{}`)
			step("execute_command", `{}`)
			var session string
			m.Between = func(done int) {
				last := m.Results()[done-1]
				m.Plan = m.Plan[:done]
				switch done {
				case 1:
					session = regexp.MustCompile(`rs_\w+`).FindString(last)
					step("read_file", `{"remote_session_id":%q,"path":"price.txt"}`, session)
					step("edit_files", `{}`)
					step("execute_command", `{}`)
				case 2:
					sum := regexp.MustCompile(`[0-9a-f]{64}`).FindString(last)
					step("edit_files", `{"remote_session_id":%q,"operation_id":"edit-price-1","edits":[{"path":"price.txt","expect_sha256":%q,"replacements":[{"old":"3","new":"4"}]}]}`, session, sum)
					step("execute_command", `{}`)
				case 3:
					step("execute_command", `{"remote_session_id":%q,"operation_id":"test-price-1","argv":["make","test"]}`, session)
				}
			}
			model := httptest.NewServer(m)
			t.Cleanup(model.Close)
			o := agent(t, model.URL, "http://"+g.Addr+"/mcp", "raise the price of apples")
			raw, err := os.ReadFile(filepath.Join(dir, "price.txt"))
			if err != nil || string(raw) != "apples 4\n" || !strings.Contains(o.stdout, "the price is right") {
				t.Errorf("the file is %q (%v)\n%s\n%s\nresults: %q\noffers: %q", raw, err, o.stdout, o.stderr, m.Results(), m.Offers())
			}
		})
	}
}
