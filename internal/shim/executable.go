//go:build unix

package shim

import "mcpx/internal/gateway"

var (
	_ gateway.Program = (*link)(nil)
	_ gateway.Program = (*direct)(nil)
)

// File compares the program of the child with the file that is there now. See gateway.Program.
func (l *link) File() gateway.FileState { return l.backend.files.compare(l.program) }

// File compares the program of the child with the file that is there now. See gateway.Program.
func (d *direct) File() gateway.FileState { return d.backend.files.compare(d.program) }
