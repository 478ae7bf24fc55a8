package httpedge

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/gateway"
)

// TestTokens sends tokens to servers: with and without the rule that everybody needs one. What another program sends to
// every server is no reason to refuse our own user.
func TestTokens(t *testing.T) {
	b := answering{}
	g, err := gateway.New(gateway.Config{
		Stdio: b, HTTP: b, Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler), Epoch: 3,
		Resolve: func(context.Context, catalog.Server, gateway.Caller) (gateway.Resolved, error) {
			return gateway.Resolved{}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	entry := func(name string) catalog.Server {
		return catalog.Server{ID: name, Name: name, Stdio: &catalog.Stdio{Command: name}, Protocol: catalog.ProtocolLegacy, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled}
	}
	g.Apply([]catalog.Server{entry("a"), entry("b")})
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		if err := g.Stop(ctx, true); err != nil {
			t.Error(err)
		}
	})
	f, err := NewFront(FrontConfig{Gateway: g, Log: slog.New(slog.DiscardHandler), Token: func(bearer string) (gateway.Caller, bool) {
		switch bearer {
		case auth.Prefix + "all":
			return gateway.Caller{Principal: "owner", Agent: "codex"}, true
		case auth.Prefix + "a":
			return gateway.Caller{Principal: "owner", Agent: "codex", Limited: true, Only: []string{"a"}}, true
		}
		return gateway.Caller{}, false
	}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(f.Guard(f))
	srv.Config.ConnContext = ConnContext
	srv.Start()
	t.Cleanup(srv.Close)
	status := func(server, bearer string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/servers/"+server+"/mcp", strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		if bearer != "" {
			r.Header.Set("Authorization", "Bearer "+bearer)
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	const in = http.StatusMethodNotAllowed // a GET without a session got past the admission
	for _, c := range []struct {
		server, bearer string
		same, tokens   int // with same-user, with token
	}{
		{"a", "", in, 401},
		{"a", auth.Prefix + "all", in, in},
		{"a", auth.Prefix + "a", in, in},
		{"b", auth.Prefix + "a", 403, 403},
		{"a", auth.Prefix + "old", 401, 401},
		{"a", "of another program", in, 401},
	} {
		f.Admit(Admission{})
		if got := status(c.server, c.bearer); got != c.same {
			t.Errorf("same-user, %s with %q: %d, want %d", c.server, c.bearer, got, c.same)
		}
		f.Admit(Admission{TokenOnly: true})
		if got := status(c.server, c.bearer); got != c.tokens {
			t.Errorf("token, %s with %q: %d, want %d", c.server, c.bearer, got, c.tokens)
		}
	}
}
