package control

import (
	"context"
	"iter"

	"mcpx/internal/approval"
	"mcpx/internal/converge"
)

// each reads page after page for as long as the caller goes on. read is given the last row of the page before, nil at
// first; limit is how many rows a page has that is not the last one.
func each[T any](limit int, read func(last *T) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last *T
		for {
			page, err := read(last)
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, row := range page {
				if !yield(row, nil) {
					return
				}
			}
			if len(page) < limit {
				return
			}
			last = &page[len(page)-1]
		}
	}
}

// every gathers all rows.
func every[T any](rows iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, nil
}

// eachPlan reads the plans that fit, the newest first.
func eachPlan(ctx context.Context, r converge.Reader, p converge.ListPlans) iter.Seq2[converge.Plan, error] {
	return each(p.PageLimit(), func(last *converge.Plan) ([]converge.Plan, error) {
		page := p
		if last != nil {
			page.Before = last.ID
		}
		return r.Plans(ctx, page)
	})
}

// eachReceipt reads the receipts that fit, the newest first.
func eachReceipt(ctx context.Context, r converge.Reader, p converge.ListReceipts) iter.Seq2[converge.Receipt, error] {
	return each(p.PageLimit(), func(last *converge.Receipt) ([]converge.Receipt, error) {
		page := p
		if last != nil {
			page.Before = last.ID
		}
		return r.Receipts(ctx, page)
	})
}

// eachApproval reads the approvals that fit, in order.
func eachApproval(ctx context.Context, r approval.Reader, p approval.ListApprovals) iter.Seq2[approval.Approval, error] {
	return each(p.PageLimit(), func(last *approval.Approval) ([]approval.Approval, error) {
		page := p
		if last != nil {
			page.After = last.ID
		}
		return r.Approvals(ctx, page)
	})
}
