package work

import (
	"context"

	"mcpx/internal/policy"
)

// Gate decides about commands, and contains the ones that may run. A Service without one starts no command.
type Gate interface {
	// Judge decides about a command as it would be started now. Confirm and deny are rulings, not errors; the error is a
	// *operation.Refusal: COMMAND_SYNTAX, LIMIT_EXCEEDED, SANDBOX_UNAVAILABLE.
	Judge(ctx context.Context, c Command) (Ruling, error)
	// JudgeInput decides about text for the standard input of a command that runs.
	JudgeInput(ctx context.Context, c Command, text string) (Ruling, error)
	// Contain says how a command is started so that its sandbox holds. It is asked right before the start, with Temp made.
	// What cannot be contained as the ruling says is refused with SANDBOX_UNAVAILABLE, never started with less.
	Contain(ctx context.Context, c Command, r Ruling) (Launch, error)
	// Usual is the sandbox of a command that asks for none.
	Usual(ctx context.Context) (Containment, error)
}

// Command is a command with all that decides what it will do.
type Command struct {
	policy.Command          // Dir is canonical and lies in Target; Dialect is that of the shell that Program is
	Target         string   // root of the project or workspace, canonical
	Root           string   // of the project, whose rules hold
	Temp           string   // private temporary directory of the job
	Level          string   // sandbox that the call asks for: "" is the one of the deployment; it may only tighten
	Program        string   // absolute path of the file that would be started
	Args           []string // its arguments with its name, the shell's own ones included
	Readable       []string // directories that it can read at any sandbox level, beside Target
	ReadOnly       bool     // it does not change Target
	Environ        []string // the whole environment of the child, NAME=value
}

// Ruling is what was decided about a command.
type Ruling struct {
	policy.Verdict
	Frozen  policy.Frozen // what a person who is asked says yes to
	Sandbox Containment
}

// Containment is what of a sandbox was wanted and what is applied.
type Containment struct {
	Wanted  string   `json:"wanted"`
	Applied string   `json:"applied"`
	By      string   `json:"by,omitempty"` // the mechanism
	Network bool     `json:"network"`
	Gaps    []string `json:"gaps"` // what the level promises and is not held; the operator accepted each
}

// Contained tells that nothing outside can be changed or reached, so that a command whose end nobody saw did nothing there.
func (c Containment) Contained() bool {
	return (c.Applied == policy.SandboxWorkspace || c.Applied == policy.SandboxStrict) && !c.Network && len(c.Gaps) == 0
}

// Launch is the process that is started for a command.
type Launch struct {
	File string
	Argv []string
	Env  []string
}
