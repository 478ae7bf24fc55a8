package certify

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// TestModel speaks each protocol as an agent does: first with a tool on offer, then with its result.
func TestModel(t *testing.T) {
	for name, c := range map[string]struct {
		path          string
		first, second string
		call          string // of the first answer
	}{
		"anthropic": {
			"/v1/messages", `{"tools":[{"name":"other"},{"name":"mcp__one__echo"}],"messages":[{"role":"user","content":"call echo"}]`,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"hello"}]}]}]`, `"mcp__one__echo"`,
		},
		"responses": {
			"/v1/responses", `{"tools":[{"type":"namespace","name":"mcp__one__","tools":[{"name":"echo"}]}],"input":"call echo"`,
			`{"input":[{"type":"function_call_output","output":"hello"}]`, `"namespace":"mcp__one__"`,
		},
		"chat": {
			"/v1/chat/completions", `{"tools":[{"type":"function","function":{"name":"one_echo"}}],"messages":[{"role":"user","content":"call echo"}]`,
			`{"messages":[{"role":"tool","content":"hello"}]`, `"one_echo"`,
		},
		"gemini": {
			"/v1beta/models/x:generateContent", `{"tools":[{"functionDeclarations":[{"name":"mcp_one_echo"}]}],"contents":[{"parts":[{"text":"call echo"}]}]`,
			`{"contents":[{"parts":[{"functionResponse":{"response":{"output":"hello"}}}]}]`, `"mcp_one_echo"`,
		},
	} {
		for _, stream := range []bool{false, true} {
			kind := map[bool]string{false: "/whole", true: "/streamed"}[stream]
			t.Run(name+kind, func(t *testing.T) {
				m := &Model{Plan: []Call{{Tool: regexp.MustCompile(`one_+echo$`), Args: json.RawMessage(`{"text":"hello"}`)}}}
				s := httptest.NewServer(m)
				defer s.Close()
				path, end := c.path, "}"
				if stream {
					path, end = strings.Replace(path, ":generate", ":streamGenerate", 1), `,"stream":true}`
				}
				if got := post(t, s.URL+path, c.first+end); !strings.Contains(got, c.call) || strings.Contains(got, "FINAL") || strings.HasPrefix(got, "{") == stream {
					t.Errorf("with a tool on offer: %s", got)
				}
				if got := post(t, s.URL+path, c.second+end); !strings.Contains(got, "FINAL: ") || !strings.Contains(got, "hello") {
					t.Errorf("with a result: %s", got)
				}
				if got := post(t, s.URL+path, end[max(0, len(end)-1):]); !strings.Contains(got, "no matching tool") {
					t.Errorf("with nothing that it understands: %s", got)
				}
				if asked, other := m.Asked(); asked != 3 || len(other) != 0 {
					t.Errorf("asked %d times, not understood %q", asked, other)
				}
			})
		}
	}
}

func TestModelUnknownPath(t *testing.T) {
	m := &Model{}
	s := httptest.NewServer(m)
	defer s.Close()
	post(t, s.URL+"/v1/embeddings", "{}")
	if _, other := m.Asked(); len(other) != 1 || other[0] != "POST /v1/embeddings" {
		t.Errorf("not understood: %q", other)
	}
}

func post(t *testing.T, url, body string) string {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestRecipes checks what a typo would break: names that mcpx knows, and expressions that compile.
func TestRecipes(t *testing.T) {
	if len(Agents()) != 10 {
		t.Errorf("%d agents: %v", len(Agents()), Agents())
	}
	for _, r := range recipes {
		if (r.add == nil) == (r.write == nil) {
			t.Errorf("%s: one of add and write, please", r.agent)
		}
		if r.status != nil && !r.connected("one").MatchString(map[string]string{
			"claude_code": "one: x (HTTP) - ✔ Connected", "droid": "  one  http  connected  [user]", "opencode": "●  ✓ one connected",
			"kilo": "●  ✓ one connected", "gemini": "✓ one: u (http) - Connected", "qwen": "✓ one: u (http) - Connected",
		}[r.agent]) {
			t.Errorf("%s: the line of a connected server is not recognised", r.agent)
		}
		for _, name := range []string{"mcp__one__echo", "one___echo", "one_echo", "mcp_one_echo", "one-echo"} {
			calls := agent{recipe: r}.plan([]Server{{Name: "one"}}, 1)
			last := calls[len(calls)-1].Tool
			if want := !r.bare; last.MatchString(name) != want {
				t.Errorf("%s: %s fits %s: %v", r.agent, last, name, !want)
			}
		}
	}
}
