package control

import (
	"context"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// tell writes an event about a change in its transaction. The body is redacted by the caller; nil is none.
func (c *Control) tell(ctx context.Context, tx store.Tx, kind event.Kind, refs event.Refs, summary string, body any) error {
	d := event.Draft{At: c.cfg.Now(), Kind: kind, Actor: actorOf(ctx), Refs: refs, Summary: summary}
	if operation := api.OperationOf(ctx); operation != "" {
		d.Refs = event.Refs{event.RefOperation: operation}
		for name, value := range refs {
			d.Refs[name] = value
		}
	}
	if body != nil {
		raw, err := api.Marshal(body)
		if err != nil {
			return fault.New(fault.Internal, "event-malformed").Saying("the body of an event is no JSON").Because(err)
		}
		d.Body = raw
	}
	_, err := tx.AppendEvent(ctx, d)
	return err
}

// actorOf is who made a change: the caller that the edge has proved, or mcpx by itself.
func actorOf(ctx context.Context) event.Actor {
	if p, ok := api.PrincipalOf(ctx); ok {
		return event.Actor{Principal: p.Name, Channel: "cli"}
	}
	return event.Actor{Principal: api.Owner.Name, Channel: "loop"}
}
