package control

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
)

func TestJobs(t *testing.T) {
	b, ctx := newBench(t)
	b.cfg.Output = func(_ context.Context, at operation.OutputAt) (operation.JobOutput, error) {
		if at.Stream == operation.Stderr {
			return operation.JobOutput{}, fault.New(fault.NotFound, "job-unknown").Saying("nothing is there")
		}
		return operation.JobOutput{Data: []byte("end\xff\n"), Offset: 6, Size: 11}, nil
	}
	seven := 7
	err := b.cfg.DB.Change(ctx, func(tx store.Tx) error {
		for i, j := range []operation.Job{
			{State: operation.JobRunning, Started: b.cfg.Now()}, {State: operation.JobExited, Code: &seven, Started: b.cfg.Now(), Ended: b.cfg.Now().Add(time.Second)}, {State: operation.JobReserved},
		} {
			j.ID, j.By = fmt.Sprintf("job_%d", i), operation.Name{Namespace: api.Owner.Name, ID: fmt.Sprintf("op-0000%d", i)}
			if err := tx.PutJob(ctx, operation.PutJob{Job: j}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	first, err := b.Jobs(ctx, api.JobsQuery{Limit: 1})
	if err != nil || len(first.Jobs) != 1 || first.Jobs[0].ID != "job_2" || fmt.Sprint(first.Next) != "[mcpx job show job_2]" {
		t.Fatalf("those that have not ended: %+v, %v", first, err)
	}
	if more, err := b.Jobs(ctx, api.JobsQuery{Before: first.Before}); err != nil || len(more.Jobs) != 1 || more.Jobs[0].ID != "job_0" || more.Before != 0 {
		t.Errorf("the next page: %+v, %v", more, err)
	}
	if all, err := b.Jobs(ctx, api.JobsQuery{All: true}); err != nil || len(all.Jobs) != 3 {
		t.Errorf("all: %+v, %v", all, err)
	}
	one, err := b.Job(ctx, api.JobRef{Job: "job_1"})
	if err != nil || one.Stdout == nil || one.Stdout.Text != "end\uFFFD\n" || one.Stdout.Offset != 6 || one.Stdout.Bytes != 11 || one.Stderr != nil || *one.Code != 7 {
		t.Errorf("one: %+v, %v", one, err)
	}
	if waits, err := b.Job(ctx, api.JobRef{Job: "job_2"}); err != nil || waits.Stdout != nil {
		t.Errorf("one that has not started: %+v, %v", waits, err)
	}
	if _, err := b.Job(ctx, api.JobRef{Job: "job_9"}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("none: %v", err)
	}
}

func TestStopJob(t *testing.T) {
	b, ctx := newBench(t)
	work := &fakeWork{answers: map[string]operation.Answer{
		"stop_command": {OK: true, Data: json.RawMessage(`{"job_id":"job_1","state":"killed","exit_code":null,"signal":"SIGKILL","survivors":[41,42]}`)},
	}}
	b.cfg.Work = work
	ctx = api.Under(ctx, "op-00001")
	got, err := b.StopJob(ctx, api.StopJob{Job: "job_1", Signal: "INT", Grace: new(0)})
	if err != nil || got.State != operation.JobKilled || got.Signal != "SIGKILL" || got.Operation != "op-00001" || got.Text != "job_1 is killed, and processes that it started go on: 41 42" {
		t.Errorf("%+v, %v", got, err)
	}
	if want := `stop_command {"grace_s":0,"job_id":"job_1","operation_id":"op-00001","signal":"INT"}`; len(work.calls) != 1 || !strings.HasSuffix(work.calls[0], want) {
		t.Errorf("the call: %q", work.calls)
	}
	for code, want := range map[*operation.Refusal]fault.Kind{
		operation.Refuse(operation.NotFound, "there is none"):                                   fault.NotFound,
		operation.Refuse(operation.ArgumentInvalid, "no signal"):                                fault.Invalid,
		operation.Refuse(operation.OperationIDReused, "it means something else"):                fault.Conflict,
		operation.Refuse(operation.OutcomeUnknown, "nobody knows"):                              fault.UnknownOutcome,
		operation.Refuse(operation.StoreDegraded, "the disk is full").Retrying(fault.AfterWait): fault.Unavailable,
	} {
		work.answers["stop_command"] = operation.Answer{Refusal: code}
		if _, err := b.StopJob(ctx, api.StopJob{Job: "job_1"}); fault.KindOf(err) != want {
			t.Errorf("%s: %v", code.Code, err)
		}
	}
}

// TestJobLogs: every byte comes once, also those that are written while somebody reads; the end of the job is the end.
func TestJobLogs(t *testing.T) {
	b, ctx := newBench(t)
	written := []byte("one\n")
	b.cfg.Output = func(_ context.Context, at operation.OutputAt) (operation.JobOutput, error) {
		rest := written[min(int64(len(written)), at.Offset):]
		return operation.JobOutput{Data: rest[:min(len(rest), 3)], Offset: at.Offset, Size: int64(len(written))}, nil
	}
	put := func(state operation.JobState) {
		j := operation.Job{State: state, Started: b.cfg.Now(), By: operation.Name{Namespace: api.Owner.Name, ID: "op-00001"}}
		j.ID = "job_1"
		if err := b.cfg.DB.Change(ctx, func(tx store.Tx) error { return tx.PutJob(ctx, operation.PutJob{Job: j}) }); err != nil {
			t.Fatal(err)
		}
	}
	put(operation.JobRunning)
	read := func(in api.JobLogsQuery) (got string, err error) {
		in.Job = "job_1"
		err = b.JobLogs(ctx, in, func(c api.JobChunk) error {
			if c.Offset != int64(len(got)) {
				t.Errorf("a part begins at %d after %d bytes", c.Offset, len(got))
			}
			if got += string(c.Data); in.Follow && got == "one\n" {
				written = append(written, "two\n"...)
				put(operation.JobExited)
			}
			return nil
		})
		return got, err
	}
	if got, err := read(api.JobLogsQuery{}); got != "one\n" || err != nil {
		t.Errorf("so far it is %q (%v)", got, err)
	}
	if got, err := read(api.JobLogsQuery{Follow: true}); got != "one\ntwo\n" || err != nil {
		t.Errorf("to its end it is %q (%v)", got, err)
	}
	if _, err := read(api.JobLogsQuery{Stream: "stdin"}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("of another stream: %v", err)
	}
}
