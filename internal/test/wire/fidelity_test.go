package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// toolsResult is a tool list with everything that typed code loses: members and keywords nobody knows, keys out of
// order, numbers that are no float64, a tool without a schema, names that no rule allows.
const toolsResult = `"vendorTop":{"z":[1.10,1e3,-0],"a":null},"tools":[` +
	`{"name":"zeta","inputSchema":{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"type":"integer","maximum":12345678901234567890}},"x-unknown":{"b":1,"a":2},"$defs":{"d":{"$ref":"#/definitions/e"}},"definitions":{"e":{"const":9007199254740993}}},"execution":{"taskSupport":"optional","vendor":1},"vendor":"\u003c<&>\u2028"},` +
	`{"name":"no schema"},{"name":"weiß/日本 ","title":"\ud83d\ude00","inputSchema":{"type":"object"}},` +
	`{"name":"raw","inputSchema":{"type":"object"}}` +
	`],"nextCursor":"","ttlMs":0,"cacheScope":"private","resultType":"complete"`

// exchanges are calls of the tool "raw": what it answers, and what else the request carries. In the L-L and M-M cells
// both directions must arrive byte for byte, apart from ids and tokens; in the bridged cells the members of result
// that the bridge does not own must arrive as they are.
var exchanges = []struct {
	name    string // number in the byte-fidelity list of the protocol document, and what it is
	id      string // raw id, 7 by default
	params  string // further members of params
	top     string // further members of the request
	result  string // members of the result
	failure string // the error object, instead of a result
	after   string // further members of the answer
	same    bool   // only for lanes without a bridge: the bridge owns some of it, or the era has no such thing
}{
	{name: "01 unknown members everywhere", top: `,"vendorTop":{"b":1,"a":2}`, params: `,"vendorParam":[{"z":1,"a":2}]`, result: `"zz":1,"content":[{"type":"text","text":"x","vendorBlock":{"b":1,"a":[]}}],"vendorResult":{"b":null}`, after: `,"vendorAnswer":true`},
	{name: "01 unknown members of an error", failure: `{"zz":1,"code":-32000,"message":"m","data":{"b":1,"a":2},"vendor":[]}`},
	{name: "02 order of keys", result: `"isError":false,"content":[{"text":"x","type":"text","annotations":{"priority":1,"audience":["user"]}}]`},
	{name: "05 related task", result: `"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"},"b":1,"a":2}`, same: true},
	{name: "06 numbers", params: `,"n":[9007199254740993,12345678901234567890,1.10,1e3,-0,1E+2]`, result: `"content":[{"type":"text","text":"n","n":[9007199254740993,12345678901234567890,1.10,1e3,-0,-0.0,1E-7]}]`},
	{name: "07 strings", params: `,"s":"<>&` + "\u2028" + `\u2028\/\u0041\ud800"`, result: `"content":[{"type":"text","text":"<>&` + "\u2028\u2029" + `\u2028\/\u0041\ud800\udfff\b\f"}]`},
	{name: "08 structured array", result: `"content":[],"structuredContent":[1,{"b":2,"a":1}]`, same: true},
	{name: "08 structured string", result: `"content":[],"structuredContent":"s"`, same: true},
	{name: "08 structured null", result: `"content":[],"structuredContent":null`, same: true},
	{name: "09 data is a string", failure: `{"code":-32000,"message":"m","data":"s"}`},
	{name: "09 data is null", failure: `{"code":-32099,"message":"m","data":null}`, same: true},
	{name: "09 data is a list", failure: `{"code":1,"message":"","data":[1.0,{}]}`},
	{name: "11 unknown content type", result: `"content":[{"type":"vendor/3d","mesh":{"b":1,"a":2}},{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"audio","data":"AAAA","mimeType":"audio/wav"},{"type":"resource_link","uri":"x:y","name":"n"}]`},
	{name: "15 id zero", id: `0`},
	{name: "15 id negative", id: `-1`},
	{name: "15 id above 2^53", id: `9007199254740993`},
	{name: "15 id at 2^63", id: `9223372036854775807`},
	{name: "15 id empty", id: `""`},
	{name: "15 id with escapes", id: `"q\u0062\/\"é"`},
	{name: "15 id of another gateway", id: `"mx1.1.l.abcdefghijkl.-.i7"`},
	{name: "15 id of 1 KiB", id: `"` + strings.Repeat("i", 1022) + `"`},
	{name: "17 other case beside the routing member", top: `,"Method":"ping","ID":5`, params: `,"Name":"x"`},
	{name: "18 whitespace between tokens", params: ` , "w" : [ 1 , 2 ] `, result: ` "content" : [ ] , "w" : { "a" : 1 } `},
	{name: "19 one MiB", result: `"content":[{"type":"text","text":"@PAD:1048576@"}]`},
}

