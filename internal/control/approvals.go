package control

import (
	"context"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// Approvals lists approvals.
func (c *Control) Approvals(ctx context.Context, in api.ApprovalsQuery) (api.ApprovalPage, error) {
	if err := c.allow(ctx, "approval.list"); err != nil {
		return api.ApprovalPage{}, err
	}
	limit := rows(in.Limit)
	page := api.ApprovalPage{Approvals: []approval.Approval{}, Next: []string{}}
	wants := func(a approval.Approval) bool {
		return in.All || in.State != "" && string(a.State) == in.State || in.State == "" && !a.State.Final()
	}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		list := approval.ListApprovals{}
		if in.After != "" {
			a, err := r.ApprovalByID(ctx, approval.ByID{ID: in.After})
			if err != nil {
				return err
			}
			list.After = a.ID
		}
		for a, err := range approval.Each(ctx, r, list) {
			if err != nil {
				return err
			}
			a, _ = approval.Expire(a, c.cfg.Now()) // what is over is shown as over, whether it was written down or not
			if !wants(a) {
				continue
			}
			if len(page.Approvals) == limit {
				page.More = true
				return nil
			}
			page.Approvals = append(page.Approvals, a)
		}
		return nil
	})
	page.Next = append(page.Next, nextOfApprovals(page.Approvals)...)
	if len(page.Approvals) == 0 {
		page.Next = []string{"mcpx audit run"}
	}
	return page, err
}

// nextOfApprovals are the commands that can follow: what is approved is applied first, since a yes counts for a short time.
func nextOfApprovals(all []approval.Approval) []string {
	var plans []string
	pending := ""
	for _, a := range all {
		switch a.State {
		case approval.Pending:
			if pending == "" {
				pending = a.ID
			}
		case approval.Approved:
			if a.Kind == approval.KindPlan {
				plans = append(plans, a.About)
			}
		case approval.Denied, approval.Expired, approval.Revoked, approval.Consumed:
		}
	}
	switch {
	case len(plans) == 1:
		return []string{"mcpx apply " + plans[0]}
	case len(plans) > 1:
		return []string{"mcpx apply --all"}
	case pending != "":
		return []string{"mcpx approval approve " + pending, "mcpx approval deny " + pending}
	}
	return nil
}

// Approval shows one approval with the plan that it is about.
func (c *Control) Approval(ctx context.Context, in api.ApprovalRef) (api.ApprovalView, error) {
	if err := c.allow(ctx, "approval.show"); err != nil {
		return api.ApprovalView{}, err
	}
	var view api.ApprovalView
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		a, err := findApproval(ctx, r, in.Approval)
		if err != nil {
			return err
		}
		view, err = c.approvalView(ctx, r, a)
		return err
	})
	return view, err
}

// findApproval finds an approval by its id or by the plan that it is about.
func findApproval(ctx context.Context, r store.Reader, ref string) (approval.Approval, error) {
	if !strings.HasPrefix(ref, "plan_") {
		return r.ApprovalByID(ctx, approval.ByID{ID: ref})
	}
	p, err := r.PlanByID(ctx, converge.PlanByID{ID: ref})
	if err != nil {
		return approval.Approval{}, err
	}
	if p.Approval == "" {
		return approval.Approval{}, fault.New(fault.NotFound, "approval-unknown").Saying("nobody was asked about %s", p.ID).
			Hinting("`mcpx plan show %s` says why", p.ID)
	}
	return r.ApprovalByID(ctx, approval.ByID{ID: p.Approval})
}

