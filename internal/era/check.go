package era

import (
	"fmt"
	"slices"

	"mcpx/internal/rpc"
)

// Refusal is why the front answers a request itself.
type Refusal struct {
	Status  int    // HTTP status
	Code    int    // JSON-RPC error code
	Message string // for people
	Data    []byte // raw error data, nil for none
}

func mismatch(format string, args ...any) *Refusal {
	return &Refusal{Status: 400, Code: CodeHeaderMismatch, Message: fmt.Sprintf(format, args...)}
}

// CheckModern makes the checks (a) to (e) of protocol.md 3.2 in their order, which is observable: envelope, headers
// against body, version, name, removed method. supported is what this URL speaks in discover. Notifications need no
// envelope, since the revision requires it of requests only. Nil means that the message may go on.
func CheckModern(b []byte, m rpc.Message, h Headers, supported []string) *Refusal {
	version, ok := rpc.Unquote(m.Version.Of(b))
	if m.Kind == rpc.Request {
		switch caps := rpc.Find(b, m.Meta, MetaClientCapabilities); {
		case !ok:
			return incomplete(MetaProtocolVersion, "a string")
		case !caps.Ok() || b[caps.From] != '{':
			return incomplete(MetaClientCapabilities, "an object")
		}
		if info := rpc.Find(b, m.Meta, MetaClientInfo); info.Ok() && b[info.From] != '{' {
			return incomplete(MetaClientInfo, "an object when it is present")
		}
	}
	got, n := h.one(HeaderVersion)
	switch {
	case n != 1:
		return mismatch("%s must be sent exactly once, it came %d times", HeaderVersion, n)
	case ok && got != version:
		return mismatch("%s is %q, _meta says %q", HeaderVersion, got, version)
	}
	method := m.MethodOf(b)
	got, n = h.one(HeaderMethod)
	if n != 1 {
		return mismatch("%s must be sent exactly once, it came %d times", HeaderMethod, n)
	}
	if text, valid := DecodeHeader(got); !valid || text != method {
		return mismatch("%s is %q, the body has the method %q", HeaderMethod, got, method)
	}
	if !ok {
		version, _ = h.one(HeaderVersion)
	}
	if !slices.Contains(supported, version) {
		return unsupported(version, supported)
	}
	if r := checkName(b, m, h, method); r != nil {
		return r
	}
	if Removed(method) {
		return &Refusal{Status: 404, Code: CodeMethodNotFound, Message: method + " does not exist in revision " + version}
	}
	return nil
}

func incomplete(key, want string) *Refusal {
	return &Refusal{Status: 400, Code: CodeInvalidParams, Message: fmt.Sprintf("params._meta[%q] must be %s", key, want)}
}

func unsupported(version string, supported []string) *Refusal {
	data := []byte(`{"supported":[`)
	for i, v := range supported {
		if i > 0 {
			data = append(data, ',')
		}
		data = append(data, rpc.Quote(v)...)
	}
	data = append(append(data, `],"requested":`...), rpc.Quote(version)...)
	return &Refusal{
		Status: 400, Code: CodeUnsupportedVersion, Message: "protocol version " + version + " is not supported",
		Data: append(data, '}'),
	}
}

// checkName compares Mcp-Name with the body. A body without the name is the backend's to refuse.
func checkName(b []byte, m rpc.Message, h Headers, method string) *Refusal {
	at, has := nameOf(m, method)
	if !has {
		return nil
	}
	name, inBody := rpc.Unquote(at.Of(b))
	got, n := h.one(HeaderName)
	switch {
	case n > 1:
		return mismatch("%s came %d times", HeaderName, n)
	case n == 0 && inBody:
		return mismatch("%s is required for %s", HeaderName, method)
	case n == 0:
		return nil
	}
	if text, valid := DecodeHeader(got); !valid || !inBody || text != name {
		return mismatch("%s is %q, the body says %q", HeaderName, got, name)
	}
	return nil
}

// CheckLegacyVersion judges the version header of a request inside a session. Absent means the negotiated one; another
// known legacy one is accepted, because clients in the field send the one they asked for.
func CheckLegacyVersion(header, negotiated string) *Refusal {
	if header == "" || header == negotiated || IsLegacy(header) {
		return nil
	}
	return &Refusal{
		Status: 400, Code: CodeInvalidRequest,
		Message: fmt.Sprintf("%s is %q, the session negotiated %s", HeaderVersion, header, negotiated),
	}
}
