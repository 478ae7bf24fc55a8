package gateway

import (
	"strings"
	"testing"

	"mcpx/internal/rpc"
)

// TestExclusiveBytes: on an exclusive lane every byte passes both ways, whatever it means.
func TestExclusiveBytes(t *testing.T) {
	request := `{"jsonrpc":"2.0","id":"a\u0062","method":"vendor/x","extra":9007199254740993,"params":{"z":1.10,"a":"<&>\u2028","_meta":{"v/k":[]}}}`
	answer := `{"result":{"zeta":12345678901234567890,"alpha":{"type":"unheard-of"}},"vendor":1e3,"id":"a\u0062","jsonrpc":"2.0"}`
	p := legacyPeer(t, func(l *peerLink, m Outbound, _ rpc.Message) {
		if m.Method == "vendor/x" {
			l.say(answer)
		}
	})
	s := newRig(t, p, nil)
	x := initialize(t, s, "2025-11-25", "{}")
	got, _ := reply(t, send(t, x, request))
	if got != answer {
		t.Errorf("client got\n%s\nwant\n%s", got, answer)
	}
	link := p.opened()[0]
	if seen := link.messages(); seen[len(seen)-1] != request {
		t.Errorf("backend got\n%s\nwant\n%s", seen[len(seen)-1], request)
	}
	if n := len(p.opened()); n != 1 {
		t.Errorf("%d processes for one session, want 1", n)
	}
}

// TestSharedRewrites: on a shared lane two clients use the same id and the same progress token, and each gets its own.
func TestSharedRewrites(t *testing.T) {
	type pending struct {
		m   Outbound
		msg rpc.Message
	}
	waiting := make(chan pending, 2)
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if m.Method != "tools/call" {
			return
		}
		waiting <- pending{m, msg}
		if len(waiting) < 2 {
			return
		}
		for range 2 {
			w := <-waiting
			name := string(w.msg.Name.Of(w.m.Body))
			l.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(w.msg.ProgressToken.Of(w.m.Body)) + `,"progress":1,"message":` + name + `}}`)
			l.result(w.m, w.msg, `{"content":[],"for":`+name+`}`)
		}
	})
	s := newRig(t, p, global)
	a, b := initialize(t, s, "2025-11-25", "{}"), initialize(t, s, "2025-11-25", "{}")
	call := func(name string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + name + `","_meta":{"progressToken":"t"}}}`
	}
	ra, rb := send(t, a, call("one")), send(t, b, call("two"))
	for name, r := range map[string]*Reader{"one": ra, "two": rb} {
		got, before := reply(t, r)
		if want := `{"jsonrpc":"2.0","id":7,"result":{"content":[],"for":"` + name + `"}}`; got != want {
			t.Errorf("%s got %s, want %s", name, got, want)
		}
		if len(before) != 1 || !strings.Contains(before[0], `"progressToken":"t"`) || !strings.Contains(before[0], `"`+name+`"`) {
			t.Errorf("%s got progress %q", name, before)
		}
	}
	if n := len(p.opened()); n != 1 {
		t.Errorf("%d processes behind a global server, want 1", n)
	}
}

