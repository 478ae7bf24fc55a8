package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpx/internal/api"
	"mcpx/internal/auth"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

// service answers as the agent that asks, and remembers who that was.
type service struct {
	api.Service

	mu    sync.Mutex
	asked []api.Principal
}

func (s *service) as(ctx context.Context) string {
	p, _ := api.PrincipalOf(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, p)
	return p.Agent
}

func (s *service) CheckAgents(ctx context.Context, _ api.ChecksQuery) (api.Checks, error) {
	return api.Checks{OK: true, Agents: []api.SelfCheck{{OK: true, Agent: s.as(ctx), Files: []api.CheckFile{}, Problems: []api.CheckProblem{}}}}, nil
}

func (s *service) HubStatus(ctx context.Context, _ api.HubQuery) (api.HubStatus, error) {
	s.as(ctx)
	none := api.HubFindings{Codes: []string{}}
	return api.HubStatus{Daemon: api.HubDaemon{Version: "1"}, Servers: []api.HubServer{}, Blockers: none, Warnings: none, Notices: none}, nil
}

func (s *service) HubPlans(ctx context.Context, in api.HubPlansQuery) (api.HubPlans, error) {
	return api.HubPlans{Plans: []api.HubPlan{{ID: "plan_of_" + s.as(ctx), State: converge.PlanReady, Summary: in.State}}}, nil
}

func (s *service) HubPlan(ctx context.Context, in api.HubPlanRef) (api.HubPlanView, error) {
	if in.Plan != "plan_of_"+s.as(ctx) {
		return api.HubPlanView{}, converge.PlanUnknown(in.Plan)
	}
	return api.HubPlanView{HubPlan: api.HubPlan{ID: in.Plan}, Reasons: []string{}, Risks: []string{}, Problems: []converge.Problem{}, Effects: []string{}, Files: []api.HubPlanFile{}, Next: "a person runs: mcpx approval show apr_1"}, nil
}

func (s *service) HubEntry(ctx context.Context, in api.HubEntryQuery) (api.HubEntry, error) {
	s.as(ctx)
	return api.HubEntry{Name: in.Server, URL: "http://127.0.0.1:1/servers/a/mcp", Form: converge.FormHTTP, Entry: map[string]any{"a": 1}, Reasons: []string{}}, nil
}

func (s *service) HubRuntime(ctx context.Context, _ api.HubRuntimeQuery) (api.HubRuntime, error) {
	s.as(ctx)
	return api.HubRuntime{Servers: []api.HubLane{{Server: "a", State: "ready"}}}, nil
}

func (s *service) HubCredentials(ctx context.Context, _ api.HubQuery) (api.HubCredentials, error) {
	s.as(ctx)
	return api.HubCredentials{Credentials: []api.HubCredential{{Name: "env:T", Readiness: "ready", Servers: []string{"a"}}}}, nil
}

func (s *service) HubCatalog(ctx context.Context, _ api.HubCatalogQuery) (api.HubCatalog, error) {
	s.as(ctx)
	return api.HubCatalog{Servers: []api.HubCatalogEntry{{Name: "a", Tags: []string{}}}}, nil
}

// bench is a hub on a real listener, with a clock and a book of tokens.
type bench struct {
	*service
	t    *testing.T
	url  string
	hub  *Hub
	mu   sync.Mutex
	now  time.Time
	all  []auth.Token
	made int
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{service: &service{}, t: t, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	b.open()
	return b
}

// open starts a hub, as another daemon would.
func (b *bench) open() {
	hub, err := NewHub(HubConfig{
		Service: b.service, Key: bytes.Repeat([]byte{7}, 32), Version: "1", Now: b.clock, Log: slog.New(slog.DiscardHandler),
		Authenticate: func(_ context.Context, text string, need auth.Scope) (auth.Token, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			t, err := auth.NewBook(b.all).Check(text, b.now)
			if err == nil && !auth.Allows(t.Scopes, need) {
				return auth.Token{}, auth.NoScope(t, need)
			}
			return t, err
		},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	srv := httptest.NewServer(Beside(http.NotFoundHandler(), hub, http.NotFoundHandler()))
	b.t.Cleanup(srv.Close)
	b.hub, b.url = hub, srv.URL+Path
}

func (b *bench) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// token makes a token of an agent.
func (b *bench) token(agent string, scopes ...auth.Scope) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made++
	v, err := auth.Make(auth.OfAgent, bytes.NewReader(bytes.Repeat([]byte{byte(b.made)}, 32)))
	if err != nil {
		b.t.Fatal(err)
	}
	if scopes == nil {
		scopes = auth.Usual()
	}
	b.all = append(b.all, auth.Issue(auth.Order{ID: fmt.Sprintf("tok_%d", b.made), Agent: agent, Scopes: scopes}, v, b.now))
	return v.Reveal()
}

// change replaces the record of the nth token.
func (b *bench) change(n int, f func(auth.Token) auth.Token) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all[n] = f(b.all[n])
}

// reply is what was answered.
type reply struct {
	StatusCode int
	Header     http.Header
}

func (b *bench) send(method, token, session, body string, headers ...string) (reply, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if session != "" {
		r.Header.Set(headerSession, session)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header}, string(text)
}

func initialize(version string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
}

const (
	listTools = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	callPlans = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"plan_list","arguments":{}}}`
	modernAsk = `{"jsonrpc":"2.0","id":4,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
)

