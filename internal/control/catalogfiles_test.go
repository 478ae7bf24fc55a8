package control

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
)

const catalogDir = "/h/config/catalog"

// kept is a file with servers that run a program of their name; aliases follow a name after a comma.
func kept(name string, servers ...string) catalog.File {
	f := catalog.File{Path: catalogDir + "/" + name}
	for n, words := range servers {
		names := strings.Split(words, ",")
		f.Entries = append(f.Entries, catalog.FileEntry{Name: names[0], Line: 10 + n, Server: catalog.Server{
			Name: names[0], Aliases: names[1:], Sharing: catalog.ShareSession, Stdio: &catalog.Stdio{Command: "/bin/" + names[0]},
		}})
	}
	return f
}

func broken(name string) catalog.File {
	p := catalog.FileProblem{Code: "catalog-file-broken", Path: catalogDir + "/" + name, Text: "it is no TOML"}
	return catalog.File{Path: p.Path, Problem: &p}
}

// take reads the files anew and gives what changed and the problems, as "file line code".
func (b *bench) take(ctx context.Context, t *testing.T, files ...catalog.File) (changed, problems []string) {
	t.Helper()
	b.files = files
	changed, found, err := b.Reapply(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		problems = append(problems, strings.TrimPrefix(p.Where(), catalogDir+"/")+" "+p.Code)
	}
	return changed, problems
}

