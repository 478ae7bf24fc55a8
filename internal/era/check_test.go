package era

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/rpc"
)

func scan(t testing.TB, b string) ([]byte, rpc.Message) {
	t.Helper()
	m, err := rpc.Scan([]byte(b))
	if err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return []byte(b), m
}

// headers is http.Header.Values of name, value, name, value...
func headers(pairs ...string) Headers {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h.Values
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func TestVersions(t *testing.T) {
	for i, v := range Supported {
		if !Known(v) || IsLegacy(v) != (i > 0) {
			t.Errorf("%s: known %v, legacy %v", v, Known(v), IsLegacy(v))
		}
		if i > 0 && Supported[i-1] <= v {
			t.Errorf("%s is not behind a newer one", v)
		}
	}
	for _, v := range []string{"", "2025-01-01", "2026-07-28 ", "v999.0.0"} {
		if Known(v) || IsLegacy(v) {
			t.Errorf("%q is known", v)
		}
	}
}

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		body, header string
		want         Era
	}{
		"envelope":            {`{"jsonrpc":"2.0","id":1,"method":"a","params":{` + meta + `}}`, "", Modern},
		"envelope wins":       {`{"jsonrpc":"2.0","id":1,"method":"a","params":{` + meta + `}}`, V20250618, Modern},
		"odd envelope":        {`{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}}`, "", Modern},
		"header only":         {`{"jsonrpc":"2.0","id":1,"method":"a"}`, V20260728, Modern},
		"later header":        {`{"jsonrpc":"2.0","id":1,"method":"a"}`, "2031-01-01", Modern},
		"legacy header":       {`{"jsonrpc":"2.0","id":1,"method":"a"}`, V20251125, Legacy},
		"odd header":          {`{"jsonrpc":"2.0","id":1,"method":"a"}`, "v999.0.0", Legacy},
		"no date":             {`{"jsonrpc":"2.0","id":1,"method":"a"}`, "2026-07-2x", Legacy},
		"none":                {`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28"}}`, "", Legacy},
		"meta of a result":    {`{"jsonrpc":"2.0","id":1,"result":{` + meta + `}}`, "", Legacy},
		"notification":        {`{"jsonrpc":"2.0","method":"a","params":{` + meta + `}}`, "", Modern},
		"envelope of another": {`{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{` + meta + `}}}`, "", Legacy},
	} {
		t.Run(name, func(t *testing.T) {
			b, m := scan(t, c.body)
			if got := Of(m, b, c.header); got != c.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestCheckModern(t *testing.T) {
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a",` + meta + `}}`
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`
	odd := strings.ReplaceAll(list, "2026-07-28", "v999.0.0")
	std := []string{"MCP-Protocol-Version", V20260728}
	with := func(more ...string) []string { return append(append([]string(nil), std...), more...) }
	for name, c := range map[string]struct {
		body         string
		headers      []string
		status, code int
	}{
		"good":                 {list, with("Mcp-Method", "tools/list"), 0, 0},
		"good call":            {call, with("mcp-method", "tools/call", "MCP-NAME", "  a\t"), 0, 0},
		"a: no params":         {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, with("Mcp-Method", "x"), 400, -32602},
		"a: no version":        {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}}`, std, 400, -32602},
		"a: no capabilities":   {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, std, 400, -32602},
		"a: odd capabilities":  {strings.Replace(list, "{}", "[]", 1), std, 400, -32602},
		"a: odd info":          {strings.Replace(list, `{}`, `{},"io.modelcontextprotocol/clientInfo":1`, 1), with("Mcp-Method", "tools/list"), 400, -32602},
		"a: info":              {strings.Replace(list, `{}`, `{},"io.modelcontextprotocol/clientInfo":{}`, 1), with("Mcp-Method", "tools/list"), 0, 0},
		"b: no version header": {list, []string{"Mcp-Method", "tools/list"}, 400, -32020},
		"b: other version":     {odd, with("Mcp-Method", "tools/list"), 400, -32020},
		"b: two versions":      {list, with("MCP-Protocol-Version", V20260728, "Mcp-Method", "tools/list"), 400, -32020},
		"b: no method":         {list, std, 400, -32020},
		"b: other method":      {list, with("Mcp-Method", "prompts/list"), 400, -32020},
		"b: method case":       {list, with("Mcp-Method", "TOOLS/LIST"), 400, -32020},
		"c: unsupported":       {odd, []string{"MCP-Protocol-Version", "v999.0.0", "Mcp-Method", "tools/list"}, 400, -32022},
		"c before d":           {strings.ReplaceAll(call, "2026-07-28", "2027-01-01"), []string{"MCP-Protocol-Version", "2027-01-01", "Mcp-Method", "tools/call"}, 400, -32022},
		"d: no name":           {call, with("Mcp-Method", "tools/call"), 400, -32020},
		"d: other name":        {call, with("Mcp-Method", "tools/call", "Mcp-Name", "A"), 400, -32020},
		"d: sentinel":          {call, with("Mcp-Method", "tools/call", "Mcp-Name", "=?base64?YQ==?="), 0, 0},
		"d: bad sentinel":      {call, with("Mcp-Method", "tools/call", "Mcp-Name", "=?base64?YQ?="), 400, -32020},
		"d: name of nothing":   {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + meta + `}}`, with("Mcp-Method", "tools/call", "Mcp-Name", "a"), 400, -32020},
		"d: backend's error":   {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + meta + `}}`, with("Mcp-Method", "tools/call"), 0, 0},
		"d: uri":               {`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"f:\/a",` + meta + `}}`, with("Mcp-Method", "resources/read", "Mcp-Name", "f:/a"), 0, 0},
		"d: task":              {`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t",` + meta + `}}`, with("Mcp-Method", "tasks/get", "Mcp-Name", "u"), 400, -32020},
		"d: not for lists":     {list, with("Mcp-Method", "tools/list", "Mcp-Name", "x"), 0, 0},
		"e: removed":           {strings.Replace(list, "tools/list", "initialize", 1), with("Mcp-Method", "initialize"), 404, -32601},
		"e: ping":              {strings.Replace(list, "tools/list", "ping", 1), with("Mcp-Method", "ping"), 404, -32601},
		"unknown method":       {strings.Replace(list, "tools/list", "unknown/method", 1), with("Mcp-Method", "unknown/method"), 0, 0},
		"notification":         {`{"jsonrpc":"2.0","method":"notifications/x"}`, with("Mcp-Method", "notifications/x"), 0, 0},
		"notification, odd":    {`{"jsonrpc":"2.0","method":"notifications/x"}`, []string{"MCP-Protocol-Version", "2099-01-01", "Mcp-Method", "notifications/x"}, 400, -32022},
	} {
		t.Run(name, func(t *testing.T) {
			b, m := scan(t, c.body)
			r := CheckModern(b, m, headers(c.headers...), Supported)
			if r == nil {
				r = &Refusal{}
			} else if r.Message == "" {
				t.Error("no message")
			}
			if r.Status != c.status || r.Code != c.code {
				t.Errorf("got %+v, want %d %d", r, c.status, c.code)
			}
		})
	}
	b, m := scan(t, odd)
	r := CheckModern(b, m, headers("MCP-Protocol-Version", "v999.0.0", "Mcp-Method", "tools/list"), []string{V20260728, V20251125})
	want := `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"protocol version v999.0.0 is not supported","data":{"supported":["2026-07-28","2025-11-25"],"requested":"v999.0.0"}}}`
	if got := string(rpc.ErrorResponse(m.ID.Of(b), r.Code, r.Message, r.Data)); got != want {
		t.Errorf("got %s", got)
	}
}

func TestCheckLegacyVersion(t *testing.T) {
	for header, want := range map[string]int{"": 0, V20250618: 0, V20241105: 0, V20260728: 400, "v1": 400} {
		r := CheckLegacyVersion(header, V20250618)
		if r == nil {
			r = &Refusal{}
		}
		if r.Status != want {
			t.Errorf("%q: got %+v", header, r)
		}
	}
}

func TestModernStatus(t *testing.T) {
	for code, want := range map[int]int{-32020: 400, -32021: 400, -32022: 400, -32601: 404, -32602: 200, -32603: 200, -31901: 200, 0: 200} {
		if got := ModernStatus(code); got != want {
			t.Errorf("%d: got %d", code, got)
		}
	}
}

func TestHeaderCodec(t *testing.T) {
	for in, want := range map[string]string{
		"tool": "tool", "two words": "two words", "": "=?base64??=", " a": "=?base64?IGE=?=", "a\t": "=?base64?YQk=?=",
		"ü": "=?base64?w7w=?=", "a\nb": "=?base64?YQpi?=", "=?base64?x?=": "=?base64?PT9iYXNlNjQ/eD89?=",
		"=?base64?x": "=?base64?x", "=?base64?=": "=?base64?=", "=?BASE64?x?=": "=?BASE64?x?=",
	} {
		if got := EncodeHeader(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
		if got, ok := DecodeHeader(want); !ok || got != in {
			t.Errorf("%q: decoded as %q, %v", want, got, ok)
		}
	}
	for _, bad := range []string{"=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?SGVsbG9=?=", "=?base64?SGVs\nbG8=?="} {
		if got, ok := DecodeHeader(bad); ok {
			t.Errorf("%q: decoded as %q", bad, got)
		}
	}
}

// FuzzHeaderCodec: what is encoded comes back, fits a header, and no two texts share a value.
func FuzzHeaderCodec(f *testing.F) {
	f.Add("=?base64?x?=", " ")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := EncodeHeader(a), EncodeHeader(b)
		if got, ok := DecodeHeader(x); !ok || got != a {
			t.Errorf("%q became %q and %q", a, x, got)
		}
		if strings.Trim(x, " \t") != x || strings.ContainsAny(x, "\x00\r\n\x7f") {
			t.Errorf("%q does not fit a header", x)
		}
		if a != b && x == y {
			t.Errorf("%q and %q share %q", a, b, x)
		}
		_, _ = DecodeHeader(a) // must not panic
	})
}

