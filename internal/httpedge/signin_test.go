package httpedge

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/rpc"
	"mcpx/internal/secret"
)

// signInMemory keeps records in memory.
type signInMemory struct {
	mu      sync.Mutex
	records map[string]string
	err     error
	hidden  []string
}

func (m *signInMemory) Record(_ context.Context, name string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records[name], m.err
}

func (m *signInMemory) KeepRecord(_ context.Context, name, record string, hidden ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hidden = append(m.hidden, hidden...)
	if m.err == nil {
		m.records[name] = record
	}
	return m.err
}

func (m *signInMemory) Forget(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.records, name)
	return m.err
}

func (m *signInMemory) Resolve(_ context.Context, ref string) (secret.Handle, error) {
	return secret.Hold("value of " + ref), nil
}

func (m *signInMemory) Hide(values ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hidden = append(m.hidden, values...)
}

// signInBench is a token endpoint, and SignIns with a record for the server a.
type signInBench struct {
	*SignIns
	store  *signInMemory
	now    atomic.Pointer[time.Time]
	token  atomic.Pointer[http.HandlerFunc]
	asked  atomic.Int64
	ended  atomic.Int64
	server catalog.Server
}

func newSignInBench(t *testing.T, change func(*grant)) *signInBench {
	t.Helper()
	b := &signInBench{store: &signInMemory{records: map[string]string{}}}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		(*b.token.Load())(w, r)
	}))
	t.Cleanup(web.Close)
	b.at(time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC))
	b.answers(200, `{"access_token":"access-2","token_type":"Bearer","expires_in":3600,"refresh_token":"refresh-2"}`)
	b.server = catalog.Server{ID: "srv_a", Name: "a", HTTP: &catalog.HTTP{URL: web.URL + "/mcp"}}
	g := grant{
		URL: b.server.HTTP.URL, Resource: b.server.HTTP.URL, Issuer: web.URL, Endpoint: web.URL + "/token", Client: clientAs{ID: "me", Method: auth.MethodNone},
		Access: "access-1", Refresh: "refresh-1", Got: *b.now.Load(), Expires: b.now.Load().Add(time.Hour), Scopes: []string{"files"},
	}
	if change != nil {
		change(&g)
	}
	text, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	b.store.records[recordOf(b.server)] = string(text)
	b.SignIns, err = NewSignIns(SignInsConfig{
		Store: b.store, Now: func() time.Time { return *b.now.Load() }, Log: slog.New(slog.DiscardHandler), Version: "1",
		Ended: func(catalog.Server, auth.SignIn) { b.ended.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *signInBench) at(now time.Time) { b.now.Store(&now) }

func (b *signInBench) pass(d time.Duration) { b.at(b.now.Load().Add(d)) }

func (b *signInBench) answers(status int, body string) {
	b.handles(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func (b *signInBench) handles(h http.HandlerFunc) { b.token.Store(&h) }

// TestSignInRenewal: a token is used as long as it counts, renewed before its end, once for everybody, and with `resource`.
func TestSignInRenewal(t *testing.T) {
	b := newSignInBench(t, nil)
	if token, err := b.Token(t.Context(), b.server); err != nil || token != "access-1" || b.asked.Load() != 0 {
		t.Fatalf("a token that counts: %q, %v, %d requests", token, err, b.asked.Load())
	}
	hold := make(chan struct{})
	var form url.Values
	b.handles(func(w http.ResponseWriter, r *http.Request) {
		<-hold
		_ = r.ParseForm()
		form = r.Form
		_, _ = io.WriteString(w, `{"access_token":"access-2","token_type":"Bearer","expires_in":"3600","refresh_token":"refresh-2"}`)
	})
	b.pass(time.Hour)
	left, leave := context.WithCancel(t.Context())
	var all, first sync.WaitGroup
	first.Go(func() { // one who leaves breaks nothing off
		if _, err := b.Token(left, b.server); fault.KindOf(err) != fault.Canceled {
			t.Errorf("the one who left: %v", err)
		}
	})
	for range 20 {
		all.Go(func() {
			if token, err := b.Token(t.Context(), b.server); err != nil || token != "access-2" {
				t.Errorf("at the moment of the renewal: %q, %v", token, err)
			}
		})
	}
	for b.asked.Load() == 0 { // the renewal is under way
		time.Sleep(time.Millisecond)
	}
	leave()
	first.Wait()
	close(hold)
	all.Wait()
	if n := b.asked.Load(); n != 1 {
		t.Errorf("%d renewals, want 1", n)
	}
	if form.Get("resource") != b.server.HTTP.URL || form.Get("refresh_token") != "refresh-1" || form.Get("client_id") != "me" {
		t.Errorf("the renewal said %v", form)
	}
	if !strings.Contains(b.store.records[recordOf(b.server)], "refresh-2") {
		t.Error("the next refresh token was not kept")
	}
}

// TestSignInSurvivesFailures: only a definite no ends a sign-in (field F-31); what was kept stays until the next one.
func TestSignInSurvivesFailures(t *testing.T) {
	b := newSignInBench(t, nil)
	b.answers(503, `busy`)
	b.pass(time.Hour - 10*time.Second)
	if token, err := b.Token(t.Context(), b.server); err != nil || token != "access-1" {
		t.Errorf("a token that still counts: %q, %v", token, err)
	}
	b.pass(20 * time.Second)
	if _, err := b.Token(t.Context(), b.server); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a renewal that failed: %v", err)
	}
	before := b.asked.Load()
	for range 10 {
		_, _ = b.Token(t.Context(), b.server)
	}
	if n := b.asked.Load() - before; n != 0 {
		t.Errorf("%d requests within the pause", n)
	}
	if s := b.State(t.Context(), b.server); s.State != auth.SignedIn || s.Text == "" {
		t.Errorf("while it cannot be renewed: %+v", s)
	}
	b.answers(200, `{"access_token":"access-2","token_type":"bearer","expires_in":3600}`)
	b.pass(2 * renewPause)
	if token, err := b.Token(t.Context(), b.server); err != nil || token != "access-2" {
		t.Errorf("after the failure: %q, %v", token, err)
	}
	if !strings.Contains(b.store.records[recordOf(b.server)], "refresh-1") {
		t.Error("a refresh token that was not replaced is gone")
	}
	b.store.mu.Lock()
	b.store.err = fault.New(fault.Unavailable, "full").Saying("disk full")
	b.store.mu.Unlock()
	b.pass(time.Hour)
	if token, err := b.Token(t.Context(), b.server); err == nil {
		t.Errorf("a token that could not be kept is used: %q", token)
	}
	b.store.mu.Lock()
	b.store.err = nil
	b.store.mu.Unlock()

	b.answers(400, `{"error":"invalid_grant","error_description":"refresh-1 is \u001b[31m gone"}`)
	b.pass(2 * renewPause)
	if _, err := b.Token(t.Context(), b.server); fault.From(err).Code != "sign-in-needed" || !strings.Contains(fault.From(err).Hint, "mcpx server login a") {
		t.Errorf("a definite no: %v", err)
	}
	if s := b.State(t.Context(), b.server); s.State != auth.SignInEnded || strings.Contains(s.Text, "refresh-1") || b.ended.Load() != 1 {
		t.Errorf("after a definite no: %+v, told %d times", s, b.ended.Load())
	}
	before = b.asked.Load()
	if _, err := b.Token(t.Context(), b.server); err == nil || b.asked.Load() != before {
		t.Errorf("an ended sign-in is tried again: %v", err)
	}
	if b.store.records[recordOf(b.server)] == "" {
		t.Error("the record is gone before the next sign-in")
	}
}

// TestSignInGivenUp: who gives up, or has no more time, while a server lets it wait is told so, and not that the server is
// down; a port that is taken is nobody's fault but of who named it.
func TestSignInGivenUp(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]struct {
		in   auth.LogIn
		hang bool
		code string
		kind fault.Kind
	}{
		"given up":    {auth.LogIn{}, true, "canceled", fault.Canceled},
		"too late":    {auth.LogIn{Within: 50 * time.Millisecond}, true, "sign-in-late", fault.Unavailable},
		"port in use": {auth.LogIn{Port: taken.Addr().(*net.TCPAddr).Port}, false, "sign-in-port", fault.Busy},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSignInBench(t, nil)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			b.handles(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case c.hang && c.in.Within == 0:
					leave()
					fallthrough
				case c.hang:
					_, _ = io.Copy(io.Discard, r.Body) // else nobody sees that the client left
					<-r.Context().Done()
				case r.URL.Path == "/mcp":
					w.WriteHeader(http.StatusUnauthorized)
				default:
					w.WriteHeader(http.StatusNotFound)
				}
			})
			_, err := b.SignIn(ctx, b.server, c.in, func(string, time.Time) error { return nil })
			if f := fault.From(err); err == nil || f.Code != c.code || f.Kind != c.kind {
				t.Errorf("%v (%s), want %s", err, fault.KindOf(err), c.code)
			}
		})
	}
}

