package gateway

import (
	"strings"
	"testing"

	"mcpx/internal/catalog"
	"mcpx/internal/rpc"
)

func overHTTP(e *catalog.Server) { e.Stdio, e.HTTP = nil, &catalog.HTTP{URL: "http://127.0.0.1:1/mcp"} }

const headerTool = `{"name":"h","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`

// TestHeadersTowardsHTTP: parameters are mirrored into headers for an HTTP backend, for clients of both eras; a refusal
// for headers reads the list again and repeats the call once; invalid tools leave the list.
func TestHeadersTowardsHTTP(t *testing.T) {
	refused := false
	p := modernPeer(t, nil)
	p.handle = func(l *peerLink, m Outbound, msg rpc.Message) {
		switch {
		case m.Method == "server/discover":
			l.result(m, msg, discover)
		case m.Method == "initialize":
			l.refuse(m, msg, -32601, "no such method")
		case m.Method == "tools/list":
			l.result(m, msg, `{"resultType":"complete","cacheScope":"public","tools":[`+headerTool+`,{"name":"bad","inputSchema":{"type":"object","properties":{"o":{"type":"object","x-mcp-header":"O"}}}}]}`)
		case m.Method == "tools/call" && !refused:
			refused = true
			l.refuse(m, msg, -32020, "header mismatch")
		case m.Method == "tools/call":
			if m.Headers["Mcp-Param-Region"] != "eu" || m.Headers["Mcp-Name"] != "h" {
				t.Errorf("the headers are %v", m.Headers)
			}
			l.result(m, msg, `{"resultType":"complete","content":[]}`)
		}
	}
	s := newRig(t, p, overHTTP)
	call := `{"name":"h","arguments":{"region":"eu"}}`
	if got, _ := reply(t, modern(t, s, "1", "tools/call", call, "{}").Follow()); !strings.Contains(got, `"content":[]`) {
		t.Errorf("the modern client got %s", got)
	}
	list, _ := reply(t, modern(t, s, "2", "tools/list", `{"_":1}`, "{}").Follow())
	if strings.Contains(list, `"bad"`) || !strings.Contains(list, `"h"`) || !strings.Contains(list, `"cacheScope":"private"`) {
		t.Errorf("the list is %s", list)
	}
	x := initialize(t, s, "2025-11-25", "{}")
	if got, _ := reply(t, send(t, x, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+call+`}`)); !strings.Contains(got, `"content":[]`) {
		t.Errorf("the legacy client got %s", got)
	}
}

// TestVersionOfferedAgain: a server that refuses the version and names it is asked once more, and then believed.
func TestVersionOfferedAgain(t *testing.T) {
	for refusals, want := range map[int]string{1: `"content":[]`, 2: "the server refused server/discover"} {
		asked := 0
		p := modernPeer(t, nil)
		p.handle = func(l *peerLink, m Outbound, msg rpc.Message) {
			switch {
			case m.Method == "server/discover" && asked < refusals:
				asked++
				l.sink.Deliver(Inbound{Body: rpc.ErrorResponse(msg.ID.Of(m.Body), -32022, "unsupported", []byte(`{"supported":["x","2026-07-28"],"requested":"2026-07-28"}`))})
			case m.Method == "server/discover":
				l.result(m, msg, discover)
			default:
				l.result(m, msg, `{"resultType":"complete","content":[],"tools":[]}`)
			}
		}
		s := newRig(t, p, overHTTP)
		if got, _ := reply(t, modern(t, s, "1", "tools/call", `{"name":"a"}`, "{}").Follow()); !strings.Contains(got, want) {
			t.Errorf("after %d refusals: %s", refusals, got)
		}
	}
}

// TestLostAnswers: answers that cannot be read or kept end their call with its class, and the lane lives on.
func TestLostAnswers(t *testing.T) {
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		switch string(msg.Name.Of(m.Body)) {
		case `"long"`:
			l.sink.Overlong(nil, 1)
			l.sink.Overlong([]byte(`"nobody"`), 1)
			l.sink.Overlong(msg.ID.Of(m.Body), 70<<20)
		case `"garbage"`:
			l.sink.Deliver(Inbound{Body: []byte(`{"result":`), Via: m.Ref})
		case `"broken"`:
			l.sink.Failed(m.Ref, Failure{Class: Unavailable, Status: 503, Text: "busy"})
			l.sink.Failed(m.Ref, Failure{Class: Unavailable})
		}
	})
	s := newRig(t, p, nil)
	x := initialize(t, s, "2025-11-25", "{}")
	for name, want := range map[string]float64{"long": CodeAnsweredLost, "garbage": CodeAnsweredLost, "broken": CodeUnavailable} {
		got, _ := reply(t, send(t, x, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`"}}`))
		if member(t, got, "error", "code") != want {
			t.Errorf("%s: the client got %s", name, got)
		}
	}
}

// TestDeclinedQuestion: a client of the legacy revisions that answers a question of a modern server with an error ends
// its call.
func TestDeclinedQuestion(t *testing.T) {
	p := modernPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		l.result(m, msg, `{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"sampling/createMessage","params":{"messages":[]}}},"requestState":"s"}`)
	})
	s := newRig(t, p, nil)
	x := initialize(t, s, "2025-11-25", `{"roots":{},"sampling":{}}`)
	r := send(t, x, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`)
	first, second := next(t, r).Data, next(t, r).Data
	no := []byte(`{"jsonrpc":"2.0","id":` + string(scan(t, second).ID.Of(second)) + `,"error":{"code":-1,"message":"no, thanks"}}`)
	x.Respond(no, scan(t, no))
	if got, _ := reply(t, r); !strings.Contains(got, "no, thanks") || member(t, got, "error", "code") != -32603.0 {
		t.Errorf("the client got %s", got)
	}
	yes := []byte(`{"jsonrpc":"2.0","id":` + string(scan(t, first).ID.Of(first)) + `,"result":{"roots":[]}}`)
	x.Respond(yes, scan(t, yes))
	y := initialize(t, s, "2025-11-25", `{}`)
	if got, _ := reply(t, send(t, y, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`)); !strings.Contains(got, "did not declare") {
		t.Errorf("a client without capabilities got %s", got)
	}
}
