package atomicfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func exchange(a, b string) error { return renamex(a, b, unix.RENAME_SWAP) }

func move(from, to string) error { return renamex(from, to, unix.RENAME_EXCL) }

func renamex(from, to string, flags uint32) error {
	err := unix.RenamexNp(from, to, flags)
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

// settled: there are no leases here.
func settled(path string) (Content, error) { return settledTwice(path) }
