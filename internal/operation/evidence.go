package operation

import "time"

// JobEvidence is what the directory of an attempt says. The lock is looked at first: when it is free, nothing that comes
// after it in time can be missing.
type JobEvidence struct {
	Gone     bool        // there is no directory
	Held     bool        // a supervisor lives
	Version  string      // of the supervisor; "" it has not begun
	Started  *JobStarted // nil: the command has not run
	Rebooted bool        // this is another boot of the machine than the one it was started in
	Exit     *JobExit    // nil: the end was not written

	Survivors []int // without a supervisor: processes of the command that go on
}

// GoesOn says that something that the command has started lives on behind it.
func (e JobEvidence) GoesOn() bool {
	return len(e.Survivors) > 0 || e.Exit != nil && e.Exit.Descendants
}

// JobStarted is the record that is durable before the command may run.
type JobStarted struct {
	At  time.Time `json:"at"`
	Pid int       `json:"pid"`
}

// JobExit is how a command ended, as its supervisor saw it.
type JobExit struct {
	At          time.Time `json:"at"`
	State       JobState  `json:"state"`
	Code        int       `json:"code"`             // -1 with a signal
	Signal      string    `json:"signal,omitempty"` // name
	By          string    `json:"by,omitempty"`     // who stopped it
	Reason      string    `json:"reason,omitempty"`
	Text        string    `json:"text,omitempty"`
	Descendants bool      `json:"descendants_alive,omitempty"` // something that it started went on
}

// Judge says where the attempt stands. JobReserved means that nothing was started: before anybody acts on it, the attempt
// is fenced off, or a supervisor that comes late would start it after all.
func (e JobEvidence) Judge() (state JobState, reason string) {
	switch {
	case e.Exit != nil:
		return e.Exit.State, e.Exit.Reason
	case e.Gone:
		return JobLost, RecordMissing
	case e.Held && e.Started != nil:
		return JobRunning, ""
	case e.Held:
		return JobStarting, ""
	case e.Started == nil:
		return JobReserved, ""
	case e.Rebooted:
		return JobLost, HostReboot
	}
	return JobLost, SupervisorKilled
}

// Conclude is the job as the evidence has it. now is used where the evidence has no time.
func (j Job) Conclude(e JobEvidence, now time.Time) Job {
	j.State, j.Reason = e.Judge()
	if e.Started != nil {
		j.Started = e.Started.At
	}
	switch j.State {
	case JobExited, JobKilled, JobTimedOut:
		j.Ended, j.Stopped, j.Text, j.Signal = e.Exit.At, e.Exit.By, e.Exit.Text, e.Exit.Signal
		if j.Signal == "" {
			code := e.Exit.Code
			j.Code = &code
		}
	case JobFailed:
		j.Ended, j.Text, j.Started = e.Exit.At, e.Exit.Text, time.Time{}
	case JobLost:
		j.Ended = now
		if !j.Contained {
			j.Outside = OutsideUnknown
		}
	case JobReserved, JobStarting, JobRunning:
	}
	return j
}

// Limits of jobs, durable-work.md section 3.
const (
	UsualJobs = 8    // that run at once, for each principal and each project
	MaxQueue  = 1000 // that wait
)

// NextJobs are the jobs that may start now. waiting is sorted by their order; in a project nobody overtakes.
func NextJobs(waiting, running []Job, limit int) []Job {
	principals, projects := map[string]int{}, map[string]int{}
	for _, j := range running {
		principals[j.By.Namespace]++
		projects[j.Project]++
	}
	blocked := map[string]bool{}
	var next []Job
	for _, j := range waiting {
		if blocked[j.Project] {
			continue
		}
		if principals[j.By.Namespace] >= limit || projects[j.Project] >= limit {
			blocked[j.Project] = true
			continue
		}
		principals[j.By.Namespace]++
		projects[j.Project]++
		next = append(next, j)
	}
	return next
}
