package era

import (
	"slices"
	"strconv"

	"mcpx/internal/rpc"
)

// The published revisions. The first four are legacy: an initialize handshake opens a session.
const (
	V20241105 = "2024-11-05"
	V20250326 = "2025-03-26"
	V20250618 = "2025-06-18"
	V20251125 = "2025-11-25"
	V20260728 = "2026-07-28" // modern: every request carries its own metadata
)

// LegacyNewest is the revision the gateway itself asks for in a handshake, and the cap of what it answers to one.
const LegacyNewest = V20251125

// Keys of _meta that carry the modern envelope and its counterparts.
const (
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
)

// Codes of the protocol that the gateway itself answers with or maps.
const (
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
	CodeResourceNotFound   = -32002 // legacy only
	CodeURLElicitation     = -32042 // 2025-11-25 only
)

// Supported is every revision the gateway speaks, newest first. It is read only.
var Supported = []string{V20260728, V20251125, V20250618, V20250326, V20241105}

// rank orders the known revisions from 0; -1 is an unknown one.
func rank(version string) int {
	switch version {
	case V20241105:
		return 0
	case V20250326:
		return 1
	case V20250618:
		return 2
	case V20251125:
		return 3
	case V20260728:
		return 4
	}
	return -1
}

// Known says whether version is a published revision.
func Known(version string) bool { return rank(version) >= 0 }

// IsLegacy says whether version is a published revision with a handshake.
func IsLegacy(version string) bool { return Known(version) && rank(version) < rank(V20260728) }

// Era is which of the two protocol families a request belongs to.
type Era string

// The eras.
const (
	Legacy Era = "legacy"
	Modern Era = "modern"
)

// Of is the era of one POSTed message (protocol.md 3.1). The envelope decides first, whatever session header came
// along; then a MCP-Protocol-Version header of the modern family, which makes the message modern and incomplete.
func Of(m rpc.Message, b []byte, headerVersion string) Era {
	if m.Method.Ok() && m.Version.Ok() {
		return Modern
	}
	if isDate(headerVersion) && headerVersion >= V20260728 {
		return Modern
	}
	return Legacy
}

// isDate says whether v has the form of a revision, so that an odd string such as "v999" does not sort as newer.
func isDate(v string) bool {
	if len(v) != len(V20260728) {
		return false
	}
	for i, c := range []byte(v) {
		if dash := i == 4 || i == 7; dash != (c == '-') || !dash && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// Cacheable says whether results of the method carry ttlMs and cacheScope in the modern era.
func Cacheable(method string) bool {
	switch method {
	case "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read":
		return true
	}
	return false
}

// AsksForInput says whether the method may be answered with input_required (protocol.md section 2, MRTR).
func AsksForInput(method string) bool {
	switch method {
	case "tools/call", "prompts/get", "resources/read":
		return true
	}
	return false
}

// Removed says whether the method exists in the legacy era only. The gateway answers these itself: a dual-era child
// that sees initialize may switch its whole process to legacy (protocol.md 3.2 e).
func Removed(method string) bool {
	switch method {
	case "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		return true
	}
	return false
}

// ModernStatus is the HTTP status of a modern response that carries this error code of a backend.
func ModernStatus(code int) int {
	switch code {
	case CodeHeaderMismatch, CodeMissingCapability, CodeUnsupportedVersion:
		return 400
	case CodeMethodNotFound:
		return 404
	}
	return 200
}

// CodeOf is the error code of an error message, 0 when it has none or one that is no integer.
func CodeOf(b []byte, m rpc.Message) int {
	code, err := strconv.Atoi(string(m.Code.Of(b)))
	if err != nil {
		return 0
	}
	return code
}

// CutVersions is b with the versions of a discover result, or of an error -32022, cut to those the gateway speaks.
// Their order stays. It returns b itself when nothing has to go.
func CutVersions(b []byte, m rpc.Message) []byte {
	var list rpc.Span
	switch m.Kind {
	case rpc.Result:
		list = rpc.Find(b, m.Result, "supportedVersions")
	case rpc.Error:
		if CodeOf(b, m) == CodeUnsupportedVersion {
			list = rpc.Find(b, rpc.Find(b, m.Error, "data"), "supported")
		}
	case rpc.Request, rpc.Notification:
	}
	kept, cut := []byte{'['}, false
	for e := range rpc.Elements(b, list) {
		if v, ok := rpc.Unquote(e.Of(b)); !ok || !slices.Contains(Supported, v) {
			cut = true
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(kept, e.Of(b)...)
	}
	if !cut {
		return b
	}
	return rpc.Splice(b, rpc.Edit{At: list, With: append(kept, ']')})
}
