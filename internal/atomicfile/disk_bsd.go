//go:build unix && !linux && !darwin

package atomicfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// immutable: such a file refuses by itself, with a less helpful error.
func immutable(*os.File) (bool, error) { return false, nil }

// KeepFacts keeps mode, owner and group. Attributes differ too much between these systems.
func KeepFacts(f, like *os.File) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(like.Fd()), &stat); err != nil {
		return err
	}
	if err := keepOwner(f, &stat); err != nil {
		return err
	}
	return unix.Fchmod(int(f.Fd()), uint32(stat.Mode)&0o7777)
}
