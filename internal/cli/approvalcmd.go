package cli

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/fault"
)

var approvalList = Command{
	Path: "approval list", Short: "List what waits for a person's yes", Op: "approval.list",
	Long: "Those that wait for a decision, and those with a yes that was not used yet: it counts for 15 minutes. --all also\n" +
		"shows the ones that are over.",
	Example: "mcpx approval list\nmcpx approval list --all",
	Flags: []Flag{
		{Name: "all", Kind: BoolFlag, Usage: "also those that are over"},
		{Name: "state", Kind: StringFlag, Value: "STATE", Usage: "only those in STATE", Choices: []string{
			string(approval.Pending), string(approval.Approved), string(approval.Denied), string(approval.Expired), string(approval.Revoked), string(approval.Consumed),
		}},
		limitFlag,
		{Name: "after", Kind: StringFlag, Value: "APPROVAL", Usage: "the page after APPROVAL, the last one of the page before"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.Approvals(ctx, api.ApprovalsQuery{State: a.String("state"), All: a.Bool("all"), After: a.String("after"), Limit: a.Int("limit")})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if len(page.Approvals) == 0 {
				line(w, "Nothing waits for a person.")
			} else {
				e.approvalTable(w, page.Approvals)
			}
			e.more(w, page.More)
			e.next(w, page.Next)
		})
	},
}

func (e *Env) approvalTable(w io.Writer, all []approval.Approval) {
	rows := make([][]cell, 0, len(all))
	for _, a := range all {
		state := cell{string(a.State), ""}
		left := "-"
		switch a.State {
		case approval.Pending, approval.Approved:
			state.color = yellow
			left = "in " + age(a.Expires.Sub(e.Now()))
		case approval.Denied, approval.Expired, approval.Revoked:
			state.color = dim
		case approval.Consumed:
			state.color = green
		}
		rows = append(rows, []cell{{a.ID, bold}, {string(a.Kind), ""}, state, {left, ""}, {about(a), ""}, {short(a.Display, 70), ""}})
	}
	e.table(w, []string{"APPROVAL", "KIND", "STATE", "EXPIRES", "ABOUT", "WHAT"}, rows)
}

// about names what an approval is about: a plan, or the operation at /mcp that waits.
func about(a approval.Approval) string {
	if a.Kind == approval.KindPlan {
		return a.About
	}
	return plain(a.Operation)
}

