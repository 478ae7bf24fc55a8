package operation

import (
	"encoding/json"
	"fmt"

	"mcpx/internal/fault"
)

// Code names an error of the tools at /mcp. docs/runtime.md explains each.
type Code string

// The codes of durable-work.md section 4 and runtime.md section 3.2 that more than one tool has.
const (
	ArgumentInvalid     Code = "ARGUMENT_INVALID"
	OperationIDRequired Code = "OPERATION_ID_REQUIRED"
	OperationIDReused   Code = "OPERATION_ID_REUSED"
	OperationInProgress Code = "OPERATION_IN_PROGRESS"
	OperationUnknown    Code = "OPERATION_UNKNOWN"
	OutcomeUnknown      Code = "OUTCOME_UNKNOWN"
	Contested           Code = "CONTESTED"
	PossibleDuplicate   Code = "POSSIBLE_DUPLICATE"
	NotFound            Code = "NOT_FOUND"
	Exists              Code = "EXISTS"
	ProjectRequired     Code = "PROJECT_REQUIRED"
	ProjectUnknown      Code = "PROJECT_UNKNOWN"
	ProjectMoved        Code = "PROJECT_MOVED"
	SessionNotFound     Code = "SESSION_NOT_FOUND"
	SessionClosed       Code = "SESSION_CLOSED"
	RoleDenied          Code = "ROLE_DENIED"
	ToolDisabled        Code = "TOOL_DISABLED"
	LimitExceeded       Code = "LIMIT_EXCEEDED"
	AuditUnavailable    Code = "AUDIT_UNAVAILABLE"
	StoreDegraded       Code = "STORE_DEGRADED"
	ResultExpired       Code = "RESULT_EXPIRED"
	InternalError       Code = "INTERNAL"
)

// Refusal is an error of a tool, for a model: what is wrong, what may be repeated, what comes next.
type Refusal struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	Retry   fault.Retry    `json:"retry"`
	Details map[string]any `json:"details,omitempty"`
	Next    []Next         `json:"-"` // the envelope has them
	Outcome Outcome        `json:"-"` // "" is refused: nothing was begun
}

// Next is a call that may follow.
type Next struct {
	Tool string         `json:"tool"`
	Args map[string]any `json:"args"`
	Why  string         `json:"why"`
}

// Outcome is the status of an answer.
type Outcome string

// The outcomes of runtime.md section 3.2.
const (
	OutcomeSucceeded  Outcome = "succeeded"
	OutcomeInProgress Outcome = "in_progress"
	OutcomeFailed     Outcome = "failed"
	OutcomeRefused    Outcome = "refused"
	OutcomeConflict   Outcome = "conflict"
	OutcomeUnclear    Outcome = "unknown"
	OutcomeWaiting    Outcome = "waiting_approval"
)

// Refuse starts a refusal that is cured by correcting the call.
func Refuse(code Code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...), Retry: fault.AfterFix}
}

// Retrying sets the retry advice.
func (r *Refusal) Retrying(how fault.Retry) *Refusal { r.Retry = how; return r }

// With adds one detail.
func (r *Refusal) With(name string, value any) *Refusal {
	if r.Details == nil {
		r.Details = map[string]any{}
	}
	r.Details[name] = value
	return r
}

// Then adds a call that may follow.
func (r *Refusal) Then(n Next) *Refusal { r.Next = append(r.Next, n); return r }

// Ending sets the status of the answer.
func (r *Refusal) Ending(o Outcome) *Refusal { r.Outcome = o; return r }

// Error is the code and the message.
func (r *Refusal) Error() string { return string(r.Code) + ": " + r.Message }

// Answer is what a tool answers (durable-work.md section 4).
type Answer struct {
	OK        bool            `json:"ok"`
	Status    Outcome         `json:"status"`
	Operation *Standing       `json:"operation,omitempty"`
	Handle    string          `json:"handle,omitempty"` // of the workspace, as it is now
	Data      json.RawMessage `json:"data,omitempty"`
	Waiting   *Waiting        `json:"waiting,omitempty"`
	Warnings  []string        `json:"warnings,omitempty"`
	Next      []Next          `json:"next,omitempty"`
	Spilled   *Spilled        `json:"result_ref,omitempty"`
	Refusal   *Refusal        `json:"error,omitempty"`
	// Upstream is the result of another server's tool. It is passed on as it is, and the rest of the answer beside it.
	Upstream json.RawMessage `json:"upstream,omitempty"`
	Parts    []Part          `json:"kept_apart,omitempty"` // of Upstream
	// Images stand beside the answer of a call that reads them. They are no part of any record.
	Images []Image `json:"-"`
	// Form is what a client may ask its user while the answer waits; nil: nothing.
	Form *Form `json:"-"`
}

// Form is a question to the user of a client.
type Form struct {
	Message string
	State   string // comes back with what the user said
}

// Image is a picture that a model looks at.
type Image struct {
	Media string
	Data  []byte
}

// Part refers to a piece of another server's result that was too large; read_result gives every byte of it.
type Part struct {
	At     string `json:"at"` // content/0, structuredContent; "" the whole result
	Ref    string `json:"ref"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
	Media  string `json:"media"`
}

// Standing is where an operation stands.
type Standing struct {
	ID        string `json:"id"`
	State     State  `json:"state"`
	Hold      Hold   `json:"hold,omitempty"`
	Replayed  bool   `json:"replayed,omitempty"`
	Recovered bool   `json:"recovered,omitempty"`
	Attempts  int    `json:"attempts,omitempty"`
	Claimed   string `json:"claimed_at,omitempty"`
	Finished  string `json:"finished_at,omitempty"`
}

// Waiting says what a held operation waits for.
type Waiting struct {
	For      Hold     `json:"for"`
	Approval string   `json:"approval_id"`
	Expires  string   `json:"expires_at"`
	Channels []string `json:"channels"`
}

// Spilled refers to a result that was too large for an answer; read_result gives every byte of it.
type Spilled struct {
	Ref    string `json:"ref"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
	Media  string `json:"media"`
	Head   string `json:"head"`
	Tail   string `json:"tail"`
}
