package control

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// why is the body of the last event about a certificate.
func (b *bench) why(ctx context.Context, t *testing.T) (why string) {
	t.Helper()
	err := b.Events(ctx, api.EventsQuery{Kind: string(event.AgentCertificateVoid)}, func(e event.Event) error {
		var body struct{ Why string }
		err := json.Unmarshal(e.Body, &body)
		why = body.Why
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return why
}

// TestCertificates: what counts and what counts no more is told once, whether a person keeps a certificate or the next look
// finds it changed.
func TestCertificates(t *testing.T) {
	b, ctx := newBench(t)
	b.sees("direct")
	expect := func(kinds ...event.Kind) {
		t.Helper()
		var got []event.Kind
		for _, k := range b.eventKinds(ctx, t) {
			if k == event.AgentCertified || k == event.AgentCertificateVoid {
				got = append(got, k)
			}
		}
		if !slices.Equal(got, kinds) {
			t.Errorf("got %v, want %v", got, kinds)
		}
	}
	b.audit(ctx, t)
	expect()

	b.person = errors.New("no terminal")
	if _, err := b.KeepCertificate(ctx, api.KeepCertificate{Agent: "codex", Certificate: []byte("1")}); !errors.Is(err, b.person) {
		t.Errorf("without a person: %v", err)
	}
	expect()
	b.person = nil
	for range 2 { // the same again is no news
		out, err := b.KeepCertificate(ctx, api.KeepCertificate{Agent: "codex", Certificate: []byte("1")})
		if err != nil || !out.Counts || out.Version != "1" {
			t.Errorf("%+v, %v", out, err)
		}
		b.audit(ctx, t)
	}
	expect(event.AgentCertified)
	var caps api.AuthCapabilities
	caps, err := b.AuthCapabilities(ctx, api.None{})
	if i := slices.IndexFunc(caps.Agents, func(a api.AgentAuth) bool { return a.Agent == "codex" }); err != nil || i < 0 || !slices.Equal(caps.Agents[i].Certified, []string{"1"}) {
		t.Errorf("%+v, %v", caps, err)
	}

	one := b.certificates["codex"] // another run
	one.Date = b.now.Add(time.Hour)
	b.certificates["codex"] = one
	b.audit(ctx, t)
	expect(event.AgentCertified, event.AgentCertified)

	one.Void = converge.VoidProgram
	b.certificates["codex"] = one
	b.audit(ctx, t)
	b.audit(ctx, t)
	expect(event.AgentCertified, event.AgentCertified, event.AgentCertificateVoid)
	if why := b.why(ctx, t); why != converge.VoidProgram {
		t.Errorf("it is void by %q", why)
	}
	one.Void = ""
	b.certificates["codex"] = one
	b.audit(ctx, t)
	delete(b.certificates, "codex")
	b.audit(ctx, t)
	expect(event.AgentCertified, event.AgentCertified, event.AgentCertificateVoid, event.AgentCertified, event.AgentCertificateVoid)
	if why := b.why(ctx, t); why != converge.VoidAbsent {
		t.Errorf("it is void by %q", why)
	}
}

// TestImportFromHub: servers of another hub are told as such, in the transaction in which they come, and only when some do.
func TestImportFromHub(t *testing.T) {
	b, ctx := newBench(t)
	in := api.ImportServers{From: "oldhub", DryRun: true, Servers: []catalog.Server{{Name: "a", Stdio: &catalog.Stdio{Command: "x"}}}}
	imported := func() (n int) {
		for _, k := range b.eventKinds(ctx, t) {
			if k == event.CutoverImported {
				n++
			}
		}
		return n
	}
	for _, step := range []struct {
		dry  bool
		want int
	}{{true, 0}, {false, 1}, {false, 1}} {
		in.DryRun = step.dry
		if _, err := b.ImportServers(ctx, in); err != nil || imported() != step.want {
			t.Errorf("dry run %v: %d events, %v", step.dry, imported(), err)
		}
	}
	in.From = "no name"
	if _, err := b.ImportServers(ctx, in); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a hub that is none: %v", err)
	}
	var last event.Event
	err := b.cfg.DB.View(ctx, func(r store.Reader) error {
		page, err := r.Events(ctx, event.ListEvents{Kind: string(event.CutoverImported)})
		if err == nil && len(page) > 0 {
			last = page[0]
		}
		return err
	})
	if err != nil || string(last.Body) != `{"from":"oldhub","counts":{"created":1}}` {
		t.Errorf("%s, %v", last.Body, err)
	}
}
