package httpedge

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"mcpx/internal/fault"
)

// issuer is an authorization server as far as others read it: its discovery document, and its keys.
type issuer struct {
	url   string
	key   *rsa.PrivateKey
	kid   string // that tokens name
	down  atomic.Bool
	lost  atomic.Bool  // its keys cannot be had
	asked atomic.Int32 // for the discovery document
	keys  atomic.Int32 // how often they were asked for
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key, kid: "k1"}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		if i.asked.Add(1); i.down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		answer(w, http.StatusOK, map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		if i.keys.Add(1); i.lost.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}}})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	i.url = s.URL
	return i
}

// sign makes a token; with says what differs from a good one.
func (i *issuer) sign(t *testing.T, alg jose.SignatureAlgorithm, key any, with map[string]any) string {
	t.Helper()
	claims := map[string]any{
		"iss": i.url, "sub": "ada", "aud": []string{"https://other.example", "https://mcp.example.org/mcp"}, "client_id": "chat", "scope": "openid runtime:read",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	for name, value := range with {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", i.kid).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(body)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestProvider: what counts is a token that the issuer signed, for this resource, now.
func TestProvider(t *testing.T) {
	const resource = "https://mcp.example.org/mcp"
	i := newIssuer(t)
	p := NewProvider(time.Now)

	says, err := p.Verify(t.Context(), i.url, resource, i.sign(t, jose.RS256, i.key, nil))
	if err != nil || says.Issuer != i.url || says.Subject != "ada" || says.Client != "chat" || !slices.Equal(says.Scopes, []string{"openid", "runtime:read"}) || says.Issued.IsZero() {
		t.Fatalf("%+v (%v)", says, err)
	}
	says, err = p.Verify(t.Context(), i.url, resource, i.sign(t, jose.RS256, i.key, map[string]any{"client_id": nil, "azp": "phone", "scope": nil, "scp": []string{"runtime:use"}, "aud": resource}))
	if err != nil || says.Client != "phone" || !slices.Equal(says.Scopes, []string{"runtime:use"}) {
		t.Errorf("with azp and scp: %+v (%v)", says, err)
	}

	another, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	good := i.sign(t, jose.RS256, i.key, nil)
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"another audience": i.sign(t, jose.RS256, i.key, map[string]any{"aud": "https://mcp.example.org"}),
		"no audience":      i.sign(t, jose.RS256, i.key, map[string]any{"aud": nil}),
		"another issuer":   i.sign(t, jose.RS256, i.key, map[string]any{"iss": "https://evil.example"}),
		"over":             i.sign(t, jose.RS256, i.key, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}),
		"without an end":   i.sign(t, jose.RS256, i.key, map[string]any{"exp": nil}),
		"another key":      i.sign(t, jose.RS256, another, nil),
		"a shared secret":  i.sign(t, jose.HS256, i.key.N.Bytes(), nil),
		"no signature":     parts[0] + "." + parts[1] + ".",
		"alg none":         "eyJhbGciOiJub25lIn0." + parts[1] + ".",
		"other words":      parts[0] + "." + strings.Split(i.sign(t, jose.RS256, another, map[string]any{"sub": "eve"}), ".")[1] + "." + parts[2],
		"nothing":          "",
		"one of ours":      "mcpx_at_0123",
		"scopes as number": i.sign(t, jose.RS256, i.key, map[string]any{"scope": 7}),
	} {
		if _, err := p.Verify(t.Context(), i.url, resource, token); fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestProviderKeys: tokens that name unknown keys do not make us ask the issuer for each of them.
func TestProviderKeys(t *testing.T) {
	i := newIssuer(t)
	now := time.Now()
	p := NewProvider(func() time.Time { return now })
	about := map[string]any{"aud": "r"}
	good := i.sign(t, jose.RS256, i.key, about)
	if _, err := p.Verify(t.Context(), i.url, "r", good); err != nil {
		t.Fatal(err)
	}
	i.kid = "k2"
	unknown := i.sign(t, jose.RS256, i.key, about)
	for range 10 {
		if _, err := p.Verify(t.Context(), i.url, "r", unknown); fault.KindOf(err) != fault.Unauthenticated {
			t.Error(err)
		}
	}
	if n := i.keys.Load(); n != 1 {
		t.Errorf("its keys were asked for %d times", n)
	}
	now = now.Add(providerAgain)
	for limit := time.Now().Add(10 * time.Second); i.keys.Load() < 2 && time.Now().Before(limit); { // one may join a look that has just ended
		if _, err := p.Verify(t.Context(), i.url, "r", unknown); fault.KindOf(err) != fault.Unauthenticated {
			t.Error(err)
		}
	}
	for range 10 {
		if _, err := p.Verify(t.Context(), i.url, "r", unknown); fault.KindOf(err) != fault.Unauthenticated {
			t.Error(err)
		}
	}
	if n := i.keys.Load(); n != 2 {
		t.Errorf("later, its keys were asked for %d times", n)
	}
	if _, err := p.Verify(t.Context(), i.url, "r", good); err != nil {
		t.Errorf("a good one beside them: %v", err)
	}
}

// TestProviderKeysLost: keys that cannot be had are no fault of the token, also while they are not looked for again. What is no
// token is none all the same.
func TestProviderKeysLost(t *testing.T) {
	i, other := newIssuer(t), newIssuer(t)
	i.lost.Store(true)
	now := time.Now()
	p := NewProvider(func() time.Time { return now })
	good := i.sign(t, jose.RS256, i.key, map[string]any{"aud": "r"})
	for range 10 {
		if _, err := p.Verify(t.Context(), i.url, "r", good); fault.KindOf(err) != fault.Unavailable || fault.From(err).Code != "issuer-unreachable" {
			t.Error(err)
		}
	}
	if n := i.keys.Load(); n != 1 {
		t.Errorf("its keys were asked for %d times", n)
	}
	if _, err := p.Verify(t.Context(), i.url, "r", "x"); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("no token: %v", err)
	}
	i.lost.Store(false)
	now = now.Add(providerAgain)
	for limit := time.Now().Add(10 * time.Second); i.keys.Load() < 2 && time.Now().Before(limit); { // one may join a look that has just ended
		_, _ = p.Verify(t.Context(), i.url, "r", good)
	}
	if _, err := p.Verify(t.Context(), i.url, "r", good); err != nil {
		t.Errorf("when they can be had: %v", err)
	}

	// Another issuer in its place, and back, all at once.
	if _, err := p.Verify(t.Context(), other.url, "r", other.sign(t, jose.RS256, other.key, map[string]any{"aud": "r"})); err != nil {
		t.Errorf("another issuer: %v", err)
	}
	if _, err := p.Verify(t.Context(), i.url, "r", good); err != nil {
		t.Errorf("the first one again: %v", err)
	}
}

// TestProviderDown: an issuer that cannot be asked is no reason to sign in again, and is not asked for every token.
func TestProviderDown(t *testing.T) {
	i := newIssuer(t)
	i.down.Store(true)
	now := time.Now()
	p := NewProvider(func() time.Time { return now })
	token := i.sign(t, jose.RS256, i.key, map[string]any{"aud": "r"})
	for range 3 {
		if _, err := p.Verify(t.Context(), i.url, "r", token); fault.KindOf(err) != fault.Unavailable {
			t.Fatal(err)
		}
	}
	if n := i.asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	i.down.Store(false)
	now = now.Add(providerAgain)
	if _, err := p.Verify(t.Context(), i.url, "r", token); err != nil {
		t.Error(err)
	}
}
