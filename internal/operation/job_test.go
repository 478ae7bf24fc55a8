package operation

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestJudgeJob(t *testing.T) {
	started, code3 := &JobStarted{At: time.Unix(5, 0), Pid: 7}, &JobExit{At: time.Unix(9, 0), State: JobExited, Code: 3}
	for name, c := range map[string]struct {
		e      JobEvidence
		state  JobState
		reason string
	}{
		"nothing was started":                   {JobEvidence{}, JobReserved, ""},
		"a supervisor, its gate shut":           {JobEvidence{Held: true}, JobStarting, ""},
		"it runs (C6)":                          {JobEvidence{Held: true, Started: started}, JobRunning, ""},
		"it ended (C7)":                         {JobEvidence{Started: started, Exit: code3}, JobExited, ""},
		"it ended, something of it goes on":     {JobEvidence{Held: true, Started: started, Exit: code3}, JobExited, ""},
		"no word of the end (C8)":               {JobEvidence{Started: started}, JobLost, SupervisorKilled},
		"no word, and another boot":             {JobEvidence{Started: started, Rebooted: true}, JobLost, HostReboot},
		"it ended before the reboot":            {JobEvidence{Started: started, Rebooted: true, Exit: code3}, JobExited, ""},
		"not started before the reboot":         {JobEvidence{Rebooted: true}, JobReserved, ""},
		"no directory (C9)":                     {JobEvidence{Gone: true}, JobLost, RecordMissing},
		"the exec failed after the record":      {JobEvidence{Started: started, Exit: &JobExit{State: JobFailed, Reason: SpawnFailed}}, JobFailed, SpawnFailed},
		"the supervisor gave up before a start": {JobEvidence{Exit: &JobExit{State: JobFailed, Reason: SpawnFailed}}, JobFailed, SpawnFailed},
	} {
		if state, reason := c.e.Judge(); state != c.state || reason != c.reason {
			t.Errorf("%s: %s %s, want %s %s", name, state, reason, c.state, c.reason)
		}
	}
}

func TestConclude(t *testing.T) {
	now, started := time.Unix(100, 0), &JobStarted{At: time.Unix(5, 0)}
	lost := Job{State: JobRunning}.Conclude(JobEvidence{Started: started}, now)
	if lost.State != JobLost || lost.Code != nil || lost.Outside != OutsideUnknown || !lost.Ended.Equal(now) || !lost.Started.Equal(started.At) {
		t.Errorf("a lost one: %+v", lost)
	}
	if inside := (Job{Contained: true}).Conclude(JobEvidence{Started: started}, now); inside.Outside != "" {
		t.Errorf("a contained one did nothing outside: %+v", inside)
	}
	ended := Job{}.Conclude(JobEvidence{Started: started, Exit: &JobExit{At: time.Unix(9, 0), State: JobExited, Code: 0}}, now)
	if ended.Code == nil || *ended.Code != 0 || !ended.Ended.Equal(time.Unix(9, 0)) || ended.Outside != "" {
		t.Errorf("one that ended: %+v", ended)
	}
	killed := Job{}.Conclude(JobEvidence{Started: started, Exit: &JobExit{State: JobKilled, Code: -1, Signal: "SIGKILL", By: "op-stop"}}, now)
	if killed.Code != nil || killed.Signal != "SIGKILL" || killed.Stopped != "op-stop" {
		t.Errorf("a killed one: %+v", killed)
	}
	failed := Job{}.Conclude(JobEvidence{Started: started, Exit: &JobExit{State: JobFailed, Reason: SpawnFailed, Text: "no such file"}}, now)
	if !failed.Started.IsZero() || failed.Code != nil || failed.Text != "no such file" {
		t.Errorf("one that did not run has no start: %+v", failed)
	}
}

func jobOf(id, principal, project string) Job {
	return Job{JobRef: JobRef{ID: id}, By: Name{Namespace: principal}, Project: project}
}

func TestNextJobs(t *testing.T) {
	a, b := jobOf("a", "p1", "x"), jobOf("b", "p1", "x")
	other, guest := jobOf("c", "p2", "y"), jobOf("d", "p2", "x")
	for name, c := range map[string]struct {
		waiting, running []Job
		limit            int
		want             []string
	}{
		"all":                                {[]Job{a, b}, nil, 8, []string{"a", "b"}},
		"as many as there are places":        {[]Job{a, b}, nil, 1, []string{"a"}},
		"another project does not wait":      {[]Job{a, b, other}, []Job{jobOf("r", "p1", "z")}, 1, []string{"c"}},
		"in a project nobody overtakes":      {[]Job{a, guest}, []Job{jobOf("r", "p1", "z")}, 1, nil},
		"a principal in all of its projects": {[]Job{a, jobOf("e", "p1", "y")}, nil, 1, []string{"a"}},
		"nothing waits":                      {nil, []Job{a}, 8, nil},
	} {
		var got []string
		for _, j := range NextJobs(c.waiting, c.running, c.limit) {
			got = append(got, j.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestQueue: whatever comes and ends in any order, no more than the limit run for a principal or a project, each project
// starts in the order of its queue, and nothing waits that could run.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 4).Draw(rt, "limit")
		var waiting, running []Job
		last := map[string]int{}
		for n := range rapid.IntRange(1, 80).Draw(rt, "steps") {
			if len(running) > 0 && rapid.Bool().Draw(rt, "one ends") {
				i := rapid.IntRange(0, len(running)-1).Draw(rt, "which")
				running = slices.Delete(running, i, i+1)
			} else {
				j := jobOf("", rapid.SampledFrom([]string{"p", "q"}).Draw(rt, "principal"), rapid.SampledFrom([]string{"x", "y", "z"}).Draw(rt, "project"))
				j.Seq = uint64(n + 1)
				waiting = append(waiting, j)
			}
			for _, j := range NextJobs(waiting, running, limit) {
				if int(j.Seq) < last[j.Project] {
					rt.Fatalf("%d of %s starts after %d", j.Seq, j.Project, last[j.Project])
				}
				last[j.Project] = int(j.Seq)
				running = append(running, j)
				waiting = slices.DeleteFunc(waiting, func(w Job) bool { return w.Seq == j.Seq })
			}
			count := map[string]int{}
			for _, j := range running {
				count["principal "+j.By.Namespace]++
				count["project "+j.Project]++
			}
			for who, n := range count {
				if n > limit {
					rt.Fatalf("%d jobs of %s run, the limit is %d", n, who, limit)
				}
			}
			for _, project := range []string{"x", "y", "z"} {
				i := slices.IndexFunc(waiting, func(w Job) bool { return w.Project == project })
				if i >= 0 && count["project "+project] < limit && count["principal "+waiting[i].By.Namespace] < limit {
					rt.Fatalf("%d waits although there is a place", waiting[i].Seq)
				}
			}
		}
	})
}
