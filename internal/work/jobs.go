package work

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/key"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/store"
)

const (
	// lookMost and lookLeast bound how often the directory of a job that runs is looked at: in between it is a part of its
	// age, so that a short command is not made long by waiting for it.
	lookLeast = time.Millisecond
	lookMost  = 100 * time.Millisecond
	lookPart  = 20
	// settleWithin is how long a supervisor that was started may take to say what became of the command.
	settleWithin = 10 * time.Second
	// storeAgain is how long what has to be written waits when the database takes nothing.
	storeAgain = time.Second
)

// jobs are the commands that run or wait.
type jobs struct {
	s     *Service
	limit int

	// line is held from the place in the queue to its row, and taken before mu: a daemon that comes later finds the same order.
	line sync.Mutex
	mu   sync.Mutex // guards live
	live []*live    // in the order of their coming
}

// live is a job that has not ended.
type live struct {
	command command       // what is started; of one that was found running it is empty
	actor   event.Actor   // whose job it is
	begun   chan struct{} // closed when it runs, or is known not to
	done    chan struct{} // closed when its end is recorded

	ready, runs bool // guarded by jobs.mu: it may be started; it has its place

	mu  sync.Mutex // guards job
	job operation.Job
}

func (l *live) get() operation.Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.job
}

func (l *live) set(j operation.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.job = j
}

// find is a job that has not ended; nil when it has, or there is none.
func (q *jobs) find(id string) *live {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.live {
		if l.get().ID == id {
			return l
		}
	}
	return nil
}

// full tells that no more jobs can wait.
func (q *jobs) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := 0
	for _, l := range q.live {
		if !l.runs {
			waiting++
		}
	}
	return waiting >= operation.MaxQueue
}

// submit takes a job whose operation is dispatched. It is started when it is its turn, which may be now.
func (q *jobs) submit(ctx context.Context, c command, actor event.Actor) (*live, error) {
	l := &live{command: c, actor: actor, job: c.job, begun: make(chan struct{}), done: make(chan struct{}), ready: true}
	q.line.Lock()
	defer q.line.Unlock()
	if q.add(ctx, l) {
		return l, nil
	}
	j := l.get()
	j.Queued = true
	if err := q.write(ctx, l, j, event.JobQueued, "a command waits for its turn"); err != nil {
		q.remove(l)
		return nil, err
	}
	q.mu.Lock()
	l.ready = true
	q.mu.Unlock()
	q.turn(ctx)
	return l, nil
}

// add puts a job at the end, and starts it when it is its turn. One that has to wait is started by nobody until it is
// written down: a job that waits is found again by its row.
func (q *jobs) add(ctx context.Context, l *live) (runs bool) {
	q.mu.Lock()
	q.live = append(q.live, l)
	next := q.nextLocked()
	l.ready = l.runs
	q.mu.Unlock()
	q.startAll(ctx, next)
	return l.ready
}

// turn starts the jobs whose turn it is.
func (q *jobs) turn(ctx context.Context) {
	q.mu.Lock()
	next := q.nextLocked()
	q.mu.Unlock()
	q.startAll(ctx, next)
}

// nextLocked gives the jobs whose turn it is their places.
func (q *jobs) nextLocked() []*live {
	var waiting, running []operation.Job
	for _, l := range q.live {
		if l.runs {
			running = append(running, l.get())
		} else {
			waiting = append(waiting, l.get())
		}
	}
	var next []*live
	held := map[string]bool{} // projects in which nobody may overtake one that is not ready
	for _, j := range operation.NextJobs(waiting, running, q.limit) {
		l := q.live[slices.IndexFunc(q.live, func(l *live) bool { return l.get().ID == j.ID })]
		if held[j.Project] = held[j.Project] || !l.ready; held[j.Project] {
			continue
		}
		l.runs = true
		next = append(next, l)
	}
	return next
}

func (q *jobs) startAll(ctx context.Context, all []*live) {
	for _, l := range all {
		q.s.running.Go(func() { q.start(context.WithoutCancel(ctx), l) })
	}
}

func (q *jobs) remove(l *live) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.live = slices.DeleteFunc(q.live, func(one *live) bool { return one == l })
}

// start starts a job and watches it.
func (q *jobs) start(ctx context.Context, l *live) {
	e, err := q.launch(ctx, l)
	q.follow(ctx, l, e, err)
}

