package operation

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/page"
)

// State of an operation. The final ones never change.
type State string

// The states, durable-work.md section 9.
const (
	Claimed    State = "claimed"    // its id is taken; nothing has happened
	Dispatched State = "dispatched" // the effect may have begun
	Succeeded  State = "succeeded"  // final
	Failed     State = "failed"     // final: nothing was changed, or all of it was undone
	Unknown    State = "unknown"    // final but for the verdict of a person or agent that looked: Resolve
)

// Final tells that nothing happens to the operation by itself any more.
func (s State) Final() bool { return s != Claimed && s != Dispatched }

// Hold says what a claimed operation waits for.
type Hold string

// HoldApproval waits for the yes of a person.
const HoldApproval Hold = "approval"

// Class says how the effect is made, and so how its outcome is found out after a crash.
type Class string

// The classes, durable-work.md section 9.
const (
	DB       Class = "db"       // the effect and its record are one commit
	FS       Class = "fs"       // a file transaction with a journal
	Spawn    Class = "spawn"    // a job directory is the evidence
	External Class = "external" // something outside; begun at most once
)

// Name is the key of an operation: callers choose the id, each principal in a namespace of its own.
type Name struct {
	Namespace string `json:"namespace"` // the principal
	ID        string `json:"operation_id"`
}

// Operation is one intention and what became of it.
type Operation struct {
	Name
	Tool     string            `json:"tool"`
	Print    string            `json:"fingerprint"`    // hex, of Fingerprint
	Digests  map[string]string `json:"digests"`        // of each argument, keyed: they name the field that differs, never a value
	Args     json.RawMessage   `json:"args,omitempty"` // as sent, without secret values; nil when there was no room for them
	State    State             `json:"state"`
	Hold     Hold              `json:"hold,omitempty"`
	Approval string            `json:"approval_id,omitempty"`
	Class    Class             `json:"class"`
	Attempts int               `json:"attempts"`
	Session  string            `json:"remote_session_id,omitempty"`
	Project  string            `json:"project_id,omitempty"`
	Evidence json.RawMessage   `json:"evidence,omitempty"` // journal of the effect, written before it begins; the business of its class
	Result   json.RawMessage   `json:"result,omitempty"`   // the answer as recorded; nil before the end
	Code     string            `json:"code,omitempty"`     // of a failure
	Acked    bool              `json:"acked"`              // somebody has asked about it since, or had its answer
	Claimed  time.Time         `json:"claimed_at"`
	Begun    time.Time         `json:"dispatched_at"` // zero: not dispatched
	Ended    time.Time         `json:"finished_at"`   // zero: not yet
	Recovery bool              `json:"recovered,omitempty"`
	// Purged is since when the bytes that it has displaced are not kept any more, and Shrunk since when its answer and its
	// arguments are not. Digest is that of the Result.
	Purged time.Time `json:"displaced_purged_at,omitzero"`
	Shrunk time.Time `json:"shrunk_at,omitzero"`
	Digest string    `json:"result_sha256,omitempty"`
	Seq    uint64    `json:"-"` // order of claiming, given by the store at the first put
}

// Whole says whether there is more of the operation than its outcome.
func (o Operation) Whole() bool { return o.Shrunk.IsZero() || o.Evidence != nil }

// Reader reads the ledger. It is part of the transaction port that package store joins.
type Reader interface {
	// OperationByName finds one. NotFound operation-unknown.
	OperationByName(ctx context.Context, p ByName) (Operation, error)
	// Operations is one page, the newest first. A page that is shorter than the limit is the last one.
	Operations(ctx context.Context, p ListOperations) ([]Operation, error)
	// WholeOperations is one page of those that succeeded or failed and are Whole, the oldest first.
	WholeOperations(ctx context.Context, p ListWhole) ([]Operation, error)
}

// Store reads and changes the ledger.
type Store interface {
	Reader
	// PutOperation writes an operation whole, new or in place of the one with its name. Conflict operation-final when the
	// stored one is succeeded or failed.
	PutOperation(ctx context.Context, p PutOperation) error
	// ReleaseOperation removes a claim that was never dispatched: its id is free again. Conflict operation-final when the
	// stored one went further; removing one that is not there is no error.
	ReleaseOperation(ctx context.Context, p ByName) error
}

// ByName names one operation.
type ByName struct{ Name }

// PutOperation carries the operation to write.
type PutOperation struct{ Operation Operation }

// MaxOperationPage bounds one page of Operations.
const MaxOperationPage = 200

