//go:build unix

package work

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/shim"
	"mcpx/internal/store"
)

// TestMain makes the test binary a supervisor, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == shim.Subcommand {
		os.Exit(shim.Main(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// open lets every command run as it is, but for words that tests choose.
type openGate struct{}

func ruled(c Command, text string) (Ruling, error) {
	v := policy.Verdict{Decision: policy.Allow, Units: []policy.Unit{{Text: text, Decision: policy.Allow, Rule: "test", Reason: "the test says so"}}}
	for word, decision := range map[string]policy.Decision{"forbidden": policy.Deny, "asked": policy.Confirm} {
		if strings.Contains(text, word) {
			v.Decision, v.Units[0].Decision = decision, decision
		}
	}
	return Ruling{Verdict: v, Frozen: policy.Freeze(c.Command, v, policy.Place{Target: c.Target}), Sandbox: Containment{Wanted: "none", Applied: "none", Network: true, Gaps: []string{}}}, nil
}

func (openGate) Usual(context.Context) (Containment, error) {
	return Containment{Wanted: policy.SandboxNone, Applied: policy.SandboxNone}, nil
}

func (openGate) Judge(_ context.Context, c Command) (Ruling, error) {
	return ruled(c, c.Shell+strings.Join(c.Argv, " "))
}

func (openGate) JudgeInput(_ context.Context, c Command, text string) (Ruling, error) {
	return ruled(c, text)
}

func (openGate) Contain(_ context.Context, c Command, _ Ruling) (Launch, error) {
	return Launch{File: c.Program, Argv: c.Args, Env: c.Environ}, nil
}

// bench is a desk with a project in which commands run.
type bench struct {
	*desk
	root, temp, session string
	n                   int
	jobs                int
}

const patience = time.Minute

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{desk: newDesk(t), root: t.TempDir(), temp: t.TempDir()}
	b.project(t, "app", b.root)
	b.restart(t)
	t.Cleanup(func() { // whatever still runs
		for _, j := range b.list(t, operation.ListJobs{}) {
			if e, err := b.cfg.Runner.Look(context.Background(), j.JobRef); err == nil && e.Held {
				if err := b.cfg.Runner.Stop(context.Background(), operation.StopJob{JobRef: j.JobRef, By: "the test is over", Signal: "KILL"}); err != nil {
					t.Error(err)
				}
				for limit := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
					if e, err := b.cfg.Runner.Look(context.Background(), j.JobRef); err == nil && !e.Held {
						break
					} else if time.Now().After(limit) {
						t.Errorf("%s outlives the test: %+v, %v", j.ID, e, err)
						break
					}
				}
			}
		}
	})
	b.session = read[struct {
		Session struct {
			ID string `json:"remote_session_id"`
		}
	}](t, b.call(t, "session", `{"action":"open","project":"app","operation_id":"open-1234"}`)).Session.ID
	return b
}

