package gateway

import (
	"strings"
	"testing"

	"mcpx/internal/catalog"
	"mcpx/internal/rpc"
)

// cells are the four combinations of client and backend, and the shared lane of the first.
var cells = []struct {
	name   string
	peer   func(*testing.T, func(*peerLink, Outbound, rpc.Message)) *peer
	edit   func(*catalog.Server)
	modern bool // the client
}{
	{"legacy exclusive", legacyPeer, nil, false},
	{"legacy shared", legacyPeer, global, false},
	{"modern to modern", modernPeer, nil, true},
	{"modern to legacy", legacyPeer, nil, true},
	{"legacy to modern", modernPeer, nil, false},
}

// client sends one request in a cell; extra members of params must be valid in both eras.
func client(t *testing.T, s *Server, isModern bool) func(id, method, params string) *Reader {
	if isModern {
		return func(id, method, params string) *Reader { return modern(t, s, id, method, params, allCaps).Follow() }
	}
	x := initialize(t, s, "2025-11-25", allCaps)
	return func(id, method, params string) *Reader {
		return send(t, x, `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":`+params+`}`)
	}
}

// TestAwkwardIDs: ids at the edges of what is legal come back byte for byte in every cell, and the backend never sees
// an id that it could not send back.
func TestAwkwardIDs(t *testing.T) {
	ids := []string{"0", "-1", "9007199254740993", `""`, `"q\u0062"`, `"mx1.7.l.-.-.i1"`, `"` + strings.Repeat("x", 1024) + `"`, strings.Repeat("7", 1024)}
	for _, cell := range cells {
		t.Run(cell.name, func(t *testing.T) {
			p := cell.peer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
				if m.Method == "prompts/get" {
					l.result(m, msg, `{"messages":[]}`)
				}
			})
			call := client(t, newRig(t, p, cell.edit), cell.modern)
			for _, id := range ids {
				got, _ := reply(t, call(id, "prompts/get", `{"name":"p","_":1}`))
				if !strings.Contains(got, `"id":`+id+`,`) || !strings.Contains(got, `"messages"`) {
					t.Errorf("id %.40s got %.200s", id, got)
				}
			}
		})
	}
}

// TestHostileBackend: whatever a backend sends, the call ends and the daemon lives.
func TestHostileBackend(t *testing.T) {
	deep := strings.Repeat(`[`, 990) + strings.Repeat(`]`, 990)
	before := map[string]string{
		"a listen that is an id of the gateway":   `{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":OWN}}}`,
		"a listen that is the call":               `{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`,
		"progress without a token":                `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`,
		"a cancellation of the call":              `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}`,
		"a cancellation without id":               `{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		"an answer nobody asked for":              `{"jsonrpc":"2.0","id":"mx1.7.l.-.-.i99","result":{}}`,
		"an error without id":                     `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}`,
		"an answer under another kind of id":      `{"jsonrpc":"2.0","id":4711,"result":{}}`,
		"half a message":                          `{"jsonrpc":"2.0","id":`,
		"an empty batch":                          `[]`,
		"a batch of nonsense":                     `[1,{"jsonrpc":"2.0"},[]]`,
		"a question with the id of the call":      `{"jsonrpc":"2.0","id":ID,"method":"roots/list"}`,
		"a question with a method nobody knows":   `{"jsonrpc":"2.0","id":1,"method":"vendor/ask"}`,
		"a ping":                                  `{"jsonrpc":"2.0","id":2,"method":"ping"}`,
		"a list change without params":            `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		"a log message that is none":              `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":7}}`,
		"a task notification of nobody":           `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t"}}`,
		"a resource update without uri":           `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{}}`,
		"a deep notification":                     `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":` + deep + `}}`,
		"an acknowledgement that nobody awaits":   `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}`,
		"progress with the token of nobody":       `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"?","progress":1}}`,
		"a subscription id that is not an id":     `{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":{}}}}`,
		"a list change with an id of the gateway": `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":OWN}}}`,
	}
	results := map[string]string{
		"a list":                         `{"tools":[{"name":5},7,null]}`,
		"input without requests":         `{"resultType":"complete","inputRequests":7}`,
		"a task":                         `{"resultType":"task","taskId":"t1","status":"working"}`,
		"a question that is no request":  `{"resultType":"input_required","inputRequests":{"k":{"method":"sampling/createMessage","params":{"name":1,"name":2}}},"requestState":"s"}`,
		"a question with two envelopes":  `{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"_meta":{},"_meta":{}}}},"requestState":"s"}`,
		"a question that is a call":      `{"resultType":"input_required","inputRequests":{"k":{"method":"tools/call","params":{}}},"requestState":"s"}`,
		"a structured content of values": `{"content":[],"structuredContent":[1,{"a":` + deep + `}]}`,
		"a result type of no text":       `{"resultType":{},"content":[]}`,
	}
	for _, cell := range cells {
		t.Run(cell.name, func(t *testing.T) {
			ready := make(chan string, 8)
			p := cell.peer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
				if m.Method != "prompts/get" && m.Method != "tools/call" {
					return
				}
				id := string(msg.ID.Of(m.Body))
				if text, ok := before[string(msg.Name.Of(m.Body))[1:len(msg.Name.Of(m.Body))-1]]; ok {
					l.say(strings.NewReplacer("ID", id, "OWN", `"mx1.7.g.-.-.i1"`).Replace(text))
					l.result(m, msg, `{"messages":[]}`)
					return
				}
				name, _ := rpc.Unquote(msg.Name.Of(m.Body))
				l.result(m, msg, results[name])
				ready <- name
			})
			call := client(t, newRig(t, p, cell.edit), cell.modern)
			n := 0
			for name := range before {
				n++
				if got, _ := reply(t, call(`"`+name+`"`, "prompts/get", `{"name":"`+name+`"}`)); !strings.Contains(got, `"id":"`+name+`"`) {
					t.Errorf("%s: the client got %s", name, got)
				}
			}
			for name := range results {
				got, _ := reply(t, call(`"`+name+`"`, "tools/call", `{"name":"`+name+`","arguments":{}}`))
				if !strings.Contains(got, `"id":"`+name+`"`) {
					t.Errorf("%s: the client got %s", name, got)
				}
				<-ready
			}
		})
	}
}

