package httpedge

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"mcpx/internal/auth"
	"mcpx/internal/fault"
)

// Bounds of asking an authorization server that is not ours.
const (
	providerWithin = 5 * time.Second // each of its documents
	providerAgain  = 5 * time.Second // from one failure to the next try, and from one look at its keys to the next: anybody can send something that looks like a token
)

// Provider verifies the access tokens of an authorization server that is not ours. It knows the server by OpenID Connect
// Discovery, and its keys by that; both are kept.
type Provider struct {
	now    func() time.Time
	client *http.Client

	mu     sync.Mutex // guards the fields below
	issuer string
	known  *oidc.Provider // nil: the last try failed
	failed error
	next   time.Time // no try before
}

// NewProvider makes one that has asked nobody yet.
func NewProvider(now func() time.Time) *Provider {
	return &Provider{now: now, client: &http.Client{
		Transport:     &sparing{RoundTripper: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}, now: now, last: map[string]time.Time{}},
		Timeout:       providerWithin,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// signatures are what a token may be signed with: nothing that needs a secret which both sides have.
var signatures = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}

// Verify says what a token says, if issuer signed it for resource and it counts now. The error is Unauthenticated for a token
// that does not, and Unavailable when the issuer cannot be asked.
func (p *Provider) Verify(ctx context.Context, issuer, resource, token string) (auth.External, error) {
	server, err := p.server(issuer)
	if err != nil {
		return auth.External{}, fault.New(fault.Unavailable, "issuer-unreachable").Saying("%s cannot be asked: %s", issuer, err).Because(err)
	}
	verified, err := server.Verifier(&oidc.Config{ClientID: resource, SupportedSigningAlgs: signatures, Now: p.now}).Verify(ctx, token)
	if err != nil {
		return auth.External{}, fault.New(fault.Unauthenticated, "access-invalid").Saying("the access token does not count: %s", err).Hinting("sign in at %s again", issuer).Because(err)
	}
	var says struct {
		Client string `json:"client_id"` // RFC 9068
		Party  string `json:"azp"`       // OpenID Connect
		Scope  words  `json:"scope"`
		Scopes words  `json:"scp"`
	}
	if err := verified.Claims(&says); err != nil {
		return auth.External{}, fault.New(fault.Unauthenticated, "access-invalid").Saying("the access token cannot be read: %s", err).Because(err)
	}
	if says.Client == "" {
		says.Client = says.Party
	}
	return auth.External{Issuer: verified.Issuer, Subject: verified.Subject, Client: says.Client, Scopes: append(says.Scope, says.Scopes...), Issued: verified.IssuedAt}, nil
}

// server is what an issuer says of itself.
func (p *Provider) server(issuer string) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.issuer == issuer && (p.known != nil || p.now().Before(p.next)) {
		return p.known, p.failed
	}
	p.issuer = issuer
	p.known, p.failed = oidc.NewProvider(p.context(), issuer)
	p.next = p.now().Add(providerAgain)
	return p.known, p.failed
}

// context is not that of a request: what is learned is for the next ones, too.
func (p *Provider) context() context.Context {
	return oidc.ClientContext(context.Background(), p.client)
}

// sparing asks for one document once in a while: the keys are looked for again for every token that names an unknown one.
type sparing struct {
	http.RoundTripper
	now func() time.Time

	mu   sync.Mutex // guards last
	last map[string]time.Time
}

// RoundTrip refuses a request for what was asked for a moment ago.
func (s *sparing) RoundTrip(r *http.Request) (*http.Response, error) {
	url, now := r.URL.String(), s.now()
	s.mu.Lock()
	soon := now.Before(s.last[url].Add(providerAgain))
	if !soon {
		s.last[url] = now
	}
	s.mu.Unlock()
	if soon {
		return nil, errors.New("it was asked a moment ago")
	}
	return s.RoundTripper.RoundTrip(r)
}

// words are several in one text, or a list: authorization servers do both.
type words []string

// UnmarshalJSON reads either form.
func (w *words) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*w = strings.Fields(text)
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(w))
}
