package operation

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/page"
)

// JobState is where a job stands. The final ones never change.
type JobState string

// The states, durable-work.md section 6.
const (
	JobReserved JobState = "reserved"        // its directory is made, or it waits for its turn: nothing was started
	JobStarting JobState = "starting"        // a supervisor lives and its gate is shut
	JobRunning  JobState = "running"         // the started record is durable: the command may have run
	JobExited   JobState = "exited"          // final: it ended by itself, with a code or by a signal
	JobKilled   JobState = "killed"          // final: somebody stopped it
	JobTimedOut JobState = "timed_out"       // final: its time was over
	JobFailed   JobState = "failed_to_start" // final: the command is proved not to have run
	JobLost     JobState = "lost"            // final: nobody can know how it ended; its output is kept
)

// LiveJobs are the states that are not final.
var LiveJobs = []JobState{JobReserved, JobStarting, JobRunning}

// Final tells that nothing happens to the job any more.
func (s JobState) Final() bool { return !slices.Contains(LiveJobs, s) }

// Why a job is lost, or was never started.
const (
	SupervisorKilled = "supervisor_killed"
	HostReboot       = "host_reboot"
	RecordMissing    = "record_missing"

	SpawnFailed  = "spawn_failed"       // the system did not start it
	NotRun       = "not_run"            // a daemon died while it was about to start
	ValuesGone   = "values_gone"        // values of variables or text for stdin were held by a daemon that is gone
	StoppedFirst = "stopped_first"      // it was stopped while it waited for its turn
	NoSecret     = "secret_unavailable" // a secret that it asks for has no value, or is not for it any more
	NotAllowed   = "not_allowed"        // the policy or the sandbox refused it when its turn came
)

// Stdin says what a command reads.
type Stdin string

// The kinds of standard input.
const (
	StdinNone Stdin = "none" // end of file at once
	StdinText Stdin = "text" // a given text
	StdinOpen Stdin = "open" // what is written to it later
)

// Outside says what is known of the effects that a command had outside of its sandbox.
type Outside string

// What is known: nothing that has ended is unknown but a job that is lost and was not contained.
const (
	OutsideUnknown  Outside = "unknown"
	OutsideResolved Outside = "resolved"
)

// JobCommand is what a job runs, without values of variables and text for stdin.
type JobCommand struct {
	Argv    []string      `json:"argv,omitempty"` // or Shell
	Shell   string        `json:"shell,omitempty"`
	Dir     string        `json:"cwd"`
	Env     []string      `json:"env,omitempty"`     // names that the call set
	Secrets []string      `json:"secrets,omitempty"` // names
	Stdin   Stdin         `json:"stdin"`
	Level   string        `json:"sandbox,omitempty"` // that the call asked for
	Timeout time.Duration `json:"timeout"`
}

// String is the command as people read it.
func (c JobCommand) String() string {
	if c.Shell != "" {
		return c.Shell
	}
	return strings.Join(c.Argv, " ")
}

// HasValues tells that it needs values which are stored nowhere.
func (c JobCommand) HasValues() bool { return len(c.Env) > 0 || c.Stdin == StdinText }

// JobRef names one attempt of a job; each has a directory of its own.
type JobRef struct {
	ID      string `json:"job_id"`
	Attempt int    `json:"attempt"`
}

// Job is one run of one command.
type Job struct {
	JobRef
	By        Name            `json:"operation"` // that started it; its namespace is the principal
	Project   string          `json:"project_id"`
	Session   string          `json:"remote_session_id,omitempty"`
	Workspace string          `json:"workspace_id,omitempty"` // in which it runs; "" the project itself
	Of        string          `json:"of,omitempty"`           // the candidate that it produces or validates, or the audit that it is
	Label     string          `json:"name,omitempty"`
	Command   JobCommand      `json:"command"`
	Frozen    string          `json:"frozen"`            // digest of what was decided about
	Sandbox   json.RawMessage `json:"sandbox,omitempty"` // what contains it; the business of whoever starts it
	Contained bool            `json:"contained"`
	State     JobState        `json:"state"`
	Queued    bool            `json:"queued,omitempty"` // it waited, or waits, for its turn
	Reason    string          `json:"reason,omitempty"`
	Text      string          `json:"text,omitempty"` // what else is known about the reason
	Code      *int            `json:"exit_code"`      // nil: none is known
	Signal    string          `json:"signal,omitempty"`
	Stopped   string          `json:"stopped_by,omitempty"` // the operation that stopped it
	Outside   Outside         `json:"external_outcome,omitempty"`
	Reserved  time.Time       `json:"reserved_at"`
	Started   time.Time       `json:"started_at,omitzero"`
	Ended     time.Time       `json:"ended_at,omitzero"`
	Cleared   time.Time       `json:"output_cleared_at,omitzero"` // since then what it wrote is not kept any more
	Seq       uint64          `json:"-"`                          // order of reservation, given by the store at the first put
}

// JobReader reads the jobs. It is part of the transaction port that package store joins.
type JobReader interface {
	// JobByID finds one. NotFound job-unknown.
	JobByID(ctx context.Context, p JobByID) (Job, error)
	// Jobs is one page, the newest first. A page that is shorter than the limit is the last one.
	Jobs(ctx context.Context, p ListJobs) ([]Job, error)
}

// JobStore reads and changes the jobs.
type JobStore interface {
	JobReader
	// PutJob writes a job whole, new or in place of the one with its id. Conflict job-final when the stored one has ended
	// otherwise.
	PutJob(ctx context.Context, p PutJob) error
}

// JobByID names one job.
type JobByID struct{ ID string }

// PutJob carries the job to write.
type PutJob struct{ Job Job }

// MaxJobPage bounds one page of Jobs.
const MaxJobPage = 200

// ListJobs asks for the jobs that fit every condition that is set.
type ListJobs struct {
	Principal string // "" every one
	Session   string
	Project   string
	Operation string // the id of the operation that started it
	Live      bool   // only those that have not ended
	Before    uint64 // Seq of the last job of the page before; 0 begins with the newest
	Limit     int    // 0 and everything above MaxJobPage is MaxJobPage
}

// PageLimit is the number of jobs that the page may hold.
func (p ListJobs) PageLimit() int {
	if p.Limit < 1 || p.Limit > MaxJobPage {
		return MaxJobPage
	}
	return p.Limit
}

// Fits says whether a job is one of those that are asked for, apart from the page.
func (p ListJobs) Fits(j Job) bool {
	return (p.Principal == "" || j.By.Namespace == p.Principal) && (p.Session == "" || j.Session == p.Session) &&
		(p.Project == "" || j.Project == p.Project) && (p.Operation == "" || j.By.ID == p.Operation) && (!p.Live || !j.State.Final())
}

// AllJobs reads every job that fits, the newest first.
func AllJobs(ctx context.Context, r JobReader, p ListJobs) ([]Job, error) {
	return page.All(p.PageLimit(), func(last *Job) ([]Job, error) {
		if last != nil {
			p.Before = last.Seq
		}
		return r.Jobs(ctx, p)
	})
}

// UnknownJob is the error for an id that no job has.
func UnknownJob(id string) *fault.Error {
	return fault.New(fault.NotFound, "job-unknown").Saying("there is no job %s", id).Hinting("`mcpx job list` shows the jobs")
}

// JobIsFinal is the error for a job that may not be changed any more.
func JobIsFinal(id string) *fault.Error {
	return fault.New(fault.Conflict, "job-final").Saying("the job %s has ended, and what has ended does not change", id).
		Hinting("`mcpx job show %s` says how it ended", id)
}
