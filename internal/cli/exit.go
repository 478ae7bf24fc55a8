package cli

import (
	"errors"
	"fmt"
	"strings"

	"mcpx/internal/fault"
)

// Exit codes that do not come from the kind of an error.
const (
	exitDone = 0
	exitNo   = 1 // it ran and the answer is no
)

// exitCodes is the table from kinds to exit codes.
var exitCodes = []struct {
	Kind fault.Kind
	Code int
	Text string
}{
	{fault.Invalid, 2, "it can never work as written: a wrong flag, argument, name or command"},
	{fault.NeedsApproval, 3, "it waits for a person's yes"},
	{fault.NotFound, 4, "no such thing"},
	{fault.Conflict, 5, "the present state forbids it, for example a name that is taken"},
	{fault.Stale, 6, "it was made against something that changed since"},
	{fault.Denied, 7, "not allowed"},
	{fault.Unauthenticated, 8, "no valid credential"},
	{fault.UnknownOutcome, 9, "it may have happened; look before you repeat it"},
	{fault.Internal, 70, "a bug of mcpx"},
	{fault.Busy, 75, "not now, try again later"},
	{fault.Unavailable, 75, "not now: no daemon, no connection, a port or lock that is in use, a server that cannot be reached"},
	{fault.Canceled, 130, "interrupted"},
}

// answerNo ends a command with exit code 1: it ran, and its output says no.
var errAnswerNo = errors.New("the answer is no")

// exitCode is the exit code for the error of a command.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if errors.Is(err, errAnswerNo) {
		return exitNo
	}
	kind := fault.KindOf(err)
	for _, row := range exitCodes {
		if row.Kind == kind {
			return row.Code
		}
	}
	return 70
}

// exitCodesText is `mcpx help exit-codes`.
func exitCodesText() string {
	var b strings.Builder
	b.WriteString("Every command of mcpx ends with one of these codes:\n\n")
	fmt.Fprintf(&b, "  %3d  %s\n", exitDone, "done; also when it was done already (--json says already_...)")
	fmt.Fprintf(&b, "  %3d  %s\n", exitNo, "it ran and the answer is no: health not ok, a tool result that is an error")
	for _, row := range exitCodes {
		fmt.Fprintf(&b, "  %3d  %s: %s\n", row.Code, row.Kind, row.Text)
	}
	b.WriteString("\nThe word before the colon is the kind of the error, as --json shows it.\n")
	return b.String()
}
