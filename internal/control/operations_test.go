package control

import (
	"fmt"
	"testing"

	"mcpx/internal/api"
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
