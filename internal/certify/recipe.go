package certify

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Server is one server as an agent is told of it at first: without mcpx.
type Server struct {
	Name    string
	Command []string // of a stdio server; nil for one with a URL
	URL     string
}

// place is where one run happens and what stands in for the rest of the world.
type place struct {
	home  string // scratch, absolute
	model string // base URL of the stub, without a path
}

// file is the content of one file of the agent before it adds servers by itself.
type file struct{ path, content string } // path below the home

// recipe says how one agent is driven without a login. The facts were seen with the versions that
// docs/certifications names.
type recipe struct {
	agent   string // as mcpx names it
	program string // as a person calls it
	config  string // the file that holds its servers, below the home
	// before are its settings for the stub model. The agent's own add command puts the servers in.
	before func(p place) []file
	// login is run once before, nil: nothing has to be.
	login func(p place) []string
	// add are the arguments that add a server; nil: it has no such command, and write makes the whole file.
	add func(s Server) []string
	// write makes the whole file of an agent without an add command.
	write func(p place, servers []Server) string
	// env are its variables beside HOME, PATH, LANG and TERM.
	env func(p place) map[string]string
	// status are the arguments that let it connect to its servers and tell; nil: it has none that connects.
	status []string
	// connected finds the line that says that a server is connected, in the output of status without colours.
	connected func(name string) *regexp.Regexp
	// ask are the arguments that give it a task.
	ask func(task string) []string
	// search is the call that makes the agent show deferred tools; nil: it shows all at once.
	search func() Call
	// bare says that it shows tools under their own names, without that of the server.
	bare bool
}

// Agents lists the agents that can be certified.
func Agents() []string {
	all := make([]string, 0, len(recipes))
	for _, r := range recipes {
		all = append(all, r.agent)
	}
	return all
}

func recipeOf(agent string) (recipe, bool) {
	i := slices.IndexFunc(recipes, func(r recipe) bool { return r.agent == agent })
	if i < 0 {
		return recipe{}, false
	}
	return recipes[i], true
}

