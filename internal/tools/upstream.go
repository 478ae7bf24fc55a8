package tools

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpx/internal/era"
	"mcpx/internal/operation"
	"mcpx/internal/rpc"
)

// Results of other servers' tools are passed on as they are. The types of the SDK would lose what they do not know: content
// of other types, members, large integers. So the SDK answers with a mark, and the result takes the place of what it wrote.

const (
	// operationMeta is where mcpx says what it has to say beside such a result.
	operationMeta = "mcpx/operation"
	// markMeta holds the mark while a result is on its way.
	markMeta = "mcpx/upstream"
	// usualVersion is the revision of a client that names none.
	usualVersion = "2025-03-26"
)

// upstream collects the results that the answers of one request are waiting for.
type upstream struct {
	mu      sync.Mutex // guards answers: the calls of a batch run at the same time
	answers []operation.Answer
}

// hold takes an answer and gives what stands for it.
func (u *upstream) hold(a operation.Answer) *mcp.CallToolResult {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answers = append(u.answers, a)
	return &mcp.CallToolResult{Meta: mcp.Meta{markMeta: strconv.Itoa(len(u.answers) - 1)}, Content: []mcp.Content{}}
}

// held is a response that is not written yet.
type held struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (h *held) WriteHeader(status int)      { h.status = status }
func (h *held) Write(p []byte) (int, error) { return h.body.Write(p) }

// send writes a response with the results in their places.
func (u *upstream) send(h *held, version string) error {
	body := h.body.Bytes()
	if len(u.answers) > 0 {
		var err error
		if body, err = u.placed(body, version); err != nil {
			return err
		}
	}
	h.Header().Del("Content-Length")
	if h.status != 0 {
		h.ResponseWriter.WriteHeader(h.status)
	}
	_, err := h.ResponseWriter.Write(body)
	return err
}

// placed puts the results into the messages of a response.
func (u *upstream) placed(body []byte, version string) ([]byte, error) {
	if !rpc.IsBatch(body) {
		return u.message(body, version)
	}
	spans, err := rpc.Batch(body)
	if err != nil {
		return nil, err
	}
	var edits []rpc.Edit
	for _, at := range spans {
		one, err := u.message(at.Of(body), version)
		if err != nil {
			return nil, err
		}
		edits = append(edits, rpc.Edit{At: at, With: one})
	}
	return rpc.Splice(body, edits...), nil
}

// message is one response; what has no mark stays as it is.
func (u *upstream) message(body []byte, version string) ([]byte, error) {
	m, err := rpc.Scan(body)
	if err != nil {
		return nil, err
	}
	meta := rpc.Find(body, m.Result, "_meta")
	mark, ok := rpc.Unquote(rpc.Find(body, meta, markMeta).Of(body))
	n, err := strconv.Atoi(mark)
	if !ok || err != nil || n < 0 || n >= len(u.answers) {
		return body, nil
	}
	a := u.answers[n]
	result := []byte(a.Upstream)
	a.Upstream = nil
	beside, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	set := []rpc.Pair{{Key: operationMeta, Value: beside}}
	for own := range rpc.Members(body, meta) { // what the SDK says about the response
		if name, ok := rpc.Unquote(own.Key.Of(body)); ok && name != markMeta {
			set = append(set, rpc.Pair{Key: name, Value: own.Value.Of(body)})
		}
	}
	body = rpc.Splice(body, rpc.Edit{At: m.Result, With: withMeta(result, set)})
	if m, err = rpc.Scan(body); err != nil {
		return nil, err
	}
	if version >= era.V20260728 {
		return era.LegacyResultToModern("tools/call", body, m, nil), nil
	}
	return era.ModernResultToLegacy("tools/call", version, body, m), nil
}

// withMeta sets members of the _meta of a result.
func withMeta(result []byte, set []rpc.Pair) []byte {
	whole := rpc.Span{To: len(result)}
	if meta := rpc.Find(result, whole, "_meta"); meta.Ok() && result[meta.From] == '{' {
		return rpc.Splice(result, rpc.EditObject(result, meta, nil, set...)...)
	}
	empty := []byte("{}")
	meta := rpc.Splice(empty, rpc.EditObject(empty, rpc.Span{To: 2}, nil, set...)...)
	return rpc.Splice(result, rpc.EditObject(result, whole, nil, rpc.Pair{Key: "_meta", Value: meta})...)
}
