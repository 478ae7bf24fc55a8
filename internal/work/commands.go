package work

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/key"
	"mcpx/internal/lazyregexp"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/process"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/tree"
)

// Run says what is run, and how.
type Run struct {
	ID
	Claims
	Session  string            `json:"remote_session_id,omitempty" jsonschema:"the session; without it cwd is absolute"`
	Handle   string            `json:"handle,omitempty" jsonschema:"the workspace to run in, not the project"`
	Argv     []string          `json:"argv,omitempty" jsonschema:"program and arguments; stored, so no secrets"`
	Shell    string            `json:"shell,omitempty" jsonschema:"instead of argv: text for bash or sh"`
	Cwd      string            `json:"cwd,omitempty" jsonschema:"directory in the project; its root without it"`
	Env      map[string]string `json:"env,omitempty" jsonschema:"variables; their values are not stored"`
	Secrets  []string          `json:"secrets,omitempty" jsonschema:"names of secrets to get as variables"`
	Stdin    string            `json:"stdin,omitempty" jsonschema:"none or open, for write_command_input; none without it"`
	Text     *string           `json:"stdin_text,omitempty" jsonschema:"instead of stdin: the input, at most 256 KB; not stored"`
	Timeout  int               `json:"timeout_s,omitempty" jsonschema:"1 to 86400; 3600 without it"`
	Sandbox  string            `json:"sandbox,omitempty" jsonschema:"default, workspace or strict; it may only tighten"`
	Label    string            `json:"name,omitempty" jsonschema:"a label, at most 120 bytes"`
	Distinct string            `json:"distinct_from,omitempty" jsonschema:"operation it does not repeat"`
}

// StartCommand are the arguments of start_command.
type StartCommand struct{ Run }

// ExecuteCommand are the arguments of execute_command.
type ExecuteCommand struct {
	Run
	WaitMS *int `json:"wait_ms,omitempty" jsonschema:"0 to 25000, for the end; 10000 without it"`
	Bytes  *int `json:"output_bytes,omitempty" jsonschema:"of output in the answer, 0 to 20000; 8000 without it"`
}

// Bounds of a command, runtime.md section 11.
const (
	maxStdinText  = 256 << 10
	usualTimeout  = 3600
	maxTimeout    = 86400
	maxLabel      = 120
	maxVariables  = 200
	usualOutput   = 8000
	maxOutput     = 20000
	executeWait   = 10000
	exitNoCommand = 127
	spawnFailed   = operation.Code("SPAWN_FAILED")
	jobLost       = operation.Code("JOB_LOST")
	noSandbox     = operation.Code("SANDBOX_UNAVAILABLE")
	policyDenied  = operation.Code("POLICY_DENIED")
)

// keptSecret are the arguments of the commands whose values are never stored.
var keptSecret = []string{"env", "stdin_text", "text", "base64"}

var variable = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// dropped are the variables that make a shell run something before, or instead of, its text.
var dropped = []string{"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS"}

// command is a command that may run, with what is needed to start it.
type command struct {
	Command
	ruling Ruling
	job    operation.Job
	text   string // for standard input
	skill  *skill // whose program it is; nil: none
	// release gives the lease of its workspace back: from then on the job itself keeps the workspace as it is.
	release func()
}

// run is a command on its way through the ledger.
type run struct {
	s       *Service
	t       *turn
	command command
}