func (b *bench) entry(ctx context.Context, t *testing.T, name string) api.CatalogEntry {
	t.Helper()
	e, err := b.CatalogServer(ctx, api.ServerRef{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func wants(t *testing.T, what string, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestCatalogFiles(t *testing.T) {
	b, ctx := newBench(t)
	changed, problems := b.take(ctx, t, kept("a.toml", "one", "two,zwei"), kept("b.toml", "three"))
	wants(t, "new ones", changed, []string{"one", "three", "two"})
	wants(t, "problems", problems, nil)
	wants(t, "routed", b.gateway.names(), []string{"one", "three", "two"})
	e := b.entry(ctx, t, "zwei")
	if e.File != catalogDir+"/a.toml" || e.Line != 11 || e.Review != catalog.ReviewApproved || e.Provenance[0].Source != catalog.FromFile || e.Provenance[0].Ref != e.File {
		t.Errorf("%+v", e)
	}
	events := len(b.eventKinds(ctx, t))

	changed, _ = b.take(ctx, t, kept("a.toml", "one", "two,zwei"), kept("b.toml", "three"))
	wants(t, "the same again", changed, nil)
	if more := len(b.eventKinds(ctx, t)) - events; more != 0 {
		t.Errorf("the same again wrote %d events", more)
	}

	// What a person has decided outlives a change of the file.
	if _, err := b.Review(ctx, api.Review{Subject: "one", Verdict: api.Reject}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DisableServer(ctx, api.ServerRef{Name: "three"}); err != nil {
		t.Fatal(err)
	}
	titled := kept("a.toml", "one", "two")
	titled.Entries[0].Server.Title = "T"
	// An alias moves from one entry to another, to one that is looked at before.
	titled.Entries[0].Server.Aliases = []string{"zwei"}
	changed, problems = b.take(ctx, t, titled, kept("b.toml"), kept("c.toml", "three"))
	wants(t, "changed and moved", changed, []string{"one", "three", "two"})
	wants(t, "problems of a moved alias", problems, nil)
	one, three := b.entry(ctx, t, "zwei"), b.entry(ctx, t, "three")
	if one.Name != "one" || one.Title != "T" || one.Review != catalog.ReviewRejected {
		t.Errorf("one: %+v", one)
	}
	if three.File != catalogDir+"/c.toml" || three.Lifecycle != catalog.Disabled {
		t.Errorf("three: %+v", three)
	}

	// A file that cannot be read, and an entry that cannot be, say nothing new.
	bad := kept("c.toml", "three")
	bad.Entries[0].Problems = []catalog.FileProblem{{Code: "catalog-file-entry", Path: bad.Path, Line: 3, Text: "x"}}
	changed, problems = b.take(ctx, t, broken("a.toml"), bad)
	wants(t, "with problems", changed, nil)
	wants(t, "told", problems, []string{"a.toml catalog-file-broken", "c.toml, line 3 catalog-file-entry"})
	whole := catalog.File{Path: catalogDir, Problem: &catalog.FileProblem{Code: "catalog-file-unsafe", Path: catalogDir, Text: "x"}}
	changed, _ = b.take(ctx, t, whole)
	wants(t, "an unsafe directory", changed, nil)
	// Nor does another file take what stands in one that cannot be read.
	changed, problems = b.take(ctx, t, broken("a.toml"), kept("c.toml", "three"), kept("d.toml", "two"))
	wants(t, "beside a broken file", changed, nil)
	wants(t, "told", problems, []string{"a.toml catalog-file-broken", "d.toml, line 10, servers.two catalog-file-conflict"})
	health, err := b.Health(ctx, api.HealthQuery{})
	if err != nil || !slices.ContainsFunc(health.Findings, func(f api.Finding) bool { return f.Code == "catalog-file-conflict" && f.Subject == "two" }) {
		t.Errorf("%+v, %v", health.Findings, err)
	}

	changed, problems = b.take(ctx, t)
	wants(t, "all gone", changed, []string{"one", "three", "two"})
	wants(t, "problems of nothing", problems, nil)
	wants(t, "routed at the end", b.gateway.names(), []string{})
	if !slices.Contains(b.eventKinds(ctx, t), event.CatalogRemoved) {
		t.Error("nobody was told")
	}
}

// TestCatalogFileNames: a name belongs to whoever has it, and nothing of the rest is lost.
func TestCatalogFileNames(t *testing.T) {
	b, ctx := newBench(t)
	add := func(name, command string, aliases ...string) {
		t.Helper()
		_, err := b.AddServer(ctx, api.AddServer{Server: catalog.Server{Name: name, Aliases: aliases, Stdio: &catalog.Stdio{Command: command}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	add("mine", "/bin/other", "meins")
	add("same", "/bin/same")
	changed, problems := b.take(ctx, t, kept("a.toml", "fine", "mine", "meins", "new,mine", "same"), kept("b.toml", "fine", "last"))
	wants(t, "taken", changed, []string{"fine", "last", "same"})
	wants(t, "problems", problems, []string{
		"a.toml, line 11, servers.mine catalog-file-conflict", "a.toml, line 12, servers.meins catalog-file-conflict",
		"a.toml, line 13, servers.new catalog-file-conflict", "b.toml, line 10, servers.fine catalog-file-conflict",
	})
	if e := b.entry(ctx, t, "mine"); e.File != "" || e.Definition != "/bin/other" {
		t.Errorf("mine: %+v", e)
	}
	e := b.entry(ctx, t, "same")
	if e.File == "" || len(e.Provenance) != 2 || e.Provenance[0].Source != catalog.FromOperator {
		t.Errorf("same: %+v", e)
	}

	// Errors that only the daemon can see: a way back to itself, a reference that never works, a credential that is not there.
	f := kept("a.toml", "cred", "ref", "fine")
	f.Entries[0].Server.Stdio.Env = map[string]catalog.Binding{"T": {Ref: "cred:none"}}
	f.Entries[1].Server.Stdio.Env = map[string]catalog.Binding{"T": {Ref: "wrong:x"}}
	loop := catalog.FileEntry{Name: "loop", Line: 1, Server: catalog.Server{Name: "loop", Sharing: catalog.ShareSession, HTTP: &catalog.HTTP{URL: "http://localhost:30000/servers/a/mcp"}}}
	f.Entries = append(f.Entries, loop)
	changed, problems = b.take(ctx, t, f)
	wants(t, "given back or gone", changed, []string{"last", "same"})
	wants(t, "problems", problems, []string{
		"a.toml, line 10, servers.cred credential-unknown", "a.toml, line 11, servers.ref reference-kind", "a.toml, line 1, servers.loop server-is-mcpx",
	})
	if e := b.entry(ctx, t, "same"); e.File != "" {
		t.Errorf("what was there before is not given back: %+v", e)
	}
}

// TestServerInFile: no command changes what a file says, and each says where it stands.
func TestServerInFile(t *testing.T) {
	b, ctx := newBench(t)
	b.take(ctx, t, kept("a.toml", "one"))
	title, tags := "T", []string{"x"}
	for what, try := range map[string]func() error{
		"edit":   func() error { _, err := b.EditServer(ctx, api.EditServer{Name: "one", Title: &title}); return err },
		"remove": func() error { _, err := b.RemoveServer(ctx, api.ServerRef{Name: "one"}); return err },
		"bind": func() error {
			_, err := b.BindCredentials(ctx, api.BindCredentials{Server: "one", Variables: map[string]string{"A": "a"}})
			return err
		},
		"tags": func() error { _, err := b.Review(ctx, api.Review{Subject: "one", Tags: &tags}); return err },
		"risk": func() error {
			_, err := b.Review(ctx, api.Review{Subject: "one", Verdict: api.Approve, Risk: catalog.RiskLow, Confirmed: true})
			return err
		},
	} {
		f := fault.From(try())
		if f == nil || f.Code != "server-in-file" || !strings.Contains(f.Message, "/h/config/catalog/a.toml, line 10") {
			t.Errorf("%s: %v", what, f)
		}
	}
}