var recipes = []recipe{
	{
		agent: "claude_code", program: "claude", config: ".claude.json",
		env: func(p place) map[string]string {
			return map[string]string{
				"ANTHROPIC_BASE_URL": p.model, "ANTHROPIC_API_KEY": "dummy", "ENABLE_TOOL_SEARCH": "false",
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "MCP_CONNECTION_NONBLOCKING": "false",
			}
		},
		add: func(s Server) []string {
			if s.URL != "" {
				return []string{"mcp", "add", "--scope", "user", "--transport", "http", s.Name, s.URL}
			}
			return append([]string{"mcp", "add", "--scope", "user", s.Name, "--"}, s.Command...)
		},
		status: []string{"mcp", "list"}, connected: lineWith(`%s: .*Connected`),
		ask: func(task string) []string {
			return []string{"-p", task, "--allowedTools", "mcp__one__echo,mcp__two__echo"}
		},
	},
	{
		agent: "codex", program: "codex", config: ".codex/config.toml",
		env: func(place) map[string]string { return map[string]string{"STUB_KEY": "x"} },
		before: func(p place) []file {
			return []file{{".codex/config.toml", fmt.Sprintf(`model = "%s"
model_provider = "stub"

# The stub that stands in for the model.
[model_providers.stub]
name = "stub"
base_url = "%s/v1"
env_key = "STUB_KEY"
wire_api = "responses"
`, modelName, p.model)}}
		},
		add: func(s Server) []string {
			if s.URL != "" {
				return []string{"mcp", "add", s.Name, "--url", s.URL}
			}
			return append([]string{"mcp", "add", s.Name, "--"}, s.Command...)
		},
		ask: func(task string) []string {
			return []string{
				"exec", "--skip-git-repo-check", "--json", "-c", `mcp_servers.one.default_tools_approval_mode="approve"`,
				"-c", `mcp_servers.two.default_tools_approval_mode="approve"`, "-c", "mcp_servers.one.required=true", "-c", "mcp_servers.two.required=true", task,
			}
		},
	},
	{
		agent: "gemini", program: "gemini", config: ".gemini/settings.json",
		env: func(p place) map[string]string {
			return map[string]string{"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": p.model, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
		},
		before: func(place) []file {
			return []file{{".gemini/settings.json", pretty(object{"security": object{"auth": object{"selectedType": "gemini-api-key"}}})}}
		},
		add: geminiAdd, status: []string{"mcp", "list"}, connected: lineWith(`✓ %s: .*Connected`),
		ask: func(task string) []string {
			return []string{"-m", "gemini-2.5-flash", "-p", task, "--approval-mode", "yolo", "--skip-trust"}
		},
	},
	{
		agent: "cline", program: "cline", config: ".cline/data/settings/cline_mcp_settings.json",
		login: func(p place) []string {
			return []string{"auth", "-p", "openai-compatible", "-k", "dummy", "-m", modelName, "-b", p.model + "/v1"}
		},
		add: func(s Server) []string {
			if s.URL != "" {
				return []string{"mcp", "add", "--yes", "--transport", "http", s.Name, s.URL}
			}
			return append([]string{"mcp", "add", "--yes", s.Name, "--"}, s.Command...)
		},
		ask: func(task string) []string { return []string{"--json", "-t", "60", task} },
	},
	{
		agent: "opencode", program: "opencode", config: ".config/opencode/opencode.jsonc",
		env: func(place) map[string]string {
			return map[string]string{"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
		},
		before: func(p place) []file { return []file{{".config/opencode/opencode.jsonc", openCodeModel(p)}} },
		add:    openCodeAdd, status: []string{"mcp", "list"}, connected: lineWith(`✓ %s connected`),
		ask: func(task string) []string { return []string{"run", task} },
	},
	{
		agent: "kilo", program: "kilo", config: ".config/kilo/kilo.jsonc",
		env: func(place) map[string]string {
			return map[string]string{"KILO_DISABLE_AUTOUPDATE": "1", "KILO_DISABLE_MODELS_FETCH": "1", "KILO_DISABLE_SESSION_INGEST": "1"}
		},
		before: func(p place) []file { return []file{{".config/kilo/kilo.jsonc", openCodeModel(p)}} },
		add:    openCodeAdd, status: []string{"mcp", "list"}, connected: lineWith(`✓ %s connected`),
		ask: func(task string) []string { return []string{"run", task} },
	},
	{
		agent: "qwen", program: "qwen", config: ".qwen/settings.json",
		env: func(p place) map[string]string {
			return map[string]string{"OPENAI_API_KEY": "dummy", "OPENAI_BASE_URL": p.model + "/v1", "OPENAI_MODEL": modelName}
		},
		before: func(place) []file {
			return []file{{".qwen/settings.json", pretty(object{
				"security": object{"auth": object{"selectedType": "openai"}}, "tools": object{"toolSearch": object{"enabled": false}},
			})}}
		},
		add: geminiAdd, status: []string{"mcp", "list"}, connected: lineWith(`✓ %s: .*Connected`),
		ask: func(task string) []string { return []string{"-p", task, "--approval-mode", "yolo"} },
	},
	{
		agent: "copilot", program: "copilot", config: ".copilot/mcp-config.json",
		env: func(p place) map[string]string {
			return map[string]string{
				"COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false", "COPILOT_PROVIDER_BASE_URL": p.model + "/v1",
				"COPILOT_PROVIDER_API_KEY": "dummy-key-12345", "COPILOT_MODEL": modelName, // a short key would be blotted out of its output
			}
		},
		add: func(s Server) []string {
			if s.URL != "" {
				return []string{"mcp", "add", "--transport", "http", s.Name, s.URL}
			}
			return append([]string{"mcp", "add", s.Name, "--"}, s.Command...)
		},
		ask: func(task string) []string {
			return []string{"-p", task, "--allow-all-tools", "--disable-builtin-mcps", "-s"}
		},
	},
	{
		agent: "droid", program: "droid", config: ".factory/mcp.json",
		before: func(p place) []file {
			return []file{{".factory/settings.json", pretty(object{"customModels": []object{{
				"model": modelName, "displayName": "stub", "baseUrl": p.model + "/v1", "apiKey": "x", "provider": "generic-chat-completion-api",
			}}})}}
		},
		add: func(s Server) []string {
			if s.URL != "" {
				return []string{"mcp", "add", s.Name, s.URL, "--type", "http"}
			}
			return []string{"mcp", "add", s.Name, strings.Join(s.Command, " ")}
		},
		status: []string{"mcp", "list"}, connected: lineWith(`%s\s+\S+\s+connected`),
		ask: func(task string) []string {
			return []string{"exec", "--model", "custom:" + modelName, "--skip-permissions-unsafe", task}
		},
		search: func() Call {
			return Call{Tool: regexp.MustCompile(`^ToolSearch$`), Args: json.RawMessage(`{"query":"select:one___echo,two___echo"}`)}
		},
	},
	{
		agent: "continue", program: "cn", config: ".continue/config.yaml", bare: true,
		write: func(p place, servers []Server) string {
			var b strings.Builder
			fmt.Fprintf(&b, `name: Certification
version: 1.0.0
schema: v1
models:
  - name: stub
    provider: openai
    model: %s
    apiBase: %s/v1 # the stub that stands in for the model
    apiKey: dummy-key-123
    roles: [chat]
    capabilities: [tool_use]
mcpServers:
`, modelName, p.model)
			for _, s := range servers {
				fmt.Fprintf(&b, "  - name: %s\n", s.Name)
				if s.URL != "" {
					fmt.Fprintf(&b, "    type: streamable-http\n    url: %s\n", s.URL)
				} else {
					fmt.Fprintf(&b, "    command: %s\n    args: [%s]\n", s.Command[0], strings.Join(s.Command[1:], ", "))
				}
			}
			return b.String()
		},
		ask: func(task string) []string { return []string{"-p", "--allow", "*", task} },
	},
}

func geminiAdd(s Server) []string {
	if s.URL != "" {
		return []string{"mcp", "add", "-s", "user", s.Name, "-t", "http", s.URL, "--trust"}
	}
	return append([]string{"mcp", "add", "-s", "user", s.Name, "--trust"}, s.Command...)
}

func openCodeAdd(s Server) []string {
	if s.URL != "" {
		return []string{"mcp", "add", s.Name, "--url", s.URL}
	}
	return append([]string{"mcp", "add", s.Name, "--"}, s.Command...)
}

func openCodeModel(p place) string {
	return pretty(object{
		"provider": object{"stub": object{
			"npm": "@ai-sdk/openai-compatible", "options": object{"baseURL": p.model + "/v1", "apiKey": "x"},
			"models": object{modelName: object{"tool_call": true}},
		}},
		"model": "stub/" + modelName, "small_model": "stub/" + modelName,
	})
}

func pretty(v object) string {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic("certify: settings cannot be encoded: " + err.Error())
	}
	return string(b) + "\n"
}

// lineWith makes the expression for a server from a pattern with its name.
func lineWith(pattern string) func(string) *regexp.Regexp {
	return func(name string) *regexp.Regexp {
		return regexp.MustCompile(fmt.Sprintf(pattern, regexp.QuoteMeta(name)))
	}
}

// environ is the whole environment of an agent: nothing of the person who asked gets in.
func (r recipe) environ(p place, searchPath string) []string {
	all := map[string]string{"HOME": p.home, "PATH": searchPath, "LANG": "C.UTF-8", "TERM": "xterm-256color"}
	if r.env != nil {
		maps.Copy(all, r.env(p))
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, name+"="+all[name])
	}
	return out
}
