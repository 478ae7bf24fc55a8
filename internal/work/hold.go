package work

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
)

// asking is an effect that a person may have to allow. The question is made anew at every attempt, before anything is
// staged, and compared with the one that the person saw.
type asking interface {
	effect
	// question is what a person has to decide; nil: nobody has to.
	question() *Question
}

// Question is what a person decides before an effect may begin.
type Question struct {
	Kind    approval.Kind
	Subject string // hex of the SHA-256 of the frozen record: of everything that decides what will happen
	Display string // what will happen; what is too long is kept apart, whole
	Reasons []string
	// Approval was asked for before, by the call that prepared this one: a removal. Without it the question is asked now.
	Approval string
}

// hold looks in one commit whether a person has allowed the effect of a turn. The first time it takes the id of the
// operation and asks; every later time it looks at what was asked then. Without an answer the effect may go ahead: its
// dispatch consumes t.op.Approval for t.subject.
func (s *Service) hold(ctx context.Context, t *turn, row *operation.Operation, q Question) (*operation.Answer, error) {
	var stands operation.Answer
	before := t.op
	err := s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		t.op = before
		a, err := s.askedFor(ctx, tx, t, q)
		if err != nil {
			return err
		}
		t.op.Approval = a.ID
		switch {
		case a.State.Final():
			stands, err = s.letGo(ctx, tx, t.actor(), t.op, ended(a))
			return err
		case a.Subject != q.Subject:
			if err := s.revoke(ctx, tx, t.actor(), a, approval.WhyStale); err != nil {
				return err
			}
			stands, err = s.letGo(ctx, tx, t.actor(), t.op, changedSince(nil))
			return err
		case a.State == approval.Approved:
			t.subject = q.Subject
			return nil
		case t.op.Hold != "":
			stands = held(*row, a, t.Args) // looking is no attempt
			return nil
		}
		t.op.Hold = operation.HoldApproval
		if a.Operation != t.op.ID { // it was asked for by the call that prepared this one
			a.Operation = t.op.ID
			if err := tx.PutApproval(ctx, approval.PutApproval{Approval: a}); err != nil {
				return err
			}
		}
		stands = held(t.op, a, t.Args)
		if err := s.write(ctx, tx, t, event.OperationClaimed, "waits for a person"); err != nil {
			return err
		}
		return s.tellRuling(ctx, tx, t, &q)
	})
	switch {
	case err != nil:
		t.op = before
		return nil, unwritten(err)
	case t.subject != "":
		return nil, nil
	}
	return &stands, nil
}

// askedFor is the approval that an effect needs: the one that its operation waits for, the one that was asked for when it
// was prepared, or a new one. What is over is written down as over; a no to exactly this that still counts is found, too.
func (s *Service) askedFor(ctx context.Context, tx store.Tx, t *turn, q Question) (approval.Approval, error) {
	switch {
	case t.op.Approval != "":
		return s.overOrNot(ctx, tx, t.actor(), t.op.Approval)
	case q.Approval != "":
		return s.overOrNot(ctx, tx, t.actor(), q.Approval)
	}
	return s.ask(ctx, tx, t, q)
}

// overOrNot finds an approval, and writes down that its time is over when it is.
func (s *Service) overOrNot(ctx context.Context, tx store.Tx, by event.Actor, ref string) (approval.Approval, error) {
	a, err := tx.ApprovalByID(ctx, approval.ByID{ID: ref})
	if err != nil {
		return a, err
	}
	a, over := approval.Expire(a, s.cfg.Now())
	if !over {
		return a, nil
	}
	return a, s.putApproval(ctx, tx, by, a, event.ApprovalExpired, a.ID+" is over: "+a.Why)
}

// consume uses the yes of a person, in the transaction that records the dispatch.
func (s *Service) consume(ctx context.Context, tx store.Tx, t *turn) error {
	if t.subject == "" {
		return nil
	}
	a, err := tx.ApprovalByID(ctx, approval.ByID{ID: t.op.Approval})
	if err != nil {
		return err
	}
	used, err := approval.Consume(a, t.subject, t.op.ID, s.cfg.Now())
	if err != nil {
		a, _ = approval.Expire(a, s.cfg.Now())
		return ended(a)
	}
	return s.putApproval(ctx, tx, t.actor(), used, event.ApprovalConsumed, used.ID+" was used by "+t.op.ID)
}

