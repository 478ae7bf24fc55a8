package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcpx/internal/crash"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// produce takes a candidate from the end of its producer to a build, or to its rejection, behind the call. The row of the candidate
// is the journal: what is in it is done, and another try, or a daemon that comes later, goes on from there. release gives the
// lease of the workspace back.
func (s *Service) produce(ctx context.Context, candidate string, release func()) {
	s.behind(ctx, candidate, func(ctx context.Context) error {
		var g workspace.Generation
		err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
			g, err = r.GenerationByID(ctx, workspace.ByID{ID: candidate})
			return err
		})
		if err == nil && g.State.UnderWay() {
			err = s.decide(ctx, g, release)
		}
		if err == nil {
			release()
		}
		return err
	})
}

// decide is one try of produce.
func (s *Service) decide(ctx context.Context, g workspace.Generation, release func()) error {
	if g.State != workspace.GenValidating {
		j, err := s.ended(ctx, g.Job)
		switch kind := fault.KindOf(err); {
		case err != nil && kind == fault.NotFound:
			return s.reject(ctx, g, workspace.RejectedExit, "the producer was not started")
		case err != nil:
			return err
		case j.State != operation.JobExited || j.Code == nil || *j.Code != 0:
			return s.reject(ctx, g, workspace.RejectedExit, "the producer "+how(j))
		}
		e, err := s.cfg.Runner.Look(ctx, j.JobRef)
		if err != nil {
			return err
		}
		if e.Exit == nil || e.Exit.Descendants {
			return s.reject(ctx, g, workspace.RejectedWriting, "the producer has ended, and something that it started goes on; stop_command ends it")
		}
		g, err = s.sealOutputs(ctx, g)
		if err != nil || g.State.Final() {
			return err
		}
	}
	release() // the outputs are ours now
	err := s.complete(ctx, g)
	if tree.Full(err) && ctx.Err() == nil {
		return s.unspaced(ctx, g, err)
	}
	return err
}

// unspaced rejects a sealed candidate for which the disk has no room. What was sealed gives its own room back.
func (s *Service) unspaced(ctx context.Context, g workspace.Generation, why error) error {
	area, draft, err := s.draftOf(ctx, g)
	if err != nil {
		return errors.Join(why, err)
	}
	defer area.Close()
	if err := errors.Join(draft.Clear(ctx), tree.Build{Dir: g.Dir}.Clear(ctx)); err != nil {
		return errors.Join(why, err)
	}
	return s.reject(ctx, g, workspace.RejectedSpace, "there is no space to validate and publish what was sealed; it is removed, and the outputs are in the workspace as before")
}

// how is how a job has ended, for people.
func how(j operation.Job) string {
	switch {
	case j.State == operation.JobExited && j.Code != nil:
		return fmt.Sprintf("ended with the exit code %d", *j.Code)
	case j.State == operation.JobTimedOut:
		return "took too long"
	case j.Signal != "":
		return "was ended by " + j.Signal
	case j.Text != "":
		return "is " + string(j.State) + ": " + j.Text
	}
	return "is " + string(j.State)
}

// sealOutputs copies the outputs to files that are ours alone, and gives the candidate its manifest and its id.
func (s *Service) sealOutputs(ctx context.Context, g workspace.Generation) (workspace.Generation, error) {
	g.State = workspace.GenSealing
	if err := s.noted(ctx, g); err != nil {
		return g, err
	}
	area, draft, err := s.draftOf(ctx, g)
	if err != nil {
		return g, err
	}
	defer area.Close()
	if there, err := draft.Exists(); err != nil {
		return g, err
	} else if there { // of a daemon that died over it
		if err := s.buildAside(area, draft); err != nil {
			return g, err
		}
	}
	m, err := s.sealed(ctx, g, area, draft)
	if err != nil {
		return s.unsealed(ctx, g, draft, err)
	}
	encoded, hash := m.Encode()
	if err := draft.Describe(encoded); err != nil {
		return s.unsealed(ctx, g, draft, err)
	}
	crash.Point("gen.manifest.after")
	g = g.SealedAs(s.cfg.IDs.New(id.Build), hash)
	g.Dir, g.Sealed = area.Build(g.ID).Dir, s.cfg.Now()
	for _, e := range m {
		if e.Kind == workspace.File {
			g.Files++
			g.Bytes += e.Size
		}
	}
	return g, s.noted(ctx, g)
}

