package httpedge

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
)

const (
	// upDialWait bounds the TCP connect, as protocol.md section 7.5 sets it.
	upDialWait = 10 * time.Second
	// upTLSWait bounds the TLS handshake for the same reason: a peer that accepts and then says nothing.
	upTLSWait = 10 * time.Second
	// upConnsPerHost bounds the connections to one host that carry calls (protocol.md section 7.5).
	upConnsPerHost = 64
	// upStreamsPerHost bounds the connections to one host that carry long streams: one for each session, of which a
	// principal has at most 256, or for each listen.
	upStreamsPerHost = 256
	// upIdleConn is shorter than the 5 s after which common HTTP servers close an idle connection. A call written into
	// such a close is lost and nobody knows whether it ran, so a connection near that age is not used again.
	upIdleConn = 4 * time.Second
	// upPingAfter is the silence after which an HTTP/2 connection is checked, so that a peer that vanished without a
	// word ends the calls on it. It decides about the connection only, never about a session.
	upPingAfter = 30 * time.Second
	// upMaxHeader bounds the header block of a response.
	upMaxHeader = 256 << 10
	// upMaxRedirects bounds a chain of redirects inside one origin.
	upMaxRedirects = 3
)

// UpstreamConfig is what an Upstream needs.
type UpstreamConfig struct {
	Now     func() time.Time // for Retry-After dates and the start of a link
	Log     *slog.Logger
	Version string // of the program, for User-Agent
	// Proxy chooses a proxy for a request; nil takes the proxy variables of the environment.
	Proxy func(*http.Request) (*url.URL, error)
	// SignIns gives the tokens of servers at which somebody signed in; nil: there are none.
	SignIns *SignIns
	// Redact replaces secrets in a text; nil leaves it as it is.
	Redact func(string) string
}

// Upstream opens links to MCP servers behind a URL: Streamable HTTP of both eras, and HTTP+SSE of 2024-11-05.
type Upstream struct {
	cfg UpstreamConfig

	// Three pools, because a connection is the unit of waiting: a stream that is open for hours must not take the place
	// of a call, and a cancellation or the answer to a question must never wait for the call it belongs to.
	calls, notes, streams *http.Client

	bounds upBounds
}

// upBounds are the bounds of a link that tests make smaller.
type upBounds struct {
	body     int           // bytes of one message
	endpoint time.Duration // wait for the endpoint event
	abort    time.Duration // life of a cancelled call's stream
}

var _ gateway.Backend = (*Upstream)(nil)

// NewUpstream makes an Upstream without opening anything.
func NewUpstream(c UpstreamConfig) (*Upstream, error) {
	switch {
	case c.Now == nil:
		return nil, errors.New("httpedge: UpstreamConfig.Now is required")
	case c.Log == nil:
		return nil, errors.New("httpedge: UpstreamConfig.Log is required")
	case c.Version == "":
		return nil, errors.New("httpedge: UpstreamConfig.Version is required")
	}
	if c.Proxy == nil {
		c.Proxy = http.ProxyFromEnvironment
	}
	u := &Upstream{cfg: c, bounds: upBounds{body: upMaxBody, endpoint: upEndpointWait, abort: upAbortWait}}
	u.calls = u.client(upConnsPerHost)
	u.notes = u.client(upConnsPerHost)
	u.streams = u.client(upStreamsPerHost)
	return u, nil
}

func (u *Upstream) client(perHost int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  u.cfg.Proxy,
			DialContext:            (&net.Dialer{Timeout: upDialWait}).DialContext,
			TLSHandshakeTimeout:    upTLSWait,
			ForceAttemptHTTP2:      true,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: upPingAfter, PingTimeout: upPingAfter},
			MaxConnsPerHost:        perHost,
			MaxIdleConnsPerHost:    perHost,
			IdleConnTimeout:        upIdleConn,
			MaxResponseHeaderBytes: upMaxHeader,
			// A compressing proxy holds events back until its block is full, and a small body could unpack to any size.
			DisableCompression: true,
		},
		CheckRedirect: upRedirect,
	}
}

// Close drops idle connections. Links must have ended before.
func (u *Upstream) Close() {
	for _, c := range []*http.Client{u.calls, u.notes, u.streams} {
		c.CloseIdleConnections()
	}
}

