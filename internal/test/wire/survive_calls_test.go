package wire

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// full runs the long forms: MCPX_TEST_FULL=1, as `make soak` does. The short ones differ in nothing but times.
func full() bool { return os.Getenv("MCPX_TEST_FULL") != "" }

// TestS3CallsInFlight: a legacy call is answered after a resume, a modern one was cancelled, and calls of the new daemon
// with the same ids get their own answers.
func TestS3CallsInFlight(t *testing.T) {
	g := rig.Start(t)
	k := keep(t, g, "both", fakemcp.Options{Era: fakemcp.Dual})
	g.Share("both")
	k.c = rig.Open(t, g.URL("both"), "2025-11-25", `{}`)
	other := rig.Open(t, g.URL("both"), "2025-11-25", `{}`)
	modern := *k
	modern.c = rig.NewClient(t, g.URL("both"))
	envelope := `,"_meta":{` + rig.Envelope(`{}`) + `}`
	meta := func(body string) string { return strings.Replace(body, `}}}`, `}`+envelope+`}}`, 1) }

	old := k.begun(t, "7", "old-legacy", work("7", "old-legacy", `"wait_ms":1500`))
	gone := modern.begun(t, "7", "old-modern", meta(work("7", "old-modern", `"wait_ms":1500`)))
	g.Kill()
	g.Serve()
	if o := <-gone; o.Class != "broken" {
		t.Errorf("the modern call ended as %s: %s", o.Class, o.Body)
	}
	ctx, stop := context.WithTimeout(t.Context(), persistWithin)
	defer stop()
	for name, call := range map[string]func(key string) (rig.Outcome, error){
		"new-legacy": func(key string) (rig.Outcome, error) { return other.Persist(ctx, "7", work("7", key)) },
		"new-modern": func(key string) (rig.Outcome, error) {
			return modern.c.Persist(ctx, "7", meta(work("7", key, `"wait_ms":1`)))
		},
	} {
		o, err := call(name)
		if err != nil || o.Class != "answer" || !strings.Contains(string(o.Body), "work "+name+" ") {
			t.Errorf("%s: %v %s %s", name, err, o.Class, o.Body)
		}
	}
	if o := <-old; o.Class != "answer" || !strings.Contains(string(o.Body), "work old-legacy ") {
		t.Errorf("the legacy call ended as %s: %s", o.Class, o.Body)
	} else if o.Resumes == 0 {
		t.Error("the legacy call was not resumed; the test proves nothing")
	}
	rig.Until(t, 5*time.Second, "the modern call was cancelled at the server", func() bool {
		return k.count(t, "notifications/cancelled") > 0
	})
	for _, key := range []string{"old-legacy", "old-modern", "new-legacy", "new-modern"} {
		if n := k.count(t, quote(key)); n != 1 {
			t.Errorf("the server was asked %d times for %s", n, key)
		}
	}
}

// long are the times of the call that is resumed: how long it takes, when the daemon dies, when the client comes back.
func long() (takes, killed, back time.Duration) {
	if full() {
		return 20 * time.Second, 2 * time.Second, 5 * time.Second
	}
	return 6 * time.Second, time.Second, 2 * time.Second
}

// TestLongCallResumed: the client comes back while the call still runs, with its Last-Event-ID and, where it never got
// one, from the start; it gets the one true answer.
func TestLongCallResumed(t *testing.T) {
	takes, killed, back := long()
	g := rig.Start(t)
	k := keep(t, g, "long", fakemcp.Options{})
	b := g.Connect("long")
	b.Initialize(`{}`)
	start := time.Now()
	wait := fmt.Sprintf(`"wait_ms":%d`, takes.Milliseconds())

	c := k.c.On(t)
	c.Header = http.Header{"Accept": {"text/event-stream"}} // the stream begins at once, and with it its first event id
	withID := *k
	withID.c = c
	first := withID.begun(t, "1", "with-id", work("1", "with-id", wait))
	second := k.begun(t, "2", "without", work("2", "without", wait))
	bridged := make(chan rig.Outcome, 1)
	go func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), persistWithin)
		defer stop()
		o, err := b.Call(ctx, "3", work("3", "bridged", wait))
		if err != nil {
			o.Class = err.Error()
		}
		bridged <- o
	}()
	rig.Until(t, slack, "the call of the bridge is in flight", func() bool { return k.count(t, `"bridged"`) > 0 })

	time.Sleep(time.Until(start.Add(killed))) // when things happen is what this test is about
	g.Kill()
	time.Sleep(time.Until(start.Add(back)))
	g.Serve()
	for key, end := range map[string]<-chan rig.Outcome{"with-id": first, "without": second, "bridged": bridged} {
		o := <-end
		if o.Class != "answer" || !strings.Contains(string(o.Body), "work "+key+" ") || !strings.Contains(string(o.Body), ` 1"`) {
			t.Errorf("%s: %s %s", key, o.Class, o.Body)
		}
		if n := k.count(t, quote(key)); n != 1 {
			t.Errorf("the server was asked %d times for %s", n, key)
		}
	}
	if took := time.Since(start); took < takes {
		t.Errorf("the answers came after %s, the server needs %s", took, takes)
	}
	if got := number(t, definite(t, k.c, tool("50", "pid", `{}`), slack, "answer")); got != k.child {
		t.Errorf("pid %d answers, it was %d", got, k.child)
	}
	if n := k.count(t, `"method":"initialize"`); n != 2 { // the bridge's session has a child of its own
		t.Errorf("two children saw %d times initialize", n)
	}
}

