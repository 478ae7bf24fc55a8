package control

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/crash"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/key"
	"mcpx/internal/store"
)

// applyWithin bounds an apply, the waits for locks of agents included.
const applyWithin = 90 * time.Second

// ApplyPlan carries a plan out: all of it is in the files afterwards, or nothing.
func (c *Control) ApplyPlan(ctx context.Context, in api.ApplyPlan) (api.PlanOutcome, error) {
	if err := c.allow(ctx, "plan.apply"); err != nil {
		return api.PlanOutcome{}, err
	}
	c.files.Lock()
	defer c.files.Unlock()
	return c.carryOut(ctx, in.Plan, nil)
}

// carryOut is one apply; the caller holds files. before are the receipts of the same order.
func (c *Control) carryOut(ctx context.Context, id string, before []converge.Receipt) (api.PlanOutcome, error) {
	p, receipt, err := c.begin(ctx, id)
	if err != nil {
		return api.PlanOutcome{}, err
	}
	if p.State == converge.PlanApplied {
		return c.outcome(ctx, p, receipt, true)
	}
	crash.Point("control.apply-begun")
	// The receipt is durable: the caller may leave, the files may not be left half done.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), applyWithin)
	defer stop()
	var written []converge.Written
	var applyErr error
	if p.Kind == converge.PlanControlPlane { // first: an entry without a token would be one that fails
		_, applyErr = c.issue(ctx, p.Agent, auth.Usual(), false, 0)
	}
	if applyErr == nil {
		written, applyErr = c.cfg.Target.Apply(ctx, p.Look, receipt.ID, p.Changes, before)
	}
	crash.Point("control.apply-written")
	if fault.KindOf(applyErr) == fault.UnknownOutcome {
		return api.PlanOutcome{}, applyErr // the receipt stays open: the next start decides it
	}
	if err := c.finish(ctx, &p, &receipt, written, applyErr); err != nil {
		return api.PlanOutcome{}, fault.New(fault.UnknownOutcome, "apply-unrecorded").
			Saying("what became of %s could not be written down", p.ID).Hinting("the next start of the daemon decides it: `mcpx daemon restart`").Because(err)
	}
	crash.Point("control.apply-recorded")
	if applyErr != nil {
		return api.PlanOutcome{}, applyErr
	}
	c.lookAgain(ctx, p)
	return c.outcome(ctx, p, receipt, false)
}

// begin checks everything, uses the approval, and opens the receipt, in one transaction. A plan that was applied already
// comes back with its receipt. A refusal is written down, too.
func (c *Control) begin(ctx context.Context, ref string) (p converge.Plan, receipt converge.Receipt, err error) {
	var refused error
	err = c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		if p, err = tx.PlanByID(ctx, converge.PlanByID{ID: ref}); err != nil {
			return err
		}
		if p.State == converge.PlanApplied && p.Receipt != "" {
			receipt, err = tx.ReceiptByID(ctx, converge.ReceiptByID{ID: p.Receipt})
			return err
		}
		if refused, err = c.check(ctx, tx, p); err != nil {
			return err
		}
		if refused == nil {
			receipt, refused, err = c.open(ctx, tx, &p)
		}
		if refused != nil && err == nil {
			return c.tellPlan(ctx, tx, kindOfApply(p, event.ApplyRefused, event.RollbackRefused), p, p.ID+" was not applied: "+fault.From(refused).Message, refusalOf(refused))
		}
		return err
	})
	if err == nil {
		err = refused
	}
	return p, receipt, err
}

// check says why a plan cannot be applied now. What it was made from may have changed since: then it counts no more.
func (c *Control) check(ctx context.Context, tx store.Tx, p converge.Plan) (refused, err error) {
	switch p.State {
	case converge.PlanReady:
	case converge.PlanErrored:
		return fault.New(fault.Conflict, "plan-errored").Saying("%s would break something: %s", p.ID, problemCodes(p.Problems)).
			Hinting("`mcpx plan show %s` says what", p.ID), nil
	case converge.PlanSuperseded:
		return planStale(p), nil
	case converge.PlanApplying:
		return fault.New(fault.Conflict, "plan-undecided").Saying("an apply of %s was cut off and is not decided yet", p.ID).
			Hinting("the next start of the daemon decides it: `mcpx daemon restart`"), nil
	case converge.PlanFailed:
		return fault.New(fault.Conflict, "plan-failed").Saying("%s was tried and undone; it is not tried again unless something changes", p.ID).
			Hinting("`mcpx plan show %s` says why", p.ID), nil
	case converge.PlanRolledBack:
		return fault.New(fault.Conflict, "plan-rolled-back").Saying("%s was applied and taken back", p.ID).
			Hinting("`mcpx audit run` offers it again, if it still fits"), nil
	case converge.PlanApplied:
		return fault.New(fault.Internal, "internal").Saying("%s is applied and has no receipt", p.ID), nil
	}
	servers, err := catalog.All(ctx, tx)
	if err != nil {
		return nil, err
	}
	why := converge.Stale(p, converge.World{Revision: catalog.Revision(servers), Policy: c.cfg.Policy(), Adapter: c.cfg.Adapter})
	if p.Kind == converge.PlanRollback || p.Kind == converge.PlanService { // the way back does not depend on the catalog
		why = nil
	}
	if len(why) == 0 {
		return p.First(), nil
	}
	if err := p.Supersede(); err != nil {
		return nil, err
	}
	return planStale(p), c.supersede(ctx, tx, p, why)
}

