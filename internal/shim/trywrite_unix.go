//go:build unix

package shim

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryWrite writes what a non-blocking descriptor takes now.
func tryWrite(raw syscall.RawConn, b []byte) (n int, err error) {
	var inner error
	err = raw.Write(func(fd uintptr) bool {
		for {
			n, inner = unix.Write(int(fd), b)
			if !errors.Is(inner, unix.EINTR) {
				return true // true also for EAGAIN: the caller does not wait here
			}
		}
	})
	if err != nil {
		return 0, err
	}
	if errors.Is(inner, unix.EAGAIN) {
		return 0, nil
	}
	return max(n, 0), inner
}

// removeSocket deletes the name of a socket whose owner is dead.
func removeSocket(path string) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		_ = os.Remove(path) // a stale socket harms nobody: its name is never used again
	}
}
