package api

import (
	"io/fs"
	"path/filepath"
)

// ownedByUs is decided by the access list of the user's profile on this system.
func ownedByUs(fs.FileInfo) bool { return true }

// privateRuntime is the temporary directory of the user.
func privateRuntime(getenv func(string) string) string {
	return filepath.Join(getenv("TEMP"), "mcpx")
}
