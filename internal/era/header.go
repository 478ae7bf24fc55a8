package era

import (
	"encoding/base64"
	"strings"

	"mcpx/internal/rpc"
)

// Names of the protocol headers.
const (
	HeaderVersion     = "MCP-Protocol-Version"
	HeaderMethod      = "Mcp-Method"
	HeaderName        = "Mcp-Name"
	HeaderParamPrefix = "Mcp-Param-"
)

const (
	sentinelOpen  = "=?base64?"
	sentinelClose = "?="
)

// Headers gives all values of a header, like http.Header.Values. Names compare without regard to case.
type Headers func(name string) []string

// one is the single value of a header without outer whitespace. Two values are refused by the caller: hops disagree
// on which one counts.
func (h Headers) one(name string) (value string, n int) {
	values := h(name)
	if len(values) != 1 {
		return "", len(values)
	}
	return strings.Trim(values[0], " \t"), 1
}

// EncodeHeader is s as a header value. What a header cannot carry, or what would be read as something else, is put in
// the base64 sentinel of SEP-2243; the empty string too, because some hops drop a header without a value.
func EncodeHeader(s string) string {
	if plain(s) {
		return s
	}
	return sentinelOpen + base64.StdEncoding.EncodeToString([]byte(s)) + sentinelClose
}

func plain(s string) bool {
	if s == "" || isSentinel(s) {
		return false
	}
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return s[0] != ' ' && s[len(s)-1] != ' '
}

func isSentinel(s string) bool {
	return len(s) >= len(sentinelOpen)+len(sentinelClose) &&
		strings.HasPrefix(s, sentinelOpen) && strings.HasSuffix(s, sentinelClose)
}

// DecodeHeader is the text a header value stands for: outer whitespace trimmed, the sentinel decoded with strict
// padding. False when a sentinel holds no valid base64.
func DecodeHeader(value string) (string, bool) {
	value = strings.Trim(value, " \t")
	if !isSentinel(value) {
		return value, true
	}
	inner := value[len(sentinelOpen) : len(value)-len(sentinelClose)]
	if strings.ContainsAny(inner, "\r\n") { // the decoder skips them
		return "", false
	}
	text, err := base64.StdEncoding.Strict().DecodeString(inner)
	return string(text), err == nil
}

// nameOf is the span that Mcp-Name repeats for the method, and whether the method has one.
func nameOf(m rpc.Message, method string) (rpc.Span, bool) {
	switch method {
	case "tools/call", "prompts/get":
		return m.Name, true
	case "resources/read":
		return m.URI, true
	case "tasks/get", "tasks/update", "tasks/cancel":
		return m.TaskID, true
	}
	return rpc.Span{}, false
}

// HeadersFor is the headers of a modern request or notification towards an HTTP backend, computed from its body:
// Mcp-Method, Mcp-Name and the Mcp-Param-* of params. MCP-Protocol-Version is the transport's.
func HeadersFor(b []byte, m rpc.Message, params []ParamHeader) map[string]string {
	method := m.MethodOf(b)
	if method == "" {
		return nil
	}
	h := ParamValues(b, m, params)
	if h == nil {
		h = make(map[string]string, 2)
	}
	h[HeaderMethod] = EncodeHeader(method)
	if at, has := nameOf(m, method); has {
		if name, ok := rpc.Unquote(at.Of(b)); ok {
			h[HeaderName] = EncodeHeader(name)
		}
	}
	return h
}
