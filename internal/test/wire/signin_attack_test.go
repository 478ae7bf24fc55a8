package wire

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpx/internal/test/rig"
)

// TestSignInAttacks: what a server, its authorization server, or a page in the browser can try when mcpx signs in. Each is
// refused with exit code 7 and recorded, no code or verifier goes anywhere, and nobody is signed in.
func TestSignInAttacks(t *testing.T) {
	g := rig.Start(t)
	var strangers atomic.Int64
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		strangers.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"access_token":"stolen-access-token","token_type":"Bearer"}`))
	}))
	defer stranger.Close()

	for _, c := range []struct {
		name   string
		do     func(i *issuer)
		says   string
		tokens int // requests at the token endpoint
		code   int // exit code; 0 is 7
	}{
		{name: "metadata of another issuer", says: "does not match issuer", do: func(i *issuer) {
			i.metadata = map[string]any{"issuer": "https://login.example"}
		}},
		{name: "the document names an issuer that is another one by its metadata", says: "does not match issuer", do: func(i *issuer) {
			i.document = map[string]any{"authorization_servers": []string{i.base + "/tenant"}}
			i.metadata = map[string]any{"issuer": i.base + "/other"}
		}},
		{name: "the answer is of another issuer (mix-up)", says: "another server than the one that was asked", do: func(i *issuer) {
			i.answer = map[string]string{"iss": "https://login.example"}
		}},
		{name: "the answer is of nobody, although one is promised", says: "does not say which server it is from", do: func(i *issuer) {
			i.answer = map[string]string{"iss": ""}
		}},
		{name: "the answer is of another issuer, and nothing was promised", says: "another server than the one that was asked", do: func(i *issuer) {
			i.metadata = map[string]any{"authorization_response_iss_parameter_supported": nil}
			i.answer = map[string]string{"iss": i.base + "/"}
		}},
		{name: "a document about another resource", says: "is about https://bank.example/mcp", do: func(i *issuer) {
			i.document = map[string]any{"resource": "https://bank.example/mcp"}
		}},
		{name: "no PKCE", says: "PKCE", do: func(i *issuer) { i.metadata = map[string]any{"code_challenge_methods_supported": nil} }},
		{name: "PKCE without a hash", says: "PKCE", do: func(i *issuer) {
			i.metadata = map[string]any{"code_challenge_methods_supported": []string{"plain"}}
		}},
		{name: "an authorization server at a link-local address", says: "is not https", do: func(i *issuer) {
			i.document = map[string]any{"authorization_servers": []string{"http://169.254.169.254/latest"}}
		}},
		{name: "the same with https", says: "is not in the open network", do: func(i *issuer) {
			i.document = map[string]any{"authorization_servers": []string{"https://169.254.169.254/latest"}}
		}},
		{name: "a token endpoint at a private address", says: "non-public address", do: func(i *issuer) {
			i.metadata = map[string]any{"token_endpoint": "https://10.0.0.1/token"}
		}},
		{name: "an authorization page that is a script", says: "cannot be used", do: func(i *issuer) {
			i.metadata = map[string]any{"authorization_endpoint": "javascript:alert(1)"}
		}},
		{name: "an authorization page that is a file", says: "cannot be used", do: func(i *issuer) {
			i.metadata = map[string]any{"authorization_endpoint": "file:///etc/passwd"}
		}},
		{name: "a token endpoint that sends the code elsewhere", says: "answers 307", code: 75, tokens: 1, do: func(i *issuer) {
			i.tokens = func(url.Values) (int, map[string]any) { return 307, map[string]any{"location": stranger.URL} }
		}},
		{name: "the authorization server says no", says: "access_denied", do: func(i *issuer) {
			i.answer = map[string]string{"code": "", "error": "access_denied", "error_description": "not \x1b[31mtoday"}
		}},
		{name: "a token that is no token", says: "gives no token", code: 75, tokens: 1, do: func(i *issuer) {
			i.tokens = func(url.Values) (int, map[string]any) {
				return 200, map[string]any{"access_token": "a\r\nX-Evil: 1", "token_type": "Bearer"}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newIssuer(t)
			i.set(func() { c.do(i) })
			server := strings.Trim(strings.Map(func(r rune) rune {
				if r >= 'a' && r <= 'z' {
					return r
				}
				return '-'
			}, c.name), "-")
			server = server[:min(40, len(server))]
			g.AddURL(server, i.url())
			said, code := login(t, g, server)
			if c.code == 0 {
				c.code = 7
			}
			if code != c.code || !strings.Contains(said, c.says) || strings.Contains(said, "\x1b") {
				t.Errorf("exit code %d, want %d, and %q in:\n%s", code, c.code, c.says, said)
			}
			if n := i.count("/token"); n != c.tokens {
				t.Errorf("%d requests at the token endpoint, want %d", n, c.tokens)
			}
			if out := g.Must("audit", "list", "--kind", "server.sign_in_failed"); !strings.Contains(out, "nobody was signed in at "+server+": ") || !strings.Contains(out, c.says) {
				t.Errorf("it is not recorded that %s:\n%s", c.says, out)
			}
			if out := g.Must("server", "show", server); strings.Contains(out, "signed in") {
				t.Errorf("somebody is signed in:\n%s", out)
			}
		})
	}
	if n := strangers.Load(); n != 0 {
		t.Errorf("%d requests reached a stranger", n)
	}
	if out := g.Must("audit", "list", "--kind", "server", "--json"); strings.Contains(out, "server.signed_in") {
		t.Errorf("a sign-in was recorded:\n%s", out)
	}
}

// TestSignInCallback: a page in the browser cannot answer in place of the authorization server, and cannot end the sign-in
// either; the port that it would have to know is open only while somebody signs in.
func TestSignInCallback(t *testing.T) {
	g := rig.Start(t)
	i := newIssuer(t)
	g.AddURL("notes", i.url())
	get := func(address, host string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			r.Host = host
		}
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return 0
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	var redirect string
	said, code := loginWith(t, g, "notes", func(address string) {
		u, err := url.Parse(address)
		if err != nil {
			t.Error(err)
			return
		}
		q := u.Query()
		redirect = q.Get("redirect_uri")
		if q.Get("code_challenge_method") != "S256" || q.Get("resource") != i.url() || !strings.HasPrefix(redirect, "http://127.0.0.1:") {
			t.Errorf("the request: %v", q)
		}
		for _, tried := range []struct {
			query, host string
			want        int
		}{
			{"?code=x&state=guessed", "", 400},
			{"?code=x", "", 400},
			{"?error=access_denied&state=", "", 400},
			{"?state=" + q.Get("state"), "", 400},
			{"?code=x&state=" + q.Get("state"), "evil.example", 404}, // a name that leads here
			{"/x?code=x&state=" + q.Get("state"), "", 404},
		} {
			if got := get(redirect+tried.query, tried.host); got != tried.want {
				t.Errorf("%s with the host %q: %d, want %d", tried.query, tried.host, got, tried.want)
			}
		}
		if got := g.Run("server", "login", "notes", "--no-browser"); got.Code != 75 || !strings.Contains(got.Stderr, "already") {
			t.Errorf("a second sign-in beside it: exit code %d, %s", got.Code, got.Stderr)
		}
		answer, err := http.Get(address) //nolint:noctx // the browser of a person
		if err != nil {
			t.Error(err)
			return
		}
		answer.Body.Close()
		if got := get(redirect+"?code=y&state="+q.Get("state"), ""); got == 200 {
			t.Error("a second answer is taken")
		}
	})
	if code != 0 {
		t.Errorf("after all that: exit code %d\n%s", code, said)
	}
	if got := get(redirect, ""); got != 0 {
		t.Errorf("the port is still open: %d", got)
	}

	// Whoever is waiting leaves: the port closes, and the next one may begin.
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	cmd := exec.CommandContext(ctx, g.Binary, "server", "login", "notes", "--no-browser", "--json")
	cmd.Env, cmd.Dir = g.Environ(), g.Home
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var step struct{ State, URL string }
	if err := json.NewDecoder(out).Decode(&step); err != nil || step.State != "waiting" {
		t.Fatalf("the first line is %+v, %v", step, err)
	}
	u, err := url.Parse(step.URL)
	if err != nil {
		t.Fatal(err)
	}
	if got := get(u.Query().Get("redirect_uri"), ""); got != 400 {
		t.Errorf("while it waits: %d, want 400", got)
	}
	leave()
	_ = cmd.Wait() // killed
	for range 600 {
		if get(u.Query().Get("redirect_uri"), "") == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if got := get(u.Query().Get("redirect_uri"), ""); got != 0 {
		t.Errorf("the port is open although nobody waits: %d", got)
	}
	if said, code := login(t, g, "notes"); code != 0 {
		t.Errorf("the next one: exit code %d\n%s", code, said)
	}
}

// TestSignInMachine: a client signs in for itself, with a secret or with a key that its person keeps, and goes on without
// anybody: no browser, no refresh token.
func TestSignInMachine(t *testing.T) {
	g := rig.Start(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		flag, value string
		proves      func(r *http.Request) bool
	}{
		"secret": {"--client-secret-from", rig.Canary + "secret", func(r *http.Request) bool {
			id, secret, ok := r.BasicAuth()
			return ok && id == "ci" && secret == rig.Canary+"secret"
		}},
		"key": {"--client-key-from", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), func(r *http.Request) bool {
			return r.Form.Get("client_id") == "ci" && strings.Count(r.Form.Get("client_assertion"), ".") == 2
		}},
	} {
		i := newIssuer(t)
		i.set(func() {
			i.machine = c.proves
			i.metadata = map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "private_key_jwt"}}
		})
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(c.value), 0o600); err != nil {
			t.Fatal(err)
		}
		g.AddURL(name, i.url())
		if r := g.Run("server", "login", name, "--machine", "--client-id", "ci"); r.Code != 2 {
			t.Errorf("%s without a proof: exit code %d, %s", name, r.Code, r.Stderr)
		}
		if out := g.Must("server", "login", name, "--machine", "--client-id", "ci", c.flag, "file:"+file); !strings.Contains(out, "renewed by itself") {
			t.Errorf("%s: %s", name, out)
		}
		g.Must("server", "tools", name)
		i.set(func() { clear(i.access) })
		g.Must("server", "tools", name)
		if n := i.count("/token"); n != 2 {
			t.Errorf("%s: %d requests at the token endpoint, want 2", name, n)
		}
		if i.count("/authorize")+i.count("/register") != 0 {
			t.Errorf("%s: it asked for a person, or registered", name)
		}
		i.set(func() { i.machine = func(*http.Request) bool { return false } })
		i.set(func() { clear(i.access) })
		if r := g.Run("server", "tools", name); r.Code == 0 || strings.Contains(r.Stderr, rig.Canary) {
			t.Errorf("%s, refused: exit code %d, %s", name, r.Code, r.Stderr)
		}
	}
}

// TestSignInStaysApart: the token of one server never reaches another one, also not when the entry is changed to lead there;
// what a client sends as a credential reaches none.
func TestSignInStaysApart(t *testing.T) {
	g := rig.Start(t)
	a, b := newIssuer(t), newIssuer(t)
	g.AddURL("a", a.url(), "--protocol", "legacy")
	g.AddURL("b", b.url(), "--protocol", "legacy")
	for _, server := range []string{"a", "b"} {
		if said, code := login(t, g, server); code != 0 {
			t.Fatalf("%s: exit code %d\n%s", server, code, said)
		}
		g.Must("server", "tools", server)
	}
	g.Must("server", "edit", "a", "--url", b.url())
	if r := g.Run("server", "tools", "a"); r.Code == 0 || !strings.Contains(r.Stderr, "mcpx server login a") {
		t.Errorf("a after its URL was changed: exit code %d, %s", r.Code, r.Stderr)
	}
	g.Must("server", "tools", "b")
	b.mu.Lock()
	defer b.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := 0
	for _, bearer := range b.bearers {
		if _, of := a.access[bearer]; of {
			t.Error("b saw the token of a")
		}
		if _, own := b.access[bearer]; own {
			seen++
		}
		if strings.Contains(bearer, rig.Canary) && !strings.Contains(bearer, "access-") {
			t.Error("b saw the credential of a client")
		}
	}
	if seen == 0 {
		t.Error("b never saw its own token")
	}
	if a.clients != 1 || b.clients != 1 {
		t.Errorf("%d and %d registrations, want one at each", a.clients, b.clients)
	}
}

// TestSignInScopes: a call that needs more than was granted ends with what a person does; the next sign-in asks for both.
// A sign-in that is refused for good is told, recorded, and not tried again.
func TestSignInScopes(t *testing.T) {
	g := rig.Start(t)
	i := newIssuer(t)
	i.set(func() { i.scopes = "files" })
	g.AddURL("notes", i.url(), "--protocol", "legacy", "--sharing", "global", "--yes")
	if said, code := login(t, g, "notes"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	g.Must("server", "call", "notes", "echo", `{"text":"x"}`)
	i.set(func() { i.needs = "files.write" })
	if r := g.Run("server", "call", "notes", "echo", `{"text":"x"}`); r.Code == 0 || !strings.Contains(r.Stderr, "files.write") || !strings.Contains(r.Stderr, "mcpx server login notes") {
		t.Errorf("exit code %d, %s", r.Code, r.Stderr)
	}
	if out := g.Must("ps"); !strings.Contains(out, "files.write") {
		t.Errorf("ps:\n%s", out)
	}
	if said, code := login(t, g, "notes"); code != 0 || strings.Contains(said, "asks for more") {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	g.Must("server", "call", "notes", "echo", `{"text":"x"}`)
	i.mu.Lock()
	if i.clients != 1 {
		t.Errorf("%d registrations for two sign-ins at one place", i.clients)
	}
	clear(i.access)
	clear(i.refresh)
	i.mu.Unlock()

	before := i.count("/token")
	for range 3 {
		if r := g.Run("server", "call", "notes", "echo", `{"text":"x"}`); r.Code == 0 || !strings.Contains(r.Stderr, "mcpx server login notes") {
			t.Errorf("exit code %d, %s", r.Code, r.Stderr)
		}
	}
	if n := i.count("/token") - before; n != 1 {
		t.Errorf("%d tries to renew what is refused for good, want 1", n)
	}
	if out := g.Must("server", "show", "notes"); !strings.Contains(out, "sign-in expired") {
		t.Errorf("server show:\n%s", out)
	}
	if out := g.Run("health").Stdout; !strings.Contains(out, "server login notes") {
		t.Errorf("health:\n%s", out)
	}
	if out := g.Must("audit", "list", "--kind", "server.sign_in_ended", "--json"); !strings.Contains(out, "invalid_grant") {
		t.Errorf("the end was not recorded:\n%s", out)
	}
	if said, code := login(t, g, "notes"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	g.Must("server", "tools", "notes")
}
