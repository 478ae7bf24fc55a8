package converge

import (
	"testing"

	"mcpx/internal/approval"
)

func TestWaits(t *testing.T) {
	plan := Plan{ID: "plan_1", Kind: PlanRoute, State: PlanReady, Approval: "apr_1", Auto: []string{"agent-not-auto"}, Risk: Risk{Class: RiskNormal}}
	with := func(edit func(p *Plan)) Plan {
		p := plan
		edit(&p)
		return p
	}
	for name, tc := range map[string]struct {
		plan    Plan
		asked   approval.State
		policy  Policy
		want    Wait
		command string
	}{
		"errored":  {with(func(p *Plan) { p.State = PlanErrored }), approval.Pending, Policy{}, "", ""},
		"needs":    {with(func(p *Plan) { p.Needs = []string{"mcpx catalog review c --promote"} }), "", Policy{}, WaitNeed, "mcpx catalog review c --promote"},
		"pending":  {plan, approval.Pending, Policy{}, WaitApproval, "mcpx approval approve apr_1"},
		"approved": {plan, approval.Approved, Policy{}, WaitApply, "mcpx apply plan_1"},
		"denied":   {plan, approval.Denied, Policy{}, WaitDenied, ""},
		"expired":  {plan, approval.Expired, Policy{}, WaitAsk, "mcpx audit run"},
		"unasked":  {plan, "", Policy{}, WaitAsk, "mcpx audit run"},
		"policy":   {with(func(p *Plan) { p.Auto = nil }), "", Policy{Auto: []RiskClass{RiskNormal}}, WaitApply, "mcpx apply plan_1"},
		"another policy": {
			with(func(p *Plan) { p.Auto = nil }), approval.Pending, Policy{Auto: []RiskClass{RiskLow}}, WaitApproval, "mcpx approval approve apr_1",
		},
		"rollback of what needed nobody": {with(func(p *Plan) { p.Kind, p.Approval = PlanRollback, "" }), "", Policy{}, WaitApply, "mcpx apply plan_1"},
		"rollback": {
			with(func(p *Plan) {
				p.Kind, p.Reverts, p.Changes = PlanRollback, "rcp_1", []Change{{Steps: []Step{{Op: StepRevert, Merge: true}}}}
			}),
			approval.Revoked,
			Policy{},
			WaitAsk, "mcpx rollback rcp_1 --merge",
		},
		"service":       {with(func(p *Plan) { p.Kind = PlanService }), approval.Expired, Policy{}, WaitAsk, "mcpx daemon install-user-service"},
		"control plane": {with(func(p *Plan) { p.Kind, p.Agent = PlanControlPlane, "codex" }), approval.Expired, Policy{}, WaitAsk, "mcpx agents install-control-plane --agent codex"},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.plan.Waits(tc.asked, tc.policy)
			if command := tc.plan.Command(got); got != tc.want || command != tc.command {
				t.Errorf("%q %q, want %q %q", got, command, tc.want, tc.command)
			}
		})
	}
}
