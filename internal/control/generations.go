package control

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// usedGenerations are the states of what a list shows without being asked for all.
var usedGenerations = append(append([]workspace.GenerationState{workspace.GenCorrupt}, workspace.GenerationsUnderWay...), workspace.GenerationsThere...)

// Generations lists candidates and builds of everybody.
func (c *Control) Generations(ctx context.Context, in api.GenerationsQuery) (api.GenerationPage, error) {
	if err := c.allow(ctx, "generation.list"); err != nil {
		return api.GenerationPage{}, err
	}
	limit := min(rows(in.Limit), workspace.MaxPage-1)
	list := workspace.ListGenerations{Producer: in.Producer, Before: uint64(in.Before), Limit: limit + 1}
	if !in.All {
		list.States = usedGenerations
	}
	page := api.GenerationPage{Generations: []api.Generation{}, Next: []string{}}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		if list.Project, err = projectID(ctx, r, in.Project); err != nil {
			return err
		}
		if in.Workspace != "" {
			w, err := r.WorkspaceByID(ctx, workspace.ByID{ID: in.Workspace})
			if err != nil {
				return err
			}
			list.Workspace = w.ID
		}
		found, err := r.Generations(ctx, list)
		if err != nil {
			return err
		}
		found, page.Before = cut(found, limit, func(g workspace.Generation) uint64 { return g.Seq })
		for _, g := range found {
			one, err := generationIn(ctx, r, g)
			if err != nil {
				return err
			}
			page.Generations = append(page.Generations, one)
		}
		return nil
	})
	if err != nil {
		return api.GenerationPage{}, err
	}
	if len(page.Generations) > 0 {
		page.Next = append(page.Next, "mcpx generation show "+page.Generations[0].Name())
	}
	return page, nil
}

// generationIn is a generation with the name of its project and the end of its last audit, without its validators.
func generationIn(ctx context.Context, r store.Reader, g workspace.Generation) (api.Generation, error) {
	g.Validators = nil
	one := api.Generation{Generation: g}
	p, err := r.ProjectByID(ctx, session.ByID{ID: g.Project})
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return one, err
	}
	one.ProjectName = p.Name
	if g.Ready.IsZero() { // an id that was never given to anybody is none
		one.ID = ""
		return one, nil
	}
	last, err := r.Audits(ctx, workspace.ListAudits{Build: g.ID, Limit: 1})
	if len(last) == 1 {
		one.Last = auditOf(last[0], g).End()
	}
	return one, err
}

func auditOf(a workspace.Audit, g workspace.Generation) api.GenerationAudit {
	return api.GenerationAudit{Audit: a, EvidenceLost: a.State == workspace.AuditDone && !g.Corrupted.IsZero()}
}

// generationNamed finds a generation by its id, or by a beginning of it that only one has.
func generationNamed(ctx context.Context, r store.Reader, ref string) (workspace.Generation, error) {
	g, err := r.GenerationByID(ctx, workspace.ByID{ID: ref})
	if fault.KindOf(err) != fault.NotFound {
		return g, err
	}
	all, err := workspace.AllGenerations(ctx, r, workspace.ListGenerations{})
	if err != nil {
		return g, err
	}
	var found []workspace.Generation
	for _, one := range all {
		if strings.HasPrefix(one.ID, ref) && !one.Ready.IsZero() || strings.HasPrefix(one.Candidate, ref) {
			found = append(found, one)
		}
	}
	switch {
	case len(found) > 1:
		return g, fault.New(fault.Conflict, "generation-ambiguous").Saying("%d builds begin with %s", len(found), ref).Hinting("give more of the id")
	case len(found) == 0:
		return g, unknownGeneration(ref)
	}
	return found[0], nil
}

func unknownGeneration(ref string) *fault.Error {
	return fault.New(fault.NotFound, "generation-unknown").Saying("there is no build %s", ref).Hinting("`mcpx generation list --all` shows them")
}

