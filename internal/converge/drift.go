package converge

import "time"

// TroubleSince is when something was told first.
type TroubleSince struct {
	Code  string    `json:"code"`
	Entry string    `json:"entry,omitempty"`
	Since time.Time `json:"since"`
}
