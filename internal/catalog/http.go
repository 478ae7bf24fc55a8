package catalog

import (
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"mcpx/internal/fault"
)

// maxURL bounds a URL: servers and proxies refuse longer ones.
const maxURL = 4 << 10

func validHTTP(b HTTP) *fault.Error {
	if err := validURL(b.URL); err != nil {
		return err
	}
	if len(b.Headers) > maxBindings {
		return invalid("headers", "%d of them, at most %d are allowed", len(b.Headers), maxBindings).Hinting("remove some")
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(b.Headers)) {
		if err := validHeaderName(name); err != nil {
			return err
		}
		low := strings.ToLower(name)
		if other, twice := seen[low]; twice {
			return invalid("header "+name, "%s is the same header", other).Hinting("keep one of them")
		}
		seen[low] = name
		v := b.Headers[name]
		if v == (Binding{}) {
			return invalid("header "+name, "no value").Hinting("write it as --header %s=VALUE", name)
		}
		if err := validBinding("header "+name, v); err != nil {
			return err
		}
		if strings.IndexFunc(v.Literal+v.Template, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) >= 0 {
			return invalid("header "+name, "holds a line end or a control character").Hinting("remove it")
		}
	}
	return nil
}

// validURL never repeats the URL whole: it may hold a password.
func validURL(raw string) *fault.Error {
	if raw == "" {
		return invalid("url", "empty").Hinting("write it as --url https://HOST/PATH")
	}
	if len(raw) > maxURL {
		return invalid("url", "%d bytes, at most %d are allowed", len(raw), maxURL).Hinting("shorten it")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return invalid("url", "cannot be read").Hinting("write it as https://HOST/PATH, other characters as %%XX")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		e := invalid("url", "has no scheme http or https")
		if u.Scheme == "" || u.Opaque != "" { // "host/path" and "host:80/path"
			return e.Hinting("write `https://` before it")
		}
		return e.Hinting("MCP over %s is not supported; ask the server's authors for its http URL", u.Scheme)
	case u.Hostname() == "":
		return invalid("url", "has no host").Hinting("write it as %s://HOST/PATH", u.Scheme)
	case u.User != nil:
		return invalid("url", "holds a user name or password").
			Hinting("remove it and use `--header Authorization=...` with a reference")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return invalid("url", "holds a fragment (#...), which is never sent").Hinting("remove it")
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return invalid("url", "the query cannot be read").Hinting("write special characters as %%XX")
	}
	for name := range q {
		if SecretName(name) {
			return invalid("url", "the query parameter %q looks like a secret, and URLs get into logs", name).
				Hinting("remove it and use `--header NAME=...` with a reference, if the server takes one")
		}
	}
	return nil
}

// ownHeaders are set by mcpx for every request, or belong to one connection; an entry cannot bind them. All Mcp-* and
// Proxy-* headers are refused too (protocol.md: they mirror the body of each request).
var ownHeaders = []string{
	"accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
	"keep-alive", "last-event-id", "te", "trailer", "transfer-encoding", "upgrade",
}

// OwnHeader says whether mcpx sets this header itself, so that an entry cannot.
func OwnHeader(name string) bool {
	low := strings.ToLower(name)
	return slices.Contains(ownHeaders, low) || strings.HasPrefix(low, "mcp-") || strings.HasPrefix(low, "proxy-")
}

func validHeaderName(name string) *fault.Error {
	field := "header " + name
	const marks = "!#$%&'*+-.^_`|~"
	if name == "" || strings.IndexFunc(name, func(r rune) bool {
		return r >= 0x80 || !isAlnum(byte(r)) && !strings.ContainsRune(marks, r)
	}) >= 0 {
		return invalid("header", "%q is no name of a header", name).Hinting("write it as --header NAME=VALUE")
	}
	if OwnHeader(name) {
		return invalid(field, "is set by mcpx itself").Hinting("remove it")
	}
	return nil
}

// OwnToken says whether an entry brings a token itself, in the header Authorization.
func (s Server) OwnToken() bool {
	for name := range s.headers() {
		if strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return false
}

// IsLoopback says whether a host of a URL is this machine by its spelling alone; no name is looked up.
func IsLoopback(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && a.Unmap().IsLoopback()
}