// unhold answers an error from before the dispatch of an effect that waits for a person. What waiting does not cure means
// that what was asked about cannot be done any more.
func (s *Service) unhold(ctx context.Context, t *turn, o operation.Operation, why error) operation.Answer {
	cause, decided := errors.AsType[*operation.Refusal](why)
	if !decided || cause.Retry == fault.AfterWait || cause.Retry == fault.SameID {
		return s.answer(ctx, t, nil, why)
	}
	var out operation.Answer
	err := s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		a, err := s.overOrNot(ctx, tx, t.actor(), o.Approval)
		if err != nil {
			return err
		}
		end := ended(a)
		if !a.State.Final() {
			end = changedSince(cause)
			if err := s.revoke(ctx, tx, t.actor(), a, approval.WhyStale); err != nil {
				return err
			}
		}
		out, err = s.letGo(ctx, tx, t.actor(), o, end)
		return err
	})
	if err != nil {
		return s.answer(ctx, t, nil, err)
	}
	return out
}

// letGo records that an operation ended without having been dispatched.
func (s *Service) letGo(ctx context.Context, tx store.Tx, by event.Actor, o operation.Operation, why *operation.Refusal) (operation.Answer, error) {
	out := refusal(why)
	result, err := json.Marshal(out)
	if err != nil {
		return out, err
	}
	o.State, o.Hold, o.Code, o.Ended, o.Result = operation.Failed, "", string(why.Code), s.cfg.Now(), result
	if err := tx.PutOperation(ctx, operation.PutOperation{Operation: o}); err != nil {
		return out, err
	}
	out.Operation = o.Standing(false)
	_, err = tx.AppendEvent(ctx, event.Draft{
		At: s.cfg.Now(), Kind: event.OperationEnded, Actor: by, Refs: operationRefs(o), Summary: o.Tool + " was not begun: " + string(why.Code),
	})
	return out, err
}

// Ended ends the operation that waits for an approval, in the transaction in which that was denied, expired or revoked.
func (s *Service) Ended(ctx context.Context, tx store.Tx, by event.Actor, a approval.Approval) error {
	if a.Operation == "" {
		return nil
	}
	o, err := tx.OperationByName(ctx, operation.ByName{Name: operation.Name{Namespace: a.Principal, ID: a.Operation}})
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return nil
	case err != nil:
		return err
	case o.Approval != a.ID || o.Hold == "":
		return nil // it prepared what was asked about, and waits for nothing
	}
	_, err = s.letGo(ctx, tx, by, o, ended(a))
	return err
}

