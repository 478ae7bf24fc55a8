//go:build !unix

package clientfile

import "io/fs"

// errNotDir has no code of its own here.
var errNotDir = fs.ErrNotExist
