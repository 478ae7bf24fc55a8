package converge

import (
	"slices"

	"mcpx/internal/approval"
)

// Wait says what a plan that is ready waits for.
type Wait string

// What plans wait for.
const (
	WaitNeed     Wait = "need"     // something that comes first: Needs has the command
	WaitApproval Wait = "approval" // the yes of a person, who was asked
	WaitApply    Wait = "apply"    // nothing: somebody has to apply it
	WaitAsk      Wait = "ask"      // the question to the person is over; it is asked again when the plan is made again
	WaitDenied   Wait = "denied"   // nothing: a person said no
)

// Waits says what the plan waits for; "" it is not ready. asked is the state of its latest approval, "" when nobody was
// asked. The policy may take the place of a yes, and so does that nobody was asked about what a rollback takes back.
func (p Plan) Waits(asked approval.State, policy Policy) Wait {
	switch {
	case p.State != PlanReady:
		return ""
	case len(p.Needs) > 0:
		return WaitNeed
	case p.Kind == PlanRollback && p.Approval == "", len(p.Auto) == 0 && policy.Allows(p.Risk.Class) != "":
		return WaitApply
	}
	switch asked {
	case approval.Pending:
		return WaitApproval
	case approval.Approved:
		return WaitApply
	case approval.Denied:
		return WaitDenied
	case approval.Expired, approval.Revoked, approval.Consumed:
	}
	return WaitAsk
}

// Command is what a person runs about a plan that waits; "" there is nothing to do.
func (p Plan) Command(w Wait) string {
	switch w {
	case WaitNeed:
		return p.Needs[0]
	case WaitApproval:
		return "mcpx approval approve " + p.Approval
	case WaitApply:
		return "mcpx apply " + p.ID
	case WaitAsk:
		return p.again()
	case WaitDenied:
	}
	return ""
}

// again is the command that makes the plan anew, and asks about it again.
func (p Plan) again() string {
	switch p.Kind { //nolint:exhaustive // the others are made by each audit
	case PlanRollback:
		command := "mcpx rollback " + p.Reverts
		if slices.ContainsFunc(p.Changes, func(c Change) bool { return len(c.Steps) > 0 && c.Steps[0].Merge }) {
			command += " --merge"
		}
		return command
	case PlanService:
		return "mcpx daemon install-user-service"
	case PlanControlPlane:
		return "mcpx agents install-control-plane --agent " + p.Agent
	}
	return "mcpx audit run"
}
