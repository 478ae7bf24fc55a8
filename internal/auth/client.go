package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Client is a program that asks for access over OAuth, as it describes itself. Nothing of it is proved: it is a label on
// what happens, never an identity (runtime.md section 2).
type Client struct {
	ID        string   `json:"-"`
	Name      string   `json:"n"`
	Redirects []string `json:"r"`
}

// Bounds of what a client says about itself: an id holds all of it.
const (
	maxRedirects  = 8
	maxRedirect   = 512 // bytes
	maxClientName = 64  // characters
	maxClientID   = 8 << 10
)

// Registrar gives clients their ids (RFC 7591). An id holds what the client said, sealed: a registration leaves nothing
// behind, so that nobody fills a disk with them, and an id opens nothing without the consent of a person.
type Registrar struct{ key []byte }

// NewRegistrar makes a registrar. Who has the key makes ids; it is the same in every daemon of one home.
func NewRegistrar(key []byte) Registrar { return Registrar{key} }

// sealLength is how much of the seal an id holds, in bytes.
const sealLength = 16

// Register makes the client that says this of itself.
func (g Registrar) Register(name string, redirects []string) (Client, error) {
	if len(redirects) == 0 || len(redirects) > maxRedirects {
		return Client{}, deny(InvalidRedirect, "%d redirect_uris, want 1 to %d", len(redirects), maxRedirects)
	}
	for _, r := range redirects {
		if err := checkRedirect(r); err != nil {
			return Client{}, err
		}
	}
	c := Client{Name: plainName(name, redirects[0]), Redirects: slices.Clone(redirects)}
	body, err := json.Marshal(c)
	if err != nil {
		return Client{}, deny(InvalidMetadata, "it cannot be kept: %s", err)
	}
	c.ID = base64.RawURLEncoding.EncodeToString(append(g.seal(body), body...))
	return c, nil
}

// Client reads an id that Register made.
func (g Registrar) Client(id string) (Client, error) {
	unknown := deny(InvalidClient, "this client_id was not given here: register again")
	if len(id) > maxClientID {
		return Client{}, unknown
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil || len(raw) < sealLength || !hmac.Equal(raw[:sealLength], g.seal(raw[sealLength:])) {
		return Client{}, unknown
	}
	c := Client{ID: id}
	if err := json.Unmarshal(raw[sealLength:], &c); err != nil {
		return Client{}, unknown
	}
	return c, nil
}

func (g Registrar) seal(body []byte) []byte {
	mac := hmac.New(sha256.New, g.key)
	mac.Write(body)
	return mac.Sum(nil)[:sealLength]
}

// plainName is a name that can be shown to a person: one line without anything that is not seen. A client without one is
// called by where it is.
func plainName(name, redirect string) string {
	var b strings.Builder
	for _, r := range strings.TrimSpace(name) {
		if !unicode.IsGraphic(r) || r == utf8.RuneError {
			continue
		}
		if b.WriteRune(r); utf8.RuneCountInString(b.String()) == maxClientName {
			break
		}
	}
	if b.Len() > 0 {
		return b.String()
	}
	if u, err := url.Parse(redirect); err == nil && u.Host != "" {
		return u.Host
	}
	return "a client without a name"
}

// appSchemes are schemes of programs on the person's own machine that are not in the form of a reversed domain name (RFC
// 8252 section 7.1), as agents use them.
var appSchemes = []string{"cursor", "vscode", "vscode-insiders", "windsurf", "claude", "zed"}

// checkRedirect says what is wrong with an address to which a browser would be sent with a code.
func checkRedirect(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxRedirect || !u.IsAbs():
		return deny(InvalidRedirect, "a redirect URI is absolute and has at most %d bytes", maxRedirect)
	case strings.Contains(text, "#") || u.User != nil || strings.ContainsFunc(text, unicode.IsControl):
		return deny(InvalidRedirect, "a redirect URI has no fragment, no user and no control characters")
	case u.Scheme == "https" && u.Hostname() != "":
		return nil
	case u.Scheme == "http" && loopbackHost(u.Hostname()):
		return nil
	case strings.Contains(u.Scheme, ".") || slices.Contains(appSchemes, u.Scheme):
		return nil
	}
	return deny(InvalidRedirect, "a redirect URI is https, http to a loopback address, or of the scheme of a program")
}

// loopbackHost says whether a host is the machine of the browser itself.
func loopbackHost(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Redirect says whether a client may be answered at an address: it is one that it gave, byte for byte. Of a loopback
// address the port may be another one (RFC 8252 section 7.3), since programs take what is free.
func (c Client) Redirect(text string) bool {
	if slices.Contains(c.Redirects, text) {
		return true
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || !loopbackHost(u.Hostname()) || checkRedirect(text) != nil {
		return false
	}
	return slices.ContainsFunc(c.Redirects, func(known string) bool {
		k, err := url.Parse(known)
		return err == nil && k.Scheme == u.Scheme && k.Hostname() == u.Hostname() && k.EscapedPath() == u.EscapedPath() && k.RawQuery == u.RawQuery
	})
}

// Document is what a client says of itself at the URL that is its id (OAuth Client ID Metadata Document). What else is there
// is not used.
type Document struct {
	ID        string   `json:"client_id"`
	Name      string   `json:"client_name"`
	Redirects []string `json:"redirect_uris"`
	Method    string   `json:"token_endpoint_auth_method"`
}

// IsDocument says whether an id is the URL of a document.
func IsDocument(id string) bool { return strings.HasPrefix(id, "https://") }

// CheckDocumentURL says what is wrong with a URL from which a document would be loaded.
func CheckDocumentURL(id string) error {
	u, err := url.Parse(id)
	switch {
	case err != nil || len(id) > maxRedirect || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Contains(id, "#"):
		return deny(InvalidClient, "a client_id that is a URL is https, with at most %d bytes, without user and fragment", maxRedirect)
	case u.Path == "" || u.Path == "/" || path.Clean(u.Path) != u.Path:
		return deny(InvalidClient, "a client_id that is a URL has a path, without . and ..")
	}
	return nil
}

// FromDocument is the client that a document from a URL describes.
func FromDocument(id string, d Document) (Client, error) {
	switch {
	case d.ID != id:
		return Client{}, deny(InvalidClient, "the document at client_id is about another client")
	case d.Method != "" && d.Method != "none":
		return Client{}, deny(InvalidClient, "token_endpoint_auth_method in the document at client_id is not none")
	case len(d.Redirects) == 0 || len(d.Redirects) > maxRedirects:
		return Client{}, deny(InvalidClient, "%d redirect_uris in the document at client_id, want 1 to %d", len(d.Redirects), maxRedirects)
	}
	for _, r := range d.Redirects {
		if err := checkRedirect(r); err != nil {
			return Client{}, err
		}
	}
	return Client{ID: id, Name: plainName(d.Name, id), Redirects: d.Redirects}, nil
}

// Outside says whether an address is one of the open network. No client may have us look at others: they are those of this
// machine, of its network, or of what a provider keeps for itself.
func Outside(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || !a.IsGlobalUnicast() || a.IsPrivate() || a.Is6() && !global.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
}

// global has all addresses of IPv6 that are given to networks (RFC 4291 section 2.4); what leads back to IPv4, or to a site, is
// outside of it.
var global = netip.MustParsePrefix("2000::/3")

// reserved are networks for special purposes (RFC 6890) that netip does not tell from others.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("3fff::/20"),
}
