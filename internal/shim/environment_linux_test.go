package shim_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// nobody is a user that is not us.
const nobody = 65534

// asNobody runs f on a thread that has another user. The thread ends with it.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	const keep = ^uintptr(0)
	done := make(chan syscall.Errno)
	go func() {
		runtime.LockOSThread() // never unlocked, so nothing else ever runs as that user
		_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, nobody, keep)
		if errno == 0 {
			f()
		}
		done <- errno
	}()
	if errno := <-done; errno != 0 {
		t.Skip("no other user can be had here: ", errno)
	}
}

// TestOtherUser connects to a supervisor as somebody else, through directories and a socket that are open to all (S18).
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	h := newHome(t, nil)
	l, s, id := h.start(t)
	do(t, l, s, 1, "where", "", nil)
	socket := h.socket(t, id)
	for dir := filepath.Dir(socket); strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Errorf("another user could not even connect: %v", err)
			return
		}
		defer c.Close()
		if b, err := io.ReadAll(c); len(b) != 0 || err != nil {
			t.Errorf("another user got %q, %v; want a connection that is closed at once", b, err)
		}
		if _, err := os.ReadDir(filepath.Join(h.state, "bundles")); err == nil {
			t.Error("another user can look into the bundles")
		}
	})
	do(t, l, s, 2, "where", "", nil)
}
