package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"mcpx/internal/key"
	"mcpx/internal/operation"
	paging "mcpx/internal/page"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/tree"
)

// Recover carries what an earlier daemon has begun to its end, by what is on the disk (durable-work.md section 9, C3 to
// C10). It is called before anybody can call a tool. What cannot be decided now stays as it is, and is tried again at the
// next start; with a store that is stopped that is everything.
func (s *Service) Recover(ctx context.Context) error {
	if s.cfg.DB.Stopped() != nil {
		return nil
	}
	open, err := s.unfinished(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, o := range open {
		if err := s.recoverOne(ctx, o); err != nil {
			s.cfg.Log.LogAttrs(ctx, slog.LevelError, "an operation of an earlier daemon could not be decided", slog.String(key.Operation, o.ID), slog.Any(key.Cause, err))
			failed = errors.Join(failed, err)
		}
	}
	return errors.Join(failed, s.recoverJobs(ctx), s.agree(ctx), s.recoverGenerations(ctx))
}

func (s *Service) unfinished(ctx context.Context) (all []operation.Operation, err error) {
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		all, err = paging.Gather(operation.Each(ctx, r, operation.ListOperations{Open: true, States: []operation.State{operation.Claimed, operation.Dispatched}}))
		return err
	})
	return all, err
}

func (s *Service) recoverOne(ctx context.Context, o operation.Operation) error {
	tool := s.tools[o.Tool]
	if tool == nil || tool.recover == nil {
		return nil // of a tool of another version: its row says where it stands
	}
	t := &turn{Call: Call{Tool: o.Tool, Principal: o.Namespace, Channel: "recovery"}, tool: tool, op: o}
	data, e, err := tool.recover(ctx, s, t)
	if e != nil {
		defer e.close()
		t.keeper, _ = e.(keeper)
	}
	if o.State == operation.Claimed {
		return err // never begun: the same call goes on with the claim
	}
	t.op.Recovery = true
	if l, ok := errors.AsType[*later](err); ok {
		s.goOn(context.WithoutCancel(ctx), t, l)
		return nil
	}
	if errors.Is(err, errNotRun) {
		t.op.State, t.op.Begun, t.op.Evidence = operation.Claimed, time.Time{}, nil
		return s.cfg.DB.Change(ctx, func(tx store.Tx) error { return tx.PutOperation(ctx, operation.PutOperation{Operation: t.op}) })
	}
	if err != nil {
		if _, decided := errors.AsType[*operation.Refusal](err); !decided {
			return err
		}
	}
	_, err = s.finish(ctx, t, data, err, e)
	return err
}

const (
	// decideFirst and decideMost are how long is waited before it is tried to decide about an operation that could not be
	// ended: twice as long each time.
	decideFirst = 500 * time.Millisecond
	decideMost  = time.Minute
	// decideWithin is how long it is tried: a disk that is gone for longer is left to the next start.
	decideWithin = time.Hour
)

// retry recovers an operation that was begun, as the next start would, as soon as the disk or the store answers. Until then nobody
// else gets into the workspace that it acts in.
func (s *Service) retry(ctx context.Context, o operation.Operation) {
	letIn := s.leases.keepOut(actsIn(o))
	s.running.Go(func() {
		if s.decideLater(ctx, o.Name) {
			letIn()
		}
	})
}

// decideLater waits for the end of an operation, and tries to decide about it. false: it is left to the next start.
func (s *Service) decideLater(ctx context.Context, name operation.Name) bool {
	for wait, waited := decideFirst, time.Duration(0); waited < decideWithin; wait = min(2*wait, decideMost) {
		select {
		case <-s.quit:
			return false
		case <-time.After(wait):
		}
		waited += wait
		if s.decideNow(ctx, name) {
			return true
		}
	}
	s.cfg.Log.LogAttrs(ctx, slog.LevelError, "the next start of the daemon decides about an operation", slog.String(key.Operation, name.ID))
	return false
}

