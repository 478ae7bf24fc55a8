package tree

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ChangeKind is what is done to a path. The order of the constants is the order in which the changes of a batch are
// applied (durable-work.md section 10.1).
type ChangeKind string

// The kinds.
const (
	Mkdir   ChangeKind = "mkdir"
	Add     ChangeKind = "add"
	Replace ChangeKind = "replace"
	Rename  ChangeKind = "rename"
	SetMode ChangeKind = "mode"
	Delete  ChangeKind = "delete"
	Rmdir   ChangeKind = "rmdir"
)

var applyOrder = []ChangeKind{Mkdir, Add, Replace, Rename, SetMode, Delete, Rmdir}

// Intent is a change that a caller wants. Directories that an Add or a Rename needs are made with it.
type Intent struct {
	Kind ChangeKind
	Path string // as it was asked for
	To   string // Rename: the new name, which must not exist
	// Expect is the Digest of what has to be there: of Replace, Rename and Delete. A Replace of a
	// directory wants that of all that is in it.
	Expect string
	// What an Add or a Replace puts there, one of these; for a Rename, what is under the new name in the place of the old
	// bytes.
	Data []byte
	From func(io.Writer) error // writes the bytes
	Link *string               // a symbolic link with this text
	Dir  *[]Below              // a directory with this below it, each entry behind the directory that it is in: only of a Replace
	// Mode is the permissions that SetMode gives, and those of a Mkdir, an Add or a Replace; 0: a Replace gets those of what it
	// replaces, the others those of the directory around them.
	Mode fs.FileMode
	// Like opens the file whose permissions, owner and attributes a new file gets; nil: those of its surroundings.
	Like func() (*os.File, error)
	// Exec says that a file with the permissions of the directory around it may be executed by those who may read it.
	Exec bool
	// BreakLinks says that the other names of a file with several keep the old bytes.
	BreakLinks bool
}

// Below is an entry of a directory that takes the place of something else. Its permissions are those of its surroundings, unless
// it has some.
type Below struct {
	Path string // below the directory
	Kind Kind   // File, Link or Directory
	Exec bool   // of a File: it may be executed by those who may read it
	Link string // of a Link: its text
	Mode fs.FileMode
	From func(io.Writer) error
	Like func() (*os.File, error) // as of an Intent
}

// Change is one row of the journal of a transaction: all that is needed to carry it out, and to know later how far it has
// come. The caller keeps it before Apply.
type Change struct {
	N       int         `json:"n"` // place in the batch; the slots are named by it
	Kind    ChangeKind  `json:"kind"`
	Path    RawPath     `json:"path"` // canonical
	To      RawPath     `json:"to,omitempty"`
	Expect  string      `json:"expect,omitempty"`  // Digest; "" nothing is there before
	Propose string      `json:"propose,omitempty"` // Digest; "" nothing is there afterwards
	Was     fs.FileMode `json:"was,omitempty"`     // permissions before: SetMode, Rmdir
	Mode    fs.FileMode `json:"mode,omitempty"`    // permissions afterwards: SetMode, Mkdir
	Edit    int         `json:"edit"`              // index of the Intent
}

// slot and trash are the names of what belongs to the change in the directories of its batch.
func (c Change) slot() string  { return fmt.Sprintf("s_%d", c.N) }
func (c Change) trash() string { return fmt.Sprintf("t_%d", c.N) }

// Batch is the journal of one transaction, a value that the caller keeps in the commit that dispatches it.
type Batch struct {
	ID      string   `json:"id"` // name of its directories in the area
	Area    string   `json:"area"`
	Changes []Change `json:"changes"` // in the order in which they are applied
}

// StepState says what became of a change.
type StepState string

// The states of a step.
const (
	StepApplied   StepState = "applied"
	StepUndone    StepState = "undone"
	StepContested StepState = "contested"
)

// Step is progress of a batch, for those who watch. What a batch has come to is decided by what is on the disk alone.
type Step struct {
	N     int       `json:"n"`
	State StepState `json:"state"`
}

// stepsAtOnce is how many steps are told at once. What is left in the end is told by the Outcome.
const stepsAtOnce = 500

// OutcomeState is the end of a batch.
type OutcomeState string

// The ends.
const (
	Applied   OutcomeState = "applied"   // all of it
	Unchanged OutcomeState = "unchanged" // none of it: what was applied is undone
	Contested OutcomeState = "contested" // somebody else's bytes are in the way; Exceptions names them, and they are all kept
)

// Outcome is what a batch has come to.
type Outcome struct {
	State      OutcomeState `json:"state"`
	Cause      error        `json:"-"` // of Unchanged: a *Problem
	Exceptions []Exception  `json:"exceptions,omitempty"`
	Warnings   []Warning    `json:"warnings,omitempty"`
	Weak       bool         `json:"weak,omitempty"` // `cas: weak`: the file system cannot exchange two names
}

// Exception is a path that is in dispute.
type Exception struct {
	N    int     `json:"n"`
	Path RawPath `json:"path"`
	// Kept is where bytes are that could not stay under their name, relative to the area; "" all are under the path.
	Kept string `json:"kept,omitempty"`
}

// Warning is something that did not stand in the way.
type Warning struct {
	Code string  `json:"code"`
	Path RawPath `json:"path"`
}

// The warnings of durable-work.md section 4.
const (
	ChangedAfterApply = "changed_after_apply" // applied, and changed by somebody since
	KeptForeign       = "KEPT_FOREIGN"        // a directory stays because somebody has put something into it
	LateWrite         = "late_write"          // displaced bytes were written to after they were displaced
)
