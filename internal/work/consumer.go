package work

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"mcpx/internal/crash"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// StartConsumer are the arguments of start_verified_workspace_consumer.
type StartConsumer struct {
	ID
	Claims
	Session  string   `json:"remote_session_id,omitempty" jsonschema:"the session"`
	Build    string   `json:"build_id" jsonschema:"the exact id of a build"`
	Argv     []string `json:"argv,omitempty" jsonschema:"program and arguments"`
	Shell    string   `json:"shell,omitempty" jsonschema:"instead of argv"`
	View     string   `json:"view,omitempty" jsonschema:"readonly_view, or private_copy to change it"`
	Handle   string   `json:"handle,omitempty" jsonschema:"a workspace to run in; MCPX_BUILD is the build"`
	Timeout  int      `json:"timeout_s,omitempty" jsonschema:"1 to 86400; 3600 without it"`
	Distinct string   `json:"distinct_from,omitempty" jsonschema:"operation it does not repeat"`
}

// consumption is a consumer on its way through the ledger: a command, and the audit that it is.
type consumption struct {
	s       *Service
	t       *turn
	b       built
	a       workspace.Audit
	started *run
}

var _ asking = (*consumption)(nil)

func beginConsumer(ctx context.Context, s *Service, t *turn) (effect, error) {
	var in StartConsumer
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if err := s.ableToRun(runsBuilds); err != nil {
		return nil, err
	}
	asked := Run{Argv: in.Argv, Shell: in.Shell, Timeout: in.Timeout, Label: "consumer"}
	if err := asked.check(); err != nil {
		return nil, err
	}
	switch view := workspace.View(in.View); {
	case view != "" && view != workspace.ReadonlyView && view != workspace.PrivateCopy:
		return nil, operation.Refuse(operation.ArgumentInvalid, "%.32q is no view; readonly_view and private_copy are", in.View)
	case view == workspace.PrivateCopy && in.Handle != "":
		return nil, operation.Refuse(operation.ArgumentInvalid, "with a handle the build is seen as it is: leave view out")
	}
	if err := s.repeated(ctx, t, in.Distinct); err != nil {
		return nil, err
	}
	b, err := s.built(ctx, t, in.Build, session.ActChange)
	if err != nil {
		return nil, err
	}
	if err := b.exactly(in.Build); err != nil {
		return nil, err
	}
	c := &consumption{s: s, t: t, b: b}
	x, err := c.place(ctx, in.Handle)
	if err != nil {
		return nil, err
	}
	cmd, err := s.commandAt(ctx, t, x, asked)
	if err != nil {
		return nil, err
	}
	c.a = workspace.Audit{
		ID: s.cfg.IDs.New(id.Audit), Build: b.ID, TreeHash: b.TreeHash, State: workspace.AuditBound, Principal: t.Principal, Project: b.Generation.Project, By: t.op.Name,
		Job: cmd.job.ID, Argv: argvDigest(cmd.job.Command), View: workspace.ReadonlyView, Created: s.cfg.Now(),
	}
	if in.View != "" {
		c.a.View = workspace.View(in.View)
	}
	cmd.job.Of, cmd.job.Session = c.a.ID, b.Admission.Session.ID
	c.started = &run{s: s, t: t, command: cmd}
	return c, nil
}

// place is where the consumer runs: in the build itself, or in a workspace beside it.
func (c *consumption) place(ctx context.Context, handle string) (*target, error) {
	if handle == "" {
		return c.s.sealedTarget(ctx, c.b.Generation, c.b.dir())
	}
	x, err := c.s.atWorkspace(ctx, c.t, handle, session.ActChange)
	if err != nil {
		return nil, err
	}
	x.builds = builds{buildVariable, []string{c.b.dir().Tree()}}
	return x, nil
}

func (c *consumption) question() *Question { return c.started.question() }