// FuzzOf: the era follows the envelope and the date alone, and no header panics.
func FuzzOf(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"a","params":{`+meta+`}}`), V20260728)
	f.Fuzz(func(t *testing.T, b []byte, header string) {
		m, err := rpc.Scan(b)
		if err != nil {
			return
		}
		got := Of(m, b, header)
		if m.Method.Ok() && m.Version.Ok() && got != Modern || IsLegacy(header) && !m.Version.Ok() && got != Legacy {
			t.Errorf("%s with %q is %s", b, header, got)
		}
		if r := CheckModern(b, m, headers("Mcp-Method", "a"), Supported); r == nil {
			t.Errorf("%s passed without a version header", b)
		}
	})
}

func TestCutVersions(t *testing.T) {
	for in, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"result":{"a":1,"supportedVersions":["2030-01-01","2026-07-28", "2025-11-25"],"z":0}}`: `{"jsonrpc":"2.0","id":1,"result":{"a":1,"supportedVersions":["2026-07-28","2025-11-25"],"z":0}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"","data":{"supported":["x"],"requested":"y"}}}`:      `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"","data":{"supported":[],"requested":"y"}}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"","data":{"supported":["x"]}}}`:                      "",
		`{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":[ "2026-07-28" ]}}`:                                      "",
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"supportedVersions":["x"]}}`:                      "",
	} {
		b, m := scan(t, in)
		if want == "" {
			want = in
		}
		if d := cmp.Diff(want, string(CutVersions(b, m))); d != "" {
			t.Error(d)
		}
	}
}
