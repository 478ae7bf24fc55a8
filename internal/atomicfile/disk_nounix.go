//go:build !unix

package atomicfile

import (
	"io/fs"
	"os"
)

const noWait = 0

// IdentityOf is not told by this system.
func IdentityOf(fs.FileInfo) string { return "" }

// OwnerOf is not told by this system.
func OwnerOf(fs.FileInfo) int { return -1 }

func factsOf(_ *os.File, info fs.FileInfo) (Facts, error) {
	return Facts{Mode: info.Mode().Perm(), Owner: -1}, nil
}

// Writable cannot be told here: the attempt will.
func Writable(string) error { return nil }

const cwd = 0

// KeepFacts keeps the mode.
func KeepFacts(f, like *os.File) error {
	info, err := like.Stat()
	if err != nil {
		return err
	}
	return f.Chmod(info.Mode().Perm())
}
