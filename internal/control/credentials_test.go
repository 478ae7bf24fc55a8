package control

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/secret"
	"mcpx/internal/store"
)

// fakeSecrets keeps values in a map; a reference that is no stored one is missing, unless ready says otherwise.
type fakeSecrets struct {
	mu     sync.Mutex
	values map[string]string
	ready  map[string]error // by reference
	ring   error
	runs   map[string]bool // references that run a program
}

func newFakeSecrets() *fakeSecrets {
	return &fakeSecrets{values: map[string]string{}, ready: map[string]error{}, runs: map[string]bool{}}
}

func (f *fakeSecrets) Check(_ context.Context, ref string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err, ok := f.ready[ref]; ok {
		return err
	}
	return fault.New(fault.Unavailable, "credential-missing").Saying("nothing is there")
}

func (f *fakeSecrets) Quiet(_ context.Context, ref string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.runs[ref], nil
}

func (f *fakeSecrets) Keep(_ context.Context, name string, value secret.Handle) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := f.values[name] != value.Reveal()
	f.values[name], f.ready["cred:"+name] = value.Reveal(), nil
	return changed, nil
}

func (f *fakeSecrets) Holds(_ context.Context, name string, value secret.Handle) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.values[name] == value.Reveal(), nil
}

func (f *fakeSecrets) Forget(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.values, name)
	delete(f.ready, "cred:"+name)
	return nil
}

func (f *fakeSecrets) KeyPlace() (secret.KeyPlace, error) { return secret.KeyInFile, nil }

func (f *fakeSecrets) RingUsable(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ring
}

func (b *bench) secretsNow() *fakeSecrets { return b.cfg.Secrets.(*fakeSecrets) }

// answers makes a reference ready, or not ready with the code.
func (b *bench) answers(ref, code string) {
	f := b.secretsNow()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready[ref] = nil
	if code != "" {
		f.ready[ref] = fault.New(fault.Unavailable, code).Saying("it is so").Hinting("do it")
	}
}

