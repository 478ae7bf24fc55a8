package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/test/rig"
)

// TestRT113NothingDecides: RT-113 and RT-135. Whatever an agent calls, with a token of any scope or without one, on the
// interfaces of MCP or on those of people: no question is decided, no repository trusted, no rule changed.
func TestRT113NothingDecides(t *testing.T) {
	g := rig.New(t)
	dir, rules := filepath.Join(t.TempDir(), "shop"), filepath.Join(g.Home, "config", "policy.toml")
	const before = "[tools]\nallow = []\n"
	for name, content := range map[string]string{filepath.Join(dir, ".mcp.json"): `{"mcpServers":{"words":{"command":"false"}}}`, rules: before} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g.Extra = []string{"MCPX_RUNTIME_EXTENSIONS=true"}
	g.Serve()
	g.Must("project", "add", dir)
	runtime := "http://" + g.Addr + "/mcp"
	_, opened := post(t, runtime, "", tool("1", "session", `{"action":"open","project":"shop","operation_id":"open-shop-1"}`))
	session := regexp.MustCompile(`rs_[0-9A-Z]+`).FindString(string(opened))
	_, asked := post(t, runtime, "", tool("2", "edit_files", fmt.Sprintf(`{"remote_session_id":%q,"operation_id":"edit-0001","edits":[{"path":".envrc","op":"create","content":"x"}]}`, session)))
	approval := regexp.MustCompile(`apr_[0-9A-Z]+`).FindString(string(asked))
	if session == "" || approval == "" {
		t.Fatalf("%s\n%s", opened, asked)
	}
	shown, err := g.API().ProjectTrust(t.Context(), api.ProjectRef{Project: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	question, err := g.API().Approval(t.Context(), api.ApprovalRef{Approval: approval})
	if err != nil {
		t.Fatal(err)
	}
	decision := fmt.Sprintf(`{"approve":true,"digest":%q,"approval":%q}`, question.Subject, approval)
	trust := fmt.Sprintf(`{"sha256":%q,"project":"shop"}`, shown.Digest)

	tokens := map[string]string{"no token": ""}
	for i, scopes := range [][]string{{"hub:read"}, {"hub:propose"}, {"servers:use"}, {"servers:use:words"}, {"hub:read", "hub:propose", "servers:use"}} {
		agent := []string{"codex", "claude_code", "gemini", "qwen", "cline"}[i]
		args := []string{"token", "issue", "--agent", agent}
		for _, scope := range scopes {
			args = append(args, "--scope", scope)
		}
		g.Must(args...)
		tokens[strings.Join(scopes, " ")] = strings.TrimSpace(g.Must("token", "print", "--agent", agent, "--as", "value"))
	}
	methods := map[string]string{}
	for _, name := range []string{
		"approval.decide", "approval_decide", "approve", "deny", "approval_approve", "trust.decide", "trust_decide", "project_trust", "project.trust", "policy_set", "policy.set",
		"policy_check", "agent.set", "project.grant",
	} {
		for _, args := range []string{decision, trust} {
			methods["call of "+name+" "+args] = tool("9", name, args)
		}
	}
	for _, method := range []string{
		"approval/decide", "approvals/decide", "trust/decide", "policy/set", "elicitation/create", "resources/read", "resources/subscribe", "prompts/get",
		"completion/complete", "sampling/createMessage", "roots/list", "tasks/result", "notifications/elicitation/complete",
	} {
		for _, uri := range []string{"mcpx://approval/" + approval, "mcpx://trust/shop", "mcpx://policy"} {
			methods[method+" "+uri] = fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":%q,"params":{"uri":%q,"action":"accept","content":%s}}`, method, uri, decision)
		}
	}
	// Neither may an argument of a real tool decide: RT-112 has no token of an agent that counts as a yes.
	again := fmt.Sprintf(`{"remote_session_id":%q,"operation_id":"edit-0001","edits":[{"path":".envrc","op":"create","content":"x"}]`, session)
	for _, extra := range []string{`"user_confirmed":true`, `"confirmation_token":"` + approval + `"`, `"approval_id":"` + approval + `"`} {
		methods["edit_files with "+extra] = tool("9", "edit_files", again+","+extra+"}")
	}
	refused := 0
	for scope, token := range tokens {
		for _, url := range []string{runtime, g.URL("mcp_hub")} {
			for what, body := range methods {
				status, answer := post(t, url, token, body)
				if !saysNo(status, answer) {
					t.Errorf("%s, %s at %s: %d %s", scope, what, url, status, answer)
				}
				refused++
			}
			for _, list := range []string{"resources/list", "resources/templates/list", "prompts/list"} { // what is listed could be asked for
				if _, answer := post(t, url, token, fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":%q}`, list)); bytes.Contains(answer, []byte("uri")) || bytes.Contains(answer, []byte("name\":")) {
					t.Errorf("%s, %s at %s: %s", scope, list, url, answer)
				}
			}
		}
		// The interfaces of people are on no listener of agents.
		for path, body := range map[string]string{
			"/v1/approvals/" + approval + "/decision": decision, "/v1/projects/shop/trust": trust, "/v1/projects/shop/grants": `{"principal":"eve","role":"owner"}`,
			"/mcp/v1/projects/shop/trust": trust, "/servers/mcp_hub/v1/approvals/" + approval + "/decision": decision,
		} {
			if status, answer := post(t, "http://"+g.Addr+path, token, body); status < 400 || status > 499 {
				t.Errorf("%s, %s: %d %s", scope, path, status, answer)
			}
			refused++
		}
	}
	// On the socket, where a person is, this program has no terminal.
	if _, err := g.API().Decide(api.Under(t.Context(), "op-decide-1"), api.Decide{Approval: approval, Approve: true, Digest: question.Subject}); fault.KindOf(err) != fault.Denied {
		t.Errorf("a program decides on the socket: %v", err)
	}
	if _, err := g.API().TrustProject(api.Under(t.Context(), "op-trust-01"), api.TrustProject{Project: "shop", Digest: shown.Digest}); fault.KindOf(err) != fault.Denied {
		t.Errorf("a program trusts on the socket: %v", err)
	}
	if refused < 6*2*40 {
		t.Errorf("only %d calls were made", refused)
	}
	if now, err := g.API().Approval(t.Context(), api.ApprovalRef{Approval: approval}); err != nil || now.State != "pending" {
		t.Errorf("the question is %s, %v", now.State, err)
	}
	if now, err := g.API().ProjectTrust(t.Context(), api.ProjectRef{Project: "shop"}); err != nil || now.State != "untrusted" {
		t.Errorf("the project is %s, %v", now.State, err)
	}
	if raw, err := os.ReadFile(rules); err != nil || string(raw) != before {
		t.Errorf("the rules are %q, %v", raw, err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".envrc")); !os.IsNotExist(err) {
		t.Errorf("the file was written: %v", err)
	}
}

// post sends one message as a client would that has a token.
func post(t *testing.T, url, token, body string) (int, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", "2025-11-25")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, raw
}

// saysNo says whether an answer is a no: of HTTP, of JSON-RPC, of a tool, or that a person has to decide still.
func saysNo(status int, body []byte) bool {
	if status >= 400 && status < 500 {
		return true
	}
	if i := bytes.Index(body, []byte("data: ")); i >= 0 {
		body = body[i+6:]
		if end := bytes.IndexByte(body, '\n'); end >= 0 {
			body = body[:end]
		}
	}
	var m struct {
		Error  *struct{ Code int } `json:"error"`
		Result struct {
			IsError    bool `json:"isError"`
			Structured struct {
				OK     bool   `json:"ok"`
				Status string `json:"status"`
			} `json:"structuredContent"`
		} `json:"result"`
	}
	if json.Unmarshal(body, &m) != nil {
		return false
	}
	return m.Error != nil || m.Result.IsError || m.Result.Structured.Status == "waiting_approval"
}
