package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// everything is what the clients of these tests declare.
const everything = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{"listChanged":true}}`

// TestEveryCell walks through the features of the protocol in all four cells: the same assertions whatever the eras of
// client and backend, with the differences that the revisions themselves make.
func TestEveryCell(t *testing.T) {
	everyLane(t, nil, func(t *testing.T, l lane) {
		c := l.client(t, everything)
		ask := func(id, method string, members ...string) string {
			t.Helper()
			r := c.Post(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + l.params(members...) + `}`)
			return string(r.Answer(t))
		}
		want := func(what, got string, parts ...string) {
			t.Helper()
			for _, part := range parts {
				if !strings.Contains(got, part) {
					t.Errorf("%s: no %s in %s", what, part, clip(got))
				}
			}
			if l.modern && strings.Contains(got, `"result"`) != strings.Contains(got, `"resultType"`) {
				t.Errorf("%s: a modern result says its type, and nothing else does: %s", what, clip(got))
			}
		}
		want("tools/list", ask("1", "tools/list"), `"name":"zeta"`)
		want("tools/call", ask("2", "tools/call", `"name":"echo","arguments":{"message":"hi"}`), `"text":"Echo: hi"`)
		want("unknown tool", ask("3", "tools/call", `"name":"none","arguments":{}`), `"code":-32602`)
		want("prompts/list", ask("4", "prompts/list"), `"name":"greet"`)
		want("prompts/get", ask("5", "prompts/get", `"name":"greet","arguments":{"who":"x"}`), `"text":"hello"`)
		want("resources/list", ask("6", "resources/list"), `"uri":"fake://one"`)
		want("resources/templates/list", ask("7", "resources/templates/list"), `"uriTemplate":"fake://{name}"`)
		want("resources/read", ask("8", "resources/read", `"uri":"fake://one"`), `"text":"one"`)
		missing := map[bool]string{false: `"code":-32002`, true: `"code":-32602`}[l.modern]
		want("a missing resource", ask("9", "resources/read", `"uri":"fake://none"`), missing, "fake://none")
		want("completion", ask("10", "completion/complete", `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"a"}`), `"values":["alpha","beta"]`)
		want("unknown method", ask("11", "vendor/unknown"), `"code":-32601`)
		if l.modern {
			want("discover", ask("12", "server/discover"), `"supportedVersions"`, `"2026-07-28"`, `"instructions":"a fixture"`)
			for _, removed := range []string{"ping", "logging/setLevel", "initialize", "resources/subscribe"} {
				want(removed, ask("13", removed), `"code":-32601`)
			}
		} else {
			want("ping", ask("12", "ping"), `"result":{}`)
			want("setLevel", ask("13", "logging/setLevel", `"level":"debug"`), `"result":{}`)
			want("subscribe", ask("14", "resources/subscribe", `"uri":"fake://one"`), `"result":{}`)
		}
	})
}

// questions are what servers ask, and what the client of the test answers.
var questions = []struct{ method, answer string }{
	{"elicitation/create", `{"action":"accept","content":{"name":"Ada"}}`},
	{"sampling/createMessage", `{"role":"assistant","content":{"type":"text","text":"Ada"},"model":"stub"}`},
	{"roots/list", `{"roots":[{"uri":"file:///Ada"}]}`},
}

// TestServersAsk lets a server ask its client in all four cells.
func TestServersAsk(t *testing.T) {
	skip := func(l lane) bool { return !l.stdio } // the HTTP fixture has no way back for answers of a session
	everyLane(t, skip, func(t *testing.T, l lane) {
		c := l.client(t, everything)
		for i, q := range questions {
			mark := fmt.Sprintf("mark-%d", i)
			got := answerQuestion(t, l, c, q.method, mark, q.answer)
			if !strings.Contains(got, "mark="+mark) || !strings.Contains(got, "Ada") {
				t.Errorf("%s: the server did not get the answer: %s", q.method, clip(got))
			}
		}
	})
}

// answerQuestion calls the tool that asks, answers as the client's era does, and returns the last answer.
func answerQuestion(t *testing.T, l lane, c *rig.Client, method, mark, answer string) string {
	t.Helper()
	members := `"name":"ask","arguments":{"method":` + quote(method) + `,"mark":` + quote(mark) + `}`
	body := func(extra string) string {
		return `{"jsonrpc":"2.0","id":"ask","method":"tools/call","params":` + l.params(members+extra) + `}`
	}
	if l.modern {
		var round struct {
			Result struct {
				ResultType    string
				InputRequests map[string]struct{ Method string }
				RequestState  json.RawMessage
			}
		}
		first := c.Post(body("")).Answer(t)
		if err := json.Unmarshal(first, &round); err != nil || round.Result.ResultType != "input_required" || len(round.Result.InputRequests) != 1 {
			t.Fatalf("%s: want input_required with one request: %v %s", method, err, clip(string(first)))
		}
		for key, asked := range round.Result.InputRequests {
			if asked.Method != method {
				t.Errorf("asked %s, want %s", asked.Method, method)
			}
			extra := `,"inputResponses":{` + quote(key) + `:` + answer + `}`
			if round.Result.RequestState != nil {
				extra += `,"requestState":` + string(round.Result.RequestState)
			}
			return string(c.Post(body(extra)).Answer(t))
		}
	}
	stream := c.Begin(body(""))
	asked := stream.Await(quote(method), 10*time.Second)
	if method != "roots/list" && !strings.Contains(string(asked), mark) {
		t.Errorf("%s: another call's question arrived: %s", method, asked)
	}
	reply(t, c, asked, answer)
	return string(stream.Await(`"id":"ask"`, 10*time.Second))
}

// reply answers a request of the server with its own id, byte for byte.
func reply(t *testing.T, c *rig.Client, request []byte, result string) {
	t.Helper()
	if r := c.Post(answerTo(t, request, result)); r.Status != 202 {
		t.Errorf("the answer was not accepted: HTTP %d %s", r.Status, r.Body)
	}
}

// answerTo is the answer with this raw result.
func answerTo(t *testing.T, request []byte, result string) string {
	t.Helper()
	var m struct{ ID json.RawMessage }
	if err := json.Unmarshal(request, &m); err != nil || m.ID == nil {
		t.Fatalf("a request without an id: %v %s", err, request)
	}
	return `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`
}

// TestUndeclaredQuestions is the other half of F-24: a client that declared nothing is not asked, and the server still
// gets an answer.
func TestUndeclaredQuestions(t *testing.T) {
	stdioPair(t, fakemcp.Options{}, func(t *testing.T, _ *rig.Gateway, l lane) {
		c := l.client(t, `{}`)
		for _, q := range questions {
			r := c.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"method":"` + q.method + `","mark":"m"}}}`)
			if got := string(r.Answer(t)); !strings.Contains(got, "-32601") {
				t.Errorf("%s: the server was answered with %s, want -32601", q.method, got)
			}
			if len(r.Messages) != 1 {
				t.Errorf("%s: the client was asked although it declared nothing: %q", q.method, r.Messages)
			}
		}
	})
}

