package retention

import (
	"context"
	"time"
)

// Data is a kind of data that is removed.
type Data string

// What is removed, in this order: what an operation refers to is kept until its own row lets go of it.
const (
	Displaced  Data = "displaced"  // bytes that were in a project before an edit
	Operations Data = "operations" // what rows of the ledger hold beside the outcome
	Output     Data = "output"     // what commands wrote
	Results    Data = "results"    // answers that were too large to be sent whole
	Bodies     Data = "bodies"     // of events
)

// Removed says what became of one kind of data.
type Removed struct {
	Data    Data  `json:"data"`
	Removed int   `json:"removed"`
	Bytes   int64 `json:"bytes"`
	Needed  int   `json:"needed"` // old, and kept because unfinished work refers to it or it was written to since
}

// Report is what one look for old data found.
type Report struct {
	At      time.Time `json:"at"`      // what is old was counted from here
	DryRun  bool      `json:"dry_run"` // nothing was removed
	Removed []Removed `json:"removed"`
}

// State is what retention remembers from one daemon to the next.
type State struct {
	Hold Hold   `json:"hold"`
	Last Report `json:"last"` // that removed something or looked for it; the zero Report: none did
}

// Reader reads the state. It is part of the transaction port that package store joins.
type Reader interface {
	// RetentionState is the zero State before the first PutRetentionState.
	RetentionState(ctx context.Context) (State, error)
}

// Store reads and changes it.
type Store interface {
	Reader
	// PutRetentionState writes it whole.
	PutRetentionState(ctx context.Context, p PutState) error
}

// PutState carries the state to write.
type PutState struct{ State State }
