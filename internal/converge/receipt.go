package converge

import (
	"slices"
	"time"
)

// ReceiptState says how far an apply is. Applying is the only state that a restart has to decide.
type ReceiptState string

// The states.
const (
	ReceiptApplying   ReceiptState = "applying"
	ReceiptApplied    ReceiptState = "applied"
	ReceiptUndone     ReceiptState = "undone"      // nothing of it is in the files
	ReceiptRolledBack ReceiptState = "rolled-back" // by the receipt RolledBackBy
)

// Receipt is what an apply or a rollback really did.
type Receipt struct {
	ID           string       `json:"receipt_id"` // rcp_ and a ULID
	Plan         string       `json:"plan_id"`
	Kind         PlanKind     `json:"kind"`
	Agent        string       `json:"agent,omitempty"`
	Server       string       `json:"server,omitempty"`
	Entry        string       `json:"entry,omitempty"`
	Approval     string       `json:"approval,omitempty"`   // "" when a line of the policy allowed it
	Authorized   string       `json:"authorized,omitempty"` // that line
	State        ReceiptState `json:"state"`
	Files        []Written    `json:"files"`
	Problems     []Problem    `json:"problems"` // why it was undone; third-party-edit
	Reverts      string       `json:"reverts,omitempty"`
	RolledBackBy string       `json:"rolled_back_by,omitempty"`
	Started      time.Time    `json:"started_at"`
	Ended        time.Time    `json:"ended_at,omitzero"`
}

// Written is what happened to one file.
type Written struct {
	Path     string   `json:"path"`
	Real     string   `json:"real_path"`
	Before   Expected `json:"before"` // Absent: the file was made
	After    Expected `json:"after"`  // Absent: the file was removed
	Backup   string   `json:"backup"` // name below the receipt's directory; "" there was nothing
	Edits    []Edit   `json:"edits"`  // in the bytes that were there, which may differ from the plan's when it binds entries
	Diff     string   `json:"diff"`
	Exchange string   `json:"exchange"` // exchange, or rename where the system cannot exchange: then a gap of microseconds is named here
	Verified string   `json:"verified"` // parsed
	Notes    []Note   `json:"notes"`
	// Steps and Leaves are those of the change, which a rollback by entry needs.
	Steps  []Step  `json:"steps,omitempty"`
	Leaves []Bound `json:"leaves,omitempty"`
}

// Programs are the paths that the receipt wrote into entries as those of mcpx.
func (r Receipt) Programs() []string {
	var all []string
	for _, f := range r.Files {
		for _, s := range f.Steps {
			if s.Want != nil && s.Want.Kind == FormBridge && !slices.Contains(all, s.Want.Command) {
				all = append(all, s.Want.Command)
			}
		}
	}
	return all
}
