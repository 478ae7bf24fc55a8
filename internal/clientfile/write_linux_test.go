package clientfile

import (
	"os"
	"syscall"
)

// readOnly mounts a directory once more, read-only; without the right to it the mode has to do.
func (h *house) readOnly(dir string) {
	h.t.Helper()
	if os.Geteuid() != 0 {
		if err := os.Chmod(dir, 0o500); err != nil {
			h.t.Fatal(err)
		}
		h.t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		return
	}
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
		h.t.Skipf("skip: read-only disk: no mounts: %v", err)
	}
	h.t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			h.t.Error(err)
		}
	})
	if err := syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		h.t.Fatal(err)
	}
}