func (b *bench) session(token string) string {
	b.t.Helper()
	r, text := b.send("POST", token, "", initialize("2025-06-18"))
	if r.StatusCode != http.StatusOK || r.Header.Get(headerSession) == "" {
		b.t.Fatalf("initialize: %d %s", r.StatusCode, text)
	}
	return r.Header.Get(headerSession)
}

// TestEveryRequestNeedsAToken sends every kind of request with every kind of token that does not count.
func TestEveryRequestNeedsAToken(t *testing.T) {
	b := newBench(t)
	good := b.token("codex")
	session := b.session(good)
	expired, revoked, narrow := b.token("codex"), b.token("codex"), b.token("codex", auth.ServersUse)
	b.change(1, func(t auth.Token) auth.Token { t.Expires = b.now; return t })
	b.change(2, func(t auth.Token) auth.Token { t.Revoked = b.now; return t })
	unknown, _ := auth.Make(auth.OfAgent, bytes.NewReader(bytes.Repeat([]byte{99}, 32)))
	for _, request := range []struct{ method, session, body string }{
		{"POST", "", initialize("2025-06-18")},
		{"POST", "", modernAsk},
		{"POST", session, listTools},
		{"POST", session, callPlans},
		{"POST", "", "not json"},
		{"GET", "", ""},
		{"GET", session, ""},
		{"DELETE", session, ""},
		{"PUT", "", ""},
		{"OPTIONS", "", ""},
		{"HEAD", "", ""},
	} {
		for token, want := range map[string]string{
			"": "token-missing", "sekret": "token-malformed", good[:len(good)-1]: "token-malformed", unknown.Reveal(): "token-unknown",
			expired: "token-expired", revoked: "token-revoked", narrow: "scope-missing",
		} {
			r, text := b.send(request.method, token, request.session, request.body, "Mcp-Protocol-Version", "2025-06-18")
			status := http.StatusUnauthorized
			if want == "scope-missing" {
				status = http.StatusForbidden
			}
			if r.StatusCode != status || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s with %s: %d %s", request.method, want, r.StatusCode, text)
			}
			if request.method == "HEAD" {
				continue
			}
			var answer struct {
				Error struct {
					Data struct {
						Code string `json:"code"`
					} `json:"data"`
				} `json:"error"`
			}
			if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Error.Data.Code != want {
				t.Errorf("%s %s with %s: %s (%v)", request.method, request.body, want, text, err)
			}
			if token != "" && strings.Contains(text, token) {
				t.Errorf("the refusal repeats the token: %s", text)
			}
		}
	}
	if len(b.asked) != 0 {
		t.Errorf("the service was asked by %v", b.asked)
	}
	if r, text := b.send("POST", good, session, callPlans); r.StatusCode != http.StatusOK || !strings.Contains(text, "plan_of_codex") {
		t.Errorf("with its token: %d %s", r.StatusCode, text)
	}
}

// TestRevisions initializes with each revision that the SDK serves.
func TestRevisions(t *testing.T) {
	b := newBench(t)
	token := b.token("codex")
	want := []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
	if diff := cmp.Diff(want, mcp.SupportedProtocolVersions()); diff != "" {
		t.Errorf("the SDK serves other revisions:\n%s", diff)
	}
	for _, version := range want[1:] {
		r, text := b.send("POST", token, "", initialize(version))
		if r.StatusCode != http.StatusOK || !strings.Contains(text, `"protocolVersion":"`+version+`"`) {
			t.Errorf("%s: %d %s", version, r.StatusCode, text)
			continue
		}
		session := r.Header.Get(headerSession)
		if r, text := b.send("POST", token, session, callPlans, headerVersion, version); r.StatusCode != http.StatusOK || !strings.Contains(text, "plan_of_codex") {
			t.Errorf("%s: %d %s", version, r.StatusCode, text)
		}
	}
	r, text := b.send("POST", token, "", modernAsk, headerVersion, "2026-07-28", "Mcp-Method", "server/discover")
	if r.StatusCode != http.StatusOK || !strings.Contains(text, "2026-07-28") || r.Header.Get(headerSession) != "" {
		t.Errorf("server/discover: %d %v %s", r.StatusCode, r.Header, text)
	}
}

