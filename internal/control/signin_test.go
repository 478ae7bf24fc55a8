package control

import (
	"context"
	"strings"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
)

// fakeSignIns stands with all servers as it is told.
type fakeSignIns struct {
	now     auth.SignIn // of every server
	next    auth.SignIn // after a sign-in
	err     error
	retried int
}

func (f *fakeSignIns) SignIn(_ context.Context, _ catalog.Server, in auth.LogIn, open func(string, time.Time) error) (auth.SignIn, error) {
	if !in.Machine {
		if err := open("https://login.example/authorize?x=1", start); err != nil {
			return auth.SignIn{}, err
		}
	}
	if f.err == nil {
		f.now = f.next
	}
	return f.now, f.err
}

func (f *fakeSignIns) End(context.Context, catalog.Server) (bool, error) {
	had := f.now.State == auth.SignedIn
	f.now = auth.SignIn{}
	return had, nil
}

func (f *fakeSignIns) State(context.Context, catalog.Server) auth.SignIn { return f.now }
func (f *fakeSignIns) Retry(catalog.Server)                              { f.retried++ }

// TestLogIn: what a person is told while signing in, what is recorded, and how a server looks before and after.
func TestLogIn(t *testing.T) {
	b, ctx := newBench(t)
	remote := catalog.Server{Name: "notes", HTTP: &catalog.HTTP{URL: "https://notes.example/mcp"}}
	local := catalog.Server{Name: "local", Stdio: &catalog.Stdio{Command: "x"}}
	keyed := catalog.Server{Name: "keyed", HTTP: &catalog.HTTP{URL: "https://keyed.example/mcp", Headers: map[string]catalog.Binding{"authorization": {Ref: "env:TOKEN"}}}}
	bare := catalog.Server{Name: "bare", HTTP: &catalog.HTTP{URL: "http://bare.example/mcp"}}
	for _, s := range []catalog.Server{remote, local, keyed, bare} {
		if _, err := b.AddServer(ctx, api.AddServer{Server: s}); err != nil {
			t.Fatal(err)
		}
	}
	var steps []api.LogInStep
	login := func(name string) error {
		steps = nil
		return b.LogIn(ctx, api.LogIn{Name: name}, func(s api.LogInStep) error {
			steps = append(steps, s)
			return nil
		})
	}
	for _, name := range []string{"local", "keyed", "bare"} {
		if err := login(name); fault.From(err).Code != "sign-in-not-possible" {
			t.Errorf("%s: %v", name, err)
		}
	}

	b.signIns.now = auth.SignIn{State: auth.SignInNeeded, Text: "nobody has signed in"}
	health, err := b.Health(ctx, api.HealthQuery{})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range health.Findings {
		found = found || f.Code == "sign-in-needed" && f.Subject == "notes" && f.Command == "mcpx server login notes"
	}
	if !found {
		t.Errorf("health does not tell of the sign-in: %+v", health.Findings)
	}

	b.signIns.next = auth.SignIn{State: auth.SignedIn, Issuer: "https://login.example", Scopes: []string{"files"}}
	if err := login("notes"); err != nil {
		t.Fatal(err)
	}
	if len(steps) != 2 || steps[0].State != api.LogInWaiting || !strings.HasPrefix(steps[0].URL, "https://login.example/") ||
		steps[1].State != api.LogInDone || steps[1].SignIn == nil || steps[1].SignIn.Issuer != "https://login.example" {
		t.Errorf("the steps: %+v", steps)
	}
	if s, err := b.Server(ctx, api.ServerRef{Name: "notes"}); err != nil || s.SignIn == nil || s.SignIn.State != auth.SignedIn {
		t.Errorf("the server after it: %+v, %v", s.SignIn, err)
	}
	b.signIns.next = auth.SignIn{State: auth.SignedIn, Issuer: "https://other.example"}
	if err := login("notes"); err != nil || steps[1].Before != "https://login.example" {
		t.Errorf("another issuer: %v, %+v", err, steps)
	}
	b.signIns.err = auth.SignInRefused("no")
	if err := login("notes"); fault.From(err).Code != "sign-in-refused" {
		t.Errorf("a refusal: %v", err)
	}
	for _, own := range []fault.Kind{fault.Invalid, fault.Busy, fault.Canceled} { // no event: the server has done nothing
		b.signIns.err = fault.New(own, "own").Saying("no")
		if err := login("notes"); fault.From(err).Code != "own" {
			t.Errorf("%s: %v", own, err)
		}
	}

	if out, err := b.LogOut(ctx, api.ServerRef{Name: "notes"}); err != nil || out.State != "signed_out" || out.Already {
		t.Errorf("logout: %+v, %v", out, err)
	}
	if out, err := b.LogOut(ctx, api.ServerRef{Name: "notes"}); err != nil || out.State != "already_signed_out" || !out.Already {
		t.Errorf("logout again: %+v, %v", out, err)
	}
	b.signIns.now = auth.SignIn{State: auth.SignedIn, Issuer: "https://login.example"}
	if _, err := b.RemoveServer(ctx, api.ServerRef{Name: "notes"}); err != nil || b.signIns.now.State != "" {
		t.Errorf("a removed server stays signed in: %v", err)
	}
	b.SignInEnded(remote, auth.SignIn{State: auth.SignInEnded, Text: "gone"})

	var kinds []event.Kind
	err = b.Events(ctx, api.EventsQuery{Kind: "server"}, func(e event.Event) error {
		kinds = append(kinds, e.Kind)
		return nil
	})
	want := []event.Kind{event.ServerSignedIn, event.ServerSignedIn, event.ServerSignInFailed, event.ServerSignedOut, event.ServerSignedOut, event.ServerSignInEnded}
	if err != nil || len(kinds) != len(want) {
		t.Fatalf("events %v, want %v, %v", kinds, want, err)
	}
	for n := range want {
		if kinds[n] != want[n] {
			t.Errorf("event %d is %s, want %s", n, kinds[n], want[n])
		}
	}
}
