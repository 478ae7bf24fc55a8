package api

import (
	"time"

	"mcpx/internal/operation"
	"mcpx/internal/session"
)

// Project is a registered directory, with what is at its path now.
type Project struct {
	session.Project
	Unread string `json:"unread,omitempty"` // why nobody can tell what is at the path now
	Open   int    `json:"open_sessions"`
	// Trust says whether a person has agreed to what its repository can start; "" nobody can tell now.
	Trust session.TrustState `json:"trust,omitempty"`
	// Grants are the roles of others on it; only of one that is shown.
	Grants []session.Grant `json:"grants,omitempty"`
}

// ProjectsQuery selects projects.
type ProjectsQuery struct {
	All bool `json:"-" query:"all"` // the unregistered ones too
}

// ProjectPage is a list of projects in order of registration.
type ProjectPage struct {
	Projects []Project `json:"projects"`
	Next     []string  `json:"next"` // commands
}

// ProjectRef names one project: its name, its id, or its path.
type ProjectRef struct {
	Project string `json:"-" path:"project"`
}

// AddProject registers a directory.
type AddProject struct {
	Path     string             `json:"path"`               // absolute; links in it are kept
	Name     string             `json:"name,omitempty"`     // "" is made from the path
	Identity session.Recognised `json:"identity,omitempty"` // "" physical
	Overlap  bool               `json:"overlap,omitempty"`  // it may lie in another project, hold one, or be one
}

// RebindProject says which directory a project is from now on.
type RebindProject struct {
	Project  string             `json:"-" path:"project"`
	Path     string             `json:"path,omitempty"`     // absolute; "" is where it was
	Identity session.Recognised `json:"identity,omitempty"` // "" as before
	Overlap  bool               `json:"overlap,omitempty"`
}

// ProjectChange is what became of a project.
type ProjectChange struct {
	State   string   `json:"state"` // added, restored, already_added, rebound, already_bound, removed
	Already bool     `json:"already,omitempty"`
	Project Project  `json:"project"`
	Text    string   `json:"text"`
	Next    []string `json:"next"` // commands

	Operation string `json:"operation,omitempty"`
}

// GrantProject gives a principal a role on a project, or takes it away.
type GrantProject struct {
	Project   string       `json:"-" path:"project"`
	Principal string       `json:"principal"`
	Role      session.Role `json:"role,omitempty"`   // owner, editor, viewer
	Revoke    bool         `json:"revoke,omitempty"` // take the role away
}

// GrantSession gives a principal a role in a session, or takes it away.
type GrantSession struct {
	Session   string       `json:"-" path:"session"`
	Principal string       `json:"principal"`
	Role      session.Role `json:"role,omitempty"`   // editor, approver, viewer
	Revoke    bool         `json:"revoke,omitempty"` // take the role away
}

// Granted is what became of a role.
type Granted struct {
	State     string       `json:"state"` // granted, already_granted, revoked, already_revoked
	Already   bool         `json:"already,omitempty"`
	About     string       `json:"about"` // id of the project or session
	Principal string       `json:"principal"`
	Role      session.Role `json:"role,omitempty"` // "" none
	Text      string       `json:"text"`

	Operation string `json:"operation,omitempty"`
}

// RemoteSession is a durable session at /mcp.
type RemoteSession struct {
	session.Session
	Name string `json:"project"` // of its project
	// Grants are the roles of others in it, Plans its work plans; only of one that is shown.
	Grants []session.Grant    `json:"grants,omitempty"`
	Plans  []session.WorkPlan `json:"plans,omitempty"`
}

// RemoteSessionsQuery selects sessions of everybody.
type RemoteSessionsQuery struct {
	State  string `json:"-" query:"state"` // open, closed, all; "" open
	Query  string `json:"-" query:"query"` // in the label, the name of the project or the id
	Cursor string `json:"-" query:"cursor"`
	Limit  int    `json:"-" query:"limit"` // 0 and everything above 200 is 200
}

// RemoteSessionPage is a list of sessions, the last used first.
type RemoteSessionPage struct {
	Sessions []RemoteSession `json:"sessions"`
	Cursor   string          `json:"next_cursor,omitempty"` // "" it is the last page
	Next     []string        `json:"next"`                  // commands
}

// RemoteSessionRef names one session: its id or a beginning of it.
type RemoteSessionRef struct {
	Session string `json:"-" path:"session"`
}

// RemoteSessionChange is what became of a session.
type RemoteSessionChange struct {
	State   string        `json:"state"` // closed, already_closed
	Already bool          `json:"already,omitempty"`
	Session RemoteSession `json:"session"`
	Text    string        `json:"text"`

	Operation string `json:"operation,omitempty"`
}

// HandOver asks for a token that lets somebody into a session once.
type HandOver struct {
	Session string       `json:"-" path:"session"`
	Role    session.Role `json:"role,omitempty"`  // editor, approver, viewer; "" viewer
	Seconds int          `json:"ttl_s,omitempty"` // 60 to 86400; 0 is 600
}