func beginCommand(ctx context.Context, s *Service, t *turn) (effect, error) {
	var in Run
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if s.cfg.Gate == nil || s.cfg.Runner == nil {
		return nil, uncontained()
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if s.jobs.full() {
		return nil, tooManyJobs()
	}
	if err := s.repeated(ctx, t, in.Distinct); err != nil {
		return nil, err
	}
	c, err := s.command(ctx, t, in)
	if err != nil {
		return nil, err
	}
	return &run{s: s, t: t, command: c}, nil
}

// ableToRun refuses a call that runs a command by another tool than those of commands: while those are off, where there is
// nothing that runs them, or no room for one more. what names it.
func (s *Service) ableToRun(what string) error {
	switch {
	case slices.Contains(s.cfg.Disabled, SetCommands):
		return toolDisabled(what, SetCommands)
	case s.cfg.Gate == nil || s.cfg.Runner == nil:
		return uncontained()
	case s.jobs.full():
		return tooManyJobs()
	}
	return nil
}

func tooManyJobs() *operation.Refusal {
	return operation.Refuse("JOB_LIMIT", "%d commands wait already", operation.MaxQueue).Retrying(fault.AfterWait)
}

// uncontained is the refusal where nothing can run commands.
func uncontained() *operation.Refusal {
	return operation.Refuse(noSandbox, "this daemon has nothing that contains commands, so it starts none").Retrying(fault.Never)
}

func (in Run) check() error {
	switch {
	case (len(in.Argv) == 0) == (in.Shell == ""):
		return operation.Refuse(operation.ArgumentInvalid, "give exactly one of argv and shell")
	case in.Stdin != "" && in.Stdin != string(operation.StdinNone) && in.Stdin != string(operation.StdinOpen):
		return operation.Refuse(operation.ArgumentInvalid, "%.32q is no stdin; none and open are", in.Stdin)
	case in.Text != nil && in.Stdin == string(operation.StdinOpen):
		return operation.Refuse(operation.ArgumentInvalid, "stdin_text is given whole; with stdin open, write_command_input writes it")
	case in.Text != nil && len(*in.Text) > maxStdinText:
		return operation.Refuse(operation.LimitExceeded, "stdin_text has at most 256 KB").With("limit", maxStdinText).With("value", len(*in.Text))
	case in.Timeout < 0 || in.Timeout > maxTimeout:
		return operation.Refuse(operation.LimitExceeded, "timeout_s is 1 to %d", maxTimeout).With("limit", maxTimeout).With("value", in.Timeout)
	case in.Sandbox != "" && in.Sandbox != "default" && in.Sandbox != policy.SandboxWorkspace && in.Sandbox != policy.SandboxStrict:
		return operation.Refuse(operation.ArgumentInvalid, "%.32q is no sandbox; default, workspace and strict are", in.Sandbox)
	case len(in.Label) > maxLabel:
		return operation.Refuse(operation.LimitExceeded, "name has at most %d bytes", maxLabel).With("limit", maxLabel)
	case len(in.Env) > maxVariables:
		return operation.Refuse(operation.LimitExceeded, "env has at most %d variables", maxVariables).With("limit", maxVariables)
	case len(in.Secrets) > maxSecrets:
		return operation.Refuse(operation.LimitExceeded, "secrets has at most %d names", maxSecrets).With("limit", maxSecrets)
	}
	for name, value := range in.Env {
		if !variable().MatchString(name) || strings.ContainsRune(value, 0) {
			return operation.Refuse(operation.ArgumentInvalid, "%.64q is no variable that a command can get", name)
		}
	}
	return nil
}

// repeated refuses what is probably the same intention under another id.
func (s *Service) repeated(ctx context.Context, t *turn, distinct string) error {
	if t.person { // who types a command again means it again
		return nil
	}
	var recent []operation.Operation
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		recent, err = r.Operations(ctx, operation.ListOperations{Namespace: t.Principal, Print: t.sum.Sum, Limit: 20})
		return err
	})
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	r := operation.Duplicate(t.text(operation.IDField), distinct, recent, func(o operation.Operation) time.Duration {
		// Windows begin anew with a daemon: of what is older no age is known (durable-work.md section 7, clocks).
		if since := s.since; o.Claimed.Before(since) {
			return now.Sub(since)
		}
		return now.Sub(o.Claimed)
	})
	if r == nil {
		return nil
	}
	return r
}

// command resolves where and what is run, and asks whether it may.
func (s *Service) command(ctx context.Context, t *turn, in Run) (command, error) {
	x, err := s.at(ctx, t, in.Cwd, session.ActChange)
	if err != nil {
		return command{}, err
	}
	return s.commandAt(ctx, t, x, in)
}

