package bridge

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/rpc"
)

// standalone handles the GET of a session: it stays open and silent.
func standalone(rest http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.Header.Get(headerLast) == "" {
			openStream(w)
			<-r.Context().Done()
			return
		}
		rest(w, r)
	}
}

func TestLegacySession(t *testing.T) {
	d := newDaemon(t, oneSession("s1", standalone(func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, reply(1)) })))
	c := connect(t, d, func(cfg *Config, _ *limits) {
		cfg.Agent, cfg.Cwd, cfg.Pass = "codex", "/work dir", map[string]string{"TOKEN": "a b\n"}
	})
	c.send(initLine)
	first := d.expect(initLine)
	for header, want := range map[string]string{
		"Mcpx-Agent": "codex", "Mcpx-Workspace": "/work dir", "Mcpx-Pass": "TOKEN=YSBiCg",
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", headerSession: "",
	} {
		if got := first.Header.Get(header); got != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
	instance := first.Header.Get(headerInstance)
	if len(instance) != 22 { // 16 bytes in base64
		t.Errorf("%s is %q", headerInstance, instance)
	}
	c.expect(initReply)
	c.send(readyLine)
	if s := d.expect(readyLine); s.Header.Get(headerInstance) != instance {
		t.Errorf("another message is of the instance %q, want %q", s.Header.Get(headerInstance), instance)
	}
	if s := d.next(); s.Method != http.MethodGet || s.Header.Get(headerSession) != "s1" {
		t.Fatalf("want the standalone stream, got %+v", s)
	}
	line := callLine(1, "tools/call")
	c.send("\r\n" + line + "\r")
	s := d.expect(line)
	if s.Header.Get(headerSession) != "s1" || s.Header.Get(headerVersion) != "2025-11-25" {
		t.Errorf("headers of a call: %v", s.Header)
	}
	c.expect(reply(1))

	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	if s := d.next(); s.Method != http.MethodDelete || s.Header.Get(headerSession) != "s1" {
		t.Errorf("at the end came %s, want DELETE of the session", s.Method)
	}
	if err := c.end(); err != nil {
		t.Errorf("end: %v", err)
	}
	c.quiet()
}

// A server message on the POST stream and on the standalone stream reach the client; its answers go back in the session.
func TestServerMessages(t *testing.T) {
	const ask = `{"jsonrpc":"2.0","id":"e1","method":"elicitation/create","params":{}}`
	const answer = `{"jsonrpc":"2.0","id":"e1","result":{"action":"accept"}}`
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	answered := make(chan struct{})
	d := newDaemon(t, oneSession("s1", func(w http.ResponseWriter, r *http.Request) {
		openStream(w)
		if r.Method == http.MethodGet {
			emit(w, "", changed)
			<-r.Context().Done()
			return
		}
		emit(w, "r1.1.1", ask)
		<-answered
		emit(w, "r1.1.2", reply(1))
	}))
	c := connect(t, d)
	c.open(d)
	c.expect(changed)
	c.send(callLine(1, "tools/call"))
	d.expect(callLine(1, "tools/call"))
	c.expect(ask)
	c.send(answer)
	if s := d.expect(answer); s.Header.Get(headerSession) != "s1" {
		t.Errorf("the answer went without session")
	}
	close(answered)
	c.expect(reply(1))
}

func TestInitializeIsAwaited(t *testing.T) {
	release := make(chan struct{})
	inner := oneSession("s1", func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, reply(1)) })
	d := newDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerSession) == "" {
			<-release
		}
		inner(w, r)
	})
	c := connect(t, d)
	c.send(initLine)
	d.expect(initLine)
	c.send(callLine(1, "tools/call"))
	select {
	case s := <-d.seen:
		t.Fatalf("%s overtook initialize", s.Body)
	case <-time.After(30 * time.Millisecond): // a bridge that does not wait needs a few microseconds
	}
	close(release)
	c.expect(initReply)
	if s := d.expect(callLine(1, "tools/call")); s.Header.Get(headerSession) != "s1" {
		t.Error("the call went without session")
	}
	c.expect(reply(1))
}

const envelope = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

func TestModernRequest(t *testing.T) {
	d := newDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "tools/nothing" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"no"}}`)
			return
		}
		answerJSON(w, reply(7))
	})
	c := connect(t, d)
	line := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"größe","arguments":{},` + envelope + `}}`
	c.send(line)
	s := d.expect(line)
	for header, want := range map[string]string{
		headerVersion: "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "=?base64?Z3LDtsOfZQ==?=", headerSession: "",
	} {
		if got := s.Header.Get(header); got != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
	c.expect(reply(7))
	other := connect(t, d)
	other.send(line)
	if a, b := s.Header.Get(headerInstance), d.expect(line).Header.Get(headerInstance); a == "" || a == b {
		t.Errorf("two bridges are the instances %q and %q", a, b)
	}
	other.expect(reply(7))
	// 404 with an answer is an answer: an unknown method is one in this revision.
	c.send(`{"jsonrpc":"2.0","id":9,"method":"tools/nothing","params":{` + envelope + `}}`)
	c.expect(`{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"no"}}`)
}

