//go:build unix

package api

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// privateRuntime is a short directory that only this user can write to. Its users make it with MakePrivate, which
// refuses a directory that somebody else put there first.
func privateRuntime(getenv func(string) string) string {
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && len(dir) < maxSocketPath/2 {
		return filepath.Join(dir, "mcpx")
	}
	return filepath.Join("/tmp", "mcpx-"+strconv.Itoa(os.Geteuid()))
}