// Generation shows one candidate or build, with the verdicts about it.
func (c *Control) Generation(ctx context.Context, in api.GenerationRef) (api.GenerationView, error) {
	if err := c.allow(ctx, "generation.show"); err != nil {
		return api.GenerationView{}, err
	}
	view := api.GenerationView{Audits: []api.GenerationAudit{}}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		g, err := generationNamed(ctx, r, in.Build)
		if err != nil {
			return err
		}
		if view.Generation, err = generationIn(ctx, r, g); err != nil || g.Ready.IsZero() {
			return err
		}
		audits, err := r.Audits(ctx, workspace.ListAudits{Build: g.ID})
		for _, a := range audits {
			view.Audits = append(view.Audits, auditOf(a, g))
		}
		return err
	})
	if err != nil {
		return view, err
	}
	var seen struct { // what looks like a secret in a validator is told to nobody
		Validators []workspace.Validator `json:"validators"`
	}
	if _, err := c.tool(ctx, "generation_status", map[string]any{"build_id": view.Candidate}, &seen); err != nil {
		return view, refusedBuild(err)
	}
	view.Validators = seen.Validators
	view.Next = nextOfGeneration(view)
	return view, nil
}

// nextOfGeneration are the commands that can follow.
func nextOfGeneration(v api.GenerationView) []string {
	switch v.State {
	case workspace.GenCandidate, workspace.GenSealing, workspace.GenValidating:
		return []string{"mcpx job show " + v.Job}
	case workspace.GenReady, workspace.GenSuperseded:
		return []string{"mcpx generation verify " + v.ID, "mcpx generation consume " + v.ID + " -- COMMAND"}
	case workspace.GenCorrupt:
		return []string{"mcpx generation verify " + v.ID, "mcpx generation release " + v.ID}
	case workspace.GenRejected:
		job := v.Job
		for _, one := range v.Validators {
			if one.Job != "" && !one.Passed {
				job = one.Job
			}
		}
		return []string{"mcpx job logs " + job + " --stream stderr"}
	case workspace.GenReleased:
		return []string{}
	}
	panic("control: unknown state of a generation " + string(v.State))
}

// readEvery is how often a person is told how much of a build was read.
const readEvery = time.Second

// VerifyGeneration reads a whole build.
func (c *Control) VerifyGeneration(ctx context.Context, in api.GenerationRef, emit func(api.GenerationCheck) error) error {
	if err := c.allow(ctx, "generation.verify"); err != nil {
		return err
	}
	var g workspace.Generation
	err := c.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		g, err = generationNamed(ctx, r, in.Build)
		return err
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var read atomic.Int64
	begun := c.cfg.Now()
	done := make(chan operation.Answer, 1)
	go func() {
		done <- c.cfg.Work.Verify(ctx, actorOf(ctx), g.Name(), func(bytes int) { read.Add(int64(bytes)) })
	}()
	check := api.GenerationCheck{Build: g.ID, State: g.State, TreeHash: g.TreeHash, Files: g.Files, Bytes: g.Bytes, Next: []string{}}
	every := time.NewTicker(readEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			check.Read = read.Load()
			check.Text = fmt.Sprintf("%d of %d bytes of %s are read", check.Read, check.Bytes, check.Build)
			if err := emit(check); err != nil {
				stop()
				<-done
				return err
			}
		case a := <-done:
			if ctx.Err() != nil { // the reader left
				return context.Cause(ctx)
			}
			check.Read, check.TookMS = read.Load(), c.cfg.Now().Sub(begun).Milliseconds()
			if err := concluded(&check, a); err != nil {
				return err
			}
			return emit(check)
		}
	}
}

// RetainGeneration keeps a build until it is released.
func (c *Control) RetainGeneration(ctx context.Context, in api.GenerationRef) (api.GenerationChanged, error) {
	return c.changeGeneration(ctx, in, generationChange{
		op: "generation.retain", tool: "retain_generation", is: "retained", already: func(g workspace.Generation) bool { return g.Retained },
		text: "%s is kept until it is released", next: "mcpx generation release ",
	})
}