func TestModernCancelClosesTheStream(t *testing.T) {
	closed := make(chan struct{})
	d := newDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		openStream(w)
		emit(w, "", `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
		<-r.Context().Done()
		close(closed)
	})
	c := connect(t, d)
	c.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x",` + envelope + `}}`)
	d.next()
	c.next() // the progress: the stream is open
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("the stream of the cancelled request stayed open")
	}
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
	c.quiet()
	if len(d.seen) > 0 {
		t.Errorf("the cancellation was sent: %+v", <-d.seen)
	}
}

func TestLegacyCancelFollowsItsRequest(t *testing.T) {
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	ended := make(chan struct{})
	d := newDaemon(t, nil)
	d.script(oneSession("s1", standalone(func(w http.ResponseWriter, _ *http.Request) {
		openStream(w)
		<-ended // the daemon ends the stream without an answer once the cancellation has come
	})))
	c := connect(t, d)
	c.open(d)
	c.send(callLine(1, "tools/call"))
	d.expect(callLine(1, "tools/call"))
	c.send(cancel) // earlier, both could be dropped
	if s := d.expect(cancel); s.Header.Get(headerSession) != "s1" {
		t.Error("the cancellation went without session")
	}
	close(ended)
	d.script(oneSession("s1", standalone(func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, reply(2)) })))
	c.send(callLine(2, "tools/call"))
	c.expect(reply(2)) // and nothing for the cancelled call
}

// A request that waits for the daemon is dropped by its cancellation: neither of the two is sent.
func TestCancelBeforeSending(t *testing.T) {
	const after = `{"jsonrpc":"2.0","method":"x/after"}`
	d := newDaemon(t, idle("s1"))
	waits, release := make(chan struct{}), make(chan struct{})
	c := connect(t, d, func(cfg *Config, _ *limits) {
		cfg.Start = func(context.Context) error {
			close(waits)
			<-release
			d.start()
			return nil
		}
	})
	c.open(d)
	d.kill()
	c.send(callLine(1, "tools/call"))
	<-waits // the first attempt has failed
	c.send(callLine(2, "tools/call"))
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	c.send(after) // it is read only after the line in front of it was dealt with
	close(release)
	c.expect(`{"jsonrpc":"2.0","id":2,"result":{"by":"s1"}}`)
	for {
		switch s := d.next(); {
		case strings.Contains(s.Body, `"id":1,`), strings.Contains(s.Body, "cancelled"):
			t.Fatalf("%s was sent", s.Body)
		case s.Body == after:
			return
		}
	}
}

func TestUnknownServer(t *testing.T) {
	d := newDaemon(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent to an unknown server") })
	c := connect(t, d, func(cfg *Config, _ *limits) { cfg.Server = "demmo" })
	c.send(initLine)
	if text := c.expectError(`"q\u0062"`, codeUnavailable); !strings.Contains(text, "did you mean demo?") {
		t.Errorf("the first request was told %q", text)
	}
	err := c.end()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != fault.NotFound || f.Hint != "did you mean demo?" {
		t.Errorf("error %v, want not-found with the hint of the daemon", err)
	}
	if got := c.errs.String(); got != "" {
		t.Errorf("stderr: %s; the caller prints the error", got)
	}
}

func TestUnknownServerWithoutRequest(t *testing.T) {
	d := newDaemon(t, nil)
	c := connect(t, d, func(cfg *Config, lim *limits) { cfg.Server, lim.first = "demmo", time.Millisecond })
	if err := c.end(); fault.KindOf(err) != fault.NotFound {
		t.Errorf("error %v, want not-found", err)
	}
	c.quiet()
}

func TestStartsTheDaemon(t *testing.T) {
	d := newDaemon(t, oneSession("s1", nil))
	d.kill()
	starts := 0
	c := connect(t, d, func(cfg *Config, _ *limits) {
		cfg.Start = func(context.Context) error {
			starts++
			d.start()
			return nil
		}
	})
	c.send(initLine)
	c.expect(initReply)
	if starts != 1 {
		t.Errorf("%d starts, want 1", starts)
	}
}

func TestStartFails(t *testing.T) {
	d := newDaemon(t, nil)
	d.kill()
	c := connect(t, d, func(cfg *Config, _ *limits) {
		cfg.Start = func(context.Context) error {
			return fault.New(fault.Conflict, "port-busy").Saying("port 30000 is in use").Hinting("use --listen")
		}
	})
	c.send(callLine(3, "ping"))
	if text := c.expectError("3", codeUnavailable); !strings.Contains(text, "port 30000 is in use; use --listen") {
		t.Errorf("the first request was told %q", text)
	}
	if err := c.end(); fault.KindOf(err) != fault.Conflict {
		t.Errorf("error %v, want the reason of the start", err)
	}
}

func TestNoDaemon(t *testing.T) {
	d := newDaemon(t, nil)
	d.kill()
	c := connect(t, d, func(_ *Config, lim *limits) { lim.first = 20 * time.Millisecond })
	if err := c.end(); fault.KindOf(err) != fault.Unavailable || !strings.Contains(sentence(err), "mcpx daemon start") {
		t.Errorf("error %v, want unavailable with the command", err)
	}
}

// A client that closes its end is gone within a second, whatever runs, and the session ends.
func TestEndOfInput(t *testing.T) {
	d := newDaemon(t, nil)
	d.script(oneSession("s1", standalone(func(w http.ResponseWriter, r *http.Request) {
		openStream(w)
		<-r.Context().Done()
	})))
	c := connect(t, d, func(_ *Config, lim *limits) { lim.finish, lim.bye = defaults.finish, defaults.bye })
	c.open(d)
	c.send(callLine(1, "tools/call"))
	d.next()
	began := time.Now()
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("the end took %v", took)
	}
	if s := d.next(); s.Method != http.MethodDelete {
		t.Errorf("%s arrived, want DELETE", s.Method)
	}
	c.quiet()
}

