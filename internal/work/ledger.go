package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"mcpx/internal/crash"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/key"
	"mcpx/internal/operation"
	"mcpx/internal/store"
)

// operate takes a call with an effect through the ledger (durable-work.md section 9). What goes on after the dispatch does
// not end with the caller.
func (s *Service) operate(ctx context.Context, t *turn) operation.Answer {
	a := s.throughLedger(ctx, t)
	if t.step {
		return a
	}
	return s.reveal(ctx, t, a)
}

func (s *Service) throughLedger(ctx context.Context, t *turn) operation.Answer {
	given := t.text(operation.IDField)
	switch {
	case missing(t.args[operation.IDField]):
		return refusal(operation.Refuse(operation.OperationIDRequired, "%s needs operation_id: one id for each intention, kept for every retry", t.Tool))
	case !operation.ValidID(given):
		return refusal(operation.Refuse(operation.ArgumentInvalid, "operation_id has 8 to 128 of the characters A-Z a-z 0-9 . _ : -"))
	}
	sum, err := operation.Fingerprint(t.Tool, t.args, s.cfg.Key)
	if err != nil {
		return refusal(operation.Refuse(operation.ArgumentInvalid, "%s", err))
	}
	t.sum = sum
	name := operation.Name{Namespace: t.Principal, ID: given}
	until := time.NewTimer(t.patience(cmp.Or(t.tool.wait, defaultWait)))
	defer until.Stop()
	for {
		leave, busy := s.enter(name)
		if leave == nil && busy == nil {
			return refusal(stops())
		}
		if leave != nil {
			done := make(chan operation.Answer, 1)
			// Until it is dispatched the work ends with a caller that hangs up, and goes on behind one that was told that it does.
			work, end := context.WithCancelCause(context.WithoutCancel(ctx))
			stays := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
			var told atomic.Bool
			t.hungUp = func() bool { return ctx.Err() != nil && !told.Load() }
			go func() {
				defer leave()
				defer end(nil)
				a := s.carry(work, t, name)
				for a.Waiting != nil && s.decided(work, a.Waiting.Approval, t.patience(0)) {
					a = s.carry(work, t, name)
				}
				done <- a
			}()
			select {
			case a := <-done:
				return a
			case <-until.C:
				told.Store(true)
				stays()
			case <-ctx.Done(): // nobody reads this answer
			}
			t.left.Store(true)
			return s.underWay(ctx, t, name)
		}
		select {
		case <-busy: // its row says how it ended
		case <-until.C:
			return s.underWay(ctx, t, name)
		case <-ctx.Done():
			return s.underWay(ctx, t, name)
		}
	}
}

// missing says that an argument was not given. null is how some clients write that.
func missing(raw json.RawMessage) bool { return raw == nil || string(raw) == "null" }

// underWay is the answer about an operation that somebody works on.
func (s *Service) underWay(ctx context.Context, t *turn, name operation.Name) operation.Answer {
	row, err := s.find(context.WithoutCancel(ctx), name)
	if err != nil {
		return s.answer(ctx, t, nil, err)
	}
	if row == nil {
		return refusal(operation.InProgress(name.ID, time.Time{}))
	}
	if step, refused := operation.Judge(row, t.Tool, t.sum, false); step == operation.Refused {
		return refusal(refused)
	} else if step == operation.Replay {
		return s.replay(*row)
	}
	return s.waiting(ctx, t, *row)
}

// waiting is the answer about an operation that has not ended. Of one that started a job the job is told.
func (s *Service) waiting(ctx context.Context, t *turn, row operation.Operation) operation.Answer {
	if row.Hold != "" {
		asked, err := s.approval(context.WithoutCancel(ctx), row.Approval)
		if err != nil {
			return s.answer(ctx, t, nil, err)
		}
		return held(row, asked, t.Args)
	}
	a := refusal(operation.InProgress(row.ID, row.Claimed))
	if row.Tool == "execute_command" {
		if j, ok := s.jobOf(context.WithoutCancel(ctx), row); ok {
			a = operation.Answer{Status: operation.OutcomeInProgress, Data: j, Next: []operation.Next{
				{Tool: "operation_status", Args: map[string]any{operation.IDField: row.ID, "wait_ms": 20000}, Why: "waits for its end"},
			}}
		}
	}
	a.Operation = row.Standing(false)
	return a
}

