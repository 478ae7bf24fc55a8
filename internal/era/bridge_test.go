package era

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/rpc"
)

// wrap writes a result, params or error as a message of its own; the unknown member must survive every bridge.
func wrap(member, value string) string {
	if member == "result" || member == "error" {
		return `{"jsonrpc":"2.0", "zz":1.10,"id":"q\u0062","` + member + `":` + value + `}`
	}
	return `{"jsonrpc":"2.0", "zz":1.10,"id":"q\u0062","method":"` + member + `","params":` + value + `}`
}

func same(t *testing.T, name string, want, got string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s:\n%s", name, d)
	}
}

// Rows of protocol.md 5.3.

func TestModernToLegacy(t *testing.T) {
	const version, info, caps, level = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"io.modelcontextprotocol/clientInfo":{"name":"c"}`, `"io.modelcontextprotocol/clientCapabilities":{"a":{}}`, `"io.modelcontextprotocol/logLevel":"info"`
	envelope := strings.Join([]string{version, info, caps, level}, ",")
	for name, c := range map[string]struct{ method, in, want string }{
		"only envelope":        {"tools/list", `{"cursor":"","_meta":{` + envelope + `}}`, `{"cursor":""}`},
		"nothing else":         {"tools/list", `{"_meta":{` + envelope + `}}`, `{}`},
		"other keys stay":      {"tools/call", `{ "name":"a" , "_meta":{"progressToken": 7,` + envelope + `, "traceparent":"t"}, "x":[1e3] }`, `{ "name":"a" , "_meta":{"progressToken": 7, "traceparent":"t"}, "x":[1e3] }`},
		"scattered":            {"tools/call", `{"_meta":{` + version + `,"a":1,` + caps + `,"b":2,` + info + `}}`, `{"_meta":{"a":1,"b":2}}`},
		"arguments stay":       {"tools/call", `{"name":"a","arguments":{"_meta":{` + version + `}},"_meta":{` + version + `}}`, `{"name":"a","arguments":{"_meta":{` + version + `}}}`},
		"answers of a retry":   {"tools/call", `{"inputResponses":{"r1":{}},"name":"a","requestState":"s","_meta":{` + version + `}}`, `{"name":"a"}`},
		"no retry there":       {"x/y", `{"inputResponses":1,"requestState":"s"}`, `{"inputResponses":1,"requestState":"s"}`},
		"without any envelope": {"tools/list", `{"_meta":{}}`, `{"_meta":{}}`},
	} {
		b, m := scan(t, wrap(c.method, c.in))
		same(t, name, wrap(c.method, c.want), string(ModernToLegacy(b, m)))
	}
	b, m := scan(t, wrap("tools/call", `{"_meta":{`+level+`,"io.modelcontextprotocol/clientCapabilities":{"roots":{},"extensions":{"x":{}},"elicitation":{"url":{}}}}}`))
	same(t, "lane capabilities", `{"roots":{},"elicitation":{"url":{}}}`, string(LegacyCapabilities(b, m)))
	same(t, "capabilities", `{"roots":{},"extensions":{"x":{}},"elicitation":{"url":{}}}`, string(ClientCapabilities(b, m)))
	if got, ok := LogLevel(b, m); !ok || got != "info" {
		t.Errorf("log level %q, %v", got, ok)
	}
	b, m = scan(t, wrap("tools/call", `{}`))
	same(t, "no capabilities", `{}`, string(LegacyCapabilities(b, m)))
	if _, ok := LogLevel(b, m); ok || ClientCapabilities(b, m) != nil {
		t.Error("found an envelope that is not there")
	}
}

func TestLegacyResultToModern(t *testing.T) {
	const server = `{"name":"s","version":"1"}`
	const info = `"io.modelcontextprotocol/serverInfo":` + server
	for name, c := range map[string]struct{ method, in, want string }{
		"call":            {"tools/call", `{"content":[],"n":9007199254740993}`, `{"content":[],"n":9007199254740993,"resultType":"complete","_meta":{` + info + `}}`},
		"list":            {"tools/list", `{ "tools":[] }`, `{ "tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{` + info + `} }`},
		"read":            {"resources/read", `{}`, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{` + info + `}}`},
		"templates":       {"resources/templates/list", `{}`, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{` + info + `}}`},
		"completion":      {"completion/complete", `{}`, `{"resultType":"complete","_meta":{` + info + `}}`},
		"meta stays":      {"prompts/get", `{"_meta":{"k":1},"z":2}`, `{"_meta":{"k":1,` + info + `},"z":2,"resultType":"complete"}`},
		"meta last":       {"prompts/get", `{"z":2,"_meta":{}}`, `{"z":2,"_meta":{` + info + `},"resultType":"complete"}`},
		"null meta":       {"prompts/get", `{"_meta":null}`, `{"_meta":{` + info + `},"resultType":"complete"}`},
		"only adds":       {"tools/list", `{"resultType":"x","ttlMs":5,"_meta":{"io.modelcontextprotocol/serverInfo":{}}}`, `{"resultType":"x","ttlMs":5,"_meta":{"io.modelcontextprotocol/serverInfo":{}},"cacheScope":"private"}`},
		"not an object":   {"tools/call", `null`, `null`},
		"prompts list":    {"prompts/list", `{"resultType":"complete","ttlMs":1,"cacheScope":"public","_meta":{` + info + `}}`, `{"resultType":"complete","ttlMs":1,"cacheScope":"public","_meta":{` + info + `}}`},
		"resources lists": {"resources/list", `{"nextCursor":""}`, `{"nextCursor":"","resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{` + info + `}}`},
	} {
		b, m := scan(t, wrap("result", c.in))
		same(t, name, wrap("result", c.want), string(LegacyResultToModern(c.method, b, m, []byte(server))))
	}
	b, m := scan(t, wrap("result", `{}`))
	same(t, "no identity", wrap("result", `{"resultType":"complete"}`), string(LegacyResultToModern("tools/call", b, m, nil)))
}

