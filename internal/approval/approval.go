package approval

import (
	"context"
	"iter"
	"time"

	"mcpx/internal/event"
	"mcpx/internal/page"
)

// State of an approval. The final ones never change.
type State string

// The states, runtime.md section 8.
const (
	Pending  State = "pending"
	Approved State = "approved" // counts for a while, then it expires
	Denied   State = "denied"   // final
	Expired  State = "expired"  // final
	Revoked  State = "revoked"  // final: what it was about has changed
	Consumed State = "consumed" // final
)

// Kind says what sort of thing is approved.
type Kind string

// The kinds. About is the id of the plan of a KindPlan, and that of the project of a KindTrust; of all others, which are
// effects of calls at /mcp, it is the subject: what was asked before about the same effect is found by it.
const (
	KindPlan      Kind = "plan"       // one change to configuration files
	KindCommand   Kind = "command"    // the start of a command
	KindInput     Kind = "input"      // text for the standard input of a command that runs
	KindFileWrite Kind = "file_write" // files that make other programs act
	KindRemove    Kind = "remove"     // files, by the manifest of a removal
	KindCallTool  Kind = "call_tool"  // a tool of another server
	KindSkillRun  Kind = "skill_run"  // the start of the program of a skill
	KindTrust     Kind = "trust"      // what a repository can start; it is decided in the moment in which it is asked
)

// Approval is one question to a person and what became of it.
type Approval struct {
	ID        string    `json:"approval_id"` // apr_ and a ULID
	Kind      Kind      `json:"kind"`
	About     string    `json:"about"`          // what is approved
	Subject   string    `json:"subject_sha256"` // hex, of the frozen record that is shown
	Display   string    `json:"display"`        // what is shown in short, control characters escaped
	Full      string    `json:"full,omitempty"` // reference to all that Display stands for, when that was cut
	Reasons   []string  `json:"reasons"`
	Claim     string    `json:"agent_says,omitempty"` // what the model says it is for: a claim, escaped like Display
	Principal string    `json:"principal"`            // on whose behalf it is asked
	Project   string    `json:"project_id,omitempty"`
	Session   string    `json:"remote_session_id,omitempty"`
	Operation string    `json:"operation_id,omitempty"` // that waits for the decision
	Requested time.Time `json:"requested_at"`
	Expires   time.Time `json:"expires_at"` // of the present state
	State     State     `json:"state"`
	Why       string    `json:"why,omitempty"` // code, of an expired or revoked one
	Decision  *Decision `json:"decided_by,omitempty"`
	Consumer  string    `json:"consumed_by,omitempty"` // id of the receipt or operation
	Used      time.Time `json:"consumed_at,omitzero"`
}

// Decision is how a person decided.
type Decision struct {
	Principal string    `json:"principal"`
	Channel   string    `json:"channel"`          // cli or elicitation
	Terminal  string    `json:"terminal"`         // device name of the controlling terminal; "" it came by a form
	Client    string    `json:"client,omitempty"` // that put the form to its user, as it calls itself
	At        time.Time `json:"at"`
	Note      string    `json:"note,omitempty"`
	Digest    string    `json:"digest"` // the subject that was displayed
}

// Refs are the things that an event about the approval is about.
func (a Approval) Refs() event.Refs {
	refs := event.Refs{event.RefApproval: a.ID}
	if a.Kind == KindPlan {
		refs[event.RefPlan] = a.About
	}
	for name, value := range map[event.Ref]string{event.RefOperation: a.Operation, event.RefSession: a.Session, event.RefProject: a.Project} {
		if value != "" {
			refs[name] = value
		}
	}
	return refs
}

// Reader reads the stored approvals. It is part of the transaction port that package store joins.
type Reader interface {
	// Approvals is one page in order of id, that is of time. A page that is shorter than the limit is the last one.
	Approvals(ctx context.Context, p ListApprovals) ([]Approval, error)
	// ApprovalByID finds one. NotFound approval-unknown, Conflict approval-ambiguous.
	ApprovalByID(ctx context.Context, p ByID) (Approval, error)
}

// Store reads and changes the stored approvals.
type Store interface {
	Reader
	// PutApproval writes an approval whole, new or in place of the one with the same id. Conflict approval-final when
	// the stored one is final.
	PutApproval(ctx context.Context, p PutApproval) error
}

// MaxApprovalPage bounds one page of Approvals.
const MaxApprovalPage = 200

// ListApprovals asks for the approvals after After that fit every condition that is set.
type ListApprovals struct {
	After string
	State State  // "" every one
	About string // "" everything
	Limit int    // 0 and everything above MaxApprovalPage is MaxApprovalPage
}

// PageLimit is the number of approvals that the page may hold.
func (p ListApprovals) PageLimit() int {
	if p.Limit < 1 || p.Limit > MaxApprovalPage {
		return MaxApprovalPage
	}
	return p.Limit
}

// ByID names one approval. A beginning of the id that only one approval has is enough.
type ByID struct{ ID string }

// PutApproval carries the approval to write.
type PutApproval struct{ Approval Approval }

// Each reads every approval that fits, in order, page by page.
func Each(ctx context.Context, r Reader, p ListApprovals) iter.Seq2[Approval, error] {
	return page.Each(p.PageLimit(), func(last *Approval) ([]Approval, error) {
		list := p
		if last != nil {
			list.After = last.ID
		}
		return r.Approvals(ctx, list)
	})
}

// All is Each at once.
func All(ctx context.Context, r Reader, p ListApprovals) ([]Approval, error) {
	return page.Gather(Each(ctx, r, p))
}
