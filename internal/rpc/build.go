package rpc

import "strconv"

const opening = `{"jsonrpc":"2.0"`

// ErrorResponse is an error message. id and data are raw tokens; a nil id is left out, which is how the MCP schema
// writes an error that belongs to no readable request, and a nil data is left out too.
func ErrorResponse(id []byte, code int, message string, data []byte) []byte {
	b := make([]byte, 0, 64+len(id)+len(message)+len(data))
	b = append(b, opening...)
	b = appendMember(b, "id", id)
	b = append(b, `,"error":{"code":`...)
	b = strconv.AppendInt(b, int64(code), 10)
	b = append(b, `,"message":`...)
	b = appendQuoted(b, message)
	b = appendMember(b, "data", data)
	return append(b, '}', '}')
}

// ResultResponse is a result message; both arguments are raw tokens.
func ResultResponse(id, result []byte) []byte {
	b := make([]byte, 0, 40+len(id)+len(result))
	b = append(b, opening...)
	b = appendMember(b, "id", id)
	b = appendMember(b, "result", result)
	return append(b, '}')
}

// RequestMessage is a request; id and params are raw tokens, nil params are left out.
func RequestMessage(id []byte, method string, params []byte) []byte {
	b := make([]byte, 0, 64+len(id)+len(method)+len(params))
	b = append(b, opening...)
	b = appendMember(b, "id", id)
	b = append(b, `,"method":`...)
	b = appendQuoted(b, method)
	b = appendMember(b, "params", params)
	return append(b, '}')
}

// NotificationMessage is a notification; nil params are left out.
func NotificationMessage(method string, params []byte) []byte {
	return RequestMessage(nil, method, params)
}

func appendMember(b []byte, key string, value []byte) []byte {
	if value == nil {
		return b
	}
	b = append(append(b, ',', '"'), key...)
	return append(append(b, '"', ':'), value...)
}
