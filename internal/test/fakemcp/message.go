package fakemcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"mcpx/internal/lazyregexp"
)

// message is one line as it came, with its members as raw bytes. Keys keep their case: "Method" is not "method".
type message struct {
	raw    []byte
	top    map[string]json.RawMessage
	params map[string]json.RawMessage
	meta   map[string]json.RawMessage
}

func parse(line []byte) (message, error) {
	m := message{raw: line}
	if err := json.Unmarshal(line, &m.top); err != nil {
		return m, err
	}
	// params and _meta may be absent or of another type: then they have no members.
	_ = json.Unmarshal(m.top["params"], &m.params)
	_ = json.Unmarshal(m.params["_meta"], &m.meta)
	return m, nil
}

func (m message) id() string     { return string(m.top["id"]) }
func (m message) method() string { return text(m.top["method"]) }

// token is the raw progress token, "" without one.
func (m message) token() string { return string(m.meta["progressToken"]) }

// modern says whether the request carries an envelope of 2026-07-28.
func (m message) modern() bool {
	return text(m.meta["io.modelcontextprotocol/protocolVersion"]) >= "2026-07-28"
}

// declares says whether the client declared the extension in this request's envelope.
func (m message) declares(extension string) bool {
	var caps struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	_ = json.Unmarshal(m.meta["io.modelcontextprotocol/clientCapabilities"], &caps)
	_, ok := caps.Extensions[extension]
	return ok
}

// arg decodes one argument of a tool call into out; an absent one leaves out as it is.
func (m message) arg(name string, out any) error {
	var args map[string]json.RawMessage
	if err := json.Unmarshal(m.params["arguments"], &args); err != nil || args[name] == nil {
		return err
	}
	return json.Unmarshal(args[name], out)
}

func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// quote is text as a JSON string.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return string(b)
}

var padding = lazyregexp.New(`@PAD:(\d+)@`)

// fill replaces the holes of a raw line: @ID@ and @TOKEN@ are the tokens of the request byte for byte, @PAD:n@ is n
// times the letter x, @LF@ a line feed in the middle of the line, @FF@ the byte 0xff, which is never valid UTF-8.
func (m message) fill(line string) []byte {
	out := strings.NewReplacer("@ID@", m.id(), "@TOKEN@", m.token(), "@LF@", "\n", "@FF@", "\xff").Replace(line)
	if !strings.Contains(out, "@PAD:") {
		return []byte(out)
	}
	return padding().ReplaceAllFunc([]byte(out), func(hole []byte) []byte {
		n, err := strconv.Atoi(string(padding().FindSubmatch(hole)[1]))
		if err != nil {
			panic(fmt.Sprintf("fakemcp: %s: %v", hole, err))
		}
		return bytes.Repeat([]byte("x"), n)
	})
}

// code is the raw code of an error, "" for anything else.
func (m message) code() string {
	var e map[string]json.RawMessage
	if json.Unmarshal(m.top["error"], &e) != nil {
		return ""
	}
	return string(e["code"])
}

// sentinel decodes a header value of the form =?base64?…?=, "" for any other.
func sentinel(value string) string {
	inner, ok := strings.CutPrefix(value, "=?base64?")
	inner, ok2 := strings.CutSuffix(inner, "?=")
	if !ok || !ok2 {
		return ""
	}
	b, err := base64.StdEncoding.DecodeString(inner)
	if err != nil {
		return ""
	}
	return string(b)
}
