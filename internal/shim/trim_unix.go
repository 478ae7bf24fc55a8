//go:build unix && !linux

package shim

// dropCode does nothing here: the system shares code pages and counts them differently.
func dropCode() {}
