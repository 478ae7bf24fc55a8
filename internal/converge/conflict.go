package converge

import "strconv"

// Conflict is one place that an apply and somebody else have changed, so that taking the apply back and keeping what was
// written since would be a guess. The values are written as JSON, with secrets as [redacted:NAME]; "" is nothing.
type Conflict struct {
	Path    string   `json:"path"`    // of the file
	At      []string `json:"at"`      // in the file
	Before  string   `json:"before"`  // the apply
	Applied string   `json:"applied"` // by it; "" also when that is not known any more
	Now     string   `json:"now"`
}

// Conflicts are those of one rollback. As an error they are the cause of a refusal with the code merge-conflict.
type Conflicts []Conflict

// Error counts the conflicts.
func (c Conflicts) Error() string { return strconv.Itoa(len(c)) + " conflicts" }
