package process

// Peer is the process at the other end of a unix socket.
type Peer struct {
	UID int
	Pid int
}
