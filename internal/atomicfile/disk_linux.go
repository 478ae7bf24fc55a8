package atomicfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// exchange and move say ErrNoExchange for a file system that does not know the flag; others fail with EINVAL, old kernels
// with ENOSYS.
func exchange(dirA int, a string, dirB int, b string) error {
	return renameat(dirA, a, dirB, b, unix.RENAME_EXCHANGE)
}

func move(dirA int, from string, dirB int, to string) error {
	return renameat(dirA, from, dirB, to, unix.RENAME_NOREPLACE)
}

func renameat(dirA int, from string, dirB int, to string, flags uint) error {
	err := unix.Renameat2(dirA, from, dirB, to, flags)
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

// Unwritten calls read while no descriptor and no mapping can write to the file, whoever has it: under a read lease of the
// kernel, which is granted only then. ErrOpen: somebody has the file open for writing, or opened it meanwhile; who opens
// it has to wait until the lease is given back, so that what was read may be older than what is written then. The file
// is regular and open for reading alone. False: this file system, or the owner of the file, gives no lease; read was not
// called.
func Unwritten(f *os.File, read func() error) (leased bool, err error) {
	fd := f.Fd()
	if _, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		if errors.Is(err, unix.EAGAIN) {
			return true, ErrOpen
		}
		return false, nil
	}
	err = read()
	held, heldErr := unix.FcntlInt(fd, unix.F_GETLEASE, 0)
	_, dropErr := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
	if err == nil && (heldErr != nil || held != unix.F_RDLCK) {
		err = ErrOpen
	}
	if err == nil {
		err = dropErr
	}
	return true, err
}

// Clone makes a file that shares the bytes of another one until one of them is written: fs.PathError where the file system
// cannot.
func Clone(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())); err != nil {
		return errors.Join(&os.PathError{Op: "clone", Path: to, Err: err}, dst.Close(), os.Remove(to))
	}
	return dst.Close()
}