func TestLegacyErrorToModern(t *testing.T) {
	for name, c := range map[string]struct {
		in, uri, want string
		status        int
	}{
		"not found":        {`{"code":-32002,"message":"gone"}`, `"f:a"`, `{"code":-32602,"message":"gone","data":{"uri":"f:a"}}`, 200},
		"with data":        {`{"data":{"k":1},"code":-32002,"message":"gone"}`, `"f:a"`, `{"data":{"k":1,"uri":"f:a"},"code":-32602,"message":"gone"}`, 200},
		"with uri":         {`{"code":-32002,"data":{"uri":"f:b"}}`, `"f:a"`, `{"code":-32602,"data":{"uri":"f:b"}}`, 200},
		"odd data":         {`{"code":-32002,"data":"x"}`, `"f:a"`, `{"code":-32602,"data":{"uri":"f:a"}}`, 200},
		"uri unknown":      {`{"code":-32002}`, "", `{"code":-32602}`, 200},
		"url elicitation":  {`{"code":-32042,"message":"m","data":{}}`, "", `{"code":-32603,"message":"m","data":{}}`, 200},
		"method not found": {`{"code":-32601,"message":"m"}`, "", `{"code":-32601,"message":"m"}`, 404},
		"any other":        {`{"code":-32000,"message":"m","data":[1.0]}`, `"f:a"`, `{"code":-32000,"message":"m","data":[1.0]}`, 200},
	} {
		b, m := scan(t, wrap("error", c.in))
		var uri []byte
		if c.uri != "" {
			uri = []byte(c.uri)
		}
		got, status := LegacyErrorToModern("resources/read", b, m, uri)
		same(t, name, wrap("error", c.want), string(got))
		if status != c.status {
			t.Errorf("%s: status %d", name, status)
		}
	}
}

