package cli

import (
	"context"
	"io"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/converge"
)

var planList = Command{
	Path: "plan list", Short: "List the changes that mcpx proposes", Op: "plan.list",
	Long: "The newest first: those that wait for something, and for what. A ready plan can be approved and applied; one that is\n" +
		"shown as needs is ready, too (so --state and --json call it), as soon as something else was done, such as the promotion\n" +
		"of a server to the catalog; an errored one would break something and says what; a superseded one (--all) was made from\n" +
		"a file or a catalog that has changed since.\n" +
		"The id can be shortened to any beginning that is unique.",
	Example: "mcpx plan list\nmcpx plan list --all --agent codex",
	Flags: []Flag{
		{Name: "all", Kind: BoolFlag, Usage: "also those that are done or count no more"},
		{Name: "agent", Kind: StringFlag, Value: "KIND", Usage: "only for the agent KIND"},
		{Name: "state", Kind: StringFlag, Value: "STATE", Usage: "only those in STATE", Choices: planStates},
		limitFlag,
		{Name: "before", Kind: StringFlag, Value: "PLAN", Usage: "the page after PLAN, the last one of the page before"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.Plans(ctx, api.PlansQuery{
			State: a.String("state"), All: a.Bool("all"), Agent: a.String("agent"), Before: a.String("before"), Limit: a.Int("limit"),
		})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if len(page.Plans) == 0 {
				line(w, "No plans.")
			} else {
				e.planTable(w, page.Plans)
			}
			e.more(w, page.More)
			e.next(w, page.Next)
		})
	},
}

var planStates = []string{
	string(converge.PlanReady), string(converge.PlanErrored), string(converge.PlanSuperseded), string(converge.PlanApplying),
	string(converge.PlanApplied), string(converge.PlanFailed), string(converge.PlanRolledBack),
}

var limitFlag = Flag{Name: "limit", Letter: "n", Kind: IntFlag, Usage: "at most so many"}

func (e *Env) more(w io.Writer, more bool) {
	if more {
		line(w, "There are more.")
	}
}

func (e *Env) planTable(w io.Writer, plans []api.PlanRow) {
	rows := make([][]cell, 0, len(plans))
	for _, p := range plans {
		state := cell{string(p.State), ""}
		switch p.State {
		case converge.PlanReady:
			state.color = green
			if p.Waits == converge.WaitNeed {
				state = cell{"needs", yellow}
			}
		case converge.PlanErrored, converge.PlanFailed:
			state.color = red
		case converge.PlanSuperseded, converge.PlanRolledBack:
			state.color = dim
		case converge.PlanApplying, converge.PlanApplied:
		}
		rows = append(rows, []cell{{p.ID, bold}, state, {string(p.Risk.Class), ""}, {dash(p.Agent), ""}, {short(p.Summary, 70), ""}, {dash(e.waitsFor(p)), ""}})
	}
	e.table(w, []string{"PLAN", "STATE", "RISK", "AGENT", "DOES", "WAITS FOR"}, rows)
	for _, p := range plans {
		for _, problem := range p.Problems {
			line(w, "%s: %s: %s", p.ID, problem.Code, short(meaning(problem.Code, problem.Text), 160))
		}
	}
}

// waitsFor says what a plan of a list waits for.
func (e *Env) waitsFor(p api.PlanRow) string {
	switch p.Waits {
	case converge.WaitNeed:
		return "first: " + plain(e.typed(p.Needs[0]))
	case converge.WaitApproval:
		return "your yes: " + p.Approval
	case converge.WaitApply:
		if p.Approved == approval.Approved {
			return "apply: it has your yes"
		}
		return "apply: it needs nobody"
	case converge.WaitAsk:
		return "another question: the last one is over"
	case converge.WaitDenied:
		return "nothing: you said no"
	}
	return ""
}