// draftOf is where a candidate is sealed.
func (s *Service) draftOf(ctx context.Context, g workspace.Generation) (*tree.Area, tree.Build, error) {
	var w workspace.Workspace
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		w, err = r.WorkspaceByID(ctx, workspace.ByID{ID: g.Workspace})
		return err
	})
	if err != nil {
		return nil, tree.Build{}, err
	}
	area, err := s.areaAt(tree.Packet{Dir: w.Dir})
	if err != nil {
		return nil, tree.Build{}, err
	}
	return area, area.Draft(g.Candidate), nil
}

// sealed makes the copy.
func (s *Service) sealed(ctx context.Context, g workspace.Generation, area *tree.Area, draft tree.Build) (workspace.Manifest, error) {
	if err := area.Make(draft); err != nil {
		return nil, err
	}
	x, err := s.reopen(ctx, g.Project, g.Workspace)
	if err != nil {
		return nil, err
	}
	defer x.close()
	all, err := x.root.Seal(ctx, draft, g.Outputs, func(path string) bool { return path == conflictsDir })
	if err != nil {
		return nil, err
	}
	return workspace.NewManifest(all)
}

// unsealed rejects a candidate whose outputs could not be copied, whatever the reason: to try again would keep the workspace from
// others, and the producer can be started again. What the daemon's own end has cut off is left to the next one.
func (s *Service) unsealed(ctx context.Context, g workspace.Generation, draft tree.Build, why error) (workspace.Generation, error) {
	if ctx.Err() != nil {
		return g, errLeft
	}
	reason := workspace.RejectedOutput
	switch {
	case tree.CodeOf(why) == tree.Moved:
		reason = workspace.RejectedMoving
	case tree.Full(why):
		reason = workspace.RejectedSpace
	}
	if err := draft.Clear(ctx); err != nil {
		return g, errors.Join(why, err)
	}
	g = g.Reject(reason, problemText(why))
	return g, s.reject(ctx, g, g.Why, g.Text)
}

// complete validates a sealed candidate and publishes it.
func (s *Service) complete(ctx context.Context, g workspace.Generation) error {
	area, draft, err := s.draftOf(ctx, g)
	if err != nil {
		return err
	}
	defer area.Close()
	at, final := draft, tree.Build{Dir: g.Dir}
	there, err := at.Exists()
	if err == nil && !there { // it was renamed by a daemon that died before it could say so
		at = final
		there, err = at.Exists()
	}
	if err != nil {
		return err
	}
	if !there {
		return s.reject(ctx, g, workspace.RejectedOrphan, "its sealed outputs are gone")
	}
	if !g.Validated {
		if g, err = s.validate(ctx, g, at); err != nil || g.State.Final() {
			return err
		}
	}
	d, _, err := s.compared(ctx, at, g, nil)
	if err != nil {
		return err
	}
	if !d.Same() {
		why := workspace.RejectedChanged
		if g.Validated { // nothing ran since it was right: it is what a daemon has left
			why = workspace.RejectedOrphan
		}
		if err := at.Clear(ctx); err != nil {
			return err
		}
		return s.reject(ctx, g, why, "the sealed outputs are not what was sealed: "+differs(d))
	}
	g.Validated = true
	if err := s.noted(ctx, g); err != nil {
		return err
	}
	crash.Point("gen.validate.after")
	if at != final {
		statement, err := s.statement(g)
		if err != nil {
			return err
		}
		if err := at.State(statement); err != nil {
			return err
		}
	}
	if err := at.Publish(final); err != nil {
		return err
	}
	return s.publish(ctx, g)
}