// carry does the work of one attempt, alone for its operation.
func (s *Service) carry(ctx context.Context, t *turn, name operation.Name) (a operation.Answer) {
	defer func() {
		if p := recover(); p != nil {
			retry := fault.SameID
			if row, err := s.find(context.WithoutCancel(ctx), name); err != nil || row != nil && row.State != operation.Claimed {
				retry = fault.Never
			}
			a = refusal(s.crashed(ctx, t.Tool, p, retry))
		}
	}()
	row, err := s.find(ctx, name)
	if err != nil {
		return s.answer(ctx, t, nil, err)
	}
	switch step, refused := operation.Judge(row, t.Tool, t.sum, false); step {
	case operation.Refused:
		return refusal(refused)
	case operation.Replay:
		return s.replay(*row)
	case operation.WaitThen: // begun by an earlier daemon, and its recovery has not decided yet
		return s.waiting(ctx, t, *row)
	case operation.Resume:
		t.op = *row
		t.op.Attempts++
	case operation.Begin:
		t.op = operation.Operation{
			Name: name, Tool: t.Tool, Print: t.sum.Sum, Digests: t.sum.Digests, Args: t.keepable(), State: operation.Claimed,
			Class: t.tool.class, Attempts: 1, Claimed: s.cfg.Now(),
		}
	}
	if err := s.admit(t); err != nil {
		if row != nil && row.Hold != "" && codeIn(err) == operation.ArgumentInvalid {
			return refusal(s.refusalOf(ctx, t, err)) // the call was malformed, not what a person was asked about
		}
		return s.giveUp(ctx, t, row, err)
	}
	if t.tool.change != nil {
		return s.commit(ctx, t, row)
	}
	return s.effect(ctx, t, row)
}

// replay is the recorded answer.
func (s *Service) replay(row operation.Operation) operation.Answer {
	var a operation.Answer
	if row.Result == nil {
		a = refusal(operation.Refuse(operation.ResultExpired, "%s %s; its answer is not kept any more", row.ID, row.State).Retrying(fault.Never))
	} else if err := json.Unmarshal(row.Result, &a); err != nil {
		a = refusal(operation.Refuse(operation.StoreDegraded, "the recorded answer of %s cannot be read", row.ID).Retrying(fault.AfterWait))
	}
	a.Operation = row.Standing(true)
	return a
}

// giveUp answers a refusal from before the dispatch: a claim that this attempt would have gone on with is free again.
func (s *Service) giveUp(ctx context.Context, t *turn, row *operation.Operation, why error) operation.Answer {
	if row != nil {
		ctx = context.WithoutCancel(ctx)
		if row.Hold != "" {
			return s.unhold(ctx, t, *row, why)
		}
		if err := s.cfg.DB.Change(ctx, func(tx store.Tx) error {
			return tx.ReleaseOperation(ctx, operation.ByName{Name: row.Name})
		}); err != nil {
			return s.answer(ctx, t, nil, err)
		}
	}
	return s.answer(ctx, t, nil, why)
}

// commit carries out a change of the database: effect, claim and record are one commit, and a refusal leaves nothing.
func (s *Service) commit(ctx context.Context, t *turn, row *operation.Operation) operation.Answer {
	if t.tool.look != nil {
		t.tool.look(ctx, s, t)
	}
	crash.Point("op.claim.before")
	var a operation.Answer
	err := s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		data, err := t.tool.change(ctx, s, tx, t)
		if err != nil {
			return err
		}
		if a, err = s.fitted(ctx, tx, t, s.answer(ctx, t, data, nil)); err != nil {
			return err
		}
		return s.record(ctx, tx, t, operation.Succeeded, &a)
	})
	crash.Point("op.record.after")
	if err != nil {
		return s.giveUp(ctx, t, row, unwritten(err))
	}
	a.Operation = t.op.Standing(false)
	return a
}

