package era

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"mcpx/internal/rpc"
)

// InputRequest is one entry of an input_required result: a question to the client.
type InputRequest struct {
	Key    string // the server's name for it
	Method string // elicitation/create, sampling/createMessage or roots/list
	Params []byte // raw; nil for none
}

// InputAnswer is the client's answer to one of them.
type InputAnswer struct {
	Key   string
	Value []byte // raw result
}

// InputRequired is the raw input_required result that asks the requests, in their order. state is the raw requestState
// (a JSON string), nil for none. elicitationId does not exist in the modern era and is removed.
func InputRequired(requests []InputRequest, state []byte) []byte {
	asked := make([]rpc.Pair, 0, len(requests))
	for _, r := range requests {
		entry := []rpc.Pair{{Key: "method", Value: rpc.Quote(r.Method)}}
		if r.Params != nil {
			params := r.Params
			if r.Method == "elicitation/create" {
				params = splice(params, rpc.EditObject(params, whole(params), []string{"elicitationId"}))
			}
			entry = append(entry, rpc.Pair{Key: "params", Value: params})
		}
		asked = append(asked, rpc.Pair{Key: r.Key, Value: object(entry)})
	}
	set := []rpc.Pair{{Key: "resultType", Value: []byte(`"input_required"`)}, {Key: "inputRequests", Value: object(asked)}}
	if state != nil {
		set = append(set, rpc.Pair{Key: "requestState", Value: state})
	}
	return object(set)
}

// URLElicitations is the questions of a legacy error -32042, with the keys r1, r2 and so on; nil for any other error.
func URLElicitations(b []byte, m rpc.Message) []InputRequest {
	if CodeOf(b, m) != CodeURLElicitation {
		return nil
	}
	var requests []InputRequest
	for e := range rpc.Elements(b, rpc.Find(b, rpc.Find(b, m.Error, "data"), "elicitations")) {
		if isObject(b, e) {
			requests = append(requests, InputRequest{
				Key: "r" + strconv.Itoa(len(requests)+1), Method: "elicitation/create", Params: e.Of(b),
			})
		}
	}
	return requests
}

// InputRequests is the questions of a modern input_required result in their order, and its raw requestState, nil for
// none. Entries without a method are left out; the server then misses their answer and says so.
func InputRequests(b []byte, m rpc.Message) (requests []InputRequest, state []byte) {
	for e := range rpc.Members(b, rpc.Find(b, m.Result, "inputRequests")) {
		key, _ := rpc.Unquote(e.Key.Of(b))
		method, ok := rpc.Unquote(rpc.Find(b, e.Value, "method").Of(b))
		if !ok {
			continue
		}
		r := InputRequest{Key: key, Method: method}
		if params := rpc.Find(b, e.Value, "params"); isObject(b, params) {
			r.Params = params.Of(b)
		}
		requests = append(requests, r)
	}
	return requests, rpc.Find(b, m.Result, "requestState").Of(b)
}

// InputResponse is the raw answer that a modern retry gives to the question with this key, nil for none.
func InputResponse(b []byte, m rpc.Message, key string) []byte {
	return rpc.Find(b, rpc.Find(b, m.Params, "inputResponses"), key).Of(b)
}

// RequestState is the decoded state that a modern retry returns. False when the request is no retry, or its state is
// not a string.
func RequestState(b []byte, m rpc.Message) (string, bool) {
	if !AsksForInput(m.MethodOf(b)) {
		return "", false
	}
	return rpc.Unquote(rpc.Find(b, m.Params, "requestState").Of(b))
}

// Retry is the modern request b once more, with the answers and exactly the state the server gave; a nil state removes
// that of an earlier round.
func Retry(b []byte, m rpc.Message, answers []InputAnswer, state []byte) []byte {
	given := make([]rpc.Pair, 0, len(answers))
	for _, a := range answers {
		given = append(given, rpc.Pair{Key: a.Key, Value: a.Value})
	}
	set := []rpc.Pair{{Key: "inputResponses", Value: object(given)}}
	var remove []string
	if state != nil {
		set = append(set, rpc.Pair{Key: "requestState", Value: state})
	} else {
		remove = []string{"requestState"}
	}
	return rpc.Splice(b, rpc.EditObject(b, m.Params, remove, set...)...)
}

// DowngradeAsk is the raw params of a modern question as a request to a legacy client of the version. 2025-11-25
// requires an elicitationId in url mode; it is derived from the question, so that the same question asked again has
// the same one. Older clients know one content block for a sampling message, not a list. nil params stay nil.
func DowngradeAsk(method, version string, params []byte) []byte {
	all := whole(params)
	switch method {
	case "elicitation/create":
		mode, _ := rpc.Unquote(rpc.Find(params, all, "mode").Of(params))
		if mode != "url" || version != V20251125 || rpc.Find(params, all, "elicitationId").Ok() {
			return params
		}
		sum := sha256.Sum256(params)
		id := rpc.Quote("mcpx-" + hex.EncodeToString(sum[:12]))
		return rpc.Splice(params, rpc.EditObject(params, all, nil, rpc.Pair{Key: "elicitationId", Value: id})...)
	case "sampling/createMessage":
		if rank(version) >= rank(V20251125) {
			return params
		}
		var edits []rpc.Edit
		for msg := range rpc.Elements(params, rpc.Find(params, all, "messages")) {
			list := rpc.Find(params, msg, "content")
			if one, single := only(params, list); single {
				edits = append(edits, rpc.Edit{At: list, With: one.Of(params)})
			}
		}
		return splice(params, edits)
	}
	return params
}

// only is the single element of an array.
func only(b []byte, list rpc.Span) (rpc.Span, bool) {
	var one rpc.Span
	n := 0
	for e := range rpc.Elements(b, list) {
		one = e
		n++
	}
	return one, n == 1
}
