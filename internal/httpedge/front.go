package httpedge

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"mcpx/internal/era"
	"mcpx/internal/gateway"
	"mcpx/internal/process"
	"mcpx/internal/rpc"
)

// maxBody bounds the body of one POST (protocol.md section 4). It is read whole before anything is forwarded.
const maxBody = 16 << 20

// Headers of the front. The Mcpx ones are honoured on the unix socket only, where the peer's uid is proved.
const (
	hdrSession   = "Mcp-Session-Id"
	hdrVersion   = "Mcp-Protocol-Version"
	hdrLastEvent = "Last-Event-Id"
	hdrAgent     = "Mcpx-Agent"
	hdrWorkspace = "Mcpx-Workspace"
	hdrPass      = "Mcpx-Pass"
)

// FrontConfig is what the client-facing edge needs. Gateway and Log are required.
type FrontConfig struct {
	Gateway *gateway.Gateway
	Log     *slog.Logger
	Hosts   []string // host names beside loopback that Host and Origin may carry
	// TokenOnly turns the same-uid rule off: every TCP caller needs a token (listener.loopback_auth = "token").
	TokenOnly bool
	// Token judges a bearer token; nil knows none.
	Token func(bearer string) (gateway.Caller, bool)
}

// Front serves /servers/<name>/mcp to clients of every revision.
type Front struct {
	cfg FrontConfig
}

// NewFront makes the handler.
func NewFront(cfg FrontConfig) (*Front, error) {
	if cfg.Gateway == nil || cfg.Log == nil {
		return nil, errors.New("httpedge: FrontConfig.Gateway and FrontConfig.Log are required")
	}
	return &Front{cfg: cfg}, nil
}

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
			refuse(w, http.StatusForbidden, -32600, "Host is not allowed; loopback names are, others need listener.allowed_hosts")
			return
		}
		for _, origin := range r.Header.Values("Origin") {
			u, err := url.Parse(origin)
			if err != nil || u.Host == "" || !f.hostAllowed(u.Host) {
				refuse(w, http.StatusForbidden, -32600, "Origin is not allowed")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// hostAllowed accepts loopback names with any port, and the configured names.
func (f *Front) hostAllowed(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if host == "localhost" || slices.Contains(f.cfg.Hosts, host) || slices.Contains(f.cfg.Hosts, strings.ToLower(hostport)) {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// admit says who calls: a peer of our own uid by the kernel's socket table, or the holder of a token.
func (f *Front) admit(r *http.Request) (gateway.Caller, *gateway.Refusal) {
	peer, _ := r.Context().Value(connKey{}).(*connPeer)
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && f.cfg.Token != nil {
		if c, ok := f.cfg.Token(bearer); ok {
			return c, nil
		}
		return gateway.Caller{}, &gateway.Refusal{Status: http.StatusUnauthorized, Code: -32600, Message: "the token is not valid"}
	}
	if peer == nil || f.cfg.TokenOnly && !peer.unix {
		return gateway.Caller{}, &gateway.Refusal{Status: http.StatusUnauthorized, Code: -32600, Message: "a token is required (listener.loopback_auth); `mcpx connect` needs none"}
	}
	uid, err := peer.peerUID()
	if err != nil || uid != os.Getuid() {
		text := "this address serves only the user who runs mcpx"
		if err != nil {
			text = "the kernel cannot tell whose connection this is; use `mcpx connect`"
		}
		return gateway.Caller{}, &gateway.Refusal{Status: http.StatusUnauthorized, Code: -32600, Message: text}
	}
	c := gateway.Caller{Principal: "owner"}
	if peer.unix {
		c.Agent, c.Workspace = r.Header.Get(hdrAgent), r.Header.Get(hdrWorkspace)
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

// ServeHTTP serves one request to /servers/<name>/mcp.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := serverOf(r.URL.Path)
	if !ok {
		refuse(w, http.StatusNotFound, -32600, "nothing is served here; servers are at /servers/<name>/mcp")
		return
	}
	caller, bad := f.admit(r)
	if bad != nil {
		refuse(w, bad.Status, bad.Code, bad.Message)
		return
	}
	srv, ok := f.cfg.Gateway.Route(name)
	if !ok {
		refuse(w, http.StatusNotFound, -32600, f.unknown(name))
		return
	}
	switch r.Method {
	case http.MethodPost:
		f.post(w, r, srv, caller)
	case http.MethodGet:
		f.get(w, r, srv, caller)
	case http.MethodDelete:
		f.delete(w, r, srv, caller)
	default:
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, -32600, "use POST")
	}
}

// serverOf takes the name from /servers/<name>/mcp, with or without a trailing slash.
func serverOf(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, "/servers/")
	if !ok {
		return "", false
	}
	name, tail, ok := strings.Cut(rest, "/")
	return name, ok && name != "" && (tail == "mcp" || tail == "mcp/")
}

// unknown says which names there are, for a person who mistyped one.
func (f *Front) unknown(name string) string {
	names := f.cfg.Gateway.Names()
	if len(names) == 0 {
		return fmt.Sprintf("no server is routed as %q; add one with `mcpx server add`", name)
	}
	const most = 20
	more := ""
	if len(names) > most {
		names, more = names[:most], ", ..."
	}
	return fmt.Sprintf("no server is routed as %q; there are: %s%s", name, strings.Join(names, ", "), more)
}

// refuse answers with a JSON-RPC error without id.
func refuse(w http.ResponseWriter, status, code int, text string) {
	writeJSON(w, status, rpc.ErrorResponse(nil, code, text, nil))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["X-Content-Type-Options"] = noSniff
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that left needs no answer
}

var (
	jsonType = []string{"application/json"}
	noSniff  = []string{"nosniff"}
)

// readBody reads the whole body. A body over the limit is refused with 413.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if r.ContentLength > maxBody {
		tooLarge(w)
		return nil, false
	}
	if n := r.ContentLength; n >= 0 {
		body := make([]byte, n)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			refuse(w, http.StatusBadRequest, -32700, "the body ended early")
			return nil, false
		}
		return body, true
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		refuse(w, http.StatusBadRequest, -32700, "the body ended early")
		return nil, false
	}
	if len(body) > maxBody {
		tooLarge(w)
		return nil, false
	}
	return body, true
}

