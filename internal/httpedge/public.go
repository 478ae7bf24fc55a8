package httpedge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"mcpx/internal/auth"
	"mcpx/internal/fault"
	"mcpx/internal/key"
)

// Authority decides about access over OAuth. An *auth.Denial is an answer for the client; every other error is ours.
type Authority interface {
	RegisterClient(ctx context.Context, name string, redirects []string) (auth.Client, error)
	AskConsent(ctx context.Context, a auth.Ask) (q auth.Consent, cookie string, err error)
	FindConsent(ctx context.Context, request, cookie string) (auth.Consent, error)
	AnswerConsent(ctx context.Context, in auth.Typed) (q auth.Consent, code string, err error)
	RedeemCode(ctx context.Context, in auth.Redemption, resources []string) (auth.Delegation, auth.Pair, error)
	RefreshAccess(ctx context.Context, token, client string, resources []string) (auth.Delegation, auth.Pair, error)
	EndAccess(ctx context.Context, token string) error
	// AdmitRemote fails with Unauthenticated for a token that opens nothing.
	AdmitRemote(ctx context.Context, token string) (auth.Delegation, error)
	// AccessTaken says whether access was taken away while a call was made: remote access is not the one that was on since then,
	// or the delegation was revoked. A token that only ran out was good for the call.
	AccessTaken(ctx context.Context, d auth.Delegation, since time.Time) bool
	// Refused tells of a request that nobody else was asked about, and gives the refusal back.
	Refused(ctx context.Context, d *auth.Denial) error
	// TokenInAddress is the Unauthenticated for a client that put its token into an address.
	TokenInAddress(ctx context.Context) error
}

// PublicConfig is what the listener for other machines needs. Everything is required.
type PublicConfig struct {
	Authority Authority
	// MCP serves what is at auth.RemotePath; Admitted says there on whose behalf a request is made.
	MCP http.Handler
	// Foreign hears of a Host or an Origin that was refused.
	Foreign func(ctx context.Context, origin string)
	Now     func() time.Time
	Log     *slog.Logger
}

// The endpoints. Those without a directory are where clients of 2025-03-26 look without metadata.
const (
	pathAuthorize  = "/authorize"
	pathToken      = "/token"
	pathRegister   = "/register"
	pathRevoke     = "/revoke"
	pathResource   = "/.well-known/oauth-protected-resource"   // RFC 9728
	pathServer     = "/.well-known/oauth-authorization-server" // RFC 8414
	pathServerOIDC = "/.well-known/openid-configuration"
)

// Bounds of what comes from other machines.
const (
	maxForm       = 16 << 10 // bytes of a form or of a registration
	answerHeaders = 10 * time.Second
	answerForms   = 30 * time.Second // a request without access, from its headers to the end of its answer
	answerCalls   = 5 * time.Minute  // a call at /mcp, which may bring and get much
	mostAtOnce    = 256              // connections; one more waits
)

// Public serves clients of other machines: /mcp to those who have access, and what they need to get it. Everything else is
// not there.
type Public struct {
	cfg  PublicConfig
	base string // without a slash at its end
	// issuer gives the tokens: base, or an authorization server that is not ours.
	issuer string
	host   string
	since  time.Time // remote access is on
	http   *http.Server
}

