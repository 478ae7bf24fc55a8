//go:build !unix

package atomicfile

import "os"

func lockWait(f *os.File) error { return lock(f) }
