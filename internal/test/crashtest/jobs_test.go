package crashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mcpx/internal/api"
)

// commands turns on what an agent needs to run commands here. The sandbox is another matter, and has its own tests.
var commands = script{"MCPX_RUNTIME_COMMANDS=true", "MCPX_SANDBOX_MECHANISM=none"}

// allowTee lets the commands of the scenario run without a person.
const allowTee = "[[commands.rule]]\nid = \"crashtest\"\ndecision = \"allow\"\nprogram = \"tee\"\n"

// jobs is what an agent does with commands at /mcp. Whatever is killed, no command is started twice, and what the agent is
// told of it is true: it ran to its end, it did not run, or nobody knows.
func (p *play) jobs() {
	w := &worker{play: p, dir: filepath.Join(p.t.TempDir(), "shop"), is: map[string]string{}}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	w.register()
	w.execute("exec-first-1")
	w.execute("exec-second-1")
	var started []string
	for i := range 3 {
		started = append(started, w.begin(fmt.Sprintf("start-tee-%d", i)))
	}
	for i, job := range started {
		w.finished(fmt.Sprintf("start-tee-%d", i), job)
	}
	w.endless()
}

// runs is how often the command of an operation was started.
func (w *worker) runs(operation string) int {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.dir, operation))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return strings.Count(string(raw), operation+"\n")
}

// tee is a command that leaves a line each time it is started.
func tee(operation string) map[string]any {
	return map[string]any{"argv": []string{"tee", "-a", operation}, "stdin_text": operation + "\n"}
}

// told fails unless what the agent was told about a command is what happened. ended: the command has ended by itself.
func (w *worker) told(operation, code string, ended bool) {
	w.t.Helper()
	n := w.runs(operation)
	least, most := 1, 1
	switch {
	case code == "OUTCOME_UNKNOWN" || code == "JOB_LOST":
		least = 0
	case code == "SPAWN_FAILED":
		least, most = 0, 0
	case code != "" || !ended:
		w.t.Errorf("%s: told %q, ended %t", operation, code, ended)
	}
	if n < least || n > most {
		w.t.Errorf("%s: the command ran %d times, and its caller was told %q", operation, n, code)
	}
}

func (r result) code() string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Code
}

// job is what the agent reads about a job.
type job struct {
	ID     string `json:"job_id"`
	State  string `json:"state"`
	Reason string `json:"reason"`
	Code   *int   `json:"exit_code"`
	Stdout struct {
		Text string `json:"text"`
	} `json:"stdout"`
}

// code is how a job has ended, in the words of an operation.
func (j job) code() string {
	switch j.State {
	case "lost":
		return "OUTCOME_UNKNOWN"
	case "failed_to_start":
		return "SPAWN_FAILED"
	}
	return ""
}

func (w *worker) execute(operation string) {
	w.t.Helper()
	last := w.do("execute_command", operation, tee(operation), nil)
	var j job
	if last.OK && json.Unmarshal(last.Data, &j) != nil {
		w.t.Errorf("%s: %s", operation, last.Data)
	}
	ended := j.State == "exited" && j.Code != nil && *j.Code == 0 && j.Stdout.Text == operation+"\n"
	w.told(operation, last.code(), ended)
}

// begin starts a command; "" when it is known not to have started, or nobody knows.
func (w *worker) begin(operation string) string {
	w.t.Helper()
	last := w.do("start_command", operation, tee(operation), nil)
	var j job
	if last.OK && json.Unmarshal(last.Data, &j) != nil {
		w.t.Errorf("%s: %s", operation, last.Data)
	}
	if j.ID == "" {
		w.told(operation, last.code(), false)
	}
	return j.ID
}

func (w *worker) finished(operation, id string) {
	w.t.Helper()
	if id == "" {
		return
	}
	j := w.state(id)
	w.told(operation, j.code(), j.State == "exited" && j.Code != nil && *j.Code == 0 && j.Stdout.Text == operation+"\n")
}

// state waits for the end of a job.
func (w *worker) state(id string) (j job) {
	w.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"command_status","arguments":{"job_id":%q,"wait_ms":5000}}}`, id)
	w.change("", func(context.Context, *api.Client) error {
		r, err := w.post([]byte(body))
		if err != nil {
			return err
		}
		j = job{}
		if err := json.Unmarshal(r.Data, &j); err != nil {
			return fmt.Errorf("%s: %w", r.code(), err)
		}
		if j.State == "reserved" || j.State == "starting" || j.State == "running" {
			return fmt.Errorf("%s is %s", id, j.State)
		}
		return nil
	})
	return j
}

// endless stops a command that does not end by itself.
func (w *worker) endless() {
	w.t.Helper()
	last := w.do("start_command", "start-sleep-1", map[string]any{"argv": []string{"sleep", "600"}}, nil)
	var j job
	if !last.OK || json.Unmarshal(last.Data, &j) != nil {
		return // it did not start
	}
	if last := w.do("stop_command", "stop-sleep-1", map[string]any{"job_id": j.ID}, nil); !last.OK {
		w.t.Errorf("stop: %+v", last)
	}
	if end := w.state(j.ID); end.State != "killed" && end.State != "lost" {
		w.t.Errorf("a stopped job is %s", end.State)
	}
}
