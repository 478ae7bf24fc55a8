//go:build unix

package world

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// fileID is a file, whatever it is called.
type fileID struct{ device, inode uint64 }

func idOf(info os.FileInfo) (fileID, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, false
	}
	return fileID{uint64(st.Dev), st.Ino}, true //nolint:unconvert // the type of a device number differs between systems
}

func linkCount(info os.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 1
	}
	return uint64(st.Nlink) //nolint:unconvert // as in idOf
}

// identityOf changes when another file or other bytes would be started. The time of the change of the inode cannot be set by
// who writes.
func identityOf(info os.FileInfo) string {
	id, _ := idOf(info)
	return fmt.Sprintf("%d:%d:%d:%d:%s", id.device, id.inode, info.Size(), info.ModTime().UnixNano(), changed(info))
}

// systemDirs are changed by root alone. Root itself changes them when it installs, and its commands without a sandbox could:
// that a program lies there still says who put it there.
var systemDirs = []string{"/bin", "/sbin", "/usr", "/lib", "/etc"}

// mayWrite tells that this user can change a file or directory.
func mayWrite(path string) bool {
	if os.Geteuid() == 0 && inAny(path, systemDirs) {
		return false
	}
	const write = 2 // W_OK of access(2)
	return strings.HasPrefix(path, "/") && syscall.Access(path, write) == nil
}
