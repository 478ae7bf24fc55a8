package operation

import (
	"context"
	"time"
)

// Runner carries jobs out: each attempt has a directory, which is the evidence, and a process of its own that outlives
// the daemon. It starts each attempt at most once.
type Runner interface {
	// Reserve makes the directory of an attempt, and its temporary directory. Nothing is started.
	Reserve(ctx context.Context, ref JobRef) error
	// Temp is the temporary directory of an attempt.
	Temp(ref JobRef) string
	// Start starts the command of an attempt, and says what is known once it runs, or could not be run. An error says that
	// it is not known whether it was started: Look and Fence decide.
	Start(ctx context.Context, s StartJob) (JobEvidence, error)
	// Look reads the directory of an attempt. An error means that nothing can be said now.
	Look(ctx context.Context, ref JobRef) (JobEvidence, error)
	// Fence makes sure that an attempt that was not started never is. Busy job-held while a supervisor lives; Conflict
	// job-started when it was started after all.
	Fence(ctx context.Context, ref JobRef) error
	// Discard removes the directory of an attempt that never ran.
	Discard(ctx context.Context, ref JobRef) error
	// Stop asks for the end of a job. Its supervisor carries it out, and goes on with it when the daemon is gone.
	Stop(ctx context.Context, s StopJob) error
	// Stopped says which processes outlived a stop; done is false while it is under way.
	Stopped(ctx context.Context, ref JobRef, by string) (survivors []int, done bool, err error)
	// Feed appends to the standard input of a job with StdinOpen. The same chunk twice is one.
	Feed(ctx context.Context, c Chunk) (JobInput, error)
	// Fed tells whether a chunk was appended.
	Fed(ctx context.Context, ref JobRef, by string) (bool, error)
	// Input says how much of the standard input waits.
	Input(ctx context.Context, ref JobRef) (JobInput, error)
	// Output is a window of what a job wrote.
	Output(ctx context.Context, w OutputAt) (JobOutput, error)
	// Attempts are the directories that are there.
	Attempts(ctx context.Context) ([]JobRef, error)
}

// StartJob is what is started.
type StartJob struct {
	JobRef
	File    string
	Argv    []string
	Env     []string // NAME=value, the whole environment
	Dir     string
	Stdin   Stdin
	Text    string // of StdinText
	Timeout time.Duration
	Secrets map[string]string // values, by name, that must not be in the stored output
}

// StopJob is a wish to end a job.
type StopJob struct {
	JobRef
	By     string // the operation
	Signal string // its name without SIG
	Grace  time.Duration
}

// MaxInput bounds the input of a job that waits to be read.
const MaxInput = 1 << 20

// Chunk is a part of the standard input.
type Chunk struct {
	JobRef
	By   string // the operation: a chunk is known by it
	Data []byte
	EOF  bool
}

// JobInput is where the standard input of a job stands.
type JobInput struct {
	Queued int  `json:"queued"` // bytes that the job has not taken
	Closed bool `json:"closed"`
}

// Stream is one of the two that a job writes.
type Stream string

// The streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// OutputAt is a window of a stream. An offset counts all bytes that were written, those that were dropped too; a negative
// one counts from the end.
type OutputAt struct {
	JobRef
	Stream Stream
	Offset int64
	Max    int
}

// JobOutput is a window of a stream.
type JobOutput struct {
	Data    []byte
	Offset  int64 // of the first byte of Data: later than what was asked for when that was dropped
	Size    int64 // bytes that were written so far
	Dropped int64 // bytes between the first and the last part that are not kept
}
