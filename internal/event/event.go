package event

import (
	"context"
	"encoding/json"
	"time"
)

// Kind says what happened: an area and a verb, for example plan.made. docs/events.md lists them.
type Kind string

// Actor is who made it happen. Client and Channel are labels, never an identity.
type Actor struct {
	Principal string `json:"principal"`         // owner, or the name of an agent
	Client    string `json:"client,omitempty"`  // program, as it calls itself
	Channel   string `json:"channel,omitempty"` // cli, loop, hub
}

// Refs are the things an event is about, by what they are. They are plain text, no foreign keys: deleting a row
// elsewhere cannot break the chain.
type Refs map[Ref]string

// Ref is a kind of thing that an event can be about. A log can be asked for all events about one thing.
type Ref string

// The things.
const (
	RefAgent      Ref = "agent"
	RefApproval   Ref = "approval"
	RefAudit      Ref = "audit"
	RefBuild      Ref = "build"
	RefCandidate  Ref = "candidate"
	RefCredential Ref = "credential"
	RefJob        Ref = "job"
	RefOperation  Ref = "operation"
	RefPath       Ref = "path"
	RefPlan       Ref = "plan"
	RefProject    Ref = "project"
	RefReceipt    Ref = "receipt"
	RefServer     Ref = "server"
	RefSession    Ref = "session" // a remote one
	RefTask       Ref = "task"    // key of a task of a work plan
	RefToken      Ref = "token"
	RefWorkspace  Ref = "workspace"
)

// Draft is an event before it has its place in the log.
type Draft struct {
	At      time.Time
	Kind    Kind
	Actor   Actor
	Refs    Refs
	Summary string          // one line for people; holds no secret
	Body    json.RawMessage // nil none; redacted by whoever drafts it
}

// Event is a draft in its place. Hash covers everything but the body, which it covers through BodySHA256: retention may
// remove bodies, never envelopes.
type Event struct {
	Seq        uint64          `json:"seq"` // gap-free, from 1
	At         time.Time       `json:"at"`  // cut to microseconds
	Kind       Kind            `json:"kind"`
	Actor      Actor           `json:"actor"`
	Refs       Refs            `json:"refs,omitempty"`
	Summary    string          `json:"summary"`
	BodySHA256 string          `json:"body_sha256,omitempty"` // hex; "" without a body
	Prev       string          `json:"prev_hash"`             // hex; "" for the first
	Hash       string          `json:"hash"`                  // hex
	Body       json.RawMessage `json:"body,omitempty"`        // absent when there was none, or when it was purged
}

// Reader reads the log. It is part of the transaction port that package store joins.
type Reader interface {
	// Events is one page in order of Seq, or with Before the newest first. A page that is shorter than the limit is the last one.
	Events(ctx context.Context, p ListEvents) ([]Event, error)
	// EventHead is the last event, the zero Event of an empty log.
	EventHead(ctx context.Context) (Event, error)
}

// Log reads and grows the log.
type Log interface {
	Reader
	// AppendEvent gives the draft the next place. It is written in the transaction of the change that it tells of.
	AppendEvent(ctx context.Context, d Draft) (Event, error)
}

// BodyReader tells which bodies are stored.
type BodyReader interface {
	// Bodies is one page of the events that have their body, in order of Seq, without the bodies.
	Bodies(ctx context.Context, p ListBodies) ([]Stored, error)
}

// BodyStore lets bodies go.
type BodyStore interface {
	BodyReader
	// DropBodies removes bodies. The envelopes stay, and the chain holds without them. One that is not there is no error.
	DropBodies(ctx context.Context, p DropBodies) error
}

// Stored is an event whose body is stored.
type Stored struct {
	Event
	Size int64 // of the body, in bytes
}

// ListBodies asks for the events after After that happened before Before.
type ListBodies struct {
	After  uint64 // Seq of the last event of the page before
	Before time.Time
	Limit  int // 0 and everything above MaxEventPage is MaxEventPage
}

// PageLimit is the number of events that the page may hold.
func (p ListBodies) PageLimit() int { return ListEvents{Limit: p.Limit}.PageLimit() }

// DropBodies names events by Seq.
type DropBodies struct{ Seqs []uint64 }

// MaxEventPage bounds one page of Events.
const MaxEventPage = 500

// ListEvents asks for the events after After that fit every condition that is set.
type ListEvents struct {
	After  uint64 // Seq of the last event of the page before
	Before uint64 // not 0: those before it, the newest first; After counts no more
	Kind   string // a kind, or the beginning of one up to a dot: "plan" finds plan.made
	Refs   Refs   // all of them
	Since  time.Time
	Limit  int // 0 and everything above MaxEventPage is MaxEventPage
}

// PageLimit is the number of events that the page may hold.
func (p ListEvents) PageLimit() int {
	if p.Limit < 1 || p.Limit > MaxEventPage {
		return MaxEventPage
	}
	return p.Limit
}
