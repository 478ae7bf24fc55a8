package httpedge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"mcpx/internal/era"
	"mcpx/internal/gateway"
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
	hdrInstance  = "Mcpx-Instance"
	hdrStdio     = "Mcpx-Stdio" // the client speaks stdio: its headers are computed by mcpx connect
)

// FrontConfig is what the client-facing edge needs. Gateway and Log are required.
type FrontConfig struct {
	Gateway   *gateway.Gateway
	Log       *slog.Logger
	Admission Admission // at the start; Admit changes it
	// Token judges a bearer token; nil knows none.
	Token func(bearer string) (gateway.Caller, bool)
	// Foreign hears of a web page that was refused: the origin that it named, or the host by which it came; nil nobody does.
	Foreign func(ctx context.Context, origin string)
	// Stranger hears of another user of the machine who was refused; nil nobody does.
	Stranger func(context.Context)
	// Gate leads to the next daemon after a hand-over; nil when there will be none.
	Gate *Gate
}

// Admission is who may come in by TCP.
type Admission struct {
	Hosts []string // host names beside loopback that Host and Origin may carry
	// TokenOnly turns the same-uid rule off: every TCP caller needs a token (listener.loopback_auth = "token").
	TokenOnly bool
}

// Front serves /servers/<name>/mcp to clients of every revision.
type Front struct {
	cfg   FrontConfig
	uid   int // our own, asked once
	rules atomic.Pointer[Admission]
}

// NewFront makes the handler.
func NewFront(cfg FrontConfig) (*Front, error) {
	if cfg.Gateway == nil || cfg.Log == nil {
		return nil, errors.New("httpedge: FrontConfig.Gateway and FrontConfig.Log are required")
	}
	f := &Front{cfg: cfg, uid: os.Getuid()}
	f.Admit(cfg.Admission)
	return f, nil
}

// Admit changes who may come in, for requests from now on.
func (f *Front) Admit(a Admission) { f.rules.Store(&a) }

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
	if !caller.May(srv.Name()) {
		refuse(w, http.StatusForbidden, -32600, "the token does not allow this server")
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
	// What no path leads to is no name for somebody who mistyped one: the servers of projects.
	names := slices.DeleteFunc(f.cfg.Gateway.Names(), func(name string) bool { return strings.Contains(name, "/") })
	if len(names) == 0 {
		return fmt.Sprintf("no server is routed as %q; add one with `mcpx server add`", name)
	}
	const most = 20
	more := ""
	if len(names) > most {
		names, more = names[:most], ", ..."
	}
	return fmt.Sprintf("no server is routed as %q; there are: %s%s; `mcpx server list` shows those that are not in use, too", name, strings.Join(names, ", "), more)
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
	v := view{w: w, r: r, asJSON: asJSON, asSSE: asSSE, srv: srv, f: f, body: body, msg: m}
	if era.Of(m, body, r.Header.Get(hdrVersion)) == era.Modern {
		f.modern(v, srv, caller, body, m)
		return
	}
	f.legacy(v, srv, caller, body, m)
}

// modernOnly is what the front speaks of the revisions without a handshake. A client that learns it from an error must
// not be offered more than server/discover offers.
var modernOnly = []string{era.V20260728}

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
	if bad := era.CheckModern(body, m, get, modernOnly); bad != nil {
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
	params := era.Headers(get)
	if fromStdio(v.r) {
		params = nil // mcpx connect has no schema to compute Mcp-Param-* from, and nothing in front of it reads them
	}
	if wire := v.r.Header.Get(hdrRejoin); wire != "" && fromUnix(v.r) {
		f.rejoin(v, srv, wire)
		return
	}
	st := srv.Modern(gateway.ModernRequest{Body: body, Msg: m, Caller: caller, Header: params, Forward: forward})
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
		if x == nil && srv.Moved() {
			f.replay(v) // the next daemon opens the session
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
		f.accepted(v)
	case rpc.Result, rpc.Error:
		x.Respond(body, m)
		f.accepted(v)
	case rpc.Request:
		if forAnother(v.w, v.r, x.Epoch()) {
			return
		}
		st, runs := x.Ask(body, m, gateway.Asking{Plain: !v.asSSE, Late: WasRelayed(v.r)})
		if !runs {
			v.w.Header().Set("Retry-After", "1")
			refuse(v.w, http.StatusServiceUnavailable, -32603, "the request came late from the daemon before; repeat it")
			return
		}
		v.legacy(x, st, m.ID.Of(body))
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
	v := view{w: w, r: r, asSSE: true, srv: srv, f: f}
	if last := r.Header.Get(hdrLastEvent); last != "" {
		st, reader, bad := x.Resume(r.Context(), last, relayAsking(r))
		if srv.Moved() {
			f.relay(w, r) // what was found may be half of it: the next daemon knows
			return
		}
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
