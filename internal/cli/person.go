package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"io"
	"os"
	"strings"

	"mcpx/internal/fault"
)

// person is somebody at the controlling terminal of this process. Text that was piped into the command is not read: only
// what is typed there counts.
type person struct {
	e     *Env
	tty   io.ReadWriteCloser
	lines *bufio.Reader
}

// controllingTerminal opens the terminal that the process belongs to, whatever its standard streams are.
func controllingTerminal() (io.ReadWriteCloser, error) {
	return os.OpenFile("/dev/tty", os.O_RDWR, 0)
}

// person finds whoever sits at the terminal. Without a terminal there is nobody to ask.
func (e *Env) person(command string) (*person, error) {
	tty, err := e.tty()
	if err != nil {
		return nil, fault.New(fault.NeedsApproval, "no-person").Saying("only a person can decide this, and there is no terminal to ask on").
			Hinting("type `%s` in a terminal", command).Retrying(fault.AfterFix)
	}
	return &person{e: e, tty: tty, lines: bufio.NewReader(tty)}, nil
}

// Write shows something to the person.
func (p *person) Write(b []byte) (int, error) { return p.tty.Write(b) }

// leave lets the terminal go.
func (p *person) leave() { _ = p.tty.Close() } // nothing of it is lost

// codeLetters are those that nobody mistakes for each other.
const codeLetters = "abcdefghjkmnpqrstuvwxyz23456789"

// codeLength makes it a code that nobody types by habit, and short enough to type for each decision.
const codeLength = 4

// confirm shows a new code and says whether it was typed back. It is not asked twice: who mistypes calls the command again.
func (p *person) confirm(ctx context.Context, what string) (bool, error) {
	code := newCode()
	line(p.tty, "%s", looks{p.e.ttyColor}.paint(bold, "To "+what+", type "+code+" and press Enter. Anything else leaves it as it is."))
	if _, err := io.WriteString(p.tty, "> "); err != nil {
		return false, fault.New(fault.Unavailable, "terminal-lost").Saying("the terminal cannot be written").Because(err)
	}
	typed, err := typedLine(ctx, p.lines)
	if err != nil && ctx.Err() != nil {
		line(p.tty, "")
		return false, err
	}
	if err != nil && typed == "" {
		return false, nil // the terminal is gone, and with it whoever could say yes
	}
	return strings.TrimSpace(typed) == code, nil
}

// typedLine reads the line that a person types, until ctx ends: who interrupts a question need not answer it. The read itself
// goes on then, until the terminal is closed or the process ends.
func typedLine(ctx context.Context, from *bufio.Reader) (string, error) {
	canceled := func() error {
		return fault.New(fault.Canceled, "canceled").Saying("nothing was decided").Because(context.Cause(ctx))
	}
	if ctx.Err() != nil { // the question before was interrupted, and its read may go on
		return "", canceled()
	}
	type answer struct {
		line string
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		line, err := from.ReadString('\n')
		read <- answer{line, err}
	}()
	select {
	case a := <-read:
		return a.line, a.err
	case <-ctx.Done():
		return "", canceled()
	}
}

func newCode() string {
	raw := make([]byte, codeLength)
	_, _ = rand.Read(raw) // never fails
	for i, b := range raw {
		raw[i] = codeLetters[int(b)%len(codeLetters)]
	}
	return string(raw)
}

// notConfirmed is the error for a code that was not typed back.
func notConfirmed(command string) error {
	return fault.New(fault.NeedsApproval, "not-confirmed").Saying("the code was not typed back, so nothing was decided").
		Hinting("repeat `%s` when you have made up your mind", command).Retrying(fault.AfterFix)
}