// effect claims, prepares, dispatches, acts and records.
func (s *Service) effect(ctx context.Context, t *turn, row *operation.Operation) operation.Answer {
	if t.tool.class == operation.FS {
		leave, err := s.act(ctx)
		if err != nil {
			return s.answer(ctx, t, nil, err) // what is held, or claimed already, stays so
		}
		defer leave()
	}
	crash.Point("op.claim.before")
	e, err := t.tool.begin(ctx, s, t)
	if err != nil {
		return s.giveUp(ctx, t, row, err)
	}
	defer e.close()
	t.keeper, _ = e.(keeper)
	if asks, ok := e.(asking); ok {
		if q := asks.question(); q != nil {
			if stands, err := s.hold(ctx, t, row, *q); err != nil {
				return s.giveUp(ctx, t, row, err)
			} else if stands != nil {
				return *stands
			}
		}
	}
	t.op.State = operation.Claimed
	err = s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		if err := s.write(ctx, tx, t, event.OperationClaimed, "claimed"); err != nil {
			return err
		}
		return s.tellRuling(ctx, tx, t, nil)
	})
	if err != nil {
		return s.giveUp(ctx, t, row, unwritten(err))
	}
	crash.Point("op.claim.after")
	evidence, err := e.stage(ctx)
	if err == nil {
		t.op.Evidence, err = json.Marshal(evidence)
		crash.Point("op.stage.after")
		crash.Point("op.dispatch.before")
	}
	if err == nil && (ctx.Err() != nil || t.hungUp()) {
		err = context.Canceled // the caller left, and nothing has happened yet
	}
	if err != nil {
		e.drop()
		return s.giveUp(ctx, t, &t.op, err)
	}
	ctx = context.WithoutCancel(ctx)
	claimed := t.op
	t.op.State, t.op.Hold, t.op.Begun = operation.Dispatched, "", s.cfg.Now()
	err = s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		if err := s.consume(ctx, tx, t); err != nil {
			return err
		}
		return s.write(ctx, tx, t, event.OperationDispatched, "begun")
	})
	if err != nil {
		e.drop()
		return s.giveUp(ctx, t, &claimed, unwritten(err))
	}
	crash.Point("op.dispatch.after")
	data, err := e.run(ctx)
	if errors.Is(err, errLeft) {
		return s.waiting(ctx, t, t.op)
	}
	if o, ok := errors.AsType[*open](err); ok {
		return s.stays(ctx, t, o)
	}
	a, err := s.finish(ctx, t, data, err, e)
	if err != nil {
		s.retry(ctx, t.op)
	}
	return a
}

// stays is the answer of an operation that was begun, and of which nobody knows what it has done: nothing of it is recorded or
// cleared away before its recovery, which is tried from now on.
func (s *Service) stays(ctx context.Context, t *turn, o *open) operation.Answer {
	s.cfg.Log.LogAttrs(ctx, slog.LevelError, "the disk did not answer, and it is decided about an operation when it does",
		slog.String(key.Operation, t.op.ID), slog.Any(key.Cause, o))
	s.retry(ctx, t.op)
	r := operation.InProgress(t.op.ID, t.op.Claimed)
	r.Message = "the disk did not answer while " + t.op.ID + " was carried out; mcpx finds out what has happened when it does"
	a := refusal(r.With("cause", o.why))
	a.Operation = t.op.Standing(false)
	return a
}

// finish records how an effect ended. An error is that the record could not be written: the operation stays begun, and its recovery
// records it.
func (s *Service) finish(ctx context.Context, t *turn, data any, effect error, e ending) (operation.Answer, error) {
	state := operation.Succeeded
	a := s.answer(ctx, t, data, effect)
	switch {
	case effect == nil:
	case a.Status == operation.OutcomeUnclear:
		state, t.op.Code = operation.Unknown, string(a.Refusal.Code)
	default:
		state, t.op.Code = operation.Failed, string(a.Refusal.Code)
		a.Status, a.Refusal.Retry = operation.OutcomeFailed, fault.NewID
	}
	crash.Point("op.record.before")
	err := s.recorded(ctx, t, data, state, &a)
	if r, ok := errors.AsType[*operation.Refusal](err); ok && state == operation.Succeeded {
		state, a = operation.Unknown, refusal(operation.Unclear(t.op).With("cause", r.Message)) // somebody has to look
		if t.tool.rows {
			state, a = operation.Failed, refusal(r.Retrying(fault.NewID).Ending(operation.OutcomeFailed))
		}
		t.op.Code = string(a.Refusal.Code)
		err = s.recorded(ctx, t, nil, state, &a)
	}
	if _, ok := errors.AsType[*operation.Refusal](err); ok {
		t.keeper = nil // its rows are in no state for any end of it
		err = s.recorded(ctx, t, nil, state, &a)
	}
	crash.Point("op.record.after")
	if err != nil {
		a := s.answer(ctx, t, nil, operation.Refuse(operation.StoreDegraded, "%s was carried out, and that could not be written down yet", t.op.ID).
			Retrying(fault.AfterWait).Ending(operation.OutcomeInProgress))
		return a, err
	}
	if e != nil {
		e.settle(ctx)
	}
	a.Operation = t.op.Standing(false)
	return a, nil
}

