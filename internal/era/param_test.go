package era

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParamHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		schema string
		want   []ParamHeader
		bad    string // part of the error
	}{
		"none":                    {`{"type":"object","properties":{"a":{"type":"string"}}}`, nil, ""},
		"simple":                  {`{"properties":{"a":{"type":"string","x-mcp-header":"Region"},"n":{"x-mcp-header":"N","type":"integer"},"f":{"type":"boolean","x-mcp-header":"F"}}}`, []ParamHeader{{"Region", []string{"a"}}, {"N", []string{"n"}}, {"F", []string{"f"}}}, ""},
		"nested":                  {`{"properties":{"a":{"type":"object","properties":{"b":{"type":"string","x-mcp-header":"B"},"c":{"type":"string","x-mcp-header":"C"}}}}}`, []ParamHeader{{"B", []string{"a", "b"}}, {"C", []string{"a", "c"}}}, ""},
		"a property of that name": {`{"properties":{"x-mcp-header":{"type":"string"},"properties":{"type":"object","x":1}}}`, nil, ""},
		"in data":                 {`{"properties":{"a":{"type":"object","default":{"x-mcp-header":"A"},"examples":[{"x-mcp-header":1}]}}}`, nil, ""},
		"number":                  {`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, nil, "number"},
		"object":                  {`{"properties":{"a":{"type":"object","x-mcp-header":"A"}}}`, nil, "object"},
		"type list":               {`{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}`, nil, "type"},
		"empty":                   {`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, nil, "token"},
		"space":                   {`{"properties":{"a":{"type":"string","x-mcp-header":"My Region"}}}`, nil, "token"},
		"colon":                   {`{"properties":{"a":{"type":"string","x-mcp-header":"a:b"}}}`, nil, "token"},
		"line feed":               {`{"properties":{"a":{"type":"string","x-mcp-header":"a\nb"}}}`, nil, "token"},
		"not ASCII":               {`{"properties":{"a":{"type":"string","x-mcp-header":"ä"}}}`, nil, "token"},
		"not a string":            {`{"properties":{"a":{"type":"string","x-mcp-header":5}}}`, nil, "token"},
		"twice":                   {`{"properties":{"a":{"type":"string","x-mcp-header":"Ab"},"b":{"type":"string","x-mcp-header":"aB"}}}`, nil, "two"},
		"in items":                {`{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`, nil, "alone"},
		"in anyOf":                {`{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`, nil, "alone"},
		"in $defs":                {`{"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}`, nil, "alone"},
		"at the root":             {`{"type":"string","x-mcp-header":"A"}`, nil, "alone"},
		"too large":               {`{"properties":{"a":{"anyOf":[` + strings.Repeat("{},", maxSchemaNodes) + `{}]}}}`, nil, "10000"},
		"no schema":               {`true`, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParamHeaders([]byte(`{"name":"t","inputSchema":` + c.schema + `}`))
			if (err != nil) != (c.bad != "") || err != nil && !strings.Contains(err.Error(), c.bad) {
				t.Fatalf("error %v, want one with %q", err, c.bad)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	if got, err := ParamHeaders([]byte(`{"name":"t"}`)); got != nil || err != nil {
		t.Errorf("no schema at all: %v, %v", got, err)
	}
}

func TestCheckParams(t *testing.T) {
	rules := []ParamHeader{{"Region", []string{"loc", "region"}}}
	for name, c := range map[string]struct {
		args   string
		values []string
		good   bool
	}{
		"equal":                 {`{"loc":{"region":"eu"}}`, []string{"eu"}, true},
		"trimmed":               {`{"loc":{"region":"eu"}}`, []string{" eu\t"}, true},
		"escaped":               {`{"loc":{"region":"\u0065u"}}`, []string{"eu"}, true},
		"case":                  {`{"loc":{"region":"eu"}}`, []string{"EU"}, false},
		"missing header":        {`{"loc":{"region":"eu"}}`, nil, false},
		"two headers":           {`{"loc":{"region":"eu"}}`, []string{"eu", "eu"}, false},
		"absent":                {`{"loc":{}}`, nil, true},
		"absent parent":         {`{}`, nil, true},
		"null":                  {`{"loc":{"region":null}}`, nil, true},
		"null with header":      {`{"loc":{"region":null}}`, []string{"null"}, false},
		"absent with header":    {`{}`, []string{"eu"}, false},
		"sentinel":              {`{"loc":{"region":"Hello"}}`, []string{"=?base64?SGVsbG8=?="}, true},
		"no prefix":             {`{"loc":{"region":"SGVsbG8="}}`, []string{"SGVsbG8="}, true},
		"no suffix":             {`{"loc":{"region":"=?base64?SGVsbG8="}}`, []string{"=?base64?SGVsbG8="}, true},
		"bad padding":           {`{"loc":{"region":"Hello"}}`, []string{"=?base64?SGVsbG8?="}, false},
		"bad alphabet":          {`{"loc":{"region":"Hello"}}`, []string{"=?base64?SGVs!!!bG8=?="}, false},
		"sentinel as value":     {`{"loc":{"region":"=?base64?YQ==?="}}`, []string{"=?base64?YQ==?="}, false},
		"sentinel encoded":      {`{"loc":{"region":"=?base64?YQ==?="}}`, []string{EncodeHeader("=?base64?YQ==?=")}, true},
		"empty":                 {`{"loc":{"region":""}}`, []string{""}, true},
		"integer":               {`{"loc":{"region":42}}`, []string{"42"}, true},
		"integer as 42.0":       {`{"loc":{"region":42}}`, []string{"42.0"}, true},
		"body 42.0":             {`{"loc":{"region":42.0}}`, []string{"42"}, true},
		"exponent":              {`{"loc":{"region":4.2e1}}`, []string{"+42"}, true},
		"minus zero":            {`{"loc":{"region":-0}}`, []string{"0"}, true},
		"other integer":         {`{"loc":{"region":42}}`, []string{"43"}, false},
		"fraction":              {`{"loc":{"region":42.5}}`, []string{"42.5"}, false},
		"largest":               {`{"loc":{"region":9007199254740991}}`, []string{"9007199254740991"}, true},
		"too large":             {`{"loc":{"region":9007199254740993}}`, []string{"9007199254740993"}, false},
		"hexadecimal":           {`{"loc":{"region":16}}`, []string{"0x10"}, false},
		"infinite":              {`{"loc":{"region":1e999}}`, []string{"inf"}, false},
		"number against string": {`{"loc":{"region":"42"}}`, []string{"42"}, true},
		"boolean":               {`{"loc":{"region":true}}`, []string{"true"}, true},
		"boolean case":          {`{"loc":{"region":true}}`, []string{"True"}, false},
		"object":                {`{"loc":{"region":{}}}`, []string{"{}"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, m := scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":`+c.args+`}}`)
			var h []string
			for _, v := range c.values {
				h = append(h, "mcp-param-region", v)
			}
			r := CheckParams(b, m, headers(h...), rules)
			if (r == nil) != c.good || r != nil && (r.Status != 400 || r.Code != CodeHeaderMismatch) {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestHeadersFor(t *testing.T) {
	rules := []ParamHeader{{"A", []string{"a"}}, {"B", []string{"b"}}, {"C", []string{"c"}}, {"D", []string{"d"}}, {"E", []string{"e"}}, {"F", []string{"f"}}}
	b, m := scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tööl","arguments":{"a":"x y","b":42.0,"c":false,"d":null,"e":1.5,"f":" "}}}`)
	got := HeadersFor(b, m, rules)
	want := map[string]string{
		"Mcp-Method": "tools/call", "Mcp-Name": "=?base64?dMO2w7Zs?=", "Mcp-Param-A": "x y", "Mcp-Param-B": "42",
		"Mcp-Param-C": "false", "Mcp-Param-F": "=?base64?IA==?=",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	h := headers()
	for k, v := range got {
		old := h
		h = func(name string) []string {
			if strings.EqualFold(name, k) {
				return []string{v}
			}
			return old(name)
		}
	}
	if r := CheckParams(b, m, h, rules[:4]); r != nil {
		t.Errorf("own headers are refused: %+v", r)
	}
	for in, want := range map[string]map[string]string{
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`:  {"Mcp-Method": "notifications/cancelled"},
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"f:///a b"}}`: {"Mcp-Method": "resources/read", "Mcp-Name": "f:///a b"},
		`{"jsonrpc":"2.0","id":1,"method":"tasks/cancel","params":{"taskId":"t1"}}`:      {"Mcp-Method": "tasks/cancel", "Mcp-Name": "t1"},
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                           nil,
	} {
		b, m := scan(t, in)
		if d := cmp.Diff(want, HeadersFor(b, m, nil)); d != "" {
			t.Error(d)
		}
	}
}