func TestByteFidelity(t *testing.T) {
	everyLane(t, nil, func(t *testing.T, l lane) {
		c := l.client(t, `{"elicitation":{"form":{}},"sampling":{}}`)
		for _, x := range exchanges {
			if x.same && l.cross {
				continue
			}
			t.Run(x.name, func(t *testing.T) {
				id := x.id
				if id == "" {
					id = "7"
				}
				result := x.result
				if result == "" {
					result = `"content":[]`
				}
				mark := quote("mark " + x.name)
				answer := `{"jsonrpc":"2.0","id":@ID@,"result":{` + result + `}` + x.after + `}`
				if l.backendModern() {
					answer = `{"jsonrpc":"2.0","id":@ID@,"result":{"resultType":"complete",` + result + `}` + x.after + `}`
				}
				if x.failure != "" {
					answer = `{"jsonrpc":"2.0","id":@ID@,"error":` + x.failure + `}`
				}
				request := `{"jsonrpc":"2.0","id":@ID@,"method":"tools/call"` + x.top + `,"params":` +
					l.params(`"name":"raw","arguments":{"lines":[`+quote(answer)+`],"mark":`+mark+`}`+x.params) + `}`
				quoted := quote(answer) // the answer travels inside the request: its holes are no holes there
				template := strings.Replace(request, quoted, "@ANSWER@", 1)
				reply := c.On(t).Post(strings.Replace(fill(template, id, ""), "@ANSWER@", quoted, 1))
				want := strings.ReplaceAll(fill(answer, id, ""), "@PAD:1048576@", strings.Repeat("x", 1<<20))
				got := string(reply.Answer(t))
				switch {
				case !l.cross && got != want:
					_, why := fits(want, got)
					t.Errorf("the client saw another answer (HTTP %d):\n%s", reply.Status, why)
				case l.cross && x.failure == "" && !strings.Contains(got, strings.TrimSpace(strings.ReplaceAll(result, "@PAD:1048576@", strings.Repeat("x", 1<<20)))):
					t.Errorf("members of the result changed on the bridge:\nwant %s\n got %s", clip(result), clip(got))
				case l.cross && x.failure != "" && !strings.Contains(got, `"error":`+x.failure):
					t.Errorf("the error changed on the bridge:\nwant %s\n got %s", x.failure, clip(got))
				case l.cross && !strings.Contains(got, `"id":`+id):
					t.Errorf("the id %s did not come back: %s", id, clip(got))
				}
				seen := strings.Replace(l.recorded(t, mark), quoted, "@ANSWER@", 1)
				if l.cross {
					if !strings.Contains(seen, strings.TrimSpace(x.params)) {
						t.Errorf("members of params changed on the bridge:\nwant %s\n got %s", x.params, clip(seen))
					}
					return
				}
				if ok, why := fits(template, seen); !ok {
					t.Errorf("the backend read another request:\n%s", why)
				}
			})
		}
	})
}

// backendModern says which era the fixture behind the lane answers in.
func (l lane) backendModern() bool { return l.modern != l.cross }

// TestListsArriveUnchanged compares the bytes of tools/list: (1) to (4), (12), (13).
func TestListsArriveUnchanged(t *testing.T) {
	everyLane(t, nil, func(t *testing.T, l lane) {
		c := l.client(t, `{}`)
		for i, cursor := range []string{"", `"cursor":""`, `"cursor":"a\u0000\/|<>"`} {
			members := []string{fmt.Sprintf(`"mark":"cursor %d"`, i)}
			if cursor != "" {
				members = append(members, cursor)
			}
			reply := c.Post(`{"jsonrpc":"2.0","id":"list","method":"tools/list","params":` + l.params(members...) + `}`)
			got := string(reply.Answer(t))
			want := `{"jsonrpc":"2.0","id":"list","zeta":true,"result":{` + toolsResult + `}}`
			tools := toolsResult[strings.Index(toolsResult, `"tools":`):strings.Index(toolsResult, `,"ttlMs"`)]
			if !l.cross && got != want {
				_, why := fits(want, got)
				t.Errorf("cursor %s: the list changed:\n%s", cursor, why)
			}
			if l.cross && !strings.Contains(got, tools) {
				_, why := fits(tools, got[max(0, strings.Index(got, `"tools":`)):])
				t.Errorf("cursor %s: the tools changed on the bridge:\n%s", cursor, why)
			}
			if seen := l.recorded(t, fmt.Sprintf(`"cursor %d"`, i)); cursor != "" && !strings.Contains(seen, cursor) {
				t.Errorf("the backend did not get the cursor %s: %s", cursor, seen)
			}
		}
	})
}