// TestDeepMessages: a message at the limit of depth that gets one level deeper on its way is refused, and nothing
// else happens.
func TestDeepMessages(t *testing.T) {
	deep := strings.Repeat(`[`, 996) + strings.Repeat(`]`, 996)
	p := modernPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if m.Method == "tools/call" {
			l.result(m, msg, `{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"form","message":"?"}}},"requestState":"s"}`)
		}
	})
	s := newRig(t, p, nil)
	x := initialize(t, s, "2025-11-25", `{"elicitation":{}}`)
	r := send(t, x, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`)
	question := next(t, r).Data
	answer := []byte(`{"jsonrpc":"2.0","id":` + string(scan(t, question).ID.Of(question)) + `,"result":{"content":{"a":[` + deep + `]}}}`)
	x.Respond(answer, scan(t, answer))
	if got, _ := reply(t, r); member(t, got, "error", "code") != -32602.0 {
		t.Errorf("the client got %.200s", got)
	}
	y := initialize(t, s, "2025-11-25", `{"elicitation":{"x":`+deep+`}}`)
	if got, _ := reply(t, send(t, y, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`)); member(t, got, "error", "code") != -32602.0 {
		t.Errorf("the client with deep capabilities got %.200s", got)
	}
}

// TestDuplicateMembersInAnAnswer: an answer that is no valid result counts as missing; the question comes again.
func TestDuplicateMembersInAnAnswer(t *testing.T) {
	p := legacyPeer(t, func(l *peerLink, m Outbound, _ rpc.Message) {
		if m.Method == "tools/call" {
			l.say(`{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{"message":"name?"}}`)
		}
	})
	s := newRig(t, p, nil)
	first, _ := reply(t, modern(t, s, "1", "tools/call", `{"name":"a"}`, allCaps).Follow())
	state := member(t, first, "result", "requestState").(string)
	second, _ := reply(t, modern(t, s, "2", "tools/call", `{"name":"a","requestState":"`+state+`","inputResponses":{"r1":{"_meta":{},"_meta":{}}}}`, allCaps).Follow())
	if member(t, second, "result", "resultType") != "input_required" {
		t.Errorf("the retry got %s", second)
	}
}
