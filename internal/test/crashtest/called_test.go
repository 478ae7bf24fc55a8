package crashtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/fault"
)

// extensions turns on what an agent needs to call the tools of other servers.
var extensions = script{"MCPX_RUNTIME_EXTENSIONS=true"}

// allowAlpha lets the calls of the scenario go without a person.
const allowAlpha = "[tools]\nallow = [\"alpha/*\"]\n"

// called is what an agent does with the tools of another server. Whatever is killed, the server reads a call at most once,
// and what the agent is told of it is true: it was answered, it was not sent, or nobody knows.
func (p *play) called() {
	w := &worker{play: p, dir: filepath.Join(p.t.TempDir(), "shop"), is: map[string]string{}}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	p.add("alpha")
	w.register()
	for i := range 3 {
		w.echo(fmt.Sprintf("call-echo-%d", i))
	}
	w.once()
	p.change("", func(ctx context.Context, c *api.Client) error { // the next one sweeps what a killed supervisor left
		_, err := c.DaemonStop(ctx, api.StopDaemon{})
		return err
	})
}

// echo calls a tool until the server has answered, each time that nothing was sent as a new intention. An outcome that is
// unknown stays unknown, and the call is not made again.
func (w *worker) echo(operation string) {
	w.t.Helper()
	attempt, last := 0, result{}
	for deadline := time.Now().Add(stepWithin); time.Now().Before(deadline); time.Sleep(pollEvery) {
		id := fmt.Sprintf("%s-%d", operation, attempt)
		args := map[string]any{"id": "alpha/echo", "arguments": map[string]any{"message": id, "key": id}}
		last = w.do("call_tool", id, args, nil)
		n := readRecords(w.t, w.record).times[id]
		switch {
		case last.OK:
			if text := `"text":"Echo: ` + id + `"`; n != 1 || !strings.Contains(string(last.upstream), text) {
				w.t.Errorf("%s: the server was asked %d times, and the answer is %s", id, n, last.upstream)
			}
			return
		case last.code() == "OUTCOME_UNKNOWN":
			w.unknown(id, n)
			if again := w.do("call_tool", id, args, nil); again.code() != last.code() {
				w.t.Errorf("%s was OUTCOME_UNKNOWN and is %+v", id, again)
			}
			return
		case last.code() != "SERVER_UNAVAILABLE" || n != 0:
			w.t.Errorf("%s: the server was asked %d times, and its caller was told %s", id, n, last.code())
			return
		case last.Error.Retry == fault.NewID: // it was begun, and nothing was sent
			attempt++
		}
	}
	w.t.Fatalf("%s is not answered: %s", operation, last.code())
}

// unknown fails unless nobody can know whether a call ran: its daemon was killed between the dispatch and the record, or
// the process that had it in its hands was.
func (w *worker) unknown(id string, n int) {
	w.t.Helper()
	switch name := w.at.name; {
	case name == "op.dispatch.after" && n == 0: // the next daemon cannot tell it from one that was sent
	case name == "op.record.before" && n == 1:
	case !strings.HasPrefix(name, "op.") && name != "" && n <= 1:
	default:
		w.t.Errorf("%s: a kill at %s, %d calls at the server, and the outcome is unknown", id, w.at, n)
	}
}

// once fails when the server read a call twice.
func (w *worker) once() {
	w.t.Helper()
	for id, n := range readRecords(w.t, w.record).times {
		if n > 1 {
			w.t.Errorf("%s: the server was asked %d times", id, n)
		}
	}
}