// recorded commits the end of an operation.
func (s *Service) recorded(ctx context.Context, t *turn, data any, state operation.State, a *operation.Answer) error {
	return s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		fitted, err := s.fitted(ctx, tx, t, *a)
		if err != nil {
			return err
		}
		*a = fitted
		if err := s.tellFiles(ctx, tx, t, data); err != nil {
			return err
		}
		return s.record(ctx, tx, t, state, a)
	})
}

// record writes the end of an operation into the transaction of its last change.
func (s *Service) record(ctx context.Context, tx store.Tx, t *turn, state operation.State, a *operation.Answer) error {
	t.op.State, t.op.Ended = state, s.cfg.Now()
	// Whoever waited has the end of a command with this answer; of every other one it is shown by a later question.
	t.op.Acked = t.op.Acked || t.tool.Name == "execute_command" && !t.left.Load() && !t.unheard() && !t.op.Recovery
	if t.op.Begun.IsZero() {
		t.op.Begun = t.op.Ended
	}
	if t.keeper != nil {
		if err := t.keeper.keep(ctx, tx, t, a); err != nil {
			return err
		}
	}
	result, err := json.Marshal(a)
	if err != nil {
		return err
	}
	t.op.Result = result
	return s.row(ctx, tx, t, event.OperationEnded, string(state))
}

// write writes the operation on its way with its event, and what its effect has of its own.
func (s *Service) write(ctx context.Context, tx store.Tx, t *turn, kind event.Kind, what string) error {
	if t.keeper != nil {
		if err := t.keeper.keep(ctx, tx, t, nil); err != nil {
			return err
		}
	}
	return s.row(ctx, tx, t, kind, what)
}

func (s *Service) row(ctx context.Context, tx store.Tx, t *turn, kind event.Kind, what string) error {
	if err := tx.PutOperation(ctx, operation.PutOperation{Operation: t.op}); err != nil {
		return err
	}
	return s.tell(ctx, tx, t, kind, nil, t.op.Tool+" "+what, s.operationBody(t, kind))
}

// operationRefs are what an event about an operation is about.
func operationRefs(o operation.Operation) event.Refs {
	refs := event.Refs{event.RefOperation: o.ID}
	for name, value := range map[event.Ref]string{event.RefSession: o.Session, event.RefProject: o.Project} {
		if value != "" {
			refs[name] = value
		}
	}
	return refs
}

// unwritten makes the refusal when the ledger or the log takes nothing: then nothing is carried out.
func unwritten(err error) error {
	if _, ok := errors.AsType[*operation.Refusal](err); ok || fault.KindOf(err) != fault.Unavailable && fault.KindOf(err) != fault.Busy {
		return err
	}
	if f := fault.From(err); f.Code == "store-degraded" {
		return degraded(f)
	}
	return operation.Refuse(operation.AuditUnavailable, "nothing was done, because it could not be written down: %s", fault.From(err).Message).Retrying(fault.AfterWait)
}

// degraded is the refusal of a database that changes nothing, or is read by nobody now, with what to do about it.
func degraded(f *fault.Error) *operation.Refusal {
	r := operation.Refuse(operation.StoreDegraded, "%s", f.Message).Retrying(cmp.Or(f.Retry, fault.AfterWait))
	if f.Hint != "" {
		r.Message += "; " + f.Hint
	}
	return r
}

// keepable are the arguments as they may be stored.
func (t *turn) keepable() json.RawMessage {
	kept := t.Args
	if slices.ContainsFunc(t.tool.secret, func(name string) bool { return t.args[name] != nil }) {
		shown := maps.Clone(t.args)
		for _, name := range t.tool.secret {
			if shown[name] != nil {
				shown[name] = json.RawMessage(`"[not kept]"`)
			}
		}
		kept, _ = json.Marshal(shown) // raw members that were read are written as they are
	}
	if len(kept) > maxKeptArgs {
		return nil
	}
	return kept
}

// maxKeptArgs bounds the arguments that are stored with an operation: what a retry needs, not what it carries.
const maxKeptArgs = 16 << 10
