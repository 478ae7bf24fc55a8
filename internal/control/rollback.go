package control

import (
	"context"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// RollBack makes the plan that takes a receipt back. Called again while nothing has changed it gives the same plan.
func (c *Control) RollBack(ctx context.Context, in api.RollBack) (api.PlanView, error) {
	if err := c.allow(ctx, "receipt.rollback"); err != nil {
		return api.PlanView{}, err
	}
	c.files.Lock()
	defer c.files.Unlock()
	var receipt converge.Receipt
	var original converge.Plan
	var servers []catalog.Server
	var agents []converge.AgentRecord
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		if receipt, err = findReceipt(ctx, r, in.Receipt); err != nil {
			return err
		}
		if original, err = r.PlanByID(ctx, converge.PlanByID{ID: receipt.Plan}); err != nil {
			return err
		}
		if servers, err = catalog.All(ctx, r); err == nil {
			agents, err = r.AgentRecords(ctx)
		}
		return err
	})
	if err != nil {
		return api.PlanView{}, err
	}
	w := converge.World{
		Servers: servers, Revision: catalog.Revision(servers), Agents: agents, Policy: c.cfg.Policy(), Adapter: c.cfg.Adapter, Program: c.cfg.Program,
		Look: original.Look, Now: c.cfg.Now(),
	}
	proposal, err := converge.Rollback(receipt, original, w, in.Merge)
	if err != nil {
		return api.PlanView{}, err
	}
	return c.propose(ctx, w, proposal, fault.New(fault.Conflict, "rollback-done").Saying("the files are as they were before %s already", receipt.ID).
		Hinting("see `mcpx plan show %s`", original.ID))
}

// propose makes the plan of one proposal that was asked for; done is the error when there is nothing to change. The
// caller holds files.
func (c *Control) propose(ctx context.Context, w converge.World, p converge.Proposal, done *fault.Error) (api.PlanView, error) {
	plan, differs, err := c.sealed(ctx, w, p)
	if err != nil {
		return api.PlanView{}, err
	}
	if !differs {
		return api.PlanView{}, done
	}
	var view api.PlanView
	err = c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		view, err = c.offer(ctx, tx, plan)
		return err
	})
	view.Operation = api.OperationOf(ctx)
	return view, err
}

// offer stores one plan that was asked for, and asks the person about it.
func (c *Control) offer(ctx context.Context, tx store.Tx, plan converge.Plan) (api.PlanView, error) {
	if err := c.expire(ctx, tx); err != nil {
		return api.PlanView{}, err
	}
	made := []converge.Plan{plan}
	all, err := storedPlans(ctx, tx, made)
	if err != nil {
		return api.PlanView{}, err
	}
	// Other plans to take the same receipt back, or to install the same control plane, count no more.
	stored := slices.DeleteFunc(all, func(p converge.Plan) bool {
		same := plan.Kind == converge.PlanControlPlane && p.Kind == plan.Kind && p.Agent == plan.Agent && p.State != converge.PlanApplied
		return p.ID != plan.ID && !same && (plan.Reverts == "" || p.Reverts != plan.Reverts)
	})
	turn := converge.Reconcile(stored, made, converge.World{Asked: converge.Asked{Retry: true}}, func(converge.Plan) bool { return false })
	for _, p := range stored {
		if p.ID == plan.ID {
			continue
		}
		if err := p.Supersede(); err != nil {
			return api.PlanView{}, err
		}
		if err := c.supersede(ctx, tx, p, []string{"replaced"}); err != nil {
			return api.PlanView{}, err
		}
	}
	already := false
	switch {
	case len(turn.Put) == 1:
		plan = turn.Put[0]
		if err := c.tellMade(ctx, tx, plan); err != nil {
			return api.PlanView{}, err
		}
	case len(turn.Keep) == 1:
		plan, already = turn.Keep[0], true
	}
	asked, err := c.ask(ctx, tx, &plan)
	if err == nil && (asked || !already) {
		err = tx.PutPlan(ctx, converge.PutPlan{Plan: plan})
	}
	if err != nil {
		return api.PlanView{}, err
	}
	view, err := c.planView(ctx, tx, plan)
	view.Already = already
	return view, err
}

// findReceipt finds a receipt by its id, or the latest one of a plan.
func findReceipt(ctx context.Context, r store.Reader, ref string) (converge.Receipt, error) {
	if !strings.HasPrefix(ref, "plan_") {
		return r.ReceiptByID(ctx, converge.ReceiptByID{ID: ref})
	}
	p, err := r.PlanByID(ctx, converge.PlanByID{ID: ref})
	if err != nil {
		return converge.Receipt{}, err
	}
	if p.Receipt == "" {
		return converge.Receipt{}, fault.New(fault.Conflict, "plan-not-applied").Saying("%s was never applied", p.ID).
			Hinting("there is nothing to take back; `mcpx rollback` lists what can be")
	}
	return r.ReceiptByID(ctx, converge.ReceiptByID{ID: p.Receipt})
}
