package atomicfile

import (
	"errors"
	"os"
)

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("the lock is held by another process")

// Lock is an exclusive kernel lock on a file. It ends with Release or with the process, so it is never stale.
type Lock struct{ f *os.File }

// TryLock takes the lock on the file at path, which it makes if needed (0600), or returns ErrLocked at once. The
// descriptor is close-on-exec, so no child keeps the lock alive.
func TryLock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Lock{f: f}, nil
}

// Release gives the lock back. The file stays: removing it would let two processes lock two files of one name.
func (l *Lock) Release() error { return l.f.Close() }

// Held reports whether some process holds the lock on the file at path. A file that does not exist is not held.
func Held(path string) (bool, error) {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	l, err := TryLock(path)
	if errors.Is(err, ErrLocked) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, l.Release()
}