// client is a client of the SDK.
func (b *bench) client(token string) *mcp.ClientSession {
	b.t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	x, err := c.Connect(b.t.Context(), &mcp.StreamableClientTransport{Endpoint: b.url, HTTPClient: &http.Client{Transport: bearer(token)}, DisableStandaloneSSE: true}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = x.Close() }) // the session may have been ended
	return x
}

type bearer string

func (t bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(t))
	return http.DefaultTransport.RoundTrip(r)
}

// TestTools calls all tools with a client of the SDK, which checks the answers against their schemas.
func TestTools(t *testing.T) {
	b := newBench(t)
	x := b.client(b.token("codex"))
	listed, err := x.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	arguments := map[string]any{
		"self_check": nil, "status": nil, "plan_list": map[string]any{"limit": 50}, "plan_show": map[string]any{"plan_id": "plan_of_codex"},
		"proxy_url": map[string]any{"server": "a"}, "runtime_status": nil, "credential_status": nil, "catalog_search": map[string]any{"query": ""},
	}
	if len(listed.Tools) != len(arguments) {
		t.Errorf("%d tools, want %d", len(listed.Tools), len(arguments))
	}
	for _, tool := range listed.Tools {
		if !tool.Annotations.ReadOnlyHint || tool.InputSchema == nil || tool.OutputSchema == nil {
			t.Errorf("%s: %+v", tool.Name, tool.Annotations)
		}
		args, known := arguments[tool.Name]
		if !known {
			t.Errorf("a tool %s", tool.Name)
			continue
		}
		out, err := x.CallTool(t.Context(), &mcp.CallToolParams{Name: tool.Name, Arguments: args})
		if err != nil || out.IsError || out.StructuredContent == nil || len(out.Content) != 1 {
			t.Errorf("%s: %+v, %v", tool.Name, out, err)
			continue
		}
		if text := out.Content[0].(*mcp.TextContent).Text; text == "" || len(text) > 500 {
			t.Errorf("%s says %q", tool.Name, text)
		}
	}
	for name, args := range map[string]any{
		"plan_list": map[string]any{"limit": 51}, "catalog_search": map[string]any{}, "status": map[string]any{"agent": "gemini"},
		"self_check": map[string]any{"agent": "gemini"},
	} {
		if out, err := x.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args}); err == nil && !out.IsError {
			t.Errorf("%s takes %v: %+v", name, args, out)
		}
	}
	for _, word := range []string{"apply", "approve", "rollback", "review", "kill"} {
		if out, err := x.CallTool(t.Context(), &mcp.CallToolParams{Name: word}); err == nil && !out.IsError {
			t.Errorf("there is a tool %s", word)
		}
	}
}

// TestOnlyItsOwn asks as two agents at the same time: each is answered as itself.
func TestOnlyItsOwn(t *testing.T) {
	b := newBench(t)
	var wait sync.WaitGroup
	for _, agent := range []string{"codex", "gemini"} {
		x := b.client(b.token(agent))
		other := map[string]string{"codex": "plan_of_gemini", "gemini": "plan_of_codex"}[agent]
		wait.Go(func() {
			for range 20 {
				own, err := x.CallTool(t.Context(), &mcp.CallToolParams{Name: "plan_show", Arguments: map[string]any{"plan_id": "plan_of_" + agent}})
				if err != nil || own.IsError {
					t.Errorf("%s: %+v, %v", agent, own, err)
				}
				out, err := x.CallTool(t.Context(), &mcp.CallToolParams{Name: "plan_show", Arguments: map[string]any{"plan_id": other}})
				if err != nil || !out.IsError || !strings.HasPrefix(out.Content[0].(*mcp.TextContent).Text, "plan-unknown: ") {
					t.Errorf("%s sees %s: %+v, %v", agent, other, out, err)
				}
			}
		})
	}
	wait.Wait()
	for _, p := range b.asked {
		if p.Name != api.Owner.Name || p.Agent == "" {
			t.Errorf("asked as %+v", p)
		}
	}
}