func (c *Control) approvalView(ctx context.Context, r store.Reader, a approval.Approval) (api.ApprovalView, error) {
	a, _ = approval.Expire(a, c.cfg.Now())
	view := api.ApprovalView{Approval: a, Next: []string{}}
	if a.State == approval.Pending {
		view.Next = []string{"mcpx approval approve " + a.ID, "mcpx approval deny " + a.ID}
	}
	if a.Kind != approval.KindPlan {
		return view, callView(ctx, r, &view)
	}
	switch a.State {
	case approval.Pending:
	case approval.Approved:
		view.Next = []string{"mcpx apply " + a.About}
	case approval.Consumed:
		view.Next = []string{"mcpx plan show " + a.About}
	case approval.Denied, approval.Expired, approval.Revoked:
		view.Next = []string{"mcpx audit run"}
	}
	p, err := r.PlanByID(ctx, converge.PlanByID{ID: a.About})
	if err != nil {
		return view, err
	}
	plan, err := c.planView(ctx, r, p)
	view.Plan = &plan
	return view, err
}

// callView adds what an approval of a call at /mcp is about.
func callView(ctx context.Context, r store.Reader, view *api.ApprovalView) error {
	if view.Project != "" {
		p, err := r.ProjectByID(ctx, session.ByID{ID: view.Project})
		if err != nil {
			return err
		}
		view.ProjectName = p.Name
	}
	if view.Full == "" {
		return nil
	}
	kept, err := r.KeptResult(ctx, operation.KeptByRef{Principal: view.Principal, Ref: view.Full})
	if fault.KindOf(err) == fault.NotFound {
		return nil // its time is over, as that of the question is
	}
	view.Whole = string(kept.Bytes)
	return err
}

// Decide records the yes or no of a person. Whoever asks must sit at a terminal, and must not be a process that a server
// of ours started: a refusal is written down.
func (c *Control) Decide(ctx context.Context, in api.Decide) (api.ApprovalView, error) {
	if err := c.allow(ctx, "approval.decide"); err != nil {
		return api.ApprovalView{}, err
	}
	asker, refused := c.cfg.Person(api.CallerOf(ctx).Pid)
	var view api.ApprovalView
	err := c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		a, err := findApproval(ctx, tx, in.Approval)
		if err != nil {
			return err
		}
		decided := a
		if refused == nil {
			decided, refused = approval.Decide(a, approval.Decision{
				Principal: actorOf(ctx).Principal, Channel: actorOf(ctx).Channel, Terminal: asker.Terminal, At: c.cfg.Now(), Note: in.Note, Digest: in.Digest,
			}, in.Approve)
		}
		if refused != nil {
			return c.tell(ctx, tx, event.ApprovalRefused, asker.refs(a.Refs()), "a decision about "+a.ID+" was not accepted: "+fault.From(refused).Message, refusalOf(refused))
		}
		if err := tx.PutApproval(ctx, approval.PutApproval{Approval: decided}); err != nil {
			return err
		}
		word := "denied"
		if in.Approve {
			word = "approved"
		}
		if err := c.tellApproval(ctx, tx, event.ApprovalDecided, decided, decided.ID+" was "+word+": "+decided.Display, struct {
			State    approval.State `json:"state"`
			Subject  string         `json:"subject_sha256"`
			Terminal string         `json:"terminal"`
			Note     string         `json:"note,omitempty"`
		}{decided.State, decided.Subject, asker.Terminal, in.Note}); err != nil {
			return err
		}
		if !in.Approve {
			if err := c.cfg.Holds.Ended(ctx, tx, actorOf(ctx), decided); err != nil {
				return err
			}
		}
		view, err = c.approvalView(ctx, tx, decided)
		return err
	})
	if err == nil {
		err = refused
	}
	return view, err
}

