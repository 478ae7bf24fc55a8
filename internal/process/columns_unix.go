//go:build linux || darwin

package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// Columns is the width of a terminal, 0 when the file is none or does not tell.
func Columns(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
