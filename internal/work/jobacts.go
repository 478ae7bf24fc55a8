package work

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// WriteCommandInput are the arguments of write_command_input.
type WriteCommandInput struct {
	ID
	Claims
	Session string  `json:"remote_session_id,omitempty" jsonschema:"the session"`
	Job     string  `json:"job_id" jsonschema:"a job that was started with stdin open"`
	Text    *string `json:"text,omitempty" jsonschema:"at most 64 KB; not stored"`
	Base64  *string `json:"base64,omitempty" jsonschema:"instead of text: bytes"`
	EOF     bool    `json:"eof,omitempty" jsonschema:"the input ends here"`
}

// StopCommand are the arguments of stop_command.
type StopCommand struct {
	ID
	Claims
	Session string `json:"remote_session_id,omitempty" jsonschema:"the session"`
	Job     string `json:"job_id" jsonschema:"the job"`
	Signal  string `json:"signal,omitempty" jsonschema:"TERM, INT, HUP, QUIT or KILL; TERM without it"`
	Grace   *int   `json:"grace_s,omitempty" jsonschema:"0 to 60 seconds, then it is killed; 5 without it"`
}

const (
	maxChunk   = 64 << 10
	usualGrace = 5
	maxGrace   = 60
	// stopLook is how often the end of a stop is looked for.
	stopLook = 20 * time.Millisecond
)

// acting finds the job of a call that acts on it.
func (s *Service) acting(ctx context.Context, t *turn, id string) (j operation.Job, err error) {
	if s.cfg.Runner == nil {
		return j, uncontained()
	}
	err = s.cfg.DB.View(ctx, func(r store.Reader) error {
		j, err = s.admitJob(ctx, r, t, id, session.ActChange)
		return err
	})
	t.op.Session, t.op.Project = j.Session, j.Project
	return j, err
}

// feed is a write to the standard input of a job, on its way through the ledger.
type feed struct {
	s     *Service
	t     *turn
	job   operation.Job
	chunk operation.Chunk

	command Command // that reads the text
	ruling  Ruling
}

func beginInput(ctx context.Context, s *Service, t *turn) (effect, error) {
	var in WriteCommandInput
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	j, err := s.acting(ctx, t, in.Job)
	if err != nil {
		return nil, err
	}
	f := &feed{s: s, t: t, job: j, chunk: operation.Chunk{JobRef: j.JobRef, By: t.op.ID, EOF: in.EOF}}
	switch {
	case in.Text != nil && in.Base64 == nil:
		f.chunk.Data = []byte(*in.Text)
	case in.Base64 != nil && in.Text == nil:
		if f.chunk.Data, err = base64.StdEncoding.DecodeString(*in.Base64); err != nil {
			return nil, operation.Refuse(operation.ArgumentInvalid, "base64 is no base64")
		}
	case in.Text != nil || !in.EOF:
		return nil, operation.Refuse(operation.ArgumentInvalid, "give one of text and base64, or eof alone")
	}
	if len(f.chunk.Data) > maxChunk {
		return nil, operation.Refuse(operation.LimitExceeded, "one write has at most 64 KB").With("limit", maxChunk).With("value", len(f.chunk.Data))
	}
	if j.State.Final() {
		return nil, over(j)
	}
	if j.State == operation.JobReserved {
		return nil, operation.Refuse("STDIN_CLOSED", "the job has not been started yet").Retrying(fault.AfterWait)
	}
	if j.Command.Stdin != operation.StdinOpen {
		return nil, operation.Refuse("STDIN_CLOSED", "the job was not started with stdin open").Retrying(fault.Never)
	}
	now, err := s.cfg.Runner.Input(ctx, j.JobRef)
	if err != nil {
		return nil, err
	}
	if now.Closed {
		return nil, operation.Refuse("STDIN_CLOSED", "the input of the job has ended").Retrying(fault.Never)
	}
	if now.Queued+len(f.chunk.Data) > operation.MaxInput {
		return nil, full(now)
	}
	return f, f.judge(ctx)
}