// NewPublic makes the server for one public address.
func NewPublic(c PublicConfig, remote auth.Remote) (*Public, error) {
	if c.Authority == nil || c.MCP == nil || c.Foreign == nil || c.Now == nil || c.Log == nil {
		return nil, errors.New("httpedge: every field of PublicConfig is required")
	}
	u, err := url.Parse(remote.URL)
	if err != nil || u.Host == "" {
		return nil, errors.New("httpedge: the public address is no URL")
	}
	p := &Public{cfg: c, since: remote.Since, base: remote.URL, issuer: cmp.Or(remote.Issuer, remote.URL), host: u.Host}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathResource, p.resource)
	mux.HandleFunc("GET "+pathResource+auth.RemotePath, p.resource)
	if p.issuer == p.base {
		mux.HandleFunc("GET "+pathServer, p.server)
		mux.HandleFunc("GET "+pathServerOIDC, p.server)
		mux.HandleFunc("POST "+pathRegister, p.register)
		mux.HandleFunc("GET "+pathAuthorize, p.ask)
		mux.HandleFunc("HEAD "+pathAuthorize, func(http.ResponseWriter, *http.Request) {}) // whoever looks at a link asks nothing
		mux.HandleFunc("POST "+pathAuthorize, p.typed)
		mux.HandleFunc("POST "+pathToken, p.token)
		mux.HandleFunc("POST "+pathRevoke, p.revoke)
	}
	mux.HandleFunc(auth.RemotePath, p.mcp)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not found", http.StatusNotFound) })
	p.http = &http.Server{
		Handler: p.guard(mux), ReadHeaderTimeout: answerHeaders, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return p, nil
}

