package peers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/test/rig"
)

// agentWithin is the deadline of one agent run.
const agentWithin = 90 * time.Second

// TestRealAgents lets real agents from npm, with a stub for the model, call a tool of a real server through the
// gateway. The stub offers what the agent offers it: it calls the first tool whose name ends in "echo" and then says
// FINAL and the result. Both agents are told to wait for the server: by default they ask the model before a server that
// starts cold has told its tools.
func TestRealAgents(t *testing.T) {
	model := fmt.Sprintf("127.0.0.1:%d", rig.Port(t))
	_, port, _ := strings.Cut(model, ":")
	background(t, model, nil, node(t), filepath.Join("testdata", "modelstub.mjs"), "--port", port)
	g := rig.Start(t)
	g.Add("gw", []string{node(t), modules(t, "@modelcontextprotocol", "server-everything", "dist", "index.js"), "stdio"})
	for name, agent := range map[string]func(t *testing.T, model, url, prompt string) output{"claude code": claude, "codex": codex} {
		t.Run(name, func(t *testing.T) {
			o := agent(t, "http://"+model, g.URL("gw"), "call echo")
			if !strings.Contains(o.stdout, "FINAL") || !strings.Contains(o.stdout, "Echo: hello-e2e") {
				t.Errorf("exit code %d, want FINAL and Echo: hello-e2e in:\n%s\n%s", o.code, o.stdout, o.stderr)
			}
		})
	}
}

func claude(t *testing.T, model, url, prompt string) output {
	dir, env := home(t, "ANTHROPIC_BASE_URL="+model, "ANTHROPIC_API_KEY=dummy", "ENABLE_TOOL_SEARCH=false", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"MCP_CONNECTION_NONBLOCKING=false")
	writeJSON(t, filepath.Join(dir, ".claude.json"), map[string]any{"mcpServers": map[string]any{"gw": map[string]any{"type": "http", "url": url}}})
	return run(t, agentWithin, project(t, env), env, node(t), modules(t, "@anthropic-ai", "claude-code", "cli-wrapper.cjs"),
		"-p", prompt, "--allowedTools", "mcp__gw")
}

func codex(t *testing.T, model, url, prompt string) output {
	dir, env := home(t, "STUB_KEY=x")
	config := fmt.Sprintf(`model = "stub-model"
model_provider = "stub"

[model_providers.stub]
name = "stub"
base_url = "%s/v1"
env_key = "STUB_KEY"
wire_api = "responses"

[mcp_servers.gw]
url = "%s"
default_tools_approval_mode = "approve"
startup_timeout_sec = 60
required = true
`, model, url)
	if err := os.MkdirAll(filepath.Join(dir, ".codex"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".codex", "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return run(t, agentWithin, project(t, env), env, node(t), modules(t, "@openai", "codex", "bin", "codex.js"),
		"exec", "--skip-git-repo-check", "--json", prompt)
}

// project is an empty git repository: agents look for one.
func project(t *testing.T, env []string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, clientWithin, dir, env, "git", "init", "-q")
	return dir
}
