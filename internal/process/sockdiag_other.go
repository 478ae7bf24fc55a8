//go:build !linux

package process

import "net"

// PeerUID cannot tell on this system: callers fall back to a token.
func PeerUID(net.Conn) (int, error) { return 0, ErrUnknown }

// PortHolder cannot tell on this system.
func PortHolder(string) (pid int, name string, ok bool) { return 0, "", false }
