//go:build unix

package clientfile

import "syscall"

// errNotDir: a part of the path is a file, so there is no such file.
const errNotDir = syscall.ENOTDIR
