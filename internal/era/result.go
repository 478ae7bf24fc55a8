package era

import (
	"strconv"

	"mcpx/internal/rpc"
)

// cacheKeys are the caching hints of modern results.
var cacheKeys = []string{"ttlMs", "cacheScope"}

// missing is the pairs whose keys the object does not have: upgrades only add.
func missing(b []byte, obj rpc.Span, pairs ...rpc.Pair) []rpc.Pair {
	var set []rpc.Pair
	for _, p := range pairs {
		if !rpc.Find(b, obj, p.Key).Ok() {
			set = append(set, p)
		}
	}
	return set
}

// hints is the members every result of the method must have in the modern era. The gateway knows nothing about the
// lifetime of a legacy backend's lists, so it promises none.
func hints(method string) []rpc.Pair {
	set := []rpc.Pair{{Key: "resultType", Value: []byte(`"complete"`)}}
	if Cacheable(method) {
		set = append(set, rpc.Pair{Key: "ttlMs", Value: []byte("0")}, rpc.Pair{Key: "cacheScope", Value: []byte(`"private"`)})
	}
	return set
}

// upgrade is the edits that add the hints and _meta.serverInfo to a result object. serverInfo may be nil.
func upgrade(method string, b []byte, result, meta rpc.Span, serverInfo []byte) []rpc.Edit {
	set := missing(b, result, hints(method)...)
	if serverInfo == nil {
		return rpc.EditObject(b, result, nil, set...)
	}
	info := rpc.Pair{Key: MetaServerInfo, Value: serverInfo}
	if meta.Ok() {
		edits := rpc.EditObject(b, meta, nil, missing(b, meta, info)...)
		return append(edits, rpc.EditObject(b, result, nil, set...)...)
	}
	set = append(set, rpc.Pair{Key: "_meta", Value: object([]rpc.Pair{info})})
	return rpc.EditObject(b, result, nil, set...)
}

// LegacyResultToModern is a legacy backend's result with what the modern era requires: resultType, the server's
// identity from its initialize result, and caching hints on the methods that have them.
func LegacyResultToModern(method string, b []byte, m rpc.Message, serverInfo []byte) []byte {
	return splice(b, upgrade(method, b, m.Result, m.Meta, serverInfo))
}

// LegacyErrorToModern is a legacy backend's error for a modern client, and the HTTP status it is answered with. Two
// codes must not reach one and are changed whatever the method was: -32002 to -32602 that names the resource (uri is
// the raw one of the request, nil when it had none), and -32042 to -32603; what can be asked of the client has been
// taken from it before (URLElicitations).
func LegacyErrorToModern(_ string, b []byte, m rpc.Message, uri []byte) ([]byte, int) {
	code := CodeOf(b, m)
	switch code {
	case CodeResourceNotFound:
	case CodeURLElicitation:
		return rpc.Splice(b, rpc.Edit{At: m.Code, With: strconv.AppendInt(nil, CodeInternal, 10)}), ModernStatus(CodeInternal)
	default:
		return b, ModernStatus(code)
	}
	edits := []rpc.Edit{{At: m.Code, With: strconv.AppendInt(nil, CodeInvalidParams, 10)}}
	if uri != nil {
		pair := rpc.Pair{Key: "uri", Value: uri}
		if data := rpc.Find(b, m.Error, "data"); isObject(b, data) {
			edits = append(edits, rpc.EditObject(b, data, nil, missing(b, data, pair)...)...)
		} else {
			edits = append(edits, rpc.EditObject(b, m.Error, nil, rpc.Pair{Key: "data", Value: object([]rpc.Pair{pair})})...)
		}
	}
	return rpc.Splice(b, edits...), ModernStatus(CodeInvalidParams)
}

// DiscoverFromInitialize is the discover result of a legacy backend, from its raw initialize result. Core tasks cannot
// be bridged and are not promised; everything else stays, instructions and unknown members included.
func DiscoverFromInitialize(result []byte, supported []string) []byte {
	all := whole(result)
	list := []byte{'['}
	for i, v := range supported {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, rpc.Quote(v)...)
	}
	set := append(hints("server/discover"), rpc.Pair{Key: "supportedVersions", Value: append(list, ']')})
	caps := rpc.Find(result, all, "capabilities")
	if !caps.Ok() {
		set = append(set, rpc.Pair{Key: "capabilities", Value: []byte("{}")})
	}
	edits := rpc.EditObject(result, caps, []string{"tasks"})
	meta := rpc.Find(result, all, "_meta")
	if info := rpc.Find(result, all, "serverInfo"); info.Ok() {
		pair := rpc.Pair{Key: MetaServerInfo, Value: info.Of(result)}
		if isObject(result, meta) {
			edits = append(edits, rpc.EditObject(result, meta, nil, pair)...)
		} else {
			set = append(set, rpc.Pair{Key: "_meta", Value: object([]rpc.Pair{pair})})
		}
	}
	edits = append(edits, rpc.EditObject(result, all, []string{"protocolVersion", "serverInfo"}, set...)...)
	return rpc.Splice(result, edits...)
}

// unknownServer is the identity of a backend that gave none; a legacy initialize result must have one.
const unknownServer = `{"name":"unknown","version":"unknown"}`

// InitializeFromDiscover is the initialize result that a legacy client of the version gets from a modern backend, made
// from its raw discover result.
func InitializeFromDiscover(discover []byte, version string) []byte {
	all := whole(discover)
	meta := rpc.Find(discover, all, "_meta")
	info := []byte(unknownServer)
	if at := rpc.Find(discover, meta, MetaServerInfo); isObject(discover, at) {
		info = at.Of(discover)
	}
	remove := append([]string{"supportedVersions", "resultType"}, cacheKeys...)
	edits := withoutMeta(discover, all, meta, []string{MetaServerInfo}, remove...)
	edits = append(edits, rpc.EditObject(discover, rpc.Find(discover, all, "capabilities"), []string{"extensions"})...)
	b := rpc.Splice(discover, edits...)
	set := []rpc.Pair{{Key: "protocolVersion", Value: rpc.Quote(version)}, {Key: "serverInfo", Value: info}}
	if !rpc.Find(b, whole(b), "capabilities").Ok() {
		set = append(set, rpc.Pair{Key: "capabilities", Value: []byte("{}")})
	}
	b = rpc.Splice(b, rpc.EditObject(b, whole(b), nil, set...)...)
	return splice(b, downgradeResult("initialize", rank(version), b, whole(b)))
}

// ModernResultToLegacy is a modern backend's result for a legacy session of the version: without the members that
// belong to the modern era, then cut by Downgrade.
func ModernResultToLegacy(method, version string, b []byte, m rpc.Message) []byte {
	remove := []string{"resultType"}
	if Cacheable(method) {
		remove = append(remove, cacheKeys...)
	}
	b = splice(b, withoutMeta(b, m.Result, m.Meta, []string{MetaServerInfo}, remove...))
	return Downgrade(method, version, b)
}

// ModernErrorToLegacy is a modern backend's error for a legacy client: a resource that was not found has a code of its
// own there. Every other error passes.
func ModernErrorToLegacy(method string, b []byte, m rpc.Message) []byte {
	if method != "resources/read" || CodeOf(b, m) != CodeInvalidParams || !rpc.Find(b, rpc.Find(b, m.Error, "data"), "uri").Ok() {
		return b
	}
	return rpc.Splice(b, rpc.Edit{At: m.Code, With: strconv.AppendInt(nil, CodeResourceNotFound, 10)})
}
