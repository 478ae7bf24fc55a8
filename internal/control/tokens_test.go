package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/api"
	"mcpx/internal/auth"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// fakeTokenFiles are values in memory. fail names the step that fails next.
type fakeTokenFiles struct {
	values, staged map[string]auth.Value
	fail           string
}

func newFakeTokenFiles() *fakeTokenFiles {
	return &fakeTokenFiles{values: map[string]auth.Value{}, staged: map[string]auth.Value{}}
}

func (f *fakeTokenFiles) failing(step string) error {
	if f.fail != step {
		return nil
	}
	f.fail = ""
	return fault.New(fault.Unavailable, "token-file-unwritable").Saying("%s", step)
}

func (f *fakeTokenFiles) Stage(agent string, v auth.Value) error {
	if err := f.failing("stage"); err != nil {
		return err
	}
	f.staged[agent] = v
	return nil
}

func (f *fakeTokenFiles) Settle(agent string) error {
	if err := f.failing("settle"); err != nil {
		return err
	}
	f.values[agent] = f.staged[agent]
	delete(f.staged, agent)
	return nil
}

func (f *fakeTokenFiles) Drop(agent string) error {
	delete(f.staged, agent)
	delete(f.values, agent)
	return nil
}

func (f *fakeTokenFiles) Unstage(agent string) error {
	delete(f.staged, agent)
	return nil
}

func (f *fakeTokenFiles) Value(agent string) (auth.Value, error) {
	v, ok := f.values[agent]
	if !ok {
		return v, fault.New(fault.NotFound, "token-file-missing").Saying("%s", agent)
	}
	return v, nil
}

func (f *fakeTokenFiles) Staged() (map[string]auth.Value, error) { return f.staged, nil }
func (f *fakeTokenFiles) Path(agent string) string               { return "/t/" + agent + ".token" }

