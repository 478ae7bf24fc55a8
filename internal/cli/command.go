// Package cli decides what a person types and reads: the table of commands, flags and their checks, tables and JSON,
// questions on a terminal, exit codes. It refuses to know how an operation is carried out: it speaks to an api.Service
// and starts a daemon when none runs.
//
// Invariant: stdout is the answer and nothing else; with --json it is exactly one JSON document (or one for each line
// of a stream).
package cli

import (
	"context"
	"time"
)

// Command is data plus one function.
type Command struct {
	Path    string // words after mcpx: "server list"
	Also    string // another word for the last of Path; "" none
	Short   string // one line, no period
	Long    string // paragraphs below Short; may be empty
	Example string // lines to copy
	Op      string // row of api.Ops that it carries out; "" for commands without one
	Args    string // shape of the arguments for people: "NAME [JSON]"
	Min     int    // fewest positional arguments
	Max     int    // most positional arguments; -1: any number
	Dash    bool   // takes an argv after --
	Flags   []Flag
	Hidden  bool
	Run     func(ctx context.Context, e *Env, a Args) error
	// Complete gives candidates for the first argument; nil: none.
	Complete func(ctx context.Context, e *Env) []string
}

// Group is a word that only has commands below it.
type Group struct {
	Path  string
	Short string
}

// FlagKind is the type of a flag's value.
type FlagKind string

// The kinds of flags.
const (
	StringFlag   FlagKind = "string"
	StringsFlag  FlagKind = "strings" // may be repeated
	BoolFlag     FlagKind = "bool"
	IntFlag      FlagKind = "int"
	DurationFlag FlagKind = "duration" // 90s, 5m; "never" is -1ns
)

// Flag is one option of a command.
type Flag struct {
	Name    string
	Letter  string // one letter, may be empty
	Kind    FlagKind
	Default any    // of the kind's type; nil is its zero value
	Value   string // placeholder in help, for example ADDR
	Usage   string
	Hidden  bool
	Choices []string // the only values that are accepted; completion offers them
}

// Args is what was typed: positional arguments, the argv after --, flags.
type Args struct {
	pos   []string
	argv  []string
	dash  bool
	flags map[string]any
	given map[string]bool
}

// Pos is a positional argument, "" when it was not given.
func (a Args) Pos(i int) string {
	if i >= len(a.pos) {
		return ""
	}
	return a.pos[i]
}

// All are the arguments.
func (a Args) All() []string { return a.pos }

// Len is the number of positional arguments.
func (a Args) Len() int { return len(a.pos) }

// Argv is what stood after --.
func (a Args) Argv() []string { return a.argv }

// Given reports whether the flag was set by the user.
func (a Args) Given(name string) bool { return a.given[name] }

// String is the value of a string flag.
func (a Args) String(name string) string { return a.flags[name].(string) }

// Strings is the values of a repeated flag.
func (a Args) Strings(name string) []string { return a.flags[name].([]string) }

// Bool is the value of a switch.
func (a Args) Bool(name string) bool { return a.flags[name].(bool) }

// Int is the value of a number.
func (a Args) Int(name string) int { return a.flags[name].(int) }

// Duration is the value of a duration.
func (a Args) Duration(name string) time.Duration { return a.flags[name].(time.Duration) }
