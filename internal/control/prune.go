package control

import (
	"context"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/retention"
	"mcpx/internal/store"
)

// Retention removes old data.
type Retention interface {
	// Prune removes what was old at a time, or in a dry run says what would be removed. Conflict retention-held while the
	// clock is held and it is no dry run.
	Prune(ctx context.Context, by event.Actor, at time.Time, dryRun bool) (retention.Report, retention.Hold, error)
}

// Prune removes what is older than its period and what nobody needs.
func (c *Control) Prune(ctx context.Context, in api.PruneData) (api.PrunedData, error) {
	if err := c.allow(ctx, "audit.prune"); err != nil {
		return api.PrunedData{}, err
	}
	at := c.cfg.Now()
	if in.At != "" {
		if !in.DryRun {
			return api.PrunedData{}, fault.New(fault.Invalid, "request-invalid").Saying("another time than now is for a dry run only").Hinting("add --dry-run, or leave the time out")
		}
		var err error
		if at, err = time.Parse(time.RFC3339, in.At); err != nil {
			return api.PrunedData{}, fault.New(fault.Invalid, "request-invalid").Saying("at %q is no time", in.At)
		}
	}
	report, hold, err := c.cfg.Retention.Prune(ctx, actorOf(ctx), at, in.DryRun)
	out := api.PrunedData{Report: report, HeldSeconds: int64(hold.Left / time.Second), JumpSeconds: int64(hold.By / time.Second), Next: []string{"mcpx audit verify"}}
	if in.DryRun {
		out.Next = []string{"mcpx audit prune"}
	}
	return out, err
}

// heldFindings tell that nothing old is removed, because the clock has jumped. A machine that was off for a night is none.
func (c *Control) heldFindings(ctx context.Context) (all []api.Finding, err error) {
	err = c.cfg.DB.View(ctx, func(r store.Reader) error {
		s, err := r.RetentionState(ctx)
		if err == nil && s.Hold.Held() && !s.Hold.Off {
			f := s.Hold.Refusal()
			all = []api.Finding{{Code: f.Code, Severity: converge.WeightNotice, Subject: "clock", Text: f.Message, Hint: f.Hint}}
		}
		return err
	})
	return all, err
}
