package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data (seccomp(2)). Arguments have 64 bits; the low half comes first on the machines we filter on.
const (
	offsetCall = 0
	offsetArch = 4
	offsetArgs = 16
)

// flagCalls change the attributes of a file through a descriptor that may only be read from: FS_IOC_SETFLAGS,
// FS_IOC32_SETFLAGS and FS_IOC_FSSETXATTR.
var flagCalls = []uint32{0x40086602, 0x40046602, 0x401c5820}

// program is a filter that is put together: calls that are refused fail with EPERM.
type program struct{ code []unix.SockFilter }

func (p *program) add(code uint16, k uint32) {
	p.code = append(p.code, unix.SockFilter{Code: code, K: k})
}

// load reads one word of the call.
func (p *program) load(offset uint32) { p.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset) }

// refuse ends the filter for the word k.
func (p *program) refuse(k uint32) { p.refuseWith(k, unix.EPERM) }

func (p *program) refuseWith(k uint32, errno unix.Errno) {
	p.code = append(p.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: 1})
	p.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(errno))
}

// allow ends the filter for the word k.
func (p *program) allow(k uint32) {
	p.code = append(p.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: 1})
	p.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW)
}

// when makes the filter of inside, which has to end, count for one call.
func (p *program) when(call uint32, inside func(*program)) {
	var in program
	inside(&in)
	p.code = append(p.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: uint8(len(in.code))})
	p.code = append(p.code, in.code...)
}

// filterCalls puts a filter on the calling thread.
func filterCalls(c confinement) error {
	if auditArch == 0 {
		return fmt.Errorf("system calls of %s are not known here", runtime.GOARCH)
	}
	code := filterFor(c)
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return errno
	}
	return nil
}

func filterFor(c confinement) []unix.SockFilter {
	var p program
	// Calls of another machine's table have other numbers: none of them is let through.
	p.load(offsetArch)
	p.code = append(p.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: auditArch, Jt: 1})
	p.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM))
	p.load(offsetCall)
	if secondTable != 0 {
		p.code = append(p.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: secondTable, Jf: 1})
		p.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM))
	}
	// A ring makes calls that no filter sees, and keys belong to the user, not to the command.
	for _, call := range []uint32{unix.SYS_IO_URING_SETUP, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL} {
		p.refuse(call)
	}
	if c.Metadata {
		for _, call := range metadataCalls {
			p.refuse(call)
		}
		p.when(unix.SYS_IOCTL, func(in *program) {
			in.load(offsetArgs + 8)
			for _, flag := range flagCalls {
				in.refuse(flag)
			}
			in.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW)
		})
	}
	p.when(unix.SYS_SOCKET, func(in *program) {
		in.load(offsetArgs)
		if c.Sockets == socketsInet {
			for _, family := range []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
				in.allow(family)
			}
		}
		in.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(unix.EACCES))
	})
	p.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW)
	return p.code
}

// commonMetadataCalls change modes, owners, times and extended attributes on every machine.
var commonMetadataCalls = []uint32{
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR,
}
