package sandbox

import (
	"slices"

	"golang.org/x/sys/unix"
)

const (
	auditArch   = unix.AUDIT_ARCH_X86_64
	secondTable = 0x40000000 // calls of x32 begin here
)

var metadataCalls = append(slices.Clone(commonMetadataCalls),
	unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT)
