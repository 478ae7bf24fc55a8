package approval

import (
	"context"
	"time"
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

// KindPlan is one change to configuration files; About is the plan's id.
const KindPlan Kind = "plan"

// Approval is one question to a person and what became of it.
type Approval struct {
	ID        string    `json:"approval_id"` // apr_ and a ULID
	Kind      Kind      `json:"kind"`
	About     string    `json:"about"`          // id of what is approved
	Subject   string    `json:"subject_sha256"` // hex, of the frozen record that is shown
	Display   string    `json:"display"`        // what is shown in short, control characters escaped
	Reasons   []string  `json:"reasons"`
	Principal string    `json:"principal"` // on whose behalf it is asked
	Requested time.Time `json:"requested_at"`
	Expires   time.Time `json:"expires_at"` // of the present state
	State     State     `json:"state"`
	Why       string    `json:"why,omitempty"` // code, of an expired or revoked one
	Decision  *Decision `json:"decided_by,omitempty"`
	Consumer  string    `json:"consumed_by,omitempty"` // id of the receipt or operation
}

// Decision is how a person decided.
type Decision struct {
	Principal string    `json:"principal"`
	Channel   string    `json:"channel"`  // cli
	Terminal  string    `json:"terminal"` // device name of the controlling terminal
	At        time.Time `json:"at"`
	Note      string    `json:"note,omitempty"`
	Digest    string    `json:"digest"` // the subject that was displayed
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