// upRedirect follows 307 and 308 inside one origin. Every other redirect is handed back as it is: 301 to 303 turn a
// POST into a GET, and another origin must not see the credentials of this one.
func upRedirect(next *http.Request, via []*http.Request) error {
	status := next.Response.StatusCode
	if status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect {
		return http.ErrUseLastResponse
	}
	if len(via) > upMaxRedirects || !upSameOrigin(next.URL, via[0].URL) || next.URL.User != nil {
		return http.ErrUseLastResponse
	}
	next.Header.Del("Referer") // it would carry the query of the URL, which may hold a key
	return nil
}

// upSameOrigin compares scheme, host and port, with the scheme's own port for an absent one.
func upSameOrigin(a, b *url.URL) bool {
	port := func(u *url.URL) string {
		switch {
		case u.Port() != "":
			return u.Port()
		case u.Scheme == "https":
			return "443"
		}
		return "80"
	}
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

// Open prepares a link. For Streamable HTTP it opens no connection: whether the server can be reached is the answer to
// the lane's first message. For HTTP+SSE it opens the stream and waits for the endpoint. A link that goes on with a
// session begins with the standalone stream; one whose session is gone ends with SessionGone at its first request.
func (u *Upstream) Open(ctx context.Context, o gateway.Open, sink gateway.Sink) (gateway.Link, error) {
	if o.Server.HTTP == nil {
		return nil, fault.New(fault.Internal, "internal").Saying("server %s has no URL", o.Server.Name)
	}
	target, err := upTarget(o.Server.Name, o.Server.HTTP.URL)
	if err != nil {
		return nil, err
	}
	own, err := upOwnHeaders(o.Server.Name, o.Headers)
	if err != nil {
		return nil, err
	}
	l := newUpLink(u, o.Server, target, own, sink)
	switch {
	case o.Transport == catalog.TransportSSE:
		l.mode = upSSE
		if err := l.openStream(ctx); err != nil {
			l.stop()
			return nil, err
		}
	case o.Modern:
		l.mode = upModern
	case o.Session != "":
		l.join(o.Session, o.Version)
	}
	return l, nil
}

// upTarget checks the URL of an entry.
func upTarget(server, raw string) (*url.URL, error) {
	bad := func(what string) error {
		return fault.New(fault.Invalid, "url-invalid").Saying("the URL of server %s %s", server, what).
			Hinting("use a URL of the form https://host/path; credentials belong into a header of the entry")
	}
	target, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, bad("cannot be parsed") // the parser's text would repeat the URL, which may hold a key
	case target.Scheme != "http" && target.Scheme != "https":
		return nil, bad("is neither http nor https")
	case target.User != nil:
		return nil, bad("holds a user name or password")
	case target.Hostname() == "":
		return nil, bad("has no host")
	}
	target.Fragment, target.RawFragment = "", ""
	return target, nil
}

// upOwnHeaders checks the headers of an entry. The ones that this edge or the HTTP layer sets itself are refused, so
// that an entry cannot change how messages are framed or which session they belong to.
func upOwnHeaders(server string, own map[string]string) (http.Header, error) {
	h := make(http.Header, len(own))
	for name, value := range own {
		canonical := http.CanonicalHeaderKey(name)
		why := ""
		switch {
		case !upIsToken(name):
			why = "is not a header name"
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			why = "has a control character in its value"
		case strings.HasPrefix(canonical, "Mcp-"), upReserved[canonical]:
			why = "is set by mcpx itself"
		}
		if why != "" {
			return nil, fault.New(fault.Invalid, "header-invalid").Saying("header %q of server %s %s", name, server, why).
				Hinting("change the entry with `mcpx server edit %s`", server)
		}
		h[canonical] = []string{value}
	}
	return h, nil
}

// upReserved are the headers an entry cannot set, in canonical form.
var upReserved = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Connection": true, "Content-Encoding": true, "Content-Length": true,
	"Content-Type": true, "Expect": true, "Host": true, "Keep-Alive": true, "Last-Event-Id": true,
	"Proxy-Connection": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// upIsToken is RFC 9110's rule for header names.
func upIsToken(s string) bool {
	for _, b := range []byte(s) {
		switch {
		case b >= '0' && b <= '9', b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z':
		case strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0:
		default:
			return false
		}
	}
	return s != ""
}