// follow goes with a job from its start to its end. With an error it is not known whether it was started.
func (q *jobs) follow(ctx context.Context, l *live, e operation.JobEvidence, err error) {
	ref := l.get().JobRef
	if state, _ := e.Judge(); err == nil && (state == operation.JobStarting || state == operation.JobReserved) {
		err = errors.New("its supervisor ended before it started anything")
	}
	for err != nil {
		if e, err = q.settle(ctx, ref, err); err == nil {
			break
		}
		q.s.cfg.Log.LogAttrs(ctx, slog.LevelError, "nobody knows yet whether a command was started", slog.String(key.Job, ref.ID), slog.Any(key.Cause, err))
		if !q.s.again() {
			return
		}
	}
	before := l.get().State
	j := l.get().Conclude(e, q.s.cfg.Now())
	if !j.State.Final() && j.State != before && !q.persist(ctx, l, j, event.JobStarted, "a command was started") {
		return
	}
	l.set(j)
	close(l.begun)
	q.watch(ctx, l, j)
}

// launch asks once more whether the command may run, and starts it.
func (q *jobs) launch(ctx context.Context, l *live) (operation.JobEvidence, error) {
	c := l.command
	if l.get().Queued {
		if reason, err := q.again(ctx, &c); err != nil {
			return q.notRun(ctx, l.get().JobRef, reason, err)
		}
	}
	values, err := q.lend(ctx, l, &c.Command)
	if err != nil {
		return q.notRun(ctx, l.get().JobRef, operation.NoSecret, err)
	}
	launch, err := q.s.cfg.Gate.Contain(ctx, c.Command, c.ruling)
	if err != nil {
		return q.notRun(ctx, l.get().JobRef, operation.NotAllowed, err)
	}
	return q.s.cfg.Runner.Start(ctx, operation.StartJob{
		JobRef: l.get().JobRef, File: launch.File, Argv: launch.Argv, Env: launch.Env, Dir: c.Dir, Stdin: c.job.Command.Stdin, Text: c.text,
		Timeout: c.job.Command.Timeout, Secrets: values,
	})
}

// again decides about a command that waited, by what its skill, the grants of its secrets and the rules are now.
func (q *jobs) again(ctx context.Context, c *command) (reason string, err error) {
	if c.skill != nil {
		if err := q.s.unchanged(ctx, c.job.Project, *c.skill); err != nil {
			return operation.NotAllowed, err
		}
	}
	if len(c.Secrets) > 0 {
		x, err := q.s.ofProject(ctx, c.job.Project)
		if err != nil {
			return operation.NotAllowed, err
		}
		defer x.close()
		secrets, err := q.s.granted(ctx, x.Project, c.Secrets)
		if err == nil {
			err = q.s.ready(ctx, secrets, c.Env)
		}
		if err != nil {
			return operation.NoSecret, err
		}
		c.Receivers = receivers(secrets)
	}
	c.ruling, err = q.s.cfg.Gate.Judge(ctx, c.Command)
	if err == nil && (c.ruling.Decision == policy.Deny || c.ruling.Frozen.Digest() != c.job.Frozen) {
		err = errors.New("while it waited, what was decided about has changed")
	}
	return operation.NotAllowed, err
}

// settle decides about a start that failed: what a supervisor that lives has to say is waited for, and what was not started
// never is.
func (q *jobs) settle(ctx context.Context, ref operation.JobRef, cause error) (operation.JobEvidence, error) {
	for limit := time.Now().Add(settleWithin); ; time.Sleep(lookMost) {
		e, err := q.s.cfg.Runner.Look(ctx, ref)
		state, _ := e.Judge()
		switch {
		case err == nil && state == operation.JobReserved:
			if e, err = q.notRun(ctx, ref, operation.SpawnFailed, cause); err == nil {
				return e, nil
			}
		case err == nil && state != operation.JobStarting:
			return e, nil
		}
		if time.Now().After(limit) {
			return e, errors.Join(cause, err)
		}
	}
}

// notRun fences an attempt off, and is the evidence that it did not run.
func (q *jobs) notRun(ctx context.Context, ref operation.JobRef, reason string, cause error) (operation.JobEvidence, error) {
	if err := q.s.cfg.Runner.Fence(ctx, ref); err != nil {
		return operation.JobEvidence{}, err
	}
	return operation.JobEvidence{Exit: &operation.JobExit{At: q.s.cfg.Now(), State: operation.JobFailed, Code: -1, Reason: reason, Text: plain(cause)}}, nil
}

