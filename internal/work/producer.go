package work

import (
	"context"
	"encoding/json"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mcpx/internal/approval"
	"mcpx/internal/id"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// StartProducer are the arguments of start_verified_workspace_producer.
type StartProducer struct {
	ID
	Claims
	Session    string       `json:"remote_session_id,omitempty" jsonschema:"the session"`
	Handle     string       `json:"handle" jsonschema:"the handle with its revision"`
	Argv       []string     `json:"argv,omitempty" jsonschema:"program and arguments"`
	Shell      string       `json:"shell,omitempty" jsonschema:"instead of argv"`
	Outputs    []string     `json:"outputs" jsonschema:"paths in the scope, to be sealed"`
	Validators []Validation `json:"validators,omitempty" jsonschema:"must succeed on the sealed outputs"`
	Inputs     []string     `json:"inputs,omitempty" jsonschema:"builds; MCPX_INPUTS says where they are"`
	Timeout    int          `json:"timeout_s,omitempty" jsonschema:"1 to 86400; 3600 without it"`
	Distinct   string       `json:"distinct_from,omitempty" jsonschema:"operation it does not repeat"`
}

// Validation is a validator as a call asks for it.
type Validation struct {
	Argv    []string `json:"argv"`
	Timeout int      `json:"timeout_s,omitempty"`
}

// runsBuilds is what the tools of builds do with commands.
const runsBuilds = "running a producer or a consumer"

// Bounds of a build.
const (
	maxOutputs    = 100
	maxValidators = 20
	maxInputs     = 20
)

// production is a producer on its way through the ledger: a command, and what is done with its outputs.
type production struct {
	s       *Service
	t       *turn
	started *run // nil: it was not judged
	g       workspace.Generation
	given   workspace.Handle
	release func()
	checks  []command // the validators as they were judged
}

var _ asking = (*production)(nil)

func beginProducer(ctx context.Context, s *Service, t *turn) (effect, error) {
	var in StartProducer
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if err := s.ableToRun(runsBuilds); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if err := s.repeated(ctx, t, in.Distinct); err != nil {
		return nil, err
	}
	p := &production{s: s, t: t}
	if err := p.plan(ctx, in); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (in StartProducer) check() error {
	run := Run{Argv: in.Argv, Shell: in.Shell, Timeout: in.Timeout}
	if err := run.check(); err != nil {
		return err
	}
	switch {
	case len(in.Outputs) == 0 || len(in.Outputs) > maxOutputs:
		return operation.Refuse(operation.LimitExceeded, "outputs has 1 to %d paths", maxOutputs).With("limit", maxOutputs).With("value", len(in.Outputs))
	case len(in.Validators) > maxValidators:
		return operation.Refuse(operation.LimitExceeded, "validators has at most %d commands", maxValidators).With("limit", maxValidators)
	case len(in.Inputs) > maxInputs:
		return operation.Refuse(operation.LimitExceeded, "inputs has at most %d builds", maxInputs).With("limit", maxInputs)
	}
	for _, v := range in.Validators {
		run := Run{Argv: v.Argv, Timeout: v.Timeout}
		if err := run.check(); err != nil {
			return err
		}
	}
	return nil
}

// plan resolves and judges everything that will run.
func (p *production) plan(ctx context.Context, in StartProducer) (err error) {
	s, t := p.s, p.t
	w, err := s.packet(ctx, t, in.Handle, session.ActChange)
	if err != nil {
		return err
	}
	if err := w.Exactly(w.given); err != nil {
		return err
	}
	if err := w.In(workspace.Open); err != nil {
		return err
	}
	if p.release, err = s.leases.take(w.ID, false); err != nil { // until the outputs are sealed
		return err
	}
	outputs, err := outputsOf(w.Workspace, in.Outputs)
	if err != nil {
		return err
	}
	x, err := s.copy(w)
	if err != nil {
		return err
	}
	if x.builds, err = s.inputs(ctx, t, in.Inputs); err != nil {
		x.close()
		return err
	}
	c, err := s.commandAt(ctx, t, x, Run{Argv: in.Argv, Shell: in.Shell, Timeout: in.Timeout, Label: "producer"})
	if err != nil {
		return err
	}
	p.given = w.given
	p.g = workspace.Generation{
		Candidate: s.cfg.IDs.New(id.Candidate), State: workspace.GenCandidate, Principal: w.Principal, Project: w.Workspace.Project, Session: t.op.Session,
		Workspace: w.ID, Rev: w.Rev, By: t.op.Name, Producer: workspace.ProducerOf(w.Workspace.Project, c.job.Command, outputs), Job: c.job.ID,
		Argv: argvDigest(c.job.Command), Env: namesDigest(c.Environ), Outputs: outputs, Inputs: in.Inputs, Created: s.cfg.Now(),
	}
	c.job.Of = p.g.Candidate
	p.started = &run{s: s, t: t, command: c}
	ruled := []policy.Verdict{c.ruling.Verdict}
	for _, v := range in.Validators {
		x, err := s.copy(w) // it is judged as if it ran here; on the sealed outputs it is judged again
		if err != nil {
			return err
		}
		x.sealed = true
		check, err := s.commandAt(ctx, t, x, Run{Argv: v.Argv, Timeout: v.Timeout})
		if err == nil {
			err = check.independent()
		}
		if err != nil {
			return err
		}
		p.checks = append(p.checks, check)
		ruled = append(ruled, check.ruling.Verdict)
		p.g.Validators = append(p.g.Validators, workspace.Validator{
			Argv: v.Argv, Timeout: v.Timeout, Asked: check.ruling.Decision == policy.Confirm,
		})
	}
	t.ruled = policy.Join(ruled...)
	return nil
}

// independent refuses a validator whose program lies where the producer writes: its outputs would say themselves that they are good.
func (c command) independent() error {
	program := c.Program
	if real, err := filepath.EvalSymlinks(program); err == nil {
		program = real
	}
	for _, at := range []string{c.Program, program} {
		if workspace.Below(at, c.Target) {
			return operation.Refuse(operation.ArgumentInvalid, "the validator %s is a file that the producer can write; name a program outside of the workspace", c.Argv[0]).With("program", c.Argv[0])
		}
	}
	return nil
}

// argvDigest is what is kept of a command for those who look at a build without its record.
func argvDigest(c operation.JobCommand) string {
	raw, err := json.Marshal(append(slices.Clone(c.Argv), c.Shell))
	if err != nil {
		panic("work: a list of texts cannot be written: " + err.Error())
	}
	return digest(raw)
}

// namesDigest is the digest of the names of variables.
func namesDigest(environ []string) string {
	names := make([]string, 0, len(environ))
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	return digest([]byte(strings.Join(names, "\n")))
}

// outputsOf are the outputs of a producer, each once. SCOPE_OUTSIDE_PROJECT.
func outputsOf(w workspace.Workspace, given []string) ([]string, error) {
	var all []string
	for _, one := range given {
		p := path.Clean(one)
		switch {
		case one == "" || path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../") || strings.ContainsRune(p, 0):
			return nil, operation.Refuse(operation.ArgumentInvalid, "an output is a path in the workspace").With("path", one)
		case !workspace.Inside(p, w.Mutable) || p == conflictsDir:
			return nil, operation.Refuse(workspace.OutsideProject, "the output %s is not in the scope of the workspace", one).With("path", one).
				Then(operation.Next{Tool: "amend_workspace_scope", Args: map[string]any{"handle": w.Handle().String(), "add": []string{p}, operation.IDField: "amend-" + w.ID}, Why: "takes it in"})
		}
		all = append(all, p)
	}
	slices.SortFunc(all, walkOrder)
	kept := all[:0]
	for _, p := range all {
		if n := len(kept); n == 0 || !workspace.Below(p, kept[n-1]) {
			kept = append(kept, p)
		}
	}
	return kept, nil
}

// inputs are the builds that a producer is made from, as they are now.
func (s *Service) inputs(ctx context.Context, t *turn, ids []string) (builds, error) {
	in := builds{variable: inputsVariable}
	for _, id := range ids {
		b, err := s.built(ctx, t, id, session.ActRead)
		if err == nil {
			err = b.exactly(id)
		}
		if err == nil {
			err = s.verified(ctx, t, b.Generation)
		}
		if err != nil {
			return in, err
		}
		in.trees = append(in.trees, b.dir().Tree())
	}
	return in, nil
}

// inputsOf are the builds of a job that waited while the daemon ended.
func (s *Service) inputsOf(ctx context.Context, j operation.Job) (in builds, err error) {
	if j.Of == "" {
		return in, nil
	}
	in.variable = inputsVariable
	return in, s.cfg.DB.View(ctx, func(r store.Reader) error {
		g, err := r.GenerationByID(ctx, workspace.ByID{ID: j.Of})
		if err != nil || g.Job != j.ID {
			return operation.Refuse(workspace.NotReady, "the daemon ended while it waited for its turn")
		}
		for _, id := range g.Inputs {
			input, err := r.GenerationByID(ctx, workspace.ByID{ID: id})
			if err != nil {
				return err
			}
			if err := canUse(input); err != nil {
				return err
			}
			in.trees = append(in.trees, tree.Build{Dir: input.Dir}.Tree())
		}
		return nil
	})
}

// question asks a person about everything that no rule allows: the producer and its validators at once.
func (p *production) question() *Question {
	q := p.started.question()
	for _, c := range p.checks {
		one := c.ruling.question(approval.KindCommand, c.Command)
		if one == nil {
			continue
		}
		if q == nil {
			q = &Question{Kind: approval.KindCommand}
		}
		q.Subject = digest([]byte("mcpx producer 1\n" + q.Subject + "\n" + one.Subject))
		q.Display += "then, on its sealed outputs:\n" + one.Display
		q.Reasons = append(q.Reasons, one.Reasons...)
	}
	return q
}

// keep writes the candidate with the dispatch of its producer.
func (p *production) keep(ctx context.Context, tx store.Tx, t *turn, _ *operation.Answer) error {
	switch t.op.State {
	case operation.Dispatched:
		w, err := tx.WorkspaceByID(ctx, workspace.ByID{ID: p.g.Workspace})
		if err != nil {
			return err
		}
		if err := w.Exactly(p.given); err != nil {
			return err
		}
		for _, id := range p.g.Inputs { // they are not released before it has ended
			g, err := tx.GenerationByID(ctx, workspace.ByID{ID: id})
			if err != nil {
				return err
			}
			if err := canUse(g); err != nil {
				return err
			}
		}
		return tx.PutGeneration(ctx, workspace.PutGeneration{Generation: p.g})
	case operation.Claimed, operation.Succeeded, operation.Failed, operation.Unknown:
	}
	return nil
}

func (p *production) stage(ctx context.Context) (any, error) { return p.started.stage(ctx) }
func (p *production) drop()                                  { p.started.drop() }
func (p *production) settle(context.Context)                 {}

// run starts the producer. What becomes of its outputs goes on behind the answer.
func (p *production) run(ctx context.Context) (any, error) {
	l, err := p.s.jobs.submit(ctx, p.started.command, p.t.actor())
	g, release := p.g, p.release
	p.release = nil
	p.s.produce(ctx, g.Candidate, release)
	if err != nil {
		return nil, err
	}
	return p.s.ran(ctx, p.t, l, p.started.command.ruling)
}

func (p *production) close() {
	if p.started != nil {
		p.started.close()
	}
	if p.release != nil {
		p.release()
	}
}