func (b *bench) setCredential(ctx context.Context, t *testing.T, in api.SetCredential) api.Credential {
	t.Helper()
	out, err := b.SetCredential(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSetCredential(t *testing.T) {
	b, ctx := newBench(t)
	account, later := "ada", b.now.Add(time.Hour)
	b.answers("cred:a", "")
	got := b.setCredential(ctx, t, api.SetCredential{Name: "a", Value: "v1", Mode: api.SetNew, Account: &account, Expires: &later})
	if got.Ref != "store:a" || got.Readiness != catalog.ReadinessReady || got.Account != "ada" || !got.Expires.Equal(later) || got.Rotated || b.secretsNow().values["a"] != "v1" {
		t.Errorf("a new one: %+v", got)
	}
	_, err := b.SetCredential(ctx, api.SetCredential{Name: "a", Value: "v2", Mode: api.SetNew})
	refused(t, err, fault.Conflict, "credential-taken", "credential rotate a")
	if got = b.setCredential(ctx, t, api.SetCredential{Name: "a", Value: "v1"}); got.Rotated || !got.Expires.Equal(later) {
		t.Errorf("the same value: %+v", got)
	}
	if got = b.setCredential(ctx, t, api.SetCredential{Name: "a", Value: "v2", Mode: api.SetExisting}); !got.Rotated || !got.Expires.IsZero() || got.Account != "ada" {
		t.Errorf("another value: %+v", got)
	}
	if got = b.setCredential(ctx, t, api.SetCredential{Name: "a", Ref: "env:A"}); !got.Rotated || got.Ref != "env:A" || len(b.secretsNow().values) != 0 {
		t.Errorf("a reference in place of a value: %+v, stored %v", got, b.secretsNow().values)
	}
	_, err = b.SetCredential(ctx, api.SetCredential{Name: "b", Ref: "env:B", Mode: api.SetExisting})
	refused(t, err, fault.NotFound, "credential-unknown", "credential set b")
	for what, in := range map[string]api.SetCredential{
		"credential-name":   {Name: "a/b", Value: "hunter2"},
		"credential-empty":  {Name: "c"},
		"reference-kind":    {Name: "c", Ref: "hunter2:x"},
		"reference-invalid": {Name: "c", Ref: "cred:a"},
		"request-invalid":   {Name: "c", Ref: "env:A", Mode: "hunter"},
	} {
		_, err := b.SetCredential(ctx, in)
		if f := fault.From(err); f == nil || f.Code != what || f.Kind != fault.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = b.SetCredential(ctx, api.SetCredential{Name: "both", Ref: "env:A", Value: "v"})
	refused(t, err, fault.Invalid, "credential-empty", "one of the two")
	if d := cmp.Diff([]event.Kind{
		event.CredentialAdded, event.CredentialChecked, event.CredentialRotated, event.CredentialChecked, event.CredentialRotated, event.CredentialChecked,
	}, b.kindsOf(ctx, t, "credential")); d != "" {
		t.Errorf("events (-want +got): %s", d)
	}
}

func TestCheckCredentials(t *testing.T) {
	b, ctx := newBench(t)
	for name, code := range map[string]string{"gone": "credential-missing", "shut": "credential-locked", "ok": "", "runs": ""} {
		b.answers("cred:"+name, code)
		if name == "runs" {
			b.secretsNow().runs["cred:runs"] = true
		}
		b.setCredential(ctx, t, api.SetCredential{Name: name, Ref: "env:" + name})
	}
	told := len(b.kindsOf(ctx, t, "credential"))
	page, err := b.CheckCredentials(ctx, api.CheckCredentials{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, one := range page.Credentials {
		found[one.Name] = string(one.Readiness) + " " + one.Text
	}
	want := map[string]string{"gone": "missing it is so", "shut": "locked it is so", "ok": "ready ", "runs": "unchecked it runs a program, which may ask somebody"}
	if d := cmp.Diff(want, found); d != "" || page.Store.Key != "file" {
		t.Errorf("%+v (-want +got): %s", page.Store, d)
	}
	if now := b.kindsOf(ctx, t, "credential"); len(now) != told {
		t.Errorf("what has not changed was told: %v", now[told:])
	}
	if page, err = b.CheckCredentials(ctx, api.CheckCredentials{Name: "runs"}); err != nil || len(page.Credentials) != 1 || page.Credentials[0].Readiness != catalog.ReadinessReady {
		t.Errorf("by its name: %+v, %v", page, err)
	}
	_, err = b.CheckCredentials(ctx, api.CheckCredentials{Name: "gome"})
	refused(t, err, fault.NotFound, "credential-unknown", "did you mean gone")
}

func TestBindCredentials(t *testing.T) {
	b, ctx := newBench(t)
	b.answers("cred:tok", "")
	b.setCredential(ctx, t, api.SetCredential{Name: "tok", Value: "v"})
	b.add(ctx, t, stdio("prog", "x"))
	b.add(ctx, t, catalog.Server{Name: "web", HTTP: &catalog.HTTP{URL: "https://example.com/mcp"}})
	s, err := b.BindCredentials(ctx, api.BindCredentials{Server: "prog", Variables: map[string]string{"A": "tok", "B": "x{tok}y{env:Z}"}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]catalog.Binding{"A": {Ref: "cred:tok"}, "B": {Template: "x{cred:tok}y{env:Z}"}}, s.Stdio.Env); d != "" || s.Effect == nil {
		t.Errorf("%+v %s", s.Effect, d)
	}
	if s, err = b.BindCredentials(ctx, api.BindCredentials{Server: "web", Headers: map[string]string{"Authorization": "Bearer {tok}"}}); err != nil || s.HTTP.Headers["Authorization"].Template != "Bearer {cred:tok}" {
		t.Errorf("%+v, %v", s.HTTP, err)
	}
	for code, in := range map[string]api.BindCredentials{
		"credential-unknown": {Server: "prog", Variables: map[string]string{"A": "tik"}},
		"server-unknown":     {Server: "prig", Variables: map[string]string{"A": "tok"}},
		"request-invalid":    {Server: "prog"},
		"edit-wrong-kind":    {Server: "prog", Headers: map[string]string{"A": "tok"}},
		"credential-name":    {Server: "prog", Variables: map[string]string{"A": "{a/b}"}},
		"usage":              {Server: "prog", Variables: map[string]string{"A": "{a"}},
		"reference-kind":     {Server: "prog", Variables: map[string]string{"A": "{hunter2:x}"}},
	} {
		_, err := b.BindCredentials(ctx, in)
		if f := fault.From(err); f == nil || f.Code != code {
			t.Errorf("%s: %v", code, err)
		}
	}
	one, err := b.Credential(ctx, api.CredentialRef{Name: "tok"})
	if err != nil || !slices.Equal(one.Servers, []string{"prog", "web"}) || one.Active {
		t.Errorf("%+v, %v", one, err)
	}
	_, err = b.RemoveCredential(ctx, api.CredentialRef{Name: "tok"})
	refused(t, err, fault.Conflict, "credential-bound", "prog, web")
	for name, in := range map[string]func() error{
		"add": func() error {
			_, err := b.AddServer(ctx, api.AddServer{Server: withEnv("new", "cred:tik")})
			return err
		},
		"edit": func() error {
			_, err := b.EditServer(ctx, api.EditServer{Name: "prog", Env: map[string]*catalog.Binding{"C": {Ref: "cred:tik"}}})
			return err
		},
	} {
		if f := fault.From(in()); f == nil || f.Code != "credential-unknown" {
			t.Errorf("%s: %v", name, f)
		}
	}
	for _, name := range []string{"prog", "web"} {
		if _, err := b.RemoveServer(ctx, api.ServerRef{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.RemoveCredential(ctx, api.CredentialRef{Name: "tok"}); err != nil || len(b.secretsNow().values) != 0 {
		t.Errorf("%v, still stored: %v", err, b.secretsNow().values)
	}
	if kinds := b.kindsOf(ctx, t, "credential.bound"); len(kinds) != 2 {
		t.Errorf("bound: %v", kinds)
	}
}

// TestKeepMoved: the same value again is no error, another one is, and a name that refers elsewhere is left alone.
func TestKeepMoved(t *testing.T) {
	b, ctx := newBench(t)
	for range 2 {
		if err := b.KeepMoved(ctx, "tok", "hunter2"); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, b.KeepMoved(ctx, "tok", "other"), fault.Conflict, "credential-taken", "rotate tok")
	b.setCredential(ctx, t, api.SetCredential{Name: "ref", Ref: "env:A"})
	refused(t, b.KeepMoved(ctx, "ref", "hunter2"), fault.Conflict, "credential-taken", "rotate ref")
	refused(t, b.KeepMoved(ctx, "a/b", "hunter2"), fault.Invalid, "credential-name", "github-token")
	if got := b.secretsNow().values; len(got) != 1 || got["tok"] != "hunter2" {
		t.Errorf("stored: %v", got)
	}
	one, err := b.Credential(ctx, api.CredentialRef{Name: "tok"})
	if err != nil || one.Readiness != catalog.ReadinessReady || one.Ref != "store:tok" {
		t.Errorf("%+v, %v", one, err)
	}
}

// TestMovedIsBound: the end of an apply that moved a value gives the server of the plan the credential, once.
func TestMovedIsBound(t *testing.T) {
	b, ctx := newBench(t)
	if err := b.KeepMoved(ctx, "a-tok", "hunter2"); err != nil {
		t.Fatal(err)
	}
	s := withEnv("a", "env:MINE")
	s.Stdio.Env["OPEN"] = catalog.Binding{Unresolved: true}
	b.add(ctx, t, s)
	move := func(name string) converge.Step {
		return converge.Step{Op: converge.StepSet, Moves: []converge.Move{{Field: []string{"env", name}, Credential: "a-tok"}}}
	}
	p := converge.Plan{ID: "plan_1", Server: "a", Changes: []converge.Change{{Steps: []converge.Step{move("T"), move("OPEN"), {Moves: []converge.Move{{Field: []string{"url"}, Put: "x"}}}}}}}
	if !moves(p) || moves(converge.Plan{Changes: []converge.Change{{Steps: p.Changes[0].Steps[2:]}}}) {
		t.Error("which plans move values is told wrongly")
	}
	for range 2 {
		if err := b.mutate(ctx, func(ctx context.Context, tx store.Tx) error { return b.bindMoved(ctx, tx, p) }); err != nil {
			t.Fatal(err)
		}
	}
	got, err := b.Server(ctx, api.ServerRef{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]catalog.Binding{"T": {Ref: "env:MINE"}, "OPEN": {Ref: "cred:a-tok"}}, got.Stdio.Env); d != "" {
		t.Errorf("(-want +got): %s", d)
	}
	if kinds := b.kindsOf(ctx, t, "credential.bound"); len(kinds) != 1 {
		t.Errorf("bound: %v", kinds)
	}
	p.Server = "gone"
	if err := b.mutate(ctx, func(ctx context.Context, tx store.Tx) error { return b.bindMoved(ctx, tx, p) }); err != nil {
		t.Errorf("a server that is gone: %v", err)
	}
}

func TestCredentialVitals(t *testing.T) {
	b, ctx := newBench(t)
	for name, code := range map[string]string{"used": "credential-missing", "unused": "credential-missing", "ring": "credential-locked", "runs": ""} {
		b.answers("cred:"+name, code)
		ref := "env:X"
		if name == "ring" {
			ref = "keyring:s/a"
		}
		b.secretsNow().runs["cred:runs"] = true
		b.setCredential(ctx, t, api.SetCredential{Name: name, Ref: ref})
		if name != "unused" {
			b.add(ctx, t, withEnv("of-"+name, "cred:"+name))
		}
	}
	b.gateway.status = []gateway.ServerStatus{{Name: "of-used", Lanes: []gateway.LaneStatus{{}}}, {Name: "of-ring"}}
	facts := func(fresh bool) (string, map[string]string) {
		t.Helper()
		keyring, all, err := b.CredentialVitals(ctx, fresh)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, f := range all {
			out[f.Name] = f.Ready
			if f.Active {
				out[f.Name] += " active"
			}
		}
		return keyring, out
	}
	keyring, got := facts(false)
	if d := cmp.Diff(map[string]string{"used": "missing active", "ring": "locked", "runs": "unchecked"}, got); d != "" || keyring == "" {
		t.Errorf("as stored: keyring %q %s", keyring, d)
	}
	b.answers("cred:used", "")
	if _, got = facts(false); got["used"] != "missing active" {
		t.Errorf("without a look it is what the last check found: %v", got)
	}
	keyring, got = facts(true)
	if d := cmp.Diff(map[string]string{"used": "ready active", "ring": "locked", "runs": "unchecked"}, got); d != "" || keyring != "" {
		t.Errorf("with a look: keyring %q %s", keyring, d)
	}
	b.secretsNow().ring = errors.New("no bus")
	if keyring, _ = facts(true); keyring == "" {
		t.Error("a keyring that cannot be used was not told")
	}
	health, err := b.Health(ctx, api.HealthQuery{})
	if err != nil || !slices.ContainsFunc(health.Findings, func(f api.Finding) bool { return f.Code == "credential-missing-active" && f.Subject == "used" }) {
		t.Errorf("health: %+v, %v", health, err)
	}
}

// TestGrantCredential says which commands may be given a credential, and takes it back.
func TestGrantCredential(t *testing.T) {
	b, ctx := newBench(t)
	b.dirs["/srv/shop"], b.dirs["/srv/site"] = 7, 8
	ids := map[string]string{}
	for _, name := range []string{"shop", "site"} {
		added, err := b.AddProject(ctx, api.AddProject{Path: "/srv/" + name})
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = added.Project.ID
	}
	b.setCredential(ctx, t, api.SetCredential{Name: "tok-a.b", Value: "v1"})
	one, err := b.GrantCredential(ctx, api.GrantCredential{Name: "tok-a.b", Projects: []string{"site", "/srv/shop", ids["site"]}, Programs: []string{"gh", "/opt/x"}})
	if err != nil || !slices.Equal(one.Projects, []string{"shop", "site"}) ||
		!cmp.Equal(one.Commands, catalog.Grant{Projects: []string{ids["site"], ids["shop"]}, Programs: []string{"gh", "/opt/x"}, Variable: "TOK_A_B"}) {
		t.Errorf("granted: %+v, %v", one, err)
	}
	if one = b.setCredential(ctx, t, api.SetCredential{Name: "tok-a.b", Value: "v2"}); len(one.Projects) != 2 {
		t.Errorf("another value: %+v", one)
	}
	for what, in := range map[string]api.GrantCredential{
		"credential-unknown":   {Name: "tak", Projects: []string{"shop"}},
		"project-unregistered": {Name: "tok-a.b", Projects: []string{"shap"}},
		"credential-grant":     {Name: "tok-a.b", Projects: []string{"shop"}, Programs: []string{"bin/gh"}},
	} {
		if _, err := b.GrantCredential(ctx, in); codeOfFault(err) != what {
			t.Errorf("%+v: %v, want %s", in, err, what)
		}
	}
	b.setCredential(ctx, t, api.SetCredential{Name: "1st", Value: "v1"})
	_, err = b.GrantCredential(ctx, api.GrantCredential{Name: "1st", Projects: []string{"shop"}})
	refused(t, err, fault.Invalid, "credential-grant", "1st")
	_, err = b.GrantCredential(ctx, api.GrantCredential{Name: "1st", Projects: []string{"shop"}, Variable: "A=B"})
	refused(t, err, fault.Invalid, "credential-grant", "A=B")
	for range 2 { // what is said again is no news
		if one, err = b.GrantCredential(ctx, api.GrantCredential{Name: "tok-a.b"}); err != nil || len(one.Projects) != 0 || !one.Commands.IsZero() {
			t.Errorf("taken back: %+v, %v", one, err)
		}
	}
	granted := 0
	for _, kind := range kindsOf(t, b, ctx, "credential") {
		if kind == event.CredentialGranted {
			granted++
		}
	}
	if granted != 2 {
		t.Errorf("%d events, want 2", granted)
	}
}
