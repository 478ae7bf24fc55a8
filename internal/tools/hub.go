// Package tools decides what agents see of mcpx as tools: their names, schemas and texts, who may call them, and which
// sessions there are. It refuses to know how a question is answered: it asks the api.Service as the agent whose token
// came with the request.
//
// Invariant: no request without a token that counts reaches the Service, and no tool changes anything.
package tools

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpx/internal/api"
	"mcpx/internal/auth"
	"mcpx/internal/era"
	"mcpx/internal/fault"
	"mcpx/internal/rpc"
)

// maxBody bounds a request: the arguments of every tool here are a few words.
const maxBody = 1 << 20

// HubConfig is what a Hub needs. Everything is required.
type HubConfig struct {
	Service api.Service
	// Authenticate judges the token of a request.
	Authenticate func(ctx context.Context, token string, need auth.Scope) (auth.Token, error)
	Key          []byte // seals the ids of sessions; the same in every daemon of this home
	Version      string
	Now          func() time.Time
	Log          *slog.Logger
}

// Hub serves mcp_hub, the control plane for agents: /servers/mcp_hub/mcp.
//
// Its sessions hold nothing, so the SDK serves every request by itself and Hub keeps the sessions: that way they outlive
// the daemon, which agents that never initialize again depend on.
type Hub struct {
	cfg   HubConfig
	http  http.Handler
	seats *seats

	mu      sync.Mutex // guards servers
	servers map[string]*mcp.Server
}

// NewHub makes the handler.
func NewHub(c HubConfig) (*Hub, error) {
	switch {
	case c.Service == nil || c.Authenticate == nil:
		return nil, errors.New("tools: HubConfig.Service and HubConfig.Authenticate are required")
	case len(c.Key) < 32:
		return nil, errors.New("tools: HubConfig.Key has less than 32 bytes")
	case c.Version == "" || c.Now == nil || c.Log == nil:
		return nil, errors.New("tools: HubConfig.Version, HubConfig.Now and HubConfig.Log are required")
	}
	h := &Hub{cfg: c, seats: newSeats(c.Key, c.Now()), servers: map[string]*mcp.Server{}}
	h.http = stateless(func(r *http.Request) *mcp.Server { return h.server(agentOf(r.Context())) }, c.Log, maxBody)
	return h, nil
}

type agentKey struct{}

func agentOf(ctx context.Context) string {
	agent, _ := ctx.Value(agentKey{}).(string)
	return agent
}

// server is the MCP server of one agent: its tools answer for that agent alone.
func (h *Hub) server(agent string) *mcp.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.servers[agent]
	if s == nil {
		s = newServer(h.cfg.Service, agent, h.cfg.Version)
		h.servers[agent] = s // as many as there are agents with a token
	}
	return s
}

// ServeHTTP serves one request. The token comes first: who has none learns nothing, not even which methods there are.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bearer, _ := auth.Bearer(r.Header.Get("Authorization"))
	token, err := h.cfg.Authenticate(r.Context(), bearer, auth.HubRead)
	if err != nil {
		refuseFault(w, err)
		return
	}
	switch r.Method {
	case http.MethodPost:
		h.post(w, r, token)
	case http.MethodDelete:
		h.seats.end(token, r.Header.Get(headerSession), h.cfg.Now())
		w.WriteHeader(http.StatusNoContent)
	default:
		// There is no stream to open: nothing here changes by itself in a way that a session could be told of.
		w.Header().Set("Allow", "POST, DELETE")
		refuse(w, http.StatusMethodNotAllowed, "method-not-allowed", "use POST")
	}
}

// Headers of the transport.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
)

func (h *Hub) post(w http.ResponseWriter, r *http.Request, token auth.Token) {
	m, ok := readMessage(w, r, maxBody)
	if !ok {
		return
	}
	switch id := r.Header.Get(headerSession); {
	case !m.batch && era.Of(m.scan, m.body, m.version) == era.Modern: // no sessions
	case !m.batch && m.scan.Kind == rpc.Request && m.scan.MethodOf(m.body) == "initialize":
		w.Header().Set(headerSession, h.seats.take(token, h.cfg.Now()))
	case id == "":
		refuse(w, http.StatusBadRequest, "session-missing", "send initialize first, and then its Mcp-Session-Id")
		return
	case !h.seats.use(token, id, h.cfg.Now()):
		refuse(w, http.StatusNotFound, "session-unknown", "there is no such session of this agent: it was ended, or another one took its place; send initialize again")
		return
	}
	pass(h.http, w, r.Clone(context.WithValue(r.Context(), agentKey{}, token.Agent)), m.body)
}

// refuseFault answers a request whose token does not count.
func refuseFault(w http.ResponseWriter, err error) {
	f := fault.From(err)
	status := http.StatusUnauthorized
	if f.Kind == fault.Denied {
		status = http.StatusForbidden
	} else {
		w.Header().Set("WWW-Authenticate", `Bearer realm="mcpx"`)
	}
	text := f.Message
	if f.Hint != "" {
		text += "; " + f.Hint
	}
	refuse(w, status, f.Code, text)
}

// refuse answers with a JSON-RPC error, which every client can show.
func refuse(w http.ResponseWriter, status int, code, text string) {
	data := append(append([]byte(`{"code":`), rpc.Quote(code)...), '}')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(rpc.ErrorResponse(nil, -32600, text, data)) // a caller that left needs no answer
}

// Handler is what serves a route. The name keeps net/http out of the packages that only join handlers.
type Handler = http.Handler

// Beside serves mcp_hub and the runtime beside the servers of the catalog.
func Beside(servers, hub, runtime Handler) Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimSuffix(r.URL.Path, "/") {
		case Path:
			hub.ServeHTTP(w, r)
		case RuntimePath:
			runtime.ServeHTTP(w, r)
		default:
			servers.ServeHTTP(w, r)
		}
	})
}

// Path is where mcp_hub is served.
const Path = "/servers/mcp_hub/mcp"

// probeWithin bounds one look at mcp_hub: it is on this machine and asks nobody.
const probeWithin = 5 * time.Second

// Probe asks the mcp_hub at a URL and says whether it let the token in; "" asks without one.
func Probe(ctx context.Context, url, token string) (in bool, err error) {
	ctx, stop := context.WithTimeout(ctx, probeWithin)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"mcpx","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`))
	if err != nil {
		return false, fault.New(fault.Internal, "probe-malformed").Saying("%q is no address", url).Because(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set(headerVersion, "2026-07-28")
	r.Header.Set("Mcp-Method", "server/discover")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return false, fault.New(fault.Unavailable, "hub-unreachable").Saying("nothing answers").Because(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxBody)) // what it says is not asked for
	return response.StatusCode == http.StatusOK, nil
}