// commandAt is command in a directory that is open, and is closed by it.
func (s *Service) commandAt(ctx context.Context, t *turn, x *target, in Run) (command, error) {
	defer x.close()
	if err := x.root.Changeable(); err != nil {
		return command{}, problem(err)
	}
	j := operation.Job{
		JobRef: operation.JobRef{ID: s.cfg.IDs.New(id.Job), Attempt: 1}, By: t.op.Name, Project: x.Project.ID, Session: x.Session.ID, Workspace: x.id(), Label: in.Label,
		State: operation.JobReserved, Reserved: s.cfg.Now(),
		Command: operation.JobCommand{
			Argv: in.Argv, Shell: in.Shell, Env: slices.Sorted(maps.Keys(in.Env)), Secrets: slices.Compact(slices.Sorted(slices.Values(in.Secrets))), Stdin: operation.StdinNone, Level: in.Sandbox,
			Timeout: time.Duration(in.Timeout) * time.Second,
		},
	}
	if j.Command.Timeout == 0 {
		j.Command.Timeout = usualTimeout * time.Second
	}
	if j.Command.Level == "default" {
		j.Command.Level = ""
	}
	var (
		c   command
		err error
	)
	switch {
	case in.Text != nil:
		j.Command.Stdin, c.text = operation.StdinText, *in.Text
	case in.Stdin == string(operation.StdinOpen):
		j.Command.Stdin = operation.StdinOpen
	}
	if j.Command.Dir, err = s.directory(x, in.Cwd); err != nil {
		return command{}, err
	}
	if c.Command, err = s.resolved(x, j, in.Env, in.Text); err != nil {
		return command{}, err
	}
	secrets, err := s.granted(ctx, x.Project, j.Command.Secrets)
	if err != nil {
		return command{}, err
	}
	c.Receivers = receivers(secrets)
	if c.ruling, err = s.cfg.Gate.Judge(ctx, c.Command); err != nil {
		return command{}, err
	}
	t.ruled = c.ruling.Verdict
	if c.ruling.Decision == policy.Deny {
		return command{}, s.forbid(ctx, t, x, c)
	}
	if err := s.ready(ctx, secrets, j.Command.Env); err != nil {
		return command{}, err
	}
	j.Frozen, j.Contained = c.ruling.Frozen.Digest(), c.ruling.Sandbox.Contained()
	if j.Sandbox, err = json.Marshal(c.ruling.Sandbox); err != nil {
		return command{}, err
	}
	c.job = j
	c.release, x.release = x.release, nil
	return c, nil
}

// directory is where a command runs, canonical and in the target.
func (s *Service) directory(x *target, path string) (string, error) {
	if path == "" {
		return x.root.Path(), nil
	}
	p, err := x.root.Resolve(path, tree.List)
	if err != nil {
		r, ok := errors.AsType[*operation.Refusal](problem(err))
		if !ok {
			return "", err
		}
		return "", operation.Refuse("CWD_INVALID", "%s", r.Message).With("cwd", path)
	}
	defer p.Close()
	return filepath.Join(x.root.Path(), p.Path), nil
}

