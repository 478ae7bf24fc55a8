package tree

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func openNoFollow(dir int, name string, flags int, perm uint32) (int, error) {
	return unix.Openat(dir, name, flags, perm)
}

// enter opens a directory in another one for the names below it.
func enter(dir *os.File, name string) (*os.File, error) {
	return openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
}

// openRoot opens a directory by a path without links.
func openRoot(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW_ANY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, named("open", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// look looks at a name in a directory, and follows no link.
func look(dir *os.File, name string) (Facts, error) {
	defer runtime.KeepAlive(dir)
	var s unix.Stat_t
	if err := again(func() error { return unix.Fstatat(int(dir.Fd()), name, &s, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return Facts{}, named("stat", name, err)
	}
	return factsFrom(&s), nil
}

// factsOf looks at an open file.
func factsOf(f *os.File) (Facts, error) {
	defer runtime.KeepAlive(f)
	facts, err := factsOfFD(int(f.Fd()))
	return facts, named("stat", f.Name(), err)
}

func factsOfFD(fd int) (Facts, error) {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return Facts{}, err
	}
	return factsFrom(&s), nil
}

// entriesIn reads the names in a directory that is open for that. Each is looked at when a walk comes to it. LimitExceeded.
func entriesIn(f *os.File) ([]entry, error) {
	names, err := readNames(f)
	all := make([]entry, len(names))
	for i, name := range names {
		all[i] = entry{name, Absent}
	}
	return all, err
}

// factsFrom reads a stat. A mount is told by its device here.
func factsFrom(s *unix.Stat_t) Facts {
	f := Facts{
		ID: ID{Dev: uint64(s.Dev), Ino: s.Ino}, Size: s.Size, Links: uint64(s.Nlink), group: s.Gid, mount: uint64(s.Dev),
		Modified: stamp(s.Mtim), changed: stamp(s.Ctim), born: stamp(s.Btim),
	}
	f.Kind, f.Mode = modeOf(uint32(s.Mode))
	return f
}

func stamp(t unix.Timespec) time.Time { return time.Unix(t.Sec, t.Nsec) }

// volumeOf says what a directory is on. Case is a property of the whole volume here: the name of the directory itself
// tells, looked up with the other case. No kind is known to tell the time of a store through a map before that is flushed.
func volumeOf(dir *os.File, path string) (volume, error) {
	defer runtime.KeepAlive(dir)
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &s); err != nil {
		return volume{}, named("statfs", path, err)
	}
	v := volume{id: fmt.Sprintf("%08x%08x", uint32(s.Fsid.Val[0]), uint32(s.Fsid.Val[1]))}
	switch kind := unix.ByteSliceToString(s.Fstypename[:]); kind {
	case "nfs", "smbfs", "webdav", "afpfs", "macfuse", "osxfuse", "ftp":
		v.unstable = kind
	case "devfs", "autofs":
		v.artificial = kind
	}
	folds := true // the usual, and the stricter one where it cannot be seen
	if turned := swapCase(filepath.Base(path)); turned != filepath.Base(path) {
		other, err := os.Lstat(filepath.Join(filepath.Dir(path), turned))
		own, ownErr := dir.Stat()
		folds = err == nil && ownErr == nil && os.SameFile(own, other)
	}
	v.folds = func(*os.File) bool { return folds }
	return v, nil
}

// swapCase turns the case of the ASCII letters of a name.
func swapCase(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z':
			return c - 'a' + 'A'
		case 'A' <= c && c <= 'Z':
			return c - 'A' + 'a'
		}
		return c
	}, name)
}

// Writable says why no file can be made in a directory; nil: one can. Nothing is made: the system is asked.
func Writable(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }
