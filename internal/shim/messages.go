package shim

import (
	"time"

	"mcpx/internal/process"
)

// The JSON payloads of frames and files. Fields are added, never renamed: a daemon meets supervisors of older versions.

const (
	// protoJournal is the version of the attach protocol from which a supervisor keeps journal and blob. Before it there
	// are no frames BLOB, LOST, JOURNAL and DONE.
	protoJournal = 2
	// formatVersion is the version of the files in a bundle.
	formatVersion = 1
)

// protocols is a range of versions of the attach protocol.
type protocols struct{ min, max int }

// spoken is what this binary speaks. It is a variable for the tests, which run supervisors of other versions.
var spoken = protocols{1, 2}

// Roles of a connection.
const (
	roleAttach  = "attach"
	roleControl = "control"
)

// Reasons of a refusal.
const (
	refusedBusy     = "busy"
	refusedStale    = "stale_generation"
	refusedProtocol = "protocol"
	refusedToken    = "token"
	refusedExiting  = "exiting"
)

// States of a supervisor.
const (
	stateWaiting = "waiting" // no daemon has attached yet
	stateRunning = "running"
	stateEnding  = "ending" // the ladder has begun, or the child has ended
)

// daemonInfo names the daemon at the other end.
type daemonInfo struct {
	process.Identity
	Version string `json:"version"`
}

type hello struct {
	Min        int        `json:"min"`
	Max        int        `json:"max"`
	Role       string     `json:"role"`
	Generation uint64     `json:"generation"`
	Token      string     `json:"token"`
	Instance   string     `json:"instance"`
	Daemon     daemonInfo `json:"daemon"`
	Steal      bool       `json:"steal,omitempty"`
}

type welcome struct {
	Protocol   int               `json:"protocol"`
	Version    string            `json:"version"`
	State      string            `json:"state"`
	Child      *process.Identity `json:"child,omitempty"` // nil: it could not be started, EXIT follows
	Started    time.Time         `json:"started,omitzero"`
	Generation uint64            `json:"last_generation"` // highest one attached before
	Counters   counters          `json:"counters"`        // since the start of the supervisor
	Handshake  string            `json:"handshake,omitempty"`
}

type refused struct {
	Reason     string     `json:"reason"`
	Holder     daemonInfo `json:"holder,omitzero"`
	Generation uint64     `json:"generation,omitempty"`
}

// counters are losses and oddities: since the start of the supervisor, in LOST since the last report.
type counters struct {
	DroppedFrames uint64 `json:"dropped_frames"` // output lines dropped while no daemon was attached
	DroppedBytes  uint64 `json:"dropped_bytes"`
	PartialIn     uint64 `json:"partial_in"`           // messages cut off by the death of a daemon
	Superseded    uint64 `json:"superseded,omitempty"` // messages of a daemon that had lost its place
	Skipped       uint64 `json:"skipped"`              // stdout lines that were no messages
	Overlong      uint64 `json:"overlong"`             // stdout lines over the limit
	StderrLost    uint64 `json:"stderr_lost_bytes"`
	Refused       uint64 `json:"refused,omitempty"` // questions of the child that there was no room to keep
}

// since is what was counted after before.
func (c counters) since(before counters) counters {
	return counters{
		DroppedFrames: c.DroppedFrames - before.DroppedFrames, DroppedBytes: c.DroppedBytes - before.DroppedBytes,
		PartialIn: c.PartialIn - before.PartialIn, Superseded: c.Superseded - before.Superseded, Skipped: c.Skipped - before.Skipped, Overlong: c.Overlong - before.Overlong,
		StderrLost: c.StderrLost - before.StderrLost, Refused: c.Refused - before.Refused,
	}
}

// exitInfo is the payload of EXIT and the content of the file exit.
type exitInfo struct {
	Reason string `json:"reason"`
	process.Status
	Text      string    `json:"text,omitempty"`
	Fault     string    `json:"fault,omitempty"` // spawn_failed: code of the fault
	Hint      string    `json:"hint,omitempty"`  // spawn_failed: what to do
	Tail      []byte    `json:"tail,omitempty"`
	Survivors []int     `json:"survivors,omitempty"`
	Counters  counters  `json:"counters"`
	At        time.Time `json:"at"`

	// Only in the file: what no daemon was told of.
	Open     []keptCall `json:"open,omitempty"`     // written to the child, no answer
	Answered []keptCall `json:"answered,omitempty"` // answered, and nobody took the answer
	Finished []keptCall `json:"finished,omitempty"` // done with; see journalInfo
	Complete bool       `json:"complete,omitempty"` // see journalInfo
}

// journalInfo is the payload of JOURNAL: what the child was asked and what became of it.
type journalInfo struct {
	Next     uint64     `json:"next"`               // number of the next request of this generation
	Entries  []keptCall `json:"entries,omitempty"`  // not done with, oldest first
	Finished []keptCall `json:"finished,omitempty"` // done with in the last ten minutes, oldest first
	Complete bool       `json:"complete"`           // a request of the last ten minutes that is in neither was never written
}

// keptCall is one request to the child.
type keptCall struct {
	Number  uint64 `json:"n"`
	ID      []byte `json:"id"` // raw
	Method  string `json:"method,omitempty"`
	Tag     []byte `json:"tag,omitempty"`
	State   string `json:"state,omitempty"`  // gateway.CallState has the same texts; "" for finished ones
	Age     int64  `json:"age_ms,omitempty"` // since it was written, or since it was done with
	Request []byte `json:"request,omitempty"`
}

type terminate struct {
	Reason string         `json:"reason"`
	Ladder process.Ladder `json:"ladder"`
}

// overlong names an output line that passed the limit.
type overlong struct {
	ID   []byte `json:"id,omitempty"`
	Size int64  `json:"size"`
}

// status is the answer to STATUS.
type status struct {
	Version    string            `json:"version"`
	State      string            `json:"state"`
	Pid        int               `json:"pid"`
	Child      *process.Identity `json:"child,omitempty"`
	Started    time.Time         `json:"started,omitzero"`
	Attached   bool              `json:"attached"`
	Holder     daemonInfo        `json:"holder,omitzero"`
	Generation uint64            `json:"generation"`
	Counters   counters          `json:"counters"`
	Tail       []byte            `json:"tail,omitempty"`

	Min      int          `json:"min"` // versions of the attach protocol
	Max      int          `json:"max"`
	Protocol int          `json:"protocol,omitempty"` // of the holder
	Journal  journalSizes `json:"journal"`
}

// journalSizes say what a supervisor keeps.
type journalSizes struct {
	Handshake string `json:"handshake"`
	Running   int    `json:"running"`   // requests to the child without an answer
	Entries   int    `json:"entries"`   // requests that are not done with
	Questions int    `json:"questions"` // requests of the child without an answer
	Kept      int    `json:"kept_bytes"`
	Ring      int    `json:"ring_bytes"`
	Finished  int    `json:"finished"`
	Blob      int    `json:"blob_bytes"`
}