// resolved is the command of a job as it would be started now.
func (s *Service) resolved(x *target, j operation.Job, values map[string]string, stdin *string) (Command, error) {
	entry := append([]string{"TMPDIR=" + s.cfg.Runner.Temp(j.JobRef)}, x.builds.entry()...)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if j.Command.Shell == "" || !slices.Contains(dropped, name) {
			entry = append(entry, name+"="+values[name])
		}
	}
	c := Command{
		Command: policy.Command{
			Argv: j.Command.Argv, Shell: j.Command.Shell, Dir: j.Command.Dir, Env: j.Command.Env, Secrets: j.Command.Secrets, Stdin: stdin,
			Project: x.Project.Name,
		},
		Target: x.root.Path(), Root: x.rulesOf, Readable: x.builds.trees, ReadOnly: x.sealed, Temp: s.cfg.Runner.Temp(j.JobRef), Level: j.Command.Level, Environ: process.Environ(s.cfg.Environ, entry),
	}
	var err error
	if c.Shell == "" {
		c.Args = c.Argv
		c.Program, err = process.Resolve(c.Argv[0], c.Dir, c.Environ)
	} else if c.Program, err = process.Resolve("bash", c.Dir, c.Environ); err == nil {
		c.Dialect, c.Args = policy.Bash, []string{"bash", "--noprofile", "--norc", "-c", c.Shell}
	} else {
		c.Dialect, c.Args = policy.POSIX, []string{"sh", "-c", c.Shell}
		c.Program, err = process.Resolve("sh", c.Dir, c.Environ)
	}
	if err != nil {
		return c, operation.Refuse(spawnFailed, "%s", fault.From(err).Message)
	}
	return c, nil
}

// forbid refuses a command that nobody can allow, and tells of it: no row and no claim says that it was tried.
func (s *Service) forbid(ctx context.Context, t *turn, x *target, c command) error {
	no := forbidden(c.ruling)
	t.op.Session, t.op.Project = x.Session.ID, x.Project.ID
	err := s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		return s.tell(ctx, tx, t, event.PolicyDecided, nil, t.Tool+": deny: "+no.Message, c.ruling.Verdict)
	})
	if err != nil {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "a refused command was not told", slog.Any(key.Cause, err))
	}
	return no
}

// forbidden is the refusal of a command that nobody can allow.
func forbidden(r Ruling) *operation.Refusal {
	no := operation.Refuse(policyDenied, "a rule forbids this command").Retrying(fault.Never).With("units", r.Units)
	if r.More > 0 {
		no = no.With("more_units", r.More)
	}
	for _, u := range r.Units {
		if u.Decision == policy.Deny {
			no.Message = u.Reason
			return no.With("rule", u.Rule).With("unit", u.Text).With("reason", u.Reason)
		}
	}
	return no
}

// question asks a person about a command that no rule allows.
func (r *run) question() *Question {
	return r.command.ruling.question(approval.KindCommand, r.command.Command)
}

// question is what a person decides about a command or its input; nil when no person has to.
func (r Ruling) question(kind approval.Kind, c Command) *Question {
	if r.Decision != policy.Confirm {
		return nil
	}
	q := &Question{Kind: kind, Subject: r.Frozen.Digest(), Display: c.Shell + "\n"}
	if c.Shell == "" {
		words := make([]string, len(c.Argv))
		for i, word := range c.Argv {
			words[i] = strconv.Quote(word)
		}
		q.Display = strings.Join(words, " ") + "\n"
	}
	q.Display += "in " + c.Dir + ", sandbox " + r.Sandbox.Applied + "\n"
	if len(c.Env) > 0 {
		q.Display += "with " + strings.Join(c.Env, ", ") + "\n"
	}
	if len(c.Secrets) > 0 {
		q.Display += "given the secrets " + strings.Join(c.Secrets, ", ") + "\n"
	}
	if c.Stdin != nil {
		q.Display += "reading:\n" + *c.Stdin
	}
	for _, u := range r.Units {
		if u.Decision == policy.Confirm {
			q.Reasons = append(q.Reasons, u.Rule+": "+u.Reason)
		}
	}
	return q
}

func (r *run) stage(ctx context.Context) (any, error) {
	if err := r.s.cfg.Runner.Reserve(ctx, r.command.job.JobRef); err != nil {
		return nil, err
	}
	return commandEvidence{Job: r.command.job, Policy: r.command.ruling.Verdict}, nil
}

func (r *run) drop() {
	_ = r.s.cfg.Runner.Discard(context.Background(), r.command.job.JobRef) // what is left of it is found by the next start
}

