//go:build unix

package shim

import (
	"mcpx/internal/gateway"
	"mcpx/internal/process"
)

var (
	_ gateway.Program = (*link)(nil)
	_ gateway.Program = (*direct)(nil)
)

// File compares the program of the child with the file that is there now. See gateway.Program.
func (l *link) File() gateway.FileState { return fileState(l.program) }

// File compares the program of the child with the file that is there now. See gateway.Program.
func (d *direct) File() gateway.FileState { return fileState(d.program) }

func fileState(e process.Executable) gateway.FileState {
	now, _ := e.Look()
	switch now {
	case process.Changed:
		return gateway.FileChanged
	case process.Missing:
		return gateway.FileMissing
	}
	return gateway.FileSame
}
