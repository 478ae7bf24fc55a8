package control

import (
	"fmt"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
)

func TestOperations(t *testing.T) {
	b, ctx := newBench(t)
	err := b.cfg.DB.Change(ctx, func(tx store.Tx) error {
		for i, o := range []operation.Operation{
			{State: operation.Succeeded}, {State: operation.Unknown}, {State: operation.Claimed, Hold: operation.HoldApproval, Approval: "apr_1"},
		} {
			o.Name, o.Tool, o.Print = operation.Name{Namespace: api.Owner.Name, ID: fmt.Sprintf("op-0000%d", i)}, "edit_files", fmt.Sprint(i)
			if err := tx.PutOperation(ctx, operation.PutOperation{Operation: o}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	open, err := b.Operations(ctx, api.OperationsQuery{Limit: 1})
	if err != nil || len(open.Operations) != 1 || open.Operations[0].ID != "op-00002" || fmt.Sprint(open.Next) != "[mcpx approval show apr_1]" {
		t.Fatalf("without a known end: %+v, %v", open, err)
	}
	more, err := b.Operations(ctx, api.OperationsQuery{Before: open.Before})
	if err != nil || len(more.Operations) != 1 || more.Operations[0].ID != "op-00001" || more.Before != 0 {
		t.Errorf("the next page: %+v, %v", more, err)
	}
	if all, err := b.Operations(ctx, api.OperationsQuery{All: true}); err != nil || len(all.Operations) != 3 {
		t.Errorf("all: %+v, %v", all, err)
	}
	if one, err := b.Operation(ctx, api.OperationRef{Operation: "op-00001"}); err != nil || one.State != operation.Unknown || len(one.Next) != 1 {
		t.Errorf("one: %+v, %v", one, err)
	}
	if _, err := b.Operation(ctx, api.OperationRef{Operation: "op-00001", Principal: "ann"}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("that of somebody else: %v", err)
	}
	in := api.ResolveOperation{Operation: "op-00001", Verdict: operation.Done}
	if out, err := b.ResolveOperation(ctx, in); err != nil || out.State != operation.Succeeded {
		t.Errorf("resolved: %+v, %v", out, err)
	}
	in.Verdict = "perhaps"
	if _, err := b.ResolveOperation(ctx, in); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a verdict of no meaning: %v", err)
	}
}

// TestProgressOfOperation: the last that was told of an operation of somebody is shown, while its effect goes on.
func TestProgressOfOperation(t *testing.T) {
	b, ctx := newBench(t)
	o := operation.Operation{Name: operation.Name{Namespace: api.Owner.Name, ID: "op-00001"}, Tool: "integrate_agent_workspace", State: operation.Dispatched, Begun: b.cfg.Now()}
	err := b.cfg.DB.Change(ctx, func(tx store.Tx) error {
		for _, told := range []struct {
			by      string
			applied int
		}{{o.Namespace, 500}, {o.Namespace, 1000}, {"ann", 1500}} {
			_, err := tx.AppendEvent(ctx, event.Draft{
				At: b.cfg.Now(), Kind: event.OperationProgress, Actor: event.Actor{Principal: told.by}, Refs: event.Refs{event.RefOperation: o.ID},
				Body: fmt.Appendf(nil, `{"applied":%d,"of":2000}`, told.applied),
			})
			if err != nil {
				return err
			}
		}
		return tx.PutOperation(ctx, operation.PutOperation{Operation: o})
	})
	if err != nil {
		t.Fatal(err)
	}
	if one, err := b.Operation(ctx, api.OperationRef{Operation: o.ID}); err != nil || one.Progress == nil || *one.Progress != (operation.Progress{Applied: 1000, Of: 2000}) {
		t.Errorf("while it goes on: %+v, %v", one.Progress, err)
	}
	o.State = operation.Succeeded
	if err := b.cfg.DB.Change(ctx, func(tx store.Tx) error { return tx.PutOperation(ctx, operation.PutOperation{Operation: o}) }); err != nil {
		t.Fatal(err)
	}
	if one, err := b.Operation(ctx, api.OperationRef{Operation: o.ID}); err != nil || one.Progress != nil {
		t.Errorf("at its end: %+v, %v", one.Progress, err)
	}
}
