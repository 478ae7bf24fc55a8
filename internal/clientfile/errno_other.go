//go:build !unix

package clientfile

import (
	"errors"
	"io/fs"
)

// errNotDir has no code of its own here.
var errNotDir = fs.ErrNotExist

// errLinkLoop has no code of its own here; package atomicfile counts, too.
var errLinkLoop = errors.New("too many links")
