package operation

import (
	"encoding/json"
	"fmt"
	"time"

	"mcpx/internal/fault"
)

// Step is what may be done with a call that names an operation.
type Step int

// The steps.
const (
	Begin    Step = iota // claim the id: nobody has it
	Resume               // a claim that a crash left behind: prepare again in the same row, or look at the approval
	Replay               // answer with what was recorded
	Refused              // answer with the refusal
	WaitThen             // it is under way: wait for its end, or say that it is under way
)

// Judge is step 1 of the protocol: what a call may do whose id has this row, or none. busy says that this daemon carries
// the operation out right now.
func Judge(row *Operation, tool string, p Print, busy bool) (Step, *Refusal) {
	if row == nil {
		if busy {
			return WaitThen, nil
		}
		return Begin, nil
	}
	if row.Tool != tool || row.Print != p.Sum {
		r := Refuse(OperationIDReused, "the id %s belongs to another call of %s", row.ID, row.Tool).Retrying(fault.NewID)
		if row.Tool == tool {
			return Refused, r.With("differs", differing(row.Digests, p.Digests))
		}
		return Refused, r.With("differs", []string{"tool"})
	}
	switch row.State {
	case Claimed:
		if busy {
			return WaitThen, nil
		}
		return Resume, nil
	case Dispatched:
		return WaitThen, nil
	case Succeeded, Failed:
		return Replay, nil
	case Unknown:
		return Refused, Unclear(*row)
	}
	return Refused, Refuse(InternalError, "the operation %s has the state %q, which this version does not know", row.ID, row.State).Retrying(fault.Never)
}

// Unclear is the answer about an operation whose outcome nobody knows: what was found when it ended, such as the paths that
// somebody else has changed. It is never carried out again.
func Unclear(o Operation) *Refusal {
	r := Refuse(OutcomeUnknown, "nobody knows whether %s was carried out whole; look at what is there, then say so", o.ID)
	var told Answer
	if json.Unmarshal(o.Result, &told) == nil && told.Refusal != nil {
		r = told.Refusal
	} else if o.Code == string(Contested) {
		r.Code = Contested
	}
	by := o.ID[:min(len(o.ID), maxID-len(resolving))] + resolving
	return r.Retrying(fault.Never).Ending(OutcomeUnclear).
		Then(Next{Tool: "resolve_operation", Args: map[string]any{IDField: by, "target": o.ID, "verdict": "done"}, Why: "after looking: done, not_done or abandon"})
}

// resolving ends the id that is proposed for the verdict on an operation.
const resolving = ".resolve"

// InProgress is the answer to a call whose operation is under way.
func InProgress(id string, since time.Time) *Refusal {
	r := Refuse(OperationInProgress, "the operation %s is under way", id).Retrying(fault.AfterWait).Ending(OutcomeInProgress).
		Then(Next{Tool: "operation_status", Args: map[string]any{IDField: id, "wait_ms": 20000}, Why: "waits for its end"})
	if since.IsZero() {
		return r
	}
	return r.With("since", since.UTC().Format(time.RFC3339))
}

// DuplicateWindow is how long an operation that nobody acknowledged stands in the way of the same call under another id.
const DuplicateWindow = 15 * time.Minute

// maxShownResult bounds the answer that is told with a refusal, in bytes. operation_status has a larger one.
const maxShownResult = 4 << 10

// Duplicate finds the operation that a new call probably repeats: the same call under another id, not long ago, of which
// nobody has heard. recent are the operations with its print, the newest first; age is how old each is by a clock that
// does not jump.
func Duplicate(id, distinct string, recent []Operation, age func(Operation) time.Duration) *Refusal {
	for _, o := range recent {
		if o.ID == id || o.ID == distinct || age(o) > DuplicateWindow || o.State.Final() && o.Acked || o.State == Failed {
			continue
		}
		r := Refuse(PossibleDuplicate, "the same call was made as %s, and nobody has asked about it since; if it is meant again, say distinct_from", o.ID).
			With("operation_id", o.ID).With("state", o.State).
			Then(Next{Tool: "operation_status", Args: map[string]any{IDField: o.ID, "wait_ms": 10000}, Why: "what became of it"})
		if o.Result != nil && len(o.Result) <= maxShownResult {
			r = r.With("result", o.Result)
		}
		return r
	}
	return nil
}

// Verdict is what somebody found who looked.
type Verdict string

// The verdicts of resolve_operation.
const (
	Done    Verdict = "done"
	NotDone Verdict = "not_done"
	Abandon Verdict = "abandon"
)

// Resolve ends an operation whose outcome nobody knew.
func Resolve(o Operation, v Verdict, now time.Time) (Operation, error) {
	switch {
	case o.State != Unknown:
		return o, Refuse("WORKSPACE_STATE", "the operation %s is %s: there is nothing to resolve", o.ID, o.State).Retrying(fault.Never)
	case v == Done:
		o.State, o.Code = Succeeded, ""
	case v == NotDone, v == Abandon:
		o.State = Failed
	default:
		return o, Refuse(ArgumentInvalid, "%q is no verdict; done, not_done and abandon are", v)
	}
	o.Ended = now
	return o, nil
}

// Standing is what an answer says about an operation.
func (o Operation) Standing(replayed bool) *Standing {
	s := &Standing{ID: o.ID, State: o.State, Hold: o.Hold, Replayed: replayed, Recovered: o.Recovery, Attempts: o.Attempts, Claimed: o.Claimed.UTC().Format(time.RFC3339)}
	if !o.Ended.IsZero() {
		s.Finished = o.Ended.UTC().Format(time.RFC3339)
	}
	return s
}

// String is for logs: no argument is in it.
func (o Operation) String() string { return fmt.Sprintf("%s (%s, %s)", o.ID, o.Tool, o.State) }