func TestDiscoverFromInitialize(t *testing.T) {
	const tail = `"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28","2025-11-25"]`
	for name, c := range map[string]struct{ in, want string }{
		"full": {
			`{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"list":{}},"logging":{},"vendor":{"x":1}},"serverInfo":{"name":"s","n":1.0},"instructions":"a\u0062","extra":[2]}`,
			`{"capabilities":{"logging":{},"vendor":{"x":1}},"instructions":"a\u0062","extra":[2],` + tail + `,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","n":1.0}}}`,
		},
		"with meta": {
			`{"_meta":{"k":1},"capabilities":{"tasks":{}},"serverInfo":{},"protocolVersion":"2024-11-05"}`,
			`{"_meta":{"k":1,"io.modelcontextprotocol/serverInfo":{}},"capabilities":{},` + tail + `}`,
		},
		"nothing": {`{}`, `{` + tail + `,"capabilities":{}}`},
	} {
		same(t, name, c.want, string(DiscoverFromInitialize([]byte(c.in), []string{V20260728, V20251125})))
	}
}

func TestInputRequired(t *testing.T) {
	got := InputRequired([]InputRequest{
		{"r2", "elicitation/create", []byte(`{"mode":"url","elicitationId":"e","url":"u:x"}`)},
		{"r1", "roots/list", nil},
		{"a\"", "sampling/createMessage", []byte(`{"elicitationId":1}`)},
	}, []byte(`"st\u0061te"`))
	same(t, "result", `{"resultType":"input_required","inputRequests":{"r2":{"method":"elicitation/create","params":{"mode":"url","url":"u:x"}},"r1":{"method":"roots/list"},"a\"":{"method":"sampling/createMessage","params":{"elicitationId":1}}},"requestState":"st\u0061te"}`, string(got))
	same(t, "empty", `{"resultType":"input_required","inputRequests":{}}`, string(InputRequired(nil, nil)))

	b, m := scan(t, wrap("error", `{"code":-32042,"data":{"elicitations":[{"mode":"url","elicitationId":"1","url":"a:"},7,{"url":"b:"}]}}`))
	want := []InputRequest{{"r1", "elicitation/create", []byte(`{"mode":"url","elicitationId":"1","url":"a:"}`)}, {"r2", "elicitation/create", []byte(`{"url":"b:"}`)}}
	if d := cmp.Diff(want, URLElicitations(b, m)); d != "" {
		t.Error(d)
	}
	b, m = scan(t, wrap("error", `{"code":-32603,"data":{"elicitations":[{}]}}`))
	if got := URLElicitations(b, m); got != nil {
		t.Errorf("another error asks %v", got)
	}

	b, m = scan(t, wrap("tools/call", `{"inputResponses":{"r\u0031":{"action":"accept"}},"requestState":"a\n"}`))
	same(t, "answer", `{"action":"accept"}`, string(InputResponse(b, m, "r1")))
	if got := InputResponse(b, m, "r2"); got != nil {
		t.Errorf("answer nobody gave: %s", got)
	}
	if got, ok := RequestState(b, m); !ok || got != "a\n" {
		t.Errorf("state %q, %v", got, ok)
	}
	for _, in := range []string{wrap("tools/list", `{"requestState":"a"}`), wrap("tools/call", `{}`), wrap("tools/call", `{"requestState":5}`)} {
		b, m := scan(t, in)
		if got, ok := RequestState(b, m); ok {
			t.Errorf("%s: state %q", in, got)
		}
	}
}

// Rows of protocol.md 5.4.

