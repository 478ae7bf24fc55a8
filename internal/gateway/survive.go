package gateway

import (
	"context"
	"time"
)

// Keeper is a Backend whose children outlive the daemon, because each is owned by a supervisor (supervisor.md sections 4
// to 6 and 9). A new daemon adopts them: no second handshake, and no answer lost.
type Keeper interface {
	Backend
	// Survivors looks at what earlier daemons left, without talking to anybody: the bundles are read in parallel and
	// within ctx. What is dead is cleared away (a group is only killed when its identity is proved) and reported once as
	// Lost.
	Survivors(ctx context.Context) ([]Survivor, []Lost, error)
	// Adopt attaches to a survivor. take is called once, before anything is delivered, and gives the sink that takes
	// over; its error ends the attachment and leaves the child alone. Then what the supervisor kept is delivered in
	// order of arrival: notifications that came while nobody was attached, answers that are not Done, questions that are
	// not answered. The error is a *fault.Error: busy (another daemon holds it), unavailable (no answer within ctx).
	Adopt(ctx context.Context, id string, take func(Adopted) (Sink, error)) error
	// End begins the terminate ladder of a survivor that nobody wants. It returns at once.
	End(id, reason string)
}

// KeptLink is a Link with a memory that outlives the daemon.
type KeptLink interface {
	Link
	// Save stores the state of the lane with the supervisor, at most 1 MiB; it replaces what was stored before. It only
	// queues, in order with Send.
	Save(blob []byte) error
	// Done says that nobody needs the answers of these requests any more: they reached their clients, or are dropped on
	// purpose. A request that still runs is meant, too: its answer is then not kept. It only queues: the word travels
	// with the next message, or after a short while.
	Done(refs ...uint64)
}

// Survivor is one child that outlived an earlier daemon, as its bundle describes it.
type Survivor struct {
	ID         string // of the bundle
	Server     string // catalog id of the server
	Lane       string // key of the lane
	Process    string // Open.Process of its start
	Executable FileState
	Version    string // of its supervisor
	Supervisor int    // pid
	Child      int    // pid; 0: it was never spawned
	Started    time.Time
}

// Program is a Link to a child, which knows the file that it was started from.
type Program interface {
	Link
	// File compares that file with what is there now. It costs a few system calls, and reading up to 64 MiB when the file
	// system shows a difference.
	File() FileState
}

// FileState compares the executable of a running child with the file that has its path now.
type FileState string

// The states of an executable.
const (
	FileSame    FileState = "same"
	FileChanged FileState = "changed"
	FileMissing FileState = "missing"
)

// Adopted is a survivor that answers to us from now on.
type Adopted struct {
	Survivor
	Link      KeptLink
	Blob      []byte     // what Save stored last; nil: the handshake had not ended
	Calls     []KeptCall // not Done, oldest first. The lane numbers its own requests above the highest Ref
	Finished  []KeptCall // Done within the last ten minutes; Ref is 0
	Complete  bool       // Calls and Finished are all there was in the last ten minutes: a request in neither was never sent
	Dropped   uint64     // notifications that could not be kept
	DropBytes uint64
	Said      []byte // last whole lines of its stderr, at most 64 KiB, that no Stderr of this daemon delivers
}

// KeptCall is a request that an earlier daemon sent to the child.
type KeptCall struct {
	Ref    uint64 // its number on the adopted link, for Abort, Done, Written; from 1 without gaps
	ID     []byte // raw id as the child saw it
	Method string
	Tag    []byte // Outbound.Tag
	State  CallState
	Age    time.Duration // since it was written to the child

	Request []byte // of a handshake (initialize, server/discover): the message itself, when it has at most 64 KiB
}

// CallState is how far a kept call is.
type CallState string

// The states of a kept call.
const (
	CallRunning  CallState = "running"  // written to the child, no answer yet
	CallAnswered CallState = "answered" // the answer is kept and will be delivered
	CallLost     CallState = "lost"     // answered, but the answer could not be kept
)

// Lost is a child that ended while no daemon was attached.
type Lost struct {
	Survivor
	Exit     Exit
	Open     []KeptCall // sent and not answered
	Answered []KeptCall // answered; the answers are gone
	Complete bool       // a request of the last ten minutes before its end that is in neither was never sent
}