// TestSharedQuestions has two clients of one process. While the other one's call is in flight nobody can say whose
// question it is: it waits, and then reaches the right client. When both calls ask, each ends with a definite answer
// and no client ever sees the other's question.
func TestSharedQuestions(t *testing.T) {
	stdioPair(t, fakemcp.Options{}, func(t *testing.T, g *rig.Gateway, l lane) {
		g.Share(l.name)
		a, b := l.client(t, everything), l.client(t, everything)
		busy := b.Begin(tool(`"busy"`, "sleep", `{"ms":700}`))
		if got := answerQuestion(t, l, a, "elicitation/create", "for-a", `{"action":"accept","content":{"name":"Ada"}}`); !strings.Contains(got, "Ada") {
			t.Errorf("the question did not reach its client: %s", clip(got))
		}
		busy.Await("slept", 5*time.Second)

		ask := func(mark string) string {
			return tool(quote(mark), "ask", `{"method":"sampling/createMessage","mark":`+quote(mark)+`}`)
		}
		one, two := a.Begin(ask("one")), b.Begin(ask("two"))
		// In the order in which they came: now that the server has asked, the second call waits for the end of the first one.
		for _, x := range []struct {
			mark   string
			owner  *rig.Client
			stream *rig.Stream
		}{{"one", a, one}, {"two", b, two}} {
			mark, stream := x.mark, x.stream
			for {
				e, ok := stream.Next(10 * time.Second)
				if !ok {
					t.Errorf("%s: the stream ended without an answer", mark)
					break
				}
				if strings.Contains(string(e.Data), `"sampling/createMessage"`) {
					if !strings.Contains(string(e.Data), mark) {
						t.Errorf("the question of another call reached %s: %s", mark, e.Data)
					}
					reply(t, x.owner, e.Data, `{"role":"assistant","content":{"type":"text","text":"Ada"},"model":"stub"}`)
					continue
				}
				if strings.Contains(string(e.Data), `"id":`+quote(mark)) {
					break
				}
			}
		}
	})
}

