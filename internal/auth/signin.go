package auth

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"mcpx/internal/fault"
)

// SignInState says how we stand with a server behind a URL that wants somebody to sign in.
type SignInState string

// The states. "" is a server that has not asked.
const (
	SignInNeeded SignInState = "needed"    // it asks, and nobody has signed in
	SignedIn     SignInState = "signed_in" // requests carry a token
	SignInEnded  SignInState = "expired"   // the token counts no more, and no other one can be got without a person
)

// ClientKind says how a client came to its id at an authorization server.
type ClientKind string

// The kinds.
const (
	ClientDocument   ClientKind = "document"   // the id is the URL of a document about the client
	ClientGiven      ClientKind = "given"      // somebody registered it by hand
	ClientRegistered ClientKind = "registered" // it registered itself (RFC 7591)
)

// SignIn is what is known of a sign-in. It never holds a token.
type SignIn struct {
	State    SignInState `json:"state"`
	Issuer   string      `json:"issuer,omitempty"` // the authorization server
	Resource string      `json:"resource,omitempty"`
	Client   string      `json:"client_id,omitempty"`
	Kind     ClientKind  `json:"client,omitempty"`
	Machine  bool        `json:"machine,omitempty"` // the client itself is signed in, no person
	Scopes   []string    `json:"scopes,omitempty"`
	Lacks    []string    `json:"lacks,omitempty"` // scopes that the server asked for meanwhile
	Since    time.Time   `json:"since,omitzero"`
	Until    time.Time   `json:"until,omitzero"`   // of the token in use; zero: not known
	Renews   bool        `json:"renews,omitempty"` // it is renewed without a person
	Text     string      `json:"text,omitempty"`   // why it is needed or has ended
}

// LogIn is what a person says about a sign-in. Everything may be empty.
type LogIn struct {
	Client  string        // id of a client that is registered, or URL of its document
	Secret  string        // reference of its secret
	Key     string        // reference of its private key (PEM), in place of a secret
	Machine bool          // the client signs in for itself
	Scopes  []string      // in place of those that the server names
	Port    int           // of the loopback address that the browser is sent back to
	Within  time.Duration // 0: SignInWithin
}

// SignInWithin is how long a person has to sign in, and MaxSignInWithin how long at most.
const (
	SignInWithin    = 5 * time.Minute
	MaxSignInWithin = time.Hour
)

// Check says what is wrong with the wishes of a person.
func (in LogIn) Check() error {
	e := fault.New(fault.Invalid, "sign-in-invalid").Retrying(fault.AfterFix)
	switch {
	case (in.Secret != "" || in.Key != "") && in.Client == "":
		return e.Saying("a secret or key belongs to a client, and no client is named").Hinting("name it with --client-id ID")
	case in.Secret != "" && in.Key != "":
		return e.Saying("a client proves itself with a secret or with a key, not with both").Hinting("leave one of them out")
	case in.Machine && in.Secret == "" && in.Key == "":
		return e.Saying("a client that signs in for itself needs a secret or a key").Hinting("add --client-secret-from REF or --client-key-from REF")
	case in.Port < 0 || in.Port > 65535:
		return e.Saying("%d is no port", in.Port)
	case in.Within < 0 || in.Within > MaxSignInWithin:
		return e.Saying("a sign-in takes at most %s", MaxSignInWithin).Hinting("give it less with --timeout")
	case slices.ContainsFunc(in.Scopes, func(s string) bool { return !isScope(s) }):
		return e.Saying("a scope has printable characters, and no space, quote or backslash").Hinting("repeat --scope for each of them")
	}
	return nil
}

// isScope is the rule of RFC 6749 section 3.3.
func isScope(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}

// IsDocumentID says whether the id of a client is the URL of its document.
func IsDocumentID(client string) bool {
	u, err := url.Parse(client)
	return err == nil && u.Scheme == "https" && u.Host != "" && strings.Trim(u.Path, "/") != ""
}

