package wire

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// issuer is an authorization server and a server that it protects, at one address. Its fields say how it misbehaves.
type issuer struct {
	t    *testing.T
	base string
	mcp  http.Handler
	gone func() // nobody is there any more

	mu       sync.Mutex
	document map[string]any             // members of the document about the resource that differ; nil removes one
	metadata map[string]any             // the same of the metadata of the authorization server
	about    string                     // where the 401 says that the document is; "" for where it is
	answer   map[string]string          // the same of the answer at the callback; "" removes one
	lasts    int                        // seconds that an access token counts
	machine  func(r *http.Request) bool // whether a client proves that it is who it says; nil: none signs in for itself
	tokens   func(form url.Values) (status int, body map[string]any)
	scopes   string // of the challenge; with needs a token without them gets 403
	needs    string

	codes    map[string]url.Values // of the authorization request, by code
	access   map[string]string     // scope of each access token that counts
	refresh  map[string]bool       // refresh tokens that count
	clients  int
	asked    []url.Values // at the token endpoint, in order
	revoked  []string
	bearers  []string // of requests to the server
	requests []string // path of each request
	secrets  []string // every token and code
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	s, err := fakemcp.New(fakemcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, mcp: s.Handler(), lasts: 3600, codes: map[string]url.Values{}, access: map[string]string{}, refresh: map[string]bool{}}
	web := httptest.NewServer(i)
	i.base, i.gone = web.URL, func() {
		web.CloseClientConnections()
		web.Close()
	}
	t.Cleanup(i.gone)
	return i
}

func (i *issuer) url() string { return i.base + "/mcp" }

// set changes how it behaves.
func (i *issuer) set(how func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	how()
}

// count gives how often a path was asked for.
func (i *issuer) count(path string) (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, p := range i.requests {
		if p == path {
			n++
		}
	}
	return n
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.requests = append(i.requests, r.URL.Path)
	i.mu.Unlock()
	switch r.URL.Path {
	case "/mcp":
		i.serve(w, r)
	case "/.well-known/oauth-protected-resource/mcp":
		i.reply(w, 200, map[string]any{"resource": i.url(), "authorization_servers": []string{i.base}, "scopes_supported": []string{"files"}}, i.document)
	case "/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/tenant":
		i.reply(w, 200, map[string]any{
			"issuer": i.base, "authorization_endpoint": i.base + "/authorize", "token_endpoint": i.base + "/token", "registration_endpoint": i.base + "/register",
			"revocation_endpoint": i.base + "/revoke", "code_challenge_methods_supported": []string{"S256"},
			"token_endpoint_auth_methods_supported": []string{"none"}, "authorization_response_iss_parameter_supported": true,
		}, i.metadata)
	case "/register":
		i.set(func() { i.clients++ })
		i.reply(w, 201, map[string]any{"client_id": fmt.Sprint("client-", i.clients), "token_endpoint_auth_method": "none"}, nil)
	case "/authorize":
		i.authorize(w, r)
	case "/token":
		i.token(w, r)
	case "/revoke":
		_ = r.ParseForm()
		i.set(func() { i.revoked = append(i.revoked, r.Form.Get("token")) })
	default:
		http.NotFound(w, r)
	}
}