var approvalShow = Command{
	Path: "approval show", Short: "Show one approval and exactly what it is about", Op: "approval.show", Args: "APPROVAL", Min: 1, Max: 1, Complete: approvalIDs,
	Long:    "APPROVAL is its id, any beginning of it that is unique, or the plan that it is about.",
	Example: "mcpx approval show apr_01J",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		view, err := service.Approval(ctx, api.ApprovalRef{Approval: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(view, func(w io.Writer) {
			e.approvalText(w, looks{e.color}, view)
			e.next(w, view.Next)
		})
	},
}

// approvalText shows what a person decides about.
func (e *Env) approvalText(w io.Writer, l looks, view api.ApprovalView) {
	if view.Plan != nil {
		e.planText(w, l, *view.Plan)
	} else {
		e.callText(w, view)
	}
	line(w, "")
	line(w, "digest      %s", view.Subject)
}

// callText shows a question about a call at /mcp. What the model says about it is no part of what is decided.
func (e *Env) callText(w io.Writer, view api.ApprovalView) {
	facts := [][2]string{{"approval", e.approvalWords(view.Approval)}, {"kind", string(view.Kind)}, {"operation", plain(view.Operation)}}
	if view.ProjectName != "" {
		facts = append(facts, [2]string{"project", plain(view.ProjectName)})
	}
	if view.Session != "" {
		facts = append(facts, [2]string{"session", view.Session})
	}
	for _, why := range view.Reasons {
		facts = append(facts, [2]string{"asked because", plain(why)})
	}
	if view.Claim != "" {
		facts = append(facts, [2]string{"agent says", plain(view.Claim) + " (a claim, not checked)"})
	}
	pairs(w, facts)
	line(w, "")
	for row := range strings.SplitSeq(strings.TrimSuffix(cmp.Or(view.Whole, view.Display), "\n"), "\n") {
		line(w, "  %s", plain(row))
	}
}

// approvalIDs completes the id of an approval from a daemon that runs.
func approvalIDs(ctx context.Context, e *Env) []string {
	client, err := e.Daemon()
	if err != nil {
		return nil
	}
	page, err := client.Approvals(ctx, api.ApprovalsQuery{})
	if err != nil {
		return nil
	}
	ids := make([]string, 0, len(page.Approvals))
	for _, a := range page.Approvals {
		ids = append(ids, a.ID)
	}
	return ids
}

var noteFlag = Flag{Name: "note", Kind: StringFlag, Value: "TEXT", Usage: "why: TEXT is kept with the decision"}

var approvalApprove = Command{
	Path: "approval approve", Short: "Say yes to a plan, or to a call of an agent that waits", Op: "approval.decide", Args: "APPROVAL...", Min: 1, Max: -1, Complete: approvalIDs,
	Long: "It shows the difference on your terminal and asks you to type a code back; there is no flag that answers for you, and\n" +
		"no way to approve everything at once: several are shown one after the other. The yes is bound to what was shown; it\n" +
		"counts once, for 15 minutes. It runs nothing: `mcpx apply` does, or the agent when it repeats its call. Programs that a\n" +
		"server or a job of mcpx started are refused.",
	Example: "mcpx approval approve apr_01J\nmcpx approval approve apr_01J apr_01K --note 'reviewed with Ada'",
	Flags:   []Flag{noteFlag},
	Run:     func(ctx context.Context, e *Env, a Args) error { return e.decide(ctx, a, true) },
}

var approvalDeny = Command{
	Path: "approval deny", Short: "Say no to a plan, or to a call of an agent that waits", Op: "approval.decide", Args: "APPROVAL...", Min: 1, Max: -1, Complete: approvalIDs,
	Long: "Asked on your terminal like a yes. A plan that was denied is not asked about again for 30 days, unless the file or\n" +
		"the catalog changes, exactly the same call of an agent for 10 minutes.",
	Example: "mcpx approval deny apr_01J --note 'not this server'",
	Flags:   []Flag{noteFlag},
	Run:     func(ctx context.Context, e *Env, a Args) error { return e.decide(ctx, a, false) },
}

// decisions is the answer of approve and deny.
type decisions struct {
	Decided []api.ApprovalView `json:"decided"`
}

// decide asks the person about one approval after the other. What was decided before one that fails stays decided.
func (e *Env) decide(ctx context.Context, a Args, yes bool) error {
	service, err := e.API(ctx)
	if err != nil {
		return err
	}
	p, err := e.person("mcpx approval " + decision(yes) + " " + a.Pos(0))
	if err != nil {
		for i := range a.Len() { // the daemon writes down who tried: without the digest of what was shown it accepts nothing
			_, _ = service.Decide(e.operation(ctx), api.Decide{Approval: a.Pos(i), Approve: yes})
		}
		return err
	}
	defer p.leave()
	var out decisions
	for i := range a.Len() {
		view, err := service.Approval(ctx, api.ApprovalRef{Approval: a.Pos(i)})
		if err != nil {
			return err
		}
		decided, err := e.decideOne(ctx, service, p, view, yes, a.String("note"))
		if err != nil {
			return err
		}
		out.Decided = append(out.Decided, decided)
	}
	return e.Show(out, func(w io.Writer) {
		for _, d := range out.Decided {
			line(w, "%s: %s", d.State, plain(d.Display))
		}
		e.next(w, nextOfDecided(out.Decided))
	})
}

// nextOfDecided are the commands that follow. Plans that were approved together are applied together: of two that are
// about one file the second does not fit otherwise.
func nextOfDecided(all []api.ApprovalView) []string {
	var commands, plans []string
	for _, d := range all {
		if d.State == approval.Approved && d.Kind == approval.KindPlan {
			plans = append(plans, d.About)
			continue
		}
		commands = append(commands, d.Next...)
	}
	if len(plans) > 0 {
		commands = append([]string{"mcpx apply " + strings.Join(plans, " ")}, commands...)
	}
	return slices.Compact(commands)
}

func decision(yes bool) string {
	if yes {
		return "approve"
	}
	return "deny"
}

// decideOne shows one approval to the person and takes the answer. Its operation is one of its own: each decision is.
func (e *Env) decideOne(ctx context.Context, service api.Service, p *person, view api.ApprovalView, yes bool, note string) (api.ApprovalView, error) {
	if view.State != approval.Pending {
		return api.ApprovalView{}, decidedAlready(view.Approval)
	}
	e.approvalText(p, looks{e.ttyColor}, view)
	line(p, "")
	yesItIs, err := p.confirm(ctx, decision(yes)+" this")
	if err != nil {
		return api.ApprovalView{}, err
	}
	if !yesItIs {
		return api.ApprovalView{}, notConfirmed("mcpx approval " + decision(yes) + " " + view.ID)
	}
	return service.Decide(e.operation(ctx), api.Decide{Approval: view.ID, Approve: yes, Digest: view.Subject, Note: note})
}

// decidedAlready is the error for an approval that nobody can decide any more.
func decidedAlready(a approval.Approval) error {
	f := fault.New(fault.Conflict, "approval-decided").Saying("%s is %s already", a.ID, a.State)
	if a.Kind != approval.KindPlan {
		return f.Hinting("`mcpx approval list` shows what waits for you")
	}
	switch a.State {
	case approval.Approved:
		return f.Hinting("use it: `mcpx apply %s`", a.About)
	case approval.Consumed:
		return f.Hinting("see what came of it: `mcpx plan show %s`", a.About)
	case approval.Pending, approval.Denied, approval.Expired, approval.Revoked:
	}
	return f.Hinting("run `mcpx audit run` for a new plan")
}
