package gateway

import (
	"slices"
	"strings"
	"time"

	"mcpx/internal/supervise"
)

// State is what a server or a lane is doing now.
type State string

// The states of a lane. A server has the best state of its lanes, or Idle.
const (
	Idle      State = "idle"       // no process: the next call starts one
	Starting  State = "starting"   // spawn, probe and handshake
	Adopting  State = "adopting"   // its process outlived an earlier daemon and is being taken up again
	Ready     State = "ready"      // handshake done, link alive
	Waiting   State = "backoff"    // ended; the next start waits
	CrashLoop State = "crash_loop" // ended too often; one trial a minute, on demand
	Wedged    State = "wedged"     // a child of an earlier daemon that could not be adopted
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
	Adopted  bool      `json:"adopted,omitempty"` // from an earlier daemon
	Note     string    `json:"note,omitempty"`    // why it is wedged
	// Agents are the agents that have a session there, as far as they said who they are.
	Agents []string `json:"agents,omitempty"`
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

func (s *Server) sessionCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

func (s *Server) status() ServerStatus {
	e := s.def.Load()
	s.mu.Lock()
	lanes := s.lanesLocked()
	ok, wait, state := s.history.MayStart(s.g.now())
	st := ServerStatus{
		Name: e.Name, Kind: "http", Sharing: string(e.Sharing), Direct: e.Direct, State: Idle, Sessions: len(s.sessions),
		Restarts: int(s.restarts.Load()), LastError: s.lastErr, ErrorAt: s.errAt, Attempts: s.history.Failures(), Malformed: s.malformed.Load(), Lanes: []LaneStatus{},
	}
	for laneKey, why := range s.wedged {
		st.Lanes = append(st.Lanes, LaneStatus{Key: laneKey, State: Wedged, Note: why})
	}
	s.mu.Unlock()
	if e.Stdio != nil {
		st.Kind = "stdio"
	}
	switch {
	case state == supervise.CrashLoop:
		st.State = CrashLoop
	case !ok:
		st.State = Waiting
	}
	if !ok {
		st.NextTry = s.g.now().Add(wait)
	}
	for _, l := range lanes {
		ls := l.status()
		if l.down.Load() {
			continue
		}
		st.Lanes = append(st.Lanes, ls)
		st.InFlight += ls.InFlight
		if ls.State == Ready || ls.State == Starting && st.State != Ready {
			st.State = ls.State
		}
	}
	slices.SortFunc(st.Lanes, func(a, b LaneStatus) int { return strings.Compare(a.Key, b.Key) })
	if st.State == Idle && len(st.Lanes) > 0 {
		st.State = Wedged // nothing else is there
	}
	if st.State == Idle && s.adopting.Load() > 0 {
		st.State = Adopting
	}
	if st.State == Idle && s.starting.Load() > 0 {
		st.State = Starting
	}
	if s.narrowed.Load() {
		st.Notes = append(st.Notes, "sharing-narrowed")
	}
	if s.asks.Load() {
		st.Notes = append(st.Notes, "asks")
	}
	return st
}
