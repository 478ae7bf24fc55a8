package converge

import "context"

// Target reads and writes the files of agents. Implemented by clientfile.
type Target interface {
	// Read begins a look at the files. It reads nothing yet.
	Read(look Look) Drafter
	// Apply writes all changes or none. Each file is read again and must be what the change expects, else it fails with
	// kind Stale and nothing is written. Backups lie under the name of the receipt. What was written is told even with
	// an error, so that the receipt says what had to be undone.
	//
	// before are receipts of the same order of a person, the oldest first. A file that is exactly what the last of them left,
	// and that the change expects as it was before the first of them, is written when the change does the same to the same
	// entries: the person has seen both changes of one file and said yes to both.
	Apply(ctx context.Context, look Look, receipt string, changes []Change, before []Receipt) ([]Written, error)
	// Recover decides an apply whose daemon was killed: forward when all files have their new bytes, else back. A file
	// with bytes of a third party is left alone and told with the code third-party-edit. Calling it again changes nothing.
	Recover(ctx context.Context, look Look, receipt string, changes []Change) (written []Written, applied bool, problems []Problem, err error)
}

// Drafter says what would change in the files of one look. A file is read when it is first asked for, and not again: all
// drafts of it are of the same bytes. It is for one goroutine.
type Drafter interface {
	// Draft says what the steps would do to one file: bytes, spans, diff and hashes. It writes nothing. A *fault.Error names
	// what would break; codes are explained in docs/findings.md. The cause of merge-conflict are Conflicts.
	Draft(ctx context.Context, d Drafting) (Change, error)
}

// Drafting is one file and what shall happen to it.
type Drafting struct {
	Agent string // "" for a file that is no agent's
	Path  string
	Steps []Step
	// Reverts is the file of a receipt that a StepRevert takes back.
	Reverts *Written
}
