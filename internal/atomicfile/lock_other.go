//go:build !unix

package atomicfile

import (
	"errors"
	"os"
)

const noFollow = 0

// lock refuses: there is no daemon on this platform, so nothing may own a directory.
func lock(*os.File) error { return errors.ErrUnsupported }