// What was written before the end of input is still carried out.
func TestEndOfInputAnswersFirst(t *testing.T) {
	d := newDaemon(t, nil)
	d.script(oneSession("s1", standalone(func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, reply(1)) })))
	c := connect(t, d)
	c.send(initLine)
	c.send(callLine(1, "tools/call"))
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	c.expect(initReply)
	c.expect(reply(1))
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

func TestSignal(t *testing.T) {
	d := newDaemon(t, nil)
	d.script(oneSession("s1", standalone(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })))
	c := connect(t, d)
	c.open(d)
	c.send(callLine(1, "tools/call"))
	d.next()
	c.cancel()
	if s := d.next(); s.Method != http.MethodDelete {
		t.Errorf("%s arrived, want DELETE", s.Method)
	}
	if err := c.end(); err != nil {
		t.Errorf("a signal is a clean end: %v", err)
	}
	c.quiet()
}

func TestBadLines(t *testing.T) {
	d := newDaemon(t, func(http.ResponseWriter, *http.Request) { t.Error("a bad line was sent") })
	c := connect(t, d)
	c.send(`hello`)
	c.expect(`{"jsonrpc":"2.0","error":{"code":-32700,"message":"the message is not JSON: unexpected byte at offset 0"}}`)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`)
	c.expectError("1", rpc.InvalidRequest)
	c.send(`[]`)
	c.next()
}

func TestLongLine(t *testing.T) {
	d := newDaemon(t, func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, reply(2)) })
	c := connect(t, d)
	if _, err := io.Copy(c.in, io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","id":5,"method":"a","params":{"x":"`),
		io.LimitReader(letters{}, int64(quick.line)), strings.NewReader("\"}}\n"))); err != nil {
		t.Fatal(err)
	}
	c.expectError("5", rpc.InvalidRequest)
	c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{` + envelope + `}}`)
	c.expect(reply(2))
}

type letters struct{}

func (letters) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte{'a'}, len(p))), nil }

func TestBatch(t *testing.T) {
	batch := `[` + callLine(1, "ping") + `,` + readyLine + `,` + callLine(2, "ping") + `]`
	stream := false
	d := newDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		if stream {
			openStream(w)
			emit(w, "", reply(2))
			emit(w, "", reply(1))
			return
		}
		answerJSON(w, `[`+reply(1)+`,`+reply(2)+`]`)
	})
	c := connect(t, d)
	c.send(batch)
	d.expect(batch)
	c.expect(`[` + reply(1) + `,` + reply(2) + `]`)
	stream = true
	c.send(batch)
	d.expect(batch)
	c.expect(reply(2))
	c.expect(reply(1))
}

func TestRefusals(t *testing.T) {
	tests := map[string]struct {
		status int
		body   string
		code   int
		text   string
	}{
		"own error without id": {413, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"too large"}}`, -32600, "too large"},
		"error of the API":     {403, `{"error":{"kind":"denied","code":"x","message":"not you","hint":"ask"}}`, codeInternal, "not you; ask"},
		"text":                 {500, `oops`, codeInternal, "oops"},
		"nothing":              {202, ``, codeInternal, "no answer"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			c := connect(t, d)
			c.send(callLine(1, "tools/call"))
			if got := c.expectError("1", tt.code); !strings.Contains(got, tt.text) {
				t.Errorf("text %q, want %q in it", got, tt.text)
			}
		})
	}
}

// A stream that ends without the answer must not leave the client waiting.
func TestStreamWithoutAnswer(t *testing.T) {
	d := newDaemon(t, func(w http.ResponseWriter, _ *http.Request) { openStream(w) })
	c := connect(t, d)
	c.send(callLine(1, "tools/call"))
	c.expectError("1", codeSentUnknown)
}

func TestTooManyCalls(t *testing.T) {
	d := newDaemon(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := connect(t, d)
	for i := range maxCalls + 1 {
		c.send(callLine(i, "tools/call"))
	}
	c.expectError("512", codeBusy)
}