// Scopes joins lists of scopes, each scope once, in the order in which they come. What is no scope is left out.
func Scopes(lists ...[]string) []string {
	var all []string
	for _, list := range lists {
		for _, s := range list {
			if isScope(s) && !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// CheckIssuer compares the issuer in the answer of an authorization server with the one that was asked (RFC 9207), byte by
// byte. Without it the code of one server could be sent to the token endpoint of another.
func CheckIssuer(got, want string, announced bool) error {
	switch {
	case got == want, got == "" && !announced:
		return nil
	case got == "":
		return SignInRefused("the answer does not say which server it is from, although %s promises that", want)
	}
	return SignInRefused("the answer is from another server than the one that was asked, %s", want)
}

// CheckProtected says whether what a document calls the protected resource is the server at the URL: that URL, or one above
// it. A document about something else would get a token for something else.
func CheckProtected(named, server string) error {
	r, err := url.Parse(named)
	s, err2 := url.Parse(server)
	if err != nil || err2 != nil || named == "" {
		return SignInRefused("the document about the server does not say what it is about")
	}
	path := strings.TrimSuffix(r.Path, "/")
	same := strings.EqualFold(r.Scheme, s.Scheme) && strings.EqualFold(r.Host, s.Host) && r.Fragment == "" && (r.RawQuery == "" || r.RawQuery == s.RawQuery)
	if !same || s.Path != path && !strings.HasPrefix(s.Path, path+"/") {
		return SignInRefused("the document about the server is about %s", RedactedURL(named))
	}
	return nil
}

// RedactedURL is a URL without what may be secret in it.
func RedactedURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "an address that cannot be read"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// CheckChallenges wants the PKCE that we do (S256) among those that an authorization server says it does.
func CheckChallenges(methods []string) error {
	if slices.Contains(methods, "S256") {
		return nil
	}
	return SignInRefused("the authorization server does not do PKCE with S256, without which a stolen code is worth something")
}

// TokenMethod is how a client proves itself at a token endpoint that does what is listed; "" lists nothing.
func TokenMethod(supported []string, hasSecret bool) string {
	switch {
	case !hasSecret:
		return MethodNone
	case slices.Contains(supported, MethodPost) && !slices.Contains(supported, MethodBasic):
		return MethodPost
	}
	return MethodBasic
}

// The ways in which a client proves itself at a token endpoint.
const (
	MethodNone  = "none"
	MethodBasic = "client_secret_basic"
	MethodPost  = "client_secret_post"
	MethodKey   = "private_key_jwt"
)

// Network is where a person said that a server is, by the spelling of its URL: no name is looked up, because whoever owns a
// name decides where it leads.
type Network struct {
	Host     string
	Loopback bool
}

// Allows says whether a sign-in at a server in the network may connect to an address that a name stands for. It may go to
// the open network; to this machine only for a server on this machine; and elsewhere only to the host of the server.
func (n Network) Allows(host string, to netip.Addr) bool {
	to = to.Unmap()
	switch {
	case Outside(to):
		return true
	case to.IsLoopback():
		return n.Loopback
	case to.IsLinkLocalUnicast(), to.IsMulticast(), to.IsUnspecified():
		return false
	}
	return strings.EqualFold(host, n.Host)
}

// SignInRefused is the error of an authorization server, or a document about one, that cannot be trusted.
func SignInRefused(format string, args ...any) *fault.Error {
	return fault.New(fault.Denied, "sign-in-refused").Saying(format, args...).
		Hinting("nobody was signed in; ask whoever runs the server").Retrying(fault.AfterFix)
}

// NeedsSignIn is the error of a call to a server that wants somebody to sign in first. Why may be empty.
func NeedsSignIn(server, why string) *fault.Error {
	if why == "" {
		why = "nobody has signed in"
	}
	return fault.New(fault.Unauthenticated, "sign-in-needed").Saying("sign-in needed: %s", why).
		Hinting("a person runs `mcpx server login %s`", server).Retrying(fault.AfterFix)
}

// CheckURL says whether an address in a document can be used at all: https, or http on this machine for a server on this
// machine, with a host and without a password.
func (n Network) CheckURL(raw string) error {
	u, err := url.Parse(raw)
	loopback := func() bool {
		a, err := netip.ParseAddr(u.Hostname())
		return strings.EqualFold(u.Hostname(), "localhost") || err == nil && a.Unmap().IsLoopback()
	}
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil:
		return SignInRefused("an address that the server names cannot be read")
	case u.Scheme != "https" && u.Scheme != "http":
		return SignInRefused("an address that the server names is neither https nor http")
	case loopback() && !n.Loopback:
		return SignInRefused("an address that the server names, %s, is on this machine, and the server is not", RedactedURL(raw))
	case u.Scheme == "http" && !loopback():
		return SignInRefused("an address that the server names, %s, is not https", RedactedURL(raw))
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && !n.Allows(u.Hostname(), a) {
		return SignInRefused("an address that the server names, %s, is not in the open network", RedactedURL(raw))
	}
	return nil
}