// ListOperations asks for the operations that fit every condition that is set.
type ListOperations struct {
	Namespace string // "" every one
	Session   string // "" every one
	Print     string // "" every one
	States    []State
	Open      bool   // only those that have no end that somebody knows
	Before    uint64 // Seq of the last operation of the page before; 0 begins with the newest
	Limit     int    // 0 and everything above MaxOperationPage is MaxOperationPage
}

// PageLimit is the number of operations that the page may hold.
func (p ListOperations) PageLimit() int {
	if p.Limit < 1 || p.Limit > MaxOperationPage {
		return MaxOperationPage
	}
	return p.Limit
}

// Fits says whether an operation is one of those that are asked for, apart from the page.
func (p ListOperations) Fits(o Operation) bool {
	return (p.Namespace == "" || o.Namespace == p.Namespace) && (p.Session == "" || o.Session == p.Session) &&
		(p.Print == "" || o.Print == p.Print) && (len(p.States) == 0 || slices.Contains(p.States, o.State)) &&
		(!p.Open || o.State != Succeeded && o.State != Failed)
}

// Each reads the operations that fit, the newest first, page by page.
func Each(ctx context.Context, r Reader, p ListOperations) iter.Seq2[Operation, error] {
	return page.Each(p.PageLimit(), func(last *Operation) ([]Operation, error) {
		list := p
		if last != nil {
			list.Before = last.Seq
		}
		return r.Operations(ctx, list)
	})
}

// ListWhole asks for the operations after After.
type ListWhole struct {
	After uint64 // Seq of the last operation of the page before
	Limit int    // 0 and everything above MaxOperationPage is MaxOperationPage
}

// PageLimit is the number of operations that the page may hold.
func (p ListWhole) PageLimit() int { return ListOperations{Limit: p.Limit}.PageLimit() }

// UnknownName is the error for an id that the ledger does not have.
func UnknownName(n Name) *fault.Error {
	return fault.New(fault.NotFound, "operation-unknown").Saying("there is no operation %s", n.ID).
		Hinting("`mcpx operation list` shows the operations")
}

// IsFinal is the error for an operation that may not be changed any more.
func IsFinal(n Name) *fault.Error {
	return fault.New(fault.Conflict, "operation-final").Saying("the operation %s has ended, and what has ended does not change", n.ID).
		Hinting("`mcpx operation show %s` says how it ended", n.ID)
}

// Kept is a result that was too large for an answer, or whatever else a reference leads to. Its reference is made from
// its bytes.
type Kept struct {
	Ref       string
	Principal string // nobody else may read it
	Media     string
	SHA256    string // hex
	Made      time.Time
	Bytes     []byte
}

// ResultReader reads what was kept.
type ResultReader interface {
	// KeptResult finds one. NotFound result-unknown, also when it belongs to another principal.
	KeptResult(ctx context.Context, p KeptByRef) (Kept, error)
	// KeptBefore is one page of what was kept before a time, the oldest first, without the bytes.
	KeptBefore(ctx context.Context, p ListKept) ([]KeptSize, error)
}

// ResultStore keeps results.
type ResultStore interface {
	ResultReader
	// KeepResult writes one; the same one twice is no error.
	KeepResult(ctx context.Context, p KeepResult) error
	// DropResult removes one. One that is not there is no error.
	DropResult(ctx context.Context, p KeptByRef) error
}

// KeptSize is what is known of a result without its bytes.
type KeptSize struct {
	KeptByRef
	Made time.Time
	Size int64
}

// MaxKeptPage bounds one page of KeptBefore.
const MaxKeptPage = 200

// ListKept asks for the results after After that were made before Before.
type ListKept struct {
	Before time.Time
	After  KeptSize // the last one of the page before; only its Made, Principal and Ref count
	Limit  int      // 0 and everything above MaxKeptPage is MaxKeptPage
}

// PageLimit is the number of results that the page may hold.
func (p ListKept) PageLimit() int {
	if p.Limit < 1 || p.Limit > MaxKeptPage {
		return MaxKeptPage
	}
	return p.Limit
}

// KeptByRef names a result of a principal.
type KeptByRef struct{ Principal, Ref string }

// KeepResult carries the result to keep.
type KeepResult struct{ Result Kept }

// UnknownResult is the error for a reference that leads nowhere.
func UnknownResult(ref string) *fault.Error {
	return fault.New(fault.NotFound, "result-unknown").Saying("there is no result %s", ref).Hinting("results are kept for some time only: retention.results in docs/settings.md")
}
