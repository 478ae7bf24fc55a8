package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// spans is the named spans of a message as text.
func spans(m Message, b []byte) map[string]string {
	out := map[string]string{"kind": m.Kind.String()}
	for name, at := range map[string]Span{
		"id": m.ID, "method": m.Method, "params": m.Params, "result": m.Result, "error": m.Error, "meta": m.Meta,
		"token": m.ProgressToken, "requestId": m.RequestID, "name": m.Name, "uri": m.URI, "taskId": m.TaskID,
		"cursor": m.Cursor, "resultType": m.ResultType, "version": m.Version, "subscription": m.Subscription, "code": m.Code,
	} {
		if at.Ok() {
			out[name] = string(at.Of(b))
		}
	}
	return out
}

func TestScanSpans(t *testing.T) {
	type want = map[string]string
	for name, c := range map[string]struct {
		in   string
		want want
	}{
		"request": {
			` { "jsonrpc" : "2.0", "x":1, "id" : "q\u0062", "method":"tools/call","params":{"name":"a\"b","arguments":{"name":"no","_meta":{}},"_meta":{"progressToken":7,"v":1}}} ` + "\n",
			want{
				"kind": "request", "id": `"q\u0062"`, "method": `"tools/call"`, "name": `"a\"b"`, "token": "7",
				"meta":   `{"progressToken":7,"v":1}`,
				"params": `{"name":"a\"b","arguments":{"name":"no","_meta":{}},"_meta":{"progressToken":7,"v":1}}`,
			},
		},
		"modern": {
			`{"jsonrpc":"2.0","id":0,"method":"resources/read","params":{"uri":"a:b","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
			want{
				"kind": "request", "id": "0", "method": `"resources/read"`, "uri": `"a:b"`, "version": `"2026-07-28"`,
				"meta":   `{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`,
				"params": `{"uri":"a:b","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`,
			},
		},
		"escaped key is the member": {
			`{"jsonrpc":"2.0","\u0069d":3,"meth\u006fd":"ping"}`,
			want{"kind": "request", "id": "3", "method": `"ping"`},
		},
		"other case is unknown": {
			`{"jsonrpc":"2.0","ID":1,"Method":"a","method":"b","Params":{"name":"c"}}`,
			want{"kind": "notification", "method": `"b"`},
		},
		"progress": {
			`{"jsonrpc":"2.0","params":{"progressToken":"t","progress":1,"_meta":{"progressToken":2}},"method":"notifications/progress"}`,
			want{
				"kind": "notification", "method": `"notifications/progress"`, "token": `"t"`, "meta": `{"progressToken":2}`,
				"params": `{"progressToken":"t","progress":1,"_meta":{"progressToken":2}}`,
			},
		},
		"cancelled": {
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":-5}}`,
			want{"kind": "notification", "method": `"notifications/cancelled"`, "requestId": "-5", "params": `{"requestId":-5}`},
		},
		"result": {
			`{"jsonrpc":"2.0","id":9007199254740993,"result":{"resultType":"complete","name":"n","_meta":{"io.modelcontextprotocol/subscriptionId":4}}}`,
			want{
				"kind": "result", "id": "9007199254740993", "resultType": `"complete"`, "subscription": "4",
				"meta":   `{"io.modelcontextprotocol/subscriptionId":4}`,
				"result": `{"resultType":"complete","name":"n","_meta":{"io.modelcontextprotocol/subscriptionId":4}}`,
			},
		},
		"result of another type": {
			`{"jsonrpc":"2.0","id":"","result":null}`, want{"kind": "result", "id": `""`, "result": "null"},
		},
		"error with null id": {
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x","data":{"code":1}}}`,
			want{"kind": "error", "code": "-32700", "error": `{"code":-32700,"message":"x","data":{"code":1}}`},
		},
		"error without id": {
			`{"jsonrpc":"2.0","error":{"code":1}}`, want{"kind": "error", "code": "1", "error": `{"code":1}`},
		},
		"meta of another type": {
			`{"jsonrpc":"2.0","id":1,"result":{"_meta":null}}`, want{"kind": "result", "id": "1", "result": `{"_meta":null}`},
		},
		"task and cursor": {
			`{"jsonrpc":"2.0","id":-0,"method":"tasks/list","params":{"taskId":"t","cursor":""}}`,
			want{"kind": "request", "id": "-0", "method": `"tasks/list"`, "taskId": `"t"`, "cursor": `""`, "params": `{"taskId":"t","cursor":""}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Scan([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, spans(m, []byte(c.in))); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestScan(t *testing.T) {
	long := strings.Repeat("x", maxID)
	for name, c := range map[string]struct {
		in   string
		code int // 0: accepted
		id   string
	}{
		"longest-id":           {`{"jsonrpc":"2.0","id":"` + long + `","method":"a"}`, 0, ""},
		"long-id":              {`{"jsonrpc":"2.0","id":"` + long + `x","method":"a"}`, InvalidRequest, ""},
		"fraction":             {`{"jsonrpc":"2.0","id":1.5,"method":"a"}`, InvalidRequest, ""},
		"exponent":             {`{"jsonrpc":"2.0","id":1e3,"method":"a"}`, InvalidRequest, ""},
		"object id":            {`{"jsonrpc":"2.0","id":{},"method":"a"}`, InvalidRequest, ""},
		"null id of a request": {`{"jsonrpc":"2.0","id":null,"method":"a"}`, InvalidRequest, ""},
		"null id of a result":  {`{"jsonrpc":"2.0","id":null,"result":{}}`, InvalidRequest, ""},
		"no id of a result":    {`{"jsonrpc":"2.0","result":{}}`, InvalidRequest, ""},
		"duplicate id":         {`{"jsonrpc":"2.0","id":1,"id":1,"method":"a"}`, InvalidRequest, ""},
		"duplicate by escape":  {`{"jsonrpc":"2.0","id":1,"method":"a","m\u0065thod":"b"}`, InvalidRequest, "1"},
		"duplicate name":       {`{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":1,"name":2}}`, InvalidRequest, "1"},
		"duplicate token":      {`{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":1,"progressToken":1}}}`, InvalidRequest, "1"},
		"duplicate null _meta": {`{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":null,"_meta":{}}}`, InvalidRequest, "1"},
		"duplicate result":     {`{"jsonrpc":"2.0","id":1,"result":1,"result":2}`, InvalidRequest, "1"},
		"duplicate elsewhere":  {`{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{"name":1,"name":2},"x":1,"x":2}}`, 0, ""},
		"no jsonrpc":           {`{"id":1,"method":"a"}`, InvalidRequest, "1"},
		"jsonrpc 1.0":          {`{"jsonrpc":"1.0","id":1,"method":"a"}`, InvalidRequest, "1"},
		"jsonrpc number":       {`{"jsonrpc":2.0,"id":1,"method":"a"}`, InvalidRequest, "1"},
		"method number":        {`{"jsonrpc":"2.0","id":1,"method":5}`, InvalidRequest, "1"},
		"nothing":              {`{"jsonrpc":"2.0","id":1}`, InvalidRequest, "1"},
		"both":                 {`{"jsonrpc":"2.0","id":1,"result":1,"error":{}}`, InvalidRequest, "1"},
		"method and result":    {`{"jsonrpc":"2.0","id":1,"method":"a","result":1}`, InvalidRequest, "1"},
		"params and result":    {`{"jsonrpc":"2.0","id":1,"params":{},"result":1}`, InvalidRequest, "1"},
		"array":                {`[]`, InvalidRequest, ""},
		"number":               {`1`, InvalidRequest, ""},
		"empty":                {``, ParseError, ""},
		"half":                 {`{"jsonrpc":"2.0","id":1,"method":"a"`, ParseError, ""},
		"rest":                 {`{"jsonrpc":"2.0","id":1,"method":"a"} x`, ParseError, ""},
		"malformed wins":       {`{"jsonrpc":"2.0","id":1,"id":1,"method":"a",}`, ParseError, ""},
		"bad utf-8":            {"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}", ParseError, ""},
		"raw line feed":        {"{\"jsonrpc\":\"2.0\",\"method\":\"\n\"}", ParseError, ""},
		"lone surrogate":       {`{"jsonrpc":"2.0","method":"\ud800"}`, 0, ""},
		"bad escape":           {`{"jsonrpc":"2.0","method":"\x"}`, ParseError, ""},
		"leading zero":         {`{"jsonrpc":"2.0","id":01,"method":"a"}`, ParseError, ""},
		"depth 1000":           {`{"jsonrpc":"2.0","method":"a","params":` + strings.Repeat("[", 999) + strings.Repeat("]", 999) + `}`, 0, ""},
		"depth 1001":           {`{"jsonrpc":"2.0","method":"a","params":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, ParseError, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Scan([]byte(c.in))
			var se *ScanError
			if errors.As(err, &se); se == nil {
				se = &ScanError{}
			}
			if se.Code != c.code || string(se.ID) != c.id || (err != nil && se.Text == "") {
				t.Errorf("got code %d, id %q, %v; want code %d, id %q", se.Code, se.ID, err, c.code, c.id)
			}
		})
	}
}

func TestMethodOf(t *testing.T) {
	for in, want := range map[string]string{
		`"tools/call"`: "tools/call", `"tools\/call"`: "tools/call", `"x/y"`: "x/y",
		`"notifications/tools/list_changed"`: "notifications/tools/list_changed",
	} {
		b := []byte(`{"jsonrpc":"2.0","id":1,"method":` + in + `}`)
		m, err := Scan(b)
		if err != nil || m.MethodOf(b) != want {
			t.Errorf("%s: got %q, %v", in, m.MethodOf(b), err)
		}
	}
	if got := (Message{}).MethodOf([]byte("{}")); got != "" {
		t.Errorf("a response has method %q", got)
	}
}

func TestScanDoesNotAllocate(t *testing.T) {
	for _, b := range [][]byte{sample(1 << 10), []byte(`{"jsonrpc":"2.0","\u0069d":1,"method":"tools/list","params":{"\u006eame":"x"}}`)} {
		if n := testing.AllocsPerRun(100, func() {
			m, err := Scan(b)
			if err != nil || m.MethodOf(b) == "" {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

func TestBatch(t *testing.T) {
	b := []byte(" [ {\"a\":[1,2]} ,\n2, \"]\" ] ")
	if !IsBatch(b) || IsBatch([]byte(` {"a":[]}`)) || IsBatch(nil) {
		t.Error("IsBatch is wrong")
	}
	at, err := Batch(b)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range at {
		got = append(got, string(s.Of(b)))
	}
	if d := cmp.Diff([]string{`{"a":[1,2]}`, "2", `"]"`}, got); d != "" {
		t.Error(d)
	}
	for in, code := range map[string]int{
		"[]": InvalidRequest, "{}": InvalidRequest, "[1,]": ParseError, "[\"\xff\"]": ParseError, "[1] 2": ParseError,
		"[" + strings.Repeat("1,", maxBatch) + "1]": InvalidRequest,
	} {
		var se *ScanError
		if _, err := Batch([]byte(in)); !errors.As(err, &se) || se.Code != code {
			t.Errorf("%.20s: %v, want code %d", in, err, code)
		}
	}
}

// sample is a tools/call of about size bytes.
func sample(size int) []byte {
	return []byte(`{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"search","arguments":{"query":"` +
		strings.Repeat("some text, ", size/12) + `","limit":10},"_meta":{"progressToken":"p-1"}}}`)
}

func BenchmarkScan(b *testing.B) {
	structured := []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[` + strings.Repeat(`{"name":"a_tool","description":"What it does.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}},`, 80<<10) + `{}]}}`)
	unicode := bytes.ReplaceAll(sample(8<<20), []byte("some text"), []byte("ein Täxt, 文字"))
	for _, c := range []struct {
		name string
		in   []byte
	}{{"1KiB", sample(1 << 10)}, {"8MiB text", sample(8 << 20)}, {"8MiB unicode", unicode}, {"9MiB structure", structured}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Scan(c.in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzScan compares with encoding/json: both accept the same bytes as JSON, and an accepted message has the members
// that a decoder finds.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"x","_meta":{}}}`, `{"jsonrpc":"2.0","error":{"code":1}}`,
		`{"\u0069d":1}`, `[1,-0.5e+7,"\ud800\\"]`, "\xff", `{"a":"` + "\x1f" + `"}`, `{"jsonrpc":"2.0","id":"","result":tru}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Scan(b)
		var se *ScanError
		malformed := errors.As(err, &se) && se.Code == ParseError
		// encoding/json accepts invalid UTF-8 and ten times our depth.
		if valid := json.Valid(b); valid == malformed && !strings.Contains(err.Error(), "UTF-8") && !strings.Contains(err.Error(), "deep") {
			t.Fatalf("json.Valid is %v, Scan says %v", valid, err)
		}
		if err != nil {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		for key, at := range map[string]Span{"method": m.Method, "params": m.Params, "result": m.Result, "error": m.Error} {
			if !bytes.Equal(at.Of(b), want[key]) {
				t.Errorf("%s: got %s, want %s", key, at.Of(b), want[key])
			}
		}
		if id := string(want["id"]); id != "null" && id != string(m.ID.Of(b)) {
			t.Errorf("id: got %s, want %s", m.ID.Of(b), id)
		}
		if id := m.ID.Of(b); id != nil {
			if _, ok := IDKey(id); !ok {
				t.Errorf("no key for the id %s", id)
			}
		}
	})
}
