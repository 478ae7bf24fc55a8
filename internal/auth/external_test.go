package auth_test

import (
	"slices"
	"testing"
	"time"

	"mcpx/internal/auth"
	"mcpx/internal/fault"
)

// TestExternal: a token of another authorization server counts for one person, from the time on at which remote access was
// turned on, and for the scopes that mean something here.
func TestExternal(t *testing.T) {
	on := time.Date(2026, 12, 1, 10, 0, 0, 500e6, time.UTC)
	r := auth.Remote{On: true, URL: "https://mcp.example.org", Issuer: "https://login.example.org", Subject: "ada", Since: on}
	good := auth.External{Issuer: r.Issuer, Subject: "ada", Client: "chat", Scopes: []string{"openid", "runtime:use", "runtime:read"}, Issued: on.Truncate(time.Second).Add(time.Second)}
	scopes, err := r.Allowed(good)
	if err != nil || !slices.Equal(scopes, auth.RemoteScopes()) {
		t.Fatalf("%v, %v", scopes, err)
	}
	for name, change := range map[string]func(*auth.External){
		"access-elsewhere":   func(e *auth.External) { e.Issuer += "/" },
		"access-of-another":  func(e *auth.External) { e.Subject = "Ada" },
		"access-of-nobody":   func(e *auth.External) { e.Client = "" },
		"access-over":        func(e *auth.External) { e.Issued = on.Truncate(time.Second) }, // of the same second: nobody knows
		"access-for-nothing": func(e *auth.External) { e.Scopes = []string{"openid", "runtime", "runtime:READ"} },
	} {
		e := good
		change(&e)
		if _, err := r.Allowed(e); err == nil || err.Code != name || err.Kind != fault.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}

	before := auth.Delegation{ID: "dg_1", Issuer: r.Issuer, ClientID: "chat", Made: on.Add(-time.Hour)}
	ours := auth.Delegation{ID: "dg_2", ClientID: "chat", Made: on}
	if d, known := r.Known([]auth.Delegation{before, ours}, good); known {
		t.Errorf("known as %s", d.ID)
	}
	now := before
	now.ID, now.Made = "dg_3", on
	if d, known := r.Known([]auth.Delegation{before, ours, now}, good); !known || d.ID != "dg_3" {
		t.Errorf("%v %s", known, d.ID)
	}

	d, changed := now.Extend(scopes, on)
	if !changed || d.Expires != on.Add(auth.RefreshLife) || d.At(on) != auth.Live {
		t.Errorf("%v %+v", changed, d)
	}
	if _, changed = d.Extend(scopes, on.Add(time.Minute)); changed {
		t.Error("nothing is new, and it is written again")
	}
	if d, changed = d.Extend(scopes[:1], on.Add(time.Minute)); !changed || len(d.Scopes) != 1 {
		t.Errorf("with fewer scopes: %v %+v", changed, d)
	}
	if d, changed = d.Extend(scopes[:1], on.Add(2*auth.AccessLife)); !changed || d.Expires != on.Add(2*auth.AccessLife+auth.RefreshLife) {
		t.Errorf("later: %v %+v", changed, d)
	}
}

// TestIssuer: which authorization servers may give the tokens.
func TestIssuer(t *testing.T) {
	for _, one := range []struct {
		issuer, subject string
		ok              bool
	}{
		{"", "", true},
		{"https://login.example.org", "ada", true},
		{"https://login.example.org/realms/home", "ada", true},
		{"http://127.0.0.1:8080", "ada", true},
		{"https://login.example.org", "", false},
		{"http://login.example.org", "ada", false},
		{"login.example.org", "ada", false},
		{"https://a:b@login.example.org", "ada", false},
		{"https://login.example.org?x=1", "ada", false},
		{"https://mcp.example.org", "ada", false},
	} {
		r := auth.Remote{URL: "https://mcp.example.org", Address: auth.DefaultRemoteAddress, Issuer: one.issuer, Subject: one.subject}
		if err := r.Check(); (err == nil) != one.ok {
			t.Errorf("%q %q: %v", one.issuer, one.subject, err)
		}
	}
}
