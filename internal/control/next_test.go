package control

import (
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/converge"
)

func TestNextReady(t *testing.T) {
	errored := api.PlanRow{ID: "errored", State: converge.PlanErrored, Approval: "apr_a"}
	needs := api.PlanRow{ID: "needs", State: converge.PlanReady}
	asked := api.PlanRow{ID: "asked", State: converge.PlanReady, Approval: "apr_b"}
	for want, plans := range map[string][]api.PlanRow{
		"asked": {errored, needs, asked}, "needs": {errored, needs}, "": {errored},
	} {
		if got, ok := nextReady(plans); got.ID != want || ok != (want != "") {
			t.Errorf("of %v it is %q, want %q", plans, got.ID, want)
		}
	}
}
