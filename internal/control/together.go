package control

import (
	"context"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// ApplyPlans carries several plans out, one after the other, each whole or not at all. Nobody else changes a file through
// mcpx meanwhile, so that plans of one file fit although the first of them changes it. What is refused does not keep the
// others from being applied.
func (c *Control) ApplyPlans(ctx context.Context, in api.ApplyPlans) (api.PlansOutcome, error) {
	if err := c.allow(ctx, "plans.apply"); err != nil {
		return api.PlansOutcome{}, err
	}
	if in.Approved != (len(in.Plans) == 0) {
		return api.PlansOutcome{}, fault.New(fault.Invalid, "request-invalid").Saying("name plans, or ask for all that are approved")
	}
	if len(in.Plans) > api.MaxPlans {
		return api.PlansOutcome{}, fault.New(fault.Invalid, "request-invalid").Saying("%d plans, want at most %d", len(in.Plans), api.MaxPlans)
	}
	c.files.Lock()
	defer c.files.Unlock()
	ids, err := in.Plans, error(nil)
	if in.Approved {
		if ids, err = c.approvedPlans(ctx); err != nil {
			return api.PlansOutcome{}, err
		}
	}
	out := api.PlansOutcome{Applied: []api.PlanOutcome{}, Refused: []api.PlanRefused{}, Next: []string{}, Operation: api.OperationOf(ctx)}
	var before []converge.Receipt
	for _, id := range ids {
		done, err := c.carryOut(ctx, id, before)
		if err != nil {
			out.Refused = append(out.Refused, api.PlanRefused{Plan: id, Problem: api.ProblemOf(err)})
			if ctx.Err() != nil || fault.KindOf(err) == fault.UnknownOutcome { // the files have to be decided about first
				break
			}
			continue
		}
		out.Applied = append(out.Applied, done)
		if !done.Already {
			before = append(before, done.Receipt)
		}
	}
	switch {
	case len(ids) == 0:
		out.Next = []string{"mcpx approval list"}
	case len(out.Refused) > 0:
		out.Next = []string{"mcpx plan show " + out.Refused[0].Plan}
	default:
		out.Next = []string{"mcpx status", "mcpx rollback"}
	}
	return out, nil
}

// approvedPlans are those with a yes of a person that was not used yet, in the order in which the person was asked.
func (c *Control) approvedPlans(ctx context.Context) ([]string, error) {
	var ids []string
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		for a, err := range approval.Each(ctx, r, approval.ListApprovals{State: approval.Approved}) {
			if err != nil {
				return err
			}
			if _, over := approval.Expire(a, c.cfg.Now()); over || a.Kind != approval.KindPlan || len(ids) == api.MaxPlans {
				continue
			}
			ids = append(ids, a.About)
		}
		return nil
	})
	return ids, err
}