// TestCancellation is F-17: two clients use the same id, one cancels. The cancel reaches that call alone.
func TestCancellation(t *testing.T) {
	for _, global := range []bool{false, true} {
		t.Run(fmt.Sprintf("global=%v", global), func(t *testing.T) {
			stdioPair(t, fakemcp.Options{}, func(t *testing.T, g *rig.Gateway, l lane) {
				if global {
					g.Share(l.name)
				}
				a, b := l.client(t, `{}`), l.client(t, `{}`)
				hangs := a.Begin(tool("7", "hang", `{}`))
				sleeps := b.Begin(tool("7", "sleep", `{"ms":600}`))
				if r := a.Post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"enough"}}`); r.Status != 202 || len(r.Body) > 0 {
					t.Errorf("the cancel: HTTP %d %q, want 202 and no body", r.Status, r.Body)
				}
				start := time.Now()
				for {
					e, ok := hangs.Next(5 * time.Second)
					if !ok {
						break
					}
					if strings.Contains(string(e.Data), `"id":7`) {
						break // an error answer ends it as well
					}
				}
				if took := time.Since(start); took > time.Second {
					t.Errorf("the cancelled call ended after %s", took)
				}
				sleeps.Await("slept", 5*time.Second)
				if seen := l.recorded(t, "notifications/cancelled"); !strings.Contains(seen, `"reason":"enough"`) {
					t.Errorf("the backend read %s", seen)
				}
			})
		})
	}
}

// TestChangesAreTold is F-25 in all cells: a changed tool list reaches a legacy client on a stream of its session and a
// modern client on its subscription, under that subscription's id.
func TestChangesAreTold(t *testing.T) {
	skip := func(l lane) bool { return !l.stdio }
	everyLane(t, skip, func(t *testing.T, l lane) {
		c := l.client(t, everything)
		const changed = "notifications/tools/list_changed"
		var stream *rig.Stream
		if l.modern {
			stream = c.Begin(`{"jsonrpc":"2.0","id":"listen","method":"subscriptions/listen","params":` + l.params(`"notifications":{"toolsListChanged":true}`) + `}`)
			first, ok := stream.Next(10 * time.Second)
			if !ok || !strings.Contains(string(first.Data), "notifications/subscriptions/acknowledged") {
				t.Fatalf("the first message is no acknowledgement: %s", first.Data)
			}
		} else {
			stream = c.Listen()
		}
		if !l.backendModern() { // a modern backend tells on its own listen
			trigger := `{"jsonrpc":"2.0","method":"` + changed + `"}`
			r := c.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + l.params(`"name":"raw","arguments":{"lines":[`+quote(trigger)+`,`+quote(done)+`]}`) + `}`)
			for _, m := range r.Messages {
				if !l.modern && strings.Contains(string(m), changed) {
					return // on the stream of the call: also a stream of the session
				}
			}
		}
		told := string(stream.Await(changed, 10*time.Second))
		if l.modern && !strings.Contains(told, `"io.modelcontextprotocol/subscriptionId":"listen"`) {
			t.Errorf("the change does not name the client's subscription: %s", told)
		}
	})
}

// TestAbandonedQuestions has a modern client that never answers what a legacy server asked: the parked call waits for
// its retry, and neither another question nor an ordinary call waits for it.
func TestAbandonedQuestions(t *testing.T) {
	stdioPair(t, fakemcp.Options{}, func(t *testing.T, _ *rig.Gateway, l lane) {
		l.modern = true
		c := l.client(t, "")
		call := func(name string) string {
			return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + l.params(`"name":"`+name+`","arguments":{"mark":"m"}`) + `}`
		}
		for range 3 {
			if got := string(definite(t, c, call("ask"), slack, "answer")); !strings.Contains(got, "input_required") {
				t.Errorf("want input_required, got %s", clip(got))
			}
			definite(t, c, call("counter"), slack, "answer")
		}
	})
}
