//go:build unix && !linux

package shim

import (
	"io"
	"os"
)

// eager reads a descriptor in blocking mode, and says before each read that it may sleep now: no wait is known here that
// is cheaper than the word of idle.
type eager struct {
	f    *os.File
	idle func()
}

// eagerly wraps a descriptor in blocking mode. idle runs on the reader's goroutine before it goes to sleep.
func eagerly(f *os.File, idle func()) io.Reader { return &eager{f: f, idle: idle} }

func (e *eager) Read(p []byte) (int, error) {
	if e.idle != nil {
		e.idle()
	}
	return e.f.Read(p)
}
