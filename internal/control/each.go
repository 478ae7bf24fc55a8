package control

import (
	"context"
	"iter"

	"mcpx/internal/approval"
	"mcpx/internal/converge"
	"mcpx/internal/page"
)

// eachPlan reads the plans that fit, the newest first.
func eachPlan(ctx context.Context, r converge.Reader, p converge.ListPlans) iter.Seq2[converge.Plan, error] {
	return page.Each(p.PageLimit(), func(last *converge.Plan) ([]converge.Plan, error) {
		list := p
		if last != nil {
			list.Before = last.ID
		}
		return r.Plans(ctx, list)
	})
}

// eachReceipt reads the receipts that fit, the newest first.
func eachReceipt(ctx context.Context, r converge.Reader, p converge.ListReceipts) iter.Seq2[converge.Receipt, error] {
	return page.Each(p.PageLimit(), func(last *converge.Receipt) ([]converge.Receipt, error) {
		list := p
		if last != nil {
			list.Before = last.ID
		}
		return r.Receipts(ctx, list)
	})
}

// eachApproval reads the approvals that fit, in order.
func eachApproval(ctx context.Context, r approval.Reader, p approval.ListApprovals) iter.Seq2[approval.Approval, error] {
	return page.Each(p.PageLimit(), func(last *approval.Approval) ([]approval.Approval, error) {
		list := p
		if last != nil {
			list.After = last.ID
		}
		return r.Approvals(ctx, list)
	})
}
