package control

import (
	"cmp"
	"context"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// tell writes an event about a change in its transaction. The body is redacted by the caller; nil is none.
func (c *Control) tell(ctx context.Context, tx store.Tx, kind event.Kind, refs event.Refs, summary string, body any) error {
	d := event.Draft{At: c.cfg.Now(), Kind: kind, Actor: actorOf(ctx), Refs: event.Refs{}, Summary: summary}
	for name, value := range refs {
		if value != "" {
			d.Refs[name] = value
		}
	}
	if operation := api.OperationOf(ctx); operation != "" && d.Refs[event.RefOperation] == "" {
		d.Refs[event.RefOperation] = operation
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

// channelLoop is the channel of what mcpx does by itself.
const channelLoop = "loop"

// actorOf is who made a change: the caller that the edge has proved, or mcpx by itself.
func actorOf(ctx context.Context) event.Actor {
	p, proved := api.PrincipalOf(ctx)
	if !proved {
		return event.Actor{Principal: api.Owner.Name, Channel: cmp.Or(api.CallerOf(ctx).Channel, channelLoop)}
	}
	caller := api.CallerOf(ctx)
	return event.Actor{Principal: p.Name, Client: caller.Client, Channel: cmp.Or(caller.Channel, "cli")}
}

// refusal is the body of an event about something that was not done.
type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func refusalOf(err error) refusal {
	f := fault.From(err)
	return refusal{f.Code, f.Message}
}