func planStale(p converge.Plan) error {
	return fault.New(fault.Stale, "plan-stale").Saying("what %s was made from has changed", p.ID).
		Hinting("make a new plan: `mcpx audit run`").Retrying(fault.AfterFix)
}

// open uses the yes of a person or of the policy, and opens the receipt.
func (c *Control) open(ctx context.Context, tx store.Tx, p *converge.Plan) (receipt converge.Receipt, refused, err error) {
	if refused := p.First(); refused != nil { // nobody was asked, and asking would not help
		return receipt, refused, nil
	}
	now := c.cfg.Now()
	rcp := c.cfg.IDs.New(id.Receipt)
	authorized := c.authorized(*p)
	if p.Kind == converge.PlanRollback {
		reverted, err := tx.ReceiptByID(ctx, converge.ReceiptByID{ID: p.Reverts})
		if err != nil {
			return receipt, nil, err
		}
		if reverted.State != converge.ReceiptApplied {
			return receipt, fault.New(fault.Stale, "plan-stale").Saying("%s is %s: there is nothing to take back", reverted.ID, reverted.State).Hinting("`mcpx rollback` lists what can be taken back"), nil
		}
		if !p.NeedsPerson(&reverted) {
			authorized = "rollback of what needed nobody"
		}
	}
	var used approval.Approval
	if authorized != "" && p.Kind != converge.PlanRollback {
		auto, err := c.stillAuto(ctx, tx, *p)
		if err != nil {
			return receipt, nil, err
		}
		if !auto {
			authorized = ""
		}
	}
	if authorized == "" {
		if used, refused, err = c.use(ctx, tx, *p, rcp); refused != nil || err != nil {
			return receipt, refused, err
		}
	}
	if receipt, refused = p.Start(rcp, used.ID, authorized, now); refused != nil {
		return receipt, refused, nil
	}
	if used.ID != "" {
		if err := tx.PutApproval(ctx, approval.PutApproval{Approval: used}); err != nil {
			return receipt, nil, err
		}
		if err := c.tellApproval(ctx, tx, event.ApprovalConsumed, used, used.ID+" was used by "+rcp, nil); err != nil {
			return receipt, nil, err
		}
	} else if p.Kind != converge.PlanRollback {
		if err := c.tellPlan(ctx, tx, event.PlanAutoAuthorized, *p, "the policy allows "+p.ID, struct {
			Line string `json:"line"`
		}{authorized}); err != nil {
			return receipt, nil, err
		}
	}
	if err := tx.PutReceipt(ctx, converge.PutReceipt{Receipt: receipt}); err != nil {
		return receipt, nil, err
	}
	if err := tx.PutPlan(ctx, converge.PutPlan{Plan: *p}); err != nil {
		return receipt, nil, err
	}
	return receipt, nil, c.tellPlan(ctx, tx, kindOfApply(*p, event.ApplyStarted, event.RollbackStarted), *p, p.Summary, struct {
		Receipt string `json:"receipt_id"`
		Subject string `json:"subject_sha256"`
	}{rcp, p.Subject()})
}

// use takes the yes of a person for this plan as it is now.
func (c *Control) use(ctx context.Context, tx store.Tx, p converge.Plan, by string) (used approval.Approval, refused, err error) {
	needs := fault.New(fault.NeedsApproval, "approval-missing").Saying("%s needs the yes of a person, and nobody was asked", p.ID).
		Hinting("`mcpx audit run` asks")
	if p.Approval == "" {
		return used, needs, nil
	}
	a, err := tx.ApprovalByID(ctx, approval.ByID{ID: p.Approval})
	if err != nil {
		return used, nil, err
	}
	if a.State == approval.Pending && c.cfg.Now().Before(a.Expires) {
		return used, fault.New(fault.NeedsApproval, "approval-pending").Saying("%s needs the yes of a person", p.ID).
			Hinting("look at it and say yes: `mcpx approval approve %s`", a.ID).Retrying(fault.AfterFix), nil
	}
	used, refused = approval.Consume(a, p.Subject(), by, c.cfg.Now())
	return used, refused, nil
}

