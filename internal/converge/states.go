package converge

import (
	"slices"
	"strings"
	"time"

	"mcpx/internal/fault"
)

// plansFrom lists the states from which a plan gets into a state.
var plansFrom = map[PlanState][]PlanState{
	// The same inputs give the same plan: what was superseded, taken back or undone by others is found again.
	PlanReady:      {PlanSuperseded, PlanApplied, PlanRolledBack, PlanFailed},
	PlanSuperseded: {PlanReady, PlanErrored},
	PlanApplying:   {PlanReady},
	PlanApplied:    {PlanApplying},
	PlanFailed:     {PlanApplying},
	PlanRolledBack: {PlanApplied},
}

func (p *Plan) become(to PlanState) error {
	if !slices.Contains(plansFrom[to], p.State) {
		return fault.New(fault.Conflict, "plan-state").Saying("the plan %s is %s, so it cannot become %s", p.ID, p.State, to).
			Hinting("look at it with `mcpx plan show %s`", p.ID)
	}
	p.State = to
	return nil
}

// First is the refusal when something has to be done before the plan can be approved and applied: Conflict plan-needs.
func (p Plan) First() error {
	if len(p.Needs) == 0 || p.State != PlanReady {
		return nil
	}
	return fault.New(fault.Conflict, "plan-needs").Saying("the plan %s waits for something that comes first", p.ID).
		Hinting("run `%s`", strings.Join(p.Needs, "`, then `")).Retrying(fault.AfterFix)
}

// Start opens a receipt for the plan, which has to be offered. Conflict plan-state, plan-needs.
func (p *Plan) Start(id string, approval, authorized string, now time.Time) (Receipt, error) {
	if err := p.First(); err != nil {
		return Receipt{}, err
	}
	if err := p.become(PlanApplying); err != nil {
		return Receipt{}, err
	}
	p.Receipt = id
	return Receipt{
		ID: id, Plan: p.ID, Kind: p.Kind, Agent: p.Agent, Server: p.Server, Entry: p.Entry, Approval: approval, Authorized: authorized,
		State: ReceiptApplying, Files: []Written{}, Problems: []Problem{}, Reverts: p.Reverts, Started: now,
	}, nil
}

// Finish closes the receipt of an apply and the plan with it: applied, or undone for the reasons that problems give.
func (p *Plan) Finish(r *Receipt, applied bool, written []Written, problems []Problem, now time.Time) error {
	if r.ID != p.Receipt || r.State != ReceiptApplying {
		return fault.New(fault.Conflict, "receipt-state").Saying("the receipt %s is %s and the plan's is %s", r.ID, r.State, p.Receipt).
			Hinting("look at it with `mcpx plan show %s`", p.ID)
	}
	to, state := PlanFailed, ReceiptUndone
	if applied {
		to, state = PlanApplied, ReceiptApplied
	}
	if err := p.become(to); err != nil {
		return err
	}
	r.State, r.Ended = state, now
	r.Files = append([]Written{}, written...)
	r.Problems = append([]Problem{}, problems...)
	return nil
}

// TakeBack notes that another receipt took this one back.
func (p *Plan) TakeBack(r *Receipt, by string) error {
	if r.State != ReceiptApplied {
		return notApplied(*r)
	}
	if p.Receipt == r.ID && p.State == PlanApplied { // a plan that was offered again since is another story
		p.State = PlanRolledBack
	}
	r.State, r.RolledBackBy = ReceiptRolledBack, by
	return nil
}

func notApplied(r Receipt) error {
	e := fault.New(fault.Conflict, "receipt-not-applied").Saying("the receipt %s is %s: there is nothing to take back", r.ID, r.State)
	if r.RolledBackBy != "" {
		return e.Hinting("take back its rollback instead: `mcpx rollback %s`", r.RolledBackBy)
	}
	return e.Hinting("look at it with `mcpx plan show %s`", r.Plan)
}

// Supersede notes that the inputs of the plan have changed.
func (p *Plan) Supersede() error { return p.become(PlanSuperseded) }

