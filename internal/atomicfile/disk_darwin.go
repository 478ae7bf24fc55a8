package atomicfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func exchange(dirA int, a string, dirB int, b string) error {
	return renamex(dirA, a, dirB, b, unix.RENAME_SWAP)
}

func move(dirA int, from string, dirB int, to string) error {
	return renamex(dirA, from, dirB, to, unix.RENAME_EXCL)
}

func renamex(dirA int, from string, dirB int, to string, flags uint32) error {
	err := unix.RenameatxNp(dirA, from, dirB, to, flags)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.EINVAL):
		err = ErrNoExchange
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}

// immutable looks for the flags that chflags sets.
func immutable(f *os.File) (bool, error) {
	const flags = 0x2 | 0x4 | 0x20000 | 0x40000 // UF_IMMUTABLE, UF_APPEND, SF_IMMUTABLE, SF_APPEND of sys/stat.h
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return false, err
	}
	return stat.Flags&flags != 0, nil
}

// Unwritten: there are no leases here.
func Unwritten(*os.File, func() error) (leased bool, err error) { return false, nil }

// Clone makes a file that shares the bytes of another one until one of them is written: fs.PathError where the file system
// cannot.
func Clone(from, to string) error {
	if err := unix.Clonefile(from, to, 0); err != nil {
		return &os.PathError{Op: "clone", Path: to, Err: err}
	}
	return nil
}
