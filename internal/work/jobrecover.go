package work

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/key"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// commandEvidence is what recovery needs of a command.
type commandEvidence struct {
	Job    operation.Job  `json:"job"`
	Policy policy.Verdict `json:"policy"`
}

// errNotRun says that an effect of an earlier daemon is proved not to have begun, and never will: the same call begins it.
var errNotRun = errors.New("nothing was begun")

// later is what recovery finds of an effect that goes on by itself: its end is waited for while others already call.
type later struct {
	wait func(context.Context) (any, error)
}

func (*later) Error() string { return "it goes on" }

// recoverCommand says how the operation that started a job has ended, by what the directory of the job says.
func recoverCommand(ctx context.Context, s *Service, t *turn) (any, ending, error) {
	if t.op.State == operation.Claimed {
		return nil, nil, nil // its directory has no row, and is swept with the others
	}
	if s.cfg.Runner == nil {
		return nil, nil, errors.New("this daemon runs no commands")
	}
	was, err := evidenceOf[commandEvidence](t.op)
	if err != nil {
		return nil, nil, err
	}
	j, err := s.storedJob(ctx, was.Job)
	if err != nil {
		return nil, nil, err
	}
	l, j, err := s.jobs.adopt(ctx, j)
	if err != nil {
		return nil, nil, err
	}
	ruling := Ruling{Verdict: was.Policy}
	if l == nil {
		data, err := s.concluded(ctx, t, j, ruling)
		return data, nil, err
	}
	return nil, nil, &later{func(ctx context.Context) (any, error) { return s.ran(ctx, t, l, ruling) }}
}

// storedJob is a job as it was recorded last; one that has no row is as it was when its operation began.
func (s *Service) storedJob(ctx context.Context, j operation.Job) (operation.Job, error) {
	err := s.cfg.DB.View(ctx, func(r store.Reader) error {
		row, err := r.JobByID(ctx, operation.JobByID{ID: j.ID})
		if err == nil {
			j = row
		}
		return err
	})
	if fault.KindOf(err) == fault.NotFound {
		err = nil
	}
	return j, err
}

// adopt takes up a job of an earlier daemon: nil when it has ended. errNotRun: it was about to be started, and that did not
// happen.
func (q *jobs) adopt(ctx context.Context, j operation.Job) (*live, operation.Job, error) {
	if l := q.find(j.ID); l != nil {
		return l, l.get(), nil
	}
	if j.State.Final() {
		return nil, j, nil
	}
	e, err := q.s.cfg.Runner.Look(ctx, j.JobRef)
	if err != nil {
		return nil, j, err
	}
	state, _ := e.Judge()
	l := &live{
		job: j, actor: event.Actor{Principal: j.By.Namespace, Channel: "recovery"}, begun: make(chan struct{}), done: make(chan struct{}), ready: true, runs: true,
	}
	switch {
	case state == operation.JobReserved && j.Queued:
		return q.requeue(ctx, l)
	case state == operation.JobReserved:
		if err := q.s.cfg.Runner.Fence(ctx, j.JobRef); err != nil {
			return nil, j, err
		}
		return nil, j, errors.Join(q.s.cfg.Runner.Discard(ctx, j.JobRef), errNotRun)
	case state.Final():
		j = j.Conclude(e, q.s.cfg.Now())
		return nil, j, q.write(ctx, l, j, event.JobEnded, "a command is "+string(j.State))
	}
	q.mu.Lock()
	q.live = append(q.live, l)
	q.mu.Unlock()
	q.s.running.Go(func() { q.follow(context.WithoutCancel(ctx), l, e, nil) })
	return l, j, nil
}

// requeue gives a job that waits a new attempt: a supervisor of the one before that comes late finds the fence.
func (q *jobs) requeue(ctx context.Context, l *live) (*live, operation.Job, error) {
	j := l.get()
	if err := q.s.cfg.Runner.Fence(ctx, j.JobRef); err != nil {
		return nil, j, err
	}
	fail := func(reason string, why error) (*live, operation.Job, error) {
		j = j.Conclude(operation.JobEvidence{Exit: &operation.JobExit{At: q.s.cfg.Now(), State: operation.JobFailed, Code: -1, Reason: reason, Text: plain(why)}}, q.s.cfg.Now())
		return nil, j, q.write(ctx, l, j, event.JobEnded, "a command is "+string(j.State))
	}
	if j.Command.HasValues() {
		return fail(operation.ValuesGone, fault.New(fault.Unavailable, "values-gone").Saying("it waited, and the daemon that held its values is gone"))
	}
	j.Attempt++
	if err := q.s.cfg.Runner.Reserve(ctx, j.JobRef); err != nil {
		return nil, j, err
	}
	x, err := q.s.reopen(ctx, j.Project, j.Workspace)
	if err != nil {
		return fail(operation.NotAllowed, err)
	}
	defer x.close()
	if x.builds, err = q.s.inputsOf(ctx, j); err != nil {
		return fail(operation.NotRun, err)
	}
	if l.command.Command, err = q.s.resolved(x, j, nil, nil); err != nil {
		return fail(operation.NotAllowed, err)
	}
	secrets, err := q.s.granted(ctx, x.Project, j.Command.Secrets)
	if err != nil {
		return fail(operation.NoSecret, err)
	}
	l.command.Receivers = receivers(secrets)
	l.command.job, l.runs = j, false
	if err := q.write(ctx, l, j, event.JobQueued, "a command waits for its turn"); err != nil {
		return nil, j, err
	}
	q.mu.Lock()
	q.live = append(q.live, l)
	q.mu.Unlock()
	return l, j, nil
}