// ReleaseGeneration gives up the bytes of a build.
func (c *Control) ReleaseGeneration(ctx context.Context, in api.GenerationRef) (api.GenerationChanged, error) {
	return c.changeGeneration(ctx, in, generationChange{
		op: "generation.release", tool: "release_generation", is: string(workspace.GenReleased), already: func(g workspace.Generation) bool { return g.State == workspace.GenReleased },
		text: "the bytes of %s are gone; its manifest and its verdicts are kept", next: "mcpx generation show ",
	})
}

// generationChange is a tool that changes a build as a whole.
type generationChange struct {
	op, tool   string
	is         string // what the build is afterwards
	already    func(workspace.Generation) bool
	text, next string
}

func (c *Control) changeGeneration(ctx context.Context, in api.GenerationRef, change generationChange) (api.GenerationChanged, error) {
	out := api.GenerationChanged{State: change.is, Operation: api.OperationOf(ctx)}
	if err := c.allow(ctx, change.op); err != nil {
		return out, err
	}
	begun, err := c.begun(ctx)
	if err != nil {
		return out, err
	}
	g, err := c.generation(ctx, in.Build)
	if err != nil {
		return out, err
	}
	out.Next = []string{change.next + g.Name()}
	if out.Generation = g; begun == nil && change.already(g.Generation) {
		out.State, out.Already, out.Text = "already_"+change.is, true, g.Name()+" is "+change.is+" already"
		return out, nil
	}
	a, err := c.tool(ctx, change.tool, withID(ctx, map[string]any{"build_id": g.Name()}), nil)
	if err != nil {
		return out, refusedBuild(err)
	}
	out.Warnings, out.Text = a.Warnings, fmt.Sprintf(change.text, g.Name())
	out.Generation, err = c.generation(ctx, g.Candidate)
	return out, err
}

// generation is one generation as a list shows it.
func (c *Control) generation(ctx context.Context, ref string) (one api.Generation, err error) {
	err = c.cfg.DB.View(ctx, func(r store.Reader) error {
		g, err := generationNamed(ctx, r, ref)
		if err != nil {
			return err
		}
		one, err = generationIn(ctx, r, g)
		return err
	})
	return one, err
}

// ProduceGeneration starts a command in a workspace whose outputs become a build.
func (c *Control) ProduceGeneration(ctx context.Context, in api.ProduceGeneration) (api.GenerationStarted, error) {
	if err := c.allow(ctx, "generation.produce"); err != nil {
		return api.GenerationStarted{}, err
	}
	one, handle, err := c.workspaceNamed(ctx, in.Workspace)
	if err != nil {
		return api.GenerationStarted{}, err
	}
	args, err := c.earlier(ctx, one.ID)
	if err != nil {
		return api.GenerationStarted{}, err
	}
	if args == nil {
		args = map[string]any{"handle": handle, "argv": in.Argv, "outputs": in.Outputs}
		var validators []map[string]any
		for _, text := range in.Validators {
			validators = append(validators, map[string]any{"argv": []string{"sh", "-c", text}})
		}
		if len(validators) > 0 {
			args["validators"] = validators
		}
		if len(in.Inputs) > 0 {
			args["inputs"] = in.Inputs
		}
		if in.Timeout > 0 {
			args["timeout_s"] = in.Timeout
		}
	}
	again := "mcpx generation produce " + one.ID
	return c.startGeneration(ctx, "start_verified_workspace_producer", args, again, func(s *api.GenerationStarted) {
		s.Text, s.Next = "the producer "+s.Job+" runs; its outputs become the candidate "+s.Candidate, []string{"mcpx generation show " + s.Candidate}
	})
}

