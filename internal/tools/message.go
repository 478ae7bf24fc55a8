package tools

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpx/internal/rpc"
)

// stateless is the SDK's handler for servers whose transport sessions hold nothing. A request has at most so many bytes.
func stateless(server func(*http.Request) *mcp.Server, log *slog.Logger, most int64) http.Handler {
	return mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, Logger: log, MaxRequestBodyBytes: most,
		DisableLocalhostProtection: true, // the listener has checked Host and Origin, and lets configured names in
	})
}

// message is the body of a request that is well formed.
type message struct {
	version string // revision that the request names, "" for none
	body    []byte
	batch   bool        // several messages: scan says nothing about them
	scan    rpc.Message // of a single one
}

// readMessage reads a request of at most so many bytes. It answers one that cannot be read, and says false then.
func readMessage(w http.ResponseWriter, r *http.Request, most int64) (m message, ok bool) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "content-type", "Content-Type must be application/json")
		return m, false
	}
	m.version = r.Header.Get(headerVersion)
	if m.version != "" && !slices.Contains(mcp.SupportedProtocolVersions(), m.version) {
		refuse(w, http.StatusBadRequest, "version-unknown", "this revision is not served; these are: "+strings.Join(mcp.SupportedProtocolVersions(), ", "))
		return m, false
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	if err != nil || int64(len(body)) > most {
		refuse(w, http.StatusRequestEntityTooLarge, "request-too-large", fmt.Sprintf("a request has at most %d MiB", most>>20))
		return m, false
	}
	m.body, m.batch = body, rpc.IsBatch(body)
	if m.scan, err = rpc.Scan(body); err != nil && !m.batch {
		refuse(w, http.StatusBadRequest, "no-json-rpc", "the body is no JSON-RPC message")
		return m, false
	}
	return m, true
}

// pass hands a request to the SDK with the body that was read, and without what only we understand. It may change r.
func pass(sdk http.Handler, w http.ResponseWriter, r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.Header.Del(headerSession)
	r.Header.Set("Accept", "application/json, text/event-stream") // the answer is JSON, whatever else the client can read
	sdk.ServeHTTP(w, r)
}
