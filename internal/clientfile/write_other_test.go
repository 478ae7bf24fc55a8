//go:build !linux

package clientfile

import (
	"os"
	"runtime"
)

// readOnly takes the right to write away.
func (h *house) readOnly(dir string) {
	h.t.Helper()
	if runtime.GOOS == "windows" || os.Geteuid() == 0 {
		h.t.Skip("skip: read-only disk: modes do not count here")
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
}
