package httpedge

import (
	"io"
	"net/http"
	"strings"

	"mcpx/internal/rpc"
)

// refuse answers with a JSON-RPC error without id. The connection ends with it: net/http would otherwise wait for the
// rest of a body that nobody wants to read before it sends the answer.
func refuse(w http.ResponseWriter, status, code int, text string) {
	w.Header().Set("Connection", "close")
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

// trustedBody is the length up to which Content-Length is believed before the bytes are there. Many connections that
// announce the limit and send nothing must not hold the memory for it.
const trustedBody = 256 << 10

// readBody reads the whole body. A body over the limit is refused with 413.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if r.ContentLength > maxBody {
		tooLarge(w)
		return nil, false
	}
	if n := r.ContentLength; n >= 0 && n <= trustedBody {
		body := make([]byte, n)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			refuse(w, http.StatusBadRequest, -32700, "the body ended early")
			return nil, false
		}
		return body, true
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || r.ContentLength > int64(len(body)) {
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
