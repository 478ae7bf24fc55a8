//go:build unix

package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mcpx/internal/approval"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
)

// TestRT24AttachTellsWhatWaits: attach names the five newest questions to a person, and how many there are more.
func TestRT24AttachTellsWhatWaits(t *testing.T) {
	s := newHeap(t)
	var asked []string
	for i := range 7 {
		name := fmt.Sprintf("heap-%d.txt", i)
		s.save(t, name, name)
		s.pass(time.Second)
		a := read[prepared](t, s.do(t, "remove_files", `"operation_id":"prepare-%d","action":"prepare","targets":[{"path":%q,"expect_sha256":%q}]`, i, name, digest([]byte(name))))
		asked = append(asked, a.Waiting.Approval)
	}
	slices.Reverse(asked)
	got := read[struct {
		Pending []struct {
			ID string `json:"approval_id"`
		} `json:"pending_approvals"`
		More int `json:"more_approvals"`
	}](t, s.call(t, "session", `{"action":"attach","remote_session_id":%q}`, s.session))
	var ids []string
	for _, one := range got.Pending {
		ids = append(ids, one.ID)
	}
	if !slices.Equal(ids, asked[:5]) || got.More != 2 {
		t.Errorf("%v and %d more wait, want %v and 2 more", ids, got.More, asked[:5])
	}
}

// TestDW14OtherSpelling: the same intention in another spelling is replayed; another one is refused by the names of what
// differs, and no value is told.
func TestDW14OtherSpelling(t *testing.T) {
	b := newBench(t)
	call := func(args string) operation.Answer { return b.call(t, "execute_command", "%s", args) }
	first := call(fmt.Sprintf(`{"operation_id":"op-spelling","remote_session_id":%q,"shell":"echo $A","env":{"A":"secret-1","B":"2"},"timeout_s":10}`, b.session))
	again := call(fmt.Sprintf(`{ "timeout_s" : 1.0e1, "env":{"B":"2","A":"secret-1"}, "shell":"echo $A","remote_session_id":%q,"operation_id":"op-spelling"}`, b.session))
	if !first.OK || !again.OK || !again.Operation.Replayed || string(again.Data) != string(first.Data) {
		t.Fatalf("another spelling: %+v (%v), %+v (%v)", again, again.Refusal, first, first.Refusal)
	}
	for field, args := range map[string]string{
		"shell": `"shell":"echo $B","env":{"A":"secret-1","B":"2"},"timeout_s":10`, "env": `"shell":"echo $A","env":{"A":"secret-2","B":"2"},"timeout_s":10`,
	} {
		a := call(fmt.Sprintf(`{"operation_id":"op-spelling","remote_session_id":%q,%s}`, b.session, args))
		refused(t, a, operation.OperationIDReused, fault.NewID)
		if text, _ := json.Marshal(a); !strings.Contains(string(text), `"`+field) || strings.Contains(string(text), "secret") {
			t.Errorf("%s differs: %s", field, text)
		}
	}
}

// TestDW22Namespaces: an id belongs to its principal, and so does a handle.
func TestDW22Namespaces(t *testing.T) {
	d := newDesk(t)
	d.project(t, "shop", "/srv/shop")
	mine := read[openedSession](t, d.call(t, "session", `{"action":"open","project":"shop","operation_id":"op-00001"}`)).Session.ID
	token := read[struct{ Token string }](t, d.call(t, "session", `{"action":"handoff","remote_session_id":%q,"operation_id":"op-00002"}`, mine)).Token
	if a := d.as(t, "bob", "session", `{"action":"attach","handoff_token":%q,"operation_id":"op-00001"}`, token); !a.OK || a.Operation.Replayed {
		t.Errorf("the same id of somebody else: %+v (%v)", a, a.Refusal)
	}
	if a := d.call(t, "session", `{"action":"open","project":"shop","operation_id":"op-00001"}`); !a.Operation.Replayed {
		t.Errorf("the id is its first owner's no more: %+v", a)
	}
	refused(t, d.as(t, "eve", "operation_status", `{"operation_id":"op-00001"}`), operation.OperationUnknown, fault.AfterFix)
	refused(t, d.as(t, "eve", "session", `{"action":"attach","remote_session_id":%q}`, mine), operation.SessionNotFound, fault.AfterFix)
}

