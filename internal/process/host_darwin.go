package process

import "golang.org/x/sys/unix"

// HostMemory is how much memory the machine has, in bytes, as its own tools tell it.
func HostMemory() (int64, error) {
	n, err := unix.SysctlUint64("hw.memsize")
	return int64(n), err
}

// HostRelease is the release of the kernel.
func HostRelease() (string, error) { return unix.Sysctl("kern.osrelease") }