// run starts the command. What starts it at once says whether it could be started; one that waits is a success.
func (r *run) run(ctx context.Context) (any, error) {
	l, err := r.s.jobs.submit(ctx, r.command, r.t.actor())
	r.close()
	if err != nil {
		return nil, err
	}
	return r.s.ran(ctx, r.t, l, r.command.ruling)
}

// ran is the end of the operation that started a job: of start_command when it is started or waits, of execute_command when
// it has ended.
func (s *Service) ran(ctx context.Context, t *turn, l *live, ruling Ruling) (any, error) {
	if j := l.get(); t.Tool != "execute_command" && j.Queued && j.State == operation.JobReserved {
		return startedAnswer(j, ruling), nil
	}
	if err := s.until(l.begun); err != nil {
		return nil, err
	}
	if j := l.get(); j.State == operation.JobFailed || t.Tool == "execute_command" {
		if err := s.until(l.done); err != nil {
			return nil, err
		}
	}
	return s.concluded(ctx, t, l.get(), ruling)
}

// concluded is the answer of the operation that started a job.
func (s *Service) concluded(ctx context.Context, t *turn, j operation.Job, ruling Ruling) (any, error) {
	switch {
	case j.State == operation.JobFailed:
		return nil, operation.Refuse(spawnFailed, "it was not started: %s", j.Text).Retrying(fault.NewID).With("job_id", j.ID).With("reason", j.Reason)
	case j.State == operation.JobLost && (j.Outside == operation.OutsideUnknown || t.Tool == "execute_command"):
		return nil, lost(j)
	case t.Tool != "execute_command":
		return startedAnswer(j, ruling), nil
	}
	max := usualOutput
	if raw, ok := t.args["output_bytes"]; ok {
		_ = json.Unmarshal(raw, &max) // what it is not is found by the check of the schema
	}
	return s.statusOf(ctx, j, outputAsk{Max: &max})
}

// lost is the refusal about a job whose end nobody saw.
func lost(j operation.Job) *operation.Refusal {
	if j.Outside == operation.OutsideUnknown {
		return operation.Refuse(operation.OutcomeUnknown, "the command ran, and nobody saw its end (%s); its output is kept", j.Reason).
			Retrying(fault.Never).Ending(operation.OutcomeUnclear).With("job_id", j.ID).
			Then(operation.Next{Tool: "command_status", Args: map[string]any{"job_id": j.ID}, Why: "what it wrote"})
	}
	return operation.Refuse(jobLost, "nobody saw the end of the command (%s); it could change nothing outside of its sandbox", j.Reason).
		Retrying(fault.NewID).With("job_id", j.ID).
		Then(operation.Next{Tool: "command_status", Args: map[string]any{"job_id": j.ID}, Why: "what it wrote"})
}

func (*run) settle(context.Context) {}

func (r *run) close() {
	if r.command.release != nil {
		r.command.release()
	}
}

// startedJob is the answer of start_command.
type startedJob struct {
	Job     string             `json:"job_id"`
	State   operation.JobState `json:"state"`
	Sandbox json.RawMessage    `json:"sandbox"`
	Policy  policy.Verdict     `json:"policy"`
	madeFor
}

func startedAnswer(j operation.Job, r Ruling) any {
	return outcome{
		data: startedJob{j.ID, j.State, j.Sandbox, r.Verdict, madeForOf(j)},
		next: []operation.Next{waitFor(j)},
	}
}

// jobOf is what is told about the job of an operation that has not ended; false when there is none yet.
func (s *Service) jobOf(ctx context.Context, row operation.Operation) (json.RawMessage, bool) {
	var page []operation.Job
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		page, err = r.Jobs(ctx, operation.ListJobs{Principal: row.Namespace, Operation: row.ID, Limit: 1})
		return err
	})
	if err != nil || len(page) == 0 {
		return nil, false
	}
	raw, err := json.Marshal(struct {
		Job   string             `json:"job_id"`
		State operation.JobState `json:"state"`
	}{page[0].ID, page[0].State})
	return raw, err == nil
}
