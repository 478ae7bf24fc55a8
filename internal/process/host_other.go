//go:build !linux && !darwin

package process

// HostMemory is how much memory the machine has, in bytes, as its own tools tell it.
func HostMemory() (int64, error) { return 0, ErrUnknown }

// HostRelease is the release of the kernel.
func HostRelease() (string, error) { return "", ErrUnknown }