// TestMessagesWithoutID sends vendor notifications both ways and a vendor method: (11). A bridge need not know vendor
// messages; HTTP fixtures have no stream of their own.
func TestMessagesWithoutID(t *testing.T) {
	everyLane(t, func(l lane) bool { return l.cross || !l.stdio }, func(t *testing.T, l lane) {
		c := l.client(t, `{}`)
		vendor := `{"jsonrpc":"2.0","method":"notifications/vendor/x","params":{"b":9007199254740993,"a":1.10},"extra":[]}`
		answer := `{"jsonrpc":"2.0","id":@ID@,"result":{"resultType":"complete","content":[]}}`
		reply := c.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` +
			l.params(`"name":"raw","arguments":{"lines":[`+quote(vendor)+`,`+quote(answer)+`]}`) + `}`)
		if len(reply.Messages) != 2 || string(reply.Messages[0]) != vendor {
			t.Errorf("want the vendor notification before the answer, got %q", reply.Messages)
		}
		request := `{"jsonrpc":"2.0","id":2,"method":"vendor/echo","params":` + l.params(`"z":1.10,"a":9007199254740993`) + `}`
		if got := string(c.Post(request).Answer(t)); !strings.Contains(got, `"z":1.10,"a":9007199254740993`) {
			t.Errorf("the vendor method came back as %s", got)
		}
		if l.modern {
			return // modern HTTP clients send no notifications
		}
		out := `{"jsonrpc":"2.0","method":"notifications/vendor/y","params":{"z":1e3,"a":[]}}`
		if r := c.Post(out); r.Status != 202 || len(r.Body) > 0 {
			t.Errorf("a notification: HTTP %d %q, want 202 and no body", r.Status, r.Body)
		}
		c.Post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"counter","arguments":{}}}`) // a barrier: lanes keep order
		if got := l.recorded(t, "notifications/vendor/y"); got != out {
			t.Errorf("the backend read %s, want %s", got, out)
		}
	})
}

// TestProgressTokens checks (16): any scalar, reused after completion, never another client's.
func TestProgressTokens(t *testing.T) {
	everyLane(t, nil, func(t *testing.T, l lane) {
		c := l.client(t, `{}`)
		for _, token := range []string{`"t"`, `7`, `"t"`, `0`, `""`, `9007199254740993`, `"a\u0062"`, `7`} {
			reply := c.Post(`{"jsonrpc":"2.0","id":` + token + `,"method":"tools/call","params":{"name":"progress","arguments":{"steps":3},` +
				l.meta(`"vendorMeta":{"b":1,"a":2}`, `"progressToken":`+token) + `}}`)
			var steps [][]byte
			for _, m := range reply.Messages { // a legacy client may be told other things on this stream too
				if strings.Contains(string(m), "notifications/progress") {
					steps = append(steps, m)
				}
			}
			if len(steps) != 3 || !strings.Contains(string(reply.Answer(t)), "3 steps") {
				t.Errorf("token %s: want three progress messages and the answer, got %q", token, reply.Messages)
				continue
			}
			for i, m := range steps {
				want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":3,"message":"step"}}`, token, i+1)
				if string(m) != want {
					t.Errorf("token %s: got %s, want %s", token, m, want)
				}
			}
		}
		if seen := l.recorded(t, `"vendorMeta"`); !strings.Contains(seen, `"vendorMeta":{"b":1,"a":2}`) {
			t.Errorf("a vendor member of _meta changed: %s", seen)
		}
	})
}