func tooLarge(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	refuse(w, http.StatusRequestEntityTooLarge, -32600, "the body is over the limit of 16 MiB")
}

// accepts reads the Accept header: missing or a wildcard means both forms.
func accepts(h http.Header) (asJSON, asSSE bool) {
	values := h["Accept"]
	if len(values) == 0 {
		return true, true
	}
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			kind, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "*/*":
				return true, true
			case "application/json", "application/*":
				asJSON = true
			case "text/event-stream", "text/*":
				asSSE = true
			}
		}
	}
	return asJSON, asSSE
}

func (f *Front) post(w http.ResponseWriter, r *http.Request, srv *gateway.Server, caller gateway.Caller) {
	asJSON, asSSE := accepts(r.Header)
	if !asJSON && !asSSE {
		refuse(w, http.StatusNotAcceptable, -32600, "Accept must allow application/json or text/event-stream")
		return
	}
	if ct := r.Header.Get("Content-Type"); ct != "application/json" {
		if kind, _, err := mime.ParseMediaType(ct); err != nil || kind != "application/json" {
			refuse(w, http.StatusUnsupportedMediaType, -32600, "Content-Type must be application/json")
			return
		}
	}
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	if rpc.IsBatch(body) {
		f.batch(w, r, srv, caller, body)
		return
	}
	m, err := rpc.Scan(body)
	if err != nil {
		if bad, ok := errors.AsType[*rpc.ScanError](err); ok {
			writeJSON(w, http.StatusBadRequest, rpc.ErrorResponse(nil, bad.Code, bad.Text, nil))
			return
		}
		refuse(w, http.StatusBadRequest, -32700, err.Error())
		return
	}
	body = rpc.OneLine(body)
	v := view{w: w, r: r, asJSON: asJSON, asSSE: asSSE}
	if era.Of(m, body, r.Header.Get(hdrVersion)) == era.Modern {
		f.modern(v, srv, caller, body, m)
		return
	}
	f.legacy(v, srv, caller, body, m)
}

