package bridge

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// reborn is a daemon that knows the session of the one before it: calls are rejoined by outcome, and calls that come
// anew are answered under their id by the name again.
func reborn(outcome http.HandlerFunc) http.HandlerFunc {
	return oneSession("s1", standalone(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			outcome(w, r)
			return
		}
		answerJSON(w, `{"jsonrpc":"2.0","id":1,"result":{"by":"again"}}`)
	}))
}

// hang takes a call and never answers it; arrived is closed when the response has begun.
func hang(begin func(w http.ResponseWriter), arrived chan struct{}) http.HandlerFunc {
	return oneSession("s1", standalone(func(w http.ResponseWriter, r *http.Request) {
		begin(w)
		close(arrived)
		<-r.Context().Done()
	}))
}

func nothing(http.ResponseWriter) {}

// inFlight brings a bridge to the point where its daemon was killed in the middle of a call with the id 1.
func inFlight(t *testing.T, begin func(w http.ResponseWriter), line string) (*daemon, *client) {
	t.Helper()
	d := newDaemon(t, nil)
	arrived := make(chan struct{})
	d.script(hang(begin, arrived))
	c := connect(t, d)
	c.open(d)
	c.send(line)
	d.expect(line)
	await(t, arrived)
	d.kill()
	return d, c
}

func await(t *testing.T, what <-chan struct{}) {
	t.Helper()
	select {
	case <-what:
	case <-time.After(patience):
		t.Fatal("what was waited for did not happen")
	}
}

func emitOnly(message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		openStream(w)
		emit(w, "rMQ.2.1", message)
	}
}

