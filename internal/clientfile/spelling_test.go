package clientfile

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

// TestSpelling writes forms into entries as agents have them, governance.md section 3.4.
func TestSpelling(t *testing.T) {
	desk := newDesk(t)
	const url = "http://127.0.0.1:4200/servers/srv/mcp"
	with := func(change func(f *converge.Form)) *converge.Form {
		f := *viaHTTP
		change(&f)
		return &f
	}
	helper := with(func(f *converge.Form) { f.Helper = "/opt/mcpx/bin/mcpx token print" })
	bearer := with(func(f *converge.Form) { f.Bearer = "MCPX_TOKEN_CODEX" })
	header := with(func(f *converge.Form) {
		f.Headers = map[string]string{"Authorization": "Bearer ${MCPX_TOKEN_CLAUDE_CODE}"}
	})
	keeping := *viaBridge
	keeping.Args, keeping.Keep, keeping.Cwd = []string{"connect", "--pass", "LANG", "--pass", "KEPT", "srv"}, []string{"KEPT"}, "/src"
	events := &converge.Form{Kind: converge.FormDirect, Server: "srv", URL: "https://h/sse", SSE: true}
	for name, tc := range map[string]struct {
		agent          Agent
		file, in, want string
		form           *converge.Form
		code           string
	}{
		"claude: a process becomes a URL, the rest stays": {
			agent: Claude, file: "claude.json", form: viaHTTP,
			in:   `{"mcpServers":{"a":{"type":"stdio","command":"x","args":["1"],"env":{"A":"1"},"timeout":5,"future":{"x":1}}}}`,
			want: `{"mcpServers":{"a":{"type":"http","timeout":5,"future":{"x":1},"url":"` + url + `"}}}`,
		},
		"claude: another URL, its headers go": {
			agent: Claude, file: "claude.json", form: viaHTTP,
			in:   `{"mcpServers":{"a":{"type":"streamable-http","url":"https://h","headers":{"A":"1"},"alwaysLoad":true}}}`,
			want: `{"mcpServers":{"a":{"type":"streamable-http","url":"` + url + `","alwaysLoad":true}}}`,
		},
		"claude: helper": {
			agent: Claude, file: "claude.json", form: helper, in: `{"mcpServers":{"a":{"command":"x"}}}`,
			want: `{"mcpServers":{"a":{"type":"http","url":"` + url + `","headersHelper":"/opt/mcpx/bin/mcpx token print"}}}`,
		},
		"claude: reference in a header": {
			agent: Claude, file: "claude.json", form: header, in: `{"mcpServers":{"a":{"type":"http","url":"u","headers":{"X":"1","Authorization":"Bearer y"}}}}`,
			want: `{"mcpServers":{"a":{"type":"http","url":"` + url + `","headers":{"Authorization":"Bearer ${MCPX_TOKEN_CLAUDE_CODE}"}}}}`,
		},
		"claude: bridge": {
			agent: Claude, file: "claude.json", form: viaBridge, in: `{"mcpServers":{"a":{"type":"http","url":"u","headers":{"X":"1"},"headersHelper":"h"}}}`,
			want: `{"mcpServers":{"a":{"type":"stdio","command":"/opt/mcpx/bin/mcpx","args":["connect","--agent","x","srv"]}}}`,
		},
		"claude: a variable stays": {
			agent: Claude, file: "claude.json", form: &keeping, in: `{"mcpServers":{"a":{"command":"x","env":{"KEPT":"1","GONE":"2"}}}}`,
			want: `{"mcpServers":{"a":{"command":"/opt/mcpx/bin/mcpx","env":{"KEPT":"1"},"args":["connect","--pass","LANG","--pass","KEPT","srv"]}}}`,
		},
		"codex: table": {
			agent: Codex, file: "config.toml", form: bearer,
			in:   "# mine\n[mcp_servers.a]\ncommand = \"x\" # run\nargs = [\"1\"]\nstartup_timeout_sec = 20 # slow\n\n[mcp_servers.a.env]\nA = \"1\"\n\n[tui]\nx = 1\n",
			want: "# mine\n[mcp_servers.a]\nstartup_timeout_sec = 20 # slow\nurl = \"" + url + "\"\nbearer_token_env_var = \"MCPX_TOKEN_CODEX\"\n\n[tui]\nx = 1\n",
		},
		"codex: passed variables": {
			agent: Codex, file: "config.toml", form: &keeping,
			in:   "[mcp_servers.a]\ncommand = \"x\"\nenv_vars = [\"OLD\", \"KEPT\"]\n",
			want: "[mcp_servers.a]\ncommand = \"/opt/mcpx/bin/mcpx\"\nenv_vars = [\"KEPT\", \"LANG\"]\nargs = [\"connect\", \"--pass\", \"LANG\", \"--pass\", \"KEPT\", \"srv\"]\ncwd = \"/src\"\n",
		},
		"codex has no SSE": {agent: Codex, file: "config.toml", form: events, in: "[mcp_servers.a]\ncommand = \"x\"\n", code: "form-unsupported"},
		"gemini: the older key stays": {
			agent: Gemini, file: "settings.json", form: viaHTTP,
			in:   "{\n  \"mcpServers\": {\n    \"a\": {\n      \"httpUrl\": \"https://h\", // the server\n      \"headers\": {\"X\": \"1\"},\n      \"trust\": true\n    }\n  }\n}",
			want: "{\n  \"mcpServers\": {\n    \"a\": {\n      \"httpUrl\": \"" + url + "\", // the server\n      \"trust\": true\n    }\n  }\n}",
		},
		"gemini: process": {
			agent: Gemini, file: "settings.json", form: viaHTTP, in: `{"mcpServers":{"a":{"command":"x","cwd":"/","includeTools":["t"]}}}`,
			want: `{"mcpServers":{"a":{"includeTools":["t"],"type":"http","url":"` + url + `"}}}`,
		},
		"cline: below transport": {
			agent: Cline, file: "cline_mcp_settings.json", form: viaHTTP, in: `{"mcpServers":{"a":{"transport":{"type":"stdio","command":"x"},"autoApprove":["t"]}}}`,
			want: `{"mcpServers":{"a":{"transport":{"type":"streamableHttp","url":"` + url + `"},"autoApprove":["t"]}}}`,
		},
		"cline: flat": {
			agent: Cline, file: "cline_mcp_settings.json", form: viaHTTP, in: `{"mcpServers":{"a":{"command":"x","disabled":false}}}`,
			want: `{"mcpServers":{"a":{"disabled":false,"type":"streamableHttp","url":"` + url + `"}}}`,
		},
		"cline follows no reference": {agent: Cline, file: "cline_mcp_settings.json", form: bearer, in: `{"mcpServers":{"a":{"command":"x"}}}`, code: "form-unsupported"},
		"opencode": {
			agent: OpenCode, file: "opencode.jsonc", form: viaHTTP,
			in:   "{\n  \"mcp\": {\n    \"a\": {\n      \"type\": \"local\",\n      \"command\": [\"x\"],\n      \"environment\": {},\n      \"enabled\": true,\n    },\n  },\n}\n",
			want: "{\n  \"mcp\": {\n    \"a\": {\n      \"type\": \"remote\",\n      \"enabled\": true,\n      \"url\": \"" + url + "\",\n      \"oauth\": false,\n    },\n  },\n}\n",
		},
		"opencode: bridge": {
			agent: OpenCode, file: "opencode.jsonc", form: viaBridge, in: `{"mcp":{"a":{"type":"remote","url":"u","oauth":{"x":1},"timeout":1}}}`,
			want: `{"mcp":{"a":{"type":"local","timeout":1,"command":["/opt/mcpx/bin/mcpx","connect","--agent","x","srv"]}}}`,
		},
		"qwen: url is SSE there": {
			agent: Qwen, file: "settings.json", form: viaHTTP, in: `{"mcpServers":{"a":{"url":"https://h","trust":true}}}`,
			want: `{"mcpServers":{"a":{"trust":true,"httpUrl":"` + url + `"}}}`,
		},
		"qwen: SSE": {
			agent: Qwen, file: "settings.json", form: events, in: `{"mcpServers":{"a":{"httpUrl":"https://h"}}}`,
			want: `{"mcpServers":{"a":{"url":"https://h/sse"}}}`,
		},
		"copilot keeps its filter": {
			agent: Copilot, file: "mcp-config.json", form: viaHTTP, in: `{"mcpServers":{"a":{"tools":["t"],"type":"local","command":"x","args":[]}}}`,
			want: `{"mcpServers":{"a":{"tools":["t"],"type":"http","url":"` + url + `"}}}`,
		},
		"droid tries no login": {
			agent: Droid, file: "mcp.json", form: viaHTTP, in: `{"mcpServers":{"a":{"type":"stdio","command":"x","disabled":false}}}`,
			want: `{"mcpServers":{"a":{"type":"http","disabled":false,"url":"` + url + `","oauth":false}}}`,
		},
		"continue": {
			agent: Continue, file: "config.yaml", form: viaHTTP,
			in:   "name: x\nmcpServers:\n  - name: a # mine\n    type: sse\n    url: https://h\n    requestOptions:\n      headers:\n        K: v\n  - name: b\n    command: y\n",
			want: "name: x\nmcpServers:\n  - name: a # mine\n    type: streamable-http\n    url: " + url + "\n  - name: b\n    command: y\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := desk.place(t, tc.agent, tc.file)
			if name == "cline: flat" {
				l = desk.flat(t)
			}
			d := converge.Drafting{Agent: string(tc.agent), Path: l.File.Path, Steps: []converge.Step{{Op: converge.StepSet, Name: "a", Want: tc.form}}}
			dr, err := desk.draft(desk.look, d, []byte(tc.in), true)
			if code := codeOf(err); code != tc.code {
				t.Fatalf("code %q, want %q: %v", code, tc.code, err)
			}
			if err == nil {
				if diff := cmp.Diff(tc.want, string(dr.result)); diff != "" {
					t.Error(diff)
				}
			} else if fault.From(err).Hint == "" {
				t.Error("no hint")
			}
		})
	}
}

// flat is the file of Cline's extension.
func (d desk) flat(t *testing.T) Location {
	t.Helper()
	for _, l := range d.system.locate(Cline) {
		if l.File.Path != d.place(t, Cline, "cline_mcp_settings.json").File.Path {
			return l
		}
	}
	t.Fatal("no such place")
	return Location{}
}