// stage reads the whole build before the consumer does, and makes the copy that it asked for.
func (c *consumption) stage(ctx context.Context) (any, error) {
	evidence, err := c.started.stage(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.s.verified(ctx, c.t, c.b.Generation); err != nil {
		if codeIn(err) == workspace.BuildCorrupt {
			c.a.State, c.a.Why = workspace.AuditInvalid, workspace.InvalidCorrupt
		}
		return nil, err
	}
	c.a.Pre = c.b.TreeHash
	crash.Point("audit.pre.after")
	if c.a.View != workspace.PrivateCopy {
		return evidence, nil
	}
	if err := c.copy(ctx); err != nil {
		return nil, err
	}
	return commandEvidence{Job: c.started.command.job, Policy: c.started.command.ruling.Verdict}, nil
}

// copy makes the private copy in the temporary directory of the job, and moves the command there.
func (c *consumption) copy(ctx context.Context) error {
	cmd := &c.started.command
	own, was := filepath.Join(cmd.Temp, "build"), cmd.Target
	root, err := tree.Open(was, tree.Options{ByPath: true})
	if err != nil {
		return problem(err)
	}
	defer root.Close()
	if _, err := root.CopyTo(ctx, own, "", tree.CopyOptions{Git: true}); err != nil {
		return copying(err)
	}
	cmd.Target, cmd.Dir, cmd.job.Command.Dir, cmd.ReadOnly = own, own, own, false
	for i, v := range cmd.Environ {
		if strings.HasPrefix(v, buildVariable+"=") {
			cmd.Environ[i] = buildVariable + "=" + own
		}
	}
	before := cmd.ruling.Decision
	if cmd.ruling, err = c.s.cfg.Gate.Judge(ctx, cmd.Command); err != nil {
		return err
	}
	if d := cmd.ruling.Decision; d == policy.Deny || d == policy.Confirm && before != policy.Confirm {
		return forbidden(cmd.ruling)
	}
	cmd.job.Frozen = cmd.ruling.Frozen.Digest()
	return nil
}

// keep takes the audit through its states in the commits of the operation. While it is under way its build is not released.
func (c *consumption) keep(ctx context.Context, tx store.Tx, t *turn, _ *operation.Answer) error {
	switch t.op.State {
	case operation.Claimed:
		if t.op.Hold != "" && t.subject == "" { // a person is asked first
			return nil
		}
	case operation.Dispatched:
		c.a.State = workspace.AuditVerified
	case operation.Succeeded, operation.Failed, operation.Unknown: // what becomes of it goes on behind the answer
		return nil
	}
	g, err := tx.GenerationByID(ctx, workspace.ByID{ID: c.a.Build})
	if err != nil {
		return err
	}
	if err := canUse(g); err != nil {
		return err
	}
	return tx.PutAudit(ctx, workspace.PutAudit{Audit: c.a})
}

// drop ends an audit whose consumer never began.
func (c *consumption) drop() {
	c.started.drop()
	if c.a.State != workspace.AuditInvalid {
		c.a.State, c.a.Why = workspace.AuditLost, operation.NotRun
	}
	c.a.Ended = c.s.cfg.Now()
	ctx, a := context.Background(), c.a
	put := func(tx store.Tx) error { return tx.PutAudit(ctx, workspace.PutAudit{Audit: a}) }
	if err := c.s.cfg.DB.Change(ctx, put); err != nil { // the disk is full: the build is held until there is room, and no longer
		c.s.behind(ctx, a.ID, func(ctx context.Context) error { return c.s.settled(ctx, a.ID, put) })
	}
}

func (c *consumption) run(ctx context.Context) (any, error) {
	l, err := c.s.jobs.submit(ctx, c.started.command, c.t.actor())
	c.started.close()
	a := c.a
	c.s.behind(ctx, a.ID, func(ctx context.Context) error { return c.s.audit(ctx, a) })
	if err != nil {
		return nil, err
	}
	data, err := c.s.ran(ctx, c.t, l, c.started.command.ruling)
	if o, ok := data.(outcome); ok && c.b.State == workspace.GenSuperseded {
		o.warnings = append(o.warnings, newerBuild(ctx, c.s, c.b.Generation))
		return o, err
	}
	return data, err
}

// newerBuild is the warning about a build of which there is a newer one.
func newerBuild(ctx context.Context, s *Service, g workspace.Generation) string {
	newer := "another one"
	_ = s.cfg.DB.View(ctx, func(r store.Reader) error { // without its name the warning is the same
		all, err := r.Generations(ctx, workspace.ListGenerations{Principal: g.Principal, Producer: g.Producer, States: []workspace.GenerationState{workspace.GenReady}, Limit: 1})
		if len(all) == 1 {
			newer = all[0].ID
		}
		return err
	})
	return "BUILD_SUPERSEDED: " + g.ID + " is what was asked for; the same producer has made " + newer + " since"
}

func (*consumption) settle(context.Context) {}
func (c *consumption) close()               { c.started.close() }

// audit waits for the end of a consumer, reads the whole build once more, and gives the verdict.
func (s *Service) audit(ctx context.Context, a workspace.Audit) error {
	if l := s.jobs.find(a.Job); l != nil && a.State == workspace.AuditVerified {
		if err := s.until(l.begun); err != nil {
			return err
		}
		if l.get().State == operation.JobRunning {
			a.State = workspace.AuditRunning
			if err := s.settled(ctx, a.ID, func(tx store.Tx) error { return tx.PutAudit(ctx, workspace.PutAudit{Audit: a}) }); err != nil {
				return err
			}
		}
	}
	j, err := s.ended(ctx, a.Job)
	if fault.KindOf(err) == fault.NotFound {
		j, err = operation.Job{State: operation.JobFailed, Reason: operation.NotRun}, nil
	}
	if err != nil {
		return err
	}
	crash.Point("audit.run.after")
	var g workspace.Generation
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		g, err = r.GenerationByID(ctx, workspace.ByID{ID: a.Build})
		return err
	})
	if err != nil {
		return err
	}
	post, d, err := s.post(ctx, g)
	if err != nil {
		return err
	}
	crash.Point("audit.post.after")
	a = a.Conclude(j, post, s.cfg.Now())
	actor := behindCall(a.Principal)
	if !d.Same() {
		if err := s.corrupted(ctx, actor, g, d); err != nil {
			return err
		}
	}
	return s.settled(ctx, a.ID, func(tx store.Tx) error {
		if err := tx.PutAudit(ctx, workspace.PutAudit{Audit: a}); err != nil {
			return err
		}
		raw, err := json.Marshal(a)
		if err != nil {
			return err
		}
		_, err = tx.AppendEvent(ctx, event.Draft{
			At: a.Ended, Kind: event.GenerationAudited, Actor: actor, Summary: "a consumer of " + a.Build + " has ended: " + string(cmp.Or(a.Verdict, workspace.Verdict(a.State))),
			Refs: event.Refs{event.RefBuild: a.Build, event.RefAudit: a.ID, event.RefJob: a.Job, event.RefProject: a.Project}, Body: raw,
		})
		return err
	})
}

// post is the tree hash of a build as it is now. Where only permissions or the manifest differ, the hash alone would not say so.
func (s *Service) post(ctx context.Context, g workspace.Generation) (string, workspace.Difference, error) {
	d, hash, err := s.compared(ctx, tree.Build{Dir: g.Dir}, g, nil)
	if err == nil && !d.Same() && hash == g.TreeHash {
		hash += " with other permissions or another manifest"
	}
	return hash, d, err
}