// Serve accepts connections until Stop; any other end is an error.
func (p *Public) Serve(l net.Listener) error {
	if err := p.http.Serve(netutil.LimitListener(l, mostAtOnce)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Stop closes the listener, waits for the requests in work until ctx is done, then cuts what is left.
func (p *Public) Stop(ctx context.Context) {
	if err := p.http.Shutdown(ctx); err != nil {
		_ = p.http.Close() // as for the loopback listener
	}
}

// guard lets only requests through that are for the public address: a page whose name leads here is another one.
func (p *Public) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		within(w, answerForms)
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		if !strings.EqualFold(r.Host, p.host) {
			p.cfg.Foreign(r.Context(), r.Host)
			http.Error(w, "this is not the address of mcpx", http.StatusForbidden)
			return
		}
		for _, origin := range r.Header.Values("Origin") {
			if origin != p.base {
				p.cfg.Foreign(r.Context(), origin)
				http.Error(w, "pages of other addresses are not let in", http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// admittedKey is the context key of the delegation on whose behalf a request is made.
type admittedKey struct{}

// Admitted is the access with which a request came in over the public address; false: it came another way.
func Admitted(ctx context.Context) (auth.Delegation, bool) {
	d, ok := ctx.Value(admittedKey{}).(auth.Delegation)
	return d, ok
}

// mcp serves who has access, and tells everybody else how to get it (RFC 9728 section 5.1).
func (p *Public) mcp(w http.ResponseWriter, r *http.Request) {
	bearer, ok := auth.Bearer(r.Header.Get("Authorization"))
	var (
		d   auth.Delegation
		err error
	)
	switch {
	case r.URL.Query().Has("access_token"): // also beside one in the header (RFC 6750 section 2)
		err = p.cfg.Authority.TokenInAddress(r.Context())
	case ok:
		d, err = p.cfg.Authority.AdmitRemote(r.Context(), bearer)
	}
	switch {
	case ok && err == nil:
		within(w, answerCalls)
		p.cfg.MCP.ServeHTTP(&lateAnswer{ResponseWriter: w, before: w.Header().Clone(), over: func() bool {
			return p.cfg.Authority.AccessTaken(r.Context(), d, p.since)
		}, refuse: func() { p.challenge(w, true) }}, r.WithContext(context.WithValue(r.Context(), admittedKey{}, d)))
	case err == nil || fault.KindOf(err) == fault.Unauthenticated:
		p.challenge(w, ok)
	default:
		p.fail(w, r, err)
	}
}

// challenge tells who has no access how to get it.
func (p *Public) challenge(w http.ResponseWriter, invalid bool) {
	challenge := `Bearer resource_metadata="` + p.base + pathResource + auth.RemotePath + `", scope="` + auth.JoinScopes(auth.RemoteScopes()) + `"`
	if invalid {
		challenge += `, error="invalid_token"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	http.Error(w, "access is given by "+p.issuer, http.StatusUnauthorized)
}

// lateAnswer looks again before an answer leaves: a call can wait a while, and its client may have lost its access meanwhile.
type lateAnswer struct {
	http.ResponseWriter
	before http.Header // what every answer has
	over   func() bool
	refuse func()

	begun, refused bool
}

// WriteHeader writes the status, or the refusal in place of the answer.
func (a *lateAnswer) WriteHeader(status int) {
	if a.begun {
		return
	}
	a.begun = true
	if a.refused = a.over(); a.refused {
		clear(a.Header())
		maps.Copy(a.Header(), a.before)
		a.refuse()
		return
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the answer, which goes nowhere when it was refused.
func (a *lateAnswer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.refused {
		return len(b), nil
	}
	return a.ResponseWriter.Write(b)
}

// resourceMetadata is RFC 9728.
type resourceMetadata struct {
	Resource string       `json:"resource"`
	Servers  []string     `json:"authorization_servers"`
	Scopes   []auth.Scope `json:"scopes_supported"`
	Methods  []string     `json:"bearer_methods_supported"`
	Name     string       `json:"resource_name"`
}

func (p *Public) resource(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, resourceMetadata{p.base + auth.RemotePath, []string{p.issuer}, auth.RemoteScopes(), []string{"header"}, "mcpx"})
}

// serverMetadata is RFC 8414.
type serverMetadata struct {
	Issuer        string       `json:"issuer"`
	Authorize     string       `json:"authorization_endpoint"`
	Token         string       `json:"token_endpoint"`
	Register      string       `json:"registration_endpoint"`
	Revoke        string       `json:"revocation_endpoint"`
	Scopes        []auth.Scope `json:"scopes_supported"`
	Responses     []string     `json:"response_types_supported"`
	Modes         []string     `json:"response_modes_supported"`
	Grants        []string     `json:"grant_types_supported"`
	TokenMethods  []string     `json:"token_endpoint_auth_methods_supported"`
	RevokeMethods []string     `json:"revocation_endpoint_auth_methods_supported"`
	Challenges    []string     `json:"code_challenge_methods_supported"`
	Iss           bool         `json:"authorization_response_iss_parameter_supported"` // RFC 9207
	Documents     bool         `json:"client_id_metadata_document_supported"`
}

func (p *Public) server(w http.ResponseWriter, _ *http.Request) {
	none := []string{"none"}
	answer(w, http.StatusOK, serverMetadata{
		Issuer: p.base, Authorize: p.base + pathAuthorize, Token: p.base + pathToken, Register: p.base + pathRegister, Revoke: p.base + pathRevoke,
		Scopes: auth.RemoteScopes(), Responses: []string{"code"}, Modes: []string{"query"}, Grants: []string{"authorization_code", "refresh_token"},
		TokenMethods: none, RevokeMethods: none, Challenges: []string{"S256"}, Iss: true, Documents: true,
	})
}

// registration is RFC 7591, both ways. What else a client says of itself is not used.
type registration struct {
	ID        string   `json:"client_id,omitempty"`
	IssuedAt  int64    `json:"client_id_issued_at,omitempty"` // seconds since 1970
	Name      string   `json:"client_name,omitempty"`
	Redirects []string `json:"redirect_uris"`
	Method    string   `json:"token_endpoint_auth_method,omitempty"`
	Grants    []string `json:"grant_types,omitempty"`
	Responses []string `json:"response_types,omitempty"`
}

func (p *Public) register(w http.ResponseWriter, r *http.Request) {
	var in registration
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxForm)).Decode(&in); err != nil {
		p.fail(w, r, p.cfg.Authority.Refused(r.Context(), &auth.Denial{Code: auth.InvalidMetadata, Text: "the body is no JSON of at most 16 KB"}))
		return
	}
	c, err := p.cfg.Authority.RegisterClient(r.Context(), in.Name, in.Redirects)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	answer(w, http.StatusCreated, registration{
		ID: c.ID, IssuedAt: p.cfg.Now().Unix(), Name: c.Name, Redirects: c.Redirects, Method: "none",
		Grants: []string{"authorization_code", "refresh_token"}, Responses: []string{"code"},
	})
}

// within bounds how long a request may take from now on, both ways: whoever says nothing, or reads nothing, is let go.
func within(w http.ResponseWriter, d time.Duration) {
	c, until := http.NewResponseController(w), time.Now().Add(d)
	_, _ = c.SetReadDeadline(until), c.SetWriteDeadline(until) // a writer that cannot has other bounds
}

// form reads the form in the body of a request. What is in the query of a URL does not count: addresses are logged.
func (p *Public) form(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/x-www-form-urlencoded" {
		return nil, p.invalid(r, "the body is no form")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	if err != nil {
		return nil, p.invalid(r, "the form has more than 16 KB, or ended early")
	}
	return p.parameters(r, string(body))
}

// parameters reads what a form or the query of an address says. A parameter that is there twice is refused (RFC 6749 section
// 3.1), but for resource, of which there may be several.
func (p *Public) parameters(r *http.Request, text string) (url.Values, error) {
	all, err := url.ParseQuery(text)
	if err != nil {
		return nil, p.invalid(r, "the parameters cannot be read")
	}
	for name, values := range all {
		if len(values) > 1 && name != "resource" {
			return nil, p.invalid(r, "a parameter is there more than once")
		}
	}
	return all, nil
}

// invalid refuses a request that cannot be understood.
func (p *Public) invalid(r *http.Request, text string) error {
	return p.cfg.Authority.Refused(r.Context(), &auth.Denial{Code: auth.InvalidRequest, Text: text})
}

// tokenAnswer is RFC 6749 section 5.1.
type tokenAnswer struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Expires int    `json:"expires_in"` // seconds
	Refresh string `json:"refresh_token"`
	Scope   string `json:"scope"`
}

func (p *Public) token(w http.ResponseWriter, r *http.Request) {
	form, err := p.form(w, r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	var (
		d    auth.Delegation
		pair auth.Pair
	)
	switch form.Get("grant_type") {
	case "authorization_code":
		d, pair, err = p.cfg.Authority.RedeemCode(r.Context(), auth.Redemption{
			Code: form.Get("code"), Client: form.Get("client_id"), Redirect: form.Get("redirect_uri"), Verifier: form.Get("code_verifier"),
		}, form["resource"])
	case "refresh_token":
		d, pair, err = p.cfg.Authority.RefreshAccess(r.Context(), form.Get("refresh_token"), form.Get("client_id"), form["resource"])
	default:
		err = &auth.Denial{Code: auth.UnsupportedGrantType, Text: "grant_type is authorization_code or refresh_token"}
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	answer(w, http.StatusOK, tokenAnswer{pair.Access.Reveal(), "Bearer", int(auth.AccessLife / time.Second), pair.Refresh.Reveal(), auth.JoinScopes(d.Scopes)})
}

// revoke is RFC 7009: what is not known has ended, and that is no error.
func (p *Public) revoke(w http.ResponseWriter, r *http.Request) {
	form, err := p.form(w, r)
	if err == nil {
		err = p.cfg.Authority.EndAccess(r.Context(), form.Get("token"))
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// denialStatus has the codes of denials that are no bad request.
var denialStatus = map[auth.DenialCode]int{auth.InvalidClient: http.StatusUnauthorized, auth.TemporarilyUnavailable: http.StatusServiceUnavailable}

// fail answers a client with an error (RFC 6749 section 5.2).
func (p *Public) fail(w http.ResponseWriter, r *http.Request, err error) {
	if d, ok := errors.AsType[*auth.Denial](err); ok {
		answer(w, cmp.Or(denialStatus[d.Code], http.StatusBadRequest), struct {
			Error string `json:"error"`
			Text  string `json:"error_description"`
		}{string(d.Code), d.Text})
		return
	}
	if fault.KindOf(err) == fault.Unavailable {
		http.Error(w, fault.From(err).Message, http.StatusServiceUnavailable)
		return
	}
	p.cfg.Log.LogAttrs(r.Context(), slog.LevelError, "a request of another machine failed", slog.Any(key.Cause, err))
	answer(w, http.StatusInternalServerError, struct {
		Error string `json:"error"`
	}{"server_error"})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that left needs no answer
}
