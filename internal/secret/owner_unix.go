//go:build unix

package secret

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByUs: a file of another user may be exchanged by him, whatever its mode. Root's files are as good as ours.
func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(st.Uid) == os.Geteuid() || st.Uid == 0)
}
