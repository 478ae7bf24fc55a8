//go:build unix

package shim

import (
	"sync"

	"mcpx/internal/process"
)

// maxPrograms bounds the files whose bytes are remembered: servers share a handful of interpreters and launchers.
const maxPrograms = 64

// programs remembers the executables of children, so that the bytes of an interpreter are not read again at each start.
type programs struct {
	mu    sync.Mutex // guards known
	known map[string]process.Executable
}

// examine describes the file at path. What cannot be described is the zero Executable: it stops no start, and later
// nothing is known to have changed.
func (p *programs) examine(path string) process.Executable {
	p.mu.Lock()
	e, ok := p.known[path]
	p.mu.Unlock()
	var err error
	if ok {
		e, err = e.Recall()
	} else {
		e, err = process.Examine(path)
	}
	if err != nil {
		return process.Executable{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxPrograms {
		p.known = map[string]process.Executable{}
	}
	p.known[path] = e
	return e
}