// differs names the first of the paths of a difference.
func differs(d workspace.Difference) string {
	switch {
	case len(d.Changed) > 0:
		return text.EncodePath(d.Changed[0]) + " is changed"
	case len(d.Gone) > 0:
		return text.EncodePath(d.Gone[0]) + " is gone"
	case len(d.Added) > 0:
		return text.EncodePath(d.Added[0]) + " is added"
	}
	return ""
}

// publish makes the build visible. Those for which its principal has started the same producer before are superseded, and it is
// itself when one that was started later was ready first.
func (s *Service) publish(ctx context.Context, g workspace.Generation) error {
	g.Ready = s.cfg.Now()
	err := s.settled(ctx, g.ID, func(tx store.Tx) error {
		g.State = workspace.GenReady
		now, err := tx.GenerationByID(ctx, workspace.ByID{ID: g.Candidate})
		if err != nil {
			return err
		}
		all, err := workspace.AllGenerations(ctx, tx, workspace.ListGenerations{Principal: g.Principal, Producer: g.Producer, States: workspace.GenerationsThere})
		if err != nil {
			return err
		}
		for _, o := range all {
			if o.Seq > now.Seq {
				g.State = workspace.GenSuperseded
			}
			if o.Seq >= now.Seq || o.State == workspace.GenSuperseded {
				continue
			}
			o.State = workspace.GenSuperseded
			if err := tx.PutGeneration(ctx, workspace.PutGeneration{Generation: o}); err != nil {
				return err
			}
		}
		if err := tx.PutGeneration(ctx, workspace.PutGeneration{Generation: g}); err != nil {
			return err
		}
		return s.tellBuild(ctx, tx, behindCall(g.Principal), g, event.GenerationReady, "a build is ready: "+g.ID, struct {
			TreeHash string `json:"tree_hash"`
			Files    int    `json:"files"`
			Bytes    int64  `json:"bytes"`
		}{g.TreeHash, g.Files, g.Bytes})
	})
	crash.Point("gen.commit.after")
	return err
}

// behindCall is who the events about what goes on behind a call of a principal tell of.
func behindCall(principal string) event.Actor {
	return event.Actor{Principal: principal, Channel: "generation"}
}

// reject ends a candidate without a build. What was sealed of it is gone before.
func (s *Service) reject(ctx context.Context, g workspace.Generation, why, text string) error {
	g = g.Reject(why, s.cfg.RedactText(text))
	return s.settled(ctx, g.Candidate, func(tx store.Tx) error {
		if err := tx.PutGeneration(ctx, workspace.PutGeneration{Generation: g}); err != nil {
			return err
		}
		return s.tellBuild(ctx, tx, behindCall(g.Principal), g, event.GenerationRejected, "outputs were rejected: "+why, struct {
			Why  string `json:"why"`
			Text string `json:"text"`
		}{g.Why, g.Text})
	})
}

// noted writes a step of a candidate into its journal.
func (s *Service) noted(ctx context.Context, g workspace.Generation) error {
	return s.settled(ctx, g.Candidate, func(tx store.Tx) error {
		return tx.PutGeneration(ctx, workspace.PutGeneration{Generation: g})
	})
}

// validate runs the validators that have not passed, one after the other, on the sealed outputs, which they only read.
func (s *Service) validate(ctx context.Context, g workspace.Generation, at tree.Build) (workspace.Generation, error) {
	g.Validators = slices.Clone(g.Validators)
	for i := range g.Validators {
		v := &g.Validators[i]
		if v.Passed {
			continue
		}
		j, err := s.validator(ctx, &g, i, at)
		refused, wrong := errors.AsType[*operation.Refusal](err)
		if err != nil && !wrong {
			return g, err
		}
		if !wrong {
			v.Code, v.Passed = j.Code, j.State == operation.JobExited && j.Code != nil && *j.Code == 0
		}
		if v.Passed {
			if err := s.noted(ctx, g); err != nil {
				return g, err
			}
			continue
		}
		said := "the validator " + operation.JobCommand{Argv: v.Argv}.String() + " "
		if wrong {
			said += "was not started: " + refused.Message
		} else {
			said += how(j)
		}
		if err := at.Clear(ctx); err != nil {
			return g, err
		}
		g = g.Reject(workspace.RejectedValidation, said)
		return g, s.reject(ctx, g, g.Why, g.Text)
	}
	return g, nil
}