// restart is the next daemon.
func (b *bench) restart(t *testing.T) {
	t.Helper()
	if b.Service != nil {
		b.Stop()
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	runner, err := shim.NewJobs(shim.JobsConfig{StateDir: b.state, TempDir: b.temp, Exe: exe, Version: "test", Environ: os.Environ(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b.with = func(c *Config) {
		c.Disabled, c.Gate, c.Runner, c.Environ, c.Jobs = nil, openGate{}, runner, []string{"PATH=/usr/bin:/bin", "HIDDEN=daemon-only"}, b.jobs
		c.Now = time.Now
	}
	b.start(t, b.db)
	if err := b.Recover(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) list(t *testing.T, ask operation.ListJobs) (all []operation.Job) {
	t.Helper()
	if err := b.db.View(context.Background(), func(r store.Reader) (err error) {
		all, err = operation.AllJobs(context.Background(), r, ask)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// run calls a command tool with the session and a new operation id. more is what comes beside argv or shell.
func (b *bench) run(t *testing.T, tool, more string) operation.Answer {
	t.Helper()
	b.n++
	return b.call(t, tool, `{"operation_id":"op-run-%04d","remote_session_id":%q,%s}`, b.n, b.session, more)
}

func (b *bench) status(t *testing.T, job, more string) jobShown {
	t.Helper()
	return read[jobShown](t, b.call(t, "command_status", `{"job_id":%q%s}`, job, more))
}

// all is a whole stream, read window by window.
func (b *bench) all(t *testing.T, job string, stream operation.Stream) string {
	t.Helper()
	var all strings.Builder
	for at := int64(0); ; {
		s := b.status(t, job, fmt.Sprintf(`,"output":{"stream":%q,"offset":%d,"max":20000}`, stream, at))
		w := s.Stdout
		if stream == operation.Stderr {
			w = s.Stderr
		}
		if w.Offset != at || w.Next < at {
			t.Fatalf("a window at %d was asked for, it is %d to %d", at, w.Offset, w.Next)
		}
		data, err := base64.StdEncoding.DecodeString(w.Base64)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(w.Text + string(data))
		if w.Next == at {
			return all.String()
		}
		at = w.Next
	}
}

// until waits for something that command_status says.
func (b *bench) until(t *testing.T, job, what string, ok func(jobShown) bool) jobShown {
	t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		s := b.status(t, job, "")
		if ok(s) {
			return s
		}
		if time.Now().After(limit) {
			t.Fatalf("waited in vain for %s: %+v", what, s)
		}
	}
}

func gone(s jobShown) bool { return s.State.Final() }

// TestExecute: RT-87, RT-91, RT-96.
func TestExecute(t *testing.T) {
	b := newBench(t)
	a := b.run(t, "execute_command", `"argv":["true"]`)
	if s := read[jobShown](t, a); !a.OK || s.State != operation.JobExited || *s.Code != 0 || a.Operation.State != operation.Succeeded {
		t.Errorf("true: %+v, %+v", a, s)
	}
	a = b.run(t, "execute_command", `"argv":["sh","-c","echo out; echo err >&2; exit 3"]`)
	s := read[jobShown](t, a)
	if a.OK || a.Refusal != nil || *s.Code != 3 || s.Stdout.Text != "out\n" || s.Stderr.Text != "err\n" || a.Operation.State != operation.Succeeded {
		t.Errorf("exit 3: %+v, %+v", a, s)
	}
	a = b.run(t, "execute_command", `"shell":"LC_ALL=de_DE.UTF-8 nosuchprogram"`)
	if s := read[jobShown](t, a); *s.Code != 127 || len(a.Warnings) != 1 || !strings.HasPrefix(a.Warnings[0], "COMMAND_NOT_FOUND") {
		t.Errorf("127: %+v, %+v", a, s)
	}
	a = b.run(t, "execute_command", `"shell":"env; pwd; cat","env":{"GIVEN":"value","BASH_ENV":"/x"},"cwd":".","stdin_text":"text"`)
	out := read[jobShown](t, a).Stdout.Text
	if strings.Contains(out, "HIDDEN") || strings.Contains(out, "BASH_ENV") || !strings.Contains(out, "GIVEN=value\n") || !strings.Contains(out, b.root+"\n") || !strings.HasSuffix(out, "text") {
		t.Errorf("its environment: %q", out)
	}
	for _, o := range b.operations(t) {
		if strings.Contains(string(o.Args), `"value"`) || strings.Contains(string(o.Args), `"text"`) {
			t.Errorf("values are stored: %s", o.Args)
		}
	}
}

func TestCommandRefusals(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		args  string
		code  operation.Code
		retry fault.Retry
	}{
		{`"argv":["true"],"shell":"true"`, operation.ArgumentInvalid, fault.AfterFix},
		{`"name":"nothing"`, operation.ArgumentInvalid, fault.AfterFix},
		{`"argv":["no-such-program"]`, spawnFailed, fault.AfterFix},
		{`"shell":"echo forbidden"`, policyDenied, fault.Never},
		{`"argv":["true"],"cwd":"missing"`, "CWD_INVALID", fault.AfterFix},
		{`"argv":["true"],"cwd":"../.."`, "CWD_INVALID", fault.AfterFix},
		{`"argv":["true"],"secrets":["token"]`, "SECRET_UNKNOWN", fault.AfterFix},
		{`"argv":["true"],"timeout_s":86401`, operation.LimitExceeded, fault.AfterFix},
		{`"argv":["true"],"sandbox":"none"`, operation.ArgumentInvalid, fault.AfterFix},
		{`"argv":["true"],"env":{"A-B":"x"}`, operation.ArgumentInvalid, fault.AfterFix},
	} {
		refused(t, b.run(t, "start_command", c.args), c.code, c.retry)
	}
	if jobs := b.list(t, operation.ListJobs{}); len(jobs) > 0 {
		t.Errorf("refused commands left jobs: %+v", jobs)
	}
	if dirs, err := os.ReadDir(filepath.Join(b.state, "jobs")); len(dirs) > 0 {
		t.Errorf("refused commands left directories: %v, %v", dirs, err)
	}
	b.cfg.Gate = nil
	refused(t, b.run(t, "start_command", `"argv":["true"]`), noSandbox, fault.Never)
}

// TestWaitForJob: RT-88, RT-89, RT-9, DW-19.
func TestWaitForJob(t *testing.T) {
	b := newBench(t)
	mark := filepath.Join(b.root, "mark")
	call := fmt.Sprintf(`{"operation_id":"op-slow-1","remote_session_id":%q,"shell":"echo x >> mark; sleep 2; echo done","wait_ms":%%s}`, b.session)
	ctx, leave := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, leave)
	b.Do(ctx, Call{Tool: "execute_command", Args: json.RawMessage(fmt.Sprintf(call, "20000")), Principal: session.Operator, Channel: "test"}) // the client leaves
	a := b.call(t, "execute_command", call, "1")
	for a.Refusal != nil && a.Refusal.Code == operation.OperationInProgress { // the attempt of the client that left is not as far yet
		time.Sleep(5 * time.Millisecond)
		a = b.call(t, "execute_command", call, "1")
	}
	job := read[struct {
		Job string `json:"job_id"`
	}](t, a).Job
	if a.Status != operation.OutcomeInProgress || job == "" || a.OK {
		t.Fatalf("under way: %+v", a)
	}
	if s := b.status(t, job, `,"wait_ms":20000`); s.State != operation.JobExited || s.Stdout.Text != "done\n" {
		t.Errorf("after a wait: %+v", s)
	}
	for _, more := range []string{"20000", `20000,"output_bytes":2,"activity":{"intent":"again"}`} {
		a = b.call(t, "execute_command", call, more)
		if s := read[jobShown](t, a); !a.Operation.Replayed || s.Stdout.Text != "done\n" || !a.OK {
			t.Errorf("a retry: %+v, %+v", a, s)
		}
	}
	if data, err := os.ReadFile(mark); string(data) != "x\n" {
		t.Errorf("it ran %q times, %v", data, err)
	}
}

// TestRestartWithJobs: RT-90 as far as one process can: the daemon goes, its commands run on, and the next one has their
// ends. TestCrashPoints kills real daemons.
func TestRestartWithJobs(t *testing.T) {
	b := newBench(t)
	const n = 20
	b.jobs = n
	b.restart(t)
	jobs := map[string]int{}
	for i := range n {
		a := b.run(t, "start_command", fmt.Sprintf(`"shell":"echo x >> count-%d; sleep 0.%d; seq 1 %d; exit %d"`, i, 2+i%7, 100*i, i))
		jobs[read[startedJob](t, a).Job] = i
	}
	slow := make(chan operation.Answer, 1)
	execute := fmt.Sprintf(`{"operation_id":"op-execute","remote_session_id":%q,"shell":"echo x >> count-e; sleep 0.8; echo end"}`, b.session)
	go func() {
		slow <- b.Do(context.Background(), Call{Tool: "execute_command", Args: json.RawMessage(execute), Principal: session.Operator, Channel: "test"})
	}()
	for limit := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(b.root, "count-e")); err == nil {
			break
		} else if time.Now().After(limit) {
			t.Fatal("it does not start")
		}
	}
	b.restart(t)
	if a := <-slow; a.Status != operation.OutcomeInProgress {
		t.Errorf("the daemon stops: %+v", a)
	}
	for job, i := range jobs {
		s := b.status(t, job, `,"wait_ms":20000`)
		var want strings.Builder
		for k := 1; k <= 100*i; k++ {
			fmt.Fprintln(&want, k)
		}
		if out := b.all(t, job, operation.Stdout); s.State != operation.JobExited || *s.Code != i || out != want.String() {
			t.Errorf("job %d: %s %v, %d bytes", i, s.State, *s.Code, len(out))
		}
	}
	a := b.call(t, "execute_command", "%s", execute)
	if s := read[jobShown](t, a); s.Stdout.Text != "end\n" || !a.OK || !a.Operation.Recovered {
		t.Errorf("an execute_command over a restart: %+v, %+v", a, s)
	}
	counts, err := filepath.Glob(filepath.Join(b.root, "count-*"))
	if err != nil || len(counts) != n+1 {
		t.Errorf("%d of %d ran, %v", len(counts), n+1, err)
	}
	for _, path := range counts {
		if data, err := os.ReadFile(path); string(data) != "x\n" {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
}

// TestInput: RT-93, and RT-92 through the tools.
func TestInput(t *testing.T) {
	b := newBench(t)
	job := read[startedJob](t, b.run(t, "start_command", `"shell":"cat; while [ ! -e go ]; do sleep 0.05; done; echo end","stdin":"open"`)).Job
	write := func(more string) operation.Answer {
		return b.run(t, "write_command_input", fmt.Sprintf(`"job_id":%q,%s`, job, more))
	}
	if in := read[fedAnswer](t, write(`"text":"hello\n"`)); in.Accepted != 6 || in.Closed {
		t.Errorf("a write: %+v", in)
	}
	refused(t, write(`"text":"forbidden"`), policyDenied, fault.Never)
	refused(t, write(`"text":"a","base64":"YQ=="`), operation.ArgumentInvalid, fault.AfterFix)
	read[fedAnswer](t, write(`"base64":"AP8=","eof":true`))
	refused(t, write(`"text":"late"`), "STDIN_CLOSED", fault.Never)
	if err := os.WriteFile(filepath.Join(b.root, "go"), nil, 0o600); err != nil { // only now it may end
		t.Fatal(err)
	}
	b.until(t, job, "its end", gone)
	refused(t, write(`"text":"late"`), "JOB_ENDED", fault.Never)
	s := b.status(t, job, `,"output":{"stream":"stdout","offset":0}`)
	if s.Stdout.Base64 != "aGVsbG8KAP9lbmQK" || s.Stderr != nil || !s.Stdin.Closed {
		t.Errorf("what it read: %+v, %+v", s.Stdout, s.Stdin)
	}
	deaf := read[startedJob](t, b.run(t, "start_command", `"shell":"exec sleep 600","stdin":"open"`)).Job
	chunk := strings.Repeat("x", 64<<10)
	full := 0
	for range 32 {
		begun := time.Now()
		a := b.run(t, "write_command_input", fmt.Sprintf(`"job_id":%q,"text":%q`, deaf, chunk))
		if a.Refusal != nil && a.Refusal.Code == "INPUT_FULL" && a.Refusal.Retry == fault.AfterWait && a.Refusal.Details["queued"].(int) > 900_000 {
			full++
		} else if a.Refusal != nil {
			t.Fatal(a.Refusal)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("a write took %s", took)
		}
	}
	if full == 0 || full > 16 {
		t.Errorf("%d of 32 writes were refused", full)
	}
	begun := time.Now()
	if s := b.status(t, deaf, ""); s.Stdin.Queued < 900_000 || time.Since(begun) > time.Second {
		t.Errorf("status of a job that does not read: %+v after %s", s.Stdin, time.Since(begun))
	}
	a := b.run(t, "stop_command", fmt.Sprintf(`"job_id":%q`, deaf))
	if s := read[jobShown](t, a); s.State != operation.JobKilled || time.Since(begun) > 5*time.Second || !a.OK {
		t.Errorf("stopped: %+v after %s", a, time.Since(begun))
	}
}

// TestStopCommand: RT-94 and RT-98 through the tools.
func TestStopCommand(t *testing.T) {
	b := newBench(t)
	job := read[startedJob](t, b.run(t, "start_command", `"shell":"trap 'echo handled; exit 7' INT; echo ready; while :; do sleep 0.05; done"`)).Job
	b.until(t, job, "output", func(s jobShown) bool { return s.Stdout.Bytes > 0 })
	a := b.run(t, "stop_command", fmt.Sprintf(`"job_id":%q,"signal":"INT","grace_s":30`, job))
	stopped := read[struct {
		State     operation.JobState
		Code      *int `json:"exit_code"`
		Survivors []int
	}](t, a)
	if !a.OK || stopped.State != operation.JobKilled || *stopped.Code != 7 || len(stopped.Survivors) > 0 {
		t.Errorf("handled: %+v, %+v", a, stopped)
	}
	if s := b.status(t, job, ""); s.Stdout.Text != "ready\nhandled\n" || s.Stopped == "" {
		t.Errorf("handled: %+v", s)
	}
	again := b.run(t, "stop_command", fmt.Sprintf(`"job_id":%q,"signal":"KILL"`, job))
	if s := read[jobShown](t, again); s.State != operation.JobKilled || *s.Code != 7 || !again.OK {
		t.Errorf("a job that has ended: %+v", again)
	}
	stubborn := read[startedJob](t, b.run(t, "start_command", `"shell":"trap '' TERM; echo ready; while :; do sleep 0.05; done"`)).Job
	b.until(t, stubborn, "output", func(s jobShown) bool { return s.Stdout.Bytes > 0 })
	begun := time.Now()
	a = b.run(t, "stop_command", fmt.Sprintf(`"job_id":%q,"grace_s":1`, stubborn))
	if s := read[jobShown](t, a); s.State != operation.JobKilled || s.Signal != "SIGKILL" || time.Since(begun) < time.Second || time.Since(begun) > 5*time.Second {
		t.Errorf("a stubborn one: %+v after %s", s, time.Since(begun))
	}
	refused(t, b.run(t, "stop_command", `"job_id":"job_none"`), operation.NotFound, fault.AfterFix)
	refused(t, b.run(t, "stop_command", fmt.Sprintf(`"job_id":%q,"signal":"STOP"`, job)), operation.ArgumentInvalid, fault.AfterFix)
}

// TestQueueOfJobs is DW-64: many starts at once, 200 with MCPX_TEST_FULL, a restart in the middle; never more than the limit, each once,
// and nobody overtakes.
func TestQueueOfJobs(t *testing.T) {
	const limit = 4
	n := 60
	if os.Getenv("MCPX_TEST_FULL") != "" {
		n = 200
	}
	b := newBench(t)
	b.jobs = limit
	b.restart(t)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex // guards jobs
		jobs []string
	)
	for i := range n {
		wg.Go(func() {
			a := b.Do(context.Background(), Call{
				Tool: "start_command", Args: json.RawMessage(fmt.Sprintf(
					`{"operation_id":"op-many-%04d","remote_session_id":%q,"shell":"mkdir slot-%d; ls -d slot-* | wc -l >> seen; echo %d >> order; sleep 0.1; rmdir slot-%d; exit 5"}`, i, b.session, i, i, i)),
				Principal: session.Operator, Channel: "test",
			})
			var s startedJob
			if err := json.Unmarshal(a.Data, &s); err != nil || s.Job == "" {
				t.Errorf("start %d: %+v", i, a.Refusal)
			}
			mu.Lock()
			defer mu.Unlock()
			jobs = append(jobs, s.Job)
		})
	}
	wg.Wait()
	b.restart(t)
	for _, job := range jobs {
		if s := b.until(t, job, "its end", gone); s.State != operation.JobExited || *s.Code != 5 {
			t.Errorf("%s: %+v", job, s)
		}
	}
	order, err := os.ReadFile(filepath.Join(b.root, "order"))
	if lines := strings.Fields(string(order)); err != nil || len(lines) != n || len(uniq(lines)) != n {
		t.Errorf("%d starts of %d jobs, %v", len(lines), n, err)
	}
	all := b.list(t, operation.ListJobs{Limit: operation.MaxJobPage})
	if len(all) != n {
		t.Errorf("%d jobs are recorded", len(all))
	}
	rank := map[string]int{} // in the queue
	for i, j := range slices.Backward(all) {
		if j.Queued {
			rank[strings.TrimSuffix(strings.Fields(j.Command.Shell)[1], ";")] = n - i
		}
	}
	var begun []int
	for one := range strings.FieldsSeq(string(order)) {
		if r, waited := rank["slot-"+one]; waited {
			begun = append(begun, r)
		}
	}
	if len(begun) < n/2 {
		t.Errorf("%d of %d jobs waited", len(begun), n)
	}
	for i, one := range begun { // those that have their place at the same moment begin in any order
		if late := slices.DeleteFunc(slices.Clone(begun[i+1:]), func(r int) bool { return r > one }); len(late) >= limit {
			t.Errorf("the job %d began before %v", one, late)
		}
	}
	seen, err := os.ReadFile(filepath.Join(b.root, "seen"))
	for count := range strings.FieldsSeq(string(seen)) {
		if len(count) > 1 || count > fmt.Sprint(limit) {
			t.Errorf("%s ran at once, %v", count, err)
		}
	}
}

func uniq(all []string) map[string]bool {
	set := map[string]bool{}
	for _, one := range all {
		set[one] = true
	}
	return set
}

// TestDuplicateCommand is DW-20.
func TestDuplicateCommand(t *testing.T) {
	b := newBench(t)
	first := b.run(t, "start_command", `"shell":"exit 0"`)
	a := b.run(t, "start_command", `"shell":"exit 0"`)
	refused(t, a, operation.PossibleDuplicate, fault.AfterFix)
	result, _ := a.Refusal.Details["result"].(json.RawMessage)
	if d := a.Refusal.Details; d["operation_id"] != first.Operation.ID || d["state"] != operation.Succeeded || !strings.Contains(string(result), read[startedJob](t, first).Job) {
		t.Errorf("it tells %v, %s", d, result)
	}
	second := b.run(t, "start_command", fmt.Sprintf(`"shell":"exit 0","distinct_from":%q`, first.Operation.ID))
	for _, one := range []operation.Answer{first, second} {
		b.until(t, read[startedJob](t, one).Job, "its end", gone)
	}
	third := b.run(t, "start_command", `"shell":"exit 0"`)
	read[startedJob](t, third)
	if a := b.call(t, "operation_status", `{"operation_id":%q,"wait_ms":20000}`, third.Operation.ID); !a.OK { // as POSSIBLE_DUPLICATE proposes
		t.Errorf("%+v", a.Refusal)
	}
	read[startedJob](t, b.run(t, "start_command", `"shell":"exit 0"`))
	executed := b.run(t, "execute_command", `"shell":"echo once"`) // its answer was delivered with its end
	if again := b.run(t, "execute_command", `"shell":"echo once"`); !executed.OK || !again.OK {
		t.Errorf("the same command again: %+v, %+v", executed, again.Refusal)
	}
}

// TestDuplicateWorkspace: DW-20, of workspaces. The same one is not made again while nobody has used the handle of the first.
func TestDuplicateWorkspace(t *testing.T) {
	s := newShop(t)
	create := func(id string) operation.Answer {
		return s.do(t, "create_agent_workspace", `"purpose":"work","mutable":["docs"],"on_overlap":"allow","operation_id":%q`, id)
	}
	first := create("create-01")
	a := create("create-02")
	refused(t, a, operation.PossibleDuplicate, fault.AfterFix)
	if a.Refusal != nil && a.Refusal.Details["operation_id"] != "create-01" {
		t.Errorf("it names %v", a.Refusal.Details)
	}
	status := fmt.Sprintf(`{"handle":%q}`, first.Handle)
	by := Call{Tool: "workspace_status", Args: []byte(status), Principal: session.Operator, Gone: func() bool { return true }}
	read[workspaceShown](t, s.Do(t.Context(), by)) // an answer that nobody reads
	by = Call{Tool: "operation_status", Args: []byte(`{"operation_id":"create-01"}`), Principal: session.Operator, Gone: by.Gone}
	read[struct{}](t, s.Do(t.Context(), by))
	read[workspaceShown](t, s.ForPerson(t.Context(), event.Actor{Principal: session.Operator}, "workspace_status", []byte(status))) // a person looks
	refused(t, create("create-02"), operation.PossibleDuplicate, fault.AfterFix)
	read[workspaceShown](t, s.do(t, "workspace_status", `"handle":%q`, first.Handle))
	read[openedWorkspace](t, create("create-02"))
}

// TestStatusBeforeTheRecord: a command that was begun, and of which no job is written down yet, is under way, and not unknown.
func TestStatusBeforeTheRecord(t *testing.T) {
	b := newBench(t)
	row := operation.Operation{
		Name: operation.Name{Namespace: session.Operator, ID: "op-begun-1"}, Tool: "start_command", Print: "p", State: operation.Claimed, Class: operation.Spawn, Attempts: 1, Claimed: b.cfg.Now(),
	}
	for _, c := range []struct {
		state operation.State
		code  operation.Code
	}{{operation.Claimed, operation.NotFound}, {operation.Dispatched, operation.OperationInProgress}} {
		row.State = c.state
		if err := b.db.Change(t.Context(), func(tx store.Tx) error { return tx.PutOperation(t.Context(), operation.PutOperation{Operation: row}) }); err != nil {
			t.Fatal(err)
		}
		if a := b.call(t, "command_status", `{"operation_id":"op-begun-1"}`); codeOf(a) != c.code {
			t.Errorf("%s: %+v", c.state, a.Refusal)
		}
	}
}

// TestLostJob: DW-24 and C8, C9.
func TestLostJob(t *testing.T) {
	b := newBench(t)
	job := read[startedJob](t, b.run(t, "start_command", `"shell":"echo begun; exec sleep 600"`)).Job
	b.until(t, job, "output", func(s jobShown) bool { return s.Stdout.Bytes > 0 })
	b.Stop()
	dir := filepath.Join(b.state, "jobs", job+".1")
	if err := b.cfg.Runner.Stop(t.Context(), operation.StopJob{JobRef: operation.JobRef{ID: job, Attempt: 1}, By: "x", Signal: "KILL"}); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if e, err := b.cfg.Runner.Look(t.Context(), operation.JobRef{ID: job, Attempt: 1}); err == nil && !e.Held {
			break
		} else if time.Now().After(limit) {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "exit")); err != nil { // as if its supervisor had been killed
		t.Fatal(err)
	}
	b.restart(t)
	a := b.call(t, "command_status", `{"job_id":%q}`, job)
	if s := read[jobShown](t, a); s.State != operation.JobLost || s.Reason != operation.SupervisorKilled || s.Code != nil || s.Stdout.Text != "begun\n" || len(a.Warnings) != 1 {
		t.Errorf("lost: %+v, %+v", a, s)
	}
}

// TestAskedCommand: RT-107, RT-108 and RT-109 for commands.
func TestAskedCommand(t *testing.T) {
	b := newBench(t)
	args := fmt.Sprintf(`{"operation_id":"op-asked-1","remote_session_id":%q,"shell":"echo asked; echo x >> mark; exit 6"}`, b.session)
	a := b.waits(t, "execute_command", args)
	if jobs := b.list(t, operation.ListJobs{}); len(jobs) > 0 {
		t.Errorf("something was started: %+v", jobs)
	}
	b.restart(t)
	if again := b.waits(t, "execute_command", args); again.ID != a.ID || !strings.Contains(again.Display, "echo asked; echo x >> mark; exit 6\nin "+b.root) {
		t.Errorf("after a restart: %+v", again)
	}
	b.decide(t, a, true)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			got := b.Do(context.Background(), Call{Tool: "execute_command", Args: json.RawMessage(args), Principal: session.Operator, Channel: "test"})
			var s jobShown
			if err := json.Unmarshal(got.Data, &s); err != nil || got.Refusal != nil || s.Code == nil || *s.Code != 6 {
				t.Errorf("a call after the yes: %+v, %+v", got, s)
			}
		})
	}
	wg.Wait()
	if data, err := os.ReadFile(filepath.Join(b.root, "mark")); string(data) != "x\n" {
		t.Errorf("it ran %q times, %v", data, err)
	}
}

