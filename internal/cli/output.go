package cli

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"

	"mcpx/internal/fault"
)

// output is stdout. It remembers that a write failed, so that a command whose answer was lost does not claim success.
type output struct {
	w io.Writer

	mu  sync.Mutex // guards err: mcpx connect writes from several goroutines
	err error      // of the first write that failed
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		o.mu.Lock()
		if o.err == nil {
			o.err = err
		}
		o.mu.Unlock()
	}
	return n, err
}

// failed is the error of the first write that failed: a command that writes without end asks for it.
func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// lost is the error for an answer that could not be written. A reader that has seen enough, such as head, is no error.
func (o *output) lost() error {
	err := o.failed()
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return fault.New(fault.Unavailable, "output-failed").Saying("cannot write the output").
		Hinting("what was asked for may have been done: look before you repeat it").Because(err)
}

// noteLine is a note for programs: with --json every line of stderr is a JSON document.
type noteLine struct {
	Note string `json:"note"`
}

// notes writes each line that it gets as a note.
type notes struct{ e *Env }

func (n notes) Write(p []byte) (int, error) {
	for text := range strings.Lines(string(p)) {
		n.e.Note("%s", strings.TrimRight(text, "\n"))
	}
	return len(p), nil
}

func encodeNote(w io.Writer, text string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(noteLine{text})
}

// below indents every line of a text but the first, so that several lines stay one message.
func below(text string, width int) string {
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+strings.Repeat(" ", width))
}