func kindOfApply(p converge.Plan, apply, rollback event.Kind) event.Kind {
	if p.Kind == converge.PlanRollback {
		return rollback
	}
	return apply
}

// finish closes the receipt and the plan, and tells what came of it, in one transaction.
func (c *Control) finish(ctx context.Context, p *converge.Plan, receipt *converge.Receipt, written []converge.Written, applyErr error) error {
	var problems []converge.Problem
	kind, text := kindOfApply(*p, event.ApplyDone, event.RollbackDone), p.Summary
	if applyErr != nil {
		f := fault.From(applyErr)
		problems = []converge.Problem{{Code: f.Code, Text: f.Message}}
		kind, text = kindOfApply(*p, event.ApplyUndone, event.RollbackUndone), p.ID+" was undone: "+f.Message
		if f.Kind == fault.Stale {
			kind, text = kindOfApply(*p, event.ApplyStale, event.RollbackStale), p.ID+" was not applied: "+f.Message
		}
	}
	return c.end(ctx, p, receipt, ending{
		applied: applyErr == nil, stale: fault.KindOf(applyErr) == fault.Stale, written: written, problems: problems, kind: kind, text: text,
	})
}

// ending is how an apply ended.
type ending struct {
	applied  bool
	stale    bool // a file was not what the plan expects: nothing was written
	written  []converge.Written
	problems []converge.Problem
	kind     event.Kind
	text     string
}

// close writes the end of an apply.
func (c *Control) close(ctx context.Context, tx store.Tx, p *converge.Plan, receipt *converge.Receipt, end ending) error {
	if err := p.Finish(receipt, end.applied, end.written, end.problems, c.cfg.Now()); err != nil {
		return err
	}
	c.remembers(*receipt)
	if end.stale { // it was not tried: when the file is what it was again, it fits again
		p.State = converge.PlanSuperseded
	}
	if strategy := controlOf(*p); end.applied && p.Server == converge.HubName && strategy != "" {
		if err := c.keepControl(ctx, tx, p.Agent, strategy); err != nil {
			return err
		}
	}
	if end.applied && p.Kind == converge.PlanRollback {
		if err := c.takeBack(ctx, tx, p.Reverts, receipt.ID); err != nil {
			return err
		}
	}
	if err := tx.PutReceipt(ctx, converge.PutReceipt{Receipt: *receipt}); err != nil {
		return err
	}
	if err := tx.PutPlan(ctx, converge.PutPlan{Plan: *p}); err != nil {
		return err
	}
	type file struct {
		Path   string            `json:"path"`
		Before converge.Expected `json:"before"`
		After  converge.Expected `json:"after"`
	}
	files := []file{}
	for _, f := range receipt.Files {
		files = append(files, file{f.Path, f.Before, f.After})
	}
	err := c.tellPlan(ctx, tx, end.kind, *p, end.text, struct {
		Receipt  string                `json:"receipt_id"`
		State    converge.ReceiptState `json:"state"`
		Files    []file                `json:"files"`
		Problems []converge.Problem    `json:"problems"`
	}{receipt.ID, receipt.State, files, receipt.Problems})
	if err != nil || !end.applied || p.Agent != "" {
		return err
	}
	return c.tellService(ctx, tx, *p, *receipt)
}

// tellService tells what became of the service: the only file that is no agent's.
func (c *Control) tellService(ctx context.Context, tx store.Tx, p converge.Plan, receipt converge.Receipt) error {
	for _, f := range receipt.Files {
		kind, text := event.ServiceInstalled, "the daemon is a service of the user: "+f.Path
		if f.After.Absent {
			kind, text = event.ServiceRemoved, "the daemon is no service of the user any more: "+f.Path+" is gone"
		}
		refs := event.Refs{event.RefPlan: p.ID, event.RefReceipt: receipt.ID, event.RefPath: f.Path}
		if err := c.tell(ctx, tx, kind, refs, text, nil); err != nil {
			return err
		}
	}
	return nil
}