// over is the refusal to act on a job that has ended.
func over(j operation.Job) error {
	return operation.Refuse("JOB_ENDED", "the job is %s", j.State).Retrying(fault.Never).
		Then(operation.Next{Tool: "command_status", Args: map[string]any{"job_id": j.ID}, Why: "how it ended"})
}

func full(in operation.JobInput) error {
	return operation.Refuse("INPUT_FULL", "the job has not read what was written before").Retrying(fault.AfterWait).With("queued", in.Queued)
}

// judge asks whether the text may be written: to a shell it is a program.
func (f *feed) judge(ctx context.Context) error {
	if f.s.cfg.Gate == nil {
		return operation.Refuse(noSandbox, "this daemon has nothing that judges input, so it writes none").Retrying(fault.Never)
	}
	x, err := f.s.reopen(ctx, f.job.Project, f.job.Workspace)
	if err != nil {
		return err
	}
	defer x.close()
	c, err := f.s.resolved(x, f.job, nil, nil)
	if err != nil {
		return err
	}
	text := string(f.chunk.Data)
	if f.ruling, err = f.s.cfg.Gate.JudgeInput(ctx, c, text); err != nil {
		return err
	}
	f.command = c
	f.command.Stdin = &text
	if f.ruling.Decision == policy.Deny {
		return forbidden(f.ruling)
	}
	return nil
}

// question asks a person about text that the job runs. The job and the text are a part of what is asked about.
func (f *feed) question() *Question {
	q := f.ruling.question(approval.KindInput, f.command)
	if q != nil {
		q.Subject = digest([]byte("mcpx input 1\n" + f.job.ID + "\n" + q.Subject + "\n" + digest(f.chunk.Data)))
	}
	return q
}

// inputEvidence is what recovery needs of a write.
type inputEvidence struct {
	Ref   operation.JobRef `json:"job"`
	Bytes int              `json:"bytes"`
}

func (f *feed) stage(context.Context) (any, error) {
	return inputEvidence{f.job.JobRef, len(f.chunk.Data)}, nil
}

func (*feed) drop() {}

func (f *feed) run(ctx context.Context) (any, error) {
	in, err := f.s.cfg.Runner.Feed(ctx, f.chunk)
	switch {
	case err == nil:
	case fault.From(err).Code == "input-closed":
		return nil, operation.Refuse("STDIN_CLOSED", "the input of the job has ended")
	case fault.From(err).Code == "input-full":
		return nil, full(in)
	default:
		return nil, err
	}
	return f.s.fed(ctx, f.t, f.job, len(f.chunk.Data), in)
}

// fedAnswer is the answer of write_command_input.
type fedAnswer struct {
	Accepted int `json:"accepted"`
	operation.JobInput
}

func (s *Service) fed(ctx context.Context, t *turn, j operation.Job, accepted int, in operation.JobInput) (any, error) {
	err := s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		return s.tellJob(ctx, tx, j, t.actor(), event.JobInput, "something was written to the input of a command", fedAnswer{accepted, in})
	})
	return fedAnswer{accepted, in}, err
}

func (*feed) settle(context.Context) {}

func (*feed) close() {}

// stop is the end of a job, on its way through the ledger.
type stop struct {
	s    *Service
	t    *turn
	job  operation.Job
	wish operation.StopJob
}

func beginStop(ctx context.Context, s *Service, t *turn) (effect, error) {
	var in StopCommand
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	j, err := s.acting(ctx, t, in.Job)
	if err != nil {
		return nil, err
	}
	if in.Signal == "" {
		in.Signal = "TERM"
	}
	switch in.Signal {
	case "TERM", "INT", "HUP", "QUIT", "KILL":
	default:
		return nil, operation.Refuse(operation.ArgumentInvalid, "%.16q is no signal that can be sent; TERM, INT, HUP, QUIT and KILL are", in.Signal)
	}
	grace := usualGrace
	if in.Grace != nil {
		grace = *in.Grace
	}
	if grace < 0 || grace > maxGrace {
		return nil, operation.Refuse(operation.LimitExceeded, "grace_s is 0 to %d", maxGrace).With("limit", maxGrace).With("value", grace)
	}
	return &stop{s: s, t: t, job: j, wish: operation.StopJob{JobRef: j.JobRef, By: t.op.ID, Signal: in.Signal, Grace: time.Duration(grace) * time.Second}}, nil
}