// TestSessions shows what a session is bound to, how many there are, and that they outlive the daemon.
func TestSessions(t *testing.T) {
	b := newBench(t)
	mine, other := b.token("codex"), b.token("gemini")
	first := b.session(mine)
	status := func(token, session string) int {
		r, _ := b.send("POST", token, session, listTools)
		return r.StatusCode
	}
	last := "A"
	if strings.HasSuffix(first, last) {
		last = "Q"
	}
	for name, c := range map[string]struct {
		token, session string
		want           int
	}{
		"its own": {mine, first, 200}, "of another": {other, first, 404}, "none": {mine, "", 400}, "made up": {mine, "abc", 404},
		"half": {mine, first[:len(first)-2], 404}, "changed": {mine, first[:len(first)-1] + last, 404},
	} {
		if got := status(c.token, c.session); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if r, _ := b.send("DELETE", other, first, ""); r.StatusCode != http.StatusNoContent || status(mine, first) != 200 {
		t.Errorf("another agent ended a session (%d)", r.StatusCode)
	}

	all := []string{first}
	for range maxSeats - 1 {
		b.pass(time.Second)
		all = append(all, b.session(mine))
	}
	for _, s := range all {
		b.pass(time.Second)
		if got := status(mine, s); got != 200 {
			t.Errorf("one of %d sessions: %d", maxSeats, got)
		}
	}
	b.pass(time.Second)
	if status(mine, first) != 200 { // used last: the second is the one that goes
		t.Error("the first session is gone")
	}
	more := b.session(mine)
	if got := status(mine, all[1]); got != 404 {
		t.Errorf("%d sessions and one more: the one that was used least is answered with %d", maxSeats, got)
	}
	if status(mine, first) != 200 || status(mine, more) != 200 {
		t.Error("a session that was in use is gone")
	}

	before := b.hub
	b.pass(time.Second)
	b.open()
	if b.hub == before || status(mine, more) != 200 || status(mine, all[5]) != 200 {
		t.Error("a session does not outlive its daemon")
	}
	if r, _ := b.send("DELETE", mine, more, ""); r.StatusCode != http.StatusNoContent || status(mine, more) != 404 {
		t.Errorf("a session cannot be ended: %d", r.StatusCode)
	}
	if r, _ := b.send("DELETE", mine, more, ""); r.StatusCode != http.StatusNoContent {
		t.Errorf("ended twice: %d", r.StatusCode)
	}
}

// TestRotation keeps a session over a rotation: both tokens count for ten minutes, then the new one alone.
func TestRotation(t *testing.T) {
	b := newBench(t)
	old := b.token("codex")
	session := b.session(old)
	v, err := auth.Make(auth.OfAgent, bytes.NewReader(bytes.Repeat([]byte{77}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	before, after, err := auth.Rotate(b.all[0], "tok_new", v, b.now)
	if err != nil {
		t.Fatal(err)
	}
	b.all = []auth.Token{before, after}
	status := func(token string) int {
		r, _ := b.send("POST", token, session, listTools)
		return r.StatusCode
	}
	if status(old) != 200 || status(v.Reveal()) != 200 {
		t.Error("after a rotation one of the tokens is refused")
	}
	b.pass(auth.RotationGrace - time.Second)
	if status(old) != 200 {
		t.Error("the old token is refused too early")
	}
	b.pass(time.Second)
	if status(old) != 401 || status(v.Reveal()) != 200 {
		t.Error("after the grace the old token counts, or the session is lost")
	}
}

// TestProbes are requests that clients make to find out what a server is, with a token: each has a quick answer in JSON.
func TestProbes(t *testing.T) {
	b := newBench(t)
	token := b.token("codex")
	session := b.session(token)
	for _, c := range []struct {
		name, method, session, body string
		headers                     []string
		want                        int
	}{
		{"a stream", "GET", session, "", nil, 405},
		{"no json", "POST", session, "{", nil, 400},
		{"another type", "POST", session, "x", []string{"Content-Type", "text/plain"}, 415},
		{"a revision of the future", "POST", session, listTools, []string{headerVersion, "2031-01-01"}, 400},
		{"too large", "POST", session, `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", maxBody) + `"}`, nil, 413},
		{"only json", "POST", session, listTools, []string{"Accept", "application/json"}, 200},
		{"anything", "POST", session, listTools, []string{"Accept", "*/*"}, 200},
		{"a notification", "POST", session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 202},
	} {
		r, text := b.send(c.method, token, c.session, c.body, c.headers...)
		if r.StatusCode != c.want || c.want != 202 && !json.Valid([]byte(text)) {
			t.Errorf("%s: %d %s, want %d", c.name, r.StatusCode, text, c.want)
		}
	}
}

func TestProbe(t *testing.T) {
	b := newBench(t)
	for token, want := range map[string]bool{"": false, "x": false, b.token("codex"): true} {
		if in, err := Probe(t.Context(), b.url, token); err != nil || in != want {
			t.Errorf("%q: %v, %v", token, in, err)
		}
	}
	if _, err := Probe(t.Context(), "http://127.0.0.1:1/", ""); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("nothing listens: %v", err)
	}
}