// TestAnsweredMeanwhile: the child answers while no daemon runs; GET with Last-Event-ID returns it.
func TestAnsweredMeanwhile(t *testing.T) {
	g := rig.Start(t)
	k := keep(t, g, "meanwhile", fakemcp.Options{})
	end := k.begun(t, "6", "meanwhile", work("6", "meanwhile", `"wait_ms":300`))
	g.Kill()
	time.Sleep(600 * time.Millisecond) // the answer comes while nobody listens
	g.Serve()
	o := <-end
	if o.Class != "answer" || o.Resumes == 0 {
		t.Fatalf("%s after %d resumes: %s", o.Class, o.Resumes, o.Body)
	}
	k.unchanged(t, "7")
}

// TestUnsentIsSafe: a call that no daemon read is told apart from one that was read: it can be repeated, and ran once.
func TestUnsentIsSafe(t *testing.T) {
	g := rig.Start(t)
	k := keep(t, g, "unsent", fakemcp.Options{})
	g.Kill()
	g.Serve()
	// A resume from the start of a call that was never made.
	c := k.c.On(t)
	c.Header = http.Header{"Last-Event-ID": {"rOTk.0.0"}} // request id 99
	s := c.Listen()
	if s.Status != http.StatusOK {
		t.Fatalf("HTTP %d for a call that no daemon knows; want a stream with -31901", s.Status)
	}
	if code, got := class(t, s.Await(`"id":99`, slack)); code != -31901 || got != "not_sent" {
		t.Errorf("code %d, class %q for a call that was never sent", code, got)
	}
	s.Close()
	k.unchanged(t, "7")
}

// TestS7QuestionsSurvive: a question that is asked while no daemon runs, and one that was asked before, are asked again
// on the resumed stream with their ids; the answer reaches the child once.
func TestS7QuestionsSurvive(t *testing.T) {
	for name, method := range map[string]string{"elicitation": "elicitation/create", "sampling": "sampling/createMessage", "roots": "roots/list"} {
		for _, when := range []string{"unattached", "pending"} {
			t.Run(name+"-"+when, func(t *testing.T) {
				t.Parallel()
				g := rig.Start(t)
				k := keep(t, g, "asks", fakemcp.Options{})
				wait := 0
				if when == "unattached" {
					wait = 500
				}
				body := tool("5", "ask", fmt.Sprintf(`{"method":%q,"mark":"mark","wait_ms":%d}`, method, wait))
				c := k.c.On(t)
				stream := c.Begin(body)
				if when == "pending" {
					stream.Await(method, slack)
				} else {
					rig.Until(t, slack, "the child has the call", func() bool { return k.count(t, `"name":"ask"`) > 0 })
				}
				g.Kill()
				stream.Close()
				if when == "unattached" {
					time.Sleep(700 * time.Millisecond) // it asks while nobody listens
				}
				g.Serve()
				again := k.c.On(t)
				again.Header = http.Header{"Last-Event-ID": {"rNQ.0.0"}} // request id 5
				resumed := again.Listen()
				if resumed.Status != http.StatusOK {
					t.Fatalf("resume: HTTP %d", resumed.Status)
				}
				question := resumed.Await(method, 5*time.Second)
				result := map[string]string{
					"elicitation": `{"action":"accept","content":{"name":"n"}}`,
					"sampling":    `{"role":"assistant","content":{"type":"text","text":"n"},"model":"m"}`,
					"roots":       `{"roots":[]}`,
				}[name]
				reply(t, k.c, question, result)
				answer := string(resumed.Await(`"id":5`, 5*time.Second))
				if !strings.Contains(answer, "mark=mark") || !strings.Contains(answer, strings.ReplaceAll(result, `"`, `\"`)) {
					t.Errorf("the call was answered with %s", answer)
				}
				k.unchanged(t, "6")
			})
		}
	}
}