// TestDW23MalformedIDs: what is no operation id is refused, and leaves nothing.
func TestDW23MalformedIDs(t *testing.T) {
	d := newDesk(t)
	d.project(t, "shop", "/srv/shop")
	for _, id := range []string{strings.Repeat("a", 7), strings.Repeat("a", 129), "", "with space", "with\u0001control", "grüße-1234", "line\nfeed-1"} {
		quoted, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		refused(t, d.call(t, "session", `{"action":"open","project":"shop","operation_id":%s}`, quoted), operation.ArgumentInvalid, fault.AfterFix)
	}
	for _, missing := range []string{`{"action":"open","project":"shop"}`, `{"action":"open","project":"shop","operation_id":null}`} {
		refused(t, d.call(t, "session", "%s", missing), operation.OperationIDRequired, fault.AfterFix)
	}
	if rows := d.operations(t); len(rows) > 0 {
		t.Errorf("the ledger has %v", rows)
	}
	for _, id := range []string{strings.Repeat("a", 8), strings.Repeat("Z", 128), "a.b_c:d-9"} {
		if a := d.call(t, "session", `{"action":"open","project":"shop","operation_id":%q}`, id); !a.OK {
			t.Errorf("%s: %v", id, a.Refusal)
		}
	}
}

// TestDW24UnknownOutcome: a command whose directory is gone with the daemon down has an unknown outcome, and is not begun
// again however often it is asked for, until somebody who has looked says what became of it.
func TestDW24UnknownOutcome(t *testing.T) {
	b := newBench(t)
	args := fmt.Sprintf(`{"operation_id":"op-unknown","remote_session_id":%q,"shell":"echo x >> starts; exec sleep 600"}`, b.session)
	job := b.held(t, args)
	b.lose(t, job)
	b.restart(t)
	for range 3 {
		a := b.call(t, "execute_command", "%s", args)
		refused(t, a, operation.OutcomeUnknown, fault.Never)
		if len(a.Next) == 0 || a.Next[0].Tool != "resolve_operation" {
			t.Errorf("what comes next: %+v", a.Next)
		}
	}
	if a := b.call(t, "resolve_operation", `{"operation_id":"op-verdict","target":"op-unknown","verdict":"done","evidence":"the file starts is there"}`); !a.OK {
		t.Fatalf("the verdict: %+v", a.Refusal)
	}
	last := b.call(t, "execute_command", "%s", args)
	if !last.OK || last.Operation.State != operation.Succeeded || !last.Operation.Replayed || !strings.Contains(string(last.Data), "done") {
		t.Errorf("after the verdict: %+v %s", last, last.Data)
	}
	if starts, err := os.ReadFile(filepath.Join(b.root, "starts")); err != nil || string(starts) != "x\n" {
		t.Errorf("it was started %q, %v", starts, err)
	}
}

// held makes a call of execute_command that does not wait for its end, and gives its job once the command runs and that is
// recorded.
func (b *bench) held(t *testing.T, args string) operation.Job {
	t.Helper()
	b.call(t, "execute_command", "%s,\"wait_ms\":1}", strings.TrimSuffix(args, "}"))
	for limit := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		_, err := os.Stat(filepath.Join(b.root, "starts"))
		if jobs := b.list(t, operation.ListJobs{}); err == nil && len(jobs) == 1 && jobs[0].State == operation.JobRunning {
			return jobs[0]
		} else if time.Now().After(limit) {
			t.Fatalf("%+v, %v", jobs, err)
		}
	}
}

