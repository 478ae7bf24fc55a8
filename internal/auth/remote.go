package auth

import (
	"net/url"
	"path"
	"strings"
	"time"

	"mcpx/internal/fault"
)

// Remote says how clients that are not on this machine reach it. The zero value: not at all.
type Remote struct {
	On bool `json:"on"`
	// URL is what such clients know: scheme, host and port, without a path. It is the issuer of tokens (RFC 8414).
	URL string `json:"url,omitempty"`
	// Address is where the listener is: that of a proxy's or a tunnel's end, or with a certificate of the network.
	Address string `json:"address,omitempty"`
	// Certificate and Key are PEM files; "" what is in front of the listener has them.
	Certificate string `json:"certificate,omitempty"`
	Key         string `json:"key,omitempty"`
	// Issuer is an authorization server that gives the tokens in our place, and Subject whom it knows the person as; "" we do.
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"`
	// Since is when remote access was turned on.
	Since time.Time `json:"since,omitzero"`
}

// DefaultRemoteAddress is where the listener for other machines is when nobody says: the end of a tunnel reaches it.
const DefaultRemoteAddress = "127.0.0.1:9090"

// RemotePath is the path of what is served.
const RemotePath = "/mcp"

// Resource is what tokens are for (RFC 8707).
func (r Remote) Resource() string { return r.URL + RemotePath }

// Check says what is wrong with it.
func (r Remote) Check() error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "remote-invalid").Saying(format, args...).
			Hinting("for example: mcpx remote on --url https://mcp.example.org")
	}
	u, err := url.Parse(r.URL)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || strings.ContainsAny(r.URL, "#?"):
		return bad("the URL %q is not a scheme and a host alone", r.URL)
	case u.Scheme != "https" && (u.Scheme != "http" || !loopbackHost(u.Hostname())):
		return bad("the URL %q is not https: codes and tokens would be readable on the way", r.URL)
	case u.Scheme == "https" && u.Port() == "443", u.Scheme == "http" && u.Port() == "80", strings.HasSuffix(u.Host, ":"):
		return bad("the URL %q names the port of its scheme, which clients leave out: leave it out, too", r.URL)
	case r.URL != strings.ToLower(r.URL):
		return bad("the URL %q has capitals: clients compare it letter by letter", r.URL)
	case (r.Certificate == "") != (r.Key == ""):
		return bad("a certificate needs its key, and a key its certificate")
	}
	for _, file := range []string{r.Certificate, r.Key} {
		if file != "" && !path.IsAbs(file) {
			return bad("%q is no absolute path", file)
		}
	}
	if err := r.checkIssuer(bad); err != nil {
		return err
	}
	at, err := url.Parse("tcp://" + r.Address)
	if err != nil || at.Port() == "" || at.Host != r.Address {
		return bad("the address %q is no host:port", r.Address)
	}
	if r.Certificate == "" && !loopbackHost(at.Hostname()) {
		return bad("without a certificate the address %q must be one of this machine: what comes over the network would be readable", r.Address)
	}
	return nil
}

// checkIssuer says what is wrong with the authorization server in our place.
func (r Remote) checkIssuer(bad func(format string, args ...any) error) error {
	if r.Issuer == "" {
		return nil
	}
	u, err := url.Parse(r.Issuer)
	switch {
	case err != nil || u.Host == "" || u.User != nil || strings.ContainsAny(r.Issuer, "#?"):
		return bad("the issuer %q is no URL without a query", r.Issuer)
	case u.Scheme != "https" && (u.Scheme != "http" || !loopbackHost(u.Hostname())):
		return bad("the issuer %q is not https: its keys could be exchanged on the way", r.Issuer)
	case r.Issuer == r.URL:
		return bad("the issuer is this machine itself; say --issuer none for that")
	case r.Subject == "":
		return bad("the issuer %q needs --subject: everybody who has an account there would be let in", r.Issuer)
	}
	return nil
}
