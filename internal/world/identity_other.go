//go:build !unix

package world

import (
	"fmt"
	"os"
)

type fileID struct{}

func idOf(os.FileInfo) (fileID, bool) { return fileID{}, false }

func linkCount(os.FileInfo) uint64 { return 1 }

func identityOf(info os.FileInfo) string {
	return fmt.Sprintf("%d:%d", info.Size(), info.ModTime().UnixNano())
}

// mayWrite is true where it is not known: no daemon runs there.
func mayWrite(string) bool { return true }