// lose stops the daemon, kills a job with its supervisor, and removes its directory.
func (b *bench) lose(t *testing.T, job operation.Job) {
	t.Helper()
	b.Stop()
	if err := b.cfg.Runner.Stop(context.Background(), operation.StopJob{JobRef: job.JobRef, By: "x", Signal: "KILL"}); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		e, err := b.cfg.Runner.Look(context.Background(), job.JobRef)
		if err == nil && !e.Held {
			break
		} else if time.Now().After(limit) {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	if err := os.RemoveAll(filepath.Join(b.state, "jobs", fmt.Sprintf("%s.%d", job.ID, job.Attempt))); err != nil {
		t.Fatal(err)
	}
}

// TestRT7DisabledLater and DW-67: with commands off again, none of their tools is carried out, what was done before is
// replayed, and a job is still told.
func TestRT7DisabledLater(t *testing.T) {
	b := newBench(t)
	args := fmt.Sprintf(`{"operation_id":"op-before","remote_session_id":%q,"shell":"echo x >> starts"}`, b.session)
	first := b.call(t, "execute_command", "%s", args)
	if !first.OK {
		t.Fatalf("%+v", first.Refusal)
	}
	b.Stop()
	was := b.with
	b.with = func(c *Config) {
		was(c)
		c.Disabled = []Toolset{SetCommands}
	}
	b.start(t, b.db)
	for name := range b.tools {
		if b.tools[name].Set != SetCommands {
			continue
		}
		a := b.call(t, name, `{"operation_id":"op-later-%s","remote_session_id":%q}`, name, b.session)
		refused(t, a, operation.ToolDisabled, fault.Never)
		if a.Refusal.Details["setting"] != "runtime.commands" {
			t.Errorf("%s names %v", name, a.Refusal.Details)
		}
	}
	if slices.ContainsFunc(b.Tools(), func(one Tool) bool { return one.Set == SetCommands }) {
		t.Error("a tool of commands is listed")
	}
	again := b.call(t, "execute_command", "%s", args)
	if !again.OK || !again.Operation.Replayed || string(again.Data) != string(first.Data) {
		t.Errorf("the exact retry: %+v (%v)", again, again.Refusal)
	}
	if a := b.call(t, "operation_status", `{"operation_id":"op-before"}`); !a.OK {
		t.Errorf("its status: %+v", a.Refusal)
	}
	if starts, err := os.ReadFile(filepath.Join(b.root, "starts")); err != nil || string(starts) != "x\n" {
		t.Errorf("it was started %q, %v", starts, err)
	}
}

// TestDW71PhantomJobs: a job that is recorded and has no directory is lost; one that has a directory and no record is listed.
// Neither is run.
func TestDW71PhantomJobs(t *testing.T) {
	b := newBench(t)
	gone := b.held(t, fmt.Sprintf(`{"operation_id":"op-gone-dir","remote_session_id":%q,"shell":"echo x >> starts; exec sleep 600"}`, b.session))
	kept := read[jobShown](t, b.run(t, "execute_command", `"shell":"echo y >> starts; exit 7"`)).Job
	b.lose(t, gone)
	b.restart(t)
	if s := b.status(t, gone.ID, ""); s.State != operation.JobLost || s.Reason != operation.RecordMissing || s.Code != nil {
		t.Errorf("(a) is %+v", s)
	}
	if told := read[reconciled](t, b.call(t, "reconcile_project_state", `{}`)); len(told.Lost) != 1 || told.Lost[0].Job != gone.ID {
		t.Errorf("(a) is told as %+v", told.Lost)
	}
	b.Stop()
	fresh := newDesk(t)
	b.db = fresh.db // a record that knows nothing
	b.project(t, "app", b.root)
	b.restart(t)
	found := b.list(t, operation.ListJobs{})
	if len(found) != 1 || found[0].ID != kept || found[0].State != operation.JobExited || found[0].Code == nil || *found[0].Code != 7 {
		t.Errorf("(b) is listed as %+v", found)
	}
	if starts, err := os.ReadFile(filepath.Join(b.root, "starts")); err != nil || string(starts) != "x\ny\n" {
		t.Errorf("the commands were started %q, %v", starts, err)
	}
}

// TestRT85Judged: each start that is judged leaves one policy.decided with what it consists of and the rule of each part,
// whether it is let through, waits for a person or is refused.
func TestRT85Judged(t *testing.T) {
	b := newBench(t)
	type told struct {
		Decision policy.Decision
		Units    []policy.Unit
	}
	for n, c := range []struct {
		shell string
		want  policy.Decision
	}{{"echo plain", policy.Allow}, {"echo asked", policy.Confirm}, {"echo forbidden", policy.Deny}} {
		for i, name := range []string{"start_command", "execute_command"} {
			b.call(t, name, `{"operation_id":"op-judged-%d%d","remote_session_id":%q,"shell":%q,"distinct_from":"op-judged-%d0"}`, n, i, b.session, c.shell, n)
			all := b.events(t, string(event.PolicyDecided))
			if want := 2*n + i + 1; len(all) != want {
				t.Fatalf("%q by %s: %d rulings are told, want %d", c.shell, name, len(all), want)
			}
			last := all[len(all)-1]
			var got told
			if err := json.Unmarshal(last.Body, &got); err != nil {
				t.Fatal(err)
			}
			if got.Decision != c.want || last.Refs[event.RefOperation] != fmt.Sprintf("op-judged-%d%d", n, i) {
				t.Errorf("%q by %s: %+v of %s", c.shell, name, got, last.Refs[event.RefOperation])
			}
			if len(got.Units) != 1 || got.Units[0].Text != c.shell || got.Units[0].Decision != c.want || got.Units[0].Rule != "test" {
				t.Errorf("%q by %s consists of %+v", c.shell, name, got.Units)
			}
		}
	}
	asked, before := b.approvals(t), len(b.events(t, string(event.PolicyDecided)))
	first := slices.IndexFunc(asked, func(a approval.Approval) bool { return a.Operation == "op-judged-10" })
	b.decide(t, asked[first], true)
	if a := b.call(t, "start_command", `{"operation_id":"op-judged-10","remote_session_id":%q,"shell":"echo asked","distinct_from":"op-judged-10"}`, b.session); !a.OK {
		t.Errorf("after the yes: %+v (%v)", a, a.Refusal)
	}
	if after := len(b.events(t, string(event.PolicyDecided))); after != before {
		t.Errorf("one start has %d rulings", after-before+1)
	}
}

// TestRT95Output: parts of the output that are asked for by next_offset make up each stream, and none ends within a character,
// also while the command still writes.
func TestRT95Output(t *testing.T) {
	b := newBench(t)
	const rounds = 60
	job := read[startedJob](t, b.run(t, "start_command", fmt.Sprintf(`"shell":"for i in $(seq %d); do printf '€uro 𝄞 %%d\n' $i; printf 'ärger %%d\n' $i >&2; done"`, rounds))).Job
	var want [2]strings.Builder
	for i := 1; i <= rounds; i++ {
		fmt.Fprintf(&want[0], "€uro 𝄞 %d\n", i)
		fmt.Fprintf(&want[1], "ärger %d\n", i)
	}
	for n, stream := range []operation.Stream{operation.Stdout, operation.Stderr} {
		for _, size := range []int{5, 1000} { // a character has up to four bytes
			var all strings.Builder
			for at := int64(0); ; {
				s := b.status(t, job, fmt.Sprintf(`,"output":{"stream":%q,"offset":%d,"max":%d}`, stream, at, size))
				w := s.Stdout
				if stream == operation.Stderr {
					w = s.Stderr
				}
				if w.Base64 != "" || w.Offset != at || w.Next != at+int64(len(w.Text)) || len(w.Text) > size || !utf8.ValidString(w.Text) {
					t.Fatalf("%s at %d in %d bytes: %+v", stream, at, size, w)
				}
				all.WriteString(w.Text)
				if w.Next == at && s.State.Final() {
					break
				}
				at = w.Next
			}
			if all.String() != want[n].String() {
				t.Errorf("%s in parts of %d has %d bytes, want %d", stream, size, all.Len(), want[n].Len())
			}
		}
	}
}

// TestDW13Oversized: fifty million bytes of output, a part of it without MCPX_TEST_FULL, are answered by their end within
// what an answer may have, and are read whole, byte for byte, by this daemon and by the next one. Their reference is the
// job: output is kept where it was written, and command_status gives every byte of it.
func TestDW13Oversized(t *testing.T) {
	size := 5_000_000
	if os.Getenv("MCPX_TEST_FULL") != "" {
		size *= 10
	} else if raceOn {
		size /= 10
	}
	b := newBench(t)
	a := b.run(t, "execute_command", fmt.Sprintf(`"wait_ms":25000,"output_bytes":20000,"argv":["awk","BEGIN { x = 1; while (n < %d) { x = (x * 16807) %% 2147483647; l = sprintf(\"%%010d\", x); printf \"%%s\", l; n += 10 } }"]`, size))
	job := read[struct {
		Job string `json:"job_id"`
	}](t, a).Job
	if raw, err := json.Marshal(a); err != nil || len(raw) > 24576 {
		t.Errorf("the answer has %d bytes, %v", len(raw), err)
	}
	s := b.until(t, job, "its end", gone)
	if s.Stdout.Bytes != int64(size) || s.Stdout.Dropped != 0 {
		t.Fatalf("%d bytes of output, %d dropped", s.Stdout.Bytes, s.Stdout.Dropped)
	}
	sum := sha256.New() // of the same generator
	for n, x := 0, 1; n < size; n += 10 {
		x = x * 16807 % 2147483647
		sum.Write(fmt.Appendf(nil, "%010d", x))
	}
	want := hex.EncodeToString(sum.Sum(nil))
	for _, when := range []string{"by this daemon", "by the next one"} {
		if got := digest([]byte(b.all(t, job, operation.Stdout))); got != want {
			t.Errorf("read %s it is other than what was written", when)
		}
		b.restart(t)
	}
}
