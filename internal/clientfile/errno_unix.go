//go:build unix

package clientfile

import "syscall"

// errNotDir: a part of the path is a file, so there is no such file.
const errNotDir = syscall.ENOTDIR

// errLinkLoop is what the system says of links that lead in a circle.
const errLinkLoop = syscall.ELOOP