// modern serves one message of 2026-07-28. No session, no stream id: closing the response is the cancellation.
func (f *Front) modern(v view, srv *gateway.Server, caller gateway.Caller, body []byte, m rpc.Message) {
	get := func(name string) []string { return v.r.Header[http.CanonicalHeaderKey(name)] }
	switch m.Kind {
	case rpc.Notification:
		v.w.WriteHeader(http.StatusAccepted)
		return
	case rpc.Result, rpc.Error:
		refuse(v.w, http.StatusBadRequest, -32600, "clients of this revision send requests and notifications only")
		return
	case rpc.Request:
	}
	if bad := era.CheckModern(body, m, get, era.Supported); bad != nil {
		writeJSON(v.w, bad.Status, rpc.ErrorResponse(m.ID.Of(body), bad.Code, bad.Message, bad.Data))
		return
	}
	var forward map[string]string
	for name, values := range v.r.Header {
		if strings.HasPrefix(name, "Mcp-Param-") && len(values) == 1 {
			if forward == nil {
				forward = map[string]string{}
			}
			forward[name] = values[0]
		}
	}
	st := srv.Modern(gateway.ModernRequest{Body: body, Msg: m, Caller: caller, Header: get, Forward: forward})
	v.modern(st)
}

// legacy serves one message of the revisions with sessions.
func (f *Front) legacy(v view, srv *gateway.Server, caller gateway.Caller, body []byte, m rpc.Message) {
	if m.Kind == rpc.Request && m.MethodOf(body) == "initialize" {
		x, answer := srv.Initialize(v.r.Context(), body, m, caller)
		if x != nil && v.r.Context().Err() != nil {
			x.Close() // nobody will ever learn its id
			return
		}
		if x != nil {
			v.w.Header().Set(hdrSession, x.ID)
		}
		v.once(answer)
		return
	}
	x, bad := srv.Session(v.r.Header.Get(hdrSession), caller)
	if bad != nil {
		writeJSON(v.w, bad.Status, bad.Body(m.ID.Of(body)))
		return
	}
	if bad := era.CheckLegacyVersion(v.r.Header.Get(hdrVersion), x.Version); bad != nil {
		writeJSON(v.w, bad.Status, rpc.ErrorResponse(m.ID.Of(body), bad.Code, bad.Message, bad.Data))
		return
	}
	switch m.Kind {
	case rpc.Notification:
		x.Notify(body, m)
		v.w.WriteHeader(http.StatusAccepted)
	case rpc.Result, rpc.Error:
		x.Respond(body, m)
		v.w.WriteHeader(http.StatusAccepted)
	case rpc.Request:
		v.legacy(x, x.Request(body, m), m.ID.Of(body))
	}
}

func (f *Front) get(w http.ResponseWriter, r *http.Request, srv *gateway.Server, caller gateway.Caller) {
	id := r.Header.Get(hdrSession)
	if id == "" {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, -32600, "GET opens the stream of a session; send initialize first")
		return
	}
	if _, asSSE := accepts(r.Header); !asSSE {
		refuse(w, http.StatusNotAcceptable, -32600, "Accept must allow text/event-stream")
		return
	}
	x, bad := srv.Session(id, caller)
	if bad != nil {
		writeJSON(w, bad.Status, bad.Body(nil))
		return
	}
	if bad := era.CheckLegacyVersion(r.Header.Get(hdrVersion), x.Version); bad != nil {
		writeJSON(w, bad.Status, rpc.ErrorResponse(nil, bad.Code, bad.Message, bad.Data))
		return
	}
	v := view{w: w, r: r, asSSE: true}
	if last := r.Header.Get(hdrLastEvent); last != "" {
		st, reader, bad := x.Resume(last)
		if bad != nil {
			writeJSON(w, bad.Status, bad.Body(nil))
			return
		}
		v.follow(x, st.ID, reader)
		return
	}
	v.follow(x, "g", x.Standalone())
}

