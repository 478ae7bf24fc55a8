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
	direct http.RoundTripper

	mu     sync.Mutex // guards the fields below
	issuer string
	known  *keys // nil: the last try failed
	failed error
	next   time.Time // no try before
}

// NewProvider makes one that has asked nobody yet.
func NewProvider(now func() time.Time) *Provider {
	return &Provider{now: now, direct: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
}

// signatures are what a token may be signed with: nothing that needs a secret which both sides have.
var signatures = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}

// Verify says what a token says, if issuer signed it for resource and it counts now. The error is Unauthenticated for a token
// that does not, and Unavailable when the issuer cannot be asked.
func (p *Provider) Verify(ctx context.Context, issuer, resource, token string) (auth.External, error) {
	known, err := p.keys(issuer)
	if err != nil {
		return auth.External{}, fault.New(fault.Unavailable, "issuer-unreachable").Saying("%s cannot be asked: %s", issuer, err).Because(err)
	}
	found := &look{keys: known}
	verified, err := oidc.NewVerifier(issuer, found, &oidc.Config{ClientID: resource, SupportedSigningAlgs: signatures, Now: p.now}).Verify(ctx, token)
	switch {
	case found.missed != nil:
		return auth.External{}, fault.New(fault.Unavailable, "issuer-unreachable").Saying("%s cannot be asked for its keys: %s", issuer, found.missed)
	case err != nil:
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

// keys are those of an issuer, which says itself where they are.
func (p *Provider) keys(issuer string) (*keys, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.issuer == issuer && (p.known != nil || p.now().Before(p.next)) {
		return p.known, p.failed
	}
	p.issuer = issuer
	p.known, p.failed = p.discover(issuer)
	p.next = p.now().Add(providerAgain)
	return p.known, p.failed
}

func (p *Provider) discover(issuer string) (*keys, error) {
	server, err := oidc.NewProvider(asking(p.direct), issuer)
	if err != nil {
		return nil, err
	}
	var says struct {
		Keys string `json:"jwks_uri"`
	}
	if err := server.Claims(&says); err != nil {
		return nil, err
	}
	k := &keys{ask: p.direct, now: p.now}
	k.set = oidc.NewRemoteKeySet(asking(k), says.Keys)
	return k, nil
}

// asking holds the client for one kind of request. It is not the context of a request: what is learned is for the next ones, too.
func asking(through http.RoundTripper) context.Context {
	return oidc.ClientContext(context.Background(), &http.Client{
		Transport: through, Timeout: providerWithin,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
}

// keys are those of one issuer. They are looked for again for every token that names an unknown one, so they are asked for
// once in a while.
type keys struct {
	set *oidc.RemoteKeySet
	ask http.RoundTripper
	now func() time.Time

	mu     sync.Mutex // guards the fields below
	last   time.Time
	failed error // why the last look did not bring them
}

// RoundTrip refuses to look again a moment after the last look.
func (k *keys) RoundTrip(r *http.Request) (*http.Response, error) {
	now := k.now()
	k.mu.Lock()
	soon := now.Before(k.last.Add(providerAgain))
	if !soon {
		k.last = now
	}
	k.mu.Unlock()
	if soon {
		return nil, errors.New("it was asked a moment ago")
	}
	answer, err := k.ask.RoundTrip(r)
	failed := err
	if err == nil && answer.StatusCode != http.StatusOK {
		failed = errors.New("it answers " + upStatus(answer.StatusCode))
	}
	k.mu.Lock()
	k.failed = failed
	k.mu.Unlock()
	return answer, err
}

// look is the keys for one token.
type look struct {
	*keys
	missed error // why the key that signed the token may be one that was not found
}

// VerifySignature gives what was signed.
func (l *look) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	signed, err := l.set.VerifySignature(ctx, token)
	if err != nil {
		l.mu.Lock()
		l.missed = l.failed
		l.mu.Unlock()
	}
	return signed, err
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
