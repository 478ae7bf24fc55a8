package work

import (
	"context"
	"encoding/json"
	"math"
	"slices"

	"mcpx/internal/approval"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// ask puts a question to a person in the transaction of whatever waits for the answer. It gives the no to exactly this
// that a person said a moment ago, when there is one. APPROVALS_FULL.
func (s *Service) ask(ctx context.Context, tx store.Tx, t *turn, q Question) (approval.Approval, error) {
	asked := approval.Question{
		Kind: q.Kind, About: q.Subject, Subject: q.Subject, Display: s.cfg.Redact(q.Display), Reasons: q.Reasons, Principal: t.Principal,
		Project: t.op.Project, Session: t.op.Session, Operation: t.op.ID,
	}
	earlier, err := approval.All(ctx, tx, approval.ListApprovals{About: q.Subject})
	if err != nil {
		return approval.Approval{}, err
	}
	if _, denied := approval.Ask(earlier, asked, s.cfg.Now()); denied != nil {
		return *denied, nil
	}
	if err := s.room(ctx, tx, t.op.Session); err != nil {
		return approval.Approval{}, err
	}
	if asked.Claim, err = s.claim(ctx, tx, t); err != nil {
		return approval.Approval{}, err
	}
	if whole := approval.Escape(asked.Display, math.MaxInt); len(whole) > approval.MaxDisplay {
		kept, err := s.keep(ctx, tx, t, "text/plain", []byte(whole))
		if err != nil {
			return approval.Approval{}, err
		}
		asked.Full = kept.Ref
	}
	a, err := approval.New(s.cfg.IDs.New(id.Approval), asked, s.cfg.Now())
	if err != nil {
		return approval.Approval{}, err
	}
	return a, s.putApproval(ctx, tx, t.actor(), a, event.ApprovalRequested, "a person is asked: "+firstLine(a.Display))
}

// room refuses when as many questions of a session wait for an answer as may.
func (s *Service) room(ctx context.Context, r store.Reader, session string) error {
	waiting, err := s.waitingFor(ctx, r, session)
	if err != nil || len(waiting) < approval.MaxPending {
		return err
	}
	return operation.Refuse(approvalsFull, "%d questions of this session wait for a person", len(waiting)).Retrying(fault.AfterWait).With("limit", approval.MaxPending)
}

// waitingFor are the questions of a session that a person has not answered, in the order of their asking.
func (s *Service) waitingFor(ctx context.Context, r store.Reader, session string) ([]approval.Approval, error) {
	all, err := approval.All(ctx, r, approval.ListApprovals{State: approval.Pending})
	return slices.DeleteFunc(all, func(a approval.Approval) bool {
		_, over := approval.Expire(a, s.cfg.Now())
		return over || a.Kind == approval.KindPlan || a.Session != session
	}), err
}

// claim is what the model says its call is for: with the call, or when its turn began.
func (s *Service) claim(ctx context.Context, r store.Reader, t *turn) (string, error) {
	said, _ := session.ReadActivity(session.ActivityRequest{Raw: t.args["activity"], Redact: s.cfg.RedactText})
	if said.Intent() != "" || t.op.Session == "" {
		return said.Intent(), nil
	}
	one, err := r.RemoteSessionByID(ctx, session.ByID{ID: t.op.Session})
	return one.Intent, err
}

// putApproval writes an approval with the event that tells of it.
func (s *Service) putApproval(ctx context.Context, tx store.Tx, by event.Actor, a approval.Approval, kind event.Kind, summary string) error {
	if err := tx.PutApproval(ctx, approval.PutApproval{Approval: a}); err != nil {
		return err
	}
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = tx.AppendEvent(ctx, event.Draft{At: s.cfg.Now(), Kind: kind, Actor: by, Refs: a.Refs(), Summary: summary, Body: body})
	return err
}