// Offer makes a plan that was found again ready again.
func (p *Plan) Offer() error { return p.become(PlanReady) }

// Rollback proposes to take a receipt back. It needs a person if the receipt needed one. Merge: what others did to the
// same entries since stays.
func Rollback(r Receipt, original Plan, w World, merge bool) (Proposal, error) {
	if r.State != ReceiptApplied {
		return Proposal{}, notApplied(r)
	}
	p := Proposal{
		Kind: PlanRollback, Agent: r.Agent, Server: r.Server, Entry: r.Entry, Reverts: r.ID, Match: original.Match,
		Summary: "takes back " + r.ID + ": " + original.Summary,
		Reasons: []string{reasonAskedFor}, Risk: Risk{Class: original.Risk.Class, Reasons: slices.Clone(original.Risk.Reasons)},
	}
	if merge {
		p.Summary = "takes back " + r.ID + " and keeps what was written since: " + original.Summary
	}
	x := look(w)
	for i := range r.Files {
		f := &r.Files[i]
		p.Files = append(p.Files, Drafting{Agent: r.Agent, Path: f.Path, Steps: []Step{{Op: StepRevert, Receipt: r.ID, Merge: merge}}, Reverts: f})
	}
	p.Effects = effects(r.Agent, "", nil, false, slices.ContainsFunc(r.Files, func(f Written) bool { return x.files[place{r.Agent, f.Path}].Shared }))
	p.finish()
	return p, nil
}

// NeedsPerson says whether the plan has to be approved. A rollback needs it if what it takes back was approved.
func (p Plan) NeedsPerson(reverted *Receipt) bool {
	if p.Kind == PlanRollback && reverted != nil && reverted.ID == p.Reverts {
		return reverted.Approval != ""
	}
	return len(p.Auto) > 0
}

// Turn is what a run makes of the plans that are stored and those that it sealed.
type Turn struct {
	Put   []Plan              // to be written: new ones and those that are offered again, with State and Auto of now
	Keep  []Plan              // found as they are; what was decided about them holds
	Drop  []Plan              // superseded, to be written
	Why   map[string][]string // codes, by the id of a dropped plan
	Fresh map[string]bool     // ids in Put that were not offered before: what a person is asked about
}

// Reconcile compares. stored are all plans that are ready or errored, and those that have the id of a sealed one, whatever
// their state is. covered says of a stored plan whether the world would have proposed it: its agent was planned for, and
// its entry was not left out.
func Reconcile(stored, sealed []Plan, w World, covered func(Plan) bool) Turn {
	x := look(w)
	t := Turn{Why: map[string][]string{}, Fresh: map[string]bool{}}
	known := map[string]*Plan{}
	for i := range stored {
		known[stored[i].ID] = &stored[i]
	}
	made := map[string]bool{}
	for _, p := range sealed {
		if made[p.ID] {
			continue
		}
		made[p.ID] = true
		old, found := known[p.ID]
		switch {
		case !found:
			t.Put = append(t.Put, p)
			t.Fresh[p.ID] = true
		case old.State == PlanSuperseded || old.State == PlanApplied || old.State == PlanRolledBack || old.State == PlanFailed && w.Asked.Retry:
			again := *old
			again.State, again.Auto, again.Made = p.State, p.Auto, p.Made
			t.Put = append(t.Put, again)
			t.Fresh[p.ID] = true
		default:
			again := *old
			again.Auto = p.Auto
			t.Keep = append(t.Keep, again)
		}
	}
	for _, p := range stored {
		if made[p.ID] || p.State != PlanReady && p.State != PlanErrored {
			continue
		}
		why := x.stale(p)
		if own := p.Kind == PlanRollback || p.Kind == PlanService || p.Kind == PlanUnroute; len(why) == 0 && !own && covered(p) {
			why = []string{staleNotMade}
		}
		if len(why) == 0 {
			continue
		}
		p.State = PlanSuperseded
		t.Drop = append(t.Drop, p)
		t.Why[p.ID] = why
	}
	return t
}