// takeBack notes on a receipt that it was rolled back.
func (c *Control) takeBack(ctx context.Context, tx store.Tx, reverted, by string) error {
	old, err := tx.ReceiptByID(ctx, converge.ReceiptByID{ID: reverted})
	if err != nil {
		return err
	}
	original, err := tx.PlanByID(ctx, converge.PlanByID{ID: old.Plan})
	if err != nil {
		return err
	}
	if err := original.TakeBack(&old, by); err != nil {
		return err
	}
	if original.Kind == converge.PlanControlPlane { // nobody wants it any more; its token stays until it is revoked
		if err := c.keepControl(ctx, tx, original.Agent, ""); err != nil {
			return err
		}
	}
	if err := tx.PutReceipt(ctx, converge.PutReceipt{Receipt: old}); err != nil {
		return err
	}
	return tx.PutPlan(ctx, converge.PutPlan{Plan: original})
}

// lookAgain keeps what the files are now, so that status and the next audit know it. It is no part of the apply: what
// fails here is found at the next look.
func (c *Control) lookAgain(ctx context.Context, p converge.Plan) {
	in := api.RunAudit{Agent: p.Agent, Home: p.Look.Home, Project: p.Look.Project, Moved: p.Look.Moved, NoPlan: true}
	if p.Agent == "" {
		return
	}
	if _, err := c.auditLocked(ctx, in); err != nil {
		c.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "files not looked at after an apply", slog.Any(key.Cause, err))
	}
}

// outcome is the answer to an apply.
func (c *Control) outcome(ctx context.Context, p converge.Plan, receipt converge.Receipt, already bool) (api.PlanOutcome, error) {
	out := api.PlanOutcome{
		State: string(p.State), Already: already, Receipt: receipt, Effects: p.Effects, Operation: api.OperationOf(ctx),
		Next: []string{"mcpx status", "mcpx rollback " + receipt.ID},
	}
	if already {
		out.State = "already_" + out.State
	}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		out.Plan, err = c.row(ctx, r, p)
		return err
	})
	return out, err
}

// RecoverApplies decides the applies that an earlier daemon did not bring to an end: forward when all files have their
// new bytes, else back. The daemon calls it once, before it serves changes. One that cannot be decided now stays open
// and is told by the health.
func (c *Control) RecoverApplies(ctx context.Context) error {
	c.files.Lock()
	defer c.files.Unlock()
	var open []converge.Receipt
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		for one, err := range converge.EachReceipt(ctx, r, converge.ListReceipts{}) {
			if err != nil {
				return err
			}
			c.remembers(one)
			if one.State == converge.ReceiptApplying {
				open = append(open, one)
			}
		}
		return nil
	})
	if err != nil || c.cfg.DB.Stopped() != nil { // what cannot be recorded is not decided
		return err
	}
	for _, receipt := range open {
		if err := c.recoverApply(ctx, receipt); err != nil {
			c.cfg.Log.LogAttrs(ctx, slog.LevelError, "an apply is not decided", slog.String(key.Receipt, receipt.ID), slog.Any(key.Cause, err))
		}
	}
	return nil
}

// remembers keeps what a receipt wrote as the path of mcpx.
func (c *Control) remembers(receipt converge.Receipt) {
	c.seeing.Lock()
	defer c.seeing.Unlock()
	for _, path := range receipt.Programs() {
		if !slices.Contains(c.wrote, path) {
			c.wrote = append(c.wrote, path)
		}
	}
}

// Wrote are the paths that receipts wrote into entries as those of mcpx, whatever it was called then.
func (c *Control) Wrote() []string {
	c.seeing.Lock()
	defer c.seeing.Unlock()
	return slices.Clone(c.wrote)
}

func (c *Control) recoverApply(ctx context.Context, receipt converge.Receipt) error {
	var p converge.Plan
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		p, err = r.PlanByID(ctx, converge.PlanByID{ID: receipt.Plan})
		return err
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), applyWithin)
	defer stop()
	written, applied, problems, err := c.cfg.Target.Recover(ctx, p.Look, receipt.ID, p.Changes)
	if err != nil {
		return err
	}
	crash.Point("control.recover-decided")
	word := "undone"
	if applied {
		word = "finished"
	}
	err = c.end(ctx, &p, &receipt, ending{
		applied: applied, written: written, problems: problems,
		kind: kindOfApply(p, event.ApplyRecovered, event.RollbackRecovered), text: fmt.Sprintf("%s was cut off and is %s", p.ID, word),
	})
	crash.Point("control.recover-recorded")
	if err == nil {
		c.cfg.Log.LogAttrs(ctx, slog.LevelInfo, "an apply was decided", slog.String(key.Receipt, receipt.ID), slog.String(key.State, string(receipt.State)))
	}
	return err
}
