package httpedge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/era"
	"mcpx/internal/fault"
	"mcpx/internal/rpc"
)

const (
	// signInAnswer bounds one request of a sign-in.
	signInAnswer = 20 * time.Second
	// signInBody bounds what is read of an answer.
	signInBody = 256 << 10
)

// placeOf is where the person said that the server is.
func placeOf(server catalog.Server) auth.Network {
	u, err := url.Parse(server.HTTP.URL)
	if err != nil {
		return auth.Network{} // Allows only the open network then
	}
	return auth.Network{Host: u.Hostname(), Loopback: catalog.IsLoopback(u.Hostname())}
}

// client makes the client for the requests of one sign-in. Where documents lead is decided by strangers, so it goes only
// where the person's own server gives a reason to go, and follows redirects only for documents inside one origin.
func (s *SignIns) client(server catalog.Server) *http.Client {
	near := placeOf(server)
	direct := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			dialer := &net.Dialer{Timeout: upDialWait, Control: func(_, address string, _ syscall.RawConn) error {
				to, err := netip.ParseAddrPort(address) // after the name was looked up: what is dialled is what is checked
				if err != nil || !near.Allows(host, to.Addr()) {
					return astray(host + " leads to " + address + ", where a sign-in at this server may not go")
				}
				return nil
			}}
			return dialer.DialContext(ctx, network, address)
		},
		TLSHandshakeTimeout: upTLSWait, DisableKeepAlives: true, MaxResponseHeaderBytes: upMaxHeader, ForceAttemptHTTP2: true,
	}
	proxied := &http.Transport{Proxy: s.cfg.Proxy, TLSHandshakeTimeout: upTLSWait, DisableKeepAlives: true, MaxResponseHeaderBytes: upMaxHeader}
	return &http.Client{
		Timeout:   signInAnswer,
		Transport: &signInTransport{near: near, direct: direct, proxied: proxied, proxy: s.cfg.Proxy, agent: "mcpx/" + s.cfg.Version},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if via[0].Method != http.MethodGet || len(via) > upMaxRedirects || !upSameOrigin(next.URL, via[0].URL) || next.URL.User != nil {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
}

// signInTransport checks the address of each request. A proxy looks names up itself, so behind one only the spelling can be
// checked.
type signInTransport struct {
	near            auth.Network
	direct, proxied *http.Transport
	proxy           func(*http.Request) (*url.URL, error)
	agent           string
	last            error // why the last request got no answer; one client asks one thing at a time
}

func (t *signInTransport) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	defer func() { t.last = err }()
	r = r.Clone(r.Context()) // a RoundTripper leaves what it was given
	r.Header.Set("User-Agent", t.agent)
	if by, err := t.proxy(r); err != nil || by == nil {
		return t.direct.RoundTrip(r)
	}
	if to, err := netip.ParseAddr(r.URL.Hostname()); err == nil && !t.near.Allows(r.URL.Hostname(), to) {
		return nil, astray("a sign-in at this server may not go to " + r.URL.Host)
	}
	return t.proxied.RoundTrip(r)
}

// astray is why a request was not sent.
type astray string

func (a astray) Error() string { return string(a) }

// notReached is why the last request of a client got no answer, although it may be sent; nil: it got one. The transport says
// it: the error of who asked through it may be about what the answer says.
func notReached(client *http.Client) error {
	t, ok := client.Transport.(*signInTransport)
	if !ok {
		return nil
	}
	if _, refused := errors.AsType[astray](t.last); refused {
		return nil
	}
	return t.last
}

// cannotReach is the error for it.
func cannotReach(what string, err error) error {
	return fault.New(fault.Unavailable, "upstream-unreachable").Saying("%s cannot be reached: %s", what, plainCause(err)).
		Hinting("check that it runs, and the URL of the entry").Retrying(fault.AfterWait)
}

// discovered is what a server and the authorization server that it names say.
type discovered struct {
	resource string
	scopes   []string // that the server names
	as       *oauthex.AuthServerMeta
}