// ConsumeGeneration starts a command that gives a verdict about a build.
func (c *Control) ConsumeGeneration(ctx context.Context, in api.ConsumeGeneration) (api.GenerationStarted, error) {
	if err := c.allow(ctx, "generation.consume"); err != nil {
		return api.GenerationStarted{}, err
	}
	args, err := c.begun(ctx)
	if err != nil {
		return api.GenerationStarted{}, err
	}
	if args == nil {
		args = map[string]any{"build_id": in.Build, "argv": in.Argv}
		if in.Copy {
			args["view"] = string(workspace.PrivateCopy)
		}
		if in.Workspace != "" {
			_, handle, err := c.workspaceNamed(ctx, in.Workspace)
			if err != nil {
				return api.GenerationStarted{}, err
			}
			args["handle"] = handle
		}
		if in.Timeout > 0 {
			args["timeout_s"] = in.Timeout
		}
	}
	return c.startGeneration(ctx, "start_verified_workspace_consumer", args, "mcpx generation consume "+in.Build, func(s *api.GenerationStarted) {
		s.Build, s.Text, s.Next = in.Build, "the consumer "+s.Job+" runs; its verdict becomes the audit "+s.Audit, []string{"mcpx generation show " + in.Build}
	})
}

// startGeneration starts a producer or a consumer. again is the command that goes on with it once a person has decided.
func (c *Control) startGeneration(ctx context.Context, tool string, args map[string]any, again string, told func(*api.GenerationStarted)) (api.GenerationStarted, error) {
	out := api.GenerationStarted{State: api.GenerationStarts, Operation: api.OperationOf(ctx)}
	a, err := c.tool(ctx, tool, withID(ctx, args), &out)
	out.State = api.GenerationStarts // the tool tells the state of its job
	if err != nil {
		return out, refusedBuild(err)
	}
	if a.Waiting != nil {
		out.State, out.Approval, out.Text = api.GenerationWaits, a.Waiting.Approval, "a person has to look at the command first; nothing was started"
		out.Next = []string{"mcpx approval show " + out.Approval, again + " --operation " + out.Operation}
		return out, nil
	}
	out.Warnings = a.Warnings
	told(&out)
	return out, nil
}

// refusedBuild is a refusal of a tool for builds, for a person at a terminal.
func refusedBuild(err error) error {
	r := refusalIn(err)
	if r == nil {
		return err
	}
	var f *fault.Error
	switch r.Code { //nolint:exhaustive // the others are those of workspaces
	case workspace.UnknownBuild:
		f = fault.New(fault.NotFound, "generation-unknown").Saying("%s", r.Message).Hinting("`mcpx generation list --all` shows them; here an id is given whole")
	case workspace.NotReady:
		f = fault.New(fault.Busy, "generation-not-ready").Saying("%s", r.Message).Hinting("`mcpx generation show` says how far it is")
	case workspace.BuildCorrupt:
		f = fault.New(fault.Conflict, "generation-corrupt").Saying("%s", r.Message).Hinting("`mcpx generation verify` names the difference; start its producer again for a new build")
	case workspace.BuildInUse:
		f = fault.New(fault.Busy, "generation-in-use").Saying("%s", r.Message).Hinting("try again when that has ended; `mcpx job list` shows it")
	case operation.ToolDisabled:
		f = fault.New(fault.Denied, "generation-commands-off").Saying("%s", r.Message).Hinting("set %v to true in config/mcpx.toml, then `mcpx daemon restart`", r.Details["setting"])
	default:
		return refusedWork(err)
	}
	return f.Retrying(r.Retry)
}

// concluded takes the answer of the tool that has read the build.
func concluded(check *api.GenerationCheck, a operation.Answer) error {
	check.Done = true
	r := a.Refusal
	switch {
	case r == nil:
		check.Same, check.Text = true, fmt.Sprintf("every byte of %s is that of its manifest", check.Build)
		check.Next = []string{"mcpx generation consume " + check.Build + " -- COMMAND"}
		return nil
	case r.Code != workspace.BuildCorrupt:
		return refusedBuild(r)
	}
	check.State, check.Text, check.Next = workspace.GenCorrupt, r.Message, []string{"mcpx generation show " + check.Build}
	if d, ok := r.Details["difference"].(workspace.Difference); ok {
		check.Difference = &d
	}
	return nil
}