// TestTokenStaysAtItsServer: the token of one server goes to no other, also when an entry changes its URL.
func TestTokenStaysAtItsServer(t *testing.T) {
	b := newSignInBench(t, nil)
	other := catalog.Server{ID: "srv_b", Name: "b", HTTP: &catalog.HTTP{URL: b.server.HTTP.URL}}
	if token, err := b.Token(t.Context(), other); token != "" || err != nil {
		t.Errorf("another server got %q, %v", token, err)
	}
	moved := b.server
	moved.HTTP = &catalog.HTTP{URL: "https://elsewhere.example/mcp"}
	if token, err := b.Token(t.Context(), moved); token != "" || fault.From(err).Code != "sign-in-needed" {
		t.Errorf("the same server at another URL got %q, %v", token, err)
	}
	if b.server.OwnToken() {
		t.Error("a server without headers brings a token")
	}
	own := b.server
	own.HTTP = &catalog.HTTP{URL: b.server.HTTP.URL, Headers: map[string]catalog.Binding{"authorization": {Literal: "x"}}}
	if !own.OwnToken() || b.State(t.Context(), own).State != "" {
		t.Error("a server with a token of its own is signed in for")
	}
}

// TestTokenEndpointLies: answers of a token endpoint that are no token.
func TestTokenEndpointLies(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"no JSON":           {200, `<html>`},
		"no token":          {200, `{"token_type":"Bearer"}`},
		"another kind":      {200, `{"access_token":"access-2","token_type":"mac"}`},
		"a line end":        {200, `{"access_token":"access-2\r\nX-Evil: 1","token_type":"Bearer"}`},
		"a redirect":        {302, `{"access_token":"access-2","token_type":"Bearer"}`},
		"an error as 500":   {500, `{"error":"invalid_grant"}`},
		"larger than it is": {200, `{"access_token":"` + strings.Repeat("a", signInBody) + `","token_type":"Bearer"}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSignInBench(t, nil)
			b.answers(c.status, c.body)
			b.pass(2 * time.Hour)
			if token, err := b.Token(t.Context(), b.server); token != "" || fault.KindOf(err) != fault.Unavailable {
				t.Errorf("%q, %v", token, err)
			}
			if s := b.State(t.Context(), b.server); s.State != auth.SignedIn {
				t.Errorf("it ended the sign-in: %+v", s)
			}
		})
	}
}

// TestLinkRenews: a link whose token is refused sends the same bytes once more with another one, and no third time.
func TestLinkRenews(t *testing.T) {
	for _, counts := range []bool{true, false} {
		t.Run(fmt.Sprint("the other token counts: ", counts), func(t *testing.T) {
			b := newSignInBench(t, nil)
			var mu sync.Mutex
			var bearers, bodies []string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				defer mu.Unlock()
				bearers, bodies = append(bearers, r.Header.Get("Authorization")), append(bodies, string(body))
				if r.Header.Get("Authorization") != "Bearer access-2" || !counts {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, upAnswer("1"))
			}))
			defer srv.Close()
			entry := b.server
			entry.HTTP = &catalog.HTTP{URL: srv.URL}
			var g grant
			if err := json.Unmarshal([]byte(b.store.records[recordOf(entry)]), &g); err != nil {
				t.Fatal(err)
			}
			g.URL = srv.URL
			text, _ := json.Marshal(g)
			b.store.records[recordOf(entry)] = string(text)

			cfg := upConfig()
			cfg.SignIns = b.SignIns
			up, err := NewUpstream(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer up.Close()
			sink := &signInSink{got: make(chan gateway.Failure, 4), in: make(chan []byte, 4)}
			l, err := up.Open(t.Context(), gateway.Open{Server: entry, Modern: true}, sink)
			if err != nil {
				t.Fatal(err)
			}
			body := rpc.RequestMessage([]byte("1"), "tools/call", []byte(`{"name":"pay"}`))
			if err := l.Send(gateway.Outbound{Body: body, Kind: rpc.Request, Ref: 1, Method: "tools/call"}); err != nil {
				t.Fatal(err)
			}
			select {
			case f := <-sink.got:
				if counts || !f.Fix || f.Class != gateway.Unavailable || !strings.Contains(f.Text, "mcpx server login a") || strings.Contains(f.Text, "access-") {
					t.Errorf("failed: %+v", f)
				}
			case got := <-sink.in:
				if !counts || string(got) != upAnswer("1") {
					t.Errorf("answered: %s", got)
				}
			}
			if err := l.Detach(t.Context()); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if strings.Join(bearers, ", ") != "Bearer access-1, Bearer access-2" {
				t.Errorf("the server saw %v", bearers)
			}
			for _, got := range bodies {
				if got != string(body) {
					t.Errorf("another body: %s", got)
				}
			}
		})
	}
}

type signInSink struct {
	got chan gateway.Failure
	in  chan []byte
}

func (s *signInSink) Deliver(in gateway.Inbound)         { s.in <- in.Body }
func (s *signInSink) Written(uint64)                     {}
func (s *signInSink) Failed(_ uint64, f gateway.Failure) { s.got <- f }
func (s *signInSink) Overlong([]byte, int64)             {}
func (s *signInSink) Stderr([]byte)                      {}
func (s *signInSink) Closed(gateway.Exit)                {}

// TestAssertion: a client proves with a signature that it holds its key, for one minute and one server.
func TestAssertion(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	encoded := func(key any) string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	for alg, check := range map[string]func(sum, signature []byte) bool{
		"RS256": func(sum, signature []byte) bool {
			return rsa.VerifyPKCS1v15(&rsaKey.PublicKey, crypto.SHA256, sum, signature) == nil
		},
		"ES256": func(sum, signature []byte) bool {
			return len(signature) == 64 && ecdsa.Verify(&ecKey.PublicKey, sum, new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
		},
	} {
		key := encoded(rsaKey)
		if alg == "ES256" {
			key = encoded(ecKey)
		}
		text, err := assert(key, "me", "https://login.example", now)
		if err != nil {
			t.Errorf("%s: %v", alg, err)
			continue
		}
		parts := strings.Split(text, ".")
		sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
		signature, err := base64.RawURLEncoding.DecodeString(parts[2])
		if err != nil || !check(sum[:], signature) {
			t.Errorf("%s: the signature does not fit, %v", alg, err)
		}
		claims, err := base64.RawURLEncoding.DecodeString(parts[1])
		for _, want := range []string{`"aud":"https://login.example"`, `"iss":"me"`, `"sub":"me"`, `"exp":1800000060`, `"jti"`} {
			if err != nil || !strings.Contains(string(claims), want) {
				t.Errorf("%s: the claims %s lack %s, %v", alg, claims, want, err)
			}
		}
	}
	for name, text := range map[string]string{"nothing": "", "no PEM": "secret-key", "another curve": encoded(other), "no key": "-----BEGIN PRIVATE KEY-----\nc2VjcmV0LWtleQ==\n-----END PRIVATE KEY-----\n"} {
		if _, err := assert(text, "me", "x", now); fault.From(err).Code != "sign-in-key" || strings.Contains(err.Error(), "secret-key") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