// TestRequestStateSurvives sends 64 KiB of odd characters through both rounds of a modern call: (10).
func TestRequestStateSurvives(t *testing.T) {
	state := quote(strings.Repeat(`a"\/<>&é😀`+"\u2028", 4096))
	everyLane(t, func(l lane) bool { return !l.modern || l.cross }, func(t *testing.T, l lane) {
		c := l.client(t, "")
		answer := `{"jsonrpc":"2.0","id":@ID@,"result":{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list","vendor":1}},"requestState":` + state + `,"vendor":{"b":1,"a":2}}}`
		body := func(extra string) string {
			return `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":` + l.params(`"name":"raw","arguments":{"lines":[`+quote(answer)+`]}`+extra) + `}`
		}
		if got, want := string(c.Post(body("")).Answer(t)), fill(answer, "5", ""); got != want {
			_, why := fits(want, got)
			t.Errorf("round 1 changed:\n%s", why)
		}
		retry := `,"inputResponses":{"q":{"roots":[],"vendor":1.10}},"requestState":` + state + `,"mark":"round two"`
		c.Post(body(retry))
		if seen := l.recorded(t, "round two"); !strings.Contains(seen, retry) {
			t.Errorf("the retry reached the backend with another state: %s", clip(seen))
		}
		odd := `{"jsonrpc":"2.0","id":@ID@,"result":{"resultType":"vendor/later","vendor":{"b":1,"a":2}}}`
		got := string(c.Post(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":` + l.params(`"name":"raw","arguments":{"lines":[`+quote(odd)+`]}`) + `}`).Answer(t))
		if got != fill(odd, "6", "") {
			t.Errorf("an unknown resultType changed: %s", got)
		}
	})
}

// TestHandshakeArrivesUnchanged compares the initialize result, with vendor capabilities, big numbers and 100 KiB of
// instructions: (3), (10).
func TestHandshakeArrivesUnchanged(t *testing.T) {
	g := rig.Start(t)
	result := `"capabilities":{"vendor/x":{"zeta":9007199254740993,"alpha":1.10},"tools":{},"experimental":{"b":{},"a":{}}},"serverInfo":{"vendor":[1e3],"name":"n","version":"1"},"instructions":"` +
		strings.Repeat("i", 100<<10) + `","protocolVersion":"2025-11-25","vendorMember":{"b":1,"a":2}`
	file := answersFile(t, map[string][]string{"initialize": {`{"jsonrpc":"2.0","id":@ID@,"result":{` + result + `},"after":1}`}})
	for _, name := range []string{"session", "global"} {
		l := lane{name: name, url: g.URL(name), record: g.Home + "/" + name + ".record"}
		g.Add(name, rig.Fixture(t, fakemcp.Options{Record: l.record, Answers: file}))
		if name == "global" {
			g.Share(name)
		}
		t.Run(name, func(t *testing.T) {
			c := l.client(t, `{"roots":{"listChanged":true,"vendor":{"b":1,"a":9007199254740993}}}`)
			want := `{"jsonrpc":"2.0","id":0,"result":{` + result + `},"after":1}`
			if name == "global" {
				want = `{"jsonrpc":"2.0","id":0,"result":{` + result + `}}` // the lane keeps the result, not the message
			}
			if got := string(c.Initialize.Answer(t)); got != want {
				_, why := fits(want, got)
				t.Errorf("the initialize answer changed:\n%s", why)
			}
			if seen := l.recorded(t, `"initialize"`); name == "session" && !strings.Contains(seen, `"capabilities":{"roots":{"listChanged":true,"vendor":{"b":1,"a":9007199254740993}}},"clientInfo":{"name":"rig","version":"1"}`) {
				t.Errorf("the backend read another initialize: %s", seen)
			}
		})
	}
}

// TestCoreTasksPass runs the task form of 2025-11-25 end to end: (5).
func TestCoreTasksPass(t *testing.T) {
	everyLane(t, func(l lane) bool { return l.modern || l.cross || l.control }, func(t *testing.T, l lane) {
		c := l.client(t, `{"tasks":{}}`)
		created := string(c.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow_compute","arguments":{"seconds":0},"task":{"ttl":60000}}}`).Answer(t))
		var answer struct {
			Result struct{ Task struct{ TaskID string } }
		}
		if err := json.Unmarshal([]byte(created), &answer); err != nil || answer.Result.Task.TaskID == "" {
			t.Fatalf("no task was created: %v %s", err, created)
		}
		id := quote(answer.Result.Task.TaskID)
		got := string(c.Post(`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":` + id + `}}`).Answer(t))
		if !strings.Contains(got, `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":`+id+`}}`) {
			t.Errorf("tasks/result came back as %s", got)
		}
		got = string(c.Post(`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":` + id + `}}`).Answer(t))
		if !strings.Contains(got, `"status":"completed"`) {
			t.Errorf("tasks/get came back as %s", got)
		}
	})
}
