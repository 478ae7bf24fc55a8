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
	var peer Peer
	var inner error
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Xucred
		if cred, inner = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED); inner != nil {
			return
		}
		peer.UID = int(cred.Uid)
		peer.Pid, inner = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	})
	if err != nil {
		return Peer{}, err
	}
	return peer, inner
}
