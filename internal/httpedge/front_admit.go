package httpedge

import (
	"context"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"mcpx/internal/auth"
	"mcpx/internal/gateway"
	"mcpx/internal/process"
)

// connKey is the context key of the connection that carries a request.
type connKey struct{}

// connPeer is who is at the other end of one connection, found out once and only when a route asks.
type connPeer struct {
	conn net.Conn
	once sync.Once
	uid  int
	err  error
	unix bool
}

// ConnContext is for http.Server.ConnContext: it keeps the connection, so that its peer can be checked.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	_, unix := c.(*net.UnixConn)
	return context.WithValue(ctx, connKey{}, &connPeer{conn: c, unix: unix})
}

func (p *connPeer) peerUID() (int, error) {
	p.once.Do(func() {
		if u, ok := p.conn.(*net.UnixConn); ok {
			peer, err := process.PeerOf(u)
			p.uid, p.err = peer.UID, err
			return
		}
		p.uid, p.err = process.PeerUID(p.conn)
	})
	return p.uid, p.err
}

// Guard checks Host and Origin before a handler reads anything: loopback is reachable by every web page, and a page
// must not get in (protocol.md section 11). On the unix socket any Origin is refused.
func (f *Front) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, _ := r.Context().Value(connKey{}).(*connPeer)
		if peer != nil && peer.unix {
			if r.Header.Get("Origin") != "" || r.Header.Get("Referer") != "" {
				refuse(w, http.StatusForbidden, -32600, "browsers are not served on this socket")
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		if !f.hostAllowed(r.Host) {
			f.foreign(r, r.Host)
			refuse(w, http.StatusForbidden, -32600, "Host is not allowed; loopback names are, others need listener.allowed_hosts")
			return
		}
		for _, origin := range r.Header.Values("Origin") {
			u, err := url.Parse(origin)
			if err != nil || u.Host == "" || !f.hostAllowed(u.Host) {
				f.foreign(r, origin)
				refuse(w, http.StatusForbidden, -32600, "Origin is not allowed")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (f *Front) foreign(r *http.Request, origin string) {
	if f.cfg.Foreign != nil {
		f.cfg.Foreign(r.Context(), origin)
	}
}

// hostAllowed accepts loopback names with any port, and the configured names.
func (f *Front) hostAllowed(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	hosts := f.rules.Load().Hosts
	if host == "localhost" || slices.Contains(hosts, host) || slices.Contains(hosts, strings.ToLower(hostport)) {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// admit says who calls: a peer of our own uid by the kernel's socket table, or the holder of a token.
func (f *Front) admit(r *http.Request) (gateway.Caller, *gateway.Refusal) {
	peer, _ := r.Context().Value(connKey{}).(*connPeer)
	if bearer, ok := auth.Bearer(r.Header.Get("Authorization")); ok && f.cfg.Token != nil {
		c, known := f.cfg.Token(bearer)
		if known {
			return c, nil
		}
		// Another program's token says nothing about who calls: some clients send theirs to every server. Ours counts or not.
		foreign := peer != nil && !strings.HasPrefix(bearer, auth.Prefix) && (peer.unix || !f.rules.Load().TokenOnly)
		if foreign {
			return f.peer(r, peer)
		}
		return gateway.Caller{}, &gateway.Refusal{Status: http.StatusUnauthorized, Code: -32600, Message: "the token is not valid"}
	}
	if peer == nil || f.rules.Load().TokenOnly && !peer.unix {
		return gateway.Caller{}, &gateway.Refusal{Status: http.StatusUnauthorized, Code: -32600, Message: "a token is required (listener.loopback_auth); `mcpx connect` needs none"}
	}
	return f.peer(r, peer)
}

// Principal says on whose behalf a request is made, by the rules of admit. A token that is limited to servers of the
// catalog is for them alone.
func (f *Front) Principal(r *http.Request) (principal string, ok bool) {
	c, bad := f.admit(r)
	return c.Principal, bad == nil && !c.Limited && c.Principal != ""
}

// peer says who calls by the connection alone.
func (f *Front) peer(r *http.Request, peer *connPeer) (gateway.Caller, *gateway.Refusal) {
	uid, err := peer.peerUID()
	if err != nil || uid != f.uid {
		text := "this address serves only the user who runs mcpx"
		switch {
		case err != nil:
			text = "the kernel cannot tell whose connection this is; use `mcpx connect`"
		case f.cfg.Stranger != nil:
			f.cfg.Stranger(r.Context())
		}
		return gateway.Caller{}, &gateway.Refusal{Status: http.StatusUnauthorized, Code: -32600, Message: text}
	}
	c := gateway.Caller{Principal: "owner"}
	if peer.unix {
		c.Agent, c.Workspace, c.Instance = r.Header.Get(hdrAgent), r.Header.Get(hdrWorkspace), r.Header.Get(hdrInstance)
		for _, v := range r.Header.Values(hdrPass) {
			name, enc, _ := strings.Cut(v, "=")
			if value, err := base64.RawURLEncoding.DecodeString(enc); err == nil && name != "" {
				if c.Passed == nil {
					c.Passed = map[string]string{}
				}
				c.Passed[name] = string(value)
			}
		}
	}
	return c, nil
}

// fromStdio says whether mcpx connect sent the request.
func fromStdio(r *http.Request) bool {
	peer, _ := r.Context().Value(connKey{}).(*connPeer)
	return peer != nil && peer.unix && r.Header.Get(hdrStdio) != ""
}
