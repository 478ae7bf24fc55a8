package api

import (
	"encoding/json"
	"time"
)

// KeepCertificate lets the certificate of a run with a real client count, or one of a run that failed end another one.
type KeepCertificate struct {
	Agent       string          `json:"-" path:"agent"`
	Certificate json.RawMessage `json:"certificate"` // as `mcpx certify --out` writes it
}

// KeptCertificate says whether it counts.
type KeptCertificate struct {
	Agent   string `json:"agent"`
	Version string `json:"version"`
	Counts  bool   `json:"counts"`
	Why     string `json:"why,omitempty"` // a code, when it does not

	Operation string `json:"operation,omitempty"` // the id that the caller gave
}

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