func (p *stop) stage(context.Context) (any, error) { return p.wish, nil }

func (*stop) drop() {}

func (p *stop) run(ctx context.Context) (any, error) {
	l := p.s.jobs.find(p.job.ID) // nil: it has ended
	if l != nil {
		if p.s.jobs.cancel(ctx, l) {
			return p.s.stoppedAnswer(ctx, p.job.ID, nil)
		}
		if err := p.s.until(l.begun); err != nil {
			return nil, err
		}
	}
	e, err := p.s.cfg.Runner.Look(ctx, p.job.JobRef)
	if err != nil {
		return nil, err
	}
	if !e.Held && !e.GoesOn() { // nothing of it lives
		if l != nil {
			if err := p.s.until(l.done); err != nil {
				return nil, err
			}
		}
		return p.s.stoppedAnswer(ctx, p.job.ID, nil)
	}
	if err := p.s.cfg.Runner.Stop(ctx, p.wish); err != nil {
		return nil, err
	}
	err = p.s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		return p.s.tellJob(ctx, tx, p.job, p.t.actor(), event.JobStopped, "somebody wants a command to end", p.wish)
	})
	if err != nil {
		return nil, err
	}
	return p.s.awaitStop(ctx, p.wish)
}

// awaitStop waits until a stop is carried out, and the end of the job is recorded.
func (s *Service) awaitStop(ctx context.Context, wish operation.StopJob) (any, error) {
	for {
		survivors, done, err := s.cfg.Runner.Stopped(ctx, wish.JobRef, wish.By)
		if err == nil && done {
			if l := s.jobs.find(wish.ID); l != nil && len(survivors) == 0 {
				if err := s.until(l.done); err != nil {
					return nil, err
				}
			}
			return s.stoppedAnswer(ctx, wish.ID, survivors)
		}
		select {
		case <-time.After(stopLook):
		case <-s.quit:
			return nil, errLeft
		}
	}
}

func (s *Service) stoppedAnswer(ctx context.Context, id string, survivors []int) (any, error) {
	var j operation.Job
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		j, err = r.JobByID(ctx, operation.JobByID{ID: id})
		return err
	})
	if err != nil {
		return nil, err
	}
	if survivors == nil {
		survivors = []int{}
	}
	return struct {
		Job       string             `json:"job_id"`
		State     operation.JobState `json:"state"`
		Code      *int               `json:"exit_code"`
		Signal    string             `json:"signal,omitempty"`
		Survivors []int              `json:"survivors"`
	}{j.ID, j.State, j.Code, j.Signal, survivors}, nil
}

func (*stop) settle(context.Context) {}

func (*stop) close() {}

// cancel takes a job that waits out of the queue. False: it does not wait.
func (q *jobs) cancel(ctx context.Context, l *live) bool {
	q.mu.Lock()
	waits := !l.runs
	l.runs = l.runs || waits // nobody starts it any more
	q.mu.Unlock()
	if !waits {
		return false
	}
	j := l.get()
	e, err := q.notRun(ctx, j.JobRef, operation.StoppedFirst, fault.New(fault.Canceled, "stopped").Saying("it was stopped while it waited"))
	if err != nil {
		return false
	}
	close(l.begun)
	j = j.Conclude(e, q.s.cfg.Now())
	if q.persist(ctx, l, j, event.JobEnded, "a command was stopped while it waited") {
		q.remove(l)
		close(l.done)
		q.turn(ctx)
	}
	return true
}

// evidenceOf reads the journal of an operation.
func evidenceOf[T any](o operation.Operation) (T, error) {
	var v T
	return v, json.Unmarshal(o.Evidence, &v)
}