// TestJobsOfASession: JOBS_RUNNING, the count of what is unfinished, and jobs as evidence: RT-101, RT-103, RT-104, RT-106.
func TestJobsOfASession(t *testing.T) {
	b := newBench(t)
	long := read[startedJob](t, b.run(t, "start_command", `"shell":"exec sleep 600"`)).Job
	attached := b.call(t, "session", `{"action":"attach","remote_session_id":%q}`, b.session)
	if n := read[struct{ Unfinished struct{ Jobs int } }](t, attached).Unfinished.Jobs; n != 1 {
		t.Errorf("%d jobs are unfinished", n)
	}
	refused(t, b.run(t, "session", `"action":"close"`), session.JobsRunning, fault.AfterWait)
	failing := read[jobShown](t, b.run(t, "execute_command", `"shell":"exit 1"`)).Job
	passing := read[jobShown](t, b.run(t, "execute_command", `"shell":"exit 0"`)).Job
	b.run(t, "plan", `"action":"create","summary":"s","tasks":[{"key":"a","title":"A"}]`)
	b.run(t, "plan", `"action":"update","task":"a","state":"in_progress"`)
	complete := func(job string) operation.Answer {
		return b.run(t, "plan", fmt.Sprintf(`"action":"update","task":"a","state":"completed","evidence":[{"kind":"job","ref":%q}]`, job))
	}
	for _, job := range []string{failing, long, "job_none"} {
		refused(t, complete(job), "EVIDENCE_INVALID", fault.AfterFix)
	}
	if a := complete(passing); !a.OK {
		t.Fatalf("a passing job: %+v", a.Refusal)
	}
	deliver := func() map[session.CheckCode]bool {
		passed := map[session.CheckCode]bool{}
		for _, c := range read[struct{ Checks []session.CheckResult }](t, b.run(t, "plan", `"action":"deliver"`)).Checks {
			passed[c.Code] = c.Passed
		}
		return passed
	}
	if c := deliver(); c[session.JobsClear] || !c[session.VerificationPresent] || !c[session.VerificationFresh] {
		t.Errorf("with a job that runs: %v", c)
	}
	b.run(t, "stop_command", fmt.Sprintf(`"job_id":%q`, long))
	if a := b.run(t, "edit_files", `"edits":[{"path":"new","op":"create","content":"x"}]`); !a.OK {
		t.Fatalf("%+v", a.Refusal)
	}
	if c := deliver(); !c[session.JobsClear] || c[session.VerificationFresh] {
		t.Errorf("after an edit: %v", c)
	}
	if a := b.run(t, "session", `"action":"close"`); !a.OK {
		t.Errorf("close: %+v", a.Refusal)
	}
}
