package atomicfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// exchange and move say ErrNoExchange for a file system that does not know the flag; others fail with EINVAL, old kernels
// with ENOSYS.
func exchange(a, b string) error { return renameat(a, b, unix.RENAME_EXCHANGE) }

func move(from, to string) error { return renameat(from, to, unix.RENAME_NOREPLACE) }

func renameat(from, to string, flags uint) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		err = ErrNoExchange
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}

// immutable looks for the flags that chattr sets.
func immutable(f *os.File) (bool, error) {
	var x unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, 0, &x); err != nil {
		if errors.Is(err, unix.ENOSYS) {
			return false, nil
		}
		return false, err
	}
	return x.Attributes&(unix.STATX_ATTR_IMMUTABLE|unix.STATX_ATTR_APPEND) != 0, nil
}

// settled reads a file under a read lease: the kernel grants one only while no descriptor and no mapping can write to
// the file, whoever has it. A process that opens the file for writing meanwhile makes the lease break; it has to wait
// until the lease is given back, and what was read may be older than what it writes then.
func settled(path string) (c Content, err error) {
	f, err := openRegular(path)
	if err != nil {
		return Content{}, err
	}
	defer f.Close() // which gives the lease back, too
	fd := f.Fd()
	if _, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		if errors.Is(err, unix.EAGAIN) {
			return Content{}, ErrOpen
		}
		return settledTwice(path) // a file system without leases
	}
	c, same, err := readOnce(f, path)
	if err != nil {
		return Content{}, err
	}
	held, err := unix.FcntlInt(fd, unix.F_GETLEASE, 0)
	if err != nil || held != unix.F_RDLCK || !same {
		return Content{}, ErrOpen
	}
	return c, nil
}