var planShow = Command{
	Path: "plan show", Short: "Show one plan: the exact difference, why, and what comes next", Op: "plan.show", Args: "PLAN", Min: 1, Max: 1, Complete: planIDs,
	Long: "The difference is that of the real bytes which will be written; only values that look like secrets are replaced by\n" +
		"[redacted:NAME], in both columns. Nothing is written. The id can be shortened to any beginning that is unique.",
	Example: "mcpx plan show plan_abcd\nmcpx plan show plan_abcd --json",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		view, err := service.Plan(ctx, api.PlanRef{Plan: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.showPlan(view)
	},
}

func (e *Env) showPlan(view api.PlanView) error {
	return e.Show(view, func(w io.Writer) {
		e.planText(w, looks{e.color}, view)
		e.next(w, view.Next)
	})
}

// planIDs completes the id of a plan from a daemon that runs.
func planIDs(ctx context.Context, e *Env) []string {
	client, err := e.Daemon()
	if err != nil {
		return nil
	}
	page, err := client.Plans(ctx, api.PlansQuery{})
	if err != nil {
		return nil
	}
	ids := make([]string, 0, len(page.Plans))
	for _, p := range page.Plans {
		ids = append(ids, p.ID)
	}
	return ids
}

var apply = Command{
	Path: "apply", Short: "Carry out plans, each whole or not at all", Op: "plan.apply", Args: "PLAN...", Min: 0, Max: -1, Complete: planIDs,
	Long: "A plan that needs a person has to be approved before (`mcpx approval approve`). Every file is read again first: if it\n" +
		"is not what the plan was made from, nothing is written and the exit code is 6. The exact bytes from before are kept,\n" +
		"and `mcpx rollback` puts them back. Applying a plan that was applied already changes nothing (exit code 0).\n" +
		"Several plans are applied in their order; what one is refused for is told, the others are applied, and the exit code\n" +
		"is 1. Plans of one file belong into one command: the first changes the file, so a plan that is applied later does not\n" +
		"fit any more. Within one command it does, when nobody but mcpx has written the file since the first one and it does to\n" +
		"its entry what you have seen. --all applies every plan that has your yes, in the order in which you were asked.",
	Example: "mcpx apply plan_abcd\nmcpx apply plan_abcd plan_efgh\nmcpx apply --all",
	Flags:   []Flag{{Name: "all", Kind: BoolFlag, Usage: "every plan with a yes that was not used yet"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		if a.Bool("all") == (a.Len() > 0) {
			return misused("name plans, or give --all", "apply")
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		if a.Len() != 1 {
			return e.applySeveral(ctx, service, api.ApplyPlans{Plans: a.All(), Approved: a.Bool("all")})
		}
		out, err := service.ApplyPlan(e.operation(ctx), api.ApplyPlan{Plan: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(out, func(w io.Writer) {
			e.outcomeText(w, out)
			list(w, "To know:", out.Effects)
			e.next(w, out.Next)
		})
	},
}

func (e *Env) applySeveral(ctx context.Context, service api.Service, in api.ApplyPlans) error {
	out, err := service.ApplyPlans(e.operation(ctx), in)
	if err != nil {
		return err
	}
	err = e.Show(out, func(w io.Writer) {
		var effects []string
		for _, done := range out.Applied {
			e.outcomeText(w, done)
			effects = append(effects, done.Effects...)
		}
		for _, no := range out.Refused {
			line(w, "Not applied: %s: %s: %s", plain(no.Plan), no.Problem.Code, plain(no.Problem.Message))
			if no.Problem.Hint != "" {
				line(w, "  %s", plain(no.Problem.Hint))
			}
		}
		if len(out.Applied)+len(out.Refused) == 0 {
			line(w, "No plan has a yes that was not used yet.")
		}
		list(w, "To know:", slices.Compact(slices.Sorted(slices.Values(effects))))
		e.next(w, out.Next)
	})
	if err == nil && len(out.Refused) > 0 {
		return errAnswerNo
	}
	return err
}

// outcomeText shows what became of one plan.
func (e *Env) outcomeText(w io.Writer, out api.PlanOutcome) {
	if out.Already {
		line(w, "%s was applied already.", out.Plan.ID)
	} else {
		line(w, "Applied: %s", plain(out.Plan.Summary))
	}
	e.receiptText(w, out.Receipt)
}

// receiptText shows what was done.
func (e *Env) receiptText(w io.Writer, r converge.Receipt) {
	rows := [][2]string{{"receipt", r.ID + " " + string(r.State)}}
	for _, f := range r.Files {
		what := "changed"
		switch {
		case f.Before.Absent:
			what = "made"
		case f.After.Absent:
			what = "removed"
		}
		text := what + " " + plain(f.Path)
		if f.Verified != "" {
			text += " (read back: " + f.Verified + ")"
		}
		rows = append(rows, [2]string{"file", text})
		for _, n := range f.Notes {
			rows = append(rows, [2]string{"note", n.Code + ": " + plain(n.Text)})
		}
	}
	for _, p := range r.Problems {
		rows = append(rows, [2]string{"problem", p.Code + ": " + plain(meaning(p.Code, p.Text))})
	}
	pairs(w, rows)
}

var rollback = Command{
	Path: "rollback", Short: "Take back what an apply did, or list what can be taken back", Op: "receipt.rollback", Args: "[RECEIPT]", Max: 1, Complete: receiptIDs,
	Long: "RECEIPT is the id that `mcpx apply` printed, or the plan that it carried out. The answer is a plan: it shows the\n" +
		"difference, is approved like another one where its original was, and is carried out by `mcpx apply`. If the file is\n" +
		"as the apply left it, its bytes become exactly what they were; if others have edited it since, only the entry is\n" +
		"put back, and if the entry itself was edited, nothing is offered. --merge takes back what the apply did to the entry\n" +
		"and keeps what others wrote into it since; where both changed the same place, nothing is offered, and the three\n" +
		"contents of the place are shown (exit code 1). A rollback can be rolled back.\n" +
		"Without RECEIPT it lists the receipts, the newest first.",
	Example: "mcpx rollback\nmcpx rollback rcp_01J\nmcpx rollback rcp_01J --merge",
	Flags: []Flag{
		{Name: "merge", Kind: BoolFlag, Usage: "keep what others wrote into the entry since, and take back only what the apply did"},
		{Name: "plan", Kind: StringFlag, Value: "PLAN", Usage: "list only the receipts of PLAN"},
		{Name: "path", Kind: StringFlag, Value: "FILE", Usage: "list only those that wrote FILE"},
		limitFlag,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		if a.Bool("merge") && a.Len() == 0 {
			return misused("--merge needs a receipt", "rollback")
		}
		if a.Len() == 1 {
			view, err := service.RollBack(e.operation(ctx), api.RollBack{Receipt: a.Pos(0), Merge: a.Bool("merge")})
			if err != nil {
				return err
			}
			if err := e.showPlan(view); err != nil {
				return err
			}
			if view.State == converge.PlanErrored {
				return errAnswerNo
			}
			return nil
		}
		page, err := service.Receipts(ctx, api.ReceiptsQuery{Plan: a.String("plan"), Path: a.String("path"), Limit: a.Int("limit")})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if len(page.Receipts) == 0 {
				line(w, "Nothing was applied yet.")
			} else {
				e.receiptTable(w, page.Receipts)
			}
			e.more(w, page.More)
			e.next(w, page.Next)
		})
	},
}

func (e *Env) receiptTable(w io.Writer, receipts []converge.Receipt) {
	rows := make([][]cell, 0, len(receipts))
	for _, r := range receipts {
		state := cell{string(r.State), ""}
		if r.State == converge.ReceiptApplied {
			state.color = green
		}
		var files []string
		for _, f := range r.Files {
			files = append(files, plain(f.Path))
		}
		what := string(r.Kind)
		if r.Entry != "" {
			what += " " + plain(r.Entry)
		}
		rows = append(rows, []cell{{r.ID, bold}, state, {age(e.Now().Sub(r.Started)) + " ago", ""}, {dash(r.Agent), ""}, {short(what, 50), ""}, {dash(strings.Join(files, ", ")), ""}})
	}
	e.table(w, []string{"RECEIPT", "STATE", "WHEN", "AGENT", "DID", "FILES"}, rows)
}

// receiptIDs completes the id of a receipt from a daemon that runs.
func receiptIDs(ctx context.Context, e *Env) []string {
	client, err := e.Daemon()
	if err != nil {
		return nil
	}
	page, err := client.Receipts(ctx, api.ReceiptsQuery{State: string(converge.ReceiptApplied)})
	if err != nil {
		return nil
	}
	ids := make([]string, 0, len(page.Receipts))
	for _, r := range page.Receipts {
		ids = append(ids, r.ID)
	}
	return ids
}
