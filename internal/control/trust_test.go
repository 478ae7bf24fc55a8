package control

import (
	"context"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/session"
)

// fakeRepositories are repositories by the path of their project.
type fakeRepositories map[string]session.Repository

func (f fakeRepositories) Repository(_ context.Context, p session.Project) (session.Repository, error) {
	return f[p.Path], nil
}

// repository names one server, run by a command, and a skill.
func repository(command string) session.Repository {
	server := catalog.Server{
		Name: "words", Sharing: catalog.ShareSession, Lifecycle: catalog.Enabled, Review: catalog.ReviewPending,
		Stdio: &catalog.Stdio{Command: command, Args: []string{"a b", "\x1b[2K"}, Env: map[string]catalog.Binding{"TOKEN": {Ref: "env:TOKEN"}, "PATH": {Literal: "/repo/.bin:\x1b[2K"}, "LATER": {Unresolved: true}}},
	}
	far := catalog.Server{Name: "docs", Lifecycle: catalog.Enabled, HTTP: &catalog.HTTP{URL: "https://docs.example/mcp", Headers: map[string]catalog.Binding{"X-Key": {Ref: "env:KEY"}}}}
	return session.Repository{
		Files: []session.File{{Path: ".mcp.json", Digest: command}},
		Entries: []session.Entry{
			{Kind: session.EntryServer, Name: "words", File: ".mcp.json", Digest: command, Server: &server},
			{Kind: session.EntryServer, Name: "docs", File: ".mcp.json", Digest: "docs", Server: &far},
			{Kind: session.EntrySkill, Name: "deploy", File: "skills/deploy", Digest: "d", Runs: []string{"./run"}},
		},
	}
}

// TestTrust: RT-135. A person agrees to exactly what was shown, at a terminal, and nobody else does.
func TestTrust(t *testing.T) {
	b, ctx := newBench(t)
	b.dirs["/srv/shop"] = 7
	b.repos["/srv/shop"] = repository("/bin/words")
	added, err := b.AddProject(ctx, api.AddProject{Path: "/srv/shop"})
	if err != nil || added.Project.Trust != "" {
		t.Fatal(added, err)
	}
	shown, err := b.ProjectTrust(ctx, api.ProjectRef{Project: "shop"})
	if err != nil || shown.State != session.Untrusted || len(shown.Entries) != 3 || shown.Entries[0].State != api.EntryNew {
		t.Fatalf("%+v, %v", shown, err)
	}
	text := shown.Text()
	for _, want := range []string{`"/bin/words" "a b" "\x1b[2K"`, "TOKEN from env:TOKEN", `PATH="/repo/.bin:\x1b[2K"`, "  LATER\n", "https://docs.example/mcp", "X-Key from env:KEY", `"./run"`, "skills/deploy"} {
		if !strings.Contains(text, want) {
			t.Errorf("a person is not shown %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("a person is shown what a terminal obeys:\n%s", text)
	}
	decide := func(digest string) (api.ProjectTrust, error) {
		return b.TrustProject(ctx, api.TrustProject{Project: "shop", Digest: digest})
	}
	b.person = fault.New(fault.Denied, "no-person").Saying("a program asks")
	if _, err := decide(shown.Digest); codeOfFault(err) != "no-person" {
		t.Errorf("a program decides: %v", err)
	}
	b.person = nil
	if _, err := decide("00"); codeOfFault(err) != "trust-stale" {
		t.Errorf("another digest: %v", err)
	}
	if slices.Contains(b.gateway.names(), "shop/words") {
		t.Error("a server is routed that nobody agreed to")
	}
	agreed, err := decide(shown.Digest)
	if err != nil || agreed.State != session.Trusted || agreed.Entries[0].State != api.EntryTrusted {
		t.Fatalf("%+v, %v", agreed, err)
	}
	if !slices.Contains(b.gateway.names(), "shop/words") || !slices.Contains(b.gateway.names(), "shop/docs") {
		t.Error("the servers are not routed")
	}
	a, err := b.Approval(ctx, api.ApprovalRef{Approval: agreed.Approval})
	if err != nil || a.Kind != approval.KindTrust || a.State != approval.Consumed || a.Decision == nil || a.Decision.Terminal == "" || a.Consumer == "" || a.Subject != shown.Digest {
		t.Errorf("the decision is kept as %+v, %v", a, err)
	}
	b.repos["/srv/shop"] = repository("/tmp/other")
	now, err := b.ProjectTrust(ctx, api.ProjectRef{Project: "shop"})
	if err != nil || now.State != session.Changed || now.Entries[0].State != api.EntryChanged || now.Entries[1].State != api.EntryTrusted {
		t.Errorf("changed: %+v, %v", now, err)
	}
	page, err := b.Projects(ctx, api.ProjectsQuery{})
	if err != nil || page.Projects[0].Trust != session.Changed {
		t.Errorf("the list says %v, %v", page.Projects, err)
	}
	if out, err := b.TrustProject(ctx, api.TrustProject{Project: "shop", Revoke: true}); err != nil || out.State != session.Untrusted || slices.Contains(b.gateway.names(), "shop/docs") {
		t.Errorf("revoked: %+v, %v", out, err)
	}
	delete(b.repos, "/srv/shop")
	if _, err := decide(session.Repository{}.Digest()); codeOfFault(err) != "trust-empty" {
		t.Errorf("an empty repository: %v", err)
	}
	want := []event.Kind{event.TrustRefused, event.TrustRefused, event.TrustGranted, event.TrustRevoked, event.TrustRefused}
	if got := kindsOf(t, b, ctx, "trust"); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
	if _, err := b.TrustProject(api.As(ctx, api.Principal{Name: api.Owner.Name, Agent: "codex"}), api.TrustProject{Project: "shop"}); codeOfFault(err) != "not-allowed" {
		t.Errorf("an agent decides: %v", err)
	}
}