// discover finds who gives tokens for a server: from its 401 to the document about it (RFC 9728) to that of the
// authorization server (RFC 8414, OpenID Connect). Nil: the server asks for no sign-in.
func (s *SignIns) discover(ctx context.Context, client *http.Client, server catalog.Server, asks *challenge) (*discovered, error) {
	asked := asks != nil
	if !asked {
		var err error
		if asks, err = s.ask(ctx, client, server); err != nil {
			return nil, err
		}
		asked = asks != nil
	}
	if asks == nil {
		asks = &challenge{}
	}
	doc, err := s.resourceDocument(ctx, client, server, asks.metadata)
	if err != nil {
		return nil, err
	}
	if doc == nil && !asked {
		return nil, nil
	}
	out := &discovered{resource: server.HTTP.URL, scopes: asks.scopes}
	issuer := originOf(server.HTTP.URL) // 2025-03-26: the server is its own authorization server
	if doc != nil {
		if len(doc.AuthorizationServers) == 0 {
			return nil, auth.SignInRefused("the document about the server names no authorization server")
		}
		out.resource, issuer = doc.Resource, doc.AuthorizationServers[0]
		if out.scopes == nil {
			out.scopes = auth.Scopes(doc.ScopesSupported)
		}
	}
	if out.as, err = s.issuer(ctx, client, server, issuer); err != nil {
		return nil, err
	}
	return out, nil
}

// issuer reads what an authorization server says of itself. One without a document gets the addresses of 2025-03-26.
func (s *SignIns) issuer(ctx context.Context, client *http.Client, server catalog.Server, issuer string) (*oauthex.AuthServerMeta, error) {
	near := placeOf(server)
	if err := near.CheckURL(issuer); err != nil {
		return nil, err
	}
	as, err := sdkauth.GetAuthServerMetadata(ctx, issuer, client)
	down := notReached(client)
	switch {
	case err != nil && down != nil:
		return nil, cannotReach("the authorization server "+auth.RedactedURL(issuer), down)
	case err != nil:
		return nil, auth.SignInRefused("the authorization server %s cannot be used: %s", auth.RedactedURL(issuer), plainCause(err))
	case as == nil:
		base := strings.TrimSuffix(issuer, "/")
		as = &oauthex.AuthServerMeta{Issuer: issuer, AuthorizationEndpoint: base + "/authorize", TokenEndpoint: base + "/token", RegistrationEndpoint: base + "/register"}
	default:
		if err := auth.CheckChallenges(as.CodeChallengeMethodsSupported); err != nil {
			return nil, err
		}
	}
	for name, address := range map[string]string{
		"authorization_endpoint": as.AuthorizationEndpoint, "token_endpoint": as.TokenEndpoint, "registration_endpoint": as.RegistrationEndpoint,
		"revocation_endpoint": as.RevocationEndpoint,
	} {
		if address == "" && (name == "registration_endpoint" || name == "revocation_endpoint") {
			continue
		}
		if near.CheckURL(address) != nil {
			return nil, auth.SignInRefused("the authorization server %s names a %s that cannot be used", auth.RedactedURL(issuer), name)
		}
	}
	return as, nil
}

// ask sends a request without a token and gives what the server wants, nil when it wants nothing.
func (s *SignIns) ask(ctx context.Context, client *http.Client, server catalog.Server) (*challenge, error) {
	body := rpc.RequestMessage([]byte("1"), "server/discover", fmt.Appendf(nil,
		`{"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientInfo":{"name":"mcpx","version":%q},"io.modelcontextprotocol/clientCapabilities":{}}}`,
		era.V20260728, s.cfg.Version))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.HTTP.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fault.New(fault.Invalid, "url-invalid").Saying("the URL of server %s cannot be read", server.Name)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", era.V20260728)
	r.Header.Set("Mcp-Method", "server/discover")
	answer, err := client.Do(r)
	if err != nil {
		return nil, cannotReach("server "+server.Name, err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized {
		return nil, nil
	}
	asks := readChallenge(answer.Header)
	return &asks, nil
}

// resourceDocument reads the document about a server: where its 401 says, else at the two well-known places. Nil: there is
// none. The first one that is there counts: a wrong one is not passed over for another.
func (s *SignIns) resourceDocument(ctx context.Context, client *http.Client, server catalog.Server, said string) (*oauthex.ProtectedResourceMetadata, error) {
	u, err := url.Parse(server.HTTP.URL)
	if err != nil {
		return nil, fault.New(fault.Invalid, "url-invalid").Saying("the URL of server %s cannot be read", server.Name)
	}
	const known = "/.well-known/oauth-protected-resource"
	at := func(path string) string {
		return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: path, RawQuery: u.RawQuery}).String()
	}
	places := []string{at(known + strings.TrimSuffix(u.Path, "/")), at(known)}
	if said != "" {
		if err := placeOf(server).CheckURL(said); err != nil {
			return nil, err
		}
		places = slices.Insert(places, 0, said)
	}
	for _, place := range slices.Compact(places) {
		doc, err := readDocument(ctx, client, place)
		if down := notReached(client); err != nil && down != nil {
			what := "server " + server.Name
			if originOf(place) != originOf(server.HTTP.URL) {
				what = "the document about server " + server.Name + " at " + auth.RedactedURL(place)
			}
			return nil, cannotReach(what, down)
		}
		if err != nil {
			return nil, auth.SignInRefused("the document about the server at %s cannot be used: %s", auth.RedactedURL(place), plainCause(err))
		}
		if doc == nil {
			continue
		}
		return doc, auth.CheckProtected(doc.Resource, server.HTTP.URL)
	}
	return nil, nil
}

