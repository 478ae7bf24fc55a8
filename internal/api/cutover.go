package api

import "time"

// RecordCutover records that a person retires another hub.
type RecordCutover struct {
	From     string   `json:"-" path:"from"`
	Evidence []string `json:"evidence"` // checks of the release gate that was open
}

// Cutover is a decision that was recorded.
type Cutover struct {
	From string    `json:"from"`
	At   time.Time `json:"at"`

	Operation string `json:"operation,omitempty"` // the id that the caller gave
}