// TestQuestionFindsItsClient: a shared stdio server asks while two clients have calls in flight. The question is held
// until only one owner is left, and reaches that client.
func TestQuestionFindsItsClient(t *testing.T) {
	calls := make(chan func(), 4)
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		switch {
		case m.Kind == rpc.Result:
			calls <- func() { l.say(`{"jsonrpc":"2.0","id":"unused","result":{}}`) }
		case m.Method == "tools/call" && strings.Contains(string(m.Body), "asker"):
			l.say(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"who?","requestedSchema":{}}}`)
			calls <- func() { l.result(m, msg, `{"done":"asker"}`) }
		case m.Method == "tools/call":
			calls <- func() { l.result(m, msg, `{"done":"other"}`) }
		}
	})
	s := newRig(t, p, global)
	a, b := initialize(t, s, "2025-11-25", allCaps), initialize(t, s, "2025-11-25", allCaps)
	other := send(t, b, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"other"}}`)
	endOther := <-calls
	asker := send(t, a, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"asker"}}`)
	endAsker := <-calls
	eventually(t, "the server is known to ask", s.asks.Load)
	endOther()
	if got, before := reply(t, other); len(before) != 0 || !strings.Contains(got, "other") {
		t.Errorf("the other client got %q and %s", before, got)
	}
	question := string(next(t, asker).Data)
	if !strings.Contains(question, "who?") {
		t.Fatalf("the asking client got %s", question)
	}
	response := []byte(`{"jsonrpc":"2.0","id":` + string(scan(t, []byte(question)).ID.Of([]byte(question))) + `,"result":{"action":"accept","content":{}}}`)
	a.Respond(response, scan(t, response))
	<-calls
	endAsker()
	if got, _ := reply(t, asker); !strings.Contains(got, "asker") {
		t.Errorf("the asking client got %s", got)
	}
	seen := p.opened()[0].messages()
	if want := `{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{}}}`; seen[len(seen)-1] != want {
		t.Errorf("the server got %s, want %s", seen[len(seen)-1], want)
	}
}

// TestModernPasses: cell M-M rewrites id and progress token and nothing else.
func TestModernPasses(t *testing.T) {
	p := modernPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if m.Method == "vendor/y" {
			l.result(m, msg, `{"resultType":"strange","n":9007199254740993}`)
		}
	})
	s := newRig(t, p, nil)
	got, _ := reply(t, modern(t, s, `"x"`, "vendor/y", `{"q":1e3}`, "{}").Follow())
	if want := `{"jsonrpc":"2.0","id":"x","result":{"resultType":"strange","n":9007199254740993}}`; got != want {
		t.Errorf("client got %s, want %s", got, want)
	}
	seen := p.opened()[0].messages()
	last := seen[len(seen)-1]
	m := scan(t, []byte(last))
	w, ok := decodeID(m.ID.Of([]byte(last)))
	if !ok || string(w.Orig) != `"x"` || w.Kind != idModern {
		t.Errorf("upstream id is %s", m.ID.Of([]byte(last)))
	}
	back := string(rpc.Splice([]byte(last), rpc.Edit{At: m.ID, With: []byte(`"x"`)}))
	if !strings.Contains(back, `{"jsonrpc":"2.0","id":"x","method":"vendor/y","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"`) || !strings.HasSuffix(back, `"q":1e3}}`) {
		t.Errorf("backend got %s", last)
	}
}

// TestModernOnLegacy: cell M-L parks a call that asks, and the retry answers it.
func TestModernOnLegacy(t *testing.T) {
	var ask func()
	p := legacyPeer(t, nil)
	base := p.handle
	p.handle = func(l *peerLink, m Outbound, msg rpc.Message) {
		switch {
		case m.Method == "tools/call":
			l.say(`{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{"message":"name?","requestedSchema":{"type":"object"}}}`)
			ask = func() { l.result(m, msg, `{"content":[{"type":"text","text":"hello"}]}`) }
		case m.Kind == rpc.Result:
			if !strings.Contains(string(m.Body), `"ada"`) || !strings.Contains(string(m.Body), `"id":5`) {
				t.Errorf("the server got %s", m.Body)
			}
			ask()
		case m.Method == "initialize" || m.Method == "server/discover":
			base(l, m, msg)
		}
	}
	s := newRig(t, p, nil)
	first, _ := reply(t, modern(t, s, "1", "tools/call", `{"name":"greet","arguments":{}}`, allCaps).Follow())
	if kind := member(t, first, "result", "resultType"); kind != "input_required" {
		t.Fatalf("first answer is %s", first)
	}
	if method := member(t, first, "result", "inputRequests", "r1", "method"); method != "elicitation/create" {
		t.Fatalf("first answer is %s", first)
	}
	state := member(t, first, "result", "requestState").(string)
	second, _ := reply(t, modern(t, s, "2", "tools/call", `{"name":"greet","arguments":{},"requestState":"`+state+`","inputResponses":{"r1":{"action":"accept","content":{"name":"ada"}}}}`, allCaps).Follow())
	if member(t, second, "result", "resultType") != "complete" || !strings.Contains(second, "hello") || member(t, second, "id") != 2.0 {
		t.Errorf("second answer is %s", second)
	}
	stolen, _ := reply(t, modern(t, s, "3", "tools/call", `{"name":"other","arguments":{},"requestState":"`+state+`","inputResponses":{}}`, allCaps).Follow())
	if member(t, stolen, "error", "code") != -32602.0 {
		t.Errorf("a state used for another request got %s", stolen)
	}
}

// TestLegacyOnModern: cell L-M turns input_required into a real question and retries with the exact state.
func TestLegacyOnModern(t *testing.T) {
	p := modernPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if m.Method != "tools/call" {
			return
		}
		if !strings.Contains(string(m.Body), `"requestState":"st<&\u0041"`) {
			l.result(m, msg, `{"resultType":"input_required","inputRequests":{"k1":{"method":"elicitation/create","params":{"mode":"form","message":"name?","requestedSchema":{"type":"object"}}}},"requestState":"st<&\u0041"}`)
			return
		}
		if !strings.Contains(string(m.Body), `"inputResponses":{"k1":{"action":"accept","content":{"n":1.10}}}`) {
			t.Errorf("the retry is %s", m.Body)
		}
		l.result(m, msg, `{"resultType":"complete","content":[],"n":12345678901234567890}`)
	})
	s := newRig(t, p, nil)
	x := initialize(t, s, "2025-11-25", allCaps)
	if x.Version != "2025-11-25" {
		t.Errorf("the client was told %q", x.Version)
	}
	r := send(t, x, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"greet"}}`)
	question := next(t, r).Data
	m := scan(t, question)
	if m.MethodOf(question) != "elicitation/create" {
		t.Fatalf("the client got %s", question)
	}
	answer := []byte(`{"jsonrpc":"2.0","id":` + string(m.ID.Of(question)) + `,"result":{"action":"accept","content":{"n":1.10}}}`)
	x.Respond(answer, scan(t, answer))
	got, _ := reply(t, r)
	if want := `{"jsonrpc":"2.0","id":3,"result":{"content":[],"n":12345678901234567890}}`; got != want {
		t.Errorf("the client got %s, want %s", got, want)
	}
}

