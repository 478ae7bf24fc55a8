package control

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// unknown is a finding that no server matches.
func unknown(agent, name, command string, args ...string) converge.Finding {
	p, _ := catalog.IdentifyCommand(command, args)
	return converge.Finding{
		Entry: converge.Entry{
			Agent: agent, Name: name, File: "/" + agent, Scope: "user", Enabled: true, Transport: "stdio", Command: command, Args: args,
			Package: &p, Parse: "complete", ID: "obs_" + agent, Digest: "digest-" + agent,
		},
		Class: converge.Unknown, Match: catalog.Match{Confidence: catalog.MatchNone, Reasons: []string{catalog.ReasonNotInCatalog}},
	}
}

func (b *bench) stage(ctx context.Context, t *testing.T, findings ...converge.Finding) []catalog.Candidate {
	t.Helper()
	var changed []catalog.Candidate
	err := b.cfg.DB.Change(ctx, func(tx store.Tx) error {
		var err error
		changed, err = b.StageCandidates(ctx, tx, findings, func(string, string) bool { return true })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// eventKinds are the events so far; it also looks that none of them holds a secret.
func (b *bench) eventKinds(ctx context.Context, t *testing.T) []event.Kind {
	t.Helper()
	var kinds []event.Kind
	err := b.cfg.DB.View(ctx, func(r store.Reader) error {
		events, err := r.Events(ctx, event.ListEvents{})
		for _, e := range events {
			kinds = append(kinds, e.Kind)
			if raw, err := json.Marshal(e); err != nil || strings.Contains(string(raw), "hunter2") {
				t.Errorf("an event holds a secret, or is no JSON: %s, %v", raw, err)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

func TestCandidates(t *testing.T) {
	b, ctx := newBench(t)
	off := unknown("amp", "off", "npx", "off")
	off.Class = converge.Dormant
	routed := unknown("amp", "routed", "npx", "routed")
	routed.Routed = &converge.Routed{State: converge.RoutedForeign}
	maybe := unknown("amp", "maybe", "npx", "maybe")
	maybe.Match.Confidence = catalog.MatchAmbiguous
	withToken := unknown("codex", "gh", "npx", "-y", "@acme/gh")
	withToken.Variables = []string{"TOKEN"}
	gh := unknown("gemini", "github", "npx", "@acme/gh")
	gh.Variables = []string{"TOKEN"}
	found := []converge.Finding{withToken, gh, unknown("codex", "fs", "npx", "@acme/fs", "."), off, routed, maybe}
	if changed := b.stage(ctx, t, found...); len(changed) != 2 {
		t.Fatalf("%d candidates, want gh and fs: %+v", len(changed), changed)
	}
	if changed := b.stage(ctx, t, found...); len(changed) != 0 {
		t.Errorf("the same look again changes %+v", changed)
	}
	page, err := b.Candidates(ctx, api.CandidatesQuery{})
	if err != nil || len(page.Candidates) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	candidate := func(name string) string {
		i := slices.IndexFunc(page.Candidates, func(c catalog.Candidate) bool { return c.Name == name })
		return page.Candidates[i].ID
	}
	id := candidate("gh")

	// A promotion needs a person, makes an entry that is not routed before its variable is bound, and starts nothing.
	_, err = b.Review(ctx, api.Review{Subject: id, Verdict: api.Promote})
	refused(t, err, fault.NeedsApproval, "review-needs-yes", "npx -y @acme/gh")
	_, err = b.Review(ctx, api.Review{Subject: id, Verdict: api.Promote, Confirmed: true, Bind: map[string]catalog.Binding{"TOKE": {Ref: "env:T"}}})
	refused(t, err, fault.NotFound, "binding-unknown", "did you mean TOKEN?")
	if len(b.gateway.names()) != 0 {
		t.Error("a refused promotion wrote something")
	}
	done, err := b.Review(ctx, api.Review{Subject: id[:12], Verdict: api.Promote, Confirmed: true, Name: "github", Risk: catalog.RiskNormal, Note: "ok"})
	if err != nil {
		t.Fatal(err)
	}
	if e := done.Entry; e.Name != "github" || e.Review != catalog.ReviewApproved || e.Risk != catalog.RiskNormal || e.Routable ||
		strings.Join(e.Reasons, " ") != "binding-unresolved:TOKEN" || done.Candidate.State != catalog.CandidatePromoted || done.Candidate.Server != e.ID {
		t.Errorf("promoted: %+v, %+v", done.Entry, done.Candidate)
	}
	bound, err := b.Review(ctx, api.Review{Subject: "github", Bind: map[string]catalog.Binding{"TOKEN": {Ref: "env:TOKEN"}}})
	if err != nil || !bound.Entry.Routable || strings.Join(bound.Changed, " ") != "env.TOKEN" {
		t.Errorf("bound: %+v, %v", bound.Entry, err)
	}
	_, err = b.Review(ctx, api.Review{Subject: id, Verdict: api.Reject})
	refused(t, err, fault.Conflict, "candidate-decided", "promoted already")

	// A rejected one stays rejected, whatever is seen, until the person promotes or merges it after all.
	fs := candidate("fs")
	if _, err := b.Review(ctx, api.Review{Subject: fs, Verdict: api.Reject, Note: "no"}); err != nil {
		t.Fatal(err)
	}
	b.stage(ctx, t, found...)
	if page, err = b.Candidates(ctx, api.CandidatesQuery{State: "rejected"}); err != nil || len(page.Candidates) != 1 || page.Candidates[0].ID != fs {
		t.Errorf("after another look: %+v, %v", page, err)
	}
	merged, err := b.Review(ctx, api.Review{Subject: fs, Verdict: api.Merge, With: "github"})
	if err != nil || merged.Candidate.State != catalog.CandidateMerged || len(merged.Entry.Provenance) != 3 {
		t.Errorf("merged: %+v, %v", merged, err)
	}
	links, err := b.linksNow(ctx)
	if err != nil || links["digest-codex"] != done.Entry.ID {
		t.Errorf("a merge is no link: %v, %v", links, err)
	}

	// Who removes the server wants to decide again.
	if _, err := b.RemoveServer(ctx, api.ServerRef{Name: "github"}); err != nil {
		t.Fatal(err)
	}
	b.stage(ctx, t, found...)
	if page, err = b.Candidates(ctx, api.CandidatesQuery{}); err != nil || len(page.Candidates) != 2 {
		t.Errorf("after the removal: %+v, %v", page, err)
	}
	want := []event.Kind{
		event.CandidateStaged, event.CandidateStaged, event.CatalogCreated, event.CandidatePromoted, event.CatalogReviewed,
		event.CandidateRejected, event.CandidateMerged, event.CatalogRemoved, event.CandidateStaged, event.CandidateStaged,
	}
	if d := cmp.Diff(want, b.eventKinds(ctx, t)); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}

	hidden := unknown("codex", "s", "npx", "s", "--token", catalog.Redacted)
	hidden.Facts.Hidden = true
	secret := b.stage(ctx, t, hidden)
	for _, c := range secret {
		if c.Shape.Hidden {
			_, err = b.Review(ctx, api.Review{Subject: c.ID, Verdict: api.Promote, Confirmed: true})
			refused(t, err, fault.Invalid, "candidate-hidden", "looks like a secret")
		}
	}
}

func (b *bench) linksNow(ctx context.Context) (links map[string]string, err error) {
	err = b.cfg.DB.View(ctx, func(r store.Reader) error {
		links, err = linked(ctx, r)
		return err
	})
	return links, err
}

func TestReviewServer(t *testing.T) {
	b, ctx := newBench(t)
	pending := stdio("fs", "npx", "@acme/fs")
	if _, err := b.ImportServers(ctx, api.ImportServers{Servers: []catalog.Server{pending}, Pending: true, Ref: "/f.json"}); err != nil {
		t.Fatal(err)
	}
	names := func() string { return strings.Join(b.routedNow(), " ") }
	if names() != "" {
		t.Errorf("a pending server is routed: %s", names())
	}
	for _, tc := range []struct {
		name    string
		in      api.Review
		refused string
		routed  string
		changed string
	}{
		{"approve without a person", api.Review{Verdict: api.Approve}, "review-needs-yes", "", ""},
		{"approve", api.Review{Verdict: api.Approve, Confirmed: true}, "", "fs", "review"},
		{"approve again", api.Review{Verdict: api.Approve}, "", "fs", ""},
		{"lower the risk", api.Review{Risk: catalog.RiskLow}, "review-needs-yes", "fs", ""},
		{"lower the risk, agreed", api.Review{Risk: catalog.RiskLow, Confirmed: true}, "", "fs", "risk"},
		{"raise the risk", api.Review{Risk: catalog.RiskHigh}, "", "fs", "risk"},
		{"pins off", api.Review{Pins: catalog.PinsOff}, "review-needs-yes", "fs", ""},
		{"pins warn", api.Review{Pins: catalog.PinsWarn}, "", "fs", "pins"},
		{"words", api.Review{Tags: &[]string{"a", "b"}, Profiles: &[]string{"p"}}, "", "fs", "profiles tags"},
		{"bad word", api.Review{Tags: &[]string{"a b"}}, "server-invalid", "fs", ""},
		{"bad risk", api.Review{Risk: "huge"}, "server-invalid", "fs", ""},
		{"deprecate", api.Review{Verdict: api.Deprecate}, "", "fs", "lifecycle"},
		{"reject", api.Review{Verdict: api.Reject, Note: "no"}, "", "", "review"},
		{"nothing", api.Review{}, "review-invalid", "", ""},
		{"reject and set", api.Review{Verdict: api.Reject, Risk: catalog.RiskHigh}, "review-invalid", "", ""},
		{"merge with nothing", api.Review{Verdict: api.Merge}, "review-invalid", "", ""},
		{"no such verdict", api.Review{Verdict: "maybe"}, "review-invalid", "", ""},
		{"no such server", api.Review{Subject: "fz", Verdict: api.Approve}, "server-unknown", "", ""},
		{"a candidate is no server", api.Review{Subject: "cand_x", Verdict: api.Approve}, "review-invalid", "", ""},
		{"no such candidate", api.Review{Subject: "cand_x", Verdict: api.Reject}, "candidate-unknown", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.in.Subject == "" {
				tc.in.Subject = "fs"
			}
			out, err := b.Review(ctx, tc.in)
			if f := fault.From(err); err == nil && tc.refused != "" || f != nil && f.Code != tc.refused {
				t.Fatalf("%v, want %q", err, tc.refused)
			}
			if got := strings.Join(out.Changed, " "); err == nil && got != tc.changed {
				t.Errorf("changed %q, want %q", got, tc.changed)
			}
			if names() != tc.routed {
				t.Errorf("routed: %q, want %q", names(), tc.routed)
			}
		})
	}

	// What was decided stays when the file is imported again.
	again, err := b.ImportServers(ctx, api.ImportServers{Servers: []catalog.Server{pending}, Ref: "/f.json"})
	if err != nil || again.Entries[0].Outcome != api.ImportUnchanged {
		t.Errorf("%+v, %v", again, err)
	}
	page, err := b.Catalog(ctx, api.CatalogQuery{Words: []string{"ACME", "npm:"}})
	if err != nil || len(page.Entries) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	e := page.Entries[0]
	if e.Review != catalog.ReviewRejected || e.Lifecycle != catalog.Deprecated || e.Risk != catalog.RiskHigh || e.PinMode != catalog.PinsWarn {
		t.Errorf("the import changed what was decided: %+v", e)
	}
	if len(e.Provenance) != 2 || e.Provenance[0].Ref != "/f.json" || strings.Join(e.Provenance[1].Fields, " ") != "pins profiles risk tags" {
		t.Errorf("provenance %+v", e.Provenance)
	}
	for _, q := range []api.CatalogQuery{{Words: []string{"nothing"}}, {Tag: "c"}, {Profile: "q"}, {Review: "approved"}} {
		if page, err := b.Catalog(ctx, q); err != nil || len(page.Entries) != 0 {
			t.Errorf("%+v finds %+v, %v", q, page.Entries, err)
		}
	}
}

// routedNow are the names that the gateway would route.
func (b *bench) routedNow() []string {
	b.gateway.mu.Lock()
	defer b.gateway.mu.Unlock()
	var names []string
	for _, s := range b.gateway.applied {
		if len(catalog.NotRoutable(s)) == 0 {
			names = append(names, s.Name)
		}
	}
	return names
}

func TestLinkEntry(t *testing.T) {
	b, ctx := newBench(t)
	one := b.add(ctx, t, stdio("one", "npx", "x"))
	b.add(ctx, t, stdio("two", "npx", "x"))
	p, _ := catalog.IdentifyCommand("npx", []string{"x"})
	entry := converge.Entry{Agent: "codex", Name: "e", File: "/c", At: []string{"mcp_servers", "e"}, Enabled: true, Transport: "stdio", Command: "npx", Args: []string{"x"}, Package: &p, Parse: "complete", ID: "obs_abc", Digest: "d1"}
	other := entry
	other.ID, other.Digest = "obs_abd", "d2"
	b.observed = converge.Observation{Entries: []converge.Entry{entry, other}}
	if err := b.cfg.DB.Change(ctx, func(tx store.Tx) error {
		return tx.PutFileRecord(ctx, converge.PutFileRecord{Record: converge.FileRecord{File: converge.File{Agent: "codex", Path: "/c"}, Entries: b.observed.Entries}})
	}); err != nil {
		t.Fatal(err)
	}
	classes := func() (got []string) {
		report, err := b.InspectConfig(ctx, api.ConfigQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range report.Entries {
			got = append(got, string(f.Class)+" "+f.Match.Server)
		}
		return got
	}
	if d := cmp.Diff([]string{"ambiguous ", "ambiguous "}, classes()); d != "" {
		t.Error(d)
	}
	for id, code := range map[string]string{"obs_x": "observation-unknown", "": "observation-unknown", "obs_ab": "observation-ambiguous"} {
		if _, err := b.LinkEntry(ctx, api.LinkEntry{Observation: id, Server: "one"}); fault.From(err).Code != code {
			t.Errorf("%q: %v, want %s", id, err, code)
		}
	}
	out, err := b.LinkEntry(ctx, api.LinkEntry{Observation: "obs_abc", Server: "one"})
	if err != nil || out.Already || out.Link.Server != one.ID || out.Entry != "e" {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err := b.LinkEntry(ctx, api.LinkEntry{Observation: "obs_abc", Server: "one"}); err != nil || !out.Already {
		t.Errorf("again: %+v, %v", out, err)
	}
	if d := cmp.Diff([]string{"bypass one", "ambiguous "}, classes()); d != "" {
		t.Error(d)
	}
	b.observed.Entries[0].Digest = "d3" // the entry was changed: it is compared anew
	if d := cmp.Diff([]string{"ambiguous ", "ambiguous "}, classes()); d != "" {
		t.Error(d)
	}
}

func TestImportLinks(t *testing.T) {
	b, ctx := newBench(t)
	b.add(ctx, t, stdio("fs", "npx", "@acme/fs"))
	secret := stdio("db", "npx", "@acme/db")
	secret.Stdio.Env = map[string]catalog.Binding{"URL": {Literal: "hunter2"}}
	b.add(ctx, t, secret)
	file := func(name string, argv ...string) catalog.Server { return stdio(name, argv...) }
	db := stdio("db", "npx", "@acme/db")
	db.Stdio.Env = map[string]catalog.Binding{"URL": {Unresolved: true}}
	in := api.ImportServers{Pending: true, Ref: "/f.json", Servers: []catalog.Server{
		file("files", "bunx", "@acme/fs"),        // another name and launcher: linked
		file("fs-ro", "npx", "@acme/fs", "--ro"), // other arguments: a server of its own
		db,                                       // the value of the catalog is not the file's business
		{Name: "far", HTTP: &catalog.HTTP{URL: "https://example.com/mcp"}},
	}}
	want := []api.ImportOutcome{api.ImportLinked, api.ImportCreated, api.ImportUnchanged, api.ImportCreated}
	outcomes := func(r api.ImportReport) (all []api.ImportOutcome) {
		for _, e := range r.Entries {
			all = append(all, e.Outcome)
		}
		return all
	}
	dry := in
	dry.DryRun = true
	report, err := b.ImportServers(ctx, dry)
	if d := cmp.Diff([]api.ImportOutcome{api.ImportWouldLink, api.ImportWouldCreate, api.ImportUnchanged, api.ImportWouldCreate}, outcomes(report)); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	report, err = b.ImportServers(ctx, in)
	if d := cmp.Diff(want, outcomes(report)); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	before, err := b.Catalog(ctx, api.CatalogQuery{})
	if err != nil {
		t.Fatal(err)
	}
	events := len(b.eventKinds(ctx, t))
	report, err = b.ImportServers(ctx, in)
	if d := cmp.Diff([]api.ImportOutcome{api.ImportUnchanged, api.ImportUnchanged, api.ImportUnchanged, api.ImportUnchanged}, outcomes(report)); d != "" || err != nil {
		t.Errorf("the second import: %v %s", err, d)
	}
	after, err := b.Catalog(ctx, api.CatalogQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, after); d != "" || len(b.eventKinds(ctx, t)) != events {
		t.Errorf("the second import changed something:\n%s", d)
	}

	bad := api.ImportServers{AllOrNothing: true, Servers: []catalog.Server{file("new", "n"), file("fs", "other")}}
	report, err = b.ImportServers(ctx, bad)
	if err != nil || !report.Refused || report.Entries[0].Outcome != api.ImportWouldCreate || len(b.eventKinds(ctx, t)) != events {
		t.Errorf("all or nothing: %+v, %v", report, err)
	}
	report, err = b.ImportServers(ctx, api.ImportServers{AllOrNothing: true, Unread: 1, Servers: []catalog.Server{file("new", "n")}})
	if err != nil || !report.Refused {
		t.Errorf("an entry that could not be read: %+v, %v", report, err)
	}
}

func TestExportCatalog(t *testing.T) {
	b, ctx := newBench(t)
	s := stdio("fs", "npx", "@acme/fs")
	s.Stdio.Env = map[string]catalog.Binding{"A": {Literal: "hunter2"}}
	b.add(ctx, t, s)
	mine := stdio("mine", "npx", "@acme/mine")
	mine.Sharing = catalog.ShareNone
	b.add(ctx, t, mine)
	if _, err := b.ImportServers(ctx, api.ImportServers{Servers: []catalog.Server{stdio("later", "x")}, Pending: true}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		in            api.ExportQuery
		servers, left string
		holds         string
	}{
		{api.ExportQuery{As: "mcpx"}, "fs later mine", "", `"format": "mcpx-catalog"`},
		{api.ExportQuery{As: "mcp-servers"}, "fs mine", "later: review-pending", `"A": "${A}"`},
		{api.ExportQuery{As: "mcp-servers", Routed: true}, "fs", "later: review-pending; mine: sharing-none", `"url": "http://127.0.0.1:30000/servers/fs/mcp"`},
		{api.ExportQuery{As: "mcp-servers", Names: []string{"mine"}}, "mine", "", `@acme/mine`},
	} {
		out, err := b.ExportCatalog(ctx, tc.in)
		if err != nil || strings.Join(out.Servers, " ") != tc.servers || strings.Join(out.Left, "; ") != tc.left || !strings.Contains(out.Document, tc.holds) {
			t.Errorf("%+v: %+v, %v", tc.in, out, err)
		}
		if strings.Contains(out.Document, "hunter2") {
			t.Errorf("%+v writes a value", tc.in)
		}
	}
	_, err := b.ExportCatalog(ctx, api.ExportQuery{As: "mcpx", Routed: true})
	refused(t, err, fault.Invalid, "export-form", "")
	_, err = b.ExportCatalog(ctx, api.ExportQuery{As: "emacs"})
	refused(t, err, fault.Invalid, "agent-unknown", "")
	_, err = b.ExportCatalog(ctx, api.ExportQuery{As: "mcpx", Names: []string{"fz"}})
	refused(t, err, fault.NotFound, "server-unknown", "")
}

func TestReviewTools(t *testing.T) {
	b, ctx := newBench(t)
	b.add(ctx, t, stdio("fs", "x"))
	tools := `[{"name":"read","description":"Reads a file."}]`
	b.gateway.call = func(_, method string, _ []byte) ([]byte, error) {
		return []byte(`{"tools":` + tools + `}`), nil
	}
	review := func() api.ToolsReview {
		t.Helper()
		out, err := b.ReviewTools(ctx, api.ServerRef{Name: "fs"})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	changes := func(r api.ToolsReview) string {
		var all []string
		for _, c := range r.Tools {
			var diff string
			for _, p := range c.Diff {
				if p.Op != catalog.DiffKeep {
					diff += string(p.Op) + ":" + strings.TrimSpace(p.Text) + " "
				}
			}
			all = append(all, c.Name+" "+c.Why+" "+map[bool]string{true: "masked", false: "passes"}[c.Masked]+" "+strings.Join(c.Hidden, " ")+diff)
		}
		return strings.Join(all, "; ")
	}
	first := review()
	if !first.Taken.IsZero() || len(first.Tools) != 1 || first.Tools[0].Why != catalog.ToolNew || first.Tools[0].Masked {
		t.Errorf("before anybody agreed: %+v", first)
	}
	_, err := b.AcceptTools(ctx, api.AcceptTools{Name: "fs", Digest: "other"})
	refused(t, err, fault.Stale, "tools-stale", "fs")
	if out, err := b.AcceptTools(ctx, api.AcceptTools{Name: "fs", Digest: first.Digest}); err != nil || !out.Accepted {
		t.Errorf("%+v, %v", out, err)
	}
	if r := review(); len(r.Tools) != 0 || r.Same != 1 || r.Taken.IsZero() {
		t.Errorf("after it: %+v", r)
	}
	tools = `[{"name":"read","description":"Reads one file."},{"name":"run"},{"name":"zap","description":"a\u200bb"}]`
	if got := changes(review()); got != "read tool-changed masked remove:a add:one ; run tool-new masked add:{\n  \"name\": \"run\"\n} ; zap hidden-characters masked U+200Badd:{\n  \"description\": \"a\u200bb\",\n  \"name\": \"zap\"\n} " {
		t.Errorf("changes %q", got)
	}
	tools = `[]`
	if got := changes(review()); !strings.HasPrefix(got, "read tool-gone passes") {
		t.Errorf("a tool that is gone: %q", got)
	}
	if n := len(b.eventKinds(ctx, t)); n != 2 {
		t.Errorf("%d events, want created and reviewed", n)
	}
}
