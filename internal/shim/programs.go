//go:build unix

package shim

import (
	"sync"

	"mcpx/internal/gateway"
	"mcpx/internal/process"
)

// maxPrograms bounds the files whose bytes are remembered: servers share a handful of interpreters and launchers.
const maxPrograms = 64

// programs remembers the executables of children: the bytes of an interpreter are read once, not at each start and for
// each of its children.
type programs struct {
	mu    sync.Mutex // guards known
	known map[string]*program
}

type program struct {
	mu   sync.Mutex // guards file, and is held while it is read
	file process.Executable
}

// examine describes the file at path. What cannot be described is the zero Executable: it stops no start, and later
// nothing is known to have changed.
func (p *programs) examine(path string) process.Executable {
	e, err := p.look(path)
	if err != nil {
		return process.Executable{}
	}
	return e
}

// compare says what became of the file that a child was started from.
func (p *programs) compare(e process.Executable) gateway.FileState {
	if e == (process.Executable{}) {
		return gateway.FileSame // nobody looked at it before the start
	}
	switch now, err := p.look(e.Path); {
	case err != nil:
		return gateway.FileMissing
	case e.SameAs(now):
		return gateway.FileSame
	}
	return gateway.FileChanged
}

// look reads the file at path, unless it is as it was when it was read last.
func (p *programs) look(path string) (process.Executable, error) {
	one := p.of(path)
	one.mu.Lock()
	defer one.mu.Unlock()
	one.file.Path = path // at the first look nothing else is known
	e, err := one.file.Recall()
	if err == nil {
		one.file = e
	}
	return e, err
}

func (p *programs) of(path string) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.known[path]
	if one == nil {
		if p.known == nil || len(p.known) >= maxPrograms {
			p.known = map[string]*program{}
		}
		one = &program{}
		p.known[path] = one
	}
	return one
}
