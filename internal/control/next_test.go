package control

import (
	"slices"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/converge"
)

func TestNextOfRows(t *testing.T) {
	row := func(id string, w converge.Wait, asked approval.State) api.PlanRow {
		return api.PlanRow{ID: id, Waits: w, Approved: asked}
	}
	errored, denied := row("errored", "", ""), row("denied", converge.WaitDenied, approval.Denied)
	needs, pending := row("needs", converge.WaitNeed, ""), row("pending", converge.WaitApproval, approval.Pending)
	over, yes := row("over", converge.WaitAsk, approval.Expired), row("yes", converge.WaitApply, approval.Approved)
	for want, plans := range map[string][]api.PlanRow{
		"mcpx apply yes":         {errored, needs, pending, yes},
		"mcpx apply --all":       {yes, pending, yes},
		"mcpx plan show pending": {errored, needs, pending},
		"mcpx plan show needs":   {errored, over, needs},
		"mcpx audit run":         {denied, over},
		"":                       {errored, denied},
	} {
		var all []string
		if want != "" {
			all = []string{want}
		}
		if got := nextOfRows(plans); !slices.Equal(got, all) {
			t.Errorf("of %v it is %q, want %q", plans, got, want)
		}
	}
}