func (b *bench) issue(ctx context.Context, t *testing.T, in api.IssueToken) api.TokenChange {
	t.Helper()
	out, err := b.IssueToken(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// kindsOf are the kinds of the events of an area.
func (b *bench) kindsOf(ctx context.Context, t *testing.T, area string) (kinds []event.Kind) {
	t.Helper()
	err := b.Events(ctx, api.EventsQuery{Kind: area}, func(e event.Event) error {
		kinds = append(kinds, e.Kind)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

func (b *bench) lets(text string) string {
	_, err := b.Authenticate(context.Background(), text, auth.HubRead)
	if err == nil {
		return "in"
	}
	return fault.From(err).Code
}

func TestTokens(t *testing.T) {
	b, ctx := newBench(t)
	first := b.issue(ctx, t, api.IssueToken{Agent: "codex"})
	if first.State != "issued" || first.Variable != "MCPX_TOKEN_CODEX" || first.File != "/t/codex.token" || first.Token.State != auth.Live {
		t.Errorf("issued: %+v", first)
	}
	old := b.tokens.values["codex"].Reveal()
	if again := b.issue(ctx, t, api.IssueToken{Agent: "codex"}); !again.Already || again.Token.ID != first.Token.ID || b.tokens.values["codex"].Reveal() != old {
		t.Errorf("issued again: %+v", again)
	}
	if _, err := b.IssueToken(ctx, api.IssueToken{Agent: "codex", Scopes: []string{"hub:read"}}); fault.From(err).Code != "token-exists" {
		t.Errorf("with other scopes: %v", err)
	}

	rotated, err := b.RotateToken(ctx, api.TokenRef{Token: "codex"})
	if err != nil || rotated.State != "rotated" || rotated.Token.ID == first.Token.ID {
		t.Fatalf("rotated: %+v, %v", rotated, err)
	}
	current := b.tokens.values["codex"].Reveal()
	if current == old || b.lets(old) != "in" || b.lets(current) != "in" {
		t.Error("after a rotation one of the tokens is refused")
	}
	b.now = b.now.Add(auth.RotationGrace)
	if b.lets(old) != "token-expired" || b.lets(current) != "in" {
		t.Error("the old token counts after the grace, or the new one does not")
	}

	page, err := b.Tokens(ctx, api.TokensQuery{})
	if err != nil || len(page.Tokens) != 1 || !page.Tokens[0].Used.Equal(b.now) {
		t.Errorf("listed: %+v, %v", page, err)
	}
	if page, err := b.Tokens(ctx, api.TokensQuery{All: true, Agent: "codex"}); err != nil || len(page.Tokens) != 2 || page.Tokens[0].State != auth.Expired || page.Tokens[0].Next != rotated.Token.ID {
		t.Errorf("all: %+v, %v", page, err)
	}

	revoked, err := b.RevokeToken(ctx, api.TokenRef{Token: rotated.Token.ID})
	if err != nil || revoked.State != "revoked" || b.lets(current) != "token-revoked" {
		t.Errorf("revoked: %+v, %v", revoked, err)
	}
	if _, ok := b.tokens.values["codex"]; ok {
		t.Error("the value of a revoked token is kept")
	}
	if again, err := b.RevokeToken(ctx, api.TokenRef{Token: rotated.Token.ID}); err != nil || again.State != "already_revoked" {
		t.Errorf("revoked again: %+v, %v", again, err)
	}
	for _, name := range []string{"codex", "tok_nothing"} {
		if _, err := b.RevokeToken(ctx, api.TokenRef{Token: name}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("revoke %s: %v", name, err)
		}
	}
	want := []event.Kind{event.AuthTokenIssued, event.AuthTokenRotated, event.AuthTokenDenied, event.AuthTokenRevoked, event.AuthTokenDenied}
	if diff := cmp.Diff(want, b.kindsOf(ctx, t, "auth")); diff != "" {
		t.Errorf("events:\n%s", diff)
	}
}

// TestTokenIsNowhere looks for the value of a token in everything that is stored and answered.
func TestTokenIsNowhere(t *testing.T) {
	b, ctx := newBench(t)
	out := b.issue(ctx, t, api.IssueToken{Agent: "codex"})
	secret := b.tokens.values["codex"].Reveal()
	_, _ = b.Authenticate(ctx, secret[:len(secret)-1], auth.HubRead) // refused and told
	page, err := b.Tokens(ctx, api.TokensQuery{All: true})
	if err != nil {
		t.Fatal(err)
	}
	var shown []any
	shown = append(shown, out, page)
	if err := b.Events(ctx, api.EventsQuery{}, func(e event.Event) error { shown = append(shown, e, string(e.Body)); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, v := range shown {
		data, err := api.Marshal(v)
		if err != nil || strings.Contains(string(data), secret[len(auth.Prefix):len(auth.Prefix)+10]) {
			t.Errorf("%s (%v)", data, err)
		}
	}
}

// TestTokenCutOff fails and kills an issue and a rotation at each step. Afterwards an agent has exactly one token that
// counts, and its value is in its file.
func TestTokenCutOff(t *testing.T) {
	for _, step := range []string{"stage", "settle"} {
		for _, rotate := range []bool{false, true} {
			b, ctx := newBench(t)
			before := ""
			if rotate {
				b.issue(ctx, t, api.IssueToken{Agent: "codex"})
				before = b.tokens.values["codex"].Reveal()
			}
			b.tokens.fail = step
			var err error
			if rotate {
				_, err = b.RotateToken(ctx, api.TokenRef{Token: "codex"})
			} else {
				_, err = b.IssueToken(ctx, api.IssueToken{Agent: "codex"})
			}
			if fault.From(err).Code != "token-file-unwritable" {
				t.Errorf("%s: %v", step, err)
			}
			if rotate && b.lets(before) != "in" {
				t.Errorf("%s: the token from before a rotation that failed is refused", step)
			}
			if err := b.Load(ctx); err != nil { // as the next daemon
				t.Fatal(err)
			}
			after := b.issue(ctx, t, api.IssueToken{Agent: "codex"})
			if len(b.tokens.staged) != 0 || b.lets(b.tokens.values["codex"].Reveal()) != "in" {
				t.Errorf("%s: after it: %+v, staged %v", step, after, b.tokens.staged)
			}
			if step == "settle" && !after.Already {
				t.Errorf("%s: what was committed is not found: %+v", step, after)
			}
			page, err := b.Tokens(ctx, api.TokensQuery{})
			live := slices.DeleteFunc(page.Tokens, func(v api.Token) bool { return v.State != auth.Live })
			if err != nil || len(live) != 1 {
				t.Errorf("%s: live tokens: %+v, %v", step, live, err)
			}
		}
	}
}

func TestTokenValueLost(t *testing.T) {
	b, ctx := newBench(t)
	first := b.issue(ctx, t, api.IssueToken{Agent: "codex"})
	delete(b.tokens.values, "codex")
	second := b.issue(ctx, t, api.IssueToken{Agent: "codex"})
	if second.State != "issued" || second.Token.ID == first.Token.ID || b.lets(b.tokens.values["codex"].Reveal()) != "in" {
		t.Errorf("after the value was lost: %+v", second)
	}
}

// TestRefusalsAreFew tries a bad token a thousand times: the log has one event a minute, with the count, and one more for who
// looks before the minute is over.
func TestRefusalsAreFew(t *testing.T) {
	b, ctx := newBench(t)
	for range 1000 {
		b.lets("mcpx_at_bad")
		b.lets("") // who has none is not told of
	}
	b.now = b.now.Add(refusedEvery)
	b.lets("mcpx_at_bad")
	look := func() (bodies []string) {
		if err := b.Events(ctx, api.EventsQuery{Kind: "auth"}, func(e event.Event) error { bodies = append(bodies, string(e.Body)); return nil }); err != nil {
			t.Fatal(err)
		}
		return bodies
	}
	if bodies := look(); len(bodies) != 2 || !strings.Contains(bodies[1], `"count":1000`) {
		t.Errorf("events: %s", bodies)
	}
	for range 7 {
		b.lets("mcpx_at_bad")
	}
	look()
	if bodies := look(); len(bodies) != 3 || !strings.Contains(bodies[2], `"count":7`) {
		t.Errorf("within the minute, for who looks: %s", bodies)
	}

	// Those that could not be written down are told with the next ones.
	db := b.cfg.DB
	b.cfg.DB = fullDisk{db}
	for range 3 {
		b.lets("mcpx_at_bad")
	}
	b.FlushRefusals()
	b.now = b.now.Add(refusedEvery)
	b.lets("mcpx_at_bad")
	b.cfg.DB = db
	b.lets("mcpx_at_bad")
	if bodies := look(); len(bodies) != 4 || !strings.Contains(bodies[3], `"count":5`) {
		t.Errorf("after a time in which nothing could be written: %s", bodies)
	}
}

// fullDisk takes nothing.
type fullDisk struct{ store.DB }

func (fullDisk) Change(context.Context, func(store.Tx) error) error {
	return fault.New(fault.Unavailable, "store-full").Saying("the disk is full")
}

func TestBearer(t *testing.T) {
	b, ctx := newBench(t)
	b.issue(ctx, t, api.IssueToken{Agent: "codex"})
	b.issue(ctx, t, api.IssueToken{Agent: "gemini", Scopes: []string{"servers:use:gh", "servers:use:mem"}})
	b.issue(ctx, t, api.IssueToken{Agent: "qwen", Scopes: []string{"hub:read"}, Seconds: 60})
	for agent, want := range map[string]map[string]bool{
		"codex": {"gh": true, "x": true}, "gemini": {"gh": true, "mem": true, "x": false}, "qwen": {"gh": false},
	} {
		c, ok := b.Bearer(b.tokens.values[agent].Reveal())
		if !ok || c.Agent != agent || c.Principal != api.Owner.Name {
			t.Errorf("%s: %+v, %v", agent, c, ok)
		}
		for server, may := range want {
			if c.May(server) != may {
				t.Errorf("%s uses %s: want %v", agent, server, may)
			}
		}
	}
	b.now = b.now.Add(time.Minute)
	if _, ok := b.Bearer(b.tokens.values["qwen"].Reveal()); ok {
		t.Error("a token that is over counts")
	}
	if _, ok := b.Bearer("of another program"); ok {
		t.Error("another program's token counts")
	}
	if kinds := b.kindsOf(ctx, t, "auth.token_denied"); len(kinds) != 1 {
		t.Errorf("refusals that were told: %v", kinds)
	}
}

// TestAgentsMayOnlyRead asks for every operation as an agent.
func TestAgentsMayOnlyRead(t *testing.T) {
	b, _ := newBench(t)
	ctx := api.As(t.Context(), api.Principal{Name: api.Owner.Name, Agent: "codex"})
	for _, op := range api.Ops {
		err := b.allow(ctx, op.Name)
		switch {
		case agentMay[op.Name] && (err != nil || op.Need != api.Read || op.Method != "GET"):
			t.Errorf("%s (%s, %s): %v", op.Name, op.Method, op.Need, err)
		case !agentMay[op.Name] && fault.From(err).Code != "not-allowed":
			t.Errorf("%s: %v", op.Name, err)
		}
	}
	for name := range agentMay {
		if _, ok := api.Find(name); !ok {
			t.Errorf("%s is no operation", name)
		}
	}
	if err := b.allow(api.As(t.Context(), api.Principal{Name: "other", Agent: "codex"}), "hub.status"); err == nil {
		t.Error("an agent of another user is let in")
	}
}

// TestHubIsScoped gives two agents plans and asks for them as each.
func TestHubIsScoped(t *testing.T) {
	b, owner := governedBench(t)
	plan := b.offered(owner, t)
	as := func(agent string) context.Context {
		return api.As(t.Context(), api.Principal{Name: api.Owner.Name, Agent: agent})
	}
	claude, codex := as("claude_code"), as("codex")
	for name, ctx := range map[string]context.Context{"its own": claude, "the owner": owner} {
		list, err := b.HubPlans(ctx, api.HubPlansQuery{Agent: "claude_code"})
		if err != nil || len(list.Plans) != 1 || list.Plans[0].ID != plan.ID || list.Plans[0].Path != claudeFile {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
		view, err := b.HubPlan(ctx, api.HubPlanRef{Agent: "claude_code", Plan: plan.ID})
		if err != nil || len(view.Files) != 1 || view.Files[0].Diff == "" || !strings.HasPrefix(view.Next, "a person runs: mcpx approval show apr_") {
			t.Errorf("%s: %+v, %v", name, view, err)
		}
		data, err := api.Marshal(view)
		if err != nil || strings.Contains(string(data), "sha256") || strings.Contains(string(data), hashOf("direct")) {
			t.Errorf("%s: hashes are shown: %s", name, data)
		}
	}
	list, err := b.HubPlans(codex, api.HubPlansQuery{Agent: "claude_code"}) // an agent is itself, whatever it says
	if err != nil || len(list.Plans) != 0 {
		t.Errorf("another agent: %+v, %v", list, err)
	}
	for _, name := range []string{plan.ID, plan.ID[:8], "plan_", "plan_nothing"} {
		if _, err := b.HubPlan(codex, api.HubPlanRef{Agent: "claude_code", Plan: name}); fault.From(err).Code != "plan-unknown" {
			t.Errorf("another agent, %s: %v", name, err)
		}
		if _, err := b.HubPlans(codex, api.HubPlansQuery{Cursor: name}); fault.From(err).Code != "plan-unknown" {
			t.Errorf("another agent, cursor %s: %v", name, err)
		}
	}
	status, err := b.HubStatus(codex, api.HubQuery{})
	if err != nil || status.Blockers.Count != 0 || len(status.Servers) != 0 {
		t.Errorf("another agent: %+v, %v", status, err)
	}
	if status, err = b.HubStatus(claude, api.HubQuery{}); err != nil || !slices.Contains(status.Blockers.Codes, "active-bypass") {
		t.Errorf("its own: %+v, %v", status, err)
	}
	found, err := b.HubCatalog(claude, api.HubCatalogQuery{Query: "A"})
	if err != nil || len(found.Servers) != 1 || found.Servers[0].Mounted {
		t.Errorf("the catalog: %+v, %v", found, err)
	}
	b.sees("routed a")
	b.audit(owner, t)
	if found, err = b.HubCatalog(claude, api.HubCatalogQuery{}); err != nil || !found.Servers[0].Mounted {
		t.Errorf("the catalog after the route: %+v, %v", found, err)
	}
	if found, err = b.HubCatalog(codex, api.HubCatalogQuery{}); err != nil || found.Servers[0].Mounted {
		t.Errorf("the catalog of another agent: %+v, %v", found, err)
	}
	if run, err := b.HubRuntime(claude, api.HubRuntimeQuery{}); err != nil || len(run.Servers) != 1 || run.Servers[0].Server != "a" {
		t.Errorf("what runs: %+v, %v", run, err)
	}
	if _, err := b.HubRuntime(codex, api.HubRuntimeQuery{Server: "a"}); fault.From(err).Code != "server-not-mounted" {
		t.Errorf("what runs for another agent: %v", err)
	}
}

// TestSelfCheck goes through what can be wrong with the control plane of an agent.
func TestSelfCheck(t *testing.T) {
	b, ctx := newBench(t)
	none, err := b.CheckAgents(ctx, api.ChecksQuery{})
	if err != nil || none.OK || none.Code != "no-agents" {
		t.Errorf("without agents: %+v, %v", none, err)
	}
	code := func() []string {
		t.Helper()
		out, err := b.CheckAgents(ctx, api.ChecksQuery{Agent: "codex"})
		if err != nil || len(out.Agents) != 1 || out.OK != out.Agents[0].OK {
			t.Fatalf("%+v, %v", out, err)
		}
		var codes []string
		for _, p := range out.Agents[0].Problems {
			if p.Severity == converge.WeightBlocker {
				codes = append(codes, p.Code)
			}
		}
		if out.OK != (len(codes) == 0) {
			t.Errorf("ok %v with %v", out.OK, codes)
		}
		return codes
	}
	is := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, code()); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
	}
	is("nothing installed", "control-plane-absent")
	b.putAgent(ctx, t, converge.AgentRecord{Agent: "codex", Level: converge.LevelObserved, Control: converge.StrategyBridge})
	is("installed", "control-plane-not-routed", "token-none")
	b.hubEntry("codex")
	b.audited(ctx, t)
	is("routed", "token-none")
	b.issue(ctx, t, api.IssueToken{Agent: "codex"})
	b.letIn = func(token string) (bool, error) { return token == b.tokens.values["codex"].Reveal(), nil }
	is("with a token")
	value := b.tokens.values["codex"]
	delete(b.tokens.values, "codex")
	is("its value is gone", "token-file-missing")
	b.tokens.values["codex"] = value
	for what, c := range map[string]struct {
		letIn func(string) (bool, error)
		want  string
	}{
		"open":        {func(string) (bool, error) { return true, nil }, "control-plane-unauthenticated"},
		"refused":     {func(string) (bool, error) { return false, nil }, "control-plane-refused"},
		"unreachable": {func(string) (bool, error) { return false, errors.New("nobody") }, "control-plane-unreachable"},
	} {
		b.letIn = c.letIn
		is(what, c.want)
	}
	b.letIn = func(string) (bool, error) { t.Error("an agent that is in was tried again"); return false, nil }
	out, err := b.CheckAgents(api.As(t.Context(), api.Principal{Name: "owner", Agent: "codex"}), api.ChecksQuery{Agent: "claude_code"})
	if err != nil || len(out.Agents) != 1 || out.Agents[0].Agent != "codex" || out.Agents[0].Control.Answers != answersIn {
		t.Errorf("an agent asks about itself: %+v, %v", out, err)
	}
}

func (b *bench) putAgent(ctx context.Context, t *testing.T, r converge.AgentRecord) {
	t.Helper()
	err := b.cfg.DB.Change(ctx, func(tx store.Tx) error {
		return tx.PutAgentRecord(ctx, converge.PutAgentRecord{Record: r})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// hubEntry lets the next audit see an entry of an agent that leads to the control plane.
func (b *bench) hubEntry(agent string) {
	b.observed = converge.Observation{
		Files: []converge.File{{Agent: agent, Path: "/h/f", Real: "/h/f", Scope: "user", State: converge.FileReadable, Entries: 1, Problems: []converge.Problem{}}},
		Entries: []converge.Entry{{
			Agent: agent, Name: converge.HubName, File: "/h/f", Scope: "user", At: []string{"m", converge.HubName}, Enabled: true, Transport: "stdio",
			Parse: "complete", Routed: &converge.Routed{State: converge.RoutedHere, Server: converge.HubName, Form: "bridge"}, ID: "obs_h",
		}},
	}
}

func (b *bench) audited(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := b.RunAudit(ctx, api.RunAudit{}); err != nil {
		t.Fatal(err)
	}
}

// TestHubCredentials asks which credentials an agent needs: those of its own servers, without values.
func TestHubCredentials(t *testing.T) {
	b, ctx := newBench(t)
	b.add(ctx, t, withEnv("a", "env:TOKEN_OF_A"))
	b.add(ctx, t, withEnv("other", "env:TOKEN_OF_OTHER"))
	b.sees("routed a")
	b.audited(ctx, t)
	want := api.HubCredentials{Credentials: []api.HubCredential{{Name: "env:TOKEN_OF_A", Readiness: "unchecked", Servers: []string{"a"}, Hint: "it is looked up when the server starts"}}}
	got, err := b.HubCredentials(ctx, api.HubQuery{Agent: "claude_code"})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if got, err := b.HubCredentials(ctx, api.HubQuery{Agent: "codex"}); err != nil || len(got.Credentials) != 0 {
		t.Errorf("another agent: %+v, %v", got, err)
	}
}

// TestUnusedToken waits 90 days: the health tells of a token that nobody used.
func TestUnusedToken(t *testing.T) {
	b, ctx := newBench(t)
	b.issue(ctx, t, api.IssueToken{Agent: "codex"})
	told := func() bool {
		h, err := b.Health(ctx, api.HealthQuery{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(h.Findings, func(f api.Finding) bool { return f.Code == "token-unused-90d" })
	}
	b.now = b.now.Add(91 * 24 * time.Hour)
	if !told() {
		t.Error("a token that was never used is not told")
	}
	b.lets(b.tokens.values["codex"].Reveal())
	if told() {
		t.Error("a token that was just used is told as unused")
	}
}

// TestOriginDenied: a page that tries again and again is told of once a minute, with the count, and cannot fill the log.
func TestOriginDenied(t *testing.T) {
	b, ctx := newBench(t)
	for range 3 {
		b.OriginDenied(ctx, "https://evil.example/"+strings.Repeat("x", 10*maxOrigin))
	}
	b.now = b.now.Add(refusedEvery)
	b.OriginDenied(ctx, "null")
	var told []string
	err := b.Events(ctx, api.EventsQuery{Kind: string(event.AuthOriginDenied)}, func(e event.Event) error {
		if len(e.Summary) > 2*maxOrigin {
			t.Errorf("%d bytes are kept of an origin", len(e.Summary))
		}
		told = append(told, string(e.Body))
		return nil
	})
	if err != nil || len(told) != 2 || !strings.Contains(told[0], `"count":1`) || !strings.Contains(told[1], `"count":3`) {
		t.Errorf("%v, %v", told, err)
	}
}
