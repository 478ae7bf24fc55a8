package gateway

import "context"

// Keeper is a Backend whose links outlive the daemon: its children are owned by supervisors. After a restart they are
// adopted instead of started, without a second handshake (supervisor.md sections 4 to 6 and 9).
type Keeper interface {
	Backend
	// Adopt finds every link that outlived an earlier daemon and offers each to claim, many at a time. claim gets the
	// attached link with what its supervisor kept; it returns the sink that takes over, or nil when nobody wants the
	// link any more: then its child is ended. What the supervisor kept (answers, questions, notifications) is delivered
	// to the sink after claim has returned. Adopt returns when every survivor was decided or ctx is over; one that does
	// not answer is skipped, named in the report, and never delays the others.
	Adopt(ctx context.Context, claim func(Survivor) Sink) ([]Lost, error)
}

// KeptLink is a Link with a memory that outlives the daemon.
type KeptLink interface {
	Link
	// Save stores the state of the lane with the supervisor, at most 1 MiB; it replaces what was stored before.
	Save(blob []byte) error
	// Done says that the answers of these requests reached their clients, or were dropped on purpose: the supervisor
	// need not keep them. It only queues: the word travels with the next message, or after a short while.
	Done(refs ...uint64)
}

// Survivor is one link that outlived an earlier daemon.
type Survivor struct {
	ID      string // of the bundle
	Server  string // catalog id of the server
	Lane    string // key of the lane
	Process string // digest of the process definition it was started from (ProcessDigest)
	Blob    []byte // what Save stored last; nil when the handshake had not ended
	Link    KeptLink
	Calls   []KeptCall
	Dropped Dropped
}

// KeptCall is a request that an earlier daemon sent and whose answer was not confirmed as delivered.
type KeptCall struct {
	Ref    uint64 // its number on the adopted link, as in Sink.Written and Link.Abort
	ID     []byte // raw id as the child saw it
	Method string
	Tag    []byte // as it was sent
	Lost   bool   // answered, but the answer had to be dropped
}

// Dropped counts what a supervisor could not keep while no daemon was attached.
type Dropped struct {
	Frames uint64 // notifications
	Bytes  uint64
	Whole  bool // the journal and the ring of finished requests are complete: an id that is in neither was never sent
}

// Lost is a child that ended, or could not be reached, while no daemon was attached.
type Lost struct {
	ID     string
	Server string
	Lane   string
	Exit   Exit
	Open   [][]byte // raw ids that were sent and not answered
	Done   [][]byte // raw ids that were answered; the answers are gone
}
