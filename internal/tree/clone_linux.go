package tree

import (
	"os"

	"golang.org/x/sys/unix"
)

// clone lets a new file share the bytes of another one.
func clone(dst, src *os.File) error { return unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) }

// flushAll makes everything durable that was written to the file system of a directory: one call for thousands of files.
func flushAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
