package era

import (
	"bytes"
	"slices"

	"mcpx/internal/rpc"
)

// whole is the span of the one value in b, without the whitespace around it.
func whole(b []byte) rpc.Span {
	const space = " \t\r\n"
	from := len(b) - len(bytes.TrimLeft(b, space))
	return rpc.Span{From: from, To: max(from, len(bytes.TrimRight(b, space)))}
}

// isObject says whether the span is present and an object.
func isObject(b []byte, at rpc.Span) bool { return at.Ok() && b[at.From] == '{' }

// isArray says whether the span is present and an array.
func isArray(b []byte, at rpc.Span) bool { return at.Ok() && b[at.From] == '[' }

// splice is b with the edits applied, b itself when there are none.
func splice(b []byte, edits []rpc.Edit) []byte {
	if len(edits) == 0 {
		return b
	}
	return rpc.Splice(b, edits...)
}

// onlyHas says whether the object has members and all of them are among keys.
func onlyHas(b []byte, obj rpc.Span, keys []string) bool {
	some := false
	for m := range rpc.Members(b, obj) {
		if name, _ := rpc.Unquote(m.Key.Of(b)); !slices.Contains(keys, name) {
			return false
		}
		some = true
	}
	return some
}

// withoutMeta is the edits that remove members from outer, and keys from its member _meta; an emptied _meta goes too.
func withoutMeta(b []byte, outer, meta rpc.Span, keys []string, remove ...string) []rpc.Edit {
	if onlyHas(b, meta, keys) {
		return rpc.EditObject(b, outer, append(remove, "_meta"))
	}
	return append(rpc.EditObject(b, outer, remove), rpc.EditObject(b, meta, keys)...)
}

// envelopeKeys are the members of params._meta that make a request modern.
var envelopeKeys = []string{MetaProtocolVersion, MetaClientInfo, MetaClientCapabilities, MetaLogLevel}

// ClientCapabilities is the raw capabilities of a modern request's envelope, nil without any.
func ClientCapabilities(b []byte, m rpc.Message) []byte {
	at := rpc.Find(b, m.Meta, MetaClientCapabilities)
	if !isObject(b, at) {
		return nil
	}
	return at.Of(b)
}

// LegacyCapabilities is the capabilities with which a legacy backend is initialised for this modern request: those of
// its envelope without extensions, which no legacy revision can negotiate. It shares no memory with b.
func LegacyCapabilities(b []byte, m rpc.Message) []byte {
	caps := ClientCapabilities(b, m)
	if caps == nil {
		return []byte("{}")
	}
	return rpc.Splice(caps, rpc.EditObject(caps, whole(caps), []string{"extensions"})...)
}

// LogLevel is the log level a modern request set for itself.
func LogLevel(b []byte, m rpc.Message) (string, bool) {
	return rpc.Unquote(rpc.Find(b, m.Meta, MetaLogLevel).Of(b))
}

// Envelope is what a legacy session adds to each of its requests towards a modern backend.
type Envelope struct {
	Params   []byte // raw params of the session's initialize
	LogLevel string // stored by logging/setLevel, "" for none
}

// pairs is the envelope as members of _meta. Core tasks, roots.listChanged and extensions are not declared: the
// bridge cannot serve what they promise (protocol.md 5.4).
func (e Envelope) pairs() []rpc.Pair {
	set := []rpc.Pair{{Key: MetaProtocolVersion, Value: rpc.Quote(V20260728)}}
	all := whole(e.Params)
	if info := rpc.Find(e.Params, all, "clientInfo"); isObject(e.Params, info) {
		set = append(set, rpc.Pair{Key: MetaClientInfo, Value: info.Of(e.Params)})
	}
	caps := []byte("{}")
	if at := rpc.Find(e.Params, all, "capabilities"); isObject(e.Params, at) {
		caps = at.Of(e.Params)
		edits := rpc.EditObject(caps, whole(caps), []string{"tasks", "extensions"})
		edits = append(edits, rpc.EditObject(caps, rpc.Find(caps, whole(caps), "roots"), []string{"listChanged"})...)
		caps = rpc.Splice(caps, edits...)
	}
	set = append(set, rpc.Pair{Key: MetaClientCapabilities, Value: caps})
	if e.LogLevel != "" {
		set = append(set, rpc.Pair{Key: MetaLogLevel, Value: rpc.Quote(e.LogLevel)})
	}
	return set
}

// object is the pairs as a raw object.
func object(set []rpc.Pair) []byte {
	empty := []byte("{}")
	return rpc.Splice(empty, rpc.EditObject(empty, whole(empty), nil, set...)...)
}

// LegacyToModern is a legacy request with the envelope of its session added to params._meta.
func LegacyToModern(b []byte, m rpc.Message, e Envelope) []byte {
	set := e.pairs()
	switch {
	case m.Meta.Ok():
		return rpc.Splice(b, rpc.EditObject(b, m.Meta, nil, set...)...)
	case isObject(b, m.Params):
		return rpc.Splice(b, rpc.EditObject(b, m.Params, nil, rpc.Pair{Key: "_meta", Value: object(set)})...)
	}
	params := object([]rpc.Pair{{Key: "_meta", Value: object(set)}}) // missing, or null as some clients send it
	return rpc.Splice(b, rpc.EditObject(b, whole(b), nil, rpc.Pair{Key: "params", Value: params})...)
}

// ModernToLegacy is a modern request without its envelope. An empty _meta goes too. So do the answers and the state
// of a retry: the gateway has used them, and no legacy backend asked for them.
func ModernToLegacy(b []byte, m rpc.Message) []byte {
	var remove []string
	if AsksForInput(m.MethodOf(b)) {
		remove = []string{"inputResponses", "requestState"}
	}
	return splice(b, withoutMeta(b, m.Params, m.Meta, envelopeKeys, remove...))
}
