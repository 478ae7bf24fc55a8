package bridge

import (
	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// modernHeaders are the headers that a 2026-07-28 message must have over HTTP, computed from its body. The parameters
// of tools have none: only the daemon knows the schemas, and for a bridge it does not ask for them.
func modernHeaders(line []byte, m rpc.Message) map[string]string {
	h := era.HeadersFor(line, m, nil)
	if h == nil {
		h = make(map[string]string, 1)
	}
	if version, ok := rpc.Unquote(m.Version.Of(line)); ok {
		h[era.HeaderVersion] = version
	}
	return h
}
