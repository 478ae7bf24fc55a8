//go:build unix

package atomicfile

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// noWait keeps the opening of a pipe, which took the place of a file, from waiting.
const noWait = unix.O_NONBLOCK

// cwd stands for the current directory among open ones.
const cwd = unix.AT_FDCWD

// factsOf tells what the system knows about an open file.
func factsOf(f *os.File, info fs.FileInfo) (Facts, error) {
	facts := Facts{Mode: info.Mode().Perm(), Owner: OwnerOf(info), Identity: IdentityOf(info)}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return facts, nil
	}
	facts.Links = uint64(stat.Nlink) //nolint:unconvert // its type differs between systems
	var err error
	facts.Immutable, err = immutable(f)
	return facts, err
}

// IdentityOf is the device and inode of a file, as "8:1234"; "" the system does not tell.
func IdentityOf(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

// OwnerOf is the user id of the owner of a file; -1 the system does not tell.
func OwnerOf(info fs.FileInfo) int {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(stat.Uid)
}

// Writable says whether this process may make, rename and remove files in a directory.
func Writable(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return &fs.PathError{Op: "access", Path: dir, Err: err}
	}
	return nil
}

// keepOwner gives the staged file owner and group of the file that it is to replace.
func keepOwner(f *os.File, like *unix.Stat_t) error {
	var own unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &own); err != nil {
		return err
	}
	if own.Uid == like.Uid && own.Gid == like.Gid {
		return nil
	}
	return f.Chown(int(like.Uid), int(like.Gid))
}
