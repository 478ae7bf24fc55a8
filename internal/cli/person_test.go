package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"mcpx/internal/fault"
)

// silentTerminal is one at which nobody types; a read ends when it is closed.
type silentTerminal struct {
	io.Reader
	io.Writer
	io.Closer
}

// TestInterruptedQuestion: Ctrl-C ends a question. Nobody has to press Enter, too.
func TestInterruptedQuestion(t *testing.T) {
	pressed := errors.New("the person pressed Ctrl-C")
	for name, ask := range map[string]func(ctx context.Context, e *Env) (bool, error){
		"yes or no": func(ctx context.Context, e *Env) (bool, error) { return e.Confirm(ctx, "Do it?", "--yes") },
		"code": func(ctx context.Context, e *Env) (bool, error) {
			p, err := e.person("mcpx do")
			if err != nil {
				return false, err
			}
			defer p.leave()
			yes, err := p.confirm(ctx, "do it")
			if _, again := p.confirm(ctx, "do the next"); fault.From(again).Code != "canceled" {
				t.Errorf("the question after it: %v", again)
			}
			return yes, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			in, out := io.Pipe()
			defer out.Close()
			ctx, cancel := context.WithCancelCause(t.Context())
			screen := writerFunc(func(b []byte) (int, error) {
				if bytes.HasSuffix(b, []byte("> ")) || bytes.HasSuffix(b, []byte("[y/N] ")) {
					cancel(pressed)
				}
				return len(b), nil
			})
			e := &Env{asks: true, In: in, Err: screen, tty: func() (io.ReadWriteCloser, error) { return silentTerminal{in, screen, in}, nil }}
			if yes, err := ask(ctx, e); yes || fault.From(err).Code != "canceled" || !errors.Is(err, pressed) {
				t.Errorf("%v, %v", yes, err)
			}
		})
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