// validator runs one validator to its end, or waits for the one that an earlier daemon has started.
func (s *Service) validator(ctx context.Context, g *workspace.Generation, i int, at tree.Build) (operation.Job, error) {
	v := &g.Validators[i]
	if v.Job != "" {
		j, err := s.ended(ctx, v.Job)
		if fault.KindOf(err) != fault.NotFound && (err != nil || j.State != operation.JobLost && j.State != operation.JobFailed) {
			return j, err
		} // it never ran, or nobody knows: it only reads, and is run again
	}
	c, err := s.validation(ctx, *g, *v, at)
	if err != nil {
		return operation.Job{}, err
	}
	v.Job = c.job.ID
	if err := s.noted(ctx, *g); err != nil {
		return operation.Job{}, err
	}
	if err := s.cfg.Runner.Reserve(ctx, c.job.JobRef); err != nil {
		return operation.Job{}, err
	}
	l, err := s.jobs.submit(ctx, c, behindCall(g.Principal))
	if err != nil {
		return operation.Job{}, err
	}
	if err := s.until(l.done); err != nil {
		return operation.Job{}, err
	}
	return l.get(), nil
}

// validation is a validator as it may run now.
func (s *Service) validation(ctx context.Context, g workspace.Generation, v workspace.Validator, at tree.Build) (command, error) {
	x, err := s.sealedTarget(ctx, g, at)
	if err != nil {
		return command{}, err
	}
	t := &turn{Call: Call{Tool: producerTool, Principal: g.Principal, Channel: behindCall(g.Principal).Channel}}
	t.op.Namespace, t.op.Project, t.op.Session = g.Principal, g.Project, g.Session
	c, err := s.commandAt(ctx, t, x, Run{Argv: v.Argv, Timeout: v.Timeout, Label: "validator"})
	if err == nil {
		err = c.independent()
	}
	if err != nil {
		return command{}, err
	}
	if c.ruling.Decision == policy.Confirm && !v.Asked {
		return command{}, operation.Refuse(policyDenied, "on the sealed outputs no rule allows it, and nobody was asked")
	}
	c.job.Of, c.job.Session = g.Candidate, g.Session
	return c, nil
}

// sealedTarget is the bytes of a build as the target of a command that only reads them.
func (s *Service) sealedTarget(ctx context.Context, g workspace.Generation, at tree.Build) (*target, error) {
	var a session.Admission
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		a.Project, err = r.ProjectByID(ctx, session.ByID{ID: g.Project})
		return err
	})
	if err != nil {
		return nil, err
	}
	root, err := tree.Open(at.Tree(), tree.Options{Areas: s.cfg.Own, ByPath: a.Project.By == session.ByPath})
	if err != nil {
		return nil, problem(err)
	}
	p := packet{Admission: a}
	return &target{
		Admission: a, root: root, rulesOf: p.project(), rules: s.cfg.Rules(p.project()), sealed: true,
		builds: builds{buildVariable, []string{root.Path()}},
	}, nil
}

// producerTool is the tool that makes builds.
const producerTool = "start_verified_workspace_producer"

// statementType and predicateType say what a statement is. The first is that of in-toto.
const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "urn:mcpx:generation:1"
)