// plain is an error for people: what is wrong, without what a program makes of it.
func plain(err error) string {
	if r, ok := errors.AsType[*operation.Refusal](err); ok {
		return r.Message
	}
	return fault.From(err).Message
}

// watch waits for the end of a job and records it. A daemon that stops leaves the job alone: the next one finds it.
func (q *jobs) watch(ctx context.Context, l *live, j operation.Job) {
	for begun := time.Now(); !j.State.Final(); {
		e, err := q.s.cfg.Runner.Look(ctx, j.JobRef)
		if state, _ := e.Judge(); err == nil && state != operation.JobReserved {
			j = j.Conclude(e, q.s.cfg.Now())
		}
		if j.State.Final() {
			break
		}
		select {
		case <-time.After(min(max(time.Since(begun)/lookPart, lookLeast), lookMost)):
		case <-q.s.quit:
			return
		}
	}
	if q.persist(ctx, l, j, event.JobEnded, "a command is "+string(j.State)) {
		q.remove(l)
		close(l.done)
		q.turn(ctx)
	}
}

// persist writes a job until it is written. False: the daemon stops.
func (q *jobs) persist(ctx context.Context, l *live, j operation.Job, kind event.Kind, summary string) bool {
	for {
		err := q.write(ctx, l, j, kind, summary)
		if err == nil {
			return true
		}
		q.s.cfg.Log.LogAttrs(ctx, slog.LevelError, "what became of a command could not be written down yet", slog.String(key.Job, j.ID), slog.Any(key.Cause, err))
		if !q.s.again() {
			return false
		}
	}
}

// again waits until something is tried once more that the database or the disk did not take. False: the daemon stops.
func (s *Service) again() bool {
	select {
	case <-time.After(storeAgain):
		return true
	case <-s.quit:
		return false
	}
}

// write writes a job with its event.
func (q *jobs) write(ctx context.Context, l *live, j operation.Job, kind event.Kind, summary string) error {
	err := q.s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		if err := tx.PutJob(ctx, operation.PutJob{Job: j}); err != nil {
			return err
		}
		return q.s.tellJob(ctx, tx, j, l.actor, kind, summary, struct {
			State  operation.JobState `json:"state"`
			Reason string             `json:"reason,omitempty"`
			Code   *int               `json:"exit_code,omitempty"`
			Signal string             `json:"signal,omitempty"`
			Argv   []string           `json:"argv,omitempty"`
			Shell  string             `json:"shell,omitempty"`
			Dir    string             `json:"cwd"`
		}{j.State, j.Reason, j.Code, j.Signal, j.Command.Argv, j.Command.Shell, j.Command.Dir})
	})
	if err == nil {
		l.set(j)
	}
	return err
}

// tellJob writes an event about a job.
func (s *Service) tellJob(ctx context.Context, tx store.Tx, j operation.Job, actor event.Actor, kind event.Kind, summary string, body any) error {
	refs := event.Refs{event.RefJob: j.ID}
	for name, value := range map[event.Ref]string{event.RefOperation: j.By.ID, event.RefProject: j.Project, event.RefSession: j.Session} {
		if value != "" { // one that was found without a record knows none of them
			refs[name] = value
		}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = tx.AppendEvent(ctx, event.Draft{At: s.cfg.Now(), Kind: kind, Actor: actor, Refs: refs, Summary: s.cfg.Redact(summary + ": " + j.Command.String()), Body: s.redacted(raw)})
	return err
}

// errLeft says that the daemon stops while an effect goes on by itself: the next daemon records its end.
var errLeft = errors.New("this daemon stops, and the effect goes on")

// until waits for the end of a job. errLeft in a daemon that stops.
func (s *Service) until(c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-s.quit:
		return errLeft
	}
}

// liveJobs are the ids of the jobs of a session that have not ended.
func liveJobs(ctx context.Context, r store.Reader, session string) ([]string, error) {
	all, err := operation.AllJobs(ctx, r, operation.ListJobs{Session: session, Live: true})
	ids := make([]string, 0, len(all))
	for _, j := range all {
		ids = append(ids, j.ID)
	}
	return ids, err
}
