package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch   = unix.AUDIT_ARCH_AARCH64
	secondTable = 0
)

var metadataCalls = commonMetadataCalls