// statement is what is stated of a build, for those who have it without the record: in-toto Statement v1.
func (s *Service) statement(g workspace.Generation) ([]byte, error) {
	type subject struct {
		Name   string            `json:"name"`
		Digest map[string]string `json:"digest"`
	}
	type check struct {
		Argv    string `json:"argv_sha256"`
		Code    *int   `json:"exit_code"`
		Timeout int    `json:"timeout_s,omitempty"`
	}
	checks := []check{}
	for _, v := range g.Validators {
		checks = append(checks, check{argvDigest(operation.JobCommand{Argv: v.Argv}), v.Code, v.Timeout})
	}
	inputs := []string{}
	raw, err := json.MarshalIndent(struct {
		Type      string    `json:"_type"`
		Subject   []subject `json:"subject"`
		Predicate any       `json:"predicate"`
		PType     string    `json:"predicateType"`
	}{statementType, []subject{{g.ID, map[string]string{"sha256": g.TreeHash}}}, struct {
		Manifest   string    `json:"manifest"`
		Argv       string    `json:"producer_argv_sha256"`
		Env        string    `json:"producer_env_names_sha256"`
		Workspace  string    `json:"workspace"`
		Job        string    `json:"job_id"`
		Outputs    []string  `json:"outputs"`
		Inputs     []string  `json:"inputs"`
		Validators []check   `json:"validators"`
		Started    time.Time `json:"started_at"`
		Sealed     time.Time `json:"sealed_at"`
		Maker      string    `json:"made_by"`
	}{
		"gen-manifest 1 sha256", g.Argv, g.Env, workspace.Handle{ID: g.Workspace, Rev: g.Rev}.String(), g.Job, g.Outputs, append(inputs, g.Inputs...), checks,
		g.Created.UTC(), g.Sealed.UTC(), "mcpx",
	}, predicateType}, "", "  ")
	return append(raw, '\n'), err
}

// recoverGenerations goes on with the candidates and audits that an earlier daemon has left, and puts aside what lies among
// the builds and no record knows.
func (s *Service) recoverGenerations(ctx context.Context) error {
	var open, all []workspace.Generation
	var audits []workspace.Audit
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		if all, err = workspace.AllGenerations(ctx, r, workspace.ListGenerations{}); err != nil {
			return err
		}
		audits, err = workspace.AllAudits(ctx, r, workspace.ListAudits{States: workspace.AuditsUnderWay})
		return err
	})
	if err != nil {
		return err
	}
	known := map[string]workspace.Generation{}
	areas := map[string]bool{s.cfg.State: true}
	for _, g := range all {
		if g.Dir != "" {
			known[filepath.Base(g.Dir)] = g
			areas[filepath.Dir(filepath.Dir(g.Dir))] = true
		}
		if g.State.UnderWay() {
			known[".tmp-"+g.Candidate] = g
			open = append(open, g)
		}
	}
	var failed error
	for area := range areas {
		failed = errors.Join(failed, s.sweepBuilds(ctx, area, known))
	}
	if s.cfg.Runner == nil {
		return failed
	}
	for _, g := range open {
		release, err := s.leases.take(g.Workspace, false)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		s.produce(ctx, g.Candidate, release)
	}
	for _, a := range audits {
		s.behind(ctx, a.ID, func(ctx context.Context) error { return s.audit(ctx, a) })
	}
	return failed
}

// buildAside moves what is no build into the quarantine, under a name of its own.
func (s *Service) buildAside(area *tree.Area, b tree.Build) error {
	name := strings.TrimPrefix(filepath.Base(b.Dir), ".tmp-") + "-" + strings.TrimPrefix(s.cfg.IDs.New(id.Build), "b_")
	return area.Move(tree.Packet(b), area.Aside(name))
}

// sweepBuilds puts aside the directories among the builds of an area that no record knows, and empties those that are
// released.
func (s *Service) sweepBuilds(ctx context.Context, path string, known map[string]workspace.Generation) error {
	area, err := tree.AreaAt(path)
	if tree.CodeOf(err) == tree.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	defer area.Close()
	names, err := area.Builds()
	if err != nil {
		return err
	}
	var failed error
	for _, name := range names {
		g, ok := known[name]
		switch {
		case !ok || g.State == workspace.GenRejected:
			err = s.buildAside(area, area.Build(name))
		case g.State == workspace.GenReleased:
			err = area.Build(name).Empty(ctx)
		default:
			err = nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