// errorOf is an answer of the gateway for a call that a daemon before it had taken.
func errorOf(id string, code int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"m"}}`, id, code)
}

// A call of which nothing has come back is rejoined by its id, whatever its response looked like.
func TestRejoin(t *testing.T) {
	begins := map[string]func(http.ResponseWriter){
		"nothing received": nothing,
		"stream open":      openStream,
		"half a message with its id": func(w http.ResponseWriter) {
			openStream(w)
			_, _ = io.WriteString(w, "id: rMQ.1.1\ndata: "+reply(1)[:20])
			_ = http.NewResponseController(w).Flush()
		},
		"half a document": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, reply(1)[:20])
			_ = http.NewResponseController(w).Flush()
		},
	}
	for name, begin := range begins {
		t.Run(name, func(t *testing.T) {
			d, c := inFlight(t, begin, callLine(1, "tools/call"))
			d.script(reborn(emitOnly(reply(1))))
			d.start()
			c.expect(reply(1))
			for {
				s := d.next()
				if last := s.Header.Get(headerLast); last != "" {
					if last != "rMQ.0.0" {
						t.Errorf("rejoined behind %q, want rMQ.0.0", last)
					}
					break
				}
				if s.Method == http.MethodPost {
					t.Fatalf("sent again: %s", s.Body)
				}
			}
			c.quiet()
		})
	}
}

// What the daemon says about a call decides what the client gets.
func TestRejoinOutcomes(t *testing.T) {
	const again = `{"jsonrpc":"2.0","id":1,"result":{"by":"again"}}`
	refuse := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	tests := map[string]struct {
		method  string
		outcome http.HandlerFunc
		want    string // the line; "" for an error with code
		code    int
		posts   int // how often the call is sent to the new daemon
	}{
		"not sent":             {method: "tools/call", outcome: emitOnly(errorOf("1", -31901)), want: again, posts: 1},
		"not sent, of another": {method: "tools/call", outcome: emitOnly(errorOf("7", -31901)), code: codeSentUnknown},
		"sent, unknown":        {method: "tools/call", outcome: emitOnly(errorOf("1", -31902)), want: errorOf("1", -31902)},
		"answered, lost":       {method: "tools/call", outcome: emitOnly(errorOf("1", -31903)), want: errorOf("1", -31903)},
		"nothing known":        {method: "tools/call", outcome: refuse(400), code: codeSentUnknown},
		"nothing known, reads": {method: "tools/list", outcome: refuse(400), want: again, posts: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d, c := inFlight(t, nothing, callLine(1, tt.method))
			d.script(reborn(tt.outcome))
			d.start()
			if tt.want != "" {
				c.expect(tt.want)
			} else {
				c.expectError("1", tt.code)
			}
			posts := 0
			for len(d.seen) > 0 {
				if s := <-d.seen; s.Method == http.MethodPost {
					posts++
				}
			}
			if posts != tt.posts {
				t.Errorf("the call was sent %d times to the new daemon, want %d", posts, tt.posts)
			}
			c.quiet()
		})
	}
}

// A request that an ending daemon did not hand on goes to the next one, whatever the answer to its POST looks like; other
// causes are told.
func TestStoppingDaemonDidNotSend(t *testing.T) {
	const stopping = `{"jsonrpc":"2.0","id":1,"error":{"code":-31901,"message":"m","data":{"mcpx":{"class":"not_sent","cause":"daemon_restart"}}}}`
	const news = `{"jsonrpc":"2.0","id":1,"error":{"code":-31901,"message":"m","data":{"mcpx":{"class":"not_sent"}}}}`
	const own = `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"m","data":{"mcpx":{"cause":"daemon_restart"}}}}`
	asJSON := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, body) }
	}
	tests := map[string]struct {
		first, later http.HandlerFunc
		want         string
		posts        int32
	}{
		"json":          {asJSON(stopping), asJSON(reply(1)), reply(1), 2},
		"stream":        {emitOnly(stopping), asJSON(reply(1)), reply(1), 2},
		"for ever":      {asJSON(stopping), emitOnly(stopping), stopping, maxCopies + 1},
		"other cause":   {asJSON(news), asJSON(reply(1)), news, 1},
		"of the server": {asJSON(own), asJSON(reply(1)), own, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t, nil)
			var posts atomic.Int32
			d.script(oneSession("s1", standalone(func(w http.ResponseWriter, r *http.Request) {
				if posts.Add(1) == 1 {
					tt.first(w, r)
					return
				}
				tt.later(w, r)
			})))
			c := connect(t, d)
			c.open(d)
			c.send(callLine(1, "tools/call"))
			c.expect(tt.want)
			c.quiet()
			if got := posts.Load(); got != tt.posts {
				t.Errorf("sent %d times, want %d", got, tt.posts)
			}
		})
	}
}

// A request that kills every daemon before it is handed on is given up at some time.
func TestRejoinEndsAPoisonedCall(t *testing.T) {
	d, c := inFlight(t, nothing, callLine(1, "tools/call"))
	var posts atomic.Int32
	d.script(oneSession("s1", standalone(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posts.Add(1)
			panic(http.ErrAbortHandler)
		}
		emitOnly(errorOf("1", -31901))(w, r)
	})))
	d.start()
	c.expect(errorOf("1", -31901))
	if got := posts.Load(); got != maxCopies {
		t.Errorf("sent %d times again, want %d", got, maxCopies)
	}
}

// The daemon is killed again and again while the call runs: each successor is asked.
func TestRejoinOverManyKills(t *testing.T) {
	const kills = 10
	d, c := inFlight(t, nothing, callLine(1, "tools/call"))
	for i := range kills {
		rejoined := make(chan struct{})
		d.script(reborn(func(w http.ResponseWriter, r *http.Request) {
			openStream(w)
			if i == kills-1 {
				emit(w, "rMQ.9.1", reply(1))
				return
			}
			close(rejoined)
			<-r.Context().Done()
		}))
		d.start()
		if i < kills-1 {
			await(t, rejoined)
			d.kill()
		}
	}
	c.expect(reply(1))
	c.quiet()
}

// A modern client's response is gone with its daemon: the revision makes that a cancellation.
func TestModernCallIsNotRejoined(t *testing.T) {
	const line = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	d := newDaemon(t, nil)
	arrived := make(chan struct{})
	d.script(func(w http.ResponseWriter, r *http.Request) {
		openStream(w)
		close(arrived)
		<-r.Context().Done()
	})
	c := connect(t, d)
	c.send(line)
	await(t, arrived)
	d.kill()
	c.expectError("1", codeSentUnknown)
}

// The response to a batch is gone, the outcomes of its requests are not.
func TestRejoinBatch(t *testing.T) {
	one, two := callLine(1, "tools/call"), callLine(2, "tools/call")
	d, c := inFlight(t, nothing, "["+one+","+two+"]")
	d.script(oneSession("s1", standalone(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost: // the second, which was not sent
			answerJSON(w, reply(2))
		case r.Header.Get(headerLast) == "rMQ.0.0":
			emitOnly(reply(1))(w, r)
		default:
			emitOnly(errorOf("2", -31901))(w, r)
		}
	})))
	d.start()
	c.expect(reply(1))
	c.expect(reply(2))
	c.quiet()
}

// Nobody waits for the outcome of a call that its client cancelled.
func TestCancelledCallIsNotRejoined(t *testing.T) {
	d, c := inFlight(t, nothing, callLine(1, "tools/call"))
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	c.send(callLine(1, "ping")) // the id is free again: answered only when the cancellation was read
	d.script(oneSession("s1", standalone(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		answerJSON(w, reply(1))
	})))
	d.start()
	c.expect(reply(1))
	c.quiet()
}

const (
	asked  = `{"jsonrpc":"2.0","id":"mx1.1.g.s.1.r","method":"elicitation/create","params":{"message":"sure?"}}`
	agreed = `{"jsonrpc":"2.0","id":"mx1.1.g.s.1.r","result":{"action":"accept"}}`
)

func ask(w http.ResponseWriter) {
	openStream(w)
	emit(w, "rMQ.1.1", asked)
}

// A question that the client has open is not shown again, and its answer goes to the new daemon.
func TestOpenQuestionIsShownOnce(t *testing.T) {
	d, c := inFlight(t, ask, callLine(1, "tools/call"))
	c.expect(asked)
	offered, answered := make(chan struct{}), make(chan struct{})
	d.script(oneSession("s1", standalone(func(w http.ResponseWriter, _ *http.Request) {
		openStream(w)
		emit(w, "rMQ.2.1", asked)
		close(offered)
		<-answered
		emit(w, "rMQ.2.2", reply(1))
	})))
	d.start()
	await(t, offered)
	c.quiet()
	c.send(agreed)
	for d.next().Body != agreed {
	}
	close(answered)
	c.expect(reply(1))
	c.quiet()
}

// The daemon took the answer and died before the server had it: the next one asks again, and the bridge answers.
func TestAnsweredQuestionIsNotShownAgain(t *testing.T) {
	d := newDaemon(t, nil)
	d.script(oneSession("s1", standalone(func(w http.ResponseWriter, r *http.Request) {
		ask(w)
		<-r.Context().Done()
	})))
	c := connect(t, d)
	c.open(d)
	c.send(callLine(1, "tools/call"))
	d.expect(callLine(1, "tools/call"))
	c.expect(asked)
	c.send(agreed)
	d.expect(agreed)
	d.kill()
	answered := make(chan struct{})
	d.script(oneSession("s1", standalone(func(w http.ResponseWriter, _ *http.Request) {
		openStream(w)
		emit(w, "rMQ.2.1", asked)
		<-answered
		emit(w, "rMQ.2.2", reply(1))
	})))
	d.start()
	for d.next().Body != agreed {
	}
	close(answered)
	c.expect(reply(1))
	c.quiet()
}

// What is remembered of questions has limits: those of the daemon, the age of an answer, and other questions under the
// same id.
func TestQuestions(t *testing.T) {
	now := time.Unix(1000, 0)
	body, other := []byte(`{"id":1,"method":"a"}`), []byte(`{"id":1,"method":"b"}`)
	settled := func(q *questions) {
		q.offered("1", body, now)
		q.answered("1", []byte("yes"))
		q.accepted("1", now)
	}
	tests := map[string]struct {
		before func(q *questions)
		body   []byte
		at     time.Duration
		show   bool
		answer string
	}{
		"new":                        {before: func(*questions) {}, body: body, show: true},
		"open":                       {before: func(q *questions) { q.offered("1", body, now) }, body: body},
		"another under the id":       {before: func(q *questions) { q.offered("1", body, now) }, body: other, show: true},
		"withdrawn":                  {before: func(q *questions) { q.offered("1", body, now); q.withdrawn("1") }, body: body, show: true},
		"answered, the daemon lives": {before: settled, body: body, show: true},
		"answered, the daemon died":  {before: func(q *questions) { settled(q); q.broke(now) }, body: body, answer: "yes"},
		"answered long before":       {before: func(q *questions) { settled(q); q.broke(now.Add(answerSettles + 1)) }, body: body, show: true},
		"asked again long after":     {before: func(q *questions) { settled(q); q.broke(now) }, body: body, at: reofferFor, show: true},
		"another session":            {before: func(q *questions) { settled(q); q.broke(now); q.reset() }, body: body, show: true},
		"not accepted yet": {before: func(q *questions) {
			q.offered("1", body, now)
			q.answered("1", []byte("yes"))
			q.broke(now.Add(time.Hour))
		}, body: body, answer: "yes"},
		"pushed out by later ones": {before: func(q *questions) { q.offered("1", body, now); fill(q, now) }, body: body, show: true},
		"pushed out by a large answer": {before: func(q *questions) {
			settled(q)
			q.offered("2", body, now)
			q.answered("2", make([]byte, maxAnswers))
			q.broke(now)
		}, body: body, show: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			q := &questions{}
			tt.before(q)
			show, answer := q.offered("1", tt.body, now.Add(tt.at))
			if show != tt.show || string(answer) != tt.answer {
				t.Errorf("show %t answer %q, want %t %q", show, answer, tt.show, tt.answer)
			}
			if len(q.order) > 2*maxQuestions || len(q.known) > maxQuestions || q.bytes > maxAnswers {
				t.Errorf("%d keys, %d questions, %d bytes are kept", len(q.order), len(q.known), q.bytes)
			}
		})
	}
}

func fill(q *questions, now time.Time) {
	for i := range 4 * maxQuestions {
		key := fmt.Sprintf("n%d", i)
		q.offered(key, []byte(key), now)
		if i%2 == 0 {
			q.withdrawn(key)
		}
	}
}

// The daemon ends a stream after a retry, as it does when it restarts as planned: the bridge comes back then.
func TestRejoinAfterRetry(t *testing.T) {
	d := newDaemon(t, nil)
	d.script(reborn(emitOnly(reply(1))))
	c := connect(t, d)
	c.open(d)
	d.script(oneSession("s1", standalone(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			openStream(w)
			_, _ = io.WriteString(w, "id: rMQ.1.0\nretry: 50\ndata: \n\n")
			return
		}
		if last := r.Header.Get(headerLast); last != "rMQ.1.0" {
			t.Errorf("rejoined behind %q", last)
		}
		emitOnly(reply(1))(w, r)
	})))
	began := time.Now()
	c.send(callLine(1, "tools/call"))
	c.expect(reply(1))
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("came back after %s, want the 50ms that the daemon asked for", took)
	}
	if text := c.errs.String(); strings.Contains(text, "cannot be reached") {
		t.Errorf("told people about an outage: %s", text)
	}
}

// A daemon that takes connections and reads nothing is not asked for ever.
func TestUnstableDaemon(t *testing.T) {
	d := newDaemon(t, idle("s1"))
	c := connect(t, d, func(_ *Config, lim *limits) { lim.line = 2 << 20 })
	c.open(d)
	d.kill()
	l, err := net.Listen("unix", d.path)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-over
	})
	// Larger than what a socket takes in advance: the write fails, and proves that nobody read it.
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"pad":%q}}`, strings.Repeat("x", 1<<20)))
	c.expectError("1", codeUnavailable)
}
