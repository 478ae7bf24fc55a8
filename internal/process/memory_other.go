//go:build !linux

package process

// MemoryOf cannot tell on this system without a debugger's rights.
func MemoryOf(int) (Memory, error) { return Memory{}, ErrUnknown }