// recoverJobs takes up what is in the record and not yet in memory, and what lies on the disk and is in no record.
func (s *Service) recoverJobs(ctx context.Context) error {
	if s.cfg.Runner == nil {
		return nil
	}
	var open []operation.Job
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		open, err = operation.AllJobs(ctx, r, operation.ListJobs{Live: true})
		return err
	})
	if err != nil {
		return err
	}
	slices.Reverse(open) // the oldest first: that is the order of the queue
	var failed error
	for _, j := range open {
		if _, _, err := s.jobs.adopt(ctx, j); err != nil && !errors.Is(err, errNotRun) {
			s.cfg.Log.LogAttrs(ctx, slog.LevelError, "a command of an earlier daemon could not be decided", slog.String(key.Job, j.ID), slog.Any(key.Cause, err))
			failed = errors.Join(failed, err)
		}
	}
	failed = errors.Join(failed, s.sweepJobs(ctx))
	s.jobs.turn(ctx)
	return failed
}

// sweepJobs looks at the directories that are in no record. One in which nothing was started is removed; one in which
// something was is listed, and never run again.
func (s *Service) sweepJobs(ctx context.Context) error {
	refs, err := s.cfg.Runner.Attempts(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, ref := range refs {
		j, err := s.storedJob(ctx, operation.Job{JobRef: ref})
		if err != nil || j.By.Namespace != "" && j.Attempt == ref.Attempt {
			failed = errors.Join(failed, err)
			continue
		}
		e, err := s.cfg.Runner.Look(ctx, ref)
		if err == nil {
			err = s.unrecorded(ctx, j, ref, e)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

func (s *Service) unrecorded(ctx context.Context, j operation.Job, ref operation.JobRef, e operation.JobEvidence) error {
	state, _ := e.Judge()
	if state == operation.JobReserved {
		return errors.Join(s.cfg.Runner.Fence(ctx, ref), s.cfg.Runner.Discard(ctx, ref))
	}
	if j.By.Namespace != "" {
		return nil // of an earlier attempt: the one that counts is recorded
	}
	j.By.Namespace, j.Label, j.State, j.Reserved = session.Operator, "found without a record", operation.JobRunning, s.cfg.Now()
	_, _, err := s.jobs.adopt(ctx, j)
	return err
}

// ofProject opens the directory of a project.
func (s *Service) ofProject(ctx context.Context, project string) (*target, error) {
	var p session.Admission
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		p.Project, err = r.ProjectByID(ctx, session.ByID{ID: project})
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.open(p)
}

// reopen opens what something of an earlier time acts on: the working copy of a workspace, or the project itself.
func (s *Service) reopen(ctx context.Context, project, id string) (*target, error) {
	if id == "" {
		return s.ofProject(ctx, project)
	}
	var p packet
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		if p.Workspace, err = r.WorkspaceByID(ctx, workspace.ByID{ID: id}); err != nil {
			return err
		}
		p.dir.Dir = p.Dir
		p.Admission.Project, err = r.ProjectByID(ctx, session.ByID{ID: project})
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.copy(p)
}

// recoverInput says whether a chunk was appended before the daemon ended.
func recoverInput(ctx context.Context, s *Service, t *turn) (any, ending, error) {
	if t.op.State == operation.Claimed {
		return nil, nil, nil
	}
	was, err := evidenceOf[inputEvidence](t.op)
	if err != nil {
		return nil, nil, err
	}
	fed, err := s.cfg.Runner.Fed(ctx, was.Ref, t.op.ID)
	if err != nil {
		return nil, nil, undecided(err)
	}
	if !fed {
		return nil, nil, errNotRun
	}
	in, err := s.cfg.Runner.Input(ctx, was.Ref)
	if err != nil {
		return nil, nil, undecided(err)
	}
	return fedAnswer{was.Bytes, in}, nil, nil
}

// recoverStop goes on with a stop. To ask for it twice is to ask once.
func recoverStop(ctx context.Context, s *Service, t *turn) (any, ending, error) {
	if t.op.State == operation.Claimed {
		return nil, nil, nil
	}
	wish, err := evidenceOf[operation.StopJob](t.op)
	if err != nil {
		return nil, nil, err
	}
	j, err := s.storedJob(ctx, operation.Job{JobRef: wish.JobRef, State: operation.JobLost})
	if err != nil {
		return nil, nil, err
	}
	p := &stop{s: s, t: t, job: j, wish: wish}
	return nil, nil, &later{p.run}
}