// TestURLElicitation: -32042 of a legacy server becomes a question to a modern client, and the retry repeats the call.
func TestURLElicitation(t *testing.T) {
	calls := 0
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if m.Method != "tools/call" {
			return
		}
		if calls++; calls == 1 {
			l.sink.Deliver(Inbound{Body: rpc.ErrorResponse(msg.ID.Of(m.Body), -32042, "sign in", []byte(`{"elicitations":[{"mode":"url","message":"sign in","url":"https://example.com","elicitationId":"e1"}]}`))})
			return
		}
		l.result(m, msg, `{"content":[]}`)
	})
	s := newRig(t, p, nil)
	first, _ := reply(t, modern(t, s, "1", "tools/call", `{"name":"x"}`, allCaps).Follow())
	state, ok := member(t, first, "result", "requestState").(string)
	if !ok || strings.Contains(first, "elicitationId") {
		t.Fatalf("first answer is %s", first)
	}
	second, _ := reply(t, modern(t, s, "2", "tools/call", `{"name":"x","requestState":"`+state+`","inputResponses":{}}`, allCaps).Follow())
	if member(t, second, "result", "resultType") != "complete" {
		t.Errorf("second answer is %s", second)
	}
}

// TestUpstreamSessionGone (F-11): an upstream that forgot its session is initialised again, the refused call is sent
// once more, and the client's session goes on.
func TestUpstreamSessionGone(t *testing.T) {
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		switch {
		case m.Method != "tools/call":
		case l.n == 1:
			l.sink.Failed(m.Ref, Failure{Class: NotSent, Status: 404, Text: "unknown session", Gone: true})
			l.exit(Exit{Reason: SessionGone})
		default:
			l.result(m, msg, `{"content":[]}`)
		}
	})
	s := newRig(t, p, nil)
	x := initialize(t, s, "2025-11-25", "{}")
	got, _ := reply(t, send(t, x, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`))
	if got != `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}` {
		t.Errorf("the client got %s", got)
	}
	seen := p.opened()[1].messages()
	if !strings.Contains(seen[0], `"initialize"`) || !strings.Contains(seen[1], "notifications/initialized") {
		t.Errorf("the new upstream session began with %q", seen)
	}
}

// TestCrashClasses: a call that was handed over ends as unknown at once; one that was not is sent to the next process.
func TestCrashClasses(t *testing.T) {
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if m.Method == "tools/call" && l.n == 1 {
			l.exit(Exit{Reason: Exited, Code: 3, Tail: []byte("boom\n")})
			return
		}
		if m.Method == "tools/call" {
			l.result(m, msg, `{"process":2}`)
		}
	})
	s := newRig(t, p, nil)
	x := initialize(t, s, "2025-11-25", "{}")
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`
	got, _ := reply(t, send(t, x, call))
	if member(t, got, "error", "code") != -31902.0 || member(t, got, "error", "data", "mcpx", "stderr") != "boom\n" {
		t.Errorf("the call that was written got %s", got)
	}
	if got, _ = reply(t, send(t, x, call)); !strings.Contains(got, `"process":2`) {
		t.Errorf("the next call got %s", got)
	}
}
