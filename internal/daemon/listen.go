package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
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
		holder = fmt.Sprintf("%s (pid %d)%s", name, pid, homeOf(pid, name))
	}
	return nil, fault.New(fault.Unavailable, "port-in-use").Saying("%s is in use by %s", address, holder).
		Hinting("stop it, or choose another port: `mcpx daemon start --listen 127.0.0.1:PORT`, port 0 for any free one (to keep it, set listener.address in mcpx.toml)")
}

// homeOf says whose daemon holds a port when it is another mcpx, as far as the system shows its environment.
func homeOf(pid int, name string) string {
	if name != "mcpx" {
		return ""
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return "" // of another user, gone, or another system
	}
	variables := map[string]string{}
	for pair := range strings.SplitSeq(string(environ), "\x00") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			variables[name] = value
		}
	}
	if home := variables["MCPX_HOME"]; home != "" {
		return " of MCPX_HOME=" + home
	}
	return " without MCPX_HOME"
}

// Rehearse says why a daemon with the flag listen ("" none) could not start in the place of the one that has the address
// running ("" none). It changes nothing.
func Rehearse(paths api.Paths, getenv func(string) string, listen, running string) error {
	settings, err := LoadSettings(paths.Settings(), getenv)
	if err != nil {
		return err
	}
	if listen != "" {
		if err := settings.Override("listener.address", "--listen", listen); err != nil {
			return err
		}
	}
	if sameAddress(settings.ListenerAddress, running) {
		return nil // it will be free
	}
	l, err := listenLoopback(settings.ListenerAddress)
	if err != nil {
		return err
	}
	return l.Close()
}

// CheckListen says what is wrong with the value of --listen.
func CheckListen(address string) error {
	return new(Settings{origin: map[string]Origin{}}).Override("listener.address", "--listen", address)
}

// Serves says whether a daemon that listens at listener is what was asked for with the address wanted: port 0 is any.
func Serves(listener, wanted string) bool {
	host, port, err := net.SplitHostPort(wanted)
	if err == nil && port == "0" {
		_, port, _ = net.SplitHostPort(listener) // without one it compares as different
		wanted = net.JoinHostPort(host, port)
	}
	return sameAddress(listener, wanted)
}

// sameAddress compares two addresses; localhost is the first address of its name, as for a listener.
func sameAddress(a, b string) bool {
	one, errOne := net.ResolveTCPAddr("tcp", a)
	two, errTwo := net.ResolveTCPAddr("tcp", b)
	return errOne == nil && errTwo == nil && one.Port == two.Port && one.IP.Equal(two.IP)
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
	// Whoever holds the lock removes the file: a daemon that lets go closes the listener and leaves it.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	// The directory is 0700, so nobody else could connect before the mode is set.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fault.New(fault.Unavailable, "socket-failed").Saying("cannot set the mode of %s", path).Because(err), l.Close())
	}
	return l, nil
}
