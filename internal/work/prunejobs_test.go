//go:build linux || darwin

package work

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/event"
	"mcpx/internal/operation"
	"mcpx/internal/retention"
	"mcpx/internal/store"
)

// TestPruneOutput: what commands wrote goes with its directory, once the row of the job says so. What lives stays, and so
// does what an open plan refers to, and a directory of which an earlier daemon had not come to the end goes now.
func TestPruneOutput(t *testing.T) {
	b := newBench(t)
	job := func(args string) string {
		t.Helper()
		id := read[jobShown](t, b.run(t, "execute_command", args)).Job
		for limit := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // its supervisor ends a moment later
			e, err := b.cfg.Runner.Look(t.Context(), operation.JobRef{ID: id, Attempt: 1})
			if err != nil || time.Now().After(limit) {
				t.Fatalf("%s: %+v, %v", id, e, err)
			}
			if !e.Held {
				return id
			}
		}
	}
	free, named, cut := job(`"argv":["echo","free"]`), job(`"argv":["echo","named"]`), job(`"argv":["echo","cut"]`)
	live := read[jobShown](t, b.run(t, "start_command", `"argv":["sleep","600"]`)).Job
	b.until(t, live, "the start", func(s jobShown) bool { return s.State == operation.JobRunning })
	for _, args := range []string{
		`"action":"create","operation_id":"plan-0001","summary":"ship","tasks":[{"key":"a","title":"A"}]`, `"action":"update","operation_id":"plan-0002","task":"a","state":"in_progress"`,
		`"action":"update","operation_id":"plan-0003","task":"a","state":"completed","evidence":[{"kind":"job","ref":"` + named + `"}]`,
	} {
		if a := b.call(t, "plan", `{"remote_session_id":%q,%s}`, b.session, args); !a.OK {
			t.Fatalf("%+v %v", a, a.Refusal)
		}
	}
	err := b.db.Change(t.Context(), func(tx store.Tx) error { // the daemon ended between the commit and the directory
		j, err := tx.JobByID(t.Context(), operation.JobByID{ID: cut})
		if err != nil {
			return err
		}
		j.Cleared = time.Now()
		return tx.PutJob(t.Context(), operation.PutJob{Job: j})
	})
	if err != nil {
		t.Fatal(err)
	}
	prune := func(after time.Duration, dry bool) retention.Removed {
		t.Helper()
		out, err := b.Prune(t.Context(), Prune{Periods: retention.Usual, At: time.Now().Add(after), DryRun: dry, By: event.Actor{Principal: "owner"}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Removed[2]
	}
	there := func(id string) bool {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(b.state, "jobs", id+"*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found) > 0
	}
	want := retention.Removed{Data: retention.Output, Removed: 1, Bytes: int64(len("free\n")), Needed: 1}
	if got := prune(31*retention.Day, true); got != want || !there(free) {
		t.Errorf("it would remove %+v, want %+v", got, want)
	}
	if got := prune(31*retention.Day, false); got != want {
		t.Errorf("it removed %+v, want %+v", got, want)
	}
	for id, want := range map[string]bool{free: false, cut: false, named: true, live: true} {
		if there(id) != want {
			t.Errorf("the directory of %s is there: %t", id, !want)
		}
	}
	a := b.call(t, "command_status", `{"job_id":%q}`, free)
	if s := read[jobShown](t, a); s.State != operation.JobExited || *s.Code != 0 || s.Stdout != nil || len(a.Warnings) != 1 || !strings.HasPrefix(a.Warnings[0], string(operation.ResultExpired)) {
		t.Errorf("what is told of it: %+v, %v", s, a.Warnings)
	}
	if got := b.all(t, named, operation.Stdout); got != "named\n" {
		t.Errorf("what the plan refers to: %q", got)
	}
	if _, err := os.Stat(b.cfg.Runner.Temp(operation.JobRef{ID: live, Attempt: 1})); err != nil {
		t.Errorf("what lives: %v", err)
	}
}
