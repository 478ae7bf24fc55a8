package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/process"
)

// listenLoopback opens the loopback listener. A port that is in use is an error that names the holder: the
// configuration of agents contains the address, so another port would not be found by them.
func listenLoopback(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return nil, fault.New(fault.Unavailable, "listen-failed").Saying("cannot listen on %s", address).
			Hinting("choose another address with --listen 127.0.0.1:PORT").Because(err)
	}
	holder := "another process"
	if pid, name, ok := process.PortHolder(address); ok {
		holder = fmt.Sprintf("%s (pid %d)", name, pid)
	}
	return nil, fault.New(fault.Unavailable, "port-in-use").Saying("%s is in use by %s", address, holder).
		Hinting("stop it, or choose another port with --listen 127.0.0.1:PORT (to keep it, set listener.address in mcpx.toml)")
}

// listenSocket opens the unix socket. Only the holder of the owner lock comes here, so what lies in its place is left
// over from a daemon that was killed.
func listenSocket(paths api.Paths) (net.Listener, error) {
	path := paths.Socket()
	if err := api.MakePrivate(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fault.New(fault.Unavailable, "socket-failed").Saying("the old socket %s cannot be removed", path).Because(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "socket-failed").Saying("cannot listen on %s", path).Because(err)
	}
	// The directory is 0700, so nobody else could connect before the mode is set.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fault.New(fault.Unavailable, "socket-failed").Saying("cannot set the mode of %s", path).Because(err), l.Close())
	}
	return l, nil
}
