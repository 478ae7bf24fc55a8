package control

import (
	"context"
	"log/slog"
	"slices"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/key"
	"mcpx/internal/store"
)

// maxRound bounds the plans that one turn of the loop applies; the rest is applied by the next one.
const maxRound = 32

// Stirred has a value after something changed from which plans are made: the catalog, the policy, or what a person wants
// of an agent.
func (c *Control) Stirred() <-chan struct{} { return c.stirred }

func (c *Control) stir() {
	select {
	case c.stirred <- struct{}{}:
	default: // whoever listens will look anyway
	}
}

// Turn is one turn of the loop that the daemon runs: projects that moved are noticed, everything is looked at, plans are made, and those that need nobody
// are applied, one after the other, with another look in between.
func (c *Control) Turn(ctx context.Context) error {
	if err := c.LookAtProjects(ctx); err != nil {
		return err
	}
	tried := map[string]bool{}
	for range maxRound {
		applied, err := c.turnOnce(ctx, tried)
		if err != nil || !applied {
			return err
		}
	}
	c.stir()
	return nil
}

func (c *Control) turnOnce(ctx context.Context, tried map[string]bool) (applied bool, err error) {
	c.files.Lock()
	defer c.files.Unlock()
	out, err := c.auditLocked(ctx, api.RunAudit{})
	if err != nil {
		return false, err
	}
	id, err := c.eligible(ctx, out.Plans, tried)
	if err != nil || id == "" {
		return false, err
	}
	tried[id] = true
	if _, err := c.carryOut(ctx, id, nil); err != nil { // it is in the log, and a plan that failed is not tried again
		c.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "a plan was not applied by itself", slog.Any(key.Cause, err))
	}
	return true, ctx.Err()
}

// eligible finds the first plan that needs nobody and was not tried in this turn; "" there is none.
func (c *Control) eligible(ctx context.Context, rows []api.PlanRow, tried map[string]bool) (id string, err error) {
	err = c.cfg.DB.View(ctx, func(r store.Reader) error {
		for _, row := range rows {
			if row.State != converge.PlanReady || tried[row.ID] {
				continue
			}
			p, err := r.PlanByID(ctx, converge.PlanByID{ID: row.ID})
			if err != nil {
				return err
			}
			if p.Kind == converge.PlanRollback || !p.Offered() || c.authorized(p) == "" {
				continue
			}
			auto, err := c.stillAuto(ctx, r, p)
			if err != nil {
				return err
			}
			if auto {
				id = p.ID
				return nil
			}
		}
		return nil
	})
	return id, err
}

// stillAuto says whether what the policy allowed when the plan was made is still so: the level of the agent and the
// certificate of its client are no part of what makes a plan stale. A no of a person counts for more than the policy.
func (c *Control) stillAuto(ctx context.Context, r store.Reader, p converge.Plan) (bool, error) {
	earlier, err := approval.All(ctx, r, approval.ListApprovals{About: p.ID})
	if err != nil {
		return false, err
	}
	q := approval.Question{Kind: approval.KindPlan, About: p.ID, Subject: p.Subject()}
	if _, denied := approval.Ask(earlier, q, c.cfg.Now()); denied != nil {
		return false, nil
	}
	records, err := r.AgentRecords(ctx)
	if err != nil {
		return false, err
	}
	auto := slices.ContainsFunc(records, func(a converge.AgentRecord) bool {
		return a.Agent == p.Agent && a.Level == converge.LevelAuto
	})
	return auto && certified(c.cfg.Certificates(ctx))[p.Agent], nil
}

// tellAuto tells once why a plan of an agent that a person set to auto waits for a person all the same.
func (c *Control) tellAuto(ctx context.Context, tx store.Tx, w converge.World, p converge.Plan) error {
	auto := slices.ContainsFunc(w.Agents, func(a converge.AgentRecord) bool {
		return a.Agent == p.Agent && a.Level == converge.LevelAuto
	})
	if !auto || p.State != converge.PlanReady || len(p.Auto) == 0 {
		return nil
	}
	return c.tellPlan(ctx, tx, event.PlanAutoRefused, p, p.ID+" waits for a person", struct {
		Codes []string `json:"codes"`
	}{p.Auto})
}
