package storetest

import (
	"fmt"
	"testing"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
)

// jobCases has one case for each method of the ports of the jobs.
var jobCases = map[string]func(*testing.T, Pair){
	"JobByID": jobByID,
	"Jobs":    jobs,
	"PutJob":  putJob,
}

func jobOf(id string, state operation.JobState) operation.Job {
	code := 3
	return operation.Job{
		JobRef: operation.JobRef{ID: id, Attempt: 2}, By: operation.Name{Namespace: "owner", ID: "op-" + id}, Project: "proj_1", Session: "rs_1", Label: "tests",
		Command: operation.JobCommand{Argv: []string{"go", "test"}, Dir: "/p", Env: []string{"CI"}, Stdin: operation.StdinNone, Timeout: time.Minute},
		Frozen:  "aa", Sandbox: []byte(`{"wanted":"workspace"}`), Contained: true, State: state, Queued: true, Code: &code, Outside: operation.OutsideUnknown,
		Reserved: uneven, Started: uneven.Add(time.Second), Ended: uneven.Add(time.Minute),
	}
}

func putJobs(t *testing.T, p Pair, all ...operation.Job) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, j := range all {
			if err := tx.PutJob(t.Context(), operation.PutJob{Job: j}); err != nil {
				return err
			}
		}
		return nil
	})
}

func listJobs(t *testing.T, p Pair, l operation.ListJobs) (ids []string) {
	t.Helper()
	for _, j := range read(t, p.Read, func(r store.Reader) ([]operation.Job, error) { return r.Jobs(t.Context(), l) }) {
		ids = append(ids, j.ID)
	}
	return ids
}

func jobByID(t *testing.T, p Pair) {
	want := jobOf("job_1", operation.JobRunning)
	putJobs(t, p, want)
	got := read(t, p.Read, func(r store.Reader) (operation.Job, error) {
		return r.JobByID(t.Context(), operation.JobByID{ID: "job_1"})
	})
	want.Reserved, want.Started, want.Ended, want.Seq = store.CutTime(want.Reserved), store.CutTime(want.Started), store.CutTime(want.Ended), got.Seq
	same(t, "what was put", want, got)
	wantFault(t, p.Read.View(t.Context(), func(r store.Reader) error {
		_, err := r.JobByID(t.Context(), operation.JobByID{ID: "job_2"})
		return err
	}), fault.NotFound, "job-unknown")
}

func jobs(t *testing.T, p Pair) {
	other := jobOf("job_c", operation.JobLost)
	other.By, other.Session, other.Project = operation.Name{Namespace: "guest", ID: "op-job_a"}, "rs_2", "proj_2"
	putJobs(t, p, jobOf("job_a", operation.JobReserved), jobOf("job_b", operation.JobExited), other)
	for _, c := range []struct {
		what string
		ask  operation.ListJobs
		want []string
	}{
		{"all, the newest first", operation.ListJobs{}, []string{"job_c", "job_b", "job_a"}},
		{"of a principal", operation.ListJobs{Principal: "owner"}, []string{"job_b", "job_a"}},
		{"of an operation", operation.ListJobs{Principal: "guest", Operation: "op-job_a"}, []string{"job_c"}},
		{"of an operation in a session", operation.ListJobs{Principal: "owner", Operation: "op-job_a", Session: "rs_2"}, nil},
		{"of a session", operation.ListJobs{Session: "rs_2"}, []string{"job_c"}},
		{"of a project", operation.ListJobs{Project: "proj_1"}, []string{"job_b", "job_a"}},
		{"live", operation.ListJobs{Live: true}, []string{"job_a"}},
		{"live ones of another project", operation.ListJobs{Live: true, Project: "proj_2"}, nil},
	} {
		same(t, c.what, c.want, listJobs(t, p, c.ask))
	}
	first := read(t, p.Read, func(r store.Reader) ([]operation.Job, error) {
		return r.Jobs(t.Context(), operation.ListJobs{Limit: 2})
	})
	putJobs(t, p, jobOf("job_d", operation.JobReserved)) // between pages
	same(t, "the next page", []string{"job_a"}, listJobs(t, p, operation.ListJobs{Before: first[1].Seq}))
	var many []operation.Job
	for i := range operation.MaxJobPage {
		many = append(many, jobOf(fmt.Sprintf("job_x%04d", i), operation.JobRunning))
	}
	putJobs(t, p, many...)
	same(t, "the largest page", operation.MaxJobPage, len(listJobs(t, p, operation.ListJobs{Limit: 1 << 30})))
	same(t, "the largest page of live ones", operation.MaxJobPage, len(listJobs(t, p, operation.ListJobs{Live: true, Limit: 1 << 30})))
}

func putJob(t *testing.T, p Pair) {
	j := jobOf("job_1", operation.JobReserved)
	for _, s := range []operation.JobState{operation.JobReserved, operation.JobStarting, operation.JobRunning, operation.JobLost} {
		j.State = s
		putJobs(t, p, j)
	}
	j.Outside = operation.OutsideResolved // the end stays, what is known about it may grow
	putJobs(t, p, j)
	j.State = operation.JobExited
	wantFault(t, p.Write.Change(t.Context(), func(tx store.Tx) error {
		return tx.PutJob(t.Context(), operation.PutJob{Job: j})
	}), fault.Conflict, "job-final")
	same(t, "it kept its place", []string{"job_1"}, listJobs(t, p, operation.ListJobs{}))
}
