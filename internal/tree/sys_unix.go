//go:build linux || darwin

package tree

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What errors of the system mean.
func isNotDir(err error) bool { return errors.Is(err, unix.ENOTDIR) }

func isNotEmpty(err error) bool { return errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) }

func isNoSpace(err error) bool  { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
func isReadOnly(err error) bool { return errors.Is(err, unix.EROFS) }
func isCrossing(err error) bool { return errors.Is(err, unix.EXDEV) }
func isLoop(err error) bool     { return errors.Is(err, unix.ELOOP) }
func isBadName(err error) bool  { return errors.Is(err, unix.EILSEQ) }
func isTooLong(err error) bool  { return errors.Is(err, unix.ENAMETOOLONG) }

// isUncloned says that no file can share its bytes with one from there.
func isUncloned(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) /* also EOPNOTSUPP and ENOSYS */ || errors.Is(err, unix.ENOTTY) || isCrossing(err)
}

// again repeats a call that a signal has interrupted.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openAt opens a name in a directory and follows no link in it.
func openAt(dir *os.File, name string, flags int, perm fs.FileMode) (*os.File, error) {
	defer runtime.KeepAlive(dir)
	fd := -1
	err := again(func() (err error) {
		fd, err = openNoFollow(int(dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(perm.Perm()))
		return err
	})
	if err != nil {
		return nil, named("open", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openContent opens a file for reading. It neither waits for a pipe nor becomes the terminal of a device; the caller
// looks at what it has opened before it reads.
func openContent(dir *os.File, name string) (*os.File, error) {
	return openAt(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

// readSmall reads a regular file of at most limit bytes into buf, which grows when it must. Nothing but four calls of the
// system: it is for files by the ten thousand. The kind is told by the facts; what is no regular file is not read.
// LimitExceeded.
func readSmall(dir *os.File, name string, buf []byte, limit int64) ([]byte, Facts, error) {
	defer runtime.KeepAlive(dir)
	fd := -1
	err := again(func() (err error) {
		fd, err = openNoFollow(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return buf, Facts{}, named("open", name, err)
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read from
	facts, err := factsOfFD(fd)
	switch {
	case err != nil:
		return buf, facts, named("stat", name, err)
	case facts.Kind != File:
		return buf, facts, noRegular(facts.Kind, name)
	case facts.Size > limit:
		return buf, facts, tooLarge(name, limit)
	}
	if int64(cap(buf)) <= facts.Size {
		buf = make([]byte, facts.Size+1)
	}
	buf = buf[:facts.Size+1] // one more than there is: more would be a change
	n := 0
	for n < len(buf) {
		var m int
		err := again(func() (err error) {
			m, err = unix.Read(fd, buf[n:])
			return err
		})
		if err != nil {
			return buf, facts, named("read", name, err)
		}
		if n += m; m == 0 || int64(n) == facts.Size {
			break
		}
	}
	return buf[:n], facts, nil
}

// writeSmall makes a file of these bytes, and says what it is. Like readSmall it makes few calls of the system.
func writeSmall(dir *os.File, name string, data []byte, mode fs.FileMode, modified time.Time) (Facts, error) {
	defer runtime.KeepAlive(dir)
	fd := -1
	err := again(func() (err error) {
		fd, err = unix.Openat(int(dir.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(mode.Perm()))
		return err
	})
	if err != nil {
		return Facts{}, named("create", name, err)
	}
	facts, err := fill(dir, fd, name, data, mode, modified)
	return facts, named("write", name, errors.Join(err, unix.Close(fd)))
}

// fill writes the bytes of a new file, and gives it its time and the permissions that the mask of the process has taken.
func fill(dir *os.File, fd int, name string, data []byte, mode fs.FileMode, modified time.Time) (Facts, error) {
	for len(data) > 0 {
		n := 0
		err := again(func() (err error) {
			n, err = unix.Write(fd, data)
			return err
		})
		if err != nil {
			return Facts{}, err
		}
		data = data[n:]
	}
	at := unix.NsecToTimespec(modified.UnixNano())
	if err := unix.UtimesNanoAt(int(dir.Fd()), name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Facts{}, err
	}
	facts, err := factsOfFD(fd)
	if err != nil || facts.Mode.Perm() == mode.Perm() {
		return facts, err
	}
	if err := unix.Fchmod(fd, uint32(mode.Perm())); err != nil {
		return facts, err
	}
	return factsOfFD(fd)
}

// openListing opens a directory that is already open, for the names in it.
func openListing(dir *os.File) (*os.File, error) {
	return openAt(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
}

// create makes a file that does not exist, for its owner alone.
func create(dir *os.File, name string) (*os.File, error) {
	return openAt(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
}

// readlink reads the text of a symbolic link.
func readlink(dir *os.File, name string) (string, error) {
	defer runtime.KeepAlive(dir)
	text := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(int(dir.Fd()), name, text)
	if errors.Is(err, unix.EINVAL) {
		err = unix.ENOENT // it is something else since it was looked at: there is no link any more
	}
	if err != nil {
		return "", named("readlink", name, err)
	}
	if n > maxPath {
		return "", named("readlink", name, unix.ENAMETOOLONG)
	}
	return string(text[:n]), nil
}

func symlinkAt(text string, dir *os.File, name string) error {
	defer runtime.KeepAlive(dir)
	return named("symlink", name, unix.Symlinkat(text, int(dir.Fd()), name))
}

func mkdirAt(dir *os.File, name string, perm fs.FileMode) error {
	defer runtime.KeepAlive(dir)
	return named("mkdir", name, unix.Mkdirat(int(dir.Fd()), name, uint32(perm.Perm())))
}

func unlinkAt(dir *os.File, name string) error {
	defer runtime.KeepAlive(dir)
	return named("unlink", name, unix.Unlinkat(int(dir.Fd()), name, 0))
}

func rmdirAt(dir *os.File, name string) error {
	defer runtime.KeepAlive(dir)
	return named("rmdir", name, unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR))
}

func linkAt(dirA *os.File, from string, dirB *os.File, to string) error {
	defer runtime.KeepAlive(dirA)
	defer runtime.KeepAlive(dirB)
	return named("link", to, unix.Linkat(int(dirA.Fd()), from, int(dirB.Fd()), to, 0))
}

func renameAt(dirA *os.File, from string, dirB *os.File, to string) error {
	defer runtime.KeepAlive(dirA)
	defer runtime.KeepAlive(dirB)
	return named("rename", to, unix.Renameat(int(dirA.Fd()), from, int(dirB.Fd()), to))
}

// regroup gives an open file another group.
func regroup(f *os.File, group uint32) error { return f.Chown(-1, int(group)) }

// ownedBy says whether an open file belongs to a user.
func ownedBy(f *os.File, uid int) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == uid
}