// Withdraw revokes what is asked for a session that is closed, and ends what waits for it.
func (s *Service) Withdraw(ctx context.Context, tx store.Tx, by event.Actor, session string) error {
	for _, state := range []approval.State{approval.Pending, approval.Approved} {
		all, err := approval.All(ctx, tx, approval.ListApprovals{State: state})
		if err != nil {
			return err
		}
		for _, a := range all {
			if a.Session != session {
				continue
			}
			if a, err = approval.Revoke(a, approval.WhyClosed); err != nil {
				return err
			}
			if err := s.tellRevoked(ctx, tx, by, a); err != nil {
				return err
			}
			if err := s.Ended(ctx, tx, by, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// revoke takes a question or a yes back. The operation that waits for it is ended by the caller.
func (s *Service) revoke(ctx context.Context, tx store.Tx, by event.Actor, a approval.Approval, why string) error {
	revoked, err := approval.Revoke(a, why)
	if err != nil {
		return err
	}
	return s.tellRevoked(ctx, tx, by, revoked)
}

func (s *Service) tellRevoked(ctx context.Context, tx store.Tx, by event.Actor, a approval.Approval) error {
	return s.putApproval(ctx, tx, by, a, event.ApprovalRevoked, a.ID+" counts no more: "+a.Why)
}

// The codes of how a required approval ended without a yes that counts.
const (
	approvalDenied  operation.Code = "APPROVAL_DENIED"
	approvalExpired operation.Code = "APPROVAL_EXPIRED"
	approvalRevoked operation.Code = "APPROVAL_REVOKED"
	approvalsFull   operation.Code = "APPROVALS_FULL"
)

// ended is the refusal of an effect whose approval ended otherwise than by a yes that this effect may use.
func ended(a approval.Approval) *operation.Refusal {
	r := operation.Refuse(approvalRevoked, "the question %s was taken back; nothing was done", a.ID).Retrying(fault.NewID)
	switch {
	case a.State == approval.Denied:
		r = operation.Refuse(approvalDenied, "a person said no; nothing was done").Retrying(fault.Never)
	case a.State == approval.Expired && a.Why == approval.WhyUnused:
		r = operation.Refuse(approvalExpired, "a person said yes, and that was not used in time; nothing was done").Retrying(fault.NewID)
	case a.State == approval.Expired:
		r = operation.Refuse(approvalExpired, "no person answered in time; nothing was done").Retrying(fault.NewID)
	case a.State == approval.Consumed:
		r = operation.Refuse(approvalRevoked, "the yes %s was used by another call; nothing was done", a.ID).Retrying(fault.NewID)
	}
	if a.Decision != nil && a.Decision.Note != "" {
		r = r.With("note", a.Decision.Note)
	}
	return r.With("approval_id", a.ID).Ending(operation.OutcomeFailed)
}

// changedSince is the refusal of an effect that is not any more what was asked about.
func changedSince(cause *operation.Refusal) *operation.Refusal {
	r := operation.Refuse(approvalRevoked, "what this call would do is not what a person was asked about any more; nothing was done").
		Retrying(fault.NewID).Ending(operation.OutcomeFailed)
	if cause != nil {
		return r.With("cause", cause)
	}
	return r
}

// channels are where a person decides.
var channels = []string{"cli"}

// held is the answer about an operation that waits for a person. args are those of the identical call.
func held(o operation.Operation, a approval.Approval, args json.RawMessage) operation.Answer {
	out := operation.Answer{
		Status: operation.OutcomeWaiting, Operation: o.Standing(false),
		Waiting: &operation.Waiting{For: operation.HoldApproval, Approval: a.ID, Expires: a.Expires.UTC().Format(time.RFC3339), Channels: channels},
		Next: []operation.Next{{
			Tool: "operation_status", Args: map[string]any{operation.IDField: o.ID, "wait_ms": 20000}, Why: "waits for the decision; then repeat the identical call",
		}},
	}
	var again map[string]any
	if len(args) <= edge && json.Unmarshal(args, &again) == nil && again != nil {
		out.Next = append(out.Next, operation.Next{Tool: o.Tool, Args: again, Why: "the identical call, once a person has said yes"})
	}
	return out
}

// decided waits until what an operation waits for is pending no more; false when the time is over first.
func (s *Service) decided(ctx context.Context, ref string, within time.Duration) bool {
	over := time.NewTimer(within)
	defer over.Stop()
	for {
		changed := s.cfg.DB.Changed()
		a, err := s.approval(ctx, ref)
		if err != nil {
			return false
		}
		if now, _ := approval.Expire(a, s.cfg.Now()); now.State != approval.Pending {
			return true
		}
		select {
		case <-changed:
		case <-over.C:
			return false
		case <-s.quit:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (s *Service) approval(ctx context.Context, ref string) (a approval.Approval, err error) {
	err = s.cfg.DB.View(ctx, func(r store.Reader) error {
		a, err = r.ApprovalByID(ctx, approval.ByID{ID: ref})
		return err
	})
	return a, err
}

// approvalShown is a question to a person, in short.
type approvalShown struct {
	ID        string         `json:"approval_id"`
	Kind      approval.Kind  `json:"kind"`
	State     approval.State `json:"state"`
	Operation string         `json:"operation_id"`
	Summary   string         `json:"summary"`
	Expires   string         `json:"expires_at"`
}

func (s *Service) shownApproval(a approval.Approval) *approvalShown {
	a, _ = approval.Expire(a, s.cfg.Now()) // what is over is shown as over, whether it was written down or not
	return &approvalShown{
		ID: a.ID, Kind: a.Kind, State: a.State, Operation: a.Operation, Summary: head([]byte(firstLine(a.Display)), maxSummary), Expires: a.Expires.UTC().Format(time.RFC3339),
	}
}

// maxSummary bounds what an answer shows of a question, in bytes.
const maxSummary = 200

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
