package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// States of a TCP socket in the kernel's numbering (include/net/tcp_states.h).
const (
	tcpEstablished = 1
	tcpFinWait1    = 4
	tcpCloseWait   = 8
	tcpListen      = 10
)

// Layout of struct inet_diag_req_v2 and struct inet_diag_msg (include/uapi/linux/inet_diag.h).
const (
	diagReqLen = 56
	diagMsgLen = 72
	diagStates = 4  // request: u32 mask of states
	diagID     = 8  // request: struct inet_diag_sockid
	diagMsgID  = 4  // answer: struct inet_diag_sockid
	diagUID    = 64 // answer: u32
	diagInode  = 68 // answer: u32
)

// diagSock is one socket of the kernel's table.
type diagSock struct {
	state         byte
	local, remote netip.AddrPort
	uid           uint32
	inode         uint32 // 0: no process has it any more
}

// PeerUID is the user whose socket is the other end of a loopback TCP connection, by the kernel's socket table. It
// returns ErrUnknown when the peer is not on this machine or its socket is gone.
func PeerUID(conn net.Conn) (int, error) {
	local, err := addrPort(conn.LocalAddr())
	if err != nil {
		return 0, err
	}
	remote, err := addrPort(conn.RemoteAddr())
	if err != nil {
		return 0, err
	}
	if !local.Addr().IsLoopback() || !remote.Addr().IsLoopback() {
		return 0, fmt.Errorf("%s is not a loopback peer: %w", remote, ErrUnknown)
	}
	// The peer's own socket is the mirror image of ours.
	want := diagSock{local: remote, remote: local}
	found, err := sockDiag(want, 1<<tcpEstablished|1<<tcpFinWait1|1<<tcpCloseWait, false)
	if err != nil {
		return 0, err
	}
	for _, s := range found {
		// An exact question falls back to a listener of that port, and a socket in time-wait shows user 0: neither
		// is the peer. TestPeerUID/closed fails without the inode.
		live := s.state == tcpEstablished || s.state == tcpFinWait1 || s.state == tcpCloseWait
		if s.local == want.local && s.remote == want.remote && live && s.inode != 0 {
			return int(s.uid), nil
		}
	}
	return 0, ErrUnknown
}

// PortHolder is the process that listens on the TCP port of addr ("host:port"), as far as our rights allow to see.
func PortHolder(addr string) (pid int, name string, ok bool) {
	_, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, "", false
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return 0, "", false
	}
	inodes := map[string]bool{}
	for _, any := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		all := diagSock{local: netip.AddrPortFrom(any, 0), remote: netip.AddrPortFrom(any, 0)}
		found, err := sockDiag(all, 1<<tcpListen, true)
		if err != nil {
			continue // for example no IPv6 here
		}
		for _, s := range found {
			if s.state == tcpListen && s.local.Port() == uint16(port) {
				inodes["socket:["+strconv.FormatUint(uint64(s.inode), 10)+"]"] = true
			}
		}
	}
	if len(inodes) == 0 {
		return 0, "", false
	}
	return holderOf(inodes)
}

// holderOf finds a process that has one of the descriptors open.
func holderOf(links map[string]bool) (pid int, name string, ok bool) {
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/[0-9]*") // the pattern is good; other users' directories are left out
	for _, fd := range fds {
		if link, err := os.Readlink(fd); err != nil || !links[link] {
			continue
		}
		dir := filepath.Dir(filepath.Dir(fd))
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		comm, _ := os.ReadFile(filepath.Join(dir, "comm")) // a name is nice to have
		return pid, strings.TrimSpace(string(comm)), true
	}
	return 0, "", false
}

func addrPort(a net.Addr) (netip.AddrPort, error) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%v is no TCP address: %w", a, ErrUnknown)
	}
	ap := tcp.AddrPort()
	// An IPv4 peer of a dual-stack listener appears as a mapped address; the table has it as IPv4.
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port()), nil
}

// sockDiag asks for one socket, or with dump for all in the states of the mask.
func sockDiag(s diagSock, states uint32, dump bool) ([]diagSock, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }() // only read; nothing to lose
	// The kernel answers inside sendto; a limit guards a server thread against a kernel that does not.
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
	if err := unix.Sendto(fd, diagRequest(s, states, dump), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	var found []diagSock
	buf := make([]byte, 32<<10) // the size in which the kernel cuts a dump
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return nil, os.NewSyscallError("recvfrom", err)
		}
		more, err := parseDiag(buf[:n], &found)
		if err != nil || !more || !dump {
			return found, err
		}
	}
}

func diagRequest(s diagSock, states uint32, dump bool) []byte {
	b := make([]byte, unix.SizeofNlMsghdr+diagReqLen)
	ne := binary.NativeEndian
	ne.PutUint32(b[0:], uint32(len(b)))
	ne.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	flags := uint16(unix.NLM_F_REQUEST)
	if dump {
		flags |= unix.NLM_F_DUMP
	}
	ne.PutUint16(b[6:], flags)
	req := b[unix.SizeofNlMsghdr:]
	req[0] = unix.AF_INET
	if s.local.Addr().Is6() {
		req[0] = unix.AF_INET6
	}
	req[1] = unix.IPPROTO_TCP
	ne.PutUint32(req[diagStates:], states)
	id := req[diagID:]
	binary.BigEndian.PutUint16(id[0:], s.local.Port())
	binary.BigEndian.PutUint16(id[2:], s.remote.Port())
	copy(id[4:20], s.local.Addr().AsSlice())
	copy(id[20:36], s.remote.Addr().AsSlice())
	ne.PutUint64(id[40:], ^uint64(0)) // no cookie
	return b
}

// parseDiag appends the sockets of one netlink datagram; more says that the dump goes on.
func parseDiag(b []byte, found *[]diagSock) (more bool, err error) {
	ne := binary.NativeEndian
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(ne.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return false, errors.New("sock_diag: a message is cut off")
		}
		body := b[unix.SizeofNlMsghdr:size]
		switch ne.Uint16(b[4:]) {
		case unix.NLMSG_DONE:
			return false, nil
		case unix.NLMSG_ERROR:
			return false, diagError(body)
		case unix.SOCK_DIAG_BY_FAMILY:
			if s, ok := parseDiagMsg(body); ok {
				*found = append(*found, s)
			}
		}
		b = b[min(len(b), (size+3)&^3):] // messages are aligned to four bytes
	}
	return true, nil
}

func diagError(body []byte) error {
	if len(body) < 4 {
		return errors.New("sock_diag: an error without a number")
	}
	errno := unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
	if errno == 0 || errno == unix.ENOENT {
		return nil // no such socket: an empty answer
	}
	return os.NewSyscallError("sock_diag", errno)
}

func parseDiagMsg(b []byte) (diagSock, bool) {
	if len(b) < diagMsgLen {
		return diagSock{}, false
	}
	id := b[diagMsgID:]
	addr := func(at int) netip.Addr {
		if b[0] == unix.AF_INET6 {
			return netip.AddrFrom16([16]byte(id[at : at+16])).Unmap()
		}
		return netip.AddrFrom4([4]byte(id[at : at+4]))
	}
	return diagSock{
		state:  b[1],
		local:  netip.AddrPortFrom(addr(4), binary.BigEndian.Uint16(id[0:])),
		remote: netip.AddrPortFrom(addr(20), binary.BigEndian.Uint16(id[2:])),
		uid:    binary.NativeEndian.Uint32(b[diagUID:]),
		inode:  binary.NativeEndian.Uint32(b[diagInode:]),
	}, true
}
