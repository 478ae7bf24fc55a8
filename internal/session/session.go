package session

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mcpx/internal/fault"
	"mcpx/internal/lazyregexp"
	"mcpx/internal/operation"
)

// State of a session. There is no idle state.
type State string

// The states. Closed is final.
const (
	Open   State = "open"
	Closed State = "closed"
)

const (
	// MaxLabel bounds a label in characters (runtime.md section 4.1).
	MaxLabel = 120

	// UseEvery is how far last_used_at may lie behind: writing it for each call would make every read a write.
	UseEvery = time.Minute

	// maxShown bounds what of a wrong value a message repeats, in bytes.
	maxShown = 64
)

// principalForm bounds what names a principal: it is printed, and stands in keys.
var principalForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$`)

// Session is a durable remote session: it survives client, transport and daemon.
type Session struct {
	ID        string    `json:"remote_session_id"` // rs_
	Principal string    `json:"principal"`         // whose it is
	Project   string    `json:"project_id"`        // bound to it by identity
	Label     string    `json:"label,omitempty"`
	State     State     `json:"state"`
	Created   time.Time `json:"created_at"`
	Used      time.Time `json:"last_used_at"` // at most UseEvery behind
	Closed    time.Time `json:"closed_at,omitzero"`
	Turn      int       `json:"turn"`             // of the activity; 0: nothing was said yet
	Intent    string    `json:"intent,omitempty"` // that the turn began with
	// Use is the order of the last use, given by the store whenever Used changes. 0: never stored.
	Use uint64 `json:"use"`
}

// OpenRequest asks for a session.
type OpenRequest struct {
	ID        string
	Principal string
	Role      Role // of the principal on the project
	Project   Project
	Label     string
	Now       time.Time
}

// OpenSession makes a session. PROJECT_UNKNOWN without a role on the project or when it is unregistered, PROJECT_MOVED,
// ARGUMENT_INVALID for the label.
func OpenSession(in OpenRequest) (Session, error) {
	if !in.Role.May(ActRead) {
		return Session{}, UnknownProject(in.Project.Name)
	}
	if err := in.Project.Usable(); err != nil {
		return Session{}, err
	}
	if n := utf8.RuneCountInString(in.Label); n > MaxLabel || !plainText(in.Label) {
		return Session{}, operation.Refuse(operation.ArgumentInvalid, "label has %d characters; at most %d without line breaks and control characters are allowed", n, MaxLabel).
			With("argument", "label").With("limit", MaxLabel)
	}
	return Session{ID: in.ID, Principal: in.Principal, Project: in.Project.ID, Label: in.Label, State: Open, Created: in.Now, Used: in.Now}, nil
}

// CheckRequest asks whether a call that names a session may run.
type CheckRequest struct {
	Session Session
	Role    Role // of the caller in the session, see RoleIn
	Act     Act
}

// Check judges a call. SESSION_NOT_FOUND without a role: a foreign session answers like one that is not there;
// ROLE_DENIED; SESSION_CLOSED for everything but reads.
func Check(in CheckRequest) error {
	switch {
	case !in.Role.May(ActRead):
		return NotFound(in.Session.ID)
	case !in.Role.May(in.Act):
		return roleDenied("in this session", in.Role, in.Act)
	case in.Session.State == Closed && in.Act != ActRead:
		return operation.Refuse(operation.SessionClosed, "this session is closed: it answers reads, and nothing can be changed in it").
			Retrying(fault.Never).With("closed_at", in.Session.Closed.UTC().Format(time.RFC3339))
	}
	return nil
}

func roleDenied(where string, role Role, act Act) *operation.Refusal {
	return operation.Refuse(operation.RoleDenied, "your role %s is %s, which does not permit this", where, role).
		Retrying(fault.Never).With("role", role).With("needs", Needs(act))
}

// NotFound is the refusal of an id that no session has, or a foreign one.
func NotFound(id string) *operation.Refusal {
	return operation.Refuse(operation.SessionNotFound, "there is no session %s", quoted(id))
}

// Touch notes that a call named the session. False: it is noted already, nothing has to be written.
func Touch(s Session, now time.Time) (Session, bool) {
	if now.Sub(s.Used) < UseEvery {
		return s, false
	}
	s.Used = now
	return s, true
}

// CloseRequest asks for the end of a session.
type CloseRequest struct {
	Session Session
	Jobs    []string // ids of its jobs that run or wait
	Now     time.Time
}

// CloseSession closes a session; false when it was closed before. JOBS_RUNNING names the jobs. Pending approvals of the
// session are revoked by the caller, in the same transaction.
func CloseSession(in CloseRequest) (Session, bool, error) {
	s := in.Session
	if s.State == Closed {
		return s, false, nil
	}
	if len(in.Jobs) > 0 {
		return s, false, operation.Refuse(JobsRunning, "jobs of this session are running: stop them or wait for their end").Retrying(fault.AfterWait).With("jobs", in.Jobs)
	}
	s.State, s.Closed = Closed, in.Now
	return s, true, nil
}

// quoted shows a value that a caller sent, as one short line.
func quoted(s string) string {
	if len(s) > maxShown {
		s = cut(s, maxShown) + "…"
	}
	return strconv.Quote(s)
}

// plainText says whether a text is one line without control characters.
func plainText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// cut shortens a text to at most n bytes, at the boundary of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
