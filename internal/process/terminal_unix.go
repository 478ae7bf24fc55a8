//go:build linux || darwin

package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether a person may sit at the other end of the file.
func IsTerminal(f *os.File) bool {
	if f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return err == nil
}