// readDocument reads the document about a protected resource; nil when there is none.
func readDocument(ctx context.Context, client *http.Client, place string) (*oauthex.ProtectedResourceMetadata, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	switch {
	case answer.StatusCode/100 == 4:
		return nil, nil
	case answer.StatusCode != http.StatusOK:
		return nil, errors.New("it answers " + upStatus(answer.StatusCode))
	case kind != "application/json":
		return nil, nil // servers of single-page applications answer every path with a page
	}
	var doc oauthex.ProtectedResourceMetadata
	if err := json.NewDecoder(io.LimitReader(answer.Body, signInBody)).Decode(&doc); err != nil {
		return nil, errors.New("it is no JSON object as in RFC 9728")
	}
	return &doc, nil
}

// register makes a client known to an authorization server.
func (s *SignIns) register(ctx context.Context, client *http.Client, as *oauthex.AuthServerMeta, redirect string) (clientAs, error) {
	if as.RegistrationEndpoint == "" {
		return clientAs{}, auth.SignInRefused("the authorization server %s knows no clients but those that somebody registered", auth.RedactedURL(as.Issuer)).
			Hinting("register mcpx there with the redirect address http://127.0.0.1:PORT/callback, then add --client-id ID --port PORT")
	}
	wish := &oauthex.ClientRegistrationMetadata{
		ClientName: "mcpx", RedirectURIs: []string{redirect}, ApplicationType: "native",
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
	}
	if slices.Contains(as.TokenEndpointAuthMethodsSupported, auth.MethodNone) {
		wish.TokenEndpointAuthMethod = auth.MethodNone // a program on the machine of a person keeps no secret better than a refresh token
	}
	got, err := oauthex.RegisterClient(ctx, as.RegistrationEndpoint, wish, client)
	if refused, ok := errors.AsType[*oauthex.ClientRegistrationError](err); ok {
		return clientAs{}, auth.SignInRefused("the authorization server did not register mcpx: %s", plainText(refused.ErrorCode, upMaxQuote)).
			Hinting("register mcpx there by hand, then add --client-id ID")
	}
	if err != nil {
		// Not the text of the error: it quotes the answer, which may hold a secret.
		return clientAs{}, fault.New(fault.Unavailable, "sign-in-failed").Saying("mcpx could not be registered at %s", auth.RedactedURL(as.RegistrationEndpoint)).
			Hinting("try again, or register it there by hand and add --client-id ID").Retrying(fault.AfterWait)
	}
	r := clientAs{ID: got.ClientID, Kind: auth.ClientRegistered, Secret: got.ClientSecret, Redirect: redirect, Method: got.TokenEndpointAuthMethod}
	switch r.Method {
	case auth.MethodNone, auth.MethodBasic, auth.MethodPost:
	default:
		r.Method = auth.TokenMethod(as.TokenEndpointAuthMethodsSupported, r.Secret != "")
	}
	if r.Secret == "" {
		r.Method = auth.MethodNone
	}
	s.cfg.Store.Hide(r.Secret)
	return r, nil
}

func originOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}
