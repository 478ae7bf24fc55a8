package bridge

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mcpx/internal/fault"
)

// idle is a session whose calls are answered at once.
func idle(id string) http.HandlerFunc {
	return oneSession(id, standalone(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID json.RawMessage `json:"id"`
		}
		_ = json.Unmarshal(body, &m)
		answerJSON(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"by":%q}}`, m.ID, id))
	}))
}

// The new daemon does not know the session: the bridge repeats the handshake, level and subscriptions under its own ids
// and the client sees nothing but the answer to its next call.
func TestRestartLosesTheSession(t *testing.T) {
	const level = `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`
	const sub = `{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"a://b"}}`
	const gone = `{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"c://d"}}`
	const unsub = `{"jsonrpc":"2.0","id":5,"method":"resources/unsubscribe","params":{"uri":"c://d"}}`
	d := newDaemon(t, idle("s1"))
	c := connect(t, d)
	c.open(d)
	for i, line := range []string{level, sub, gone, unsub} {
		c.send(line)
		d.expect(line)
		c.expect(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"by":"s1"}}`, i+2))
	}
	d.kill()
	d.script(idle("s2"))
	d.start()

	c.send(callLine(6, "tools/call"))
	c.expect(`{"jsonrpc":"2.0","id":6,"result":{"by":"s2"}}`)
	var bodies []string
	for len(bodies) < 5 {
		if s := d.next(); s.Method == http.MethodPost && s.Header.Get(headerSession) != "s1" {
			bodies = append(bodies, s.Body)
		}
	}
	want := []string{
		strings.Replace(initLine, `"q\u0062"`, `"mcpx-connect.1.0"`, 1),
		readyLine,
		strings.Replace(sub, `"id":3`, `"id":"mcpx-connect.1.1"`, 1),
		strings.Replace(level, `"id":2`, `"id":"mcpx-connect.1.2"`, 1),
		callLine(6, "tools/call"),
	}
	for i := range want {
		if bodies[i] != want[i] {
			t.Errorf("request %d of the new session: %s\nwant %s", i, bodies[i], want[i])
		}
	}
	c.quiet()
}

// Without a client's call the standalone stream notices the restart and opens a session, so that server messages keep
// coming.
func TestRestartIsNoticedByTheStream(t *testing.T) {
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	d := newDaemon(t, idle("s1"))
	c := connect(t, d)
	c.open(d)
	d.kill()
	d.script(oneSession("s2", func(w http.ResponseWriter, r *http.Request) {
		openStream(w)
		emit(w, "", changed)
		<-r.Context().Done()
	}))
	d.start()
	c.expect(changed)
}

func TestRestartKeepsTheSession(t *testing.T) {
	d := newDaemon(t, idle("s1"))
	c := connect(t, d)
	c.open(d)
	d.kill()
	d.start()
	c.send(callLine(6, "tools/call"))
	c.expect(`{"jsonrpc":"2.0","id":6,"result":{"by":"s1"}}`)
}