func (i *issuer) reply(w http.ResponseWriter, status int, body, other map[string]any) {
	i.mu.Lock()
	body = maps.Clone(body)
	for name, value := range other {
		if body[name] = value; value == nil {
			delete(body, name)
		}
	}
	i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// serve is the server behind the sign-in.
func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	i.mu.Lock()
	i.bearers = append(i.bearers, token)
	scope, counts := i.access[token]
	needs, challenge := i.needs, fmt.Sprintf("Bearer resource_metadata=%q", cmp.Or(i.about, i.base+"/.well-known/oauth-protected-resource/mcp"))
	if i.scopes != "" {
		challenge += fmt.Sprintf(", scope=%q", i.scopes)
	}
	i.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	switch {
	case !counts:
		w.Header().Set("WWW-Authenticate", challenge)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	case needs != "" && !slices.Contains(strings.Fields(scope), needs) && bytes.Contains(body, []byte(`"tools/call"`)):
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer error="insufficient_scope", scope=%q`, needs))
		http.Error(w, "not with that", http.StatusForbidden)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	i.mcp.ServeHTTP(w, r)
}

// authorize says yes at once.
func (i *issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	code := rig.Canary + "code-" + rand.Text() // searched for at the end of each test
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil {
		i.t.Error(err)
	}
	out := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {i.base}}
	i.set(func() {
		i.codes[code] = q
		i.secrets = append(i.secrets, code)
		for name, value := range i.answer {
			if out.Set(name, value); value == "" {
				out.Del(name)
			}
		}
	})
	back.RawQuery = out.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	i.mu.Lock()
	i.asked = append(i.asked, r.Form)
	special := i.tokens
	i.mu.Unlock()
	if special != nil {
		if status, body := special(r.Form); status != 0 {
			if status/100 == 3 {
				w.Header().Set("Location", body["location"].(string))
			}
			i.reply(w, status, body, nil)
			return
		}
	}
	scope := ""
	no := ""
	i.set(func() {
		switch r.Form.Get("grant_type") {
		case "authorization_code":
			q := i.codes[r.Form.Get("code")]
			delete(i.codes, r.Form.Get("code"))
			sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
			if q == nil || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || q.Get("redirect_uri") != r.Form.Get("redirect_uri") {
				no = "invalid_grant"
			}
			scope = q.Get("scope")
		case "client_credentials":
			if i.machine == nil || !i.machine(r) {
				no = "invalid_client"
			}
		case "refresh_token":
			if !i.refresh[r.Form.Get("refresh_token")] {
				no = "invalid_grant"
			}
			delete(i.refresh, r.Form.Get("refresh_token"))
			clear(i.access)
			scope = "files"
		}
		if r.Form.Get("resource") == "" {
			no = "invalid_target"
		}
	})
	if no != "" {
		i.reply(w, 400, map[string]any{"error": no}, nil)
		return
	}
	access, refresh := rig.Canary+"access-"+rand.Text(), rig.Canary+"refresh-"+rand.Text()
	lasts := 0
	i.set(func() {
		i.access[access], i.refresh[refresh] = scope, true
		i.secrets = append(i.secrets, access, refresh)
		lasts = i.lasts
	})
	i.reply(w, 200, map[string]any{"access_token": access, "token_type": "bearer", "expires_in": lasts, "refresh_token": refresh, "scope": scope}, nil)
}

// login signs in as a person with a browser would, and gives what the command said and its exit code.
func login(t *testing.T, g *rig.Gateway, server string, flags ...string) (said string, code int) {
	t.Helper()
	return loginWith(t, g, server, func(address string) {
		answer, err := http.Get(address) //nolint:gosec,noctx // the browser of a person
		if err != nil {
			t.Error(err)
			return
		}
		answer.Body.Close()
	}, flags...)
}

func loginWith(t *testing.T, g *rig.Gateway, server string, browser func(address string), flags ...string) (said string, code int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, g.Binary, append([]string{"server", "login", server, "--no-browser"}, flags...)...)
	cmd.Env, cmd.Dir = g.Environ(), g.Home
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	line := make([]byte, 0, 4096)
	buf := make([]byte, 1)
	for { // the address comes at once, on a line of its own
		n, err := out.Read(buf)
		if n == 1 && buf[0] != '\n' {
			line = append(line, buf[0])
		}
		if n == 1 && buf[0] == '\n' {
			all.Write(append(line, '\n'))
			if strings.HasPrefix(string(line), "http") {
				browser(string(line))
			}
			line = line[:0]
		}
		if err != nil {
			break
		}
	}
	_ = cmd.Wait() // the exit code says it
	return all.String() + complaints.String(), cmd.ProcessState.ExitCode()
}

// TestSignInDown: a server that is down is no reason to ask whoever runs it, also when it is known to want a sign-in.
func TestSignInDown(t *testing.T) {
	g := rig.Start(t)
	i := newIssuer(t)
	g.AddURL("notes", i.url())
	if r := g.Run("server", "tools", "notes"); r.Code == 0 || !strings.Contains(r.Stderr, "server login notes") {
		t.Errorf("before: exit code %d, %s", r.Code, r.Stderr)
	}
	i.gone()
	if said, code := login(t, g, "notes"); code != 75 || !strings.Contains(said, "cannot be reached") {
		t.Errorf("exit code %d\n%s", code, said)
	}

	// One whose authorization server, or whose document at another host, is down; and one whose endpoint cannot be read.
	up, gone := newIssuer(t), newIssuer(t)
	gone.gone()
	for name, c := range map[string]struct {
		set    func()
		code   int
		says   string
		unsaid string
	}{
		"issuer":   {func() { up.document = map[string]any{"authorization_servers": []string{gone.base}} }, 75, "the authorization server " + gone.base + " cannot be reached", "server issuer cannot"},
		"document": {func() { up.about = gone.base + "/about" }, 75, "at " + gone.base + "/about cannot be reached", "server document cannot"},
		"endpoint": {func() { up.metadata = map[string]any{"jwks_uri": "https://keys.example/%zz"} }, 7, "cannot be used", "cannot be reached"},
	} {
		up.set(func() {
			up.document, up.metadata, up.about = nil, nil, ""
			c.set()
		})
		g.AddURL(name, up.url())
		if said, code := login(t, g, name); code != c.code || !strings.Contains(said, c.says) || strings.Contains(said, c.unsaid) {
			t.Errorf("%s: exit code %d, want %d\n%s", name, code, c.code, said)
		}
	}
}

// TestSignIn: a server asks for a sign-in; an agent is told who does what; a person signs in; the agent's call works; the
// tokens outlive the daemon, are renewed once for everybody, and are nowhere but encrypted; a sign-out ends it.
func TestSignIn(t *testing.T) {
	g := rig.New(t)
	g.Extra = []string{"MCPX_LOG=debug"}
	g.Serve()
	i := newIssuer(t)
	g.AddURL("notes", i.url(), "--protocol", "legacy") // each session has a connection of its own

	call := func(id string) string {
		t.Helper()
		c := rig.NewClient(t, g.URL("notes"))
		return string(c.Post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, id)).Body)
	}
	for n := range 3 {
		if answer := call(fmt.Sprint(n + 1)); !strings.Contains(answer, "mcpx server login notes") || !strings.Contains(answer, `"after_fix"`) {
			t.Fatalf("without a sign-in: %s", answer)
		}
	}
	if n := i.count("/mcp"); n != 1 {
		t.Errorf("%d requests reached a server that asks for a sign-in, want 1", n)
	}
	for _, command := range [][]string{{"ps"}, {"server", "show", "notes"}, {"health"}} {
		if out := g.Run(command...); !strings.Contains(out.Stdout, "needed") && !strings.Contains(out.Stdout, "server login notes") {
			t.Errorf("mcpx %s says nothing of the sign-in:\n%s", strings.Join(command, " "), out.Stdout)
		}
	}

	if said, code := login(t, g, "notes"); code != 0 || !strings.Contains(said, "Signed in at notes") {
		t.Fatalf("login: exit code %d\n%s", code, said)
	}
	if answer := call("7"); !strings.Contains(answer, `"result"`) {
		t.Errorf("after the sign-in: %s", answer)
	}
	if out := g.Must("server", "show", "notes"); !strings.Contains(out, "signed in, renewed by itself") || !strings.Contains(out, i.base) {
		t.Errorf("server show:\n%s", out)
	}

	// The daemon is killed; the token is used again without a person, and renewed once when the server does not take it.
	g.Kill()
	g.Serve()
	logins := i.count("/authorize")
	i.set(func() { clear(i.access) })
	before := i.count("/token")
	var all sync.WaitGroup
	answers := make([]string, 20)
	for n := range answers {
		c := rig.NewClient(t, g.URL("notes"))
		all.Go(func() {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			reply, err := c.Try(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, n+100))
			answers[n] = string(reply.Body)
			if err != nil {
				answers[n] = err.Error()
			}
		})
	}
	all.Wait()
	for n, answer := range answers {
		if !strings.Contains(answer, `"result"`) {
			t.Errorf("call %d at the moment of the renewal: %s", n, answer)
		}
	}
	if n := i.count("/token") - before; n != 1 {
		t.Errorf("%d renewals for 20 clients, want 1", n)
	}
	if n := len(g.Processes("notes")); n < len(answers) {
		t.Errorf("%d connections for %d clients", n, len(answers))
	}
	if n := i.count("/authorize"); n != logins {
		t.Error("somebody had to sign in again")
	}
	i.mu.Lock()
	for n, form := range i.asked {
		if form.Get("resource") != i.url() {
			t.Errorf("request %d at the token endpoint names the resource %q", n, form.Get("resource"))
		}
	}
	secrets := slices.Clone(i.secrets)
	i.mu.Unlock()

	if out := g.Must("server", "logout", "notes"); !strings.Contains(out, "Signed out") {
		t.Error(out)
	}
	i.mu.Lock()
	if len(i.revoked) != 1 || !i.refresh[i.revoked[0]] {
		t.Errorf("revoked: %d tokens, want the refresh token that counts", len(i.revoked))
	}
	i.mu.Unlock()
	if answer := call("900"); !strings.Contains(answer, "mcpx server login notes") {
		t.Errorf("after the sign-out: %s", answer)
	}
	events := g.Must("audit", "list", "--kind", "server", "--json")
	for _, kind := range []string{"server.signed_in", "server.signed_out"} {
		if !strings.Contains(events, kind) {
			t.Errorf("no event %s in\n%s", kind, events)
		}
	}
	kept, err := os.ReadFile(filepath.Join(g.Home, "state", "secrets", "store.age"))
	if err != nil || bytes.Contains(kept, []byte(rig.Canary)) {
		t.Errorf("the store: %v, or it holds a token in clear", err)
	}
	shown := events + g.Log() + g.Must("server", "show", "notes", "--json") + g.Must("ps", "--json")
	for _, secret := range secrets {
		if strings.Contains(shown, secret) {
			t.Errorf("%s... is shown", secret[:len(rig.Canary)+5])
		}
	}
}
