package text

import "fmt"

// Codes of a Problem, as the tools of /mcp name them.
const (
	CodeArgument = "ARGUMENT_INVALID"     // the arguments contradict each other or their form; details.field
	CodeBudget   = "BUDGET_EXCEEDED"      // no byte is left for this window; details.next is the window to ask for
	CodeEmpty    = "EDIT_EMPTY"           // an edit without a change
	CodeEncoding = "ENCODING_UNSUPPORTED" // not text, or the result would not be
	CodeLimit    = "LIMIT_EXCEEDED"       // details.limit, details.value
	CodeCount    = "MATCH_COUNT"          // details.found, details.lines (the first of them)
	CodeName     = "NAME_ENCODING"        // the percent-encoding of a path is malformed
	CodeNotFound = "MATCH_NOT_FOUND"      // details.closest_line when a line resembles what was looked for
	CodeOverlap  = "EDIT_OVERLAP"         // details.replacements, details.line
	CodeQuery    = "QUERY_INVALID"        // a query that can match nothing as it is written
	CodeRange    = "RANGE_OUT_OF_BOUNDS"  // details.lines_total or details.size
)

// Problem is the refusal of a window, an edit, a query or the name of a file.
type Problem struct {
	Code    string // one of the constants
	Message string // for people, one sentence
	Details map[string]any
}

// Error is the message.
func (p *Problem) Error() string { return p.Message }

// problem describes a refusal; details come in pairs of name and value.
func problem(code string, details map[string]any, format string, args ...any) *Problem {
	return &Problem{Code: code, Message: fmt.Sprintf(format, args...), Details: details}
}
