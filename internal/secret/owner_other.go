//go:build !unix

package secret

import "io/fs"

// ownedByUs: without unix owners the access list of the file has decided already.
func ownedByUs(fs.FileInfo) bool { return true }
