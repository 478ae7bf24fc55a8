package process

import (
	"net"

	"golang.org/x/sys/unix"
)

// PeerOf is who is at the other end of a unix socket, by the kernel's word at the time of connect.
func PeerOf(conn *net.UnixConn) (Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) {
		cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil {
		return Peer{}, err
	}
	if inner != nil {
		return Peer{}, inner
	}
	return Peer{UID: int(cred.Uid), Pid: int(cred.Pid)}, nil
}