// SetAgent says how far mcpx goes with an agent.
func (c *Control) SetAgent(ctx context.Context, in api.SetAgent) (api.Agent, error) {
	if err := c.allow(ctx, "agent.set"); err != nil {
		return api.Agent{}, err
	}
	kind, err := c.cfg.ParseAgent(in.Agent)
	if err != nil {
		return api.Agent{}, err
	}
	levels := []converge.Level{converge.LevelObserved, converge.LevelManaged, converge.LevelAuto}
	if !slices.Contains(levels, in.Level) {
		return api.Agent{}, fault.New(fault.Invalid, "request-invalid").Saying("the level %q is not one of observed, managed, auto", in.Level)
	}
	if in.Level == converge.LevelAuto { // nobody is asked for some plans from here on
		if _, err := c.cfg.Person(api.CallerOf(ctx).Pid); err != nil {
			return api.Agent{}, err
		}
	}
	out := api.Agent{State: string(in.Level), Level: in.Level, Next: []string{"mcpx audit run"}, Operation: api.OperationOf(ctx)}
	err = c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		records, err := tx.AgentRecords(ctx)
		if err != nil {
			return err
		}
		record := converge.AgentRecord{Agent: kind, Level: converge.LevelObserved}
		if i := slices.IndexFunc(records, func(r converge.AgentRecord) bool { return r.Agent == kind }); i >= 0 {
			record = records[i]
		}
		if record.Level == in.Level {
			out.State, out.Since = "already_"+string(in.Level), record.Since
			return nil
		}
		before := record.Level
		record.Level, record.Since = in.Level, c.cfg.Now()
		out.Since = record.Since
		if err := tx.PutAgentRecord(ctx, converge.PutAgentRecord{Record: record}); err != nil {
			return err
		}
		return c.tell(ctx, tx, event.AgentManaged, event.Refs{event.RefAgent: kind}, kind+" is "+string(in.Level)+", it was "+string(before), struct {
			Level  converge.Level `json:"level"`
			Before converge.Level `json:"before"`
		}{in.Level, before})
	})
	if err != nil {
		return api.Agent{}, err
	}
	c.stir()
	if in.Level == converge.LevelObserved {
		out.Next = []string{"mcpx agents discover"}
	}
	for _, known := range c.cfg.Agents() {
		if known.Agent == kind {
			out.Agent, out.Title, out.Evidence, out.Client = kind, known.Title, known.Evidence, known.Client
		}
	}
	out.Files, out.Counts = []converge.File{}, map[converge.Class]int{}
	return out, nil
}

// Agents lists the coding agents with what is in their files.
func (c *Control) Agents(ctx context.Context, in api.ConfigQuery) (api.Agents, error) {
	if err := c.allow(ctx, "agent.list"); err != nil {
		return api.Agents{}, err
	}
	seen, k, err := c.observe(ctx, in)
	if err != nil {
		return api.Agents{}, err
	}
	var records []converge.AgentRecord
	plans := map[string]int{}
	err = c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		if records, err = r.AgentRecords(ctx); err != nil {
			return err
		}
		ready, err := converge.AllPlans(ctx, r, converge.ListPlans{State: converge.PlanReady})
		for _, p := range ready {
			plans[p.Agent]++
		}
		return err
	})
	if err != nil {
		return api.Agents{}, err
	}
	out := api.Agents{Agents: c.cfg.Agents(), Next: []string{}}
	at := map[string]*api.Agent{}
	for i := range out.Agents {
		a := &out.Agents[i]
		a.Level, a.Files, a.Counts, a.Plans = converge.LevelObserved, []converge.File{}, map[converge.Class]int{}, plans[a.Agent]
		at[a.Agent] = a
	}
	for _, r := range records {
		if a := at[r.Agent]; a != nil && r.Level != "" {
			a.Level, a.Since, a.Profiles = r.Level, r.Since, r.Profiles
		}
	}
	for _, f := range seen.Files {
		if a := at[f.Agent]; a != nil && f.State != converge.FileAbsent {
			a.Files = append(a.Files, f)
		}
	}
	for _, f := range converge.Classify(seen.Entries, k.servers, k.links) {
		if a := at[f.Agent]; a != nil {
			a.Counts[f.Class]++
		}
	}
	out.Next = nextOfAgents(out.Agents)
	return out, nil
}

func nextOfAgents(all []api.Agent) []string {
	managed := slices.ContainsFunc(all, func(a api.Agent) bool { return a.Level != converge.LevelObserved })
	for _, a := range all {
		if !managed && len(a.Files) > 0 {
			return []string{"mcpx agents discover --manage " + a.Agent, "mcpx audit run --agent " + a.Agent}
		}
	}
	return []string{"mcpx audit run"}
}
