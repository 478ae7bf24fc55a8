package gateway

import "time"

// State is what a server or a lane is doing now.
type State string

// The states of a lane. A server has the best state of its lanes, or Idle.
const (
	Idle      State = "idle"       // no process: the next call starts one
	Starting  State = "starting"   // spawn, probe and handshake
	Ready     State = "ready"      // handshake done, link alive
	Waiting   State = "backoff"    // ended; the next start waits
	CrashLoop State = "crash_loop" // ended too often; one trial a minute, on demand
	Off       State = "disabled"   // not routed
)

// ServerStatus is the live state of one server.
type ServerStatus struct {
	Name      string       `json:"name"`
	Kind      string       `json:"kind"` // stdio, http
	Sharing   string       `json:"sharing"`
	Direct    bool         `json:"direct,omitempty"`
	State     State        `json:"state"`
	Lanes     []LaneStatus `json:"lanes"`
	Sessions  int          `json:"sessions"`
	InFlight  int          `json:"in_flight"`
	Restarts  int          `json:"restarts"`
	LastError string       `json:"last_error,omitempty"`
	ErrorAt   time.Time    `json:"error_at,omitzero"`
	NextTry   time.Time    `json:"next_try,omitzero"`
	Attempts  int          `json:"attempts,omitempty"`           // failures in a row
	Malformed uint64       `json:"malformed_messages,omitempty"` // what began like a message of the server and was none
	Notes     []string     `json:"notes,omitempty"`              // sharing-narrowed, asks, late answers
}

// LaneStatus is the live state of one process or upstream session.
type LaneStatus struct {
	Key      string    `json:"key"`
	Era      string    `json:"era,omitempty"`     // legacy, modern
	Version  string    `json:"version,omitempty"` // negotiated protocol revision
	State    State     `json:"state"`
	Shared   bool      `json:"shared"`
	Sessions int       `json:"sessions"`
	InFlight int       `json:"in_flight"`
	Link     LinkInfo  `json:"link"`
	Since    time.Time `json:"since"`
	LastUsed time.Time `json:"last_used,omitzero"`
}

// Counters are totals since the daemon started.
type Counters struct {
	Requests    uint64 `json:"requests"`
	Late        uint64 `json:"late_answers"`
	Unmatched   uint64 `json:"unmatched_answers"`
	Dropped     uint64 `json:"dropped_notifications"`
	Sessions    int    `json:"sessions"`
	MaxSessions int    `json:"max_sessions"`
}
