package gateway

import (
	"strings"
	"testing"
	"time"

	"mcpx/internal/rpc"
)

// TestPlainClientIsNotAsked: a client that takes only the response of its POST is asked on its standalone stream.
func TestPlainClientIsNotAsked(t *testing.T) {
	var end func()
	p := legacyPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		switch {
		case m.Method == "tools/call":
			end = func() { l.result(m, msg, `{"content":[]}`) }
			l.say(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?"}}`)
		case m.Kind == rpc.Result:
			end()
		}
	})
	s := newRig(t, p, nil)
	x := initialize(t, s, "2025-11-25", allCaps)
	body := []byte(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"a"}}`)
	asked, _ := x.Ask(body, scan(t, body), Asking{Plain: true})
	post := asked.Follow()
	question := next(t, x.Standalone()).Data
	answer := []byte(`{"jsonrpc":"2.0","id":` + string(scan(t, question).ID.Of(question)) + `,"result":{"action":"decline"}}`)
	x.Respond(answer, scan(t, answer))
	if got, before := reply(t, post); len(before) != 0 || !strings.Contains(got, `"content"`) {
		t.Errorf("the POST got %q and %s", before, got)
	}
}

// TestRestoreNeedsPromises: a session whose server comes back without a capability that it promised ends.
func TestRestoreNeedsPromises(t *testing.T) {
	p := legacyPeer(t, nil)
	base := p.handle
	p.handle = func(l *peerLink, m Outbound, msg rpc.Message) {
		switch {
		case m.Method == "initialize" && l.n > 1:
			l.result(m, msg, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"peer","version":"2"}}`)
		case m.Method == "initialize":
			base(l, m, msg)
		case m.Method == "tools/call":
			l.exit(Exit{Reason: Exited, Code: 1})
		}
	}
	s := newRig(t, p, nil)
	x := initialize(t, s, "2025-11-25", "{}")
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`
	reply(t, send(t, x, call))
	if got, _ := reply(t, send(t, x, call)); !strings.Contains(got, "initialize again") {
		t.Errorf("the call on the new process got %s", got)
	}
	eventually(t, "the session ended", func() bool {
		_, bad := s.Session(x.ID, owner1)
		return bad != nil && bad.Status == 404
	})
}

// TestCancelWithdrawsQuestion: a legacy client of a modern server that cancels its call is not waited for any more.
func TestCancelWithdrawsQuestion(t *testing.T) {
	p := modernPeer(t, func(l *peerLink, m Outbound, msg rpc.Message) {
		if m.Method == "tools/call" {
			l.result(m, msg, `{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}}}}`)
		}
	})
	s := newRig(t, p, nil)
	x := initialize(t, s, "2025-11-25", allCaps)
	r := send(t, x, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a"}}`)
	next(t, r)
	cancel := []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	x.Notify(cancel, scan(t, cancel))
	eventually(t, "no question is open", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return len(x.asks) == 0 && len(x.calls) == 0
	})
}

// TestTaskKeepsLane: a live task keeps its lane busy for its time to live, and tells whose message is whose.
func TestTaskKeepsLane(t *testing.T) {
	var link *peerLink
	p := &peer{t: t}
	p.handle = func(l *peerLink, m Outbound, msg rpc.Message) {
		link = l
		switch m.Method {
		case "initialize":
			l.result(m, msg, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{}},"serverInfo":{"name":"peer","version":"1"}}`)
		case "tools/call":
			l.result(m, msg, `{"task":{"taskId":"t1","status":"working","ttl":60000}}`)
		}
	}
	s := newRig(t, p, global)
	a, b := initialize(t, s, "2025-11-25", "{}"), initialize(t, s, "2025-11-25", "{}")
	reply(t, send(t, a, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","task":{}}}`))
	l := a.slot.usable()
	if !l.busy() {
		t.Error("a lane with a live task counts as idle")
	}
	link.say(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t1","status":"working"}}`)
	if got := next(t, a.Standalone()); !strings.Contains(string(got.Data), "t1") {
		t.Errorf("the owner of the task got %s", got.Data)
	}
	if _, state := b.Standalone().Next(); state != ReadWait {
		t.Errorf("another client heard of the task (%d)", state)
	}
	l.mu.Lock()
	l.tasks["t1"] = liveTask{owner: a, until: time.Now().Add(-time.Second)}
	l.mu.Unlock()
	if l.busy() {
		t.Error("a task whose time is over keeps its lane")
	}
}

// TestCrashLoopText ends with the next step.
func TestCrashLoopText(t *testing.T) {
	p := &peer{t: t}
	p.handle = func(l *peerLink, _ Outbound, _ rpc.Message) { l.exit(Exit{Reason: Exited, Code: 7}) }
	s := newRig(t, p, nil)
	body := []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	var answer []byte
	for range 12 {
		if _, answer = s.Initialize(t.Context(), body, scan(t, body), owner1); strings.Contains(string(answer), "crash loop") {
			break
		}
	}
	text, _ := member(t, string(answer), "error", "message").(string)
	if !strings.Contains(text, "crash loop: it failed 3 times") || !strings.HasSuffix(text, "`mcpx server restart peer` tries at once") {
		t.Errorf("the caller reads %q", text)
	}
	if member(t, string(answer), "error", "code") != float64(CodeUnavailable) {
		t.Errorf("the caller got %s", answer)
	}
}