// decideNow recovers an operation once, alone for it. false: it is still open.
func (s *Service) decideNow(ctx context.Context, name operation.Name) bool {
	leave, _ := s.enter(name)
	if leave == nil {
		return false // somebody asks for it, or this daemon stops
	}
	defer leave()
	row, err := s.find(ctx, name)
	if err != nil {
		return false
	}
	if row == nil || row.State != operation.Dispatched {
		return true // decided meanwhile
	}
	if row.Class == operation.FS {
		done, err := s.act(ctx)
		if err != nil {
			return false
		}
		defer done()
	}
	if !s.leases.idle(actsIn(*row)) {
		return false // somebody was in there before it, and ends first
	}
	if err := s.recoverOne(ctx, *row); err != nil {
		s.cfg.Log.LogAttrs(ctx, slog.LevelDebug, "it cannot be decided yet about an operation", slog.String(key.Operation, name.ID), slog.Any(key.Cause, err))
		return false
	}
	return true
}

// actsIn is the workspace that an operation which was begun acts in; "" none.
func actsIn(o operation.Operation) string {
	type within struct {
		Workspace string `json:"workspace_id"`
	}
	var e struct {
		within
		Resumed  within `json:"workspace"`
		Removed  within `json:"removed"`
		Restored within `json:"restored"`
	}
	if json.Unmarshal(o.Evidence, &e) != nil {
		return ""
	}
	return cmp.Or(e.Workspace, e.Resumed.Workspace, e.Removed.Workspace, e.Restored.Workspace)
}

// goOn waits for the end of an effect that goes on by itself, and records it. Calls with its id wait meanwhile.
func (s *Service) goOn(ctx context.Context, t *turn, l *later) {
	leave, _ := s.enter(t.op.Name)
	if leave == nil {
		return // this daemon stops already
	}
	s.running.Go(func() {
		defer leave()
		data, err := l.wait(ctx)
		if errors.Is(err, errLeft) {
			return
		}
		if _, err := s.finish(ctx, t, data, err, nil); err != nil {
			s.retry(ctx, t.op)
		}
	})
}

// recoverEdit carries a batch to its end, or clears away what was staged for one that never began.
func recoverEdit(ctx context.Context, s *Service, t *turn) (data any, end ending, err error) {
	var was editEvidence
	if t.op.State != operation.Claimed {
		if was, err = evidenceOf[editEvidence](t.op); err != nil {
			return nil, nil, err
		}
	}
	x, err := s.reopen(ctx, t.op.Project, was.Workspace)
	if err != nil {
		return nil, nil, undecided(err)
	}
	e := &edit{s: s, at: x, id: batchID(t.op)}
	if err := x.elsewhere(); err != nil {
		return nil, e, undecided(err)
	}
	if e.area, err = x.root.Area(s.cfg.State); err != nil {
		return nil, e, undecided(err)
	}
	if t.op.State == operation.Claimed {
		return nil, e, undecided(e.area.Discard(e.id))
	}
	e.batch = was.Batch
	o, err := x.root.Recover(ctx, e.area, e.batch, tree.Conditions{})
	if err != nil {
		return nil, e, undecided(err)
	}
	data, err = e.ended(was.Answer, o)
	return data, e, err
}

// elsewhere says that another directory has the place of the project: a journal waits until a person has said which one it is.
func (x *target) elsewhere() error {
	if x.workspace != nil || x.Project.State != session.ProjectMoved {
		return nil
	}
	return x.Project.Usable()
}

// open is an error that decides nothing about an operation: its recovery finds out what has happened.
type open struct{ why string }

func (o *open) Error() string { return o.why }

// undecided hides that an error is a refusal: a disk that does not answer decides nothing about an operation.
func undecided(err error) error {
	if err == nil {
		return nil
	}
	return &open{err.Error()}
}