func TestLegacyToModern(t *testing.T) {
	e := Envelope{
		Params:   []byte(` {"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true,"x":1},"tasks":{},"extensions":{},"sampling":{"tools":{}},"elicitation":{}},"clientInfo":{"name":"c","v":1.0}}`),
		LogLevel: "warning",
	}
	const pairs = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","v":1.0},"io.modelcontextprotocol/clientCapabilities":{"roots":{"x":1},"sampling":{"tools":{}},"elicitation":{}},"io.modelcontextprotocol/logLevel":"warning"`
	for name, c := range map[string]struct{ in, want string }{
		"params":     {`{"name":"a"}`, `{"name":"a","_meta":{` + pairs + `}}`},
		"meta":       {`{"_meta":{"progressToken":"t"},"name":"a"}`, `{"_meta":{"progressToken":"t",` + pairs + `},"name":"a"}`},
		"empty meta": {`{"_meta":{ }}`, `{"_meta":{` + pairs + ` }}`},
		"null meta":  {`{"_meta":null}`, `{"_meta":{` + pairs + `}}`},
		"null":       {`null`, `{"_meta":{` + pairs + `}}`},
	} {
		b, m := scan(t, wrap("tools/call", c.in))
		same(t, name, wrap("tools/call", c.want), string(LegacyToModern(b, m, e)))
	}
	b, m := scan(t, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\" } \n")
	same(t, "no params", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"+pairs+"}} } \n", string(LegacyToModern(b, m, e)))
	same(t, "bare client", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}} } `+"\n",
		string(LegacyToModern(b, m, Envelope{Params: []byte(`{}`)})))
}

func TestModernResultToLegacy(t *testing.T) {
	for name, c := range map[string]struct{ method, in, want string }{
		"list":       {"tools/list", `{"resultType":"complete","tools":[],"ttlMs":5,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{}}}`, `{"tools":[]}`},
		"meta stays": {"tools/call", `{"_meta":{"io.modelcontextprotocol/serverInfo":{},"k":1},"resultType":"complete","ttlMs":5}`, `{"_meta":{"k":1},"ttlMs":5}`},
		"nothing":    {"tools/call", `{"content":[ ]}`, `{"content":[ ]}`},
		"then cut":   {"tools/call", `{"resultType":"complete","content":[],"structuredContent":[1]}`, `{"content":[{"type":"text","text":"[1]"}]}`},
	} {
		b, m := scan(t, wrap("result", c.in))
		same(t, name, wrap("result", c.want), string(ModernResultToLegacy(c.method, V20251125, b, m)))
	}
}

func TestModernErrorToLegacy(t *testing.T) {
	for _, c := range []struct{ method, in, want string }{
		{"resources/read", `{"code":-32602,"data":{"uri":"x"}}`, `{"code":-32002,"data":{"uri":"x"}}`},
		{"resources/read", `{"code":-32602,"data":{"url":"x"}}`, ""},
		{"resources/read", `{"code":-32602,"message":"m"}`, ""},
		{"tools/call", `{"code":-32602,"data":{"uri":"x"}}`, ""},
		{"resources/read", `{"code":-32603,"data":{"uri":"x"}}`, ""},
	} {
		b, m := scan(t, wrap("error", c.in))
		if c.want == "" {
			c.want = c.in
		}
		same(t, c.in, wrap("error", c.want), string(ModernErrorToLegacy(c.method, b, m)))
	}
}

func TestInitializeFromDiscover(t *testing.T) {
	const in = `{"supportedVersions":["2026-07-28"],"resultType":"complete","capabilities":{"extensions":{"x":{}},"completions":{},"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"public","instructions":"i","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","title":"T","icons":[],"websiteUrl":"w","description":"d","version":"1"}}}`
	for version, want := range map[string]string{
		V20251125: `{"capabilities":{"completions":{},"tools":{"listChanged":true}},"instructions":"i","protocolVersion":"2025-11-25","serverInfo":{"name":"s","title":"T","icons":[],"websiteUrl":"w","description":"d","version":"1"}}`,
		V20250618: `{"capabilities":{"completions":{},"tools":{"listChanged":true}},"instructions":"i","protocolVersion":"2025-06-18","serverInfo":{"name":"s","title":"T","version":"1"}}`,
		V20250326: `{"capabilities":{"completions":{},"tools":{"listChanged":true}},"instructions":"i","protocolVersion":"2025-03-26","serverInfo":{"name":"s","version":"1"}}`,
		V20241105: `{"capabilities":{"tools":{"listChanged":true}},"instructions":"i","protocolVersion":"2024-11-05","serverInfo":{"name":"s","version":"1"}}`,
	} {
		same(t, version, want, string(InitializeFromDiscover([]byte(in), version)))
	}
	same(t, "bare", `{"_meta":{"k":1},"protocolVersion":"2025-11-25","serverInfo":{"name":"unknown","version":"unknown"},"capabilities":{}}`,
		string(InitializeFromDiscover([]byte(`{"_meta":{"k":1},"supportedVersions":[]}`), V20251125)))
}

func TestInputRequests(t *testing.T) {
	b, m := scan(t, wrap("result", `{"resultType":"input_required","inputRequests":{"b":{"method":"elicitation/create","params":{"message":"m"}},"a":{"method":"roots/list"},"c":{},"d":5},"requestState":"s\u0074"}`))
	got, state := InputRequests(b, m)
	want := []InputRequest{{"b", "elicitation/create", []byte(`{"message":"m"}`)}, {"a", "roots/list", nil}}
	if d := cmp.Diff(want, got); d != "" || string(state) != `"s\u0074"` {
		t.Errorf("state %s, %s", state, d)
	}
	b, m = scan(t, wrap("result", `{"resultType":"input_required"}`))
	if got, state := InputRequests(b, m); got != nil || state != nil {
		t.Errorf("got %v, %s", got, state)
	}

	answers := []InputAnswer{{"b", []byte(`{"action":"decline"}`)}, {"a", []byte(`{"roots":[]}`)}}
	b, m = scan(t, wrap("tools/call", `{"name":"a","requestState":"old", "x":1}`))
	same(t, "retry", wrap("tools/call", `{"name":"a","requestState":"s\u0074", "x":1,"inputResponses":{"b":{"action":"decline"},"a":{"roots":[]}}}`), string(Retry(b, m, answers, []byte(`"s\u0074"`))))
	same(t, "no state", wrap("tools/call", `{"name":"a", "x":1,"inputResponses":{}}`), string(Retry(b, m, nil, nil)))
}

func TestDowngradeAsk(t *testing.T) {
	url := []byte(`{"mode":"url","url":"https://x","message":"m"}`)
	got := DowngradeAsk("elicitation/create", V20251125, url)
	id, ok := rpc.Unquote(rpc.Find(got, whole(got), "elicitationId").Of(got))
	if !ok || len(id) < 16 || !bytes.HasPrefix(got, url[:len(url)-1]) {
		t.Errorf("got %s", got)
	}
	same(t, "stable", string(got), string(DowngradeAsk("elicitation/create", V20251125, url)))
	sampling := `{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"content":[{},{}]},{"content":{}}],"maxTokens":1}`
	for name, c := range map[string]struct{ method, version, in, want string }{
		"form":         {"elicitation/create", V20251125, `{"mode":"form","message":"m"}`, ""},
		"older url":    {"elicitation/create", V20250618, string(url), ""},
		"own id":       {"elicitation/create", V20251125, `{"mode":"url","elicitationId":"e"}`, ""},
		"sampling new": {"sampling/createMessage", V20251125, sampling, ""},
		"sampling old": {"sampling/createMessage", V20250618, sampling, `{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"content":[{},{}]},{"content":{}}],"maxTokens":1}`},
		"roots":        {"roots/list", V20241105, `{"a":1}`, ""},
	} {
		if c.want == "" {
			c.want = c.in
		}
		same(t, name, c.want, string(DowngradeAsk(c.method, c.version, []byte(c.in))))
	}
	if got := DowngradeAsk("roots/list", V20250618, nil); got != nil {
		t.Errorf("no params became %s", got)
	}
	if got := DowngradeAsk("elicitation/create", V20251125, nil); got != nil {
		t.Errorf("no params became %s", got)
	}
}

// FuzzBridges: what one bridge adds the other removes, byte for byte, and nothing else changes.
func FuzzBridges(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{ "name":"a","_meta":{"progressToken":1}, "z":[] }}`))
	f.Add([]byte(`{"jsonrpc":"2.0", "result":{"tools":[{"name":"a","outputSchema":{"type":"object"}}] ,"x":1e3},"id":"b"}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"audio"}],"_meta":{"a":1}}}`))
	envelope := Envelope{Params: []byte(`{"clientInfo":{"name":"c"},"capabilities":{"roots":{}}}`), LogLevel: "info"}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := rpc.Scan(b)
		if err != nil {
			return
		}
		before := bytes.Clone(b)
		switch m.Kind {
		case rpc.Request:
			up := LegacyToModern(b, m, envelope)
			um := rescan(t, up)
			if Of(um, up, "") != Modern {
				t.Fatalf("%s is not modern", up)
			}
			down := ModernToLegacy(up, um)
			rescan(t, down)
			touched := onlyHas(b, m.Meta, envelopeKeys) || len(without(b, m.Meta)) > 0 || AsksForInput(m.MethodOf(b)) && len(rpc.EditObject(b, m.Params, []string{"inputResponses", "requestState"})) > 0
			emptyMeta := m.Meta.Ok() && len(members(b, m.Meta)) == 0
			oddMeta := !m.Meta.Ok() && rpc.Find(b, m.Params, "_meta").Ok()
			if isObject(b, m.Params) && !touched && !emptyMeta && !oddMeta && !bytes.Equal(down, b) {
				t.Errorf("%s became %s", b, down)
			}
		case rpc.Result:
			for _, method := range []string{"tools/list", "tools/call", "prompts/get", "resources/read", "initialize"} {
				up := LegacyResultToModern(method, b, m, []byte(`{"name":"s"}`))
				um := rescan(t, up)
				plain := splice(up, withoutMeta(up, um.Result, um.Meta, []string{MetaServerInfo}, "resultType", "ttlMs", "cacheScope"))
				original := splice(b, withoutMeta(b, m.Result, m.Meta, []string{MetaServerInfo}, "resultType", "ttlMs", "cacheScope"))
				emptyMeta := m.Meta.Ok() && len(members(b, m.Meta)) == 0
				oddMeta := !m.Meta.Ok() && rpc.Find(b, m.Result, "_meta").Ok()
				if method == "tools/list" && isObject(b, m.Result) && !emptyMeta && !oddMeta && !bytes.Equal(plain, original) {
					t.Errorf("%s became %s", original, plain)
				}
				for _, v := range Supported {
					rescan(t, ModernResultToLegacy(method, v, up, um))
					rescan(t, Downgrade(method, v, b))
				}
			}
		case rpc.Error:
			up, _ := LegacyErrorToModern("", b, m, []byte(`"u:"`))
			if c := CodeOf(up, rescan(t, up)); c == CodeResourceNotFound || c == CodeURLElicitation {
				t.Errorf("%s reaches a modern client", up)
			}
			rescan(t, ModernErrorToLegacy("resources/read", b, m))
		case rpc.Notification:
			rescan(t, DowngradeNotification("notifications/progress", V20241105, b))
		}
		if !bytes.Equal(before, b) {
			t.Errorf("the input was changed to %s", b)
		}
	})
}

func without(b []byte, meta rpc.Span) []rpc.Edit { return rpc.EditObject(b, meta, envelopeKeys) }

func members(b []byte, obj rpc.Span) []rpc.Member {
	var all []rpc.Member
	for m := range rpc.Members(b, obj) {
		all = append(all, m)
	}
	return all
}

func rescan(t *testing.T, b []byte) rpc.Message {
	t.Helper()
	m, err := rpc.Scan(b)
	if err != nil || !json.Valid(b) {
		t.Fatalf("%s: %v", b, err)
	}
	return m
}
