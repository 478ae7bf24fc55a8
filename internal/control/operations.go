package control

import (
	"cmp"
	"context"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
)

// Operations lists operations at /mcp.
func (c *Control) Operations(ctx context.Context, in api.OperationsQuery) (api.OperationPage, error) {
	if err := c.allow(ctx, "operation.list"); err != nil {
		return api.OperationPage{}, err
	}
	limit := rows(in.Limit)
	list := operation.ListOperations{Namespace: in.Principal, Session: in.Session, Before: uint64(in.Before), Limit: limit + 1}
	switch {
	case in.State != "":
		list.States = []operation.State{operation.State(in.State)}
	case !in.All:
		list.States = []operation.State{operation.Claimed, operation.Dispatched, operation.Unknown}
	}
	page := api.OperationPage{Operations: []operation.Operation{}, Next: []string{}}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		found, err := r.Operations(ctx, list)
		found, page.Before = cut(found, limit, func(o operation.Operation) uint64 { return o.Seq })
		page.Operations = append(page.Operations, found...)
		return err
	})
	for _, o := range page.Operations {
		if next := nextOfOperation(o); len(next) > 0 {
			page.Next = next
			break
		}
	}
	return page, err
}

// nextOfOperation are the commands that can follow.
func nextOfOperation(o operation.Operation) []string {
	switch {
	case o.Hold != "":
		return []string{"mcpx approval show " + o.Approval}
	case o.State == operation.Unknown:
		return []string{"mcpx operation resolve " + o.ID + " --verdict done"}
	}
	return nil
}

// Operation shows one operation at /mcp.
func (c *Control) Operation(ctx context.Context, in api.OperationRef) (api.OperationView, error) {
	if err := c.allow(ctx, "operation.show"); err != nil {
		return api.OperationView{}, err
	}
	var out api.OperationView
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		o, err := r.OperationByName(ctx, operation.ByName{Name: named(in)})
		if err != nil {
			return err
		}
		out = operationView(o)
		out.Progress, err = operation.ProgressOf(ctx, r, o)
		return err
	})
	return out, err
}

func named(in api.OperationRef) operation.Name {
	return operation.Name{Namespace: cmp.Or(in.Principal, api.Owner.Name), ID: in.Operation}
}

func operationView(o operation.Operation) api.OperationView {
	return api.OperationView{Operation: o, Next: append([]string{}, nextOfOperation(o)...)}
}

// ResolveOperation writes down how an operation ended whose outcome nobody knew.
func (c *Control) ResolveOperation(ctx context.Context, in api.ResolveOperation) (api.OperationView, error) {
	if err := c.allow(ctx, "operation.resolve"); err != nil {
		return api.OperationView{}, err
	}
	var out api.OperationView
	err := c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		o, err := c.cfg.Holds.Resolve(ctx, tx, actorOf(ctx), named(api.OperationRef{Operation: in.Operation, Principal: in.Principal}), in.Verdict)
		out = operationView(o)
		return err
	})
	if err != nil && fault.KindOf(err) != fault.NotFound {
		err = refusedHere(err)
	}
	return out, err
}
