package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/daemon"
	"mcpx/internal/fault"
	"mcpx/internal/id"
)

// Env is what a command works with.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Version  string
	Now      func() time.Time

	asks  bool // a person sits at In and Err: questions are possible
	color bool // Out is a terminal and NO_COLOR is not set
	shows bool // Out is a terminal: somebody may look on
	logs  bool // Err is a terminal: logs are text, not JSON

	columns func() int // width of the terminal that Out is, 0 when it is none; nil: it is none

	tty      func() (io.ReadWriteCloser, error) // opens the controlling terminal
	ttyColor bool                               // colours are wanted there

	again func(ctx context.Context, args []string) error // carries out another command line
	prove func(ctx context.Context, paths api.Paths) []daemon.Ability

	successor bool // this process took over from the daemon that started it: nobody waits for its end
	json      bool
}

// Paths are the places of this home.
func (e *Env) Paths() (api.Paths, error) { return api.FindPaths(e.Getenv) }

// Daemon is a client of the daemon; it never starts one.
func (e *Env) Daemon() (*api.Client, error) {
	paths, err := e.Paths()
	if err != nil {
		return nil, err
	}
	return api.NewClient(paths.Socket()), nil
}

// Show writes the answer: as one JSON document with --json, else with human.
func (e *Env) Show(value any, human func(w io.Writer)) error {
	if !e.json {
		human(e.Out)
		return nil
	}
	return e.writeJSON(value)
}

func (e *Env) writeJSON(value any) error {
	enc := json.NewEncoder(e.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(value); err != nil {
		if _, ok := errors.AsType[*json.UnsupportedValueError](err); ok {
			return fault.New(fault.Internal, "answer-unwritable").Saying("the answer cannot be written as JSON").Because(err)
		}
	}
	return nil // a write that failed is remembered by output
}

// Note tells the person something that is not the answer.
func (e *Env) Note(format string, args ...any) {
	// Nobody is left to tell when stderr is gone.
	if e.json {
		_ = encodeNote(e.Err, fmt.Sprintf(format, args...))
		return
	}
	_, _ = fmt.Fprintf(e.Err, format+"\n", args...)
}

// Confirm asks a yes-or-no question on the terminal. Without a terminal it is an error that names the flag to use.
func (e *Env) Confirm(ctx context.Context, question, flag string) (bool, error) {
	if !e.asks {
		return false, fault.New(fault.NeedsApproval, "needs-yes").Saying("%s", question).
			Hinting("no terminal to ask on: add %s if you are sure", flag)
	}
	_, _ = fmt.Fprintf(e.Err, "%s [y/N] ", question)
	line, err := typedLine(ctx, bufio.NewReader(e.In))
	if err != nil && ctx.Err() != nil {
		_, _ = fmt.Fprintln(e.Err)
		return false, err
	}
	if err != nil && line == "" {
		return false, nil
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

// patience is how long a person waits without a word: after it a command says what it waits for.
const patience = time.Second

// waiting says on a terminal what a command waits for, when it takes longer than patience. The caller ends it with the
// returned function, after which nothing more is said.
func (e *Env) waiting(format string, args ...any) (done func()) {
	if !e.logs {
		return func() {}
	}
	said := make(chan struct{})
	timer := time.AfterFunc(patience, func() {
		defer close(said)
		e.Note(format, args...)
	})
	return func() {
		if !timer.Stop() {
			<-said // it is being said now: what comes next must not be mixed with it
		}
	}
}

// operation returns a context with a new operation id: one for each invocation.
func (e *Env) operation(ctx context.Context) context.Context {
	return api.Under(ctx, id.NewSource(e.Now, rand.Reader).New(id.Operation))
}

// paint wraps text in a colour when the output is a terminal. The text alone must carry the meaning.
func (e *Env) paint(code, text string) string {
	if !e.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Colours, as parameters of the SGR sequence.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	bold   = "1"
	dim    = "2"
)