func (f *Front) delete(w http.ResponseWriter, r *http.Request, srv *gateway.Server, caller gateway.Caller) {
	id := r.Header.Get(hdrSession)
	if id == "" {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, -32600, "DELETE ends a session and needs its Mcp-Session-Id")
		return
	}
	x, bad := srv.Session(id, caller)
	if bad != nil {
		writeJSON(w, bad.Status, bad.Body(nil))
		return
	}
	x.Close()
	w.WriteHeader(http.StatusOK)
}

// batch serves a JSON-RPC batch. Only sessions of 2025-03-26 know them.
func (f *Front) batch(w http.ResponseWriter, r *http.Request, srv *gateway.Server, caller gateway.Caller, body []byte) {
	id := r.Header.Get(hdrSession)
	if id == "" {
		refuse(w, http.StatusBadRequest, -32600, "the body is not one JSON-RPC object")
		return
	}
	x, bad := srv.Session(id, caller)
	if bad != nil {
		writeJSON(w, bad.Status, bad.Body(nil))
		return
	}
	if x.Version != era.V20250326 {
		refuse(w, http.StatusBadRequest, -32600, "batches exist in revision 2025-03-26 only; send one message in each POST")
		return
	}
	parts, err := rpc.Batch(body)
	if err != nil || len(parts) == 0 {
		refuse(w, http.StatusBadRequest, -32700, "the batch is empty or not valid JSON")
		return
	}
	answers, failed := f.batchParts(r.Context(), x, body, parts)
	switch {
	case failed != nil:
		writeJSON(w, http.StatusBadRequest, failed)
	case len(answers) == 0:
		w.WriteHeader(http.StatusAccepted)
	default:
		writeJSON(w, http.StatusOK, joinArray(answers))
	}
}

// maxBatch bounds the elements of one batch: each request of it is a call in flight.
const maxBatch = 256

// batchParts sends the elements one by one and collects the answers in order. Notifications of the calls are read and
// dropped: a JSON array has no place for them, and the standalone stream is open to a client that wants them.
func (f *Front) batchParts(ctx context.Context, x *gateway.Session, body []byte, parts []rpc.Span) (answers [][]byte, failed []byte) {
	if len(parts) > maxBatch {
		return nil, rpc.ErrorResponse(nil, -32600, fmt.Sprintf("the batch has more than %d elements", maxBatch), nil)
	}
	msgs := make([]rpc.Message, len(parts))
	for i, p := range parts {
		m, err := rpc.Scan(p.Of(body))
		if err != nil || m.Kind == rpc.Request && m.MethodOf(p.Of(body)) == "initialize" {
			return nil, rpc.ErrorResponse(nil, -32600, "an element of the batch is not a JSON-RPC message, or is initialize", nil)
		}
		msgs[i] = m
	}
	var streams []*gateway.Stream
	for i, p := range parts {
		one := rpc.OneLine(slices.Clone(p.Of(body)))
		switch msgs[i].Kind {
		case rpc.Request:
			streams = append(streams, x.Request(one, msgs[i]))
		case rpc.Notification:
			x.Notify(one, msgs[i])
		case rpc.Result, rpc.Error:
			x.Respond(one, msgs[i])
		}
	}
	for _, st := range streams {
		if a := final(ctx, st); a != nil {
			answers = append(answers, a)
		}
	}
	return answers, nil
}

// final waits for the response of a stream; nil when there is none.
func final(ctx context.Context, st *gateway.Stream) []byte {
	r := st.Follow()
	defer r.Stop()
	for {
		e, state := r.Next()
		switch state {
		case gateway.ReadEvent:
			if e.Final {
				return e.Data
			}
		case gateway.ReadEnd, gateway.ReadMissed:
			return nil
		case gateway.ReadWait:
			select {
			case <-r.Wake():
			case <-ctx.Done():
				return nil
			}
		}
	}
}

func joinArray(parts [][]byte) []byte {
	raw := make([]json.RawMessage, len(parts))
	n := 2
	for i, p := range parts {
		raw[i] = p
		n += len(p) + 1
	}
	out := append(make([]byte, 0, n), '[')
	for i, p := range raw {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, p...)
	}
	return append(out, ']')
}