// HandedOver is a token that lets somebody into a session once.
type HandedOver struct {
	ID      string       `json:"handoff_id"`
	Session string       `json:"remote_session_id"`
	Token   string       `json:"token"`
	Role    session.Role `json:"role"`
	Expires time.Time    `json:"expires_at"`

	Operation string `json:"operation,omitempty"`
}

// OperationsQuery selects operations at /mcp, the newest first.
type OperationsQuery struct {
	Principal string `json:"-" query:"principal"` // "" everybody's
	Session   string `json:"-" query:"session"`   // whole id; "" every one
	State     string `json:"-" query:"state"`     // one state; "" those that have no known end
	All       bool   `json:"-" query:"all"`       // every state
	Before    int    `json:"-" query:"before"`    // OperationPage.Before of the page before
	Limit     int    `json:"-" query:"limit"`     // 0 means MaxRows
}

// OperationPage is a list of operations, the newest first.
type OperationPage struct {
	Operations []operation.Operation `json:"operations"`
	Before     int                   `json:"before,omitempty"` // where the next page goes on; absent at the last one
	Next       []string              `json:"next"`             // commands
}

// OperationRef names one operation at /mcp.
type OperationRef struct {
	Operation string `json:"-" path:"operation"`  // whole id
	Principal string `json:"-" query:"principal"` // who called; "" the owner
}

// OperationView is one operation with what can follow.
type OperationView struct {
	operation.Operation
	Progress *operation.Progress `json:"progress,omitempty"` // of an effect on many files that goes on
	Next     []string            `json:"next"`               // commands
}

// ResolveOperation says how an operation ended whose outcome nobody knows, or gives up one that waits for a person.
type ResolveOperation struct {
	Operation string            `json:"-" path:"operation"` // as of OperationRef
	Principal string            `json:"-" query:"principal"`
	Verdict   operation.Verdict `json:"verdict"` // done, not_done, abandon
}

// JobsQuery selects jobs, the newest first.
type JobsQuery struct {
	Session string `json:"-" query:"session"` // whole id; "" every one
	All     bool   `json:"-" query:"all"`     // those that have ended, too
	Before  int    `json:"-" query:"before"`  // JobPage.Before of the page before
	Limit   int    `json:"-" query:"limit"`   // 0 means MaxRows
}

// JobPage is a list of jobs, the newest first.
type JobPage struct {
	Jobs   []operation.Job `json:"jobs"`
	Before int             `json:"before,omitempty"` // where the next page goes on; absent at the last one
	Next   []string        `json:"next"`             // commands
}

// JobRef names one job.
type JobRef struct {
	Job string `json:"-" path:"job"` // whole id
}

// JobLogsQuery asks for what a job wrote.
type JobLogsQuery struct {
	Job    string `json:"-" path:"job"`     // whole id
	Stream string `json:"-" query:"stream"` // stdout or stderr; "" stdout
	Follow bool   `json:"-" query:"follow"` // stay until the job has ended
}

// JobChunk is a part of a stream. Where its offset is not the end of the one before, bytes in between are not kept.
type JobChunk struct {
	Offset int64  `json:"offset"`
	Data   []byte `json:"data"` // base64; secrets are not in it
}

// JobView is one job with the end of each stream. Secrets are not in what is kept of them.
type JobView struct {
	operation.Job
	Stdout *JobStream `json:"stdout,omitempty"` // absent: it never ran, or its output is not kept any more
	Stderr *JobStream `json:"stderr,omitempty"`
	Next   []string   `json:"next"` // commands
}

// StopJob ends a job.
type StopJob struct {
	Job    string `json:"-" path:"job"`      // whole id
	Signal string `json:"signal,omitempty"`  // TERM, INT, HUP, QUIT or KILL; "" TERM
	Grace  *int   `json:"grace_s,omitempty"` // seconds after which it is killed, 0 to 60; absent 5
}

// JobStopped is how a job stands after it was stopped. One that had ended before stands as it did.
type JobStopped struct {
	Job       string             `json:"job_id"`
	State     operation.JobState `json:"state"`
	Code      *int               `json:"exit_code"` // null: none is known
	Signal    string             `json:"signal,omitempty"`
	Survivors []int              `json:"survivors"` // processes that it started and that go on
	Text      string             `json:"text"`
	Next      []string           `json:"next"` // commands

	Operation string `json:"operation,omitempty"`
}

// JobStream is the end of what a job wrote to one stream.
type JobStream struct {
	Text    string `json:"text"`    // bytes that are no UTF-8 are shown as U+FFFD
	Offset  int64  `json:"offset"`  // of its first byte
	Bytes   int64  `json:"bytes"`   // written in all
	Dropped int64  `json:"dropped"` // of these not kept
}