// A call in flight that cannot be resumed gets the class that forbids to repeat it.
func TestRestartWithCallInFlight(t *testing.T) {
	tests := map[string]func(w http.ResponseWriter){
		"nothing received": func(http.ResponseWriter) {},
		"stream open":      openStream,
		"stream with ids": func(w http.ResponseWriter) {
			openStream(w)
			emit(w, "r1.1.1", `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
		},
	}
	for name, begin := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t, nil)
			arrived := make(chan struct{})
			d.script(oneSession("s1", standalone(func(w http.ResponseWriter, r *http.Request) {
				begin(w)
				close(arrived)
				<-r.Context().Done()
			})))
			c := connect(t, d)
			c.open(d)
			c.send(callLine(1, "tools/call"))
			<-arrived
			if name == "stream with ids" {
				c.next()
			}
			d.kill()
			d.script(idle("s2"))
			d.start()
			c.expectError("1", codeSentUnknown)
			c.send(callLine(2, "tools/call"))
			c.expect(`{"jsonrpc":"2.0","id":2,"result":{"by":"s2"}}`)
		})
	}
}

// A request that only reads is sent once more.
func TestRestartRepeatsReads(t *testing.T) {
	d := newDaemon(t, nil)
	arrived := make(chan struct{})
	d.script(oneSession("s1", standalone(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})))
	c := connect(t, d)
	c.open(d)
	c.send(callLine(1, "tools/list"))
	<-arrived
	d.kill()
	d.script(idle("s2"))
	d.start()
	c.expect(`{"jsonrpc":"2.0","id":1,"result":{"by":"s2"}}`)
}

// A daemon that knows the session continues the stream behind the last event.
func TestResume(t *testing.T) {
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`
	d := newDaemon(t, nil)
	d.script(oneSession("s1", standalone(func(w http.ResponseWriter, r *http.Request) {
		openStream(w)
		emit(w, "r1.1.0", "")
		emit(w, "r1.1.1", progress)
		<-r.Context().Done()
	})))
	c := connect(t, d)
	c.open(d)
	c.send(callLine(1, "tools/call"))
	d.expect(callLine(1, "tools/call"))
	c.expect(progress)
	d.kill()
	part := 0
	d.script(oneSession("s1", standalone(func(w http.ResponseWriter, r *http.Request) {
		openStream(w)
		part++
		if part == 1 { // polling: the daemon closes the stream and wants to be asked again
			_, _ = io.WriteString(w, "retry: 1\n\n")
			emit(w, "r1.1.2", progress)
			return
		}
		emit(w, "r1.2.1", reply(1))
	})))
	d.start()
	c.expect(progress)
	c.expect(reply(1))
	var resumed []string
	for len(resumed) < 2 {
		if s := d.next(); s.Header.Get(headerLast) != "" {
			resumed = append(resumed, s.Header.Get(headerLast))
		}
	}
	if resumed[0] != "r1.1.1" || resumed[1] != "r1.1.2" {
		t.Errorf("resumed behind %v, want r1.1.1 and r1.1.2", resumed)
	}
	c.quiet()
}

// A request that cannot have been read waits for the daemon and is sent once.
func TestUnsentWaits(t *testing.T) {
	d := newDaemon(t, idle("s1"))
	c := connect(t, d)
	c.open(d)
	d.kill()
	for i := 1; i <= 3; i++ {
		c.send(callLine(i, "tools/call"))
	}
	d.start()
	got := map[string]bool{}
	for range 3 {
		got[c.next()] = true
	}
	for i := 1; i <= 3; i++ {
		if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"by":"s1"}}`, i); !got[want] {
			t.Errorf("no answer %s in %v", want, got)
		}
	}
	calls := 0
	for len(d.seen) > 0 {
		if s := <-d.seen; s.Method == http.MethodPost {
			calls++
		}
	}
	if calls != 3 {
		t.Errorf("%d calls arrived, want 3", calls)
	}
}

func TestOutage(t *testing.T) {
	d := newDaemon(t, idle("s1"))
	c := connect(t, d, func(_ *Config, lim *limits) { lim.outage = 50 * time.Millisecond })
	c.open(d)
	d.kill()
	c.send(callLine(1, "tools/call"))
	if text := c.expectError("1", codeUnavailable); !strings.Contains(text, "mcpx daemon start") {
		t.Errorf("text %q does not name the next step", text)
	}
	d.start()
	c.send(callLine(2, "tools/call"))
	c.expect(`{"jsonrpc":"2.0","id":2,"result":{"by":"s1"}}`)
}

func TestStoppingDaemonIsAskedAgain(t *testing.T) {
	d := newDaemon(t, nil)
	refused := false
	d.script(func(w http.ResponseWriter, _ *http.Request) {
		if !refused {
			refused = true
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answerJSON(w, reply(1))
	})
	c := connect(t, d)
	c.send(callLine(1, "tools/call"))
	c.expect(reply(1))
}

// The server behind the route speaks another revision after the restart: the client cannot be served in its session.
func TestRestartChangesTheRevision(t *testing.T) {
	d := newDaemon(t, idle("s1"))
	c := connect(t, d)
	c.open(d)
	d.kill()
	d.script(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerSession) != "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set(headerSession, "s2")
		answerJSON(w, `{"jsonrpc":"2.0","id":"mcpx-connect.1.0","result":{"protocolVersion":"2024-11-05"}}`)
	})
	d.start()
	if err := c.end(); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "2024-11-05 instead of 2025-11-25") {
		t.Errorf("error %v, want one that names both revisions", err)
	}
}
