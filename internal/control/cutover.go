package control

import (
	"context"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/store"
)

// RecordCutover writes down that a person retires another hub. Whoever asks must sit at a terminal.
func (c *Control) RecordCutover(ctx context.Context, in api.RecordCutover) (api.Cutover, error) {
	if err := c.allow(ctx, "cutover.record"); err != nil {
		return api.Cutover{}, err
	}
	if err := catalog.ValidName(in.From); err != nil {
		return api.Cutover{}, err
	}
	if _, err := c.cfg.Person(api.CallerOf(ctx).Pid); err != nil {
		return api.Cutover{}, err
	}
	out := api.Cutover{From: in.From, At: c.cfg.Now(), Operation: api.OperationOf(ctx)}
	err := c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		return c.tell(ctx, tx, event.CutoverApplied, event.Refs{}, "the hub "+in.From+" is retired", struct {
			From     string   `json:"from"`
			Evidence []string `json:"evidence"`
		}{in.From, in.Evidence})
	})
	return out, err
}
