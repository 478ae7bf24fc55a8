//go:build unix && !linux && !darwin

package atomicfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// immutable: such a file refuses by itself, with a less helpful error.
func immutable(*os.File) (bool, error) { return false, nil }

// copyFacts keeps mode, owner and group. Attributes differ too much between these systems.
func copyFacts(f *os.File, like string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(like, &stat); err != nil {
		return err
	}
	if err := keepOwner(f, &stat); err != nil {
		return err
	}
	return unix.Fchmod(int(f.Fd()), uint32(stat.Mode)&0o7777)
}
