package bridge

import (
	"encoding/base64"
	"strings"

	"mcpx/internal/rpc"
)

// modernHeaders are the headers that a 2026-07-28 message must have over HTTP, computed from its body.
func modernHeaders(line []byte, m rpc.Message) map[string]string {
	h := map[string]string{}
	if version, ok := rpc.Unquote(m.Version.Of(line)); ok {
		h[headerVersion] = version
	}
	if method := m.MethodOf(line); method != "" {
		h["Mcp-Method"] = headerValue(method)
		source := rpc.Span{}
		switch method {
		case "tools/call", "prompts/get":
			source = m.Name
		case "resources/read":
			source = m.URI
		case "tasks/get", "tasks/update", "tasks/cancel":
			source = m.TaskID
		}
		if name, ok := rpc.Unquote(source.Of(line)); ok {
			h["Mcp-Name"] = headerValue(name)
		}
	}
	return h
}

func headerValue(s string) string {
	plain := s == strings.TrimSpace(s) && !strings.HasPrefix(s, "=?base64?")
	for _, c := range []byte(s) {
		plain = plain && c >= ' ' && c < 0x7f
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}
